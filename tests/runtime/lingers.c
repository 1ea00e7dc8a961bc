/* SPDX-License-Identifier: Apache-2.0 */
/* lingers.c: preloaded (LD_PRELOAD), a library whose exit handler never returns in ranks:
 * processes whose parent runs the same program. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__attribute__((destructor)) static void linger(void)
{
    char parent[64], mine[4096] = "", theirs[4096] = "";
    snprintf(parent, sizeof parent, "/proc/%d/exe", (int)getppid());
    if (readlink("/proc/self/exe", mine, sizeof mine - 1) > 0 &&
        readlink(parent, theirs, sizeof theirs - 1) > 0 && strcmp(mine, theirs) == 0)
        for (;;)
            pause();
}
