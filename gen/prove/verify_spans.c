/* SPDX-License-Identifier: Apache-2.0 */
/* verify_spans.c: what each call of a span reads and writes. In: the instructions of
 * unroll, their bindings, the arguments and nodes of spans. Out: NULL or what is wrong
 * with one call.
 *
 * An argument's kind and the phase say which buffer it is, and whether the call writes
 * it. The buffer is found by kind, block, segment and number; the operands and accesses
 * that unroll wrote are compared with that:
 * 1. Each argument's buffer is accessed once, as it should be, and no other buffer is.
 * 2. Where a span joins ranks, peers read all its buffers of values, and only those.
 * 3. A micro-step's first write of a parameter's gradient stores, all later ones add. */
#include "plan/plan.h"
#include "prove/verify.h"

#include <string.h>

typedef struct Calls {
    Gen *g;
    int *first[N_BUF_KINDS]; /* by block, one further: their first buffer of that kind, or
                              * -1; at 0 those of no block */
    unsigned char *want;     /* by buffer: READ or WRITE if the call accesses it */
    const char *bad;
} Calls;

enum { UNUSED, READ, WRITE };

/* ---- buffers --------------------------------------------------------------------- */

static const Buffer *buffer_of(const Calls *x, int id)
{
    return id >= 0 && id < x->g->prog.bufs.count ? &x->g->prog.bufs.items[id] : NULL;
}

static void find_buffers(Calls *x)
{
    const int n = x->g->blocks.count + 1;

    x->want = gen_alloc(x->g, (size_t)x->g->prog.bufs.count + 1);
    for (int k = 0; k < N_BUF_KINDS; k++) {
        x->first[k] = gen_alloc(x->g, sizeof(int) * (size_t)n);
        memset(x->first[k], -1, sizeof(int) * (size_t)n);
    }
    for (int b = x->g->prog.bufs.count - 1; b >= 0; b--) {
        const Buffer *buf = &x->g->prog.bufs.items[b];

        x->first[buf->kind][buf->block + 1] = b;
    }
}

/* The buffer of a block's value, -1: of a shared one; a kind's buffers follow each
 * other. */
static int numbered(const Calls *x, BufKind kind, int block, int index)
{
    const int first = x->first[kind][block + 1];
    const Buffer *b = buffer_of(x, first < 0 ? -1 : first + index);

    return b && b->kind == kind && b->block == block ? b->id : -1;
}

static int data_buffer(const Calls *x, int index)
{
    for (int i = 0; i < N_DATA; i++) {
        const int b = numbered(x, BUF_DATA, -1, i);

        if (b >= 0 && !strcmp(buffer_of(x, b)->name, data_names[index]))
            return b;
    }
    return -1;
}

static void expect(Calls *x, const Instr *i, int buffer, bool write)
{
    if (buffer < 0 && !x->bad)
        x->bad = gen_printf(x->g, "%s: an argument has no buffer", ins_label(x->g, i));
    else if (buffer >= 0 && x->want[buffer] != WRITE)
        x->want[buffer] = write ? WRITE : READ;
}

/* Of a value or a slab: unroll chose this buffer too, and no other argument uses it. */
static void expect_own(Calls *x, const Instr *i, int buffer, int has, bool write)
{
    if (buffer >= 0 && !x->bad && (has != buffer || x->want[buffer] != UNUSED))
        x->bad = gen_printf(x->g, "%s has another buffer than %s for an argument",
                            ins_label(x->g, i), buffer_of(x, buffer)->name);
    expect(x, i, buffer, write);
}

/* A block may have several slabs of one kind: unroll's choice must be one of them. */
static void expect_slab(Calls *x, const Instr *i, BufKind kind, int has, bool write)
{
    const Buffer *b = buffer_of(x, has);

    expect_own(x, i, b && b->kind == kind && b->block == i->block ? has : -1, has, write);
}

/* ---- arguments ------------------------------------------------------------------- */

static bool makes(const Span *s, Loc loc)
{
    for (int n = 0; n < s->n_nodes; n++)
        for (int k = 0; k < s->nodes[n]->n_out; k++)
            if (s->nodes[n]->out[k]->loc == loc)
                return true;
    return false;
}

/* What lasts from the forward to the backward: in one slab, or what stays in one and what
 * is computed again in another. The first forward of a block that runs again leaves its
 * part in a slab that nothing reads after it. */
