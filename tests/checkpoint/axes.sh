# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Parts of both axes: whichever ranks share them, checkpoints have the same bytes, those
# of moments too, and each goes on from what the others wrote, also where one of them was killed, or begins with it.
# So does the demo's model.

axes_sets=(parts.tensor=2 parts.context=2 model.heads=8 model.kv_heads=4 model.head_dim=6 model.ffn=52
    model.vocab=259 seq=18 model.tied=true model.qkv_bias=true 'dtypes.param="bf16"')
[ $((SEED / 8 % 2)) = 0 ] || axes_sets+=('optimizer=muon{lr=1e-3}') # second moments of AdamW's half alone

# axes_trainers: of one to eight ranks, which share either axis, both or none
axes_trainers() {
    make_trainer axes1 "$llama" "${axes_sets[@]}" &&
        make_trainer axes4 "$llama" "${axes_sets[@]}" mesh.tensor=2 mesh.context=2 &&
        make_trainer axes_context "$llama" "${axes_sets[@]}" mesh.context=2 mesh.shard=2 recompute=block &&
        make_trainer axes_tensor "$llama" "${axes_sets[@]}" mesh.tensor=2 mesh.shard=2 wrap=root_only &&
        make_trainer axes8 "$llama" "${axes_sets[@]}" mesh.tensor=2 mesh.context=2 mesh.shard=2
}

# The demo's model in four parts, on one rank, four and four others; fewer tokens, and layers unless FULL.
demo_trainers() {
    local sets=(parts.tensor=2 parts.context=2 global_batch=4) demo=$ROOT/models/demo.lua
    [ "$FULL" = 1 ] || sets+=(seq=64 model.layers=2)
    make_trainer demo1 "$demo" "${sets[@]}" mesh.shard=1 &&
        make_trainer demo4 "$demo" "${sets[@]}" mesh.shard=1 mesh.tensor=2 mesh.context=2 &&
        make_trainer demo_context "$demo" "${sets[@]}" mesh.shard=2 mesh.context=2 recompute=block &&
        make_trainer demo_tensor "$demo" "${sets[@]}" mesh.shard=1 mesh.tensor=2
}

demo_killed() { # CHECKPOINTS
    demo_trainers && axes_killed demo demo_tensor "$1"
}

