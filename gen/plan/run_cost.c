/* SPDX-License-Identifier: Apache-2.0 */
/* run_cost.c: what a whole run takes, for `plan` and `size`. In: the tokens to train on,
 * a step's tokens and predicted seconds. Out: steps and hours; dollars are GPU hours
 * times a price that the user gives. */
#include "plan/plan.h"
#include "base/show.h"

static const int64_t billion = 1000000000;

RunCost plan_run_cost(int64_t tokens, int64_t step_tokens, double seconds, int64_t ranks)
{
    RunCost c = {.tokens = (double)(tokens ? tokens : billion)};

    c.steps = c.tokens / (double)step_tokens;
    c.hours = c.steps * seconds / 3600;
    c.gpu_hours = c.hours * (double)ranks;
    return c;
}

const char *show_tokens(Gen *g, int64_t tokens)
{
    static const struct {
        int64_t each;
        const char *unit;
    } units[] = {{INT64_C(1000000000000), " T"},
                 {1000000000, " B"},
                 {1000000, " M"},
                 {1000, " k"}};

    if (tokens == 0 || tokens == billion)
        return "a billion tokens";
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (tokens >= units[i].each && tokens % (units[i].each / 1000) == 0)
            return gen_printf(g, "%.10g%s tokens", (double)tokens / (double)units[i].each,
                              units[i].unit);
    return gen_printf(g, "%s tokens", show_grouped(g, tokens));
}
