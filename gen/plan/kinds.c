/* SPDX-License-Identifier: Apache-2.0 */
/* kinds.c: the table of instruction kinds: the stream of each, what it accesses, its
 * cost, its words in the emitted step and in messages; and the names of kinds of buffers,
 * streams and orders. In: a kind. Out: its row.
 *
 * unroll derives an instruction's accesses from its row, simulate its price, emit its
 * line. The checkers (gen/prove, tests/interpret) take only names and streams from here,
 * and derive themselves what an instruction reads and writes. */
#include "plan/plan.h"

const char *buf_kind_name(BufKind k)
{
    static const char *const names[N_BUF_KINDS] = {
        "param shard", "codes",      "largest",    "scales",     "master",   "moment1",
        "moment2",     "grad shard", "partial",    "grad accum", "const",    "data",
        "control",     "staging",    "meeting",    "library",    "gathered", "kept",
        "grad",        "boundary",   "d_boundary", "saved",      "scratch",  "direction",
        "owned",       "workspace",  "logits"};
    gen_require((int)k >= 0 && k < N_BUF_KINDS && names[k], "buffer kind %d", (int)k);
    return names[k];
}

/* ---- bytes that pass through memory ---------------------------------------------- */

static const Segment *segment_of(const Gen *g, const Instr *i)
{
    return &g->segments.items[i->segment];
}

static double buffer_bytes(const Gen *g, int buffer)
{
    return (double)g->prog.bufs.items[buffer].bytes;
}

/* Reads and writes this rank's part. */
static double keep_traffic(const Gen *g, const Instr *i)
{
    return 2.0 * buffer_bytes(g, i->to);
}

/* Whole gradients if ranks sum them after the merges. */
static int64_t merge_elems(const Gen *g, const Instr *i)
{
    const Segment *s = segment_of(g, i);

    return g->model.accumulate_sharded || !plan_collectives(g) ? s->shard_elems
                                                               : s->elems;
}

/* Reads a sum and one level of the partial sums, writes one of them. */
static double merge_traffic(const Gen *g, const Instr *i)
{
    return 3.0 * (double)merge_elems(g, i) * dtype_bytes(g->model.reduce_dtype);
}

/* Ranks that hold equal parts share the norm; the first of them has most. */
static int64_t norm_elems(const Gen *g, const Instr *i)
{
    const Stretch share = layout_share(g, segment_of(g, i), 0);

    return share.hi - share.lo;
}

static double norm_traffic(const Gen *g, const Instr *i)
{
    return (double)norm_elems(g, i) * dtype_bytes(g->model.reduce_dtype);
}

static int64_t update_elems(const Gen *g, const Instr *i)
{
    const Segment *s = segment_of(g, i);

    return g->batches.count ? max_nonmatrix_elems(g, s) : s->shard_elems;
}

/* What an update of an element moves of it: reads and writes the master, and, where that
 * is not the weight itself, writes the weight; of masters in split, which are the rest of
 * the weights, it also reads these. */
static double weight_traffic(const Gen *g, const Segment *s)
{
    const Dtype master = g->model.master_dtype;
    const int own = !segment_has_master(&g->model, s) ? 0 : master == DT_SPLIT ? 2 : 1;

    return 2.0 * dtype_bytes(master) + own * dtype_bytes(s->dtype);
}

/* The weight, reads and writes moments, reads the gradient. */
static double update_traffic(const Gen *g, const Instr *i)
{
    const Model *m = &g->model;

    return (double)update_elems(g, i) *
           (weight_traffic(g, segment_of(g, i)) +
            2.0 * m->moments * dtype_bytes(m->moments_dtype) +
            dtype_bytes(m->reduce_dtype));
}

/* Reads the gradient, reads and writes the moment, writes the direction. */
static double momentum_traffic(const Gen *g, const Instr *i)
{
    const Model *m = &g->model;
    return (double)segment_of(g, i)->shard_elems *
               (2.0 * dtype_bytes(m->moments_dtype) + dtype_bytes(m->reduce_dtype)) +
           buffer_bytes(g, i->to);
}

/* The weight, reads the direction. */
static double step_traffic(const Gen *g, const Instr *i)
{
    const Segment *s = segment_of(g, i);

    return (double)s->shard_elems * weight_traffic(g, s) + buffer_bytes(g, i->from);
}

/* Reads the weights. */
static double largest_traffic(const Gen *g, const Instr *i)
{
    const Segment *s = segment_of(g, i);
    return (double)s->shard_elems * dtype_bytes(s->dtype);
}

/* Reads the weights, writes their codes. */
static double encode_traffic(const Gen *g, const Instr *i)
{
    return buffer_bytes(g, i->from) + buffer_bytes(g, i->to);
}

/* ---- kinds of instructions ------------------------------------------------------- */

/* clang-format off */
#define READS(what) {USES_##what, false, false}
#define WRITES(what) {USES_##what, true, false}
#define PEERS_READ(what) {USES_##what, false, true}

