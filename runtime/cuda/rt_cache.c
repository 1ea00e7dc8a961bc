/* SPDX-License-Identifier: MIT-0 */
/* rt_cache.c: kernels compiled at one start, cached for the next. In and out: files in
 * $XDG_CACHE_HOME/fsdpgen, or ~/.cache/fsdpgen. Such a file is code that the trainer will
 * run, so its name alone proves nothing.
 *
 * 1. The folder must belong to this user, must not be a link, and only this user may
 *    write there; otherwise it is not used.
 * 2. An entry is a regular file of this user: a head, the text that says what the image
 *    was made from, the image. The head holds the SHA-256 of everything else. An entry
 *    that is damaged, or was made from anything else, is reported, removed and compiled
 *    again.
 * 3. An entry is written under a temporary name; the file is made durable before it is
 *    renamed, then the folder. Any number of processes may write one entry at once.
 * 4. Then the least recently used entries are removed until all take at most 1 GiB, and
 *    so are temporary files that killed writers left.
 *
 * An unusable or full cache is reported and costs time; it never fails the run. */
#ifdef RT_JIT
#define _GNU_SOURCE
#include "job/rt_file.h"
#include "job/rt_door.h"
#include "cuda/rt_gpu.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 1, NAME_BYTES = 128, LEFT_OVER_S = 24 * 3600 };
static const int64_t most_bytes = INT64_C(1) << 30; /* of all; an entry has less */
static const char suffix[] = ".kernels";

typedef struct Head {
    char magic[16];
    uint32_t version, made_of_bytes;
    uint64_t image_bytes;
    unsigned char digest[RT_DIGEST_BYTES]; /* of the rest of the head and what follows */
} Head;
static const char magic[16] = "fsdpgen kernels";

static struct {
    int folder; /* -1: no cache */
    char path[1024];
    bool first;   /* of the machine's ranks: it reports what concerns all of them */
    bool useless; /* for writing; reported already */
    bool written; /* something was written */
} cache = {.folder = -1};

/* ---- the folder ------------------------------------------------------------------ */

__attribute__((format(printf, 1, 2))) static void report(const char *fmt, ...)
{
    char text[RT_ERROR_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    rt_say("trainer: warning: %s", text);
}

/* Reported once: the next start will compile again. */
__attribute__((format(printf, 1, 2))) static void report_useless(const char *fmt, ...)
{
    char text[RT_ERROR_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (cache.first && !cache.useless)
        report("kernels are not kept for the next start: %.300s %s", cache.path, text);
    cache.useless = true;
}

static bool find_path(void)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool own = base != NULL && base[0] == '/';
    if (!own && (home == NULL || home[0] != '/'))
        return false;
    const int n = snprintf(cache.path, sizeof cache.path, "%s%s", own ? base : home,
                           own ? "" : "/.cache");
    if (n >= (int)(sizeof cache.path - sizeof "/fsdpgen"))
        return false;
    mkdir(cache.path, 0700); /* both may exist */
    strcpy(cache.path + n, "/fsdpgen");
    mkdir(cache.path, 0700);
    return true;
}

void rt_cache_open(const Rt *rt)
{
    struct stat s;
    cache.first = rt_ranks_here(rt->state->shared, rt->rank) == 0;
    if (!find_path())
        return;
    const int fd = open(cache.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        const int error = errno;
        const bool link = lstat(cache.path, &s) == 0 && S_ISLNK(s.st_mode);
        report_useless(link ? "is a link, which could lead anywhere%s"
                            : "cannot be opened: %s",
                       link ? "" : strerror(error));
    } else if (fstat(fd, &s) != 0) {
        report_useless("cannot be read: %s", strerror(errno));
    } else if (s.st_uid != geteuid()) {
        report_useless("belongs to user %u, and this is user %u", (unsigned)s.st_uid,
                       (unsigned)geteuid());
    } else if ((s.st_mode & 022) != 0) {
        report_useless("may be written by others (its mode is %03o): chmod 700 it",
                       (unsigned)s.st_mode & 0777);
    } else {
        cache.folder = fd;
        return;
    }
    if (fd >= 0)
        close(fd);
}

/* ---- an entry -------------------------------------------------------------------- */

static void name_of(const char *made_of, char *name)
{
    unsigned char digest[RT_DIGEST_BYTES];
    RtSha256 h;
    rt_sha256_begin(&h);
    rt_sha256_more(&h, made_of, strlen(made_of));
    rt_sha256_end(&h, digest);
    rt_hex(digest, sizeof digest, name);
    strcat(name, suffix);
}

static void digest_of(const Head *head, const char *made_of, const void *image,
                      unsigned char *digest)
{
    RtSha256 h;
    rt_sha256_begin(&h);
    rt_sha256_more(&h, head, offsetof(Head, digest));
    rt_sha256_more(&h, made_of, head->made_of_bytes);
    rt_sha256_more(&h, image, head->image_bytes);
    rt_sha256_end(&h, digest);
}

/* NULL: the file is as written, and made from what is needed. */
static const char *wrong_with(const char *file, int64_t bytes, const char *made_of)
{
    Head head;
    unsigned char digest[RT_DIGEST_BYTES];
    if (bytes < (int64_t)sizeof head)
        return "it is cut short";
    memcpy(&head, file, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic) != 0)
        return "it does not begin as a file of this cache does";
    if (head.version != VERSION)
        return "it is of another version of this cache";
    const uint64_t left = (uint64_t)bytes - sizeof head;
    if (head.made_of_bytes > left || head.image_bytes != left - head.made_of_bytes)
        return "it is cut short, or longer than it says";
    const char *text = file + sizeof head;
    digest_of(&head, text, text + head.made_of_bytes, digest);
    if (memcmp(digest, head.digest, sizeof digest) != 0)
        return "its bytes are not those that were written";
    if (head.made_of_bytes != strlen(made_of) ||
        memcmp(text, made_of, head.made_of_bytes) != 0)
        return "it was made of other sources, or in another way";
    return NULL;
}

