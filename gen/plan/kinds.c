/* SPDX-License-Identifier: Apache-2.0 */
/* kinds.c: the words for kinds of buffers and instructions, streams and orders. */
#include "plan/plan.h"

const char *buf_kind_name(BufKind k)
{
    static const char *const names[N_BUF_KINDS] = {
        "param shard", "master",    "moment1", "moment2",   "grad shard", "partial",
        "grad accum",  "const",     "data",    "control",   "staging",    "library",
        "gathered",    "kept",      "grad",    "boundary",  "d_boundary", "saved",
        "scratch",     "direction", "owned",   "workspace", "logits"};
    gen_require((int)k >= 0 && k < N_BUF_KINDS && names[k], "buffer kind %d", (int)k);
    return names[k];
}

const char *ins_kind_name(InsKind k)
{
    static const char *const names[] = {"all_gather",     "keep",        "span",
                                        "reduce_scatter", "all_reduce",  "merge",
                                        "norm",           "norm_reduce", "update",
                                        "momentum",       "to_owners",   "matrices",
                                        "from_owners",    "step"};
    gen_require((size_t)k < sizeof names / sizeof *names, "instruction kind %d", (int)k);
    return names[k];
}

const char *stream_name(StreamId s)
{
    return s == STREAM_COMPUTE ? "compute" : s == STREAM_GATHER ? "gather" : "reduce";
}

const char *prefetch_order_name(PrefetchOrder o)
{
    return o == PREFETCH_PRE ? "pre" : o == PREFETCH_POST ? "post" : "none";
}
