/* SPDX-License-Identifier: Apache-2.0 */
/* files.c: writes an emitted folder, in the parent process. In: g->files, which the
 * child made, one of them manifest.json with the hash of each other. Out: the folder,
 * or nothing of it: everything is looked at first, then staged beside its place, then
 * renamed.
 *
 * What lies there is told apart by the folder's old manifest. A file with the hash
 * written there is ours, and is replaced or, when no longer generated, removed. One
 * with another hash was edited by hand: refused, unless --force. A file the manifest
 * does not name is foreign: left alone, and never overwritten without --force.
 * Symbolic links are not followed. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_NAME_BYTES = 200, MAX_FILE_BYTES = 256 << 20 };
static const char manifest_name[] = "manifest.json";

typedef enum { ABSENT, REGULAR, OTHER } Kind;

/* One name that is generated now, was generated before, or both. */
typedef struct Entry {
    const char *path;
    const OutFile *now; /* NULL: no longer generated */
    bool had;           /* in the old manifest, */
    uint64_t old_hash;  /* with this hash */
    Kind kind;          /* what lies there */
    uint64_t disk_hash;
    bool same;    /* what lies there is what is generated */
    char *staged; /* temporary name beside it */
} Entry;

typedef struct Folder {
    Gen *g;
    const char *dir;
    int fd; /* -1: there is no such folder yet */
    bool created;
    struct {
        Entry *items;
        int count, cap;
    } entries;
    int errors;
} Folder;

