/* SPDX-License-Identifier: Apache-2.0 */
/* known.c: known FILE DIGEST writes into the cache of digests that FILE, as it is now,
 * has this one: a lie that a trainer believes, or finds. */
#include "data/rt_digest.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    char error[RT_ERROR_BYTES];
    RtMapped m;

    if (argc != 3 || !rt_mapped_open(&m, argv[1], error))
        return 1;
    m.opened_ns = INT64_MAX; /* long after its last change */
    m.clean = true;
    rt_known_add(&m, strtoull(argv[2], NULL, 16));
    return 0;
}
