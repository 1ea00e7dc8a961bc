/* SPDX-License-Identifier: Apache-2.0 */
/* files.h: what files.c (what the folder contains and should contain) and files_put.c (writing it,
 * whole or marked) share. */
#ifndef FILES_H
#define FILES_H

#include "base/child.h"
#include "gen.h"

#include <sys/stat.h>

enum { MAX_NAME_BYTES = 200, MAX_FILE_BYTES = 256 << 20,
       MAX_LIST_BYTES = 1 << 20 }; /* of a manifest or a mark: a hundred times what is written */

/* A folder that is being written contains a mark, which is also the writer's lock: a line with hash
 * and path for every file to come. It is removed when the folder is complete, so a mark without a
 * lock means that a run was stopped. make and the trainer also look for this name: MARK_NAME of
 * base/child.h. */

typedef enum { ABSENT, REGULAR, OTHER } Kind;

/* One name that is generated now, was generated before, or both. */
typedef struct Entry {
    const char *path;
    const OutFile *now; /* NULL: no longer generated */
    struct {
        uint64_t *items;
        int count, cap;
    } ours; /* its hashes in the manifest and the mark: if it has one, we wrote it */
    bool begun; /* the mark names it, so a temporary file may lie beside it */
    Kind kind;  /* what lies there */
    uint64_t disk_hash;
    struct stat disk; /* of a regular file */
    bool same;        /* the existing content is what is generated */
    bool staged;      /* the new content is in a file beside it */
} Entry;

typedef struct Folder {
    Gen *g;
    const char *dir;
    int fd;   /* -1: the folder does not exist yet */
    int mark; /* -1: not locked */
    bool created, marked;
    const char *numerics; /* the hash that the folder's manifest has; NULL: none */
    bool mark_of_others; /* that file stays */
    size_t mark_bytes;   /* length of its complete lines; 0: no run was stopped here */
    struct {
        Entry *items;
        int count, cap;
    } entries;
    struct {
        const char **items;
        int count, cap;
    } made; /* folders in it that this run made, outer ones first */
    int errors;
} Folder;

/* files.c */
void folder_complain(Folder *f, const char *path, const char *help, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Opens the folder that contains path; *name is its last part. make: creates missing folders and
 * notes them in f->made. -1 with errno. */
int folder_parent(Folder *f, const char *path, bool make, const char **name);
bool folder_is_manifest(const Entry *e);
/* Is it still what was looked at? */
bool folder_is_unchanged(Folder *f, const Entry *e);

/* files_put.c */
bool folder_lock(Folder *f);  /* makes DIR and the mark if missing */
int folder_put(Folder *f);    /* needs the lock; returns an exit code */
void folder_leave(Folder *f); /* needs the lock; after nothing was put */
int folder_tell(const Folder *f, int written, int removed);

#endif