static void complain(Folder *f, const char *path, const char *help, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void complain(Folder *f, const char *path, const char *help, const char *fmt, ...)
{
    va_list ap;
    const char *file = path ? gen_printf(f->g, "%s/%s", f->dir, path) : f->dir;

    va_start(ap, fmt);
    diag_add(f->g, DIAG_ERROR, (Pos){.file = file}, help, "%s",
             gen_vprintf(f->g, fmt, ap));
    va_end(ap);
    f->errors++;
}

/* Relative, of plain names: letters, digits and _ . - with no dot first, so no "..";
 * and the two dot files that an emitted folder has. */
static bool path_is_legal(const char *s)
{
    size_t n = 0;

    if (!strcmp(s, ".gitattributes") || !strcmp(s, ".gitignore"))
        return true;
    if (!*s || strlen(s) > MAX_NAME_BYTES)
        return false;
    for (;; s++) {
        bool word = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
                    (*s >= '0' && *s <= '9') || *s == '_' || *s == '-' ||
                    (*s == '.' && n > 0);

        if (word) {
            n++;
            continue;
        }
        if (n == 0 || (*s != '/' && *s != '\0'))
            return false;
        if (!*s)
            return true;
        n = 0;
    }
}

/* Opens the folder that holds path, made if asked; *name is its last part. -1 with
 * errno. */
static int open_parent(int root, const char *path, bool make, const char **name)
{
    int fd = fcntl(root, F_DUPFD_CLOEXEC, 0);
    const char *slash;

    while (fd >= 0 && (slash = strchr(path, '/'))) {
        char part[MAX_NAME_BYTES + 1];
        size_t n = (size_t)(slash - path);
        int next;

        memcpy(part, path, n);
        part[n] = '\0';
        if (make && mkdirat(fd, part, 0777) != 0 && errno != EEXIST)
            next = -1;
        else
            next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        n = (size_t)errno;
        close(fd);
        errno = (int)n;
        fd = next;
        path = slash + 1;
    }
    *name = path;
    return fd;
}

/* Reads a regular file; 0, or an errno: ENOENT absent, ELOOP a link, EINVAL another
 * kind. */
static int read_at(Folder *f, const char *path, const char **data, size_t *bytes)
{
    const char *name;
    struct stat st;
    int dir = open_parent(f->fd, path, false, &name), fd, e = 0;
    size_t n = 0;
    char *p = NULL;

    if (dir < 0)
        return errno;
    fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    e = fd < 0 ? errno : 0;
    close(dir);
    if (e)
        return e;
    if (fstat(fd, &st) != 0)
        e = errno;
    else if (!S_ISREG(st.st_mode))
        e = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
    else if (st.st_size > MAX_FILE_BYTES)
        e = EFBIG;
    else
        p = gen_alloc(f->g, (size_t)st.st_size + 1);
    while (!e && n < (size_t)st.st_size) {
        ssize_t got = read(fd, p + n, (size_t)st.st_size - n);

        if (got < 0 && errno != EINTR)
            e = errno;
        if (got == 0)
            break;
        if (got > 0)
            n += (size_t)got;
    }
    close(fd);
    *data = p;
    *bytes = n;
    return e;
}

/* ---- what there is, and what there should be --------------------------------------- */

static Entry *entry_of(Folder *f, const char *path)
{
    Entry *e;

    for (int i = 0; i < f->entries.count; i++)
        if (!strcmp(f->entries.items[i].path, path))
            return &f->entries.items[i];
    e = gen_push(f->g, &f->entries);
    e->path = path;
    return e;
}

static void read_manifest(Folder *f)
{
    const char *text, *path;
    size_t bytes;
    json_error_t error;
    json_t *root, *files, *value;
    int e = read_at(f, manifest_name, &text, &bytes);

    if (e == ENOENT)
        return;
    root = e ? NULL : json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    files = json_object_get(root, "files");
    if (!json_is_object(files)) {
        if (!f->g->opt.force)
            complain(f, manifest_name,
                     "remove it, or use --force if nothing in this folder was "
                     "edited",
                     "this is not a manifest of fsdpgen");
        json_decref(root);
        return;
    }
    json_object_foreach(files, path, value)
    {
        const char *hex = json_string_value(value);
        char *end = NULL;
        Entry *entry;

        if (!path_is_legal(path) || !hex || strlen(hex) != 16)
            continue; /* whoever wrote that, it names no file of ours */
        entry = entry_of(f, gen_strdup(f->g, path));
        entry->old_hash = strtoull(hex, &end, 16);
        entry->had = end && !*end;
    }
    json_decref(root);
}

static const char *kind_of_error(int e)
{
    switch (e) {
    case ELOOP:
        return "is a symbolic link, and links are not followed";
    case EISDIR:
        return "is a folder, where a file is generated";
    case ENOTDIR:
        return "lies below something that is not a folder";
    case EINVAL:
        return "is not a regular file";
    default:
        return strerror(e);
    }
}

static void look_at(Folder *f, Entry *entry)
{
    const char *data;
    size_t bytes;
    int e = f->fd < 0 ? ENOENT : read_at(f, entry->path, &data, &bytes);

    if (e == ENOENT) {
        entry->kind = ABSENT;
    } else if (e) {
        entry->kind = OTHER;
        if (entry->now || e != ENOTDIR)
            complain(f, entry->path, "move it away", "%s", kind_of_error(e));
    } else {
        entry->kind = REGULAR;
        entry->disk_hash = hash_bytes(data, bytes);
        entry->same = entry->now && entry->now->bytes == bytes &&
                      (!bytes || !memcmp(entry->now->data, data, bytes));
    }
}

/* The manifest carries no hash of itself; it is ours if it is a manifest at all. */
static bool is_manifest(const Entry *e)
{
    return !strcmp(e->path, manifest_name);
}

static void protect(Folder *f)
{
    for (int i = 0; i < f->entries.count; i++) {
        Entry *e = &f->entries.items[i];

        if (e->kind != REGULAR || e->same || is_manifest(e) || f->g->opt.force)
            continue;
        if (!e->had)
            complain(f, e->path, "move it away, or overwrite it with --force",
                     "fsdpgen did not write this file, and would overwrite it");
        else if (e->disk_hash != e->old_hash)
            complain(f, e->path,
                     e->now
                         ? "edit the description or a template instead, or overwrite the "
                           "edits with --force"
                         : "move it away, or remove it with --force",
                     e->now ? "this generated file was edited by hand"
                            : "this file is no longer generated, but was edited by hand");
    }
}

static void collect(Folder *f)
{
    for (int i = 0; i < f->g->files.count; i++) {
        const OutFile *o = &f->g->files.items[i];
        Entry *e;

        gen_require(path_is_legal(o->path), "the output file \"%s\"", o->path);
        e = entry_of(f, o->path);
        gen_require(!e->now, "two output files are named %s", o->path);
        e->now = o;
    }
    for (int i = 0; i < f->entries.count; i++)
        look_at(f, &f->entries.items[i]);
}

/* ---- --check ----------------------------------------------------------------------- */

static int report_drift(Folder *f)
{
    static const char help[] = "generate it again, with the options of its banner";

    if (f->fd < 0) {
        complain(f, NULL, help, "there is no such folder");
        return EXIT_DIAG;
    }
    for (int i = 0; i < f->entries.count; i++) {
        Entry *e = &f->entries.items[i];

        if (e->kind == OTHER)
            continue; /* told already */
        if (e->now && e->kind == ABSENT)
            complain(f, e->path, help, "is missing");
        else if (e->now && !e->same && e->had && e->disk_hash != e->old_hash)
            complain(f, e->path, help, "was edited by hand");
        else if (e->now && !e->same)
            complain(f, e->path, help, "differs from what is generated now");
        else if (!e->now && e->kind == REGULAR)
            complain(f, e->path, help, "is no longer generated");
    }
    return f->errors ? EXIT_DIAG : EXIT_DONE;
}

/* ---- writing ----------------------------------------------------------------------- */

static bool write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t put = write(fd, p, n);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        p += put;
        n -= (size_t)put;
    }
    return true;
}

