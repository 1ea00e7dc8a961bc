/* SPDX-License-Identifier: Apache-2.0 */
/* verify_room.c: do a span's values fit into their buffers? In: the instructions of
 * unroll, slabs and boundary values of classes. Out: NULL or what is wrong with one call.
 *
 * A rank that computes several parts has a slab for each in every buffer of values, one
 * behind the other at the next multiple of ARENA_ALIGN_BYTES. */
#include "plan/plan.h"
#include "prove/verify.h"

typedef struct Room {
    Gen *g;
    const Instr *i;
    int64_t parts[N_PARTS_AXES]; /* that a rank computes, along each axis */
    const char *bad;
} Room;

static void check_buffer(Room *x, int buffer, int64_t bytes)
{
    const Buffer *b = buffer >= 0 ? &x->g->prog.bufs.items[buffer] : NULL;
    const int64_t units = (bytes + ARENA_ALIGN_BYTES - 1) / ARENA_ALIGN_BYTES;
    const int64_t parts = x->parts[PARTS_TENSOR] * x->parts[PARTS_CONTEXT];
    const int64_t need = (parts - 1) * units * ARENA_ALIGN_BYTES + bytes;

    if (b && !x->bad && b->bytes < need)
        x->bad = gen_printf(x->g, "%s: %s has %lld bytes, but %lld are used",
                            ins_label(x->g, x->i), b->name, (long long)b->bytes,
                            (long long)need);
}

static void check_values(Room *x, int first, Value *const *values, int n)
{
    for (int k = 0; first >= 0 && values && k < n; k++)
        if (values[k])
            check_buffer(x, first + k, values[k]->bytes);
}

/* What a rank's parts need of another part: all of it, or a piece each. */
static int64_t sent_bytes(const Room *x, const Node *meet)
{
    const Value *from = meet->in[0];
    const PartsAxis along = meet->along;

    if (meet->out[0]->part[along].kind == PART_WHOLE)
        return from->bytes;
    return from->bytes / x->g->model.parts[along] * x->parts[along];
}

/* What a rank packs of one of its parts: pieces for all parts, unless they are
 * consecutive. */
static int64_t packed_bytes(const Node *meet)
{
    const Value *from = meet->in[0], *to = meet->out[0];
    const PartState *needs = &to->part[meet->along];
    int64_t rows = 1;

    for (int d = 0; d < needs->dim; d++)
        rows *= to->dim[d];
    if (needs->kind == PART_WHOLE || (rows == 1 && needs->sections.n == 1))
        return 0;
    return from->bytes;
}

/* On a device, ranks that share the parts send what theirs have. */
static void check_meeting(Room *x)
{
    const Span *s = ins_span(x->g, x->i);
    int meeting = -1;

    for (int b = 0; b < x->g->prog.bufs.count; b++)
        if (x->g->prog.bufs.items[b].kind == BUF_MEETING)
            meeting = b;
    for (int n = 0; n < s->n_nodes; n++) {
        const Node *node = s->nodes[n];
        const Value *v = node->n_in ? node->in[0] : NULL;
        int64_t here = x->parts[node->along];
        int64_t others = x->g->model.parts[node->along] - here;

        if (!node->op->collective || v->part[node->along].kind == PART_WHOLE ||
            others == 0 || !x->g->model.target->device || x->bad)
            continue;
        for (int a = 0; a < N_PARTS_AXES; a++)
            if (a != (int)node->along && v->part[a].kind != PART_WHOLE)
                others *= x->parts[a], here *= x->parts[a]; /* each meets its own */
        const int64_t needed = others * round_up(sent_bytes(x, node), ARENA_ALIGN_BYTES) +
                               here * round_up(packed_bytes(node), ARENA_ALIGN_BYTES);
        if (meeting < 0 || x->g->prog.bufs.items[meeting].bytes < needed)
            x->bad = gen_printf(x->g, "%s: no room for what other ranks have of %s",
                                ins_label(x->g, x->i), v->name);
    }
}

const char *verify_room(Gen *g, const Instr *i)
{
    const Block *b = &g->blocks.items[i->block];
    const Class *c = b->cls;
    const bool some = b->keep == KEEP_SOME;
    Room x = {.g = g, .i = i, .parts = {1, 1}};

    for (int a = 0; g->in_parts && a < N_PARTS_AXES; a++)
        x.parts[a] = g->model.parts[a] / g->model.mesh.axis[parts_mesh(a)].degree;
    if (g->in_parts)
        check_meeting(&x);
    check_values(&x, i->in, c->inputs, c->n_inputs);
    check_values(&x, i->d_in, c->d_inputs, c->n_inputs);
    check_values(&x, i->out, c->outputs, c->n_outputs);
    check_values(&x, i->d_out, c->d_outputs, c->n_outputs);
    check_buffer(&x, i->saved, some ? c->kept_bytes : c->saved_bytes);
    check_buffer(&x, i->dropped, c->dropped_bytes);
    check_buffer(&x, i->scratch,
                 i->phase == PHASE_EVALUATE   ? c->evaluate.scratch_bytes
                 : i->phase == PHASE_BACKWARD ? c->backward.scratch_bytes
                                              : c->forward.scratch_bytes);
    return x.bad;
}
