/* SPDX-License-Identifier: Apache-2.0 */
/* child.h: running the generator in a process of its own (child.c), and the output folder
 * that the parent alone writes (files.c). */
#ifndef CHILD_H
#define CHILD_H

#include "gen.h"

typedef struct Limits {
    int64_t cpu_seconds, wall_seconds, memory_bytes, output_bytes;
} Limits;

extern const Limits default_limits;

/* Runs work(g) in a child under limits; relays what it prints; fills g->files with
 * what the child's g->files held. Returns an exit code of fsdpgen. */
int child_run(Gen *g, const Limits *limits, int (*work)(Gen *g));

/* Writes g->files to the folder g->opt.output, or with opt.check_drift only compares. */
int files_write(Gen *g);

#endif
