/* SPDX-License-Identifier: Apache-2.0 */
/* figures.c: what a run holds and computes, in numbers. In: the whole Gen after simulate.
 * Out: PlanBytes, flops per token, the number of parameters.
 *
 * The bytes of all classes add up to the arena exactly. Persistent buffers count as they
 * are. Classes share the transient area: each counts what it holds when most bytes are
 * live, and `workspace` includes what packing and overlap need beyond that. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

int64_t plan_params(const Gen *g)
{
    int64_t n = 0;
    for (int i = 0; i < g->params.count; i++)
        n += g->params.items[i].elems;
    return n;
}

static int64_t int_attr(const Node *n, const char *key)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (!strcmp(n->attrs[i].key, key) && n->attrs[i].type == ATTR_INT)
            return n->attrs[i].i;
    return -1;
}

/* How often all parts together compute a node. */
static double times_of_parts(const Gen *g, const Node *n)
{
    double times = 1;

    for (int a = 0; a < N_PARTS_AXES; a++)
        times *= node_differs(n) >> a & 1 ? (double)g->model.parts[a] : 1;
    return times;
}

/* Two flops for each element at most: a copy, or a rounding, in one layout or two. */
static bool is_copy(const Value *v)
{
    double elems = 1;

    for (int d = 0; d < v->n_dims; d++)
        elems *= (double)v->dim[d];
    return v->kind == VAL_NODE && v->def->n_in > 0 && v->def->flops <= 2 * elems;
}

/* Is it parameter p, or a copy of it? Parts of a sequence gather weights before they
 * multiply, and fp8 rounds them. */
static bool is_param(const Value *v, int p)
{
    while (is_copy(v))
        v = v->def->in[0];
    return v->kind == VAL_PARAM && v->index == p;
}

/* Is parameter p of the class a factor of a matrix product, that is, does some node spend
 * two flops per token on each of its elements? Look-ups, norms and biases spend less. */
static bool multiplies(const Gen *g, const Class *c, int p, double tokens)
{
    const ClassParam *cp = &c->params.items[p];
    for (int n = 0; n < c->nodes.count && cp->n_dims >= 2; n++) {
        const Node *node = c->nodes.items[n];
        for (int i = 0; i < node->n_in; i++)
            if (is_param(node->in[i], p) && node->flops * times_of_parts(g, node) >=
                                                1.99 * tokens * (double)cp->elems)
                return true;
    }
    return false;
}

/* 6 P_matmul + 6 layers dim_attention seq (causal): the forward, and twice as much for
 * the backward. Attention is the forward node that has heads and a window; a part has
 * some of its heads or of its rows. */
double plan_flops_per_token(const Gen *g)
{
    double tokens = (double)(g->model.micro_batch * g->model.seq_tokens);
    double flops = 0,
           *of_class = gen_calloc((size_t)g->classes.count + 1, sizeof *of_class);
    for (int k = 0; k < g->classes.count; k++) {
        const Class *c = g->classes.items[k];
        for (int p = 0; p < c->params.count; p++) {
            of_class[k] +=
                multiplies(g, c, p, tokens) ? 6.0 * (double)c->params.items[p].elems : 0;
        }
        for (int n = 0; n < c->nodes.count; n++) {
            const Node *node = c->nodes.items[n];
            int64_t heads = int_attr(node, "heads"), dim = int_attr(node, "head_dim");
            if (node->phase == PHASE_FORWARD && heads > 0 && dim > 0 &&
                int_attr(node, "window") >= 0)
                of_class[k] += 6.0 * (double)(heads * dim * g->model.seq_tokens) *
                               times_of_parts(g, node) * (double)node->out[0]->dim[0] /
                               tokens;
        }
    }
    for (int b = 0; b < g->blocks.count; b++)
        for (int k = 0; k < g->classes.count; k++)
            flops += g->classes.items[k] == g->blocks.items[b].cls ? of_class[k] : 0;
    free(of_class);
    return flops;
}

/* Adds to by_kind what is live at the moment of most transient bytes; returns the sum. */
static int64_t transient_by_kind(Gen *g, int64_t by_kind[N_BUF_KINDS])
{
    const Program *p = &g->prog;
    size_t n = (size_t)p->bufs.count * N_VARIANTS + 1;
    int *first = gen_alloc(g, sizeof(int) * n), *last = gen_alloc(g, sizeof(int) * n);
    int64_t *delta = gen_alloc(g, sizeof *delta * (size_t)(p->ins.count + 2));
    int64_t live = 0, most = 0, sum = 0;
    int at = 0;
    memset(first, -1, sizeof(int) * n);
    for (int id = 0; id < p->ins.count; id++) {
        const Instr *i = &p->ins.items[id];
        for (int a = 0; a < i->n_access; a++) {
            size_t k = (size_t)i->access[a].buffer * N_VARIANTS + (size_t)i->variant;
            first[k] = first[k] < 0 ? id : first[k];
            last[k] = id;
        }
    }
    for (size_t k = 0; k + 1 < n; k++) {
        const Buffer *b = &p->bufs.items[k / N_VARIANTS];
        if (!b->persistent && first[k] >= 0) {
            delta[first[k]] += b->bytes;
            delta[last[k] + 1] -= b->bytes;
        }
    }
    for (int id = 0; id < p->ins.count; id++) {
        live += delta[id];
        at = live > most ? id : at;
        most = max_i64(most, live);
    }
    for (size_t k = 0; k + 1 < n; k++) {
        const Buffer *b = &p->bufs.items[k / N_VARIANTS];
        if (!b->persistent && first[k] >= 0 && first[k] <= at && at <= last[k]) {
            by_kind[b->kind] += b->bytes;
            sum += b->bytes;
        }
    }
    return sum;
}

PlanBytes plan_bytes(Gen *g)
{
    const Program *p = &g->prog;
    PlanBytes b = {0};
    int64_t *k = b.by_kind;
    for (int i = 0; i < p->bufs.count; i++)
        if (p->bufs.items[i].persistent)
            k[p->bufs.items[i].kind] += p->bufs.items[i].bytes;
    transient_by_kind(g, k);
    b.arena = p->arena_bytes;
    b.params = k[BUF_PARAM_SHARD] + k[BUF_CODES];
    b.gradients = k[BUF_GRAD_SHARD] + k[BUF_GRAD_ACCUM] + k[BUF_GRAD];
    b.optimizer = k[BUF_MASTER] + k[BUF_MOMENT1] + k[BUF_MOMENT2];
    b.activations = k[BUF_SAVED] + k[BUF_BOUNDARY] + k[BUF_D_BOUNDARY];
    b.gather = k[BUF_GATHERED] + k[BUF_KEPT];
    b.partials = k[BUF_PARTIAL];
    b.workspace = b.arena - b.params - b.gradients - b.optimizer - b.activations -
                  b.gather - b.partials;
    b.library = g->model.library_bytes;
    b.total = b.arena + b.library;
    b.snapshot = checkpoint_snapshot_bytes(g);
    if (g->model.target->process_bytes) {
        b.peers = plan_peers_bytes(g, &b.peers_least);
        b.resident = b.arena + b.peers + g->model.target->process_bytes;
    }
    return b;
}
