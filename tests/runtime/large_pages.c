/* SPDX-License-Identifier: Apache-2.0 */
/* large_pages.c: a kernel with pages of 64 KiB, as those of many Arm and POWER machines.
 * Preloaded (LD_PRELOAD) it tells a process tree that pages have 64 KiB, and refuses what
 * such a kernel refuses: mappings of a file from elsewhere, at places that are no page's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE_BYTES = 65536 };

long sysconf(int name)
{
    static long (*of_library)(int);
    if (of_library == NULL)
        of_library = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    return name == _SC_PAGESIZE ? PAGE_BYTES : of_library(name);
}

void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    if (offset % PAGE_BYTES != 0 ||
        ((flags & MAP_FIXED) && (uintptr_t)at % PAGE_BYTES != 0)) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
}

void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return mmap(at, bytes, prot, flags, fd, offset);
}