# A rank of NAME4 is killed in the middle of a run; NAME_context, NAME1 and END go on from what it left.
axes_killed() { # NAME END CHECKPOINTS
    local name=$1 end=$2 ck=$3 job victims last steps
    rm -rf "$ck"
    "$WORK/${name}4/trainer" --data "$data" --steps 100000 --threads 1 --checkpoint "$ck" --checkpoint-every 1 \
        >"$WORK/${name}4.out" 2>"$WORK/${name}4.err" &
    job=$!
    for _ in $(seq 3000); do
        [ "$(ls "$ck" 2>/dev/null | grep -c '^step-[0-9]*$')" -lt 2 ] || break
        kill -0 $job 2>/dev/null || break
        sleep 0.02
    done
    victims=("$job" $(pgrep -P "$job"))
    check "$name: four ranks run" test ${#victims[@]} -ge 4
    random ${#victims[@]}
    kill -9 "${victims[random_value]}"
    wait "$job" 2>/dev/null
    last=$(ls "$ck" | grep '^step-[0-9]*$' | sort | tail -n 1)
    steps=$((10#${last#step-} + 3))
    run ${name}1 $steps && cp "$WORK/${name}1.out" "$WORK/$name.long" &&
        run ${name}_context $((steps - 2)) --checkpoint "$ck" --resume &&
        run ${name}1 $((steps - 1)) --checkpoint "$ck" --resume && run $end $steps --checkpoint "$ck" --resume ||
        { bad "$name: others go on where a rank was killed" "$WORK/$end.err"; return; }
    parts_weights "$name: a rank of four is killed, and others end with the bits of a whole run" $end.out $name.long
}

# What a rank holds of both axes' pieces, inner ones taken for outer ones: other weights.
axes_swapped() {
    local dir=$WORK/swapped
    mkdir "$dir" && cp -r "$ROOT/runtime/." "$dir" &&
        sed -i 's|along % outer_ranks \*|along / outer_ranks *|; s|+ along / outer_ranks \*|+ along % outer_ranks *|' \
            "$dir/state/rt_map.c" && ! cmp -s "$dir/state/rt_map.c" "$ROOT/runtime/state/rt_map.c" &&
        generate "$WORK/axes_swapped" "$llama" "${axes_sets[@]/#/--set=}" --set=mesh.tensor=2 --set=mesh.context=2 &&
        build_trainer "$WORK/axes_swapped" -j2 GEMM=builtin CFLAGS="$flags" RUNTIME="$dir" ||
        { bad 'axes: the fault is built' "$WORK/axes_swapped.log"; return; }
    run axes_swapped 2 && run axes1 2 ||
        { bad 'axes: the fault runs' "$WORK/axes_swapped.err"; return; }
    check 'axes: inner pieces taken for outer ones are seen' \
        test "$(grep '^weights ' "$WORK/axes_swapped.out")" != "$(grep '^weights ' "$WORK/axes1.out")"
}

parts_of_both_axes() {
    local ck=$WORK/axes.ck name at=0
    axes_trainers || return
    rm -rf "$ck" "$ck"1 "$ck"2
    run axes1 8 --checkpoint "$ck"1 --debug-gradients "$WORK/axes1.gradients" ||
        { bad 'axes: a run' "$WORK/axes1.err"; return; }
    cp "$WORK/axes1.out" "$WORK/axes.whole"
    for name in axes4 axes_context axes_tensor axes8; do
        at=$((at + 2))
        run $name $at --checkpoint "$ck" $([ $at = 2 ] || echo --resume) ||
            { bad "axes: $name goes on" "$WORK/$name.err"; return; }
    done
    parts_weights 'four meshes in turn end with the bits of one rank' axes8.out axes.whole
    check 'axes: and write the same files, of moments too' \
        test "$(files_of "$ck/step-00000008")" = "$(files_of "$ck"1/step-00000008)"
    for name in axes4 axes_context axes_tensor axes8; do
        rm -rf "$ck"2
        run $name 1 --debug-gradients "$WORK/$name.gradients"
        check "axes: $name has the gradients of one rank" \
            gradients_equal "$WORK/axes1.gradients" "$WORK/$name.gradients"
    done
    axes_say "$ck"
    axes_begin "$ck"
    turn 0 2 axes_killed axes axes8 "$ck"2
    turn 1 2 axes_swapped
    turn 2 4 demo_killed "$WORK/demo.ck"
}

# Each begins with what another one wrote: all with the same weights.
axes_begin() { # CHECKPOINTS: of four trainers in turn
    local step name want
    for step in 2 4 6 8; do
        [ "$FULL" = 1 ] || [ $step = $((SEED % 4 * 2 + 2)) ] || continue
        want=$(hash_of axes1 "$1/step-0000000$step")
        check "axes: one rank begins with the weights of step $step" test -n "$want"
        for name in axes4 axes_context axes_tensor axes8; do
            check "axes: $name begins with the same weights" test "$(hash_of $name "$1/step-0000000$step")" = "$want"
        done
    done
}

axes_say() { # CHECKPOINTS
    local name
    : >"$WORK/axes.said"
    for name in axes1 axes4 axes_context axes_tensor; do
        reads "axes: $name evaluates" 0 '"tokens": [1-9]' \
            $name eval --checkpoint "$1" --data "$data" --threads 1 --json
        json_of loss_hex >>"$WORK/axes.said"
        timeout 60 "$WORK/$name/trainer" sample --checkpoint "$1" --prompt '84 104 101 32' --tokens 12 --seed 3 \
            --threads 1 >"$WORK/$name.out" 2>"$WORK/$name.err" || bad "axes: $name samples" "$WORK/$name.err"
        md5sum <"$WORK/$name.out" >>"$WORK/axes.said"
    done
    check 'axes: and say the same of text, and to a prompt' \
        test "$(sort "$WORK/axes.said" | uniq -c | awk '$1 == 4' | wc -l)" = 2
}
part axes parts_of_both_axes
