/* SPDX-License-Identifier: MIT-0 */
/* rt_agree_data.c: checks that all ranks find the same data. In: the files that this rank
 * has opened. Out: nothing, or the failure of the rank that differs from rank 0. Whether
 * files of equal sizes also have equal bytes is checked later (rt_digest.c). */
#include "data/rt_data.h"
#include "job/rt_job.h"

/* A rank with other files would use other samples. */
void rt_agree_data(Rt *rt, const char *flag, const RtTokens *d)
{
    const uint64_t mine = rt_tokens_hash(d);
    uint64_t first[2] = {mine, (uint64_t)rt_tokens_samples(d)};
    rt_take_first(rt, first, 2);
    if (mine != first[0]) {
        rt_fail(rt, RT_EXIT_ERROR,
                "--%s: its files are not those of rank 0: %lld sequences here, %lld "
                "there; all ranks must find the same bytes",
                flag, (long long)rt_tokens_samples(d), (long long)first[1]);
    }
}
