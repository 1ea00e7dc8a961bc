/* SPDX-License-Identifier: Apache-2.0 */
/* io.c, preloaded into a trainer, or into fsdpgen tokenize: what its calls on files below
 * IO_DIR do is counted, recorded, or made to fail. All ranks share one count.
 *
 *   IO_COUNT=FILE   writes the number of calls there at the end
 *   IO_AT=N         the N'th call (from 0) does not succeed:
 *   IO_ACT=kill     the process is killed before it; error: it fails with EIO or ENOSPC;
 *                   short: a write or read moves half, another call fails; stop: the
 *                   process is stopped before it, and goes on when it is continued
 *   IO_ERRNO=E      with IO_ACT=error: it fails with this one
 *   IO_PAUSE=1      a process that has reported its first checkpoint is stopped, as by
 *                   IO_ACT=stop
 *   IO_FLOCK=E      locks of folders fail with E; IO_FSYNC=E: fsync of folders
 *   IO_SLOW=MS      an fsync of a file takes so long
 *   IO_PAGES=1      a process that opens a file for writing sees it as it is then, and
 *                   writes back whole pages when it closes it; 2: but not .tmp-step-trial
 *   IO_DISK=BYTES   files may have so many bytes together; then the disk is full
 *   IO_RESERVE=0    the filesystem cannot reserve bytes
 *   IO_MEMORY=BYTES the machine says that so many are available
 *   IO_READONLY=1   no file can be made there
 *   IO_GONE=FOLDER  it is renamed as soon as a file of it is opened, as by a run that
 *                   prunes, and the folder IO_COMES takes its place beside it;
 *                   IO_GONE_LATE=1: when its weights are looked for
 *   IO_LOG=FILE     a line for each call that changes something, for crash.c */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { MOST_FDS = 1024 };
static struct Shared {
    long calls, bytes;
} * shared;
static char path_of[MOST_FDS][512]; /* of descriptors below IO_DIR */
static int renames;                 /* by this process, of what becomes a checkpoint */
static struct View {                /* IO_PAGES: what this process sees of a file */
    char *bytes, *dirty;            /* dirty: a byte a page */
    off_t size;
} view_of[MOST_FDS];

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void)
{
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("IO_COUNT");
    FILE *f = path && shared->calls > 0 ? fopen(path, "w") : NULL;

    if (f) {
        fprintf(f, "%ld\n", shared->calls);
        fclose(f);
    }
}

/* What rt_host_free_bytes asks for memory. */
FILE *fopen(const char *path, const char *mode)
{
    static char line[64];
    const char *bytes = getenv("IO_MEMORY");

    if (!bytes || (strcmp(path, "/proc/meminfo") && strncmp(path, "/sys/fs/cgroup/", 15)))
        return REAL(fopen)(path, mode);
    if (strcmp(path, "/proc/meminfo"))
        return NULL;
    snprintf(line, sizeof line, "MemAvailable: %lld kB\n", atoll(bytes) / 1024);
    return fmemopen(line, strlen(line), "r");
}

static int ours(const char *path)
{
    const char *dir = getenv("IO_DIR");

    return dir && !strncmp(path, dir, strlen(dir));
}

static int ours_fd(int fd)
{
    return fd >= 0 && fd < MOST_FDS && path_of[fd][0];
}

__attribute__((format(printf, 1, 2))) static void record(const char *fmt, ...)
{
    static int fd = -1;
    char line[1200];
    const char *path = getenv("IO_LOG");
    va_list ap;
    int n;

    if (!path)
        return;
    if (fd < 0)
        fd = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    va_start(ap, fmt);
    n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (REAL(write)(fd, line, (size_t)n) != n)
        abort();
}

/* 0: go on; 1: fail; 2: move half. */
static int fault(void)
{
    const char *at = getenv("IO_AT"), *act = getenv("IO_ACT");
    long call = __atomic_fetch_add(&shared->calls, 1, __ATOMIC_SEQ_CST);

    if (!at || atol(at) != call)
        return 0;
    if (!strcmp(act, "kill"))
        kill(getpid(), SIGKILL);
    if (!strcmp(act, "stop")) {
        kill(getpid(), SIGSTOP);
        return 0;
    }
    return !strcmp(act, "short") ? 2 : 1;
}

static int fails(int error)
{
    const char *wish = getenv("IO_ERRNO");

    if (!fault())
        return 0;
    errno = wish ? atoi(wish) : error;
    return 1;
}

static int is_folder(int fd)
{
    struct stat s;

    return fstat(fd, &s) == 0 && S_ISDIR(s.st_mode);
}

