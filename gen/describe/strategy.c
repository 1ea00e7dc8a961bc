/* SPDX-License-Identifier: Apache-2.0 */
/* strategy.c: the rows of the table of strategies. In: the name of a strategy, or a mesh.
 * Out: its row. */
#include "describe/strategy.h"

#include "base/base.h"

#include <string.h>

const StrategyRule *strategy_rule(Strategy s)
{
    static const StrategyRule rules[N_STRATEGIES] = {
        /* cut: weights at rest, between forward and backward; gradients; state */
        [FULL_SHARD] = {"full_shard",
                        " fsdp fsdp1 fsdp2 zero3 zero-3 zero_3 full full-shard ",
                        {true, true, true, true},
                        .one_copy = true},
        [NO_SHARD] = {"no_shard",
                      " ddp dp replicate none no-shard ",
                      {false, false, false, false}},
        [SHARD_GRAD_OP] = {"shard_grad_op",
                           " grad_op shard-grad-op ",
                           {true, false, true, true},
                           .one_copy = true},
        [HYBRID_SHARD] = {"hybrid_shard",
                          " hsdp hybrid hybrid-shard ",
                          {true, true, true, true},
                          .copies = true},
        [SHARD_OPTIMIZER] = {"shard_optimizer",
                             " zero1 zero-1 zero_1 ",
                             {false, false, false, true}},
    };
    gen_require((int)s >= 0 && s < N_STRATEGIES, "strategy %d", (int)s);
    return &rules[s];
}

Strategy strategy_named(const char *name)
{
    int s = 0;

    while (s < N_STRATEGIES && strcmp(strategy_name((Strategy)s), name) != 0)
        s++;
    return (Strategy)s;
}

Strategy strategy_of_mesh(int64_t replicate, int64_t shard)
{
    return shard == 1 ? NO_SHARD : replicate == 1 ? FULL_SHARD : HYBRID_SHARD;
}
