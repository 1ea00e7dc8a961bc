/* SPDX-License-Identifier: MIT-0 */
/* rt_shm.c: the memory of a rank. In: the planned sizes. Out: the shared page, every rank's
 * symmetric space (shared, anonymous, by descriptor), this rank's local space (private).
 *
 * The descriptor holds the shared page first, then the symmetric spaces in rank order. With
 * guards, an inaccessible page lies on both ends of each space of this rank. */
#define _GNU_SOURCE
#include "rt_private.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PAGE = 4096 };

static int64_t pages(int64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

int rt_shared_create(const RtTrainer *t)
{
    const int fd = memfd_create("trainer", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    const int64_t bytes =
        pages(sizeof(RtShared)) + t->world_size * pages(t->symmetric_bytes);
    if (ftruncate(fd, bytes) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Maps bytes at the end of an accessible region whose neighbours are guards. */
static char *map_guarded(int64_t bytes, int fd, int64_t offset, bool guard)
{
    const int64_t size = pages(bytes), margin = guard ? PAGE : 0;
    if (size == 0)
        return mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *hold = mmap(NULL, (size_t)(size + 2 * margin), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (hold == MAP_FAILED)
        return hold;
    const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    char *at = mmap(hold + margin, (size_t)size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd,
                    offset);
    if (at != MAP_FAILED && fd < 0)
        madvise(at, (size_t)size, MADV_HUGEPAGE); /* fewer page faults; refused is fine */
    return at;
}

bool rt_arena_map(Rt *rt, int fd, bool guard, char *error, size_t error_bytes)
{
    const RtTrainer *t = rt->trainer;
    const int64_t head = pages(sizeof(RtShared)), space = pages(t->symmetric_bytes);
    for (int r = 0; r < rt->world_size; r++) {
        rt->peer[r] = map_guarded(t->symmetric_bytes, fd, head + r * space, guard);
        if (rt->peer[r] == MAP_FAILED) {
            snprintf(error, error_bytes, "cannot map %lld bytes of shared memory: %s",
                     (long long)space, strerror(errno));
            return false;
        }
    }
    rt->symmetric = rt->peer[rt->rank];
    rt->local = map_guarded(t->local_bytes, -1, 0, guard);
    if (rt->local == MAP_FAILED) {
        snprintf(error, error_bytes, "cannot map %lld bytes of memory: %s",
                 (long long)t->local_bytes, strerror(errno));
        return false;
    }
    return true;
}

int64_t rt_memory_high_water_bytes(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_maxrss * 1024 : 0;
}
