/* SPDX-License-Identifier: Apache-2.0 */
/* strategy.h: the one table of strategies. A strategy names what is cut over mesh.shard, and
 * which meshes it fits; every rank of the axis holds the rest whole. Nothing is cut over
 * mesh.replicate: that is the purpose of the axis. Passes read the cuts of a segment
 * (plan/mesh.c), never the name. */
#ifndef STRATEGY_H
#define STRATEGY_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    HELD_PARAMS,    /* weights at rest: from the update to the next forward */
    HELD_BETWEEN,   /* weights between the forward and the backward of a micro-step */
    HELD_GRADS,     /* gradients between micro-steps: decides the default of `accumulate` */
    HELD_OPTIMIZER, /* the step's summed gradient, masters, moments */
    N_HELD
} Held;

typedef enum {
    FULL_SHARD,
    NO_SHARD,
    SHARD_GRAD_OP,
    HYBRID_SHARD,
    SHARD_OPTIMIZER,
    N_STRATEGIES
} Strategy;

typedef struct StrategyRule {
    const char *name, *also; /* also: names in other trainers, separated by blanks, in lower case */
    bool cut[N_HELD];
    bool one_copy; /* requires mesh.replicate = 1 */
    bool copies;   /* requires mesh.replicate and mesh.shard above 1 */
} StrategyRule;

const StrategyRule *strategy_rule(Strategy s);
static inline const char *strategy_name(Strategy s)
{
    return strategy_rule(s)->name;
}
/* Returns N_STRATEGIES for an unknown name. */
Strategy strategy_named(const char *name);
/* The strategy of a mesh if the description names none. */
Strategy strategy_of_mesh(int64_t replicate, int64_t shard);

#endif
