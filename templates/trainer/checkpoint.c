//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- checkpoint.c: the texts that a checkpoint carries beside its tensors.
/* SPDX-License-Identifier: MIT-0 */
/* checkpoint.c: what checkpoints of ${name} say beside their tensors, which
 * tables.c places.
 *
//@ if config_lines then
 * config.json is the model as Hugging Face knows it, so a checkpoint loads as one. The
 * numbers of the numerics hash tell, when a checkpoint is of another hash, what it differs
 * in.
//@ else
 * There is no config.json. The numbers of the numerics hash tell, when a checkpoint is of
 * another hash, what it differs in.
//@ end
 *
 * ${generated}
 * ${regenerate} */
#include "tables.h"

#if TRAINER_IDENTITY != 0x${identity}
#error "checkpoint.c and tables.h come from different generations: run fsdpgen again"
#endif

//@ if config_lines then
const char trainer_config[] =
//@ for i, line in ipairs(config_lines) do
    ${cstr(line .. "\n")}${i == #config_lines and ";" or ""}
//@ end

//@ end
const char trainer_numerics[] =
//@ for i, line in ipairs(numerics_lines) do
    ${cstr(line .. "\n")}${i == #numerics_lines and ";" or ""}
//@ end
