/* SPDX-License-Identifier: MIT-0 */
/* rt_out.h: what a run writes apart from its checkpoints: lines on stdout, and the files that flags
 * name. */
#ifndef RT_OUT_H
#define RT_OUT_H

#include "job/rt_job.h"
#include "job/rt_text.h"

#include <limits.h>

/* ---- rt_stdout.c ----------------------------------------------------------------- */

void rt_stdout_begin(void); /* for the rank that prints */
/* Sends what was printed. False: the reader accepts nothing; this is reported once, and training
 * continues without those lines. */
bool rt_stdout_flush(Rt *rt);
/* For a requested result: if it cannot be written the run fails, and `text` is printed. */
void rt_stdout_result(Rt *rt, const char *text);
/* For results that appear one by one: waits until the reader accepts them, even if that takes hours.
 * At most RT_SEND_BYTES, or the wait may be in a write, which looks like a stall. False with errno. */
enum { RT_SEND_BYTES = 4096 }; /* PIPE_BUF of Linux */
bool rt_stdout_send(Rt *rt);
/* For a command that only prints: its exit code, or an error's if the output failed. */
int rt_stdout_close(int code);

/* ---- rt_lines.c: a log that is not a regular file -------------------------------- */

typedef struct RtLines RtLines;
/* Lines of the stream are dropped, with a warning, while its reader accepts nothing. NULL with
 * errno. The path and *lines live longer than the stream. */
FILE *rt_lines_open(Rt *rt, const char *path, RtLines **lines);
int64_t rt_lines_end(RtLines *l); /* after fclose: how many were dropped */
/* Sends to a device or a pipe that rt_output_open opened; returns how many bytes were accepted before
 * its reader accepted nothing for ten seconds (waits = false: at all), or -1 with errno. */
ssize_t rt_stream_send(Rt *rt, int fd, const char *text, size_t bytes, bool waits);

/* ---- rt_outputs.c ---------------------------------------------------------------- */

/* For the first rank, before anything is computed: can --log, --stats and similar flags write where
 * they should? If not, the run ends. */
void rt_outputs_check(Rt *rt);
typedef void RtTell(void *ctx, const char *why);
void rt_outputs_fail(void *rt, const char *why); /* the first problem ends the run */
/* Without a run: reports each that cannot. Returns how many flags name a file. */
int rt_outputs_try(const RtFlags *f, RtTell *tell, void *ctx);
/* Even with --force, a file that the run reads is never overwritten: reports flags that name this
 * one, which --FLAG reads. */
void rt_outputs_spare(const RtFlags *f, const char *flag, uint64_t device, uint64_t inode,
                      RtTell *tell, void *ctx);
/* The file of algorithms, by --kernels or beside the trainer; or the file `beside` it. False: the
 * path is too long. */
bool rt_kernels_path(const RtFlags *f, const char *beside, char path[PATH_MAX]);
/* Is there no such file, or does it begin like that? Also an empty one, and a device or a pipe. */
bool rt_output_may_replace(const char *path, const char *begins);

/* Opens a device or a pipe, whose writes do not wait; says so if a pipe has no reader yet. -1 with
 * errno. */
int rt_output_open(const char *path);
/* A file written in one go gets its name when it is complete and on disk. If another program has
 * created that name since rt_outputs_check, its file stays: errno is EEXIST, a message says so, and
 * the part remains. */
typedef struct RtOutput {
    FILE *f;
    const char *begins;  /* how the flag's files start; NULL: any file may be replaced */
    char part[PATH_MAX]; /* its temporary name; empty: it is a device or a pipe */
    char path[PATH_MAX];
    int stream;  /* the device or pipe, */
    RtText text; /* and what it will get */
} RtOutput;
const char *rt_output_begins(const Rt *rt, const char *flag); /* NULL with --force */
bool rt_output_begin(RtOutput *o, const char *path, const char *begins); /* or errno */
bool rt_output_end(Rt *rt, RtOutput *o); /* the same; waits ten seconds for a pipe's reader */
const char *rt_output_reason(void);      /* text for errno, after either */

/* Records that a requested file is incomplete: the run fails at its end, after everything else. */
void rt_output_lost(Rt *rt, const char *flag, const char *path);

#endif
