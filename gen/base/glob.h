/* SPDX-License-Identifier: Apache-2.0 */
/* glob.h: the patterns of names in a description: of parameters in `groups`, of blocks and
 * pieces in `wrap`. */
#ifndef GLOB_H
#define GLOB_H

#include <stdbool.h>

/* Of the whole name: * stands for any letters, dots too, ? for one. */
bool glob_matches(const char *glob, const char *name);

#endif
