/* SPDX-License-Identifier: Apache-2.0 */
/* warn_small.c: warns of units and chunks that are too small for the rates of the target:
 * collectives that are mostly latency, and a loss whose chunks are bounded by reading the
 * head's weights again. In: the whole plan and its predicted times (simulate). Out:
 * warnings, each with what would be large enough. */
#include "plan/plan.h"
#include "base/show.h"

#include <math.h>
#include <string.h>

/* ---- units ----------------------------------------------------------------------- */

enum {
    MOSTLY = 2, /* at least one in MOSTLY of their time */
    ENOUGH = 4  /* bytes' time for one of latency: 80 % of the rate */
};

/* A tenth of a step, and not a toy's. */
static const double worth_share = 0.1, worth_seconds = 1e-3;

double warn_waits(const Gen *g)
{
    const double step = g->prog.step_seconds;
    const double waits = step - (double)simulate_busy(g) * 1e-12;

    return waits >= worth_seconds && waits >= step * worth_share && isfinite(waits)
               ? waits
               : 0;
}

typedef struct Moves {
    int64_t n, bytes, ps; /* of a step; a rank receives these bytes */
    double latency_ps;    /* what is more than the bytes at the link's best rate */
} Moves;

/* What it would take at the rate of a collective so large that latency does not matter.
 */
static double at_best_rate(const Gen *g, const Instr *i)
{
    const int64_t times = 1 << 16;
    Instr large = *i;

    large.elems *= times;
    large.moved_bytes *= times;
    return (double)cost_instr(g, &large) / (double)times;
}

static Moves moves_of(const Gen *g)
{
    Moves all = {0};

    for (int id = 0; id < g->prog.ins.count; id++) {
        const Instr *i = &g->prog.ins.items[id];
        const int64_t turns = ins_turns(g, i);

        if (!ins_is_collective(i) || i->segment < 0)
            continue;
        all.n += turns;
        all.bytes = cost_sum(all.bytes, cost_times(turns, i->moved_bytes));
        all.ps = cost_sum(all.ps, cost_times(turns, cost_instr(g, i)));
        all.latency_ps += (double)turns * ((double)cost_instr(g, i) - at_best_rate(g, i));
    }
    return all;
}

/* Warns if computation waits for collectives that are mostly latency, although units
 * could be joined. */
void warn_small_units(Gen *g)
{
    const double step = g->prog.step_seconds;
    const Moves now = moves_of(g);
    const int64_t blocks =
        max_i64(g->blocks.count - 2, 1); /* without embedding and head */
    const int64_t most = blocks / 2;
    double waits;
    int64_t n;

    if (g->model.mesh.world_size == 1 || now.n == 0 || g->units.count < 4 || most < 2 ||
        now.latency_ps * MOSTLY < (double)now.ps)
        return;
    waits = warn_waits(g);
    if (waits <= 0)
        return;
    for (n = 2; n * 2 <= most &&
                now.latency_ps * ENOUGH / (double)n > (double)now.ps - now.latency_ps;)
        n *= 2;
    diag_add(
        g, DIAG_WARNING, model_pos(g, model_pos(g, "wrap").line ? "wrap" : "mesh"),
        gen_printf(g, "wrap = per_block(%lld) saves up to %s a step", (long long)n,
                   show_seconds(g, now.latency_ps * (1 - 1 / (double)n) * 1e-12 < waits
                                       ? now.latency_ps * (1 - 1 / (double)n) * 1e-12
                                       : waits)),
        "wrap: %d units are too small for the link: %lld collectives of %s on "
        "average reach %.1f %% of its rate, and computation waits %s of a step's %s "
        "(%s)",
        g->units.count, (long long)now.n, show_bytes(g, now.bytes / now.n),
        100 * (1 - now.latency_ps / (double)now.ps), show_seconds(g, waits),
        show_seconds(g, step), cost_source(g));
}

/* ---- chunks of the loss ---------------------------------------------------------- */

typedef struct ChunkTime {
    double math, memory; /* seconds of all chunks: products alone, their operands alone */
    int64_t times, columns;
} ChunkTime;

