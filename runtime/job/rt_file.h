/* SPDX-License-Identifier: MIT-0 */
/* rt_file.h: files of checkpoints, caches and data: system calls with messages (rt_file.c), and
 * JSON (rt_json.c). */
#ifndef RT_FILE_H
#define RT_FILE_H

#include "job/rt_job.h"

enum {
    RT_PATH_BYTES = 512, /* of the folder of checkpoints and a file in it */
    RT_NAME_BYTES = 64   /* of a file in a checkpoint */
};

/* ---- rt_json.c: values in order, nothing else is accepted ------------------------ */

typedef struct RtJson {
    const char *at, *end;
    bool failed;
} RtJson;
/* Steps into `{` or `[`; then item says whether another one follows: false at its end,
 * which it steps over, and after a failure. */
bool rt_json_open(RtJson *j, char bracket);
bool rt_json_item(RtJson *j, char close, bool *first);
bool rt_json_key(RtJson *j, char *out, size_t bytes); /* "key": */
bool rt_json_text(RtJson *j, char *out, size_t bytes);
bool rt_json_int(RtJson *j, int64_t *out);
bool rt_json_hash(RtJson *j, uint64_t *out); /* 16 hex digits, in quotes */
bool rt_json_skip(RtJson *j); /* any value */
bool rt_json_done(RtJson *j); /* nothing but blanks is left, nothing failed */
void rt_json_put(FILE *f, const char *text); /* writes a string */
/* Writes the shortest number that reads back as x; null where JSON has no word for it. */
void rt_json_number(FILE *f, double x);

/* ---- rt_file.c ------------------------------------------------------------------- */

/* False, and a message in error[RT_ERROR_BYTES], when a call fails. */

bool rt_file_error(char *error, const char *call, const char *path);
/* Is the last error, since it was forgotten, one of this process or machine, like EMFILE,
 * that says nothing about the file? */
bool rt_file_error_is_here(void);
void rt_file_error_here(void); /* such a one, told in words of the caller's */
/* Is it one of a folder where this process may not write? */
bool rt_file_error_is_denied(void);
void rt_file_forget_error(void);
int rt_file_open(const char *path, int flags, char *error); /* -1: it failed */
bool rt_file_write(int fd, const char *path, const void *data, int64_t bytes, int64_t at,
                   char *error);
bool rt_file_read(int fd, const char *path, void *data, int64_t bytes, int64_t at,
                  char *error);
/* Its length becomes so many bytes. */
bool rt_file_extend(int fd, const char *path, int64_t bytes, char *error);
/* The disk may begin with what was written there, which a later fsync would wait for; it
 * promises nothing. */
void rt_file_write_back(int fd, int64_t at, int64_t bytes);
/* Durable, and closed. */
bool rt_file_finish(int fd, const char *path, char *error);
bool rt_file_sync_folder(const char *path, char *error);
bool rt_file_make_folder(const char *path, char *error); /* with those above it */
bool rt_file_remove_tree(const char *path, char *error);
bool rt_file_clean(const char *dir, char *error); /* of saves that were cut short */
bool rt_file_is_rest(const char *name);           /* what that removes */
/* All of a file of at most `most` bytes, then a zero byte; the caller frees it. */
char *rt_file_load(const char *path, int64_t most, int64_t *bytes, char *error);
/* Steps of DIR/step-%08d, largest first; -1: it cannot be read. The caller frees them. */
int rt_file_steps(const char *dir, int64_t **steps, char *error);
int64_t rt_file_step_of(const char *path); /* that its name says; -1: none */
/* A step's folder: DIR/PREFIXstep-00000012, "" the final one. False: too long. */
bool rt_file_step_path(char *path, const char *dir, const char *prefix, int64_t step);

#endif
