/* SPDX-License-Identifier: Apache-2.0 */
/* network.h: how ranks are joined: the datasheets of nodes and fabrics (gen/lua/machines.lua), with
 * the numbers of target.network in place of theirs. For predictions only. */
#ifndef NETWORK_H
#define NETWORK_H

#include "describe/mesh.h"

typedef struct Network {
    const char *node, *fabric; /* names of datasheets; NULL: the target has none, and every rank is
                                * joined to every other as on one machine */
    int64_t nodes, gpus;       /* that ranks lie on; of each, whether it has a rank or not */
    RankBits near;             /* these bits differ among the ranks that links join */
    RankBits leaf;             /* and among those whose NICs have their full rate among each other */
    double nic_per_us;         /* bytes that a rank receives from ranks that are not near */
    double oversubscription;   /* so many times slower beyond the leaf */
    int64_t step_ps, net_step_ps; /* of a ring: to a near rank, to another */
    double usd;                /* an hour of one GPU; 0: unknown */
} Network;

struct Gen;
struct Check;
struct Model;

/* Checks target.node, fabric, nodes and network against the mesh. */
void check_network(struct Check *c);
/* Fills m->net; needs m->mesh. */
void fill_network(struct Check *c, struct Model *m);

#endif
