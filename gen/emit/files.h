/* SPDX-License-Identifier: Apache-2.0 */
/* files.h: what files.c (what lies in the folder, and what should) and files_put.c
 * (putting it there, whole or marked) share. */
#ifndef FILES_H
#define FILES_H

#include "base/child.h"
#include "gen.h"

#include <sys/stat.h>

enum { MAX_NAME_BYTES = 200, MAX_FILE_BYTES = 256 << 20 };

/* In a folder that is being written lies a mark, also the lock of who writes it: the hash
 * and the path of every file that is to come, a line each. It goes when the folder is
 * whole, so a mark that is not locked says that someone was stopped. make and the
 * trainer look for it by this name, too: MARK_NAME of base/child.h. */

typedef enum { ABSENT, REGULAR, OTHER } Kind;

/* One name that is generated now, was generated before, or both. */
typedef struct Entry {
    const char *path;
    const OutFile *now; /* NULL: no longer generated */
    struct {
        uint64_t *items;
        int count, cap;
    } ours; /* hashes that the manifest and the mark give it: what has one, we wrote */
    bool begun; /* the mark names it, so a temporary file may lie beside it */
    Kind kind;  /* what lies there */
    uint64_t disk_hash;
    struct stat disk; /* of a regular file */
    bool same;        /* what lies there is what is generated */
    bool staged;      /* the new content lies beside it */
} Entry;

typedef struct Folder {
    Gen *g;
    const char *dir;
    int fd;   /* -1: there is no such folder yet */
    int mark; /* -1: not locked */
    bool created, marked;
    bool mark_of_others; /* that file stays */
    size_t mark_bytes;   /* of whole lines in the mark; 0: nobody was stopped here */
    struct {
        Entry *items;
        int count, cap;
    } entries;
    struct {
        const char **items;
        int count, cap;
    } made; /* folders in it, made by this run, outer ones first */
    int errors;
} Folder;

/* files.c */
void folder_complain(Folder *f, const char *path, const char *help, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Opens the folder that holds path; *name is its last part. make: folders that lack are
 * made, and noted in f->made. -1 with errno. */
int folder_parent(Folder *f, const char *path, bool make, const char **name);
bool folder_is_manifest(const Entry *e);
/* Does that lie there which was looked at? */
bool folder_is_unchanged(Folder *f, const Entry *e);

/* files_put.c */
bool folder_lock(Folder *f);  /* makes DIR and the mark where they lack */
int folder_put(Folder *f);    /* of a locked one; returns an exit code */
void folder_leave(Folder *f); /* of a locked one, of which nothing was put */
int folder_tell(const Folder *f, int written, int removed);

#endif
