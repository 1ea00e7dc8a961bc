/* SPDX-License-Identifier: Apache-2.0 */
/* glob.c: patterns of names. In: a pattern and a name. Out: whether they match. The
 * matcher backtracks to the last star only: linear in practice, quadratic at worst. */
#include "base/glob.h"

#include <stddef.h>

bool glob_matches(const char *glob, const char *name)
{
    const char *star = NULL, *from = NULL;

    while (*name) {
        if (*glob == '*') {
            star = glob++;
            from = name;
        } else if (*glob == *name || *glob == '?') {
            glob++;
            name++;
        } else if (star) {
            glob = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*glob == '*')
        glob++;
    return *glob == '\0';
}
