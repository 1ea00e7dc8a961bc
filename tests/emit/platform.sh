# SPDX-License-Identifier: Apache-2.0
# platform.sh, read by run.sh: the platform takes the text of what computes, without comments. Every
# file of the runtime is on one side, by name: those of gen/base/arithmetic.c, whose edit is another
# platform, and those below, whose edit is none.

# Words, flags, files, processes, what ranks tell each other: bytes pass through unread.
no_arithmetic='rt_flags.h rt_hash.h rt_main.c
checkpoint/*.c checkpoint/rt_checkpoint.h checkpoint/rt_dry.h job/*.c job/*.h
data/rt_agree_data.c data/rt_changed.c data/rt_data.c data/rt_digest.c data/rt_digest.h data/rt_known.c data/rt_mask.c
data/rt_mask.h data/rt_record.c data/rt_tokens.c data/rt_tokens.h data/rt_eval.c
cpu/rt_comm.c cpu/rt_meet.c cpu/rt_memory.c cpu/rt_shm.c cpu/rt_lap.c state/rt_calibrate.c state/rt_collective.c state/rt_debug.c state/rt_hash.c
state/rt_evaluated.c state/rt_events.c state/rt_log.c state/rt_next.c state/rt_sample.c state/rt_screen.c cuda/rt_arena.h
cuda/rt_arena.c cuda/rt_cache.c cuda/rt_comm.c cuda/rt_control.h cuda/rt_gpu.c cuda/rt_gpu.h
cuda/rt_graph.c cuda/rt_image.c cuda/rt_jit.c cuda/rt_lap.c cuda/rt_memory.c cuda/rt_parts.c cuda/rt_profile.c cuda/rt_stage.c'
# Declarations that all files read.
no_arithmetic="$no_arithmetic rt.h rt_private.h rt_collective.h rt_target.h data/rt_data.h state/rt_map.h state/rt_state.h
cpu/rt_cpu.h cuda/rt_blas.h cuda/rt_cuda.h cuda/rt_cudnn.h"
# What they choose is in the platform by its own text; only some meshes have ranks/.
no_arithmetic="$no_arithmetic cuda/rt_tune.c cuda/rt_wisdom.c cuda/cudnn/rt_cudnn_steady.c cuda/cudnn/rt_cudnn_choose.c cuda/ranks/*.c cuda/ranks/*.h arithmetic.awk"

computing=$(sed -n '/files\[\]/,/};/p' "$ROOT/gen/base/arithmetic.c" | grep -o '"[^"]*"' | tr -d '"')
one_side() {
    local file other pattern
    (cd "$ROOT/runtime" && find . -type f -name '*.*' | sed 's|^\./||' | sort) >"$WORK/runtime.files"
    while read -r file; do
        other=0
        set -f
        for pattern in $no_arithmetic; do
            # shellcheck disable=SC2254
            case $file in $pattern) other=$((other + 1)) ;; esac
        done
        set +f
        [ $((other + $(grep -cxF "$file" <<<"$computing"))) = 1 ] || echo "runtime/$file"
    done <"$WORK/runtime.files"
    while read -r file; do
        grep -qxF "$file" "$WORK/runtime.files" || echo "runtime/$file is gone"
    done <<<"$computing"
}
one_side >"$WORK/sides"
check "platform: every file of the runtime computes or does not, by name" test ! -s "$WORK/sides" ||
    cat "$WORK/sides"

# What rounds is arithmetic, but for rt_load.c: initial weights have a hash of their own.
rounding() {
    # shellcheck disable=SC2086
    (cd "$ROOT/runtime" && grep -lE 'rt_(bf16|f16)_from_' $no_arithmetic | grep -vx 'checkpoint/rt_load.c')
}
rounding >"$WORK/rounding"
check "platform: no file that is said not to compute rounds" test ! -s "$WORK/rounding" || cat "$WORK/rounding"

# code_of DIR: the checksum that the platform has, without building.
toolkit=$WORK/toolkit # the Makefile asks for one; nothing is compiled
mkdir -p "$toolkit/include"
touch "$toolkit/include/cublasLt.h" "$toolkit/include/nccl.h"
code_of() {
    rm -f "$1/build/arithmetic"
    make -s -C "$1" CUDA_HOME="$toolkit" build/arithmetic >"$WORK/code.log" 2>&1 && cat "$1/build/arithmetic"
}

# edited WHAT same|other FILE SED: is the code of $trainer with that edit the one before?
edited() {
    local what=$1 want=$2 file=$3 now
    cp "$trainer/$file" "$WORK/file.before"
    sed -i "$4" "$trainer/$file"
    if cmp -s "$trainer/$file" "$WORK/file.before"; then
        bad "platform: $what: nothing is edited"
    else
        now=$(code_of "$trainer")
        [ "$now" = "$code" ] && now=same || now=other
        check "platform: $what" test "$now" = "$want"
    fi
    cp "$WORK/file.before" "$trainer/$file"
}

sides() {
    trainer=$WORK/code_$1
    "$FSDPGEN" "$model" -o "$trainer" --target "$1" >"$WORK/code.log" 2>&1 || bad "platform: $1" "$WORK/code.log"
    code=$(code_of "$trainer")
    check "platform: $1: there is a checksum" test -n "$code"
    edited "$1: a comment of math.c" same math.c 's|^/\* layer |/* the layer |'
    edited "$1: a wrapped line of math.c" same math.c 's|, saved->|,\n    saved->|'
    edited "$1: an argument in math.c" other math.c '0,/saved->ffn_norm,/s//saved->attn_norm,/'
    edited "$1: a comment of rt_philox.h" same runtime/rt_philox.h '2s|^|// x\n|'
    edited "$1: a constant of rt_philox.h" other runtime/rt_philox.h 's/0xD2511F53u/0xD2511F55u/'
    edited "$1: a quotation mark in a comment" same runtime/rt_math.h '2s|^|/* it isn'"'"'t "so */\n|'
    edited "$1: rt_update.c" other runtime/state/rt_update.c 's/1\.0 - st->beta1_power/0.9 - st->beta1_power/'
    edited "$1: rt_schedule.c" other runtime/state/rt_schedule.c 's/0\.5/0.25/'
    edited "$1: rt_log.c" same runtime/state/rt_log.c 's/skipped/omitted/'
    edited "$1: rt_save.c" same runtime/checkpoint/rt_save.c 's/collective/shared/I'
    edited "$1: step.c" same step.c 's/rt_at(/rt_at (/'
}
sides cpu
edited "cpu: a loop of kernels.c" other kernels.c 's/ += / -= /'
edited "cpu: rt_sum.c" other runtime/cpu/rt_sum.c 's/ + / - /g'
sides cuda
edited "cuda: a loop of kernels.cu" other kernels.cu 's/ += / -= /'
edited "cuda: rt_mma.h" other runtime/cuda/rt_mma.h 's/threadIdx/threadIdy/'

# Other choices outside the numerics hash are no other platform, but for the target.
trainer=$WORK/code_cpu
code=$(code_of "$trainer")
for sets in mesh.shard=2 wrap=2 'recompute="block"' prefetch=2; do
    "$FSDPGEN" "$model" -o "$WORK/code_other" --force --set "$sets" >"$WORK/code.log" 2>&1
    check "platform: $sets is the same" test "$(code_of "$WORK/code_other")" = "$code"
done
"$FSDPGEN" "$model" -o "$WORK/code_cuda2" --target cuda --set mesh.shard=2 >"$WORK/code.log" 2>&1
check "platform: two GPUs are one's" test "$(code_of "$WORK/code_cuda2")" = "$(code_of "$WORK/code_cuda")"
