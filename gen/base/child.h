/* SPDX-License-Identifier: Apache-2.0 */
/* child.h: running the generator in a process of its own (child.c, child_jail.c). */
#ifndef CHILD_H
#define CHILD_H

#include "base/base.h"

/* 0: no limit. */
typedef struct Limits {
    int64_t cpu_seconds, wall_seconds, memory_bytes, output_bytes; /* what it may print */
} Limits;

extern const Limits default_limits;

/* Runs work(g) in a child under limits, relays its output, and copies its output files into g.
 * Returns an exit code of fsdpgen. */
int child_run(Gen *g, const Limits *limits, int (*work)(Gen *g));

/* The same for work whose results are a stream of bytes. */
typedef struct ChildWork {
    const char *what;  /* "the generator", for messages */
    const char *cause; /* what may be wrong if it runs too long: "is there a loop?" */
    void *with;
    int (*work)(Gen *g, void *with); /* runs in the child and calls child_put() */
    /* Called in the parent with each piece of the stream. On false, after a message, the child is
     * stopped and the exit code is EXIT_DIAG. */
    bool (*take)(void *with, const char *s, size_t n);
} ChildWork;
int child_stream(Gen *g, const Limits *limits, const ChildWork *work);
void child_put(const void *data, size_t n);
/* In such a child: runs work in a copy of the process as it stands, with processor time of its own,
 * and waits for it. What it puts goes to the parent of both; its stderr goes to `quiet`. */
int child_copy(Gen *g, const Limits *limits, const ChildWork *work, int quiet);

/* child_jail.c: from now on this process and its threads can open files only for reading, cannot
 * create files, and cannot reach the network or other processes, as far as the system can enforce
 * it. */
void child_jail(void);

/* A folder that is being written contains this file (emit/files.h). */
#define MARK_NAME ".fsdpgen-unfinished"
#define MARK_TEXT "fsdpgen is writing this folder, or was stopped while it did"

#endif
