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
    Rt rt; /* not started; has what it would have opened, for code that needs it */
    int64_t step; /* from which the run would resume */
    RtDryRow row[RT_DRY_ROWS];
    int n_rows, problems;
} RtDry;

void rt_dry_add(RtDry *d, const char *what, RtDryLevel level, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* rt_dry_folder.c: --checkpoint, --resume and --init. */
void rt_dry_folder(RtDry *d);

#endif
