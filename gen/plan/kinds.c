/* SPDX-License-Identifier: Apache-2.0 */
/* kinds.c: the words for kinds. In: a kind of buffer or instruction, a stream, an order.
 * Out: its row or its word, as dumps and emitted files have it. */
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

const InsRule *ins_rule(InsKind k)
{
    static const InsRule rules[N_INS_KINDS] = {
        [INS_ALL_GATHER] = {"all_gather", STREAM_GATHER, true, false,
                            "gather of @ for its #", "the weights of @ are here"},
        [INS_KEEP] = {"keep", STREAM_COMPUTE, false, false, "keeping a part of @", NULL},
        [INS_SPAN] = {"span", STREAM_COMPUTE, false, false, "@ #", NULL},
        [INS_REDUCE_SCATTER] = {"reduce_scatter", STREAM_REDUCE, true, true,
                                "reduction of @",
                                "the gradient of @ is summed over ranks"},
        [INS_ALL_REDUCE] = {"all_reduce", STREAM_REDUCE, true, true,
                            "sum of @ over copies",
                            "the gradient of @ is summed over copies"},
        [INS_MERGE] = {"merge", STREAM_COMPUTE, false, false, "merge of @", NULL},
        [INS_NORM] = {"norm", STREAM_COMPUTE, false, false, "norm of @", NULL},
        [INS_NORM_REDUCE] = {"norm_reduce", STREAM_COMPUTE, true, true, "norm reduction",
                             NULL},
        [INS_UPDATE] = {"update", STREAM_COMPUTE, false, false, "update of @", NULL},
        [INS_GATHER_UPDATED] = {"gather_updated", STREAM_GATHER, true, false,
                                "gather of the updated weights of @",
                                "the updated weights of @ are here"},
        [INS_CLOSE] = {"close", STREAM_COMPUTE, false, false, "end of the step", NULL},
        [INS_MOMENTUM] = {"momentum", STREAM_COMPUTE, false, false,
                          "momentum of the matrices of @", NULL},
        [INS_TO_OWNERS] = {"to_owners", STREAM_GATHER, true, true,
                           "way of the matrices of @ to their owners",
                           "the matrices of @ are with their owners"},
        [INS_MATRICES] = {"matrices", STREAM_COMPUTE, false, false, "matrices of @",
                          NULL},
        [INS_FROM_OWNERS] = {"from_owners", STREAM_REDUCE, true, true,
                             "way of the matrices of @ back",
                             "the matrices of @ are back"},
        [INS_STEP] = {"step", STREAM_COMPUTE, false, false, "step of the matrices of @",
                      NULL},
    };
    gen_require((int)k >= 0 && k < N_INS_KINDS, "instruction kind %d", (int)k);
    return &rules[k];
}

const char *ins_place(Gen *g, const Instr *i)
{
    const Block *b = &g->blocks.items[i->block];
    return i->piece < 0
               ? b->name
               : gen_printf(g, "%s.%s", b->name, b->cls->pieces.items[i->piece].name);
}

/* Of what it is: a span's place, a segment, a batch. */
static const char *ins_subject(Gen *g, const Instr *i)
{
    return i->kind == INS_SPAN ? ins_place(g, i)
           : i->segment >= 0   ? g->segments.items[i->segment].name
           : i->batch >= 0     ? g->batches.items[i->batch].name
                               : "";
}

static const char *ins_text(Gen *g, const Instr *i, const char *words)
{
    Text t = {.g = g};
    for (const char *c = words; *c; c++)
        if (*c == '@')
            text_printf(&t, "%s", ins_subject(g, i));
        else if (*c == '#')
            text_printf(&t, "%s", phase_name(i->phase));
        else
            text_printf(&t, "%c", *c);
    return t.s;
}

const char *ins_label(Gen *g, const Instr *i)
{
    return ins_text(g, i, ins_rule(i->kind)->label);
}

const char *ins_done(Gen *g, const Instr *i)
{
    const char *words = ins_rule(i->kind)->done;
    return words ? ins_text(g, i, words) : NULL;
}

const char *stream_name(StreamId s)
{
    return s == STREAM_COMPUTE ? "compute" : s == STREAM_GATHER ? "gather" : "reduce";
}

const char *prefetch_order_name(PrefetchOrder o)
{
    return o == PREFETCH_PRE ? "pre" : o == PREFETCH_POST ? "post" : "none";
}
