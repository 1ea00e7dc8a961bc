/* SPDX-License-Identifier: Apache-2.0 */
/* faulty.c, linked into an emitted trainer (--wrap=rt_at): the faults of faults.h in the
 * first micro-step of a step, where it comes to layers.1 backward. */
#include "faults.h"
#include "tables.h"

void __real_rt_at(Rt *rt, int place);
void __wrap_rt_at(Rt *rt, int place);

void __wrap_rt_at(Rt *rt, int place)
{
    static int steps, micro_steps;

    __real_rt_at(rt, place);
    if (place == AT_NORM)
        micro_steps = 0;
    if (place == AT_EMBED_FORWARD && micro_steps++ == 0)
        steps++;
    if (place == AT_LAYERS_1_BACKWARD && micro_steps == 1)
        plant_any_fault(rt, steps);
}
