/* SPDX-License-Identifier: Apache-2.0 */
/* child.h: running the generator in a process of its own (child.c, child_jail.c). */
#ifndef CHILD_H
#define CHILD_H

#include "base/base.h"

/* 0: no limit. */
typedef struct Limits {
    int64_t cpu_seconds, wall_seconds, memory_bytes, output_bytes; /* what it prints */
} Limits;

extern const Limits default_limits;

/* Runs work(g) in a child under limits; relays what it prints; fills the files of g
 * with what those of the child held. Returns an exit code of fsdpgen. */
int child_run(Gen *g, const Limits *limits, int (*work)(Gen *g));

/* The same for work whose results are a stream. */
typedef struct ChildWork {
    const char *what;  /* "the generator": of messages */
    const char *cause; /* what may be wrong when it runs too long: "is there a loop?" */
    void *with;
    int (*work)(Gen *g, void *with); /* in the child, which child_put()s */
    /* In the parent, with each stretch of what was put; false, after a message: the child
     * is stopped, and the exit code EXIT_DIAG. */
    bool (*take)(void *with, const char *s, size_t n);
} ChildWork;
int child_stream(Gen *g, const Limits *limits, const ChildWork *work);
void child_put(const void *data, size_t n);

/* child_jail.c: from now on this process and its threads open files to read them alone,
 * make none, and reach no network and no other process; as far as the system can. */
void child_jail(void);

/* In a folder that is being written lies this file (emit/files.h). */
#define MARK_NAME ".fsdpgen-unfinished"
#define MARK_TEXT "fsdpgen is writing this folder, or was stopped while it did"

#endif
