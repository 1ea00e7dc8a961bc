/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.h: the ranks of a trainer along the axes of its mesh, and groups of them.
 *
 * A rank is a string of bits. Each axis owns as many neighbouring ones as its degree
 * needs, high to low in the order below, so ranks that differ along tensor are
 * neighbours. A group is a mask of bits: it joins the ranks that differ in these bits
 * alone, so that the ranks of any axes, or of a part of one, are a group. Numbers in a
 * group, 0 .. ranks - 1, are those bits put together. No code divides a rank. */
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
    bool in_hash; /* the numerics hash knows the degree */
} MeshAxis;

typedef struct Mesh {
    MeshAxis axis[N_AXES];
    int64_t world_size; /* product of degrees */
    RankBits all;       /* bits of all axes */
    RankBits data;      /* of those along which ranks compute leaves of their own */
    int64_t data_ranks; /* how many such there are */
    int64_t node_ranks; /* ranks of a node, a power of two: the lowest bits */
    RankBits nodes;     /* the other bits, which name a rank's node */
} Mesh;

const char *axis_name(AxisId axis);
/* Is the degree inside the numerics hash? Of no axis so far: what is split in parts is
 * computed by parts whatever the degree. */
bool axis_in_hash(AxisId axis);

/* degree: of each axis, powers of two whose product fits RankBits. node_ranks: world_size
 * where all ranks are of one node. */
Mesh mesh_make(const int64_t degree[N_AXES], int64_t node_ranks);

/* The lowest bits of a group: groups of so many of its ranks, a power of two. */
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

/* Are they of one group? */
static inline bool group_joins(RankBits group, int rank, int other)
{
    return (((RankBits)rank ^ (RankBits)other) & ~group) == 0;
}

#endif
