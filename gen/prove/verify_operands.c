/* SPDX-License-Identifier: Apache-2.0 */
/* verify_operands.c: what each instruction but a span reads and writes, and the order of
 * its sums. In: the instructions of unroll. Out: NULL or what is wrong with one.
 *
 * Derived from what a kind does to kinds of buffers, not from the rows of kinds.c that
 * unroll follows. So this catches an access that a row forgets, which no pass could order
 * or place. */
#include "plan/plan.h"
#include "prove/verify.h"

#define ONE(kind) (1u << BUF_##kind)
#define GATHERABLE (ONE(PARAM_SHARD) | ONE(CODES) | ONE(KEPT))
#define GRADS (ONE(GRAD_SHARD) | ONE(GRAD_ACCUM) | ONE(GRAD))

typedef struct Want {
    unsigned kinds; /* one buffer of these, if the plan has one; 0: end of the list */
    enum { OF_SEGMENT, OF_BATCH, OF_SHARED, OF_NONE } of; /* BATCH, SHARED: all theirs */
    bool write, peers;
} Want;

static const Want wants[N_INS_KINDS][8] = {
    [INS_ALL_GATHER] = {{GATHERABLE, OF_SEGMENT, false, false},
                        {GATHERABLE, OF_SEGMENT, false, true},
                        {ONE(GATHERED), OF_SEGMENT, true, false}},
    [INS_KEEP] = {{ONE(GATHERED), OF_SEGMENT, false, false},
                  {ONE(KEPT), OF_SEGMENT, true, false}},
    [INS_REDUCE_SCATTER] = {{ONE(GRAD_ACCUM) | ONE(GRAD), OF_SEGMENT, false, false},
                            {ONE(GRAD_ACCUM) | ONE(GRAD), OF_SEGMENT, false, true},
                            {ONE(GRAD_SHARD), OF_SEGMENT, true, false},
                            {ONE(STAGING), OF_NONE, true, false}},
    [INS_ALL_REDUCE] = {{ONE(GRAD_SHARD), OF_SEGMENT, true, false},
                        {ONE(GRAD_SHARD), OF_SEGMENT, false, true},
                        {ONE(STAGING), OF_NONE, true, false}},
    [INS_MERGE] = {{GRADS, OF_SEGMENT, true, false},
                   {ONE(PARTIAL), OF_SEGMENT, true, false}},
    [INS_NORM] = {{ONE(GRAD_SHARD), OF_SEGMENT, false, false},
                  {ONE(CONTROL), OF_NONE, true, false}},
    [INS_NORM_REDUCE] = {{ONE(CONTROL), OF_NONE, true, false}},
    [INS_UPDATE] = {{ONE(GRAD_SHARD), OF_SEGMENT, false, false},
                    {ONE(CONTROL), OF_NONE, false, false},
                    {ONE(PARAM_SHARD), OF_SEGMENT, true, false},
                    {ONE(MASTER), OF_SEGMENT, true, false},
                    {ONE(MOMENT1), OF_SEGMENT, true, false},
                    {ONE(MOMENT2), OF_SEGMENT, true, false}},
    [INS_GATHER_UPDATED] = {{ONE(PARAM_SHARD), OF_SEGMENT, true, false},
                            {ONE(PARAM_SHARD), OF_SEGMENT, false, true}},
    [INS_LARGEST] = {{ONE(PARAM_SHARD), OF_SEGMENT, false, false},
                     {ONE(LARGEST), OF_NONE, true, false}},
    [INS_LARGEST_REDUCE] = {{ONE(LARGEST), OF_NONE, true, false},
                            {ONE(SCALES), OF_NONE, true, false}},
    [INS_ENCODE] = {{ONE(PARAM_SHARD), OF_SEGMENT, false, false},
                    {ONE(SCALES), OF_NONE, false, false},
                    {ONE(CODES), OF_SEGMENT, true, false}},
    [INS_CLOSE] = {{ONE(PARAM_SHARD), OF_SHARED, false, false}},
    [INS_MOMENTUM] = {{ONE(GRAD_SHARD), OF_SEGMENT, false, false},
                      {ONE(CONTROL), OF_NONE, false, false},
                      {ONE(MOMENT1), OF_SEGMENT, true, false},
                      {ONE(DIRECTION), OF_SEGMENT, true, false}},
    [INS_TO_OWNERS] = {{ONE(DIRECTION), OF_BATCH, false, false},
                       {ONE(DIRECTION), OF_BATCH, false, true},
                       {ONE(OWNED), OF_NONE, true, false}},
    [INS_MATRICES] = {{ONE(DIRECTION), OF_BATCH, false, false},
                      {ONE(OWNED), OF_NONE, true, false},
                      {ONE(WORKSPACE), OF_NONE, true, false},
                      {ONE(CONTROL), OF_NONE, false, false}},
    [INS_FROM_OWNERS] = {{ONE(OWNED), OF_NONE, false, false},
                         {ONE(OWNED), OF_NONE, false, true},
                         {ONE(DIRECTION), OF_BATCH, true, false}},
    [INS_STEP] = {{ONE(DIRECTION), OF_SEGMENT, false, false},
                  {ONE(CONTROL), OF_NONE, false, false},
                  {ONE(PARAM_SHARD), OF_SEGMENT, true, false},
                  {ONE(MASTER), OF_SEGMENT, true, false}},
};

