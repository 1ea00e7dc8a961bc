/* SPDX-License-Identifier: MIT-0 */
/* rt_shm.c: the memory of a rank. In: the planned sizes. Out: the page that all ranks
 * share, every rank's symmetric space (shared, anonymous, by descriptor), this rank's
 * local space (private).
 *
 * The descriptor contains the shared page first, then the symmetric spaces in rank
 * order. It belongs to no file system, so the size of /dev/shm does not matter. Each
 * rank reserves its own space, on its own memory node, so that a lack of memory is an
 * error at start.
 *
 * With guards, an inaccessible page lies on both ends of each space. A space ends
 * right at its guard; the rest of its first page contains a pattern that is checked at
 * the end. */
#define _GNU_SOURCE
#include "job/rt_job.h"
#include "rt_target.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGN = 256, PATTERN = 0xA5, HUGE_PAGE = 2 << 20 };

/* Bytes before a guarded space in its first page. */
static int64_t slack(int64_t bytes)
{
    return (rt_pages(bytes) - bytes) / ALIGN * ALIGN;
}

int64_t rt_shared_bytes(const RtTrainer *t)
{
    return rt_pages(sizeof(RtShared)) + t->world_size * rt_pages(t->symmetric_bytes);
}

/* Maps a space between inaccessible pages: from the descriptor, or private. */
static char *map_space(int64_t bytes, int fd, int64_t offset, bool guard)
{
    const int64_t size = rt_pages(bytes);
    const int64_t page = rt_pages(1);
    const int64_t align = fd < 0 && size >= HUGE_PAGE && !guard ? HUGE_PAGE : page;
    char *hold = mmap(NULL, (size_t)(size + 2 * page + align), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (hold == MAP_FAILED || size == 0)
        return hold;
    char *at = hold + page;
    at += (align - (int64_t)((uintptr_t)at % (uintptr_t)align)) % align;
    const int flags = MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
    if (mmap(at, (size_t)size, PROT_READ | PROT_WRITE, flags, fd, offset) == MAP_FAILED)
        return MAP_FAILED;
    if (align == HUGE_PAGE)
        madvise(at, (size_t)size, MADV_HUGEPAGE); /* fewer page faults; may be refused */
    return at + (guard ? slack(bytes) : 0);
}

static void fill_pattern(char *space, int64_t bytes)
{
    const int64_t before = slack(bytes), after = rt_pages(bytes) - before - bytes;
    memset(space - before, PATTERN, (size_t)before);
    memset(space + bytes, PATTERN, (size_t)after);
}

static bool is_pattern(const char *from, const char *to)
{
    while (from < to && (unsigned char)*from == PATTERN)
        from++;
    return from >= to;
}

static bool pattern_intact(const char *space, int64_t bytes)
{
    const char *page = space - slack(bytes);
    return is_pattern(page, space) && is_pattern(space + bytes, page + rt_pages(bytes));
}

static bool no_memory(char *error, int64_t bytes, const char *kind)
{
    snprintf(error, RT_ERROR_BYTES, "%lld bytes of %s memory for this rank's arena: %s",
             (long long)bytes, kind, rt_limits_map_error("", errno));
    return false;
}

bool rt_arena_map(Rt *rt, int fd, bool guard, char *error)
{
    const RtTrainer *t = rt->trainer;
    const int64_t head = rt_pages(sizeof(RtShared)), space = rt_pages(t->symmetric_bytes);
    int reserved;
    do {
        reserved = space > 0 ? fallocate(fd, 0, head + rt->rank * space, space) : 0;
    } while (reserved != 0 && errno == EINTR);
    /* An old kernel without fallocate for this: then pages are allocated when touched. */
    if (reserved != 0 && errno != EOPNOTSUPP)
        return no_memory(error, space, "shared");
    for (int r = 0; r < rt->world_size; r++) {
        rt->peer[r] = map_space(t->symmetric_bytes, fd, head + r * space, guard);
        if (rt->peer[r] == MAP_FAILED)
            return no_memory(error, space, "shared");
    }
    rt->symmetric = rt->peer[rt->rank];
    rt->local = map_space(t->local_bytes, -1, 0, guard);
    if (rt->local == MAP_FAILED)
        return no_memory(error, t->local_bytes, "private");
    if (guard) {
        fill_pattern(rt->symmetric, t->symmetric_bytes);
        fill_pattern(rt->local, t->local_bytes);
    }
    return true;
}

bool rt_arena_intact(const Rt *rt)
{
    return pattern_intact(rt->symmetric, rt->trainer->symmetric_bytes) &&
           pattern_intact(rt->local, rt->trainer->local_bytes);
}

void rt_arena_read(const Rt *rt, RtSpace space, int64_t offset, void *to, int64_t bytes)
{
    const char *base = space == RT_SPACE_SYMMETRIC ? rt->symmetric : rt->local;
    memcpy(to, base + offset, (size_t)bytes);
}

void rt_arena_write(Rt *rt, RtSpace space, int64_t offset, const void *from,
                    int64_t bytes)
{
    char *base = space == RT_SPACE_SYMMETRIC ? rt->symmetric : rt->local;
    memcpy(base + offset, from, (size_t)bytes);
}
