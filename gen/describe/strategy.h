/* SPDX-License-Identifier: Apache-2.0 */
/* strategy.h: the one table of strategies. A strategy is a name for what is cut over
 * mesh.shard, and for the meshes it fits; what is not cut, every rank of the axis holds
 * whole. Nothing is cut over mesh.replicate: that is what the axis is for. Passes read
 * the cuts of a segment (plan/mesh.c), never the name. */
#ifndef STRATEGY_H
#define STRATEGY_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    HELD_PARAMS,    /* weights at rest: from the update to the forward */
    HELD_BETWEEN,   /* weights between the forward and the backward of a micro-step */
    HELD_GRADS,     /* gradients between micro-steps: the default of `accumulate` */
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
    const char *name, *also; /* also: what others call it, between blanks, in lower case */
    bool cut[N_HELD];
    bool one_copy; /* asks for mesh.replicate = 1 */
    bool copies;   /* asks for more, and for mesh.shard over 1 */
} StrategyRule;

const StrategyRule *strategy_rule(Strategy s);
static inline const char *strategy_name(Strategy s)
{
    return strategy_rule(s)->name;
}
/* Returns N_STRATEGIES for an unknown name. */
Strategy strategy_named(const char *name);
/* What a mesh means where the description names no strategy. */
Strategy strategy_of_mesh(int64_t replicate, int64_t shard);

#endif