/* The products of the node that take a chunk of tokens, with chunks of `tokens`. */
static ChunkTime chunk_time(const Gen *g, const Node *n, int64_t tokens)
{
    const int64_t chunk = g->model.loss_chunk_tokens;
    ChunkTime t = {0};

    for (int i = 0; i < n->cost.n_products; i++) {
        const Product *p = &n->cost.products[i];
        const bool rows = p->form != FORM_TN && p->m == chunk,
                   depth = p->form == FORM_TN && p->k == chunk;
        const double x = (double)(rows ? tokens : p->m),
                     k = (double)(depth ? tokens : p->k), y = (double)p->n;
        const double times = (double)p->times * (double)chunk / (double)tokens;

        if (p->times < 2 || (!rows && !depth))
            continue;
        t.math += 2e-6 * x * y * k * times / (double)cost_products_per_us(g, n);
        t.memory += 1e-6 * (x * k + y * k + x * y) *
                    (double)dtype_bytes(n->in[0]->dtype) * times /
                    (double)g->model.rates.per_us[COST_ELEMENTWISE];
        t.times = max_i64(t.times, p->times);
        t.columns = max_i64(t.columns, rows ? max_i64(p->n, p->k) : p->m);
    }
    return t;
}

/* Warns if reading operands takes half again as long as computing. */
static void warn_chunks_of(Gen *g, const Node *n)
{
    const Model *m = &g->model;
    const int64_t chunk = m->loss_chunk_tokens;
    const int64_t all = m->micro_batch * m->seq_tokens / m->parts[PARTS_CONTEXT];
    const ChunkTime now = chunk_time(g, n, chunk);
    int64_t better = chunk;

    if (now.memory * 2 < now.math * 3)
        return;
    for (ChunkTime t = now; t.memory > t.math && better * 2 <= all;
         t = chunk_time(g, n, better))
        better *= 2;
    if (better == chunk)
        return;
    diag_add(
        g, DIAG_WARNING, model_pos(g, "loss.chunk_tokens"),
        gen_printf(g,
                   "loss.chunk_tokens = %lld keeps %s of logits, now %s; it is "
                   "another numerics hash",
                   (long long)better,
                   show_bytes(g, better * now.columns * dtype_bytes(n->in[0]->dtype)),
                   show_bytes(g, chunk * now.columns * dtype_bytes(n->in[0]->dtype))),
        "loss.chunk_tokens: %lld chunks of %lld tokens each read the head's weights "
        "again: about %s a micro-step to move operands, and %s for the products (%s)",
        (long long)now.times, (long long)chunk, show_seconds(g, now.memory),
        show_seconds(g, now.math), cost_source(g));
}

static bool takes_chunks(const Node *n)
{
    for (int i = 0; i < n->op->info->n_attrs; i++) {
        const char *from = n->op->info->attrs[i].from;

        if (from && !strcmp(from, "loss_chunk_tokens"))
            return true;
    }
    return false;
}

/* Warns of a size of chunks that nothing reads, although the numerics hash has it. In
 * parts the loss is computed without chunks where each part has some of the logits. */
static void warn_no_chunks(Gen *g)
{
    const Model *m = &g->model;
    const Pos pos = model_pos(g, "loss.chunk_tokens");

    if (!g->in_parts || !model_given(g, "loss.chunk_tokens"))
        return;
    for (int k = 0; k < g->classes.count; k++)
        for (int n = 0; n < g->classes.items[k]->nodes.count; n++)
            if (takes_chunks(g->classes.items[k]->nodes.items[n]))
                return;
    diag_add(g, DIAG_WARNING, pos,
             "leave it out, which is another hash again; a smaller micro_batch keeps "
             "fewer logits, and so do more parts on more ranks",
             "loss.chunk_tokens: %lld changes nothing but the numerics hash: the loss of "
             "%lld parts (%s) is not computed in chunks",
             (long long)m->loss_chunk_tokens, (long long)parts_all(m),
             parts_fields(g, "parts"));
}

void warn_small_chunks(Gen *g)
{
    warn_no_chunks(g);
    for (int k = 0; k < g->classes.count; k++) {
        const Class *c = g->classes.items[k];

        for (int n = 0; c->loss && n < c->nodes.count; n++)
            if (c->nodes.items[n]->phase != PHASE_SETUP &&
                chunk_time(g, c->nodes.items[n], g->model.loss_chunk_tokens).times > 1)
                warn_chunks_of(g, c->nodes.items[n]);
    }
}