static const InsRule rules[N_INS_KINDS] = {
    [INS_ALL_GATHER] = {
        "all_gather", STREAM_GATHER, .collective = true,
        .uses = {WRITES(TO), READS(FROM), PEERS_READ(FROM)},
        .word = "gather", .start = "rt_all_gather_start", .wait = "rt_wait_gather",
        .label = "gather of @ for its #", .done = "the weights of @ are here"},
    [INS_KEEP] = {
        "keep", STREAM_COMPUTE, .uses = {READS(FROM), WRITES(TO)},
        .traffic_bytes = keep_traffic, .cost = COST_COPY,
        .word = "keep", .label = "keeping a part of @"},
    [INS_SPAN] = { /* buffers: its arguments */
        "span", STREAM_COMPUTE,
        .word = "span", .label = "@ #"},
    [INS_REDUCE_SCATTER] = { /* with two hops, the sum is also written to `from` */
        "reduce_scatter", STREAM_REDUCE, .collective = true, .closed = true, .sums = true,
        .uses = {READS(FROM), PEERS_READ(FROM), WRITES(TO), WRITES(STAGING)},
        .word = "reduce", .start = "rt_reduce_scatter_start", .wait = "rt_wait_reduce",
        .label = "reduction of @", .done = "the gradient of @ is summed over ranks"},
    [INS_ALL_REDUCE] = {
        "all_reduce", STREAM_REDUCE, .collective = true, .closed = true, .sums = true,
        .uses = {WRITES(TO), PEERS_READ(TO), WRITES(STAGING)},
        .word = "reduce", .start = "rt_all_reduce_start", .wait = "rt_wait_reduce",
        .label = "sum of @ over copies", .done = "the gradient of @ is summed over copies"},
    [INS_MERGE] = {
        "merge", STREAM_COMPUTE, .uses = {WRITES(TO), WRITES(WITH)},
        .elems = merge_elems, .traffic_bytes = merge_traffic, .cost = COST_ELEMENTWISE,
        .word = "merge", .label = "merge of @"},
    [INS_NORM] = {
        "norm", STREAM_COMPUTE, .uses = {READS(FROM), WRITES(CONTROL)},
        .elems = norm_elems, .traffic_bytes = norm_traffic, .cost = COST_NORM,
        .word = "norm", .label = "norm of @"},
    [INS_NORM_REDUCE] = { /* the runtime tells how peers use the exchange area */
        "norm_reduce", STREAM_COMPUTE, .collective = true, .closed = true,
        .uses = {WRITES(CONTROL)},
        .word = "norm_reduce", .label = "norm reduction"},
    [INS_UPDATE] = {
        "update", STREAM_COMPUTE,
        .uses = {READS(FROM), WRITES(TO), WRITES(MASTER), WRITES(MOMENT1), WRITES(MOMENT2),
                 READS(CONTROL)},
        .elems = update_elems, .traffic_bytes = update_traffic, .cost = COST_ELEMENTWISE,
        .word = "update", .label = "update of @"},
    [INS_GATHER_UPDATED] = {
        "gather_updated", STREAM_GATHER, .collective = true,
        .uses = {WRITES(TO), PEERS_READ(FROM)},
        .word = "gather_updated", .wait = "rt_wait_gather",
        .label = "gather of the updated weights of @",
        .done = "the updated weights of @ are here"},
    [INS_LARGEST] = {
        "largest", STREAM_COMPUTE, .uses = {READS(FROM), WRITES(LARGEST)},
        .traffic_bytes = largest_traffic, .cost = COST_NORM,
        .word = "largest", .label = "largest weights of @"},
    [INS_LARGEST_REDUCE] = {
        "largest_reduce", STREAM_COMPUTE, .collective = true, .closed = true,
        .uses = {WRITES(LARGEST), WRITES(SCALES)},
        .word = "largest_reduce", .label = "exchange of the largest weights"},
    [INS_ENCODE] = {
        "encode", STREAM_COMPUTE, .uses = {READS(FROM), READS(SCALES), WRITES(TO)},
        .traffic_bytes = encode_traffic, .cost = COST_ELEMENTWISE,
        .word = "encode", .label = "codes of @"},
    [INS_CLOSE] = {
        "close", STREAM_COMPUTE, .uses = {READS(SHARED)},
        .word = "close", .label = "end of the step"},
    [INS_MOMENTUM] = {
        "momentum", STREAM_COMPUTE,
        .uses = {READS(CONTROL), WRITES(TO), READS(FROM), WRITES(MOMENT1)},
        .traffic_bytes = momentum_traffic, .cost = COST_ELEMENTWISE,
        .word = "momentum", .label = "momentum of the matrices of @"},
    [INS_TO_OWNERS] = {
        "to_owners", STREAM_GATHER, .collective = true, .closed = true,
        .uses = {READS(DIRECTIONS), PEERS_READ(DIRECTIONS), WRITES(TO)},
        .word = "to_owners", .wait = "rt_wait_to_owners",
        .label = "way of the matrices of @ to their owners",
        .done = "the matrices of @ are with their owners"},
    [INS_MATRICES] = { /* and the directions, where each rank has all of the batch's matrices */
        "matrices", STREAM_COMPUTE,
        .uses = {WRITES(TO), WRITES(WITH), READS(CONTROL)},
        .word = "matrices", .label = "matrices of @"},
    [INS_FROM_OWNERS] = {
        "from_owners", STREAM_REDUCE, .collective = true, .closed = true,
        .uses = {READS(FROM), PEERS_READ(FROM), WRITES(DIRECTIONS)},
        .word = "from_owners", .wait = "rt_wait_from_owners",
        .label = "way of the matrices of @ back", .done = "the matrices of @ are back"},
    [INS_STEP] = {
        "step", STREAM_COMPUTE,
        .uses = {READS(CONTROL), READS(FROM), WRITES(TO), WRITES(MASTER)},
        .traffic_bytes = step_traffic, .cost = COST_ELEMENTWISE,
        .word = "step", .label = "step of the matrices of @"},
};
/* clang-format on */

const InsRule *ins_rule(InsKind k)
{
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

/* The subject of an instruction: a span's place, a segment, a batch. */
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
