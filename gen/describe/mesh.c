/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c: the one table of axes, and the bits of a rank that each axis owns. In: their
 * degrees. Out: a Mesh. */
#include "describe/mesh.h"

#include "base/base.h"

static const struct {
    const char *name;
    bool data;     /* its ranks compute different leaves */
    bool numerics; /* its degree changes bits, so the numerics hash contains it */
} axes[N_AXES] = {
    [AXIS_PIPELINE] = {"pipeline", false, false},
    [AXIS_REPLICATE] = {"replicate", true, false},
    [AXIS_SHARD] = {"shard", true, false},
    [AXIS_CONTEXT] = {"context", false, false},
    [AXIS_TENSOR] = {"tensor", false, false},
};

const char *axis_name(AxisId axis)
{
    return axes[axis].name;
}

bool axis_in_hash(AxisId axis)
{
    return axes[axis].numerics;
}

Mesh mesh_make(const int64_t degree[N_AXES], int64_t node_ranks)
{
    Mesh mesh = {.world_size = 1, .data_ranks = 1, .node_ranks = node_ranks};

    for (int a = N_AXES - 1; a >= 0; a--) { /* the last one owns the lowest bits */
        int64_t below = mesh.world_size;
        MeshAxis *axis = &mesh.axis[a];

        axis->name = axes[a].name;
        axis->in_hash = axes[a].numerics;
        axis->degree = degree[a];
        gen_require(degree[a] >= 1 && (degree[a] & (degree[a] - 1)) == 0 &&
                        degree[a] <= (INT64_C(1) << 31) / below,
                    "mesh.%s is %lld", axes[a].name, (long long)degree[a]);
        mesh.world_size *= degree[a];
        axis->bits = (RankBits)(mesh.world_size - below);
        mesh.all |= axis->bits;
        if (axes[a].data) {
            mesh.data |= axis->bits;
            mesh.data_ranks *= degree[a];
        }
    }
    mesh.nodes = mesh.all & ~(RankBits)(node_ranks - 1);
    return mesh;
}

RankBits group_low(RankBits group, int64_t ranks)
{
    RankBits low = 0;

    for (RankBits rest = group; rest && group_ranks(low) < ranks; rest &= rest - 1)
        low |= rest & ~(rest - 1);
    return low;
}
