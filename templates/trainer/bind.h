//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- bind.h: a prototype for each binder.
/* SPDX-License-Identifier: MIT-0 */
/* bind.h: the binders of ${name}: what step.c calls, with the offsets of tables.h, to run
 * the mathematics of one block.
 *
 * Offsets count bytes from the start of one of this rank's two spaces; each binder knows
 * which one.
 *
 * ${generated}
 * ${regenerate} */
#ifndef TRAINER_BIND_H
#define TRAINER_BIND_H

#include "math.h"
#include "tables.h"

#if MATH_IDENTITY != 0x${math_identity} || TRAINER_IDENTITY != 0x${identity}
#error "bind.h, math.h and tables.h come from different generations: run fsdpgen again"
#endif

//@ for _, b in ipairs(binders) do
//@ local params = { "Rt *rt" }
//@ for i, p in ipairs(b.params) do params[i + 1] = p end
${call("void " .. b.name .. "(", params, ");")}
//@ end

#endif
