/* SPDX-License-Identifier: MIT-0 */
/* rt_out.h: what a run writes beside its checkpoints: lines on stdout, and the files that
 * flags name. */
#ifndef RT_OUT_H
#define RT_OUT_H

#include "job/rt_job.h"

#include <limits.h>

/* ---- rt_stdout.c ----------------------------------------------------------------- */

void rt_stdout_begin(void); /* of the rank that prints */
/* Sends off what was printed. False: nobody takes it; that was said, once, and training
 * goes on without those lines. */
bool rt_stdout_flush(Rt *rt);
/* Of a line that a run was asked for: without it the run fails, and `text` is said. */
void rt_stdout_result(Rt *rt, const char *text);
/* Of a command that only prints: its exit code, or that of what it could not print. */
int rt_stdout_close(int code);

/* ---- rt_outputs.c ---------------------------------------------------------------- */

/* Of the first rank, before anything is computed: may --log, --stats and their like be
 * written where the flags say? The run ends where one may not. */
void rt_outputs_check(Rt *rt);
/* Without a run: tells of each that may not. How many flags name one. */
int rt_outputs_try(const RtFlags *f, void (*tell)(void *ctx, const char *why), void *ctx);
/* With --force either: nothing that the run reads is written over. Of what the flags name;
 * of a file that --FLAG reads. */
void rt_outputs_spare(const Rt *rt);
void rt_outputs_spare_file(const Rt *rt, const char *flag, uint64_t device,
                           uint64_t inode);

/* A device or a pipe; a line says that a pipe has no reader yet. Null with errno. */
FILE *rt_output_stream(const char *path);
/* A file that is written whole: it gets its name when it is complete and on the disk.
 * What has come to that name since rt_outputs_check stays if it is not the flag's: errno
 * is EEXIST then, a line says so, and the part remains. */
typedef struct RtOutput {
    FILE *f;
    const char *begins;  /* as which the flag's files do; null: any file is replaced */
    char part[PATH_MAX]; /* its name until then; empty: it is a device or a pipe */
    char path[PATH_MAX];
} RtOutput;
const char *rt_output_begins(const Rt *rt, const char *flag); /* null with --force */
bool rt_output_begin(RtOutput *o, const char *path, const char *begins); /* or errno */
bool rt_output_end(RtOutput *o);                                         /* the same */

/* A file that a run was asked for is not whole: the run fails with that in its end, when
 * everything else is done. */
void rt_output_lost(Rt *rt, const char *flag, const char *path);

#endif
