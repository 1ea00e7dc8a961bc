/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c, linked into a generator (--wrap=shard_params, --wrap=emit_check_math): segments
 * of other keys than a description can ask for. What it emits computes nothing that is
 * right; its tables say where its weights lie. See keys.sh.
 *
 * BOXES=n: parameters are stored as n boxes, cut along the last dim that n divides, or of
 * every other parameter the first; a few are left whole. TENSOR=n: an axis of n ranks
 * that share the boxes. WIDE=1: vectors are stored in f32. */
#include "describe/mesh.h"
#include "gen.h"

#include <stdlib.h>

void __real_shard_params(Gen *g);
void __wrap_shard_params(Gen *g);
void __wrap_emit_check_math(const Gen *g);

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text ? atoi(text) : otherwise;
}

static void cut(Param *p, int boxes, RankBits axes)
{
    for (int d = 0; d < p->decl->n_dims; d++) {
        if (p->decl->dim[d] % boxes != 0 || (p->boxes && p->id % 2))
            continue;
        p->boxes = boxes;
        p->axes = axes;
        p->cut_dim = d;
    }
}

void __wrap_shard_params(Gen *g)
{
    Mesh *m = &g->model.mesh;
    int64_t degree[N_AXES];

    for (int a = 0; a < N_AXES; a++)
        degree[a] = a == AXIS_TENSOR ? number("TENSOR", 1) : m->axis[a].degree;
    *m = mesh_make(degree, m->node_ranks * number("TENSOR", 1));
    for (int i = 0; i < g->params.count; i++) {
        Param *p = &g->params.items[i];

        if (number("BOXES", 1) > 1)
            cut(p, number("BOXES", 1), m->axis[AXIS_TENSOR].bits);
        if (number("WIDE", 0) && p->decl->n_dims == 1)
            p->decl->dtype = p->decl->gathered = DT_F32;
    }
    __real_shard_params(g);
}

void __wrap_emit_check_math(const Gen *g)
{
    (void)g;
}
