/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c, linked into a generator (--wrap=shard_params, --wrap=emit_check_math): segments
 * of other keys than a description can ask for. What it emits computes nothing that is
 * right; its tables say where its weights lie. See keys.sh.
 *
 * TENSOR=n: an axis of n ranks along which parameters are cut: the last dim that n
 * divides, or of every other parameter the first. WIDE=1: vectors are stored in f32. */
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

static void cut(Param *p, RankBits axes)
{
    for (int d = 0; d < p->decl->n_dims; d++) {
        if (p->decl->dim[d] % group_ranks(axes) != 0 || (p->axes && p->id % 2))
            continue;
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

        cut(p, m->axis[AXIS_TENSOR].bits);
        if (number("WIDE", 0) && p->decl->n_dims == 1)
            p->decl->dtype = DT_F32;
    }
    __real_shard_params(g);
}

void __wrap_emit_check_math(const Gen *g)
{
    (void)g;
}
