/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.h: the ranks of a trainer along the axes of its mesh, and groups of them.
 *
 * A rank is a string of bits. Each axis owns as many adjacent bits as its degree needs, high to low
 * in the order below, so ranks that differ along tensor are neighbours. A group is a mask of bits:
 * it joins the ranks that differ only in these bits. So the ranks of any axes, or of part of an
 * axis, form a group. A rank's number in its group, 0 .. ranks - 1, is made of those bits. No code
 * divides a rank. */
#ifndef MESH_H
#define MESH_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    AXIS_PIPELINE,
    AXIS_REPLICATE,
    AXIS_SHARD,
    AXIS_CONTEXT,
    AXIS_TENSOR,
    N_AXES
} AxisId;

typedef uint32_t RankBits; /* 0: a group of one rank */

typedef struct MeshAxis {
    const char *name; /* "shard", as in mesh.shard */
    int64_t degree;   /* a power of two */
    RankBits bits;
    bool in_hash; /* the numerics hash contains the degree */
} MeshAxis;

typedef struct Mesh {
    MeshAxis axis[N_AXES];
    int64_t world_size; /* product of degrees */
    RankBits all;       /* the bits of all axes */
    RankBits data;      /* the bits of the axes whose ranks compute different leaves */
    int64_t data_ranks; /* number of ranks along those */
    int64_t node_ranks; /* ranks per node, a power of two: they differ in the lowest bits */
    RankBits nodes;     /* the other bits, which identify a rank's node */
} Mesh;

const char *axis_name(AxisId axis);
/* Does the numerics hash contain the degree? Not for any axis so far: whatever is split into parts
 * is computed by parts, whatever the degree. */
bool axis_in_hash(AxisId axis);

/* degree: of each axis, powers of two whose product fits RankBits. node_ranks: world_size if all
 * ranks are on one node. */
Mesh mesh_make(const int64_t degree[N_AXES], int64_t node_ranks);

/* The lowest bits of a group: they divide it into groups of `ranks` ranks, a power of two. */
RankBits group_low(RankBits group, int64_t ranks);

static inline int group_ranks(RankBits group)
{
    return 1 << __builtin_popcount(group);
}

/* The rank's number in its group. */
static inline int group_index(RankBits group, int rank)
{
    int index = 0, place = 0;
    for (RankBits rest = group; rest; rest &= rest - 1)
        index |= (rank >> __builtin_ctz(rest) & 1) << place++;
    return index;
}

/* The rank with this number in the group of `rank`. */
static inline int group_rank(RankBits group, int rank, int index)
{
    int other = (int)((RankBits)rank & ~group), place = 0;
    for (RankBits rest = group; rest; rest &= rest - 1)
        other |= (index >> place++ & 1) << __builtin_ctz(rest);
    return other;
}

/* Are the two ranks in the same group? */
static inline bool group_joins(RankBits group, int rank, int other)
{
    return (((RankBits)rank ^ (RankBits)other) & ~group) == 0;
}

#endif