/* Writes the new content beside its place. */
static bool stage(Folder *f, Entry *e)
{
    const char *name;
    char *staged;
    int dir = open_parent(f->fd, e->path, true, &name), fd = -1, error;

    if (dir < 0) {
        complain(f, e->path, NULL, "cannot make its folder: %s", strerror(errno));
        return false;
    }
    staged = gen_printf(f->g, ".%s.%ld.tmp", name, (long)getpid());
    fd = openat(dir, staged, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0)
        e->staged = staged;
    error = fd < 0 || !write_all(fd, e->now->data, e->now->bytes) ? errno : 0;
    if (fd >= 0 && close(fd) != 0 && !error)
        error = errno;
    close(dir);
    if (error)
        complain(f, e->path, NULL, "cannot write: %s", strerror(error));
    return !error;
}

static void unstage(Folder *f)
{
    for (int i = 0; i < f->entries.count; i++) {
        Entry *e = &f->entries.items[i];
        const char *name;
        int dir;

        if (!e->staged)
            continue;
        dir = open_parent(f->fd, e->path, false, &name);
        if (dir >= 0) {
            unlinkat(dir, e->staged, 0);
            close(dir);
        }
    }
}

static bool put_in_place(Folder *f, Entry *e)
{
    const char *name;
    int dir = open_parent(f->fd, e->path, false, &name);
    bool good = dir >= 0 && renameat(dir, e->staged, dir, name) == 0;

    if (!good)
        complain(f, e->path, NULL, "cannot put in place: %s", strerror(errno));
    else
        e->staged = NULL;
    if (dir >= 0)
        close(dir);
    return good;
}

/* Unlinks path as flags say; what is not there is gone. Returns 0 or why not. */
static int unlink_path(Folder *f, const char *path, int flags)
{
    const char *name;
    int dir = open_parent(f->fd, path, false, &name);
    int error = dir < 0 || unlinkat(dir, name, flags) != 0 ? errno : 0;

    if (dir >= 0)
        close(dir);
    return error == ENOENT || error == ENOTDIR ? 0 : error;
}