/* Does this call on a folder fail, by the filesystem's nature? */
static int folder_fails(int fd, const char *variable)
{
    const char *error = getenv(variable);

    if (!error || !ours_fd(fd) || !is_folder(fd))
        return 0;
    errno = atoi(error);
    return 1;
}

static int full(off_t more)
{
    const char *most = getenv("IO_DISK");

    if (!most || __atomic_add_fetch(&shared->bytes, more, __ATOMIC_SEQ_CST) <= atol(most))
        return 0;
    __atomic_sub_fetch(&shared->bytes, more, __ATOMIC_SEQ_CST);
    errno = ENOSPC;
    return 1;
}

int statvfs(const char *path, struct statvfs *v)
{
    const char *most = getenv("IO_DISK");
    const int rc = REAL(statvfs)(path, v);

    if (rc == 0 && most && ours(path)) {
        v->f_frsize = 1;
        v->f_bavail = (fsblkcnt_t)atol(most);
    }
    return rc;
}

/* ---- whole pages ----------------------------------------------------------------- */

enum { PAGE = 4096 };

static void view_open(int fd, const char *path, int flags)
{
    const char *pages = getenv("IO_PAGES");
    struct View *v = &view_of[fd];
    struct stat s;

    if (!pages || (flags & O_ACCMODE) != O_WRONLY || fstat(fd, &s) != 0 ||
        (!strcmp(pages, "2") && strstr(path, ".tmp-step-trial")))
        return;
    int in = REAL(open)(path, O_RDONLY | O_CLOEXEC);
    v->size = s.st_size;
    v->bytes = calloc(1, (size_t)v->size + 1);
    v->dirty = calloc(1, (size_t)v->size / PAGE + 1);
    if (in < 0 || !v->bytes || !v->dirty ||
        REAL(pread)(in, v->bytes, (size_t)v->size, 0) != v->size)
        abort();
    close(in);
}

static ssize_t view_write(struct View *v, const void *data, size_t n, off_t at)
{
    memcpy(v->bytes + at, data, n);
    for (off_t p = at / PAGE; n > 0 && p <= (at + (off_t)n - 1) / PAGE; p++)
        v->dirty[p] = 1;
    return (ssize_t)n;
}

static void view_close(int fd)
{
    struct View *v = &view_of[fd];

    for (off_t at = 0; v->bytes && at < v->size; at += PAGE) {
        off_t n = v->size - at < PAGE ? v->size - at : PAGE;

        if (v->dirty[at / PAGE] && REAL(pwrite)(fd, v->bytes + at, (size_t)n, at) != n)
            abort();
    }
    free(v->bytes);
    free(v->dirty);
    *v = (struct View){0};
}

/* ---- calls ----------------------------------------------------------------------- */

static void prune(const char *path)
{
    const char *gone = getenv("IO_GONE"), *comes = getenv("IO_COMES");
    char away[1200], there[1200];

    if (!gone || strncmp(path, gone, strlen(gone)))
        return;
    snprintf(away, sizeof away, "%s.away", gone);
    snprintf(there, sizeof there, "%.*s%s", (int)(strrchr(gone, '/') - gone), gone,
             strrchr(comes, '/'));
    if (REAL(rename)(comes, there) == 0)
        REAL(rename)(gone, away);
}

int access(const char *path, int mode)
{
    if (ours(path) && getenv("IO_GONE_LATE") && strstr(path, "/model.safetensors"))
        prune(path);
    return REAL(access)(path, mode);
}

int open(const char *path, int flags, ...)
{
    va_list ap;
    mode_t mode;
    int fd;

    va_start(ap, flags);
    mode = flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if (!ours(path))
        return REAL(open)(path, flags, mode);
    if (!getenv("IO_GONE_LATE"))
        prune(path);
    if (fails(EIO))
        return -1;
    if (flags & O_CREAT && getenv("IO_READONLY")) {
        errno = EROFS;
        return -1;
    }
    fd = REAL(open)(path, flags, mode);
    if (fd >= 0 && fd < MOST_FDS)
        snprintf(path_of[fd], sizeof path_of[fd], "%s", path);
    if (fd >= 0 && fd < MOST_FDS)
        view_open(fd, path, flags);
    if (fd >= 0 && flags & O_CREAT)
        record("create %s\n", path);
    return fd;
}

int close(int fd)
{
    int bad = ours_fd(fd) && fails(EIO);

    if (ours_fd(fd))
        view_close(fd);
    if (ours_fd(fd))
        path_of[fd][0] = '\0';
    return REAL(close)(fd) || bad ? -1 : 0;
}

int fallocate(int fd, int mode, off_t at, off_t bytes)
{
    const char *can = getenv("IO_RESERVE");

    if (!ours_fd(fd))
        return REAL(fallocate)(fd, mode, at, bytes);
    if (can && !strcmp(can, "0")) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if (fails(ENOSPC) || full(bytes))
        return -1;
    record("size %s %lld\n", path_of[fd], (long long)bytes);
    return REAL(fallocate)(fd, mode, at, bytes);
}

