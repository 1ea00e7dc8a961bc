/* SPDX-License-Identifier: MIT-0 */
/* rt_file.h: files of checkpoints, caches and data: system calls with messages (rt_file.c), and
 * JSON (rt_json.c). */
#ifndef RT_FILE_H
#define RT_FILE_H

#include "job/rt_job.h"

enum {
    RT_PATH_BYTES = 512, /* of the checkpoints' folder and a file in it */
    RT_NAME_BYTES = 64   /* of a file in a checkpoint */
};

/* ---- rt_json.c: values in order; anything else is an error ----------------------- */

typedef struct RtJson {
    const char *at, *end;
    bool failed;
} RtJson;
/* Enters `{` or `[`. Then item returns whether another one follows: false at the end, which it
 * passes, and after an error. */
bool rt_json_open(RtJson *j, char bracket);
bool rt_json_item(RtJson *j, char close, bool *first);
bool rt_json_key(RtJson *j, char *out, size_t bytes); /* "key": */
bool rt_json_text(RtJson *j, char *out, size_t bytes);
bool rt_json_int(RtJson *j, int64_t *out);
bool rt_json_hash(RtJson *j, uint64_t *out); /* 16 hex digits, in quotes */
bool rt_json_skip(RtJson *j); /* any value */
bool rt_json_done(RtJson *j); /* only blanks are left, and there was no error */
void rt_json_put(FILE *f, const char *text); /* writes a string */
/* Writes the shortest number that reads back as x; null where JSON has no word for it. */
void rt_json_number(FILE *f, double x);

/* ---- rt_file.c ------------------------------------------------------------------- */

/* False, and a message in error[RT_ERROR_BYTES], if a call fails. */

bool rt_file_error(char *error, const char *call, const char *path);
/* Is the last error (since it was cleared) about this process or machine, like EMFILE, rather than
 * about the file? */
bool rt_file_error_is_here(void);
void rt_file_error_here(void); /* records such an error, with the caller's message */
/* Is it about a folder where this process may not write? */
bool rt_file_error_is_denied(void);
/* Does it say that there is no such file? */
bool rt_file_error_is_missing(void);
void rt_file_forget_error(void);
int rt_file_open(const char *path, int flags, char *error); /* -1: error */
bool rt_file_write(int fd, const char *path, const void *data, int64_t bytes, int64_t at,
                   char *error);
bool rt_file_read(int fd, const char *path, void *data, int64_t bytes, int64_t at,
                  char *error);
/* Sets its length. */
bool rt_file_extend(int fd, const char *path, int64_t bytes, char *error);
/* Asks the disk to start writing this range, which a later fsync would wait for; guarantees
 * nothing. */
void rt_file_write_back(int fd, int64_t at, int64_t bytes);
/* Durable, and closed. */
bool rt_file_finish(int fd, const char *path, char *error);
bool rt_file_sync_folder(const char *path, char *error);
bool rt_file_make_folder(const char *path, char *error); /* with its parents */
bool rt_file_remove_tree(const char *path, char *error);
bool rt_file_clean(const char *dir, char *error); /* after interrupted saves */
bool rt_file_is_rest(const char *name);           /* that that removes */
/* A whole file of at most `most` bytes, followed by a zero byte; the caller frees it. */
char *rt_file_load(const char *path, int64_t most, int64_t *bytes, char *error);
/* The steps of DIR/step-%08d, largest first; -1: unreadable. The caller frees them. */
int rt_file_steps(const char *dir, int64_t **steps, char *error);
int64_t rt_file_step_of(const char *path); /* the step in its name; -1: none */
/* A file in the folder of this program. False: its folder is unknown, and path is the name. */
bool rt_file_beside_trainer(char *path, size_t bytes, const char *name);
/* A step's folder: DIR/PREFIXstep-00000012, "" the final one. False: too long. */
bool rt_file_step_path(char *path, const char *dir, const char *prefix, int64_t step);

#endif
