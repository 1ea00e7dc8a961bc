//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- trainer.c: the configuration and main.
/* SPDX-License-Identifier: MIT-0 */
/* trainer.c: the configuration of ${name}, and main.
 *
 * Read on in step.c (one step, unrolled), math.c (the mathematics), bind.c (from one to
 * the other), tables.c (the layout). `trainer --help` lists the flags; README.md
 * says how to build and run.
 *
 * ${generated}
 * ${regenerate} */
#include "tables.h"

#if TRAINER_IDENTITY != 0x${identity}
#error "trainer.c and tables.h come from different generations: run fsdpgen again"
#endif
#if defined TRAINER_MAKEFILE && TRAINER_MAKEFILE != 0x${identity}
#error "trainer.c and Makefile come from different generations: run fsdpgen again"
#endif
//@ if runtime_identity then
#if RT_IDENTITY != 0 && RT_IDENTITY != 0x${runtime_identity}
#error "trainer.c and runtime/ come from different generations: run fsdpgen again"
#endif
//@ end

#ifndef TRAINER_BUILD_FLAGS
#define TRAINER_BUILD_FLAGS "unknown"
#endif
#ifndef TRAINER_ARITHMETIC
#define TRAINER_ARITHMETIC "unknown"
#endif

static const RtTrainer trainer = {
    .name = ${cstr(name)},
    .generator = "fsdpgen ${version}",
    .numerics_hash = UINT64_C(0x${numerics}),
    .identity = UINT64_C(0x${identity}),
    .mesh = ${cstr(mesh)},
    .build_flags = TRAINER_BUILD_FLAGS,
    .arithmetic = TRAINER_ARITHMETIC,

    /* ${world_size} ranks; memory of each: ${arena_human} of arena, planned to the byte */
    .world_size = ${world_size},
//@ if world_size > 1 then
    .all = ${all}, /* all bits of a rank */
    .data = ${data}, /* ranks along these compute different leaves */
//@ end
//@ if in_parts then
//@ for _, axis in ipairs(parts_axes) do
    .${axis.name}_parts = ${axis.parts}, /* of each micro-batch's mathematics; a rank computes ${axis.here} */
//@ if axis.ranks ~= "0x0" then
    .${axis.name}_ranks = ${axis.ranks}, /* that share them */
//@ end
//@ end
//@ end
//@ if replicate ~= "0x0" then
    .replicate = ${replicate}, /* bits that identify its copy of the model */
//@ end
    .symmetric_bytes = INT64_C(${symmetric_bytes}),
    .local_bytes = INT64_C(${local_bytes}),
    .snapshot_bytes = INT64_C(${snapshot_bytes}),

    .param_dtype = ${param_dtype},
    .reduce_dtype = ${reduce_dtype},
    .master_dtype = ${master_dtype},
    .moments_dtype = ${moments_dtype},

    /* a step: ${micro_batches} micro-batches of ${micro_batch} x ${seq_tokens} tokens, summed as a tree of ${leaves} leaves */
    .seq_tokens = ${seq_tokens},
    .vocab = ${vocab},
    .micro_batch = ${micro_batch},
    .micro_batches = ${micro_batches},
    .leaves = ${leaves},
//@ if packed then
    .packed = true, /* a token ${document_end} ends a document */
    .document_end = ${document_end},
//@ end
//@ if loss_mask then
    .masked = true, /* X.mask beside each data file X: a bit per token, low bit first */
//@ end
//@ if nodes ~= "0x0" then
    .nodes = ${nodes}, /* bits of a rank that identify its node */
//@ end
//@ if #hops > 0 then
    .n_hops = N_HOPS, /* sums go within nodes first */
    .hops = trainer_hops,
//@ end
//@ if library_order then
    .library_order = true, /* reduction = "library" */
//@ end
//@ if comm_thread then
    .comm_thread = true, /* collectives beside the computation */
//@ end
    .rounds = ${rounds}, /* leaves per rank */
//@ if summed_first ~= "0x0" then
    .summed_first = ${summed_first}, /* ranks that are summed in each round */
//@ end
//@ if summed_last ~= "0x0" then
    .summed_last = ${summed_last}, /* ranks that are summed after all rounds */
//@ end
    .seed = ${seed},
    .max_skipped = ${max_skipped}, /* skipped updates in a row; one more ends the run */

    .optimizer = {
        .lr = ${real(lr)},
        .beta1 = ${real(beta1)},
        .beta2 = ${real(beta2)},
        .clip = ${real(clip)},${clip == 0 and " /* none */" or ""}
    },
//@ if loss_scale_init > 0 then
    .loss_scale = {
        .init = ${loss_scale_init},
        .min = ${loss_scale_min},
        .factor = ${loss_scale_factor},
        .interval = ${loss_scale_interval},
    },
//@ end
    .schedule = {
        .ratio = rt_lr_${schedule},
        .warmup_steps = ${warmup_steps},
        .steps = ${schedule_steps},
//@ if decay_steps > 0 then
        .decay_steps = ${decay_steps},
//@ end
        .min_ratio = ${real(min_ratio)},
    },
    .flops_per_token = ${real(flops_per_token)},
//@ if peak_tflops > 0 then
    .peak_tflops = ${real(peak_tflops)},
//@ end
    .planned_step_seconds = ${real(planned_step_seconds)},${planned_step_seconds == 0 and " /* unknown */" or ""}
    .params_elems = INT64_C(${params_elems}),

    .n_params = N_PARAMS,
    .params = trainer_params,
    .n_segments = N_SEGMENTS,
    .segments = trainer_segments,
    .segment_params = trainer_segment_params,
//@ if #batches > 0 then
    .n_batches = N_BATCHES,
    .matrices = trainer_matrices,
    .batches = trainer_batches,
//@ end
    .n_memory = N_MEMORY,
    .memory = trainer_memory,
    .n_places = N_PLACES,
    .places = trainer_places,
    .tokens_offset = ${tokens_buffer},
    .targets_offset = ${targets_buffer},
//@ if packed then
    .starts_offset = ${starts_buffer},
//@ end
//@ if logits_buffer then
    .row_offset = ${row_buffer},
    .logits_offset = ${logits_buffer},
//@ end
    .control_offset = ${control_buffer},
//@ if scales_buffer then
    .largest_offset = ${largest_buffer},
    .scales_offset = ${scales_buffer},
    .n_scales = ${largest_bytes // 4},
//@ end
//@ if staging_buffer then
    .staging_offset = ${staging_buffer},
    .staging_bytes = ${staging_bytes},
//@ end
//@ if meeting_buffer then
    .meeting_offset = ${meeting_buffer},
    .meeting_bytes = ${meeting_bytes},
//@ end
//@ if library_buffer then
    .library_offset = ${library_buffer},
    .library_bytes = ${library_bytes},
//@ end

    .timed = trainer_timed,
//@ if #sites > 0 then
    .sites = trainer_sites,
//@ end
//@ if kernel_choices then
    .choices = ${cstr(kernel_choices)},
//@ end

    .n_files = ${n_files}, /* files of weights in a checkpoint */
//@ if config_lines then
    .config = trainer_config,
//@ end
    .numerics = trainer_numerics,

    .setup = trainer_setup,
//@ if scales_buffer then
    .encode = trainer_encode,
//@ end
    .step = trainer_step,
//@ if logits_buffer then
    .evaluate = trainer_evaluate,
//@ end
};

int main(int argc, char **argv)
{
    return rt_main(&trainer, argc, argv);
}
