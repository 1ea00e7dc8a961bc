/* SPDX-License-Identifier: Apache-2.0 */
/* glob.h: patterns of names in a description: of parameters in `groups`, of blocks and pieces in
 * `wrap`. */
#ifndef GLOB_H
#define GLOB_H

#include <stdbool.h>

/* Matches the whole name: * matches any characters, dots too; ? matches one. */
bool glob_matches(const char *glob, const char *name);

#endif
