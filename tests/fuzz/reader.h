/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h: what the fuzzers of the runtime's data reader share: the reader itself, and
 * what it calls of the runtime. */
#include "../../runtime/data/rt_tokens.c"
#include "../../runtime/data/rt_mask.c"
#include "../../runtime/data/rt_data.c"

#include "cases.h"

const char *rt_limits_map_error(const char *root, int reason)
{
    (void)root;
    return strerror(reason);
}

