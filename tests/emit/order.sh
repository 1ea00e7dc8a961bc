# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: step.c calls what the schedule has, in its order: what is proved of a schedule is so
# of the trainer.

# of the last micro-step: one line a span, gather, reduction, kept gradient and merge
order_planned() {
    awk '/^[a-z]+:$/ { on = $0 == "last:" }
        on && /^ +[0-9]+ [a-z]+ +[a-z_]+ / && !/waits/ {
            what = $3 == "span" || $3 == "merge" || $3 == "keep" ? $3 : $2
            name = what == "span" ? $4 : $6
            print what, toupper(what == "keep" ? $8 : name)
        }' "$1" | sed 's/\.\./_TO_/; s/\./_/g'
}
order_emitted() {
    local name parts=()
    for name in forward backward; do
        grep -q "^static void ${name}_last(" "$1" && name=${name}_last
        parts+=("$name")
    done
    for name in "${parts[@]}"; do awk "/^static void $name\\(.*[^;]\$/, /^}/" "$1"; done | awk '
        function segment() { sub(/^.*\(rt, SEG_/, ""); sub(/[^A-Z_0-9].*/, ""); return $0 }
        /^    rt_at\(rt, AT_/ { at = $0; sub(/^.*AT_/, "", at); sub(/_(FORWARD|BACKWARD|RECOMPUTE).*/, "", at) }
        /^    rt_(kept|all)_gather_start/ { print "gather", segment() }
        /^    rt_[a-z_]*reduce[a-z_]*_start/ { print "reduce", segment() }
        /^    rt_keep/ { print "keep", segment() }
        /^    rt_merge_segment/ { print "merge", segment() }
        /^    [a-z_0-9]+_at\(/ && !/rt_at/ { print "span", at }'
}
ordered() { # ARGS...
    rm -rf "$WORK/ordered"
    "$FSDPGEN" "$model" "$@" --dump=schedule >"$WORK/schedule" 2>"$WORK/err" &&
        "$FSDPGEN" "$model" "$@" -o "$WORK/ordered" >"$WORK/err" 2>&1 || { bad "order: $*" "$WORK/err"; return; }
    order_planned "$WORK/schedule" >"$WORK/planned"
    order_emitted "$WORK/ordered/step.c" >"$WORK/emitted"
    check "order: $*" diff "$WORK/planned" "$WORK/emitted"
}
ordered --set mesh.shard=4 --set global_batch=8
ordered --set mesh.shard=2 --set global_batch=32 --set prefetch.order=post
ordered --set mesh.shard=4 --set global_batch=32 --set wrap=2 --set recompute=block
ordered --set mesh.shard=2 --set mesh.replicate=2 --set global_batch=32 --set accumulate=unsharded
ordered --set mesh.shard=4 --set global_batch=16 --set reshard_after_forward=2 --set prefetch=2
ordered --set mesh.shard=2 --set mesh.tensor=2 --set parts.tensor=2 --set model.heads=4 --set model.kv_heads=2 --set global_batch=16 --target cuda
