/* SPDX-License-Identifier: MIT-0 */
/* rt_file.c: the system calls of checkpoints. In: paths. Out: true, or false with a
 * message that names the call, the file and the reason. Calls that a signal interrupts,
 * or that transfer less than requested, are continued. A failed call is never repeated:
 * after a failed fsync the kernel may have dropped what was written, and a second fsync
 * would succeed without it. */
#define _GNU_SOURCE
#include "job/rt_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static _Thread_local int last_reason; /* of the last call that failed */

bool rt_file_error_is_here(void)
{
    static const int here[] = {ENOMEM, EMFILE, ENFILE,  EACCES,  EPERM,  ENOLCK,
                               EAGAIN, EBUSY,  ETXTBSY, ENOBUFS, ENOTSUP};
    bool is = false;
    for (size_t i = 0; i < sizeof here / sizeof *here; i++)
        is = is || last_reason == here[i];
    return is;
}

void rt_file_error_here(void)
{
    last_reason = ENOTSUP;
}

bool rt_file_error_is_denied(void)
{
    return last_reason == EROFS || last_reason == EACCES || last_reason == EPERM;
}

bool rt_file_error_is_missing(void)
{
    return last_reason == ENOENT || last_reason == ESTALE;
}

void rt_file_forget_error(void)
{
    last_reason = 0;
}

bool rt_file_error(char *error, const char *call, const char *path)
{
    const int reason = errno;
    last_reason = reason;
    snprintf(error, RT_ERROR_BYTES, "%s %.600s: %s%s", call, path, strerror(reason),
             reason == ENOSPC || reason == EDQUOT ? ": the disk is full"
             : reason == EFBIG ? ": larger than `ulimit -f` or the filesystem allows"
             : reason == ENOTDIR || reason == EEXIST
                 ? ": there is a file of that name; name a folder"
                 : "");
    return false;
}

int rt_file_open(const char *path, int flags, char *error)
{
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC, 0666);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0)
        rt_file_error(error, "open", path);
    return fd;
}

bool rt_file_write(int fd, const char *path, const void *data, int64_t bytes, int64_t at,
                   char *error)
{
    const char *p = data;
    while (bytes > 0) {
        const ssize_t n = pwrite(fd, p, (size_t)bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return rt_file_error(error, "write to", path);
        }
        p += n;
        at += n;
        bytes -= n;
    }
    return true;
}

bool rt_file_read(int fd, const char *path, void *data, int64_t bytes, int64_t at,
                  char *error)
{
    char *p = data;
    while (bytes > 0) {
        const ssize_t n = pread(fd, p, (size_t)bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return rt_file_error(error, "read", path);
        if (n == 0) {
            snprintf(error, RT_ERROR_BYTES, "read %.600s: it ends at byte %lld", path,
                     (long long)at);
            errno = ENODATA;
            return false;
        }
        p += n;
        at += n;
        bytes -= n;
    }
    return true;
}

bool rt_file_extend(int fd, const char *path, int64_t bytes, char *error)
{
    int done;
    do {
        done = ftruncate(fd, (off_t)bytes);
    } while (done != 0 && errno == EINTR);
    return done == 0 || rt_file_error(error, "ftruncate", path);
}

void rt_file_write_back(int fd, int64_t at, int64_t bytes)
{
    enum { WORTH_A_CALL_BYTES = 1 << 20 };
    if (bytes >= WORTH_A_CALL_BYTES)
        sync_file_range(fd, (off_t)at, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
}

/* If a signal comes before anything is written, fsync has not failed. */
static int sync_once(int fd)
{
    int done;
    do {
        done = fsync(fd);
    } while (done != 0 && errno == EINTR);
    return done;
}

/* Closes a durable file. If a signal interrupts close, the file is closed, too. */
static bool close_durable(int fd, const char *path, bool durable, char *error)
{
    const bool closed = close(fd) == 0 || errno == EINTR;
    return (closed || (durable && rt_file_error(error, "close", path))) && durable;
}

bool rt_file_finish(int fd, const char *path, char *error)
{
    const bool durable = sync_once(fd) == 0 || rt_file_error(error, "fsync", path);
    return close_durable(fd, path, durable, error);
}

/* EINVAL: a filesystem whose folders need no fsync, or do not support it. */
bool rt_file_sync_folder(const char *path, char *error)
{
    const int fd = rt_file_open(path, O_RDONLY | O_DIRECTORY, error);
    if (fd < 0)
        return false;
    const bool durable =
        sync_once(fd) == 0 || errno == EINVAL || rt_file_error(error, "fsync", path);
    return close_durable(fd, path, durable, error);
}

static bool make_one(const char *path, char *error)
{
    struct stat s;
    char above[RT_PATH_BYTES];
    if (mkdir(path, 0777) != 0) {
        const int reason = errno;
        if (reason == EEXIST && stat(path, &s) == 0 && S_ISDIR(s.st_mode))
            return true;
        if (reason == EEXIST && errno == ENOENT) {
            snprintf(error, RT_ERROR_BYTES, "mkdir %s: it is a link that leads nowhere",
                     path);
            errno = reason; /* the folder is not missing */
            return false;
        }
        errno = reason;
        return rt_file_error(error, "mkdir", path);
    }
    snprintf(above, sizeof above, "%s", path); /* its name must be durable, too */
    char *slash = strrchr(above, '/');
    if (slash != NULL)
        slash[slash == above] = '\0';
    return rt_file_sync_folder(slash != NULL ? above : ".", error);
}

bool rt_file_make_folder(const char *path, char *error)
{
    char part[RT_PATH_BYTES];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part || path[0] == '\0') {
        errno = path[0] == '\0' ? ENOENT : ENAMETOOLONG;
        return rt_file_error(error, "mkdir", path);
    }
    for (char *p = part + 1; *p != '\0'; p++) {
        if (*p == '/' && p[-1] != '/') {
            *p = '\0';
            if (!make_one(part, error))
                return false;
            *p = '/';
        }
    }
    return make_one(part, error);
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *f)
{
    (void)s;
    (void)type;
    (void)f;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1; /* others may remove it, too */
}

bool rt_file_remove_tree(const char *path, char *error)
{
    return nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT ||
           rt_file_error(error, "remove", path);
}

char *rt_file_load(const char *path, int64_t most, int64_t *bytes, char *error)
{
    struct stat s;
    char *text = NULL;
    const int fd = rt_file_open(path, O_RDONLY | O_NONBLOCK, error);
    if (fd < 0)
        return NULL;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_size > most) {
        snprintf(error, RT_ERROR_BYTES, "%.600s is not a file of at most %lld bytes",
                 path, (long long)most);
    } else if ((text = malloc((size_t)s.st_size + 1)) == NULL) {
        errno = ENOMEM;
        rt_file_error(error, "allocate memory for", path);
    } else if (!rt_file_read(fd, path, text, s.st_size, 0, error)) {
        free(text);
        text = NULL;
    } else {
        text[s.st_size] = '\0';
        *bytes = s.st_size;
    }
    close(fd);
    return text;
}

