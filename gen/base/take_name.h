/* SPDX-License-Identifier: Apache-2.0 */
/* take_name.h: gives a file a name that must be free. */
#ifndef TAKE_NAME_H
#define TAKE_NAME_H

#include <stdbool.h>

/* Renames without replacing anything; the folders are open as from_dir and to_dir, or AT_FDCWD.
 * false with errno EEXIST if `to` exists; it stays. */
bool take_name(int from_dir, const char *from, int to_dir, const char *to);

#endif
