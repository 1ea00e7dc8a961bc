# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Frozen parameters cost no gradient, no optimizer state, no reduction and no
# backward below all that trains; they are gathered like the others.

# In tiny_llama the head has 259 x 36 elements: two shards of 5 grains of 1024 each.
frozen() {
    local dir=$WORK/frozen shard=5120 part
    if ! generate "$dir" "$ROOT/tests/models/tiny_llama.lua" --set mesh.shard=2 \
            --set 'groups={{match="model.*",frozen=true}}' ||
       ! build_trainer "$dir" || ! train "$dir" "$data" 2 --stats "$dir.stats"; then
        bad "only the head trains: does not run" "$dir.log"
        return
    fi
    same() { # NAME ACTUAL EXPECTED
        if [ "$2" = "$3" ]; then ok "$1"; else bad "$1: $2, not $3"; fi
    }
    same "only the head trains: two moments of it" "$(json_number "$dir/plan.json" optimizer)" \
        $((2 * 4 * shard))
    # 2 steps of 4 rounds (8 leaves on 2 ranks), each one shard from the other rank
    same "only the head is reduced" "$(json_number "$dir.stats" reduced_bytes)" \
        $((2 * 4 * 4 * shard))
    same "nothing below it has a backward" \
        "$(grep -c '^void [a-z_]*_backward(' "$dir/math.c")" 1
    # embedding, 3 layers, the head, and the last norm, a frozen segment beside it
    same "all are gathered forward, the head stays" \
        "$(grep 'rt_all_gather_start' "$dir/step.c" | grep -vc '_EVALUATE')" 6
    part=$(train "$dir" "$data" 2 --debug-gradients "$dir.gradients" &&
        grep -c '"name"' "$dir.gradients")
    same "one gradient in --debug-gradients" "$part" 1
    same "a head that alone trains stores no logits and makes no gradient for what is below" \
        "$(grep -o 'linear_cross_entropy[a-z_]*' "$dir/kernels.c" | sort -u | head -n 1)" \
        linear_cross_entropy_alone
    if generate "$dir.norms" "$ROOT/tests/models/tiny_llama.lua" \
            --set 'groups={{match="*norm*",frozen=true}}'; then
        same "frozen norms sum no gradient" \
            "$(grep -o 'rmsnorm_bwd[a-z_]*_[0-9]' "$dir.norms/kernels.c" | grep -vc frozen)" 0
    else
        bad "frozen norms" "$dir.norms.log"
    fi
    # a frozen layer between two that train passes the gradient on, and is cheaper
    if generate "$dir.mid" "$ROOT/tests/models/tiny_llama.lua" \
            --set 'groups={{match="model.layers.1.*",frozen=true}}' &&
       grep -q '^void layer_passing[a-z_]*_backward(' "$dir.mid/math.c" &&
       ! sed -n '/^void layer_passing/,/^}/p' "$dir.mid/math.c" | grep -q 'dw->'; then
        ok "a frozen layer passes the gradient on"
    else
        bad "a frozen layer between trained ones" "$dir.mid.log"
    fi
}