/* Files of other users are left alone. NULL: it is ours. */
static const char *not_ours(int fd, struct stat *s)
{
    if (fstat(fd, s) != 0)
        return strerror(errno);
    return !S_ISREG(s->st_mode)       ? "this is not a regular file"
           : s->st_uid != geteuid()   ? "it belongs to another user"
           : (s->st_mode & 022) != 0  ? "others may write it"
           : s->st_size >= most_bytes ? "it is too long"
                                      : NULL;
}

/* The process that removes it reports it. A file that another process has put there since
 * is kept. */
static void remove_bad(const char *name, const struct stat *read, const char *why)
{
    struct stat now;
    if (fstatat(cache.folder, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
        now.st_ino == read->st_ino && now.st_dev == read->st_dev &&
        unlinkat(cache.folder, name, 0) == 0) {
        report("%.300s/%s is not used: %s; it is removed, and compiled again", cache.path,
               name, why);
    }
}

static char *read_entry(int fd, const char *name, const struct stat *s,
                        const char *made_of, size_t *bytes)
{
    char error[RT_ERROR_BYTES];
    char *file = malloc((size_t)s->st_size + 1);
    if (file == NULL)
        return NULL;
    if (!rt_file_read(fd, name, file, s->st_size, 0, error)) {
        report("%.300s: %.400s", cache.path, error);
        free(file);
        return NULL;
    }
    const char *why = wrong_with(file, s->st_size, made_of);
    if (why != NULL) {
        remove_bad(name, s, why);
        free(file);
        return NULL;
    }
    Head head;
    memcpy(&head, file, sizeof head);
    memmove(file, file + sizeof head + head.made_of_bytes, head.image_bytes);
    *bytes = head.image_bytes;
    futimens(fd, NULL); /* used just now */
    return file;
}

char *rt_cache_find(const char *made_of, size_t *bytes)
{
    char name[NAME_BYTES], *image = NULL;
    struct stat s;
    if (cache.folder < 0)
        return NULL;
    name_of(made_of, name);
    const int fd =
        openat(cache.folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        if (errno != ENOENT && cache.first) {
            report("%.300s/%s is not used: %s", cache.path, name,
                   errno == ELOOP ? "this is a link" : strerror(errno));
        }
        return NULL;
    }
    const char *why = not_ours(fd, &s);
    if (why == NULL)
        image = read_entry(fd, name, &s, made_of, bytes);
    else if (cache.first)
        report("%.300s/%s is not used: %s", cache.path, name, why);
    close(fd);
    return image;
}

/* ---- writing --------------------------------------------------------------------- */

static bool write_entry(int fd, const char *path, const char *made_of, const void *image,
                        size_t bytes, char *error)
{
    Head head = {.version = VERSION,
                 .made_of_bytes = (uint32_t)strlen(made_of),
                 .image_bytes = bytes};
    memcpy(head.magic, magic, sizeof magic);
    digest_of(&head, made_of, image, head.digest);
    const int64_t text_at = sizeof head, image_at = text_at + head.made_of_bytes;
    const bool written =
        rt_file_write(fd, path, &head, sizeof head, 0, error) &&
        rt_file_write(fd, path, made_of, head.made_of_bytes, text_at, error) &&
        rt_file_write(fd, path, image, (int64_t)bytes, image_at, error);
    if (!written) {
        close(fd);
        return false;
    }
    return rt_file_finish(fd, path, error);
}

/* Is the name unused, or that of a file of this user? */
static bool is_free(const char *name)
{
    struct stat s;
    return fstatat(cache.folder, name, &s, AT_SYMLINK_NOFOLLOW) != 0 ||
           (S_ISREG(s.st_mode) && s.st_uid == geteuid());
}

void rt_cache_keep(const char *made_of, const void *image, size_t bytes)
{
    char name[NAME_BYTES], part[2 * NAME_BYTES], error[RT_ERROR_BYTES];
    unsigned char random[8] = {0};
    char letters[2 * sizeof random + 1];
    name_of(made_of, name);
    if (cache.folder < 0 || cache.useless || !is_free(name))
        return;
    rt_random_bytes(random, sizeof random);
    rt_hex(random, sizeof random, letters);
    snprintf(part, sizeof part, ".%s.%s", name, letters);
    const int fd = openat(cache.folder, part,
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool good = fd >= 0 || rt_file_error(error, "open", part);
    good = good && write_entry(fd, part, made_of, image, bytes, error) &&
           (renameat(cache.folder, part, cache.folder, name) == 0 ||
            rt_file_error(error, "rename", part));
    if (!good) {
        unlinkat(cache.folder, part, 0);
        report_useless("cannot be written: %.400s", error);
        return;
    }
    cache.written = true;
}

/* ---- eviction -------------------------------------------------------------------- */

typedef struct Entry {
    char name[2 * NAME_BYTES];
    int64_t used_s, bytes;
} Entry;

static int compare_use(const void *a, const void *b)
{
    const int64_t x = ((const Entry *)a)->used_s, y = ((const Entry *)b)->used_s;
    return x < y ? -1 : x > y;
}

/* "0123...ef.kernels", or as earlier versions had it ".cubin" */
static bool is_entry(const char *name)
{
    const size_t letters = strspn(name, "0123456789abcdef");
    return (letters == 2 * RT_DIGEST_BYTES && strcmp(name + letters, suffix) == 0) ||
           (letters == 16 && strcmp(name + letters, ".cubin") == 0);
}

/* ".0123...ef.kernels.0123456789abcdef": a temporary file */
static bool is_part(const char *name)
{
    const size_t letters = name[0] == '.' ? strspn(name + 1, "0123456789abcdef") : 0;
    return letters == 2 * RT_DIGEST_BYTES &&
           strncmp(name + 1 + letters, suffix, strlen(suffix)) == 0;
}

/* All entries. Removes temporary files that no writer can still need. */
static Entry *list_entries(int *n)
{
    Entry *list = NULL;
    struct stat s;
    const int fd = openat(cache.folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    *n = 0;
    for (const struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        if ((!is_entry(e->d_name) && !is_part(e->d_name)) ||
            strlen(e->d_name) >= sizeof list->name ||
            fstatat(cache.folder, e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(s.st_mode) || s.st_uid != geteuid())
            continue;
        if (is_part(e->d_name)) {
            if (time(NULL) - s.st_mtime > LEFT_OVER_S)
                unlinkat(cache.folder, e->d_name, 0);
            continue;
        }
        Entry *more = realloc(list, (size_t)(*n + 1) * sizeof *list);
        if (more == NULL)
            break;
        list = more;
        Entry *entry = &list[(*n)++];
        *entry = (Entry){.used_s = s.st_mtime, .bytes = s.st_size};
        strcpy(entry->name, e->d_name);
    }
    if (d != NULL)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    return list;
}

static void prune(void)
{
    int n;
    int64_t sum = 0;
    Entry *list = list_entries(&n);
    for (int i = 0; i < n; i++)
        sum += list[i].bytes;
    if (n > 0)
        qsort(list, (size_t)n, sizeof *list, compare_use);
    for (int i = 0; i < n && sum > most_bytes; i++)
        if (unlinkat(cache.folder, list[i].name, 0) == 0)
            sum -= list[i].bytes;
    free(list);
}

void rt_cache_close(void)
{
    if (cache.folder < 0)
        return;
    if (cache.written) {
        if (fsync(cache.folder) != 0 && errno != EINVAL)
            report_useless("cannot be written: %s", strerror(errno));
        prune();
    }
    close(cache.folder);
    cache.folder = -1;
}
#else
typedef int RtNoCache; /* ISO C requires a declaration */
#endif
