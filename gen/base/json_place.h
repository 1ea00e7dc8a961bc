/* SPDX-License-Identifier: Apache-2.0 */
/* json_place.h: where a value stands in a JSON text, for messages. */
#ifndef JSON_PLACE_H
#define JSON_PLACE_H

#include "base/base.h"

#include <jansson.h>

/* The place of a member's value in a valid JSON text: path is `key`, `key.key`, `key.3.key`. If the
 * key is missing, the place of the innermost object that exists. */
Pos json_place(const char *file, const char *text, size_t bytes, const char *path);
/* Byte offset to line and column (both from 1), for a parser's own errors. */
Pos json_offset(const char *file, const char *text, size_t bytes, size_t offset,
                size_t len);
/* What is wrong with a text that the parser refused. */
const char *json_problem(Gen *g, const json_error_t *error);

#endif
