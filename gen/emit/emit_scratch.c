/* SPDX-License-Identifier: Apache-2.0 */
/* emit_scratch.c: the values that the kernels of a phase pass to each other in scratch,
 * as a struct of pointers.
 *
 * In: spans whose values and workspaces have places in the phase's slab (span.c). Out:
 * for each class and phase a list of members, in the order of first use. math.h declares
 * a struct of them; bind.c fills it, and says for each member which earlier ones used its
 * bytes. All pieces of a block share one slab, so the struct covers the whole phase; what
 * runs again before a backward uses the forward's. */
#include "emit/emit_scratch.h"
#include "base/names.h"
#include "base/show.h"

#include <string.h>

static Phase slab_phase(Phase phase)
{
    return phase == PHASE_RECOMPUTE ? PHASE_FORWARD : phase;
}

static const Span *whole_span(const Class *c, Phase phase)
{
    return class_span(c, -1, slab_phase(phase));
}

const char *scratch_struct(Gen *g, const Class *c, Phase phase)
{
    phase = slab_phase(phase);
    return gen_printf(g, "%s_%s_scratch", c->name,
                      phase == PHASE_FORWARD    ? "forward"
                      : phase == PHASE_EVALUATE ? "evaluate"
                                                : "backward");
}

static bool is_value(Gen *g, const Class *c, const char *name)
{
    for (int i = 0; i < c->values.count; i++)
        if (!strcmp(name_saved(g, c->values.items[i]->name), name))
            return true;
    return false;
}

static void add_value(Gen *g, ScratchList *list, const Value *v)
{
    ScratchMember *m;

    if (v->loc != LOC_SCRATCH)
        return;
    for (int i = 0; i < list->count; i++)
        if (list->items[i].value == v)
            return;
    m = gen_push(g, list);
    *m = (ScratchMember){.value = v,
                         .name = name_saved(g, v->name),
                         .type = dtype_ctype(v->dtype),
                         .what = show_shape(g, v->dim, v->n_dims),
                         .offset_bytes = v->offset_bytes,
                         .bytes = v->bytes};
}

/* A kernel's workspace is named after the first value that it makes. */
static const char *workspace_name(Gen *g, const Class *c, const Node *n)
{
    const char *name = gen_printf(g, "%s_workspace", name_saved(g, n->out[0]->name));

    while (is_value(g, c, name))
        name = gen_printf(g, "%s_", name);
    return name;
}

static void add_workspace(Gen *g, ScratchList *list, const Class *c, const Node *n)
{
    ScratchMember *m;

    if (n->workspace_bytes == 0)
        return;
    m = gen_push(g, list);
    *m = (ScratchMember){.node = n,
                         .name = workspace_name(g, c, n),
                         .type = "char",
                         .what = show_bytes_short(g, n->workspace_bytes),
                         .offset_bytes = n->workspace_offset_bytes,
                         .bytes = n->workspace_bytes};
}

/* In order of first use. */
static ScratchList scratch_members(Gen *g, const Class *c, Phase phase)
{
    const Span *s = whole_span(c, phase);
    ScratchList list = {0};

    for (int i = 0; i < s->n_nodes; i++) {
        const Node *n = s->nodes[i];

        for (int k = 0; k < n->n_in + n->n_out; k++)
            add_value(g, &list, k < n->n_in ? n->in[k] : n->out[k - n->n_in]);
        add_workspace(g, &list, c, n);
    }
    for (int i = 0; i < list.count; i++) {
        const ScratchMember *m = &list.items[i];

        gen_require(m->offset_bytes >= 0 &&
                        m->offset_bytes + m->bytes <= s->scratch_bytes,
                    "%s: %s lies outside its scratch", s->name, m->name);
    }
    return list;
}

bool scratch_any(const Class *c, Phase phase)
{
    const Span *s = whole_span(c, phase);

    for (int i = 0; i < s->n_nodes; i++) {
        const Node *n = s->nodes[i];

        if (n->workspace_bytes > 0)
            return true;
        for (int k = 0; k < n->n_in + n->n_out; k++)
            if ((k < n->n_in ? n->in[k] : n->out[k - n->n_in])->loc == LOC_SCRATCH)
                return true;
    }
    return false;
}

/* c is NULL in the graph of constants, which has no scratch: emit_step.c rejects it. */
const char *scratch_value(Gen *g, const Class *c, const Value *v)
{
    gen_require(!c || v->loc == LOC_SCRATCH, "%s: no scratch for %s", c->name, v->name);
    return c ? name_saved(g, v->name) : "";
}

const char *scratch_workspace(Gen *g, const Class *c, const Node *n)
{
    gen_require(!c || n->workspace_bytes > 0, "%s: no scratch for %s", c->name, n->name);
    return c ? workspace_name(g, c, n) : "";
}

static bool overlap(const ScratchMember *a, const ScratchMember *b)
{
    return a->offset_bytes < b->offset_bytes + b->bytes &&
           b->offset_bytes < a->offset_bytes + a->bytes;
}

/* "x, y": the members that last used some of its bytes; "": none did. */
static const char *over(Gen *g, const ScratchList *list, int at)
{
    const ScratchMember *m = &list->items[at];
    const char *text = "";

    for (int i = 0; i < at; i++) {
        const ScratchMember *o = &list->items[i];
        bool last = overlap(o, m);

        for (int k = i + 1; k < at && last; k++)
            last = !overlap(o, &list->items[k]) || !overlap(&list->items[k], m);
        if (last)
            text = gen_printf(g, "%s%s%s", text, *text ? ", " : "", o->name);
    }
    return text;
}

void scratch_push(Emit *e, const Class *c, Phase phase)
{
    ScratchList list = scratch_members(e->g, c, phase);
    lua_State *L = e->L;

    lua_newtable(L);
    emit_str(L, "name", scratch_struct(e->g, c, phase));
    emit_str(L, "phase",
             phase == PHASE_FORWARD    ? "forward"
             : phase == PHASE_EVALUATE ? "evaluation"
                                       : "backward");
    emit_str(L, "class", c->name);
    lua_createtable(L, list.count, 0);
    for (int i = 0; i < list.count; i++) {
        const ScratchMember *m = &list.items[i];

        lua_newtable(L);
        emit_str(L, "ident", m->name);
        emit_str(L, "type", m->type);
        emit_str(L, "shape", m->what);
        emit_int(L, "offset", m->offset_bytes);
        emit_str(L, "over", over(e->g, &list, i));
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "fields");
}

void scratch_push_all(Emit *e, const Class *c)
{
    static const Phase phases[] = {PHASE_FORWARD, PHASE_BACKWARD, PHASE_EVALUATE};
    int n = 0;

    lua_newtable(e->L);
    for (size_t k = 0; k < sizeof phases / sizeof *phases; k++) {
        if (!scratch_any(c, phases[k]))
            continue;
        scratch_push(e, c, phases[k]);
        lua_rawseti(e->L, -2, ++n);
    }
    lua_setfield(e->L, -2, "scratch");
}
