/* SPDX-License-Identifier: Apache-2.0 */
/* full_maps.c: a process that has all the mappings that vm.max_map_count allows.
 * Preloaded (LD_PRELOAD) it takes those that remain before a mapping of the runtime's,
 * and gives them back when that is told: libraries that get no memory abort, or ask
 * again without end. FULL_MAPS=arena: the arena's; copies: those of what saves copy to,
 * the second shared ones after it (the first: digests of data). */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *kernel_mmap(void *at, size_t bytes, int prot, int flags, int fd,
                         off_t offset)
{
    return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
}

enum { PAGE_BYTES = 65536, MOST = 1 << 22 };
static void *taken[MOST];
static int n_taken;

/* Neighbours with other rights are not merged. */
static void take_all(void)
{
    for (; n_taken < MOST; n_taken++) {
        void *at = kernel_mmap(NULL, PAGE_BYTES, n_taken % 2 ? PROT_NONE : PROT_READ,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            return;
        taken[n_taken] = at;
    }
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    while (fd == STDERR_FILENO && n_taken > 0)
        munmap(taken[--n_taken], PAGE_BYTES);
    return syscall(SYS_write, fd, bytes, n);
}

void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    static int arena, shared_ones, over;
    const char *of = getenv("FULL_MAPS");
    const int fixed = (flags & MAP_FIXED) && (prot & PROT_WRITE);
    const int shared = !fixed && arena && (flags & MAP_SHARED) && (prot & PROT_WRITE);
    arena |= fixed;
    shared_ones += shared;
    if (of == NULL || over || !(strcmp(of, "arena") == 0 ? fixed : shared_ones == 2))
        return kernel_mmap(at, bytes, prot, flags, fd, offset);
    over = 1;
    take_all(); /* inside of another mapping it would need two more */
    return kernel_mmap(at, bytes, prot, flags, fd, offset);
}

void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return mmap(at, bytes, prot, flags, fd, offset);
}
