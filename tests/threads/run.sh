#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ThreadSanitizer over the threads of a rank: whole trainers, every kernel and the
# runtime compiled with it, our own matrix products, more threads than cores. It needs
# an OpenMP whose barriers it understands: clang with LLVM's, which brings Archer
# (Debian: clang libomp-dev). Three probes say whether it tells the truth here: a
# program without a race, which must be silent; one with a race, which must not; and a
# trainer with a race planted in a kernel. What ranks share is memory of several
# processes: no sanitizer follows that. The protocol there is tested by equal bits
# (tests/e2e) and by deaths and stalls (tests/runtime).
set -u
. "$(dirname "$0")/../lib.sh"
. "$ROOT/tests/e2e/common.sh"

CLANG=${CLANG:-clang}
# LLVM's OpenMP itself is not instrumented; Archer tells what it does.
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 exitcode=66"
data=$ROOT/LICENSE

probe() { # NAME FLAGS: exit 66 is a race found
    cat >"$WORK/$1.c" <<'C'
static int a[100], b[100], sum;
int main(void)
{
    for (int k = 0; k < 100; k++) {
#pragma omp parallel for schedule(static) num_threads(4)
        for (int i = 0; i < 100; i++)
            a[i] = i + k;
#pragma omp parallel for schedule(static) num_threads(4)
        for (int i = 0; i < 100; i++)
            b[i] = a[99 - i];
#ifdef RACE
#pragma omp parallel for schedule(static) num_threads(4)
        for (int i = 0; i < 100; i++)
            sum += b[i];
#endif
    }
    return sum > 0 && b[0] < 0;
}
C
    "$CLANG" -O1 -g -fsanitize=thread -fopenmp $2 "$WORK/$1.c" -o "$WORK/$1" \
        >"$WORK/$1.log" 2>&1 || return 1
    "${in_place[@]}" "$WORK/$1" >>"$WORK/$1.log" 2>&1
}

skip() { cannot_run "ThreadSanitizer: $1 (Debian: apt-get install clang libomp-dev)"; }
probes() { # does it work here?
    command -v "$CLANG" >/dev/null || skip "$CLANG is not installed"
    probe silent '' || skip "$CLANG has no OpenMP that it understands"
    probe race -DRACE
    [ $? -eq 66 ] || skip "it does not see a race between two threads"
    ok "it is silent without a race and tells one"
}

# tsan DIR: builds the emitted trainer with it
tsan() {
    build_trainer "$1" REAL_CC="$CLANG" GEMM=builtin \
        CFLAGS="-O1 -g -march=${ISA_ARCH/native/x86-64} -fsanitize=thread"
}

# races NAME MODEL RANKS THREADS [FLAGS...]: a trainer of this model has none.
races() {
    local name=$1 model=$2 ranks=$3 threads=$4
    shift 4
    local dir=$WORK/$name code
    if ! generate "$dir" "$ROOT/tests/models/$model.lua" --set "mesh.shard=$ranks" "$@" ||
        ! tsan "$dir"; then
        bad "building $name with ThreadSanitizer" "$dir.log"
        return
    fi
    "${in_place[@]}" "$dir/trainer" --data "$data" --steps 2 --threads "$threads" --deadline 300 \
        --weights-hash >"$dir.out" 2>&1
    code=$?
    if [ $code -ne 0 ] || grep -q 'ThreadSanitizer' "$dir.out"; then
        grep -m 1 -A 14 'WARNING: ThreadSanitizer' "$dir.out" >"$dir.race" ||
            cp "$dir.out" "$dir.race"
        bad "$name: no race between $threads threads of $ranks ranks (code $code)" \
            "$dir.race"
    else
        ok "$name: no race between $threads threads of $ranks ranks"
    fi
}

# A kernel whose threads all write everything must be seen, through launcher and ranks.
planted() {
    local dir=$WORK/planted
    cp -R "$WORK/llama" "$dir"
    sed -i '0,/#pragma omp parallel for schedule(static)/s//#pragma omp parallel/' \
        "$dir/kernels.c"
    if cmp -s "$WORK/llama/kernels.c" "$dir/kernels.c" || ! tsan "$dir"; then
        bad "planting a race" "$dir.log"
        return
    fi
    "${in_place[@]}" "$dir/trainer" --data "$data" --steps 1 --threads 3 --deadline 300 >"$dir.out" 2>&1
    if grep -q 'WARNING: ThreadSanitizer: data race' "$dir.out"; then
        ok "a race planted in a kernel is told"
    else
        bad "a race planted in a kernel is not told" "$dir.out"
    fi
}

more() {
    [ "$FULL" = 1 ] || [ ${#part_names[@]} -gt 0 ] || return 0
    races llama_bf16 tiny_llama 2 4 --set dtypes.param=bf16 --set model.tied=true
    races llama_f64 tiny_llama 1 5 --set dtypes.param=f64 --set model.window=5
    races llama_unfused tiny_llama 4 2 --set fuse=false --set accumulate=unsharded
    races gpt2_bf16 tiny_gpt2 1 8 --set dtypes.param=bf16
    races gpt2_unfused tiny_gpt2 2 3 --set fuse=false
    races comm_unsharded tiny_gpt2 2 3 --set target.comm_thread=true --set accumulate=unsharded
    races wide tiny_llama 2 4 --set model.dim=192 --set model.ffn=333 --set seq=70
}
part probes probes
part llama:probes turn 0 2 races llama tiny_llama 2 3 --set model.qk_norm=true --set model.qkv_bias=true
part gpt2:probes races gpt2 tiny_gpt2 2 3
part comm_thread:probes races comm_thread tiny_llama 4 2 --set target.comm_thread=true
part planted:llama turn 0 2 planted
part more:probes more
finish
