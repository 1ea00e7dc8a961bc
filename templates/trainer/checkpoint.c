//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- checkpoint.c: the texts that a checkpoint carries beside its tensors.
/* SPDX-License-Identifier: MIT-0 */
/* checkpoint.c: what checkpoints of ${name} contain apart from their tensors, whose
 * places are in tables.c.
 *
//@ if config_lines then
 * config.json describes the model to Hugging Face, so a checkpoint loads there. The fields
 * of the numerics hash show how a checkpoint with another hash differs.
//@ else
 * There is no config.json. The fields of the numerics hash show how a checkpoint with
 * another hash differs.
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