/* Removes a file that is no longer generated, and the folders it leaves empty. */
static void remove_stale(Folder *f, const Entry *e)
{
    char *path = gen_strdup(f->g, e->path), *slash;
    int error = unlink_path(f, path, 0);

    while (!error && (slash = strrchr(path, '/'))) {
        *slash = '\0';
        error = unlink_path(f, path, AT_REMOVEDIR);
    }
    if (error && error != ENOTEMPTY && error != EEXIST) /* someone else's files stay */
        complain(f, path, NULL, "cannot remove: %s", strerror(error));
}

/* Makes DIR, and its parents as `mkdir -p` does. */
static bool make_folder(Folder *f)
{
    char *path = gen_strdup(f->g, f->dir);

    for (char *p = path + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            break;
        *p = '/';
    }
    f->created = mkdir(f->dir, 0777) == 0;
    if (f->created || errno == EEXIST)
        f->fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->fd < 0)
        complain(f, NULL, NULL, "cannot make the folder: %s", strerror(errno));
    return f->fd >= 0;
}

/* Removes the folders that staging made, then DIR if it was ours; nothing of it
 * remains. */
static void undo(Folder *f)
{
    unstage(f);
    for (int i = 0; i < f->entries.count; i++) {
        char *path = gen_strdup(f->g, f->entries.items[i].path), *slash;

        while (f->created && (slash = strrchr(path, '/'))) {
            *slash = '\0';
            unlinkat(f->fd, path, AT_REMOVEDIR);
        }
    }
    if (f->created)
        rmdir(f->dir);
}

/* Puts the manifest, or all the others, in place; -1 when one could not be. */
static int put_all(Folder *f, bool manifest)
{
    int written = 0;

    for (int i = 0; i < f->entries.count; i++) {
        Entry *e = &f->entries.items[i];

        if (!e->staged || is_manifest(e) != manifest)
            continue;
        if (!put_in_place(f, e))
            return -1;
        written++;
    }
    return written;
}

/* The manifest comes last: until then the old one says what is ours, files among them
 * that could not be removed. */
static int write_folder(Folder *f)
{
    int written, manifest, removed = 0;

    if (f->fd < 0 && !make_folder(f))
        return EXIT_DIAG;
    for (int i = 0; i < f->entries.count; i++) {
        Entry *e = &f->entries.items[i];

        if (e->now && !e->same && !stage(f, e)) {
            undo(f);
            return EXIT_DIAG;
        }
    }
    written = put_all(f, false);
    for (int i = 0; i < f->entries.count && written >= 0; i++) {
        const Entry *e = &f->entries.items[i];

        if (e->now || e->kind == OTHER)
            continue;
        remove_stale(f, e); /* absent: its folders may have been left behind */
        removed += e->kind == REGULAR;
    }
    manifest = written < 0 || f->errors ? -1 : put_all(f, true);
    if (manifest < 0) {
        unstage(f);
        return EXIT_DIAG;
    }
    fprintf(stderr, "%s: %d files, %d written, %d removed\n", f->dir, f->g->files.count,
            written + manifest, removed);
    return EXIT_DONE;
}

int files_write(Gen *g)
{
    Folder f = {.g = g, .dir = g->opt.output};
    size_t n = strlen(f.dir);
    int code;

    signal(SIGXFSZ,
           SIG_IGN); /* a file size limit is an error of write(), told like others */
    while (n > 1 && f.dir[n - 1] == '/') /* DIR/ is DIR */
        f.dir = gen_strndup(g, f.dir, --n);
    f.fd = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f.fd < 0 && errno != ENOENT) {
        complain(&f, NULL, NULL, "%s", strerror(errno));
        diag_print(g);
        return EXIT_DIAG;
    }
    if (f.fd >= 0)
        read_manifest(&f);
    collect(&f);
    if (g->opt.check_drift) {
        code = report_drift(&f);
    } else {
        protect(&f);
        code = f.errors ? EXIT_DIAG : write_folder(&f);
    }
    if (f.fd >= 0)
        close(f.fd);
    diag_print(g);
    return code;
}