int ftruncate(int fd, off_t bytes)
{
    if (!ours_fd(fd))
        return REAL(ftruncate)(fd, bytes);
    if (fails(EIO))
        return -1;
    record("size %s %lld\n", path_of[fd], (long long)bytes);
    return REAL(ftruncate)(fd, bytes);
}

ssize_t write(int fd, const void *data, size_t n)
{
    int f = ours_fd(fd) ? fault() : 0;

    if (f == 1) {
        errno = ENOSPC;
        return -1;
    }
    return REAL(write)(fd, data, f == 2 && n > 1 ? n / 2 : n);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    const char *can = getenv("IO_RESERVE");
    int f = ours_fd(fd) ? fault() : 0;
    ssize_t done;

    if (f == 1 || (f == 2 && n < 2) ||
        (ours_fd(fd) && can && !strcmp(can, "0") && full((off_t)n))) {
        errno = f == 1 && getenv("IO_ERRNO") ? atoi(getenv("IO_ERRNO")) : ENOSPC;
        return -1;
    }
    done = ours_fd(fd) && view_of[fd].bytes
               ? view_write(&view_of[fd], data, n, at)
               : REAL(pwrite)(fd, data, f == 2 ? n / 2 : n, at);
    if (ours_fd(fd) && done > 0)
        record("write %s %lld %lld\n", path_of[fd], (long long)at, (long long)done);
    return done;
}

ssize_t pread(int fd, void *data, size_t n, off_t at)
{
    int f = ours_fd(fd) ? fault() : 0;

    if (f == 1) {
        errno = getenv("IO_ERRNO") ? atoi(getenv("IO_ERRNO")) : EIO;
        return -1;
    }
    return REAL(pread)(fd, data, f == 2 && n > 1 ? n / 2 : n, at);
}

int fsync(int fd)
{
    if (!ours_fd(fd))
        return REAL(fsync)(fd);
    if (folder_fails(fd, "IO_FSYNC"))
        return -1;
    if (getenv("IO_SLOW") && !is_folder(fd))
        usleep(1000 * (useconds_t)atoi(getenv("IO_SLOW")));
    if (fails(EIO))
        return -1;
    record("fsync %s\n", path_of[fd]);
    return 0; /* no power fails here: the log is what counts */
}

int flock(int fd, int what)
{
    return folder_fails(fd, "IO_FLOCK") ? -1 : REAL(flock)(fd, what);
}

int mkdir(const char *path, mode_t mode)
{
    int r;

    if (!ours(path))
        return REAL(mkdir)(path, mode);
    if (fails(EIO))
        return -1;
    r = REAL(mkdir)(path, mode);
    if (r == 0)
        record("mkdir %s\n", path);
    return r;
}

int rename(const char *from, const char *to)
{
    int r;

    if (!ours(from))
        return REAL(rename)(from, to);
    if (fails(EIO))
        return -1;
    r = REAL(rename)(from, to);
    renames += r == 0 && strstr(to, "/step-") != NULL;
    if (r == 0)
        record("rename %s %s\n", from, to);
    return r;
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    int r;

    if (!ours(from))
        return REAL(renameat2)(from_dir, from, to_dir, to, flags);
    if (fails(EIO))
        return -1;
    r = REAL(renameat2)(from_dir, from, to_dir, to, flags);
    if (r == 0)
        record("%s %s %s\n", flags & RENAME_EXCHANGE ? "exchange" : "rename", from, to);
    return r;
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    int r;

    if (!ours(to))
        return REAL(linkat)(from_dir, from, to_dir, to, flags);
    if (fails(EIO))
        return -1;
    r = REAL(linkat)(from_dir, from, to_dir, to, flags);
    if (r == 0)
        record("link %s\n", to);
    return r;
}

int unlink(const char *path)
{
    return ours(path) && fails(EIO) ? -1 : REAL(unlink)(path);
}

int remove(const char *path)
{
    int r;

    if (!ours(path))
        return REAL(remove)(path);
    if (fails(EIO))
        return -1;
    r = REAL(remove)(path);
    if (r == 0)
        record("remove %s\n", path);
    return r;
}

/* What a person has been told: a checkpoint whose folder was renamed before is due. */
int fflush(FILE *f)
{
    static int paused;
    int r;

    if (f == stdout)
        record("told\n");
    r = REAL(fflush)(f);
    if (f == stdout && renames > 0 && !paused && getenv("IO_PAUSE")) {
        paused = 1;
        raise(SIGSTOP);
    }
    return r;
}
