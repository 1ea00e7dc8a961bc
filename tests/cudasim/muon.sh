# SPDX-License-Identifier: Apache-2.0
# muon.sh, read by run.sh: trainers whose optimizer treats matrices as a whole. Near the CPU's, and
# the same bits whoever owns a matrix: on 1, 2 and 4 ranks, in copies, where each rank holds all, by
# NCCL and by the loopback, replayed as graphs or call by call, also around an update that is
# skipped. A missing wait, a part from elsewhere, parts in one place must be told. The bytes that
# travel are those of the plan. FULL=1: all of it; else a sample by SEED.

# One key-value head: the parts of a fused parameter begin anywhere.
muon=(--set 'optimizer=muon{lr=2e-3}' --set model.kv_heads=1)

matrices() {
    local number=0 sets set flags
    reference muon tiny_llama 1e-4 "${muon[@]}" || return
    while read -r sets; do
        flags=()
        for set in $sets; do flags+=(--set "$set"); done
        if [ "$FULL" = 1 ] || [ $number = $((SEED / 2 % 6)) ]; then
            row muon tiny_llama 1 "${muon[@]}" "${flags[@]}"
        fi
        number=$((number + 1))
    done <<'TABLE'
mesh.replicate=2 mesh.shard=2
mesh.shard=4 wrap=2 accumulate=unsharded
mesh.shard=2 recompute=block prefetch=2
mesh.shard=4 strategy=no_shard
mesh.replicate=2 mesh.shard=2 strategy=shard_optimizer
TABLE
    matrices_in_boxes
    matrices_skipped
    matrices_in_bf16
    matrices_faults
}

# Stored as boxes of both axes, of rows and of columns: by one rank that has them all, by some that have a
# box each, in copies. State in bf16, and boxes of sizes that 8 does not divide.
matrices_in_boxes() {
    local number=0 sets set flags
    local boxes=(--set 'optimizer=muon{lr=2e-3}' --set 'dtypes={param="bf16",master="bf16",moments="bf16"}'
                 --set 'parts={tensor=2,context=2}' --set model.heads=4 --set model.kv_heads=2
                 --set model.ffn=52 --set seq=8)
    [ "$FULL" = 1 ] || [ $((SEED / 2 % 6)) = 5 ] || return
    reference boxes tiny_llama 2e-2 "${boxes[@]}" || return
    while read -r sets; do
        flags=()
        for set in $sets; do flags+=(--set "$set"); done
        if [ "$FULL" = 1 ] || [ $number = $((SEED / 12 % 3)) ]; then
            row boxes tiny_llama 1 "${boxes[@]}" "${flags[@]}"
        fi
        number=$((number + 1))
    done <<'TABLE'
mesh.tensor=2 mesh.context=2
mesh.tensor=2 mesh.shard=2
mesh.context=2 mesh.replicate=2
TABLE
}

# matrix_trainer DIR FLAGS...: every access checked, unless CUDASIM_UNCHECKED=1
matrix_trainer() {
    trainer "$1" tiny_llama cuda "${muon[@]}" "${@:2}" && build_cuda "$1" && return
    bad "matrices: no trainer: ${*:2}" "$1.log"
    return 1
}

# In f16, whose loss scale grows until an update is skipped: the host enqueues all the same.
matrices_skipped() {
    local one=$WORK/matrices_one two=$WORK/matrices_two state
    local f16=(--set 'dtypes.param="f16"' --set loss_scale.growth_interval=2 --set leaves=4)
    local -x CUDASIM_UNCHECKED=1
    matrix_trainer "$one" "${f16[@]}" && matrix_trainer "$two" "${f16[@]}" --set mesh.shard=2 ||
        return
    run_cuda "$one" STEPS=2 FLAGS="--checkpoint $one.before" &&
        run_cuda "$one" STEPS=3 FLAGS="--checkpoint $one.after" ||
        bad "matrices: skipped updates: does not run" "$one.log"
    check "matrices: the third update is skipped" grep -q '"step": *3,.*"skipped": *1' "$one.jsonl"
    for state in model optimizer/master optimizer/moment1 optimizer/moment2; do
        check "matrices: a skipped update leaves $state" cmp \
            "$one.before/step-00000002/$state.safetensors" \
            "$one.after/step-00000003/$state.safetensors"
    done
    run_cuda "$one" STEPS=5 || bad "matrices: skipped updates: does not run" "$one.log"
    run_cuda "$two" STEPS=5 || bad "matrices: skipped updates, 2 ranks" "$two.log"
    same "matrices: skipped updates, one rank and two" "$two" "$one"
    run_cuda "$two" STEPS=5 FLAGS=--no-graphs || bad "matrices: --no-graphs" "$two.log"
    same "matrices: skipped updates, call by call" "$two" "$one"
}

# State in bf16, rounded by noise that knows the element: also where a matrix begins between. What
# AdamW has besides is read 16 bytes at once.
matrices_in_bf16() {
    local one=$WORK/matrices_one two=$WORK/matrices_two
    local bf16=(--set 'dtypes={param="bf16",master="bf16",moments="bf16"}')
    local -x CUDASIM_UNCHECKED=1
    [ "$FULL" = 1 ] || [ $((SEED / 2 % 2)) = 1 ] || return
    matrix_trainer "$one" "${bf16[@]}" && matrix_trainer "$two" "${bf16[@]}" --set mesh.shard=4 &&
        run_cuda "$one" && run_cuda "$two" || { bad "matrices: in bf16" "$two.log"; return; }
    same "matrices: state in bf16, one rank and four" "$two" "$one"
}

matrices_faults() {
    local dir=$WORK/matrices REFERENCE=muon moved what
    matrix_trainer "$dir" --set mesh.shard=2 || return
    run_cuda "$dir" STEPS=3 FLAGS="--stats $dir.stats" || bad "matrices: does not run" "$dir.log"
    sed -n '/step_bytes_per_rank/,$p' "$dir/plan.json" >"$dir.moved"
    moved=$(json_number "$dir.moved" matrices)
    check "matrices: rank 0 has the planned bytes, of replayed steps too" \
        [ "$(json_number "$dir.stats" matrix_bytes)" = $((3 * moved)) ]
    check "matrices: the arena is the planned one" \
        [ "$(json_number "$dir.stats" arena_bytes)" = "$(json_number "$dir/plan.json" arena)" ]
    for what in "with their owners" "are back"; do
        [ "$FULL" = 1 ] || { [ $((SEED / 2 % 2)) = 0 ] && [ "$what" = "are back" ]; } ||
            { [ $((SEED / 2 % 2)) = 1 ] && [ "$what" = "with their owners" ]; } || continue
        local wait=rt_wait_to_owners
        [ "$what" = "are back" ] && wait=rt_wait_from_owners
        if plant "$dir" step.c "/$wait/d"; then
            fault "nobody waits until matrices are ${what#are }" "no event makes it wait" "$dir"
        else
            bad "no wait for matrices to leave out in step.c" "$dir.log"
        fi
        cp "$dir/before" "$dir/step.c"
    done
    what="a part of a matrix from the beginning of its shard"
    faulty_runtime "$dir" "$what" state/rt_owners.c 's/direction_at(t, m, run.shard_offset_elems)/direction_at(t, m, 0)/' &&
        other "$what" "$dir"
    what="parts of matrices in one place of a slot"
    faulty_runtime "$dir" "$what" cuda/ranks/rt_loopback.c 's/^    \*before = end;//' &&
        other "$what" "$dir" CUDASIM_DEVICES=1 LOOPBACK=1
}
