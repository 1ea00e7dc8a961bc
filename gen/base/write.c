/* SPDX-License-Identifier: Apache-2.0 */
/* write.c: bytes into an open file. In: its descriptor. Out: all of them written, however
 * many calls that takes. */
#include "base/base.h"

#include <errno.h>
#include <unistd.h>

bool file_write_all(int fd, const char *p, size_t n)
{
    while (n) {
        const ssize_t put = write(fd, p, n);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        p += put;
        n -= (size_t)put;
    }
    return true;
}
