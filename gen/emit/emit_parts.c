/* SPDX-License-Identifier: Apache-2.0 */
/* emit_parts.c: how emitted C says which part of a rank has what. In: states of values
 * and parameters (split), the mesh. Out: C expressions of p, a part of the rank, and
 * fields of the context.
 *
 * A rank's parts are numbered p = 0, 1, ...: those along context of its first part along
 * tensor, then those of the next. What is the same for all parts along an axis, the first
 * of them has. Expressions for math.c read the numbers of parts when they run, as it is
 * the same for all meshes; those for bind.c have them in the text. */
#include "emit/emit_parts.h"
#include "base/show.h"
#include "plan/plan.h"

#include <string.h>

/* The axes that have parts, a bit each. */
static unsigned parted(const Gen *g)
{
    unsigned axes = 0;

    for (int a = 0; a < N_PARTS_AXES; a++)
        axes |= (unsigned)(g->model.parts[a] > 1) << a;
    return axes;
}

/* The axes along which p of a call is any part of the rank; along the others it is the
 * first. Meets take all parts. */
unsigned parts_loop_axes(const Gen *g, const Node *n)
{
    return n->op->collective ? parted(g) : node_differs(n);
}

/* Which of the rank's parts has the value for part p: parts along an axis share what the
 * first of them has. */
const char *parts_index(const Value *v, unsigned loop)
{
    const unsigned axes = value_differs(v);

    return axes == 0                     ? "0"
           : (axes & loop) == loop       ? "p"
           : axes == 1u << PARTS_CONTEXT ? "p % parts->context.here"
                                         : "p - p % parts->context.here";
}

/* A kernel that must know its part reads the number. */
const char *parts_number(Gen *g, const Value *v, unsigned loop)
{
    const bool tensor = v->part[PARTS_TENSOR].kind != PART_WHOLE;

    return gen_printf(g, "&parts->%s.number[%s]", tensor ? "tensor" : "context",
                      parts_index(v, loop));
}

/* The loop of a leg; NULL: it runs once. */
const char *parts_loop(const Gen *g, const Node *n)
{
    const unsigned axes = node_differs(n);

    return axes == 0                     ? NULL
           : axes == parted(g)           ? "p = 0; p < parts->here; p++"
           : axes == 1u << PARTS_CONTEXT ? "p = 0; p < parts->context.here; p++"
                                         : "p = 0; p < parts->here; p += "
                                           "parts->context.here";
}

/* The parts along which axis meet: those of each part along the other one, or once. */
void parts_push_meet(Emit *e, const Node *n)
{
    const unsigned others = parted(e->g) & ~(1u << n->along);
    const bool once = others && !(node_differs(n) & others);

    emit_str(
        e->L, "axis",
        gen_printf(e->g, "%s%s", axis_name(parts_mesh(n->along)), once ? "_once" : ""));
    emit_str(e->L, "meet",
             !node_joins(n)                                 ? "RT_PIECE"
             : n->out[0]->part[n->along].kind == PART_WHOLE ? "RT_MEET_WHOLE"
                                                            : "RT_MEET");
}

/* The shape of what a call has of a parameter: all of it, or a part's box. */
const char *parts_shape(Gen *g, const ClassParam *decl)
{
    int64_t dim[MAX_DIMS];

    memcpy(dim, decl->dim, sizeof dim);
    for (int a = 0; g->in_parts && a < N_PARTS_AXES; a++) {
        const PartState *mark = &decl->mark[a];

        if (mark->kind == PART_CUT)
            dim[mark->dim] = (dim[mark->dim] + mark->sections.pad) / g->model.parts[a];
    }
    return show_shape(g, dim, decl->n_dims);
}

/* Which of a rank's boxes part p computes with: "p", "p / 2"; NULL: it is not cut. */
const char *parts_box(Gen *g, const ClassParam *decl)
{
    const bool tensor = decl->mark[PARTS_TENSOR].kind == PART_CUT;
    const bool context = decl->mark[PARTS_CONTEXT].kind == PART_CUT;
    const int inner = plan_parts_along(g, PARTS_CONTEXT);

    if (!g->in_parts || !(tensor || context))
        return NULL;
    if (!context && inner > 1)
        return gen_printf(g, "p / %d", inner);
    if (!tensor && plan_parts_along(g, PARTS_TENSOR) > 1)
        return gen_printf(g, "p %% %d", inner);
    return "p";
}

/* parts_axes: the axes that have parts; and of all of them together. */
void parts_push_axes(Emit *e)
{
    const Model *m = &e->g->model;
    lua_State *L = e->L;
    int n = 0;

    lua_newtable(L);
    for (int a = 0; a < N_PARTS_AXES; a++) {
        if (m->parts[a] <= 1)
            continue;
        lua_newtable(L);
        emit_str(L, "name", axis_name(parts_mesh(a)));
        emit_int(L, "parts", m->parts[a]);
        emit_int(L, "here", plan_parts_along(e->g, a));
        emit_str(L, "ranks", gen_printf(e->g, "0x%x", (unsigned)parts_group(m, a)));
        lua_rawseti(L, -2, ++n);
    }
    lua_setfield(L, -2, "parts_axes");
    emit_int(L, "n_parts", parts_all(m));
    emit_str(L, "parts_of", parts_of(e->g));
    emit_int(L, "here", plan_parts(e->g));
}
