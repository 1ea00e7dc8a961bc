/* SPDX-License-Identifier: MIT-0 */
/* rt_dry.h: what the files of --dry-run share. */
#ifndef RT_DRY_H
#define RT_DRY_H

#include "checkpoint/rt_checkpoint.h"

typedef enum { RT_DRY_OK, RT_DRY_NOTE, RT_DRY_PROBLEM } RtDryLevel;

typedef struct RtDryRow {
    const char *what;
    RtDryLevel level;
    char text[RT_ERROR_BYTES];
} RtDryRow;

enum { RT_DRY_ROWS = 48 };

typedef struct RtDry {
    const RtTrainer *trainer;
    const RtFlags *flags;
    int ranks; /* that this machine starts */
    bool alone, starts;
    Rt rt; /* none: with what it would have opened, for who looks at that */
    int64_t step; /* that the run would go on from */
    RtDryRow row[RT_DRY_ROWS];
    int n_rows, problems;
} RtDry;

void rt_dry_add(RtDry *d, const char *what, RtDryLevel level, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* rt_dry_folder.c: --checkpoint, --resume and --init. */
void rt_dry_folder(RtDry *d);

#endif