/* Does this row require a buffer of the segment (-1: of none)? */
static bool asks_of(const Gen *g, const Instr *i, const Want *w, int segment)
{
    const Batch *b = i->batch >= 0 ? &g->batches.items[i->batch] : NULL;
    const Segment *s = segment >= 0 ? &g->segments.items[segment] : NULL;
    if (!s || w->of == OF_NONE)
        return !s && w->of == OF_NONE;
    if (w->of == OF_SEGMENT)
        return segment == i->segment;
    if (w->of == OF_SHARED)
        return s->trainable && s->shards > 1 && s->param_elems == s->elems;
    /* Owners compute where they have gathered, or where each rank has everything. */
    return b && b->first_segment <= segment && segment <= b->last_segment &&
           (i->kind != INS_MATRICES || !verify_batch_group(g, b));
}

/* Is the buffer written after all? First hops within nodes leave their sums where the
 * gradient was; a single rank computes matrices in place. */
static bool asks_write(const Gen *g, const Instr *i, const Want *w)
{
    bool hop = i->kind == INS_REDUCE_SCATTER && mesh_two_hops(g, i->group);
    bool alone = i->kind == INS_MATRICES && g->model.mesh.world_size == 1;
    return w->write || (!w->peers && (hop || (alone && w->kinds == ONE(DIRECTION))));
}

static const char *check_row(Gen *g, const Instr *i, const Want *w, const unsigned *has,
                             int *matched)
{
    bool write = asks_write(g, i, w);
    for (int s = -1; s < g->segments.count; s++) {
        int n = 0;
        bool want = asks_of(g, i, w, s) && has[s + 1] & w->kinds;
        for (int a = 0; want && a < i->n_access; a++) {
            const Buffer *b = &g->prog.bufs.items[i->access[a].buffer];
            n += b->segment == s && 1u << b->kind & w->kinds &&
                 i->access[a].write == write && i->access[a].remote == w->peers;
        }
        if (n != want) {
            return gen_printf(g, "%s does not %s%s what it %s", ins_label(g, i),
                              write ? "write" : "read", w->peers ? " of peers" : "",
                              n ? "should, but more" : "should");
        }
        *matched += n;
    }
    return NULL;
}

/* Operands are among the accesses: to and with are written. */
static const char *check_named(Gen *g, const Instr *i)
{
    if ((i->from >= 0 && !ins_touches(i, i->from, false)) ||
        (i->to >= 0 && !ins_touches(i, i->to, true)) ||
        (i->with >= 0 && !ins_touches(i, i->with, true)))
        return gen_printf(g, "%s does not touch its operands", ins_label(g, i));
    return NULL;
}

/* Floats are added as a tree over the numbers in the group, or in the library's order if
 * the description allows it: the same for all instructions that add, so that all members
 * of all groups agree. */
static const char *check_order(Gen *g, const Instr *i)
{
    SumOrder want = i->kind != INS_REDUCE_SCATTER && i->kind != INS_ALL_REDUCE
                        ? ORDER_NONE
                    : g->model.library_order ? ORDER_LIBRARY
                                             : ORDER_TREE;
    return i->order == want ? NULL
                            : gen_printf(g, "%s adds in another order", ins_label(g, i));
}

const char *verify_operands(Gen *g)
{
    const Program *p = &g->prog;
    const char *bad = NULL;
    unsigned *has = gen_alloc(g, sizeof *has * (size_t)(g->segments.count + 1));
    for (int b = 0; b < p->bufs.count; b++)
        has[p->bufs.items[b].segment + 1] |= 1u << p->bufs.items[b].kind;
    for (int id = 0; id < p->ins.count && !bad; id++) {
        const Instr *i = &p->ins.items[id];
        int matched = 0;
        bad = check_order(g, i);
        if (i->kind == INS_SPAN) /* verify_spans does these */
            continue;
        for (const Want *w = wants[i->kind]; w->kinds && !bad; w++)
            bad = check_row(g, i, w, has, &matched);
        bad = bad ? bad : check_named(g, i);
        if (!bad && matched != i->n_access)
            bad = gen_printf(g, "%s touches what it should not", ins_label(g, i));
    }
    return bad;
}
