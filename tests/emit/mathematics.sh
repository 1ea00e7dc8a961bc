# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: mathematics files know nothing of the schedule.

math_same() { # math_same NAME MODEL [ARGS...]
    local name=$1 file=$2 dir=$WORK/choice
    shift 2
    rm -rf "$dir"
    "$FSDPGEN" "$file" -o "$dir" --link-runtime ../runtime "$@" >"$WORK/gen.log" 2>&1 ||
        { cat "$WORK/gen.log"; return 1; }
    same_mathematics "$dir" "$WORK/$name"
}
for name in llama gpt2; do
    file=$ROOT/tests/models/tiny_$name.lua
    "$FSDPGEN" "$file" -o "$WORK/$name" >"$WORK/gen.log" 2>&1
    for ranks in 1 2 4 8; do
        for choice in wrap=1 wrap=2 wrap=99 'wrap=by_size(6000)' wrap=root_only \
                      'wrap=by_name{{"embed","head"},"layers.*.mlp_*"}' prefetch=0 prefetch=1 prefetch=2 \
                      reshard_after_forward=false 'accumulate="unsharded"' \
                      'strategy="no_shard"' recompute=block 'recompute=every(2)' recompute=cheap \
                      'recompute=ops{"swiglu","gelu","linear"}' \
                      'recompute=auto target=cpu{memory="1GiB"}' 'wrap=2 prefetch=2 accumulate="unsharded"'; do
            sets=()
            for set in $choice; do sets+=(--set "$set"); done
            check "$name: math of $ranks ranks, $choice" \
                math_same $name "$file" --set mesh.shard=$ranks "${sets[@]}"
        done
    done
done
# A function cannot be written into the emitted description; the units that it made can.
function='wrap=function(b) return b.class == "layer" and { mlp_up = true, qkv = "in" } or b.name end'
same_again() {
    "$FSDPGEN" "$model" -o "$WORK/f" --set mesh.shard=2 --set "$function" 2>"$WORK/err" &&
        "$FSDPGEN" "$WORK/f/description.lua" --path "$ROOT/models" -o "$WORK/f2" 2>"$WORK/err" &&
        diff -r -x manifest.json "$WORK/f" "$WORK/f2"
}
check "a wrap by a function is written down as the units that it made" same_again
check "the schedule does differ" sh -c \
    "'$FSDPGEN' '$model' -o '$WORK/w2' --set wrap=2 && [ -s '$WORK/b/step.c' ] &&
     ! cmp -s '$WORK/w2/step.c' '$WORK/b/step.c'"