static void expect_saved(Calls *x, const Instr *i)
{
    const Block *b = &x->g->blocks.items[i->block];
    const bool first = i->phase == PHASE_FORWARD || i->phase == PHASE_EVALUATE;
    const bool write = i->phase != PHASE_EVALUATE || makes(ins_span(x->g, i), LOC_SAVED);
    const BufKind again = first ? BUF_SCRATCH : BUF_SAVED;

    if (b->keep != KEEP_SOME) {
        expect_slab(x, i, b->keep == KEEP_INPUT ? again : BUF_SAVED, i->saved, write);
        return;
    }
    if (b->cls->kept_bytes > 0)
        expect_slab(x, i, BUF_SAVED, i->saved, write);
    if (b->cls->dropped_bytes > 0)
        expect_slab(x, i, again, i->dropped, write);
}

/* The forward that runs again does not touch what the next block reads. */
static void expect_out(Calls *x, const Instr *i, const Span *s, int index)
{
    const bool input = x->g->blocks.items[i->block].keep == KEEP_INPUT;
    const bool back = i->phase == PHASE_BACKWARD;
    const bool write = !back || makes(s, LOC_OUT);

    if (i->phase == PHASE_RECOMPUTE || (back && input))
        expect_slab(x, i, BUF_SCRATCH, i->out + index, write);
    else
        expect_own(x, i, numbered(x, BUF_BOUNDARY, i->block, index), i->out + index,
                   write);
}

static void expect_arg(Calls *x, const Instr *i, const Span *s, const SpanArg *a)
{
    const int k = a->index;

    switch (a->kind) {
    case ARG_PARAMS: /* expect_params does these */
    case ARG_GRADS:
    case ARG_LOSS_SCALE: /* a number */
        break;
    case ARG_CONST:
        expect(x, i, numbered(x, BUF_CONST, -1, k), makes(s, LOC_CONST));
        break;
    case ARG_DATA:
        expect(x, i, data_buffer(x, k), makes(s, LOC_DATA));
        break;
    case ARG_IN:
        expect_own(x, i, numbered(x, BUF_BOUNDARY, i->block - 1, k), i->in + k,
                   makes(s, LOC_IN));
        break;
    case ARG_OUT:
        expect_out(x, i, s, k);
        break;
    case ARG_DOUT:
        expect_own(x, i, numbered(x, BUF_D_BOUNDARY, i->block, k), i->d_out + k,
                   makes(s, LOC_DOUT));
        break;
    case ARG_DIN:
        expect_own(x, i, numbered(x, BUF_D_BOUNDARY, i->block - 1, k), i->d_in + k, true);
        break;
    case ARG_LOSS:
        expect(x, i, numbered(x, BUF_CONTROL, -1, 0), true);
        break;
    case ARG_LOGITS:
        if (a->value && i->logits >= 0 &&
            buffer_of(x, i->logits)->bytes != a->value->bytes)
            x->bad =
                gen_printf(x->g, "%s: the logits have another size", ins_label(x->g, i));
        expect_own(x, i, numbered(x, BUF_LOGITS, -1, 0), i->logits, true);
        break;
    case ARG_SAVED:
        expect_saved(x, i);
        break;
    case ARG_SCRATCH:
        expect_slab(x, i, BUF_SCRATCH, i->scratch, true);
        break;
    }
}

/* ---- bindings -------------------------------------------------------------------- */

/* Weights are read where a gather brings them, or where all of them lie at rest. A
 * gradient is written where its sum over ranks starts; without such a sum, where the
 * optimizer reads it. */
static bool right_kind(const Calls *x, const struct Binding *b, const Segment *s)
{
    const BufKind kind = buffer_of(x, b->buffer)->kind;

    if (b->of == BIND_SCALE)
        return kind == BUF_SCALES;
    if (b->of == BIND_WEIGHT)
        return kind == (s->cut[HELD_PARAMS]       ? BUF_GATHERED
                        : s->gathered != s->dtype ? BUF_CODES
                                                  : BUF_PARAM_SHARD);
    return s->shards == 1 ? kind == BUF_GRAD_SHARD
                          : kind == BUF_GRAD || kind == BUF_GRAD_ACCUM;
}

