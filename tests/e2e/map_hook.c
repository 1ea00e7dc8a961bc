/* SPDX-License-Identifier: Apache-2.0 */
/* map_hook.c: which spaces a process tree maps. Preloaded (LD_PRELOAD) it stands before
 * mmap and appends a line to the file that MAP_HOOK_FILE names for each mapping at a
 * fixed place that can be written, as those of an arena are: the process, "shared" or
 * "private", its bytes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    const char *path = getenv("MAP_HOOK_FILE");
    if (path != NULL && (flags & MAP_FIXED) && (prot & PROT_WRITE)) {
        const int log = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        dprintf(log, "%d %s %zu\n", (int)getpid(),
                flags & MAP_SHARED ? "shared" : "private", bytes);
        close(log);
    }
    return (void *)syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
}
