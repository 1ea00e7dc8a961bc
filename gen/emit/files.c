/* SPDX-License-Identifier: Apache-2.0 */
/* files.c: what the output folder contains and what it should contain; in the parent
 * process. In: g->base.files, made by the child, one of them manifest.json with the hash
 * of every other. Out: the whole folder, or no change (files_put.c); with --check, the
 * differences.
 *
 * The folder's old manifest, and the mark of a run that was stopped, classify what is
 * there:
 * 1. A file with a hash recorded there is ours. It is replaced or, if no longer
 *    generated, removed.
 * 2. One with another hash was edited by hand: refused without --force.
 * 3. A file that neither names is foreign: left alone, and never overwritten without
 *    --force.
 * 4. A folder with files and without a manifest belongs to someone else: not written
 *    without --force.
 * Symbolic links are not followed. */
#include "emit/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char manifest_name[] = "manifest.json";

void folder_complain(Folder *f, const char *path, const char *help, const char *fmt, ...)
{
    va_list ap;
    const char *file = path ? gen_printf(f->g, "%s/%s", f->dir, path) : f->dir;

    va_start(ap, fmt);
    diag_add(f->g, DIAG_ERROR, (Pos){.file = file}, help, "%s",
             gen_vprintf(f->g, fmt, ap));
    va_end(ap);
    f->errors++;
}

/* Relative, of plain names: letters, digits and _ . - without a leading dot, so no "..";
 * and the two dot files of an emitted folder. */
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

int folder_parent(Folder *f, const char *path, bool make, const char **name)
{
    int fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
    const char *part = path, *slash;

    for (; fd >= 0 && (slash = strchr(part, '/')); part = slash + 1) {
        const char *folder = gen_strndup(f->g, part, (size_t)(slash - part));
        bool made = make && mkdirat(fd, folder, 0777) == 0;
        int next = -1, error;

        if (made)
            *gen_push(f->g, &f->made) = gen_strndup(f->g, path, (size_t)(slash - path));
        if (made || !make || errno == EEXIST)
            next = openat(fd, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        error = errno;
        close(fd);
        errno = error;
        fd = next;
    }
    *name = part;
    return fd;
}

/* Reads a regular file. Returns 0 or an errno: ENOENT if absent, ELOOP for a link, EINVAL
 * for another kind, EFBIG for more bytes than that. is: the entry with that content, or
 * null. */
static int read_at(Folder *f, const char *path, off_t most, const char **data,
                   size_t *bytes, struct stat *is)
{
    const char *name;
    struct stat st;
    int dir = folder_parent(f, path, false, &name), fd, e = 0;
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
    else if (st.st_size > most)
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
    if (is)
        *is = st;
    return e;
}

bool folder_is_unchanged(Folder *f, const Entry *e)
{
    const char *name;
    struct stat st;
    int dir = folder_parent(f, e->path, false, &name);
    int error = dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ? errno : 0;

    if (dir >= 0)
        close(dir);
    if (error || e->kind != REGULAR)
        return e->kind == ABSENT && (error == ENOENT || error == ENOTDIR);
    return st.st_dev == e->disk.st_dev && st.st_ino == e->disk.st_ino &&
           st.st_size == e->disk.st_size && st.st_ctim.tv_sec == e->disk.st_ctim.tv_sec &&
           st.st_ctim.tv_nsec == e->disk.st_ctim.tv_nsec;
}

/* ---- what there is, and what there should be ------------------------------------- */

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
    case EFBIG:
        return "has more bytes than anything that fsdpgen writes there";
    default:
        return strerror(e);
    }
}

/* Records that a file of ours has this hash: 16 hexadecimal digits. NULL: it is not a
 * record of ours. */
static Entry *add_ours(Folder *f, const char *path, const char *hex)
{
    uint64_t hash;
    Entry *e;

    if (!hex || strspn(hex, "0123456789abcdef") != 16 || hex[16] || !path_is_legal(path))
        return NULL;
    hash = strtoull(hex, NULL, 16);
    e = entry_of(f, gen_strdup(f->g, path));
    *gen_push(f->g, &e->ours) = hash;
    return e;
}

/* NULL: it has no such hash. */
static const char *manifest_numerics(Gen *g, const json_t *root)
{
    const char *hash = json_string_value(json_object_get(root, "numerics"));

    return hash && strlen(hash) == 16 && strspn(hash, "0123456789abcdef") == 16
               ? gen_strdup(g, hash)
               : NULL;
}

