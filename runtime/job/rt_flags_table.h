/* SPDX-License-Identifier: MIT-0 */
/* rt_flags_table.h: the form of the table of commands and flags (rt_flags_table.c). It drives the
 * parser and --help (rt_flags.c). The generator compiles it in too, for manual pages, completions
 * and the reference, so it depends on flags only, not on a trainer or a target.
 *
 * A new flag is one field of RtFlags and one row. */
#ifndef RT_FLAGS_TABLE_H
#define RT_FLAGS_TABLE_H

#include "rt_flags.h"

#include <stddef.h>

/* The value of a flag: how it is read, and what a shell completes after the flag. */
typedef enum {
    RT_FLAG_SWITCH, /* bool: no value */
    RT_FLAG_COUNT,  /* int64_t: a whole number */
    RT_FLAG_REAL,   /* double: a number */
    RT_FLAG_TIME,   /* double: seconds, or 90m */
    RT_FLAG_TEXT,   /* const char *: text, possibly empty */
    RT_FLAG_NAME,   /* const char *: a word that is not a path */
    RT_FLAG_FILE,   /* const char *: a path */
    RT_FLAG_DIR,
    RT_FLAG_DATA, /* a pattern of files, added to RtFlags.data */
    RT_FLAG_EVAL, /* the same, to RtFlags.eval */
    RT_FLAG_WHEN, /* int: auto, always or never, an RtColor */
    RT_FLAG_MUST  /* two bools, the second for =must */
} RtFlagKind;

/* Headings of --help, in order. */
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

/* What a trainer must be built for to have a group's flags; each includes the previous ones. */
typedef enum { RT_FOR_ALL, RT_FOR_CUDA, RT_FOR_NCCL } RtFlagTarget;
typedef struct RtFlagHeading {
    const char *title;
    RtFlagTarget target;
} RtFlagHeading;

/* A name may have several rows, with different texts for different commands. */
typedef struct RtFlag {
    RtFlagGroup group;
    const char *name, *value; /* value: as --help writes it; NULL: no value */
    const char *help;
    RtFlagKind kind;
    size_t at;         /* offset of its field in RtFlags */
    unsigned commands; /* commands that take it: bits 1 << RtCommand */
    double min, max;   /* of a number */
} RtFlag;

typedef struct RtCommandInfo {
    const char *name;  /* NULL: training, which has no name */
    const char *line;  /* what follows the name */
    const char *what;  /* what it does, in the third person */
    bool folder;       /* an argument names a folder */
    const char *exits; /* its exit codes, in lines */
} RtCommandInfo;

extern const RtFlagHeading rt_flag_headings[RT_GROUPS];
extern const RtFlag rt_flag_table[];
extern const int rt_flag_count;
extern const RtCommandInfo rt_command_table[RT_COMMANDS];

#endif