/* check_span has compared them with the nodes. */
static void expect_params(Calls *x, const Instr *i, int *next)
{
    const Program *p = &x->g->prog;

    for (; *next < p->n_bindings && p->bindings[*next].ins == i->id; ++*next) {
        const struct Binding *b = &p->bindings[*next];
        const int id = x->g->blocks.items[i->block].param[b->param];
        const Param *param = &x->g->params.items[id];

        if (!x->bad && !right_kind(x, b, &x->g->segments.items[param->segment]))
            x->bad = gen_printf(x->g, "%s binds %s in %s", ins_label(x->g, i),
                                param->name, buffer_of(x, b->buffer)->name);
        expect(x, i, b->buffer, b->of == BIND_GRAD);
    }
}

/* The first call that writes a parameter's gradient in a variant, and so in a micro-step,
 * stores it. In later micro-batches of a leaf the emitted calls add everywhere. */
static const char *check_adds(Gen *g)
{
    const Program *p = &g->prog;
    const size_t n = (size_t)g->params.count * N_VARIANTS + 1;
    int *first = gen_alloc(g, sizeof *first * n);

    for (size_t k = 0; k < n; k++)
        first[k] = p->ins.count;
    for (int turn = 0; turn < 2; turn++)
        for (int k = 0; k < p->n_bindings; k++) {
            const struct Binding *b = &p->bindings[k];
            const Instr *i = &p->ins.items[b->ins];
            const int id = g->blocks.items[i->block].param[b->param];
            int *at = &first[(int)i->variant * g->params.count + id];

            if (turn == 0 && b->of == BIND_GRAD && b->ins < *at)
                *at = b->ins;
            if (turn == 1 && b->add != (b->of == BIND_GRAD && b->ins > *at))
                return gen_printf(g, "%s %s the gradient of %s", ins_label(g, i),
                                  b->add ? "adds to" : "overwrites",
                                  g->params.items[id].name);
        }
    return NULL;
}

/* ---- accesses -------------------------------------------------------------------- */

static bool holds_values(const Buffer *b)
{
    return b->kind == BUF_BOUNDARY || b->kind == BUF_D_BOUNDARY || b->kind == BUF_SAVED ||
           b->kind == BUF_SCRATCH;
}

/* Is the access one of those expected, and the only one of its buffer? */
static bool expected(const Calls *x, const Instr *i, int a)
{
    const Access *at = &i->access[a];
    const Buffer *b = buffer_of(x, at->buffer);

    for (int k = 0; k < a; k++)
        if (i->access[k].buffer == at->buffer && i->access[k].remote == at->remote)
            return false;
    if (!b || x->want[b->id] == UNUSED)
        return false;
    if (at->remote)
        return i->group && holds_values(b) && !at->write;
    return at->write == (x->want[b->id] == WRITE);
}

/* Compares, and clears what was expected of this call. */
static void check_accesses(Calls *x, const Instr *i)
{
    int n = 0;

    for (int b = 0; b < x->g->prog.bufs.count; b++)
        if (x->want[b] != UNUSED)
            n += i->group && holds_values(buffer_of(x, b)) ? 2 : 1;
    for (int a = 0; a < i->n_access && !x->bad; a++)
        if (!expected(x, i, a))
            x->bad = gen_printf(x->g, "%s %s %s, which is not what its arguments ask for",
                                ins_label(x->g, i),
                                i->access[a].remote  ? "shows to peers"
                                : i->access[a].write ? "writes"
                                                     : "reads",
                                x->g->prog.bufs.items[i->access[a].buffer].name);
    if (!x->bad && n != i->n_access)
        x->bad = gen_printf(x->g, "%s has %d accesses, but its arguments ask for %d",
                            ins_label(x->g, i), i->n_access, n);
    memset(x->want, UNUSED, (size_t)x->g->prog.bufs.count);
}

const char *verify_spans(Gen *g)
{
    const Program *p = &g->prog;
    Calls x = {.g = g};
    int next = 0;

    find_buffers(&x);
    for (int id = 0; id < p->ins.count && !x.bad; id++) {
        const Instr *i = &p->ins.items[id];
        const Span *s = i->kind == INS_SPAN ? ins_span(g, i) : NULL;

        if (!s)
            continue;
        expect_params(&x, i, &next);
        for (int a = 0; a < s->n_args; a++)
            expect_arg(&x, i, s, &s->args[a]);
        check_accesses(&x, i);
    }
    if (!x.bad && next != p->n_bindings)
        return "there are bindings of no span";
    return x.bad ? x.bad : check_adds(g);
}
