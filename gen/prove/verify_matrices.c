/* SPDX-License-Identifier: Apache-2.0 */
/* verify_matrices.c: the invariants of matrices that an optimizer treats as a whole:
 * their owners after shard, their exchange after unroll. In: matrices, batches,
 * instructions. Out: NULL or what is wrong. Derived again from the parameters, in another
 * way than matrices.c does. */
#include "ops/ops.h"
#include "plan/plan.h"
#include "prove/verify.h"

#include <string.h>

/* ---- owners ---------------------------------------------------------------------- */

/* Its matrices follow each other and cover the parameter, each with the shape of its
 * op. */
static const char *check_param(Gen *g, const Param *p, int first, int n)
{
    int64_t at = 0;
    for (int i = first; i < first + n; i++) {
        const Matrix *m = &g->matrices.items[i];
        if (m->element != at || m->cols != p->decl->dim[1] ||
            m->node->in[0]->dim[0] != m->rows || m->node->in[0]->dim[1] != m->cols)
            return gen_printf(g, "matrix %s is not where its parameter has it", m->name);
        if (p->decl->n_parts && m->rows != p->decl->part_rows[i - first])
            return gen_printf(g, "matrix %s is not a part of %s", m->name, p->name);
        at += m->rows * m->cols;
    }
    return at == (p->matrix ? p->elems : 0)
               ? NULL
               : gen_printf(g, "the matrices of %s are %lld elements of %lld", p->name,
                            (long long)at, (long long)p->elems);
}

static const char *check_params(Gen *g)
{
    for (int k = 0; k < g->params.count; k++) {
        int first = -1, n = 0;
        const char *bad;
        for (int i = 0; i < g->matrices.count; i++) {
            if (g->matrices.items[i].param == k) {
                first = first < 0 ? i : first;
                if (first + n++ != i) {
                    return gen_printf(g, "the matrices of %s are apart",
                                      g->params.items[k].name);
                }
            }
        }
        bad = check_param(g, &g->params.items[k], first < 0 ? 0 : first, n);
        if (bad)
            return bad;
    }
    return NULL;
}

/* Each has one owner, and a place of its own there. */
static const char *check_owners(Gen *g, const Batch *b)
{
    for (int i = b->first_matrix; i < b->first_matrix + b->n_matrices; i++) {
        const Matrix *m = &g->matrices.items[i];
        const Param *p = &g->params.items[m->param];
        const int segment = p->segment;
        const int64_t bytes = p->boxes > 1 || p->axes ? m->node->in[0]->bytes : 0;
        if (m->batch != b->id || segment < b->first_segment || segment > b->last_segment)
            return gen_printf(g, "matrix %s is in another batch", m->name);
        if (m->owner < 0 || m->owner >= g->model.mesh.world_size ||
            m->owned_elems + m->rows * m->cols > b->owned_elems ||
            m->node->workspace_bytes > b->workspace_bytes || bytes > b->whole_bytes)
            return gen_printf(g, "matrix %s has no owner, or no room there", m->name);
        for (int k = b->first_matrix; k < i; k++) {
            const Matrix *o = &g->matrices.items[k];
            if (o->owner == m->owner &&
                o->owned_elems < m->owned_elems + m->rows * m->cols &&
                m->owned_elems < o->owned_elems + o->rows * o->cols) {
                return gen_printf(g, "matrices %s and %s overlap at their owner", o->name,
                                  m->name);
            }
        }
    }
    return NULL;
}

const char *verify_matrices(Gen *g)
{
    const char *bad = check_params(g);
    int next = 0, segment = -1;
    for (int i = 0; i < g->batches.count && !bad; i++) {
        const Batch *b = &g->batches.items[i];
        if (b->first_matrix != next || b->n_matrices < 1 || b->first_segment <= segment)
            return gen_printf(g, "batch %s: matrices are left out, or in two", b->name);
        next += b->n_matrices;
        segment = b->last_segment;
        bad = check_owners(g, b);
    }
    return bad || next == g->matrices.count ? bad : "matrices are in no batch";
}

/* The ranks that together hold the batch's matrices: those along every axis that cuts
 * one. */
RankBits verify_batch_group(const Gen *g, const Batch *b)
{
    RankBits group = 0;
    for (int i = b->first_matrix; i < b->first_matrix + b->n_matrices; i++) {
        const Param *p = &g->params.items[g->matrices.items[i].param];
        group |= g->segments.items[p->segment].cut[HELD_OPTIMIZER] | p->axes;
    }
    return group;
}

/* Does the segment have elements that belong to no matrix? */
bool verify_others(const Gen *g, int segment)
{
    for (int i = 0; i < g->params.count; i++)
        if (g->params.items[i].segment == segment && !g->params.items[i].matrix)
            return true;
    return false;
}

/* ---- the exchange ---------------------------------------------------------------- */

static bool writes(const Instr *i, int buffer)
{
    for (int a = 0; a < i->n_access; a++)
        if (i->access[a].buffer == buffer && i->access[a].write)
            return true;
    return false;
}

/* Beside the kernel's workspace there is room for the matrix that was stored as boxes;
 * and there is room for what travels to its owner. */