static void read_manifest(Folder *f)
{
    const char *text, *path;
    size_t bytes;
    json_error_t error;
    json_t *root, *files, *value;
    const char *generator;
    int e = read_at(f, manifest_name, MAX_LIST_BYTES, &text, &bytes, NULL);

    if (e == ENOENT)
        return;
    root = e ? NULL : json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    files = json_object_get(root, "files");
    generator = json_string_value(json_object_get(root, "generator"));
    if (json_is_object(files) && generator && !strncmp(generator, "fsdpgen ", 8)) {
        f->numerics = manifest_numerics(f->g, root);
        json_object_foreach(files, path, value)
            add_ours(f, path, json_string_value(value));
    } else if (!f->g->opt.force) {
        folder_complain(f, manifest_name,
                        "put back the one that fsdpgen wrote, name another folder, or "
                        "use --force if nothing in this folder was edited",
                        e == EFBIG
                            ? "it has more than 1 MiB, which no manifest of fsdpgen has"
                            : "this is not a manifest of fsdpgen");
    }
    json_decref(root);
}

/* Reads the lines of the mark; stops at an incomplete one. */
static void read_mark(Folder *f)
{
    const char *text, *line, *end;
    size_t bytes;
    int e = read_at(f, MARK_NAME, MAX_LIST_BYTES, &text, &bytes, NULL);

    f->marked = e != ENOENT;
    if (e && e != ENOENT)
        folder_complain(f, MARK_NAME, "move it away", "%s", kind_of_error(e));
    if (e)
        return;
    f->mark_of_others = bytes && *text != '#' && !f->g->opt.force;
    if (f->mark_of_others)
        folder_complain(f, MARK_NAME, "move it away, or overwrite it with --force",
                        "fsdpgen did not write this file, and would remove it");
    for (line = text; (end = memchr(line, '\n', bytes - (size_t)(line - text)));
         line = end + 1) {
        Entry *entry = NULL;

        if (end > line + 17 && line[16] == ' ')
            entry = add_ours(f, gen_strndup(f->g, line + 17, (size_t)(end - line - 17)),
                             gen_strndup(f->g, line, 16));
        if (!entry && *line != '#')
            break;
        if (entry)
            entry->begun = true;
        f->mark_bytes = (size_t)(end + 1 - text);
    }
}

/* Looks at what is there; 0, or why that failed. */
static int compare(Folder *f, Entry *e)
{
    const char *data;
    size_t bytes;
    int error =
        f->fd < 0 ? ENOENT : read_at(f, e->path, MAX_FILE_BYTES, &data, &bytes, &e->disk);

    e->kind = error == ENOENT ? ABSENT : error ? OTHER : REGULAR;
    if (error)
        return error;
    e->disk_hash = hash_bytes(data, bytes);
    e->same = e->now && e->now->bytes == bytes &&
              (!bytes || !memcmp(e->now->data, data, bytes));
    return 0;
}

static void look_at(Folder *f, Entry *e)
{
    int error = compare(f, e);

    if (e->kind == OTHER && (e->now || error != ENOTDIR))
        folder_complain(f, e->path, "move it away", "%s", kind_of_error(error));
}

/* The manifest has no hash of itself; it is ours if it is a manifest at all. */
bool folder_is_manifest(const Entry *e)
{
    return !strcmp(e->path, manifest_name);
}

/* Did a run of ours write what is there? */
static bool is_ours(const Entry *e)
{
    for (int i = 0; i < e->ours.count; i++)
        if (e->ours.items[i] == e->disk_hash)
            return true;
    return false;
}

static void protect(Folder *f)
{
    for (int i = 0; i < f->entries.count; i++) {
        Entry *e = &f->entries.items[i];

        if (e->kind != REGULAR || e->same || folder_is_manifest(e))
            continue;
        if (!is_ours(e) && input_is(&e->disk))
            folder_complain(f, e->path, "name another folder, or move it away",
                            INPUT_TEXT);
        else if (f->g->opt.force)
            continue;
        else if (!e->ours.count)
            folder_complain(f, e->path, "move it away, or overwrite it with --force",
                            "fsdpgen did not write this file, and would overwrite it");
        else if (!is_ours(e))
            folder_complain(
                f, e->path,
                e->now ? "edit the description or a template instead, or overwrite the "
                         "edits with --force"
                       : "move it away, or remove it with --force",
                e->now ? "this generated file was edited by hand"
                       : "this file is no longer generated, but was edited by hand");
    }
}

static void collect(Folder *f)
{
    if (f->fd >= 0) {
        read_mark(f);
        read_manifest(f);
    }
    for (int i = 0; i < f->g->base.files.count; i++) {
        const OutFile *o = &f->g->base.files.items[i];
        Entry *e;

        gen_require(path_is_legal(o->path), "the output file \"%s\"", o->path);
        e = entry_of(f, o->path);
        gen_require(!e->now, "two output files are named %s", o->path);
        e->now = o;
    }
    for (int i = 0; i < f->entries.count; i++)
        look_at(f, &f->entries.items[i]);
}

