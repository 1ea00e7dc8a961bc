/* SPDX-License-Identifier: MIT-0 */
/* rt_shared.c: the memory that all ranks of a machine share, a file on no disk. In: the
 * trainer. Out: its descriptor, which ranks inherit or receive, and its first page;
 * messages for what the kernel refuses. The target manages the memory after that page
 * (rt_shm.c, rt_arena.c). */
#define _GNU_SOURCE
#define _GNU_SOURCE
#include "job/rt_job.h"
#include "rt_target.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int64_t rt_pages(int64_t bytes)
{
    const int64_t page = sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

int64_t rt_shared_most_bytes(const RtTrainer *t)
{
    enum { OF_DIGESTS = 16 << 10 };
    return rt_shared_bytes(t) +
           t->world_size * (rt_pages(t->snapshot_bytes) + rt_pages(OF_DIGESTS));
}

/* It is not on a disk, but limits on files apply. */
const char *rt_shared_error(int64_t bytes)
{
    static char text[240];
    const int reason = errno;
    snprintf(text, sizeof text, "%s", rt_limits_map_error("", reason));
    if (reason == EFBIG) {
        snprintf(text, sizeof text,
                 "%s: `ulimit -f` counts the %lld bytes that ranks share as a file",
                 strerror(reason), (long long)bytes);
    }
    return text;
}

static int create(const RtTrainer *t)
{
    const int fd = memfd_create("trainer", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, rt_shared_bytes(t)) != 0) {
        const int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

RtShared *rt_shared_map(int fd)
{
    void *at = mmap(NULL, sizeof(RtShared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return at != MAP_FAILED ? at : NULL;
}

RtShared *rt_shared_create(const RtTrainer *t, int *fd)
{
    *fd = create(t);
    return *fd >= 0 ? rt_shared_map(*fd) : NULL;
}

RtShared *rt_shared_first(const RtTrainer *t, int *fd)
{
    RtShared *shared = rt_shared_create(t, fd);
    if (shared == NULL) {
        rt_say("trainer: error: no shared memory: %s",
               rt_shared_error(rt_shared_most_bytes(t)));
    }
    return shared;
}
