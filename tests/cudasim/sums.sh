# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: sums over ranks: their order, NCCL's own, and those whose staging takes a slice.

# A sum that begins with the rank's own part: on four ranks it is no tree.
unordered() {
    local dir=$WORK/unordered runtime=$WORK/runtime
    cp -R "$ROOT/runtime" "$runtime"
    sed -i 's/return k == p->mine ? (const RtGrad \*)p->own/k ^= k == 0 || k == p->mine ? p->mine : 0; &/' \
        "$runtime/cuda/rt_kernels.h"
    if cmp -s "$runtime/cuda/rt_kernels.h" "$ROOT/runtime/cuda/rt_kernels.h" ||
       ! trainer "$dir" tiny_llama cuda --set mesh.shard=4 ||
       ! CUDASIM_UNCHECKED=1 build_trainer "$dir" CUDA_HOME="$home" RUNTIME="$runtime"; then
        bad "a sum in another order: not planted" "$dir.log"
        return
    fi
    other "a sum in another order" "$dir"
}

# NCCL's own sums: near the reference, the same again; what changes their order is in the platform.
library_sums() {
    local dir=$WORK/library
    if ! trainer "$dir" tiny_llama cuda --set mesh.shard=4 --set 'reduction="library"' ||
       ! CUDASIM_UNCHECKED=1 build_cuda "$dir" || ! NCCL_ALGO=Ring run_cuda "$dir"; then
        bad "reduction = \"library\": does not run" "$dir.log"
        return
    fi
    check "reduction = \"library\": losses near the tree's" near "$WORK/reference_llama.jsonl" \
        "$dir.jsonl" 1e-4
    cp "$dir.result" "$dir.first"
    check "the platform has NCCL's variables" grep -q "platform .*, NCCL_ALGO=Ring" "$dir.out"
    run_cuda "$dir"
    check "reduction = \"library\": the same bits again" cmp "$dir.result" "$dir.first"
    check "without a variable it has none" bash -c "! grep -q 'platform .* NCCL_' '$dir.out'"
}

# With staging of five rows of grains a sum takes several slices: one is added while the next one arrives.
sliced_sums() {
    local dir=$WORK/sliced name sets what REFERENCE=llama
    while IFS='|' read -r name sets; do
        # shellcheck disable=SC2086 # words
        if ! trainer "$dir" tiny_llama cuda $sets ||
           ! plant "$dir" trainer.c 's/\.staging_bytes = [0-9]*/.staging_bytes = 5 * 4 * RT_GRAIN_ELEMS * 4/' ||
           ! run_cuda "$dir" CUDASIM_SEED=$((SEED + 3)); then
            bad "sums in slices, $name: do not run" "$dir.log"
            return
        fi
        same_bits "sums in slices, $name" "$dir" llama
        run_cuda "$dir" CUDASIM_SEED=$((SEED + 4)) CUDASIM_DEVICES=1 LOOPBACK=1 ||
            bad "sums in slices, $name, loopback: do not run" "$dir.log"
        same_bits "sums in slices, $name, loopback" "$dir" llama
    done <<'TABLE'
shards|--set mesh.shard=4 --set wrap=root_only
copies of shards|--set mesh.replicate=2 --set mesh.shard=2 --set wrap=root_only
TABLE
    what="a slice that is added before it arrives"
    parts_faulty "$dir" "$what" cuda/ranks/rt_tree.c 's/cudaStreamWaitEvent(adds, arrived, 0)/cudaSuccess/' &&
        fault "$what" "no event makes it wait" "$dir"
    what="a slice that arrives before its half is added"
    parts_faulty "$dir" "$what" cuda/ranks/rt_tree.c 's/cudaStreamWaitEvent(moves, added\[half\], 0)/cudaSuccess/' &&
        fault "$what" "no event makes it wait" "$dir"
    what="a sum that is read before its last slice is added"
    parts_faulty "$dir" "$what" cuda/ranks/rt_tree.c 's/cudaStreamWaitEvent(moves, added\[half ^ 1\], 0)/cudaSuccess/' &&
        fault "$what" "no event makes it wait|was not joined" "$dir"
}