/* Is the folder complete already, with no other writer? Then it is not even locked. */
static bool is_as_generated(Folder *f)
{
    struct stat st;

    if (f->fd < 0 || fstatat(f->fd, MARK_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
        errno != ENOENT)
        return false;
    for (int i = 0; i < f->g->base.files.count; i++) {
        Entry e = {.path = f->g->base.files.items[i].path,
                   .now = &f->g->base.files.items[i]};

        compare(f, &e);
        if (!e.same)
            return false;
    }
    return true;
}

/* ---- --check --------------------------------------------------------------------- */

static int report_drift(Folder *f)
{
    const char *help = gen_printf(
        f->g, "generate it again; %s/description.lua says how it was made", f->dir);

    if (f->fd < 0) {
        folder_complain(f, NULL, "generate it: fsdpgen MODEL.lua -o DIR",
                        "there is no such folder");
        return EXIT_DIAG;
    }
    if (f->marked)
        folder_complain(f, MARK_NAME, help, MARK_TEXT);
    for (int i = 0; i < f->entries.count; i++) {
        Entry *e = &f->entries.items[i];

        if (e->kind == OTHER)
            continue; /* look_at reported it */
        if (e->now && e->kind == ABSENT)
            folder_complain(f, e->path, help, "is missing");
        else if (e->now && !e->same && e->ours.count && !is_ours(e))
            folder_complain(f, e->path,
                            "move the edits away, or overwrite them: generate it again "
                            "with --force",
                            "was edited by hand");
        else if (e->now && !e->same)
            folder_complain(f, e->path, help, "differs from what is generated now");
        else if (!e->now && e->kind == REGULAR)
            folder_complain(f, e->path, help, "is no longer generated");
    }
    return f->errors ? EXIT_DIAG : EXIT_DONE;
}

/* ---- writing --------------------------------------------------------------------- */

bool folder_has_files(int fd)
{
    DIR *d;
    struct dirent *entry;
    bool files = false;

    fd = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    d = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !d)
        close(fd);
    while (d && (entry = readdir(d)))
        files = files || entry->d_name[0] != '.';
    if (d)
        closedir(d);
    return files;
}

/* Does the folder have foreign files and none of ours? */
static bool is_anothers(const Folder *f)
{
    return folder_has_files(f->fd) &&
           faccessat(f->fd, manifest_name, F_OK, AT_SYMLINK_NOFOLLOW) != 0 &&
           faccessat(f->fd, MARK_NAME, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
}

/* Says that the trainer in the folder is another one now: an option may be missing. */
static void note_numerics(Folder *f)
{
    for (int i = 0; f->numerics && i < f->entries.count; i++) {
        const Entry *e = &f->entries.items[i];
        json_t *root = e->now && folder_is_manifest(e)
                           ? json_loadb(e->now->data, e->now->bytes, 0, NULL)
                           : NULL;
        const char *now = manifest_numerics(f->g, root);

        json_decref(root);
        if (now && strcmp(now, f->numerics) != 0)
            diag_add(f->g, DIAG_NOTE, (Pos){.file = f->dir}, NULL,
                     "the numerics hash was %s and is %s now: the trainer refuses "
                     "checkpoints of the old one without --accept-numerics",
                     f->numerics, now);
    }
}

static int write_locked(Folder *f)
{
    int code;

    if (!f->g->opt.force && is_anothers(f)) {
        folder_complain(f, NULL,
                        "name an empty folder or a new one, or write among its files "
                        "with --force",
                        "the folder has files, and none says that fsdpgen made it");
        return EXIT_DIAG;
    }
    if (!folder_lock(f))
        return EXIT_DIAG;
    collect(f);
    protect(f);
    if (f->errors) {
        folder_leave(f);
        return EXIT_DIAG;
    }
    code = folder_put(f);
    if (code == EXIT_DONE && !f->g->opt.quiet)
        note_numerics(f);
    return code;
}

int files_write(Gen *g)
{
    Folder f = {.g = g, .dir = g->opt.output, .mark = -1};
    size_t n = strlen(f.dir);
    int code;

    signal(SIGXFSZ, SIG_IGN);            /* makes the limit an error of write() */
    while (n > 1 && f.dir[n - 1] == '/') /* DIR/ is DIR */
        f.dir = gen_strndup(g, f.dir, --n);
    f.fd = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f.fd < 0 && errno != ENOENT) {
        folder_complain(&f, NULL, "name a folder, an empty one or a new one: -o DIR",
                        "%s",
                        errno == ENOTDIR ? "there is a file where the folder would be"
                                         : strerror(errno));
        code = EXIT_DIAG;
    } else if (g->opt.check_drift) {
        collect(&f);
        code = report_drift(&f);
    } else if (is_as_generated(&f)) {
        code = folder_tell(&f, 0, 0);
    } else {
        code = write_locked(&f);
    }
    if (f.mark >= 0)
        close(f.mark);
    if (f.fd >= 0)
        close(f.fd);
    diag_print(g);
    return code;
}
