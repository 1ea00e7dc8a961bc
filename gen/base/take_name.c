/* SPDX-License-Identifier: Apache-2.0 */
/* take_name.c: gives a file a name that must be free. In: the name. Out: the renamed
 * file, or why not. A check before rename() would leave time for another file to appear
 * and be overwritten. */
#define _GNU_SOURCE /* renameat2 */
#include "base/take_name.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

bool take_name(int from_dir, const char *from, int to_dir, const char *to)
{
    if (renameat2(from_dir, from, to_dir, to, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EINVAL && errno != ENOSYS)
        return false;
    /* NFS has no such rename, but it has links */
    return linkat(from_dir, from, to_dir, to, 0) == 0 && unlinkat(from_dir, from, 0) == 0;
}