static bool has_room(const Gen *g, const Batch *b, const Instr *i)
{
    const int64_t align = ARENA_ALIGN_BYTES;
    const int64_t whole_at = (b->workspace_bytes + align - 1) / align * align;
    const int64_t owned = b->owned_elems * dtype_bytes(ops_acc_dtype(g));
    if (i->to >= 0 && g->prog.bufs.items[i->to].bytes < owned)
        return false;
    return i->with >= 0 &&
           g->prog.bufs.items[i->with].bytes >=
               (b->whole_bytes ? whole_at + b->whole_bytes : b->workspace_bytes);
}

/* What a rank receives to own its matrices, then of what others computed; what it
 * computes. */
typedef struct Share {
    int64_t owned, back;
    double flops;
} Share;

/* The busiest rank of the batch, for each. Every copy of the model holds an element once.
 */
static const char *check_shares(Gen *g, const Batch *b, Share *most)
{
    const int64_t ranks = g->model.mesh.world_size;
    const int64_t item = dtype_bytes(ops_acc_dtype(g));
    Share *all = gen_alloc(g, sizeof *all * (size_t)ranks);
    for (int k = b->first_matrix; k < b->first_matrix + b->n_matrices; k++) {
        const Matrix *m = &g->matrices.items[k];
        const Param *p = &g->params.items[m->param];
        const Segment *s = &g->segments.items[p->segment];
        const int64_t elems = m->rows * m->cols;
        const int cuts = __builtin_popcount(s->cut[HELD_OPTIMIZER] | p->axes);
        int64_t held_by_all = 0;
        for (int r = 0; r < ranks; r++) {
            const int64_t held = matrix_held(g, m, layout_of(s, r));
            held_by_all += held;
            all[r].owned += r == m->owner ? (elems - held) * item : 0;
            all[r].back += r == m->owner ? 0 : held * item;
            all[r].flops += r == m->owner ? m->node->flops : 0;
        }
        if (held_by_all != elems * (ranks >> cuts))
            return gen_printf(g, "ranks hold %lld elements of matrix %s, not %lld",
                              (long long)held_by_all, m->name,
                              (long long)(elems * (ranks >> cuts)));
    }
    for (int r = 0; r < ranks; r++) {
        most->owned = max_i64(most->owned, all[r].owned);
        most->back = max_i64(most->back, all[r].back);
        most->flops = all[r].flops > most->flops ? all[r].flops : most->flops;
    }
    return NULL;
}

static const char *check_share(Gen *g, const Share *most, const Instr *i)
{
    const int64_t bytes = i->kind == INS_TO_OWNERS     ? most->owned
                          : i->kind == INS_FROM_OWNERS ? most->back
                                                       : 0;
    if (i->moved_bytes != bytes)
        return gen_printf(g, "%s brings %lld bytes, not %lld", ins_label(g, i),
                          (long long)i->moved_bytes, (long long)bytes);
    if (i->kind == INS_MATRICES && i->flops != most->flops)
        return gen_printf(g, "%s takes %.0f flops, not %.0f", ins_label(g, i), i->flops,
                          most->flops);
    return NULL;
}

/* The instructions of a batch have their kinds in order, none twice for a segment, each
 * where it is needed; the last ones write the weights. */
static const char *check_batch(Gen *g, const Batch *b)
{
    const Program *p = &g->prog;
    int n[INS_STEP + 1] = {0}, segments = 0;
    InsKind at = INS_MOMENTUM;
    Share most = {0};
    const char *bad = check_shares(g, b, &most);
    const bool apart = verify_batch_group(g, b) != 0;
    for (int s = 0; s < g->segments.count; s++) {
        bool some = false;
        for (int i = b->first_matrix; i < b->first_matrix + b->n_matrices; i++)
            some = some || g->params.items[g->matrices.items[i].param].segment == s;
        segments += some;
    }
    for (int id = p->first[VARIANT_END]; id < p->ins.count && !bad; id++) {
        const Instr *i = &p->ins.items[id];
        if (i->batch != b->id)
            continue;
        bad = check_share(g, &most, i);
        if (i->kind < at)
            return gen_printf(g, "%s comes too late", ins_label(g, i));
        if (i->kind == INS_MATRICES && !has_room(g, b, i))
            return gen_printf(g, "%s has no room for a matrix", ins_label(g, i));
        if (i->kind == INS_STEP && p->bufs.items[i->to].segment != i->segment)
            return gen_printf(g, "%s writes other weights", ins_label(g, i));
        if (i->kind == INS_STEP && !writes(i, i->to))
            return gen_printf(g, "%s writes no weights", ins_label(g, i));
        at = i->kind;
        n[at]++;
    }
    if (bad)
        return bad;
    if (n[INS_MOMENTUM] != segments || n[INS_STEP] != segments || n[INS_MATRICES] != 1 ||
        n[INS_TO_OWNERS] != apart || n[INS_FROM_OWNERS] != (g->model.mesh.world_size > 1))
        return gen_printf(g, "batch %s is exchanged in part, or twice", b->name);
    return NULL;
}

const char *verify_exchange(Gen *g)
{
    const Program *p = &g->prog;
    const char *bad = NULL;
    for (int id = 0; id < p->ins.count; id++) {
        const Instr *i = &p->ins.items[id];
        if ((i->batch >= 0) != (i->kind >= INS_MOMENTUM) ||
            (i->batch >= 0 && i->variant != VARIANT_END))
            return gen_printf(g, "%s is of no batch, or not at the end", ins_label(g, i));
    }
    for (int b = 0; b < g->batches.count && !bad; b++)
        bad = check_batch(g, &g->batches.items[b]);
    return bad;
}
