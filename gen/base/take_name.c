/* SPDX-License-Identifier: Apache-2.0 */
/* take_name.c: gives a file a name that must be free. In: its name. Out: its new name, or
 * why not. A look before rename() would leave time for a file to come and be lost. */
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
    /* NFS: no such rename, but links */
    return linkat(from_dir, from, to_dir, to, 0) == 0 && unlinkat(from_dir, from, 0) == 0;
}
