/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h: what the fuzzers of the runtime's data reader share: the reader itself, and
 * what it calls of the runtime. */
#include "../../runtime/rt_tokens.c"
#include "../../runtime/rt_data.c"

#include "cases.h"

uint64_t rt_hash64(const void *data, size_t bytes, uint64_t seed)
{
    (void)data, (void)bytes;
    return seed; /* of mixtures, which are not asked for */
}

void rt_comm_tickets(Rt *rt) /* of collectives: there are none here */
{
    (void)rt;
}
