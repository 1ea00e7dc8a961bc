/* SPDX-License-Identifier: MIT-0 */
/* rt_flags_table.h: the form of the table of commands and flags (rt_flags_table.c). It drives the
 * parser and --help (rt_flags.c); the generator compiles it in too, for manual pages, completions
 * and the reference. So it knows flags only, and nothing of a trainer or a target.
 *
 * A new flag is a field of RtFlags and one row. */
#ifndef RT_FLAGS_TABLE_H
#define RT_FLAGS_TABLE_H

#include "rt_flags.h"

#include <stddef.h>

/* What a flag takes: how its value is read, and what a shell completes behind it. */
typedef enum {
    RT_FLAG_SWITCH, /* bool: nothing */
    RT_FLAG_COUNT,  /* int64_t: a whole number */
    RT_FLAG_REAL,   /* double: a number */
    RT_FLAG_TIME,   /* double: seconds, or 90m */
    RT_FLAG_TEXT,   /* const char *: words, even none */
    RT_FLAG_NAME,   /* const char *: a word that is no path */
    RT_FLAG_FILE,   /* const char *: a path */
    RT_FLAG_DIR,
    RT_FLAG_DATA, /* a pattern of files, added to RtFlags.data */
    RT_FLAG_EVAL, /* the same, to RtFlags.eval */
    RT_FLAG_WHEN, /* int: auto, always or never, an RtColor */
    RT_FLAG_MUST  /* two bools, the second for =must */
} RtFlagKind;

/* Headings of --help, in this order. */
typedef enum {
    RT_GROUP_DATA,
    RT_GROUP_SCHEDULE,
    RT_GROUP_CHECKPOINTS,
    RT_GROUP_OUTPUT,
    RT_GROUP_LAUNCH,
    RT_GROUP_SAMPLING,
    RT_GROUP_GPU,
    RT_GROUP_GPUS,
    RT_GROUPS
} RtFlagGroup;

/* What a trainer must be built for to have the flags of a group; each includes those before. */
typedef enum { RT_FOR_ALL, RT_FOR_CUDA, RT_FOR_NCCL } RtFlagTarget;
typedef struct RtFlagHeading {
    const char *title;
    RtFlagTarget target;
} RtFlagHeading;

/* A name may have several rows, with other words for other commands. */
typedef struct RtFlag {
    RtFlagGroup group;
    const char *name, *value; /* value: as --help writes it; NULL: it takes none */
    const char *help;
    RtFlagKind kind;
    size_t at;         /* of its field in RtFlags */
    unsigned commands; /* those that take it: bits 1 << RtCommand */
    double min, max;   /* of a number */
} RtFlag;

typedef struct RtCommandInfo {
    const char *name;  /* NULL: training, which needs no word */
    const char *line;  /* what follows the name */
    const char *what;  /* it does, in the third person */
    bool folder;       /* a word names a folder */
    const char *exits; /* its exit codes, in lines */
} RtCommandInfo;

extern const RtFlagHeading rt_flag_headings[RT_GROUPS];
extern const RtFlag rt_flag_table[];
extern const int rt_flag_count;
extern const RtCommandInfo rt_command_table[RT_COMMANDS];

#endif
