/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_held.c: which documents are held out. In: --held-out, a share, and a document.
 * Out: whether it is held out. That depends on what the document says, and on nothing
 * else: not on its place, other documents or the machine. So copies of a document are on
 * one side, and a corpus that grows keeps its split. */
#include "tokenize/tokenize.h"

#define XXH_INLINE_ALL
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

bool tok_read_share(const char *s, uint64_t *below)
{
    char *end;
    double share;

    errno = 0;
    share = strtod(s, &end);
    if (errno || end == s || strspn(s, "0123456789.") != (size_t)(end - s))
        return false;
    if (!strcmp(end, "%"))
        share /= 100;
    else if (*end)
        return false;
    *below = share > 0 && share < 1 ? (uint64_t)(share * 0x1p32) : 0;
    return *below > 0;
}

bool tok_is_held_out(const TokOptions *o, const json_t *document)
{
    char *text =
        json_is_string(document)
            ? NULL
            : json_dumps(document, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    const char *s = json_is_string(document) ? json_string_value(document) : text;
    const size_t n = json_is_string(document) ? json_string_length(document)
                                              : (text ? strlen(text) : 0);
    const uint64_t hash = s ? XXH3_64bits(s, n) : 0;

    free(text);
    return hash >> 32 < o->held_below;
}