/* Largest first. */
static int compare_steps(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The step in a folder's name as we write it, or -1. */
static int64_t step_of(const char *name)
{
    char again[40];
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return -1;
    const long long step = strtoll(name + 5, &end, 10);
    snprintf(again, sizeof again, "step-%08lld", step);
    return *end == '\0' && strcmp(again, name) == 0 ? step : -1;
}

int64_t rt_file_step_of(const char *path)
{
    const char *name = strrchr(path, '/');
    return step_of(name != NULL ? name + 1 : path);
}

int rt_file_steps(const char *dir, int64_t **steps, char *error)
{
    DIR *d = opendir(dir);
    int n = 0, cap = 0;
    *steps = NULL;
    if (d == NULL) {
        const bool absent = errno == ENOENT;
        rt_file_error(error, "open", dir);
        if (absent)
            strcat(error, "; name the folder of a run's checkpoints");
        return -1;
    }
    struct dirent *e;
    errno = 0;
    while ((e = readdir(d)) != NULL) {
        const int64_t step = step_of(e->d_name);
        if (step >= 0 && n == cap) {
            cap = cap > 0 ? 2 * cap : 64;
            int64_t *more = realloc(*steps, (size_t)cap * sizeof *more);
            if (more == NULL)
                break;
            *steps = more;
        }
        if (step >= 0)
            (*steps)[n++] = step;
        errno = 0;
    }
    const bool whole = e == NULL && errno == 0;
    if (!whole)
        rt_file_error(error, "read", dir);
    closedir(d);
    if (n > 0)
        qsort(*steps, (size_t)n, sizeof **steps, compare_steps);
    return whole ? n : -1;
}

bool rt_file_step_path(char *path, const char *dir, const char *prefix, int64_t step)
{
    /* names of files in it have at most RT_NAME_BYTES */
    return snprintf(path, RT_PATH_BYTES, "%s/%sstep-%08lld", dir, prefix,
                    (long long)step) < RT_PATH_BYTES - RT_NAME_BYTES;
}

/* Exactly the names that saves and removals use: others belong to someone else. */
bool rt_file_is_rest(const char *name)
{
    return (strncmp(name, ".tmp-", 5) == 0 &&
            (step_of(name + 5) >= 0 || strcmp(name + 5, "step-trial") == 0)) ||
           (strncmp(name, ".trash-", 7) == 0 && step_of(name + 7) >= 0);
}

/* Removes the remains of interrupted saves. */
bool rt_file_clean(const char *dir, char *error)
{
    char path[RT_PATH_BYTES + 256];
    bool ok = true;
    DIR *d = opendir(dir);
    if (d == NULL)
        return rt_file_error(error, "open", dir);
    for (struct dirent *e; ok && (e = readdir(d)) != NULL;) {
        if (rt_file_is_rest(e->d_name)) {
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
            ok = rt_file_remove_tree(path, error);
        }
    }
    closedir(d);
    return ok;
}

bool rt_file_beside_trainer(char *path, size_t bytes, const char *name)
{
    const size_t room = bytes - strlen(name);
    const ssize_t n = readlink("/proc/self/exe", path, room);
    char *slash = n > 0 && (size_t)n < room ? memrchr(path, '/', (size_t)n) : NULL;
    strcpy(slash != NULL ? slash + 1 : path, name);
    return slash != NULL;
}
