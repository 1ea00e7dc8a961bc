/* SPDX-License-Identifier: MIT-0 */
/* rt_lock.c: one run at a time writes to a folder of checkpoints. In: the folder. Out:
 * its lock, held until the process ends; or who holds it; whether its name still means
 * it.
 *
 * Two runs in one folder would remove each other's checkpoints. The lock is flock's, on
 * the folder. NFS has locks of ranges instead, which need a file open for writing: there
 * it is on .lock in the folder, which names its holder.
 *
 * A holder that was killed on this machine frees its lock as soon as it has ended. If its
 * machine died, the server of the files frees the lock only when its lease expires, for
 * NFS by default after 90 seconds, and a requeued job may start before that. */
#define _GNU_SOURCE
#include "checkpoint/rt_checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum { HERE_SECONDS = 5, ELSEWHERE_SECONDS = 120, SILENT_SECONDS = 1, WHO_BYTES = 160 };

/* ---- who holds it ---------------------------------------------------------------- */

/* A process of this machine; 0: of another one, or hidden from this process. Of folders
 * on some filesystems, btrfs for one, the kernel lists another device than stat. */
static long holder_here(int fd, bool own)
{
    char line[256];
    struct stat s;
    long found = 0;
    FILE *f = fopen("/proc/locks", "re");
    if (f == NULL)
        return 0;
    while (fstat(fd, &s) == 0 && fgets(line, sizeof line, f) != NULL) {
        long pid;
        unsigned major_of, minor_of;
        unsigned long inode;
        if (sscanf(line, "%*s FLOCK %*s %*s %ld %x:%x:%lu", &pid, &major_of, &minor_of,
                   &inode) == 4 &&
            inode == s.st_ino &&
            (!own || (major_of == major(s.st_dev) && minor_of == minor(s.st_dev))))
            found = pid;
    }
    fclose(f);
    return found > 0 ? found : 0;
}

/* The words of .lock, "HOST PID", or "" if they are not there. */
static void read_words(int fd, char *words, size_t bytes)
{
    const ssize_t n = pread(fd, words, bytes - 1, 0);
    words[n > 0 ? n : 0] = '\0';
    words[strcspn(words, "\n")] = '\0';
}

static void write_words(int fd)
{
    char host[65] = "?", words[128];
    gethostname(host, sizeof host - 1);
    const int n = snprintf(words, sizeof words, "%s %ld\n", host, (long)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, words, (size_t)n, 0) != n)
        return; /* they are for messages only */
}

/* own: the descriptor is of .lock. */
static void describe(int fd, bool own, long pid, char who[WHO_BYTES])
{
    char words[100] = "";
    if (pid > 0) {
        snprintf(who, WHO_BYTES, "process %ld of this machine", pid);
        return;
    }
    if (own)
        read_words(fd, words, sizeof words);
    snprintf(who, WHO_BYTES, "a process of another machine or container%s%s%s",
             words[0] != '\0' ? " (" : "", words, words[0] != '\0' ? ")" : "");
}

/* ---- the lock -------------------------------------------------------------------- */

static bool open_lock_file(RtCheckpoint *c, int flags)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    snprintf(path, sizeof path, "%s/.lock", c->dir);
    c->lock = rt_file_open(path, flags, c->error);
    return c->lock >= 0;
}

/* Another process holds the lock: a moment's wait; false: it was long enough. */
static bool wait_for_holder(Rt *rt, bool own, double begin)
{
    RtCheckpoint *c = rt->state->checkpoint;
    const struct timespec nap = {0, 50000000};
    const double waited = rt_clock() - begin;
    const long pid = holder_here(c->lock, own);
    const int most = pid > 0 ? HERE_SECONDS : ELSEWHERE_SECONDS;
    char who[WHO_BYTES];
    const bool ranks = rt->state->shared != NULL; /* with --dry-run: not yet */
    describe(c->lock, own, pid, who);
    if (ranks && atomic_load(&rt->state->shared->signal) != 0) {
        rt_fail(rt, RT_EXIT_AGAIN,
                "a signal came while %s had the lock of %s: run it again with --resume",
                who, c->dir);
    }
    if (waited > most) {
        snprintf(c->error, sizeof c->error,
                 "another run writes its checkpoints there: %s has the lock", who);
        return false;
    }
    if (waited > SILENT_SECONDS) { /* printed once */
        rt_say("trainer: note: %s: %s has the lock; waiting for it, at most %d seconds",
               c->dir, who, most);
    }
    nanosleep(&nap, NULL);
    if (ranks)
        rt_enter(rt, RT_AT_LOAD);
    return true;
}

/* flags: of a lock file, if there must be one; *own: the lock is on it. */
static bool lock_with(Rt *rt, int flags, bool *own)
{
    RtCheckpoint *c = rt->state->checkpoint;
    const double begin = rt_clock();
    *own = false;
    c->folder = c->lock = rt_file_open(c->dir, O_RDONLY | O_DIRECTORY, c->error);
    if (c->lock < 0)
        return false;
    while (flock(c->lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EBADF && !*own) {
            *own = true;
            if (!open_lock_file(c, flags))
                return false;
        } else if (errno == EWOULDBLOCK) {
            if (!wait_for_holder(rt, *own, begin))
                return false;
        } else if (errno != EINTR) {
            rt_say("trainer: warning: %s cannot be locked (%s): start no second run "
                   "there",
                   c->dir, strerror(errno));
            *own = false;
            return true;
        }
    }
    return true;
}

/* The lock moves with the folder, and then another run may have one of that name. */
bool rt_lock_holds(RtCheckpoint *c)
{
    struct stat held, now;
    if (c->folder < 0)
        return true;
    const bool there = stat(c->dir, &now) == 0;
    if ((!there && errno != ENOENT) || fstat(c->folder, &held) != 0)
        return rt_file_error(c->error, "stat", c->dir);
    if (there && now.st_dev == held.st_dev && now.st_ino == held.st_ino)
        return true;
    snprintf(
        c->error, RT_ERROR_BYTES,
        "%.500s is no longer the folder that this run has locked, which was moved or "
        "removed: move it back, or pass its new name to --checkpoint",
        c->dir);
    return false;
}

bool rt_lock_folder(Rt *rt)
{
    RtCheckpoint *c = rt->state->checkpoint;
    bool own;
    if (!lock_with(rt, O_RDWR | O_CREAT, &own))
        return false;
    if (own)
        write_words(c->lock);
    return rt_lock_holds(c); /* it may have been moved during the wait */
}

bool rt_lock_try(Rt *rt)
{
    RtCheckpoint *c = rt->state->checkpoint;
    bool own, can = lock_with(rt, O_RDWR, &own);
    const bool none = own && c->lock < 0 && rt_file_error_is_missing();
    if (c->lock >= 0 && c->lock != c->folder)
        close(c->lock);
    if (c->folder >= 0)
        close(c->folder);
    c->folder = c->lock = -1;
    if (!can && none) { /* no run has locked it yet */
        c->error[0] = '\0';
        can = true;
    }
    return can;
}
