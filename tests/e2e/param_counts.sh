# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. The shipped descriptions have the published numbers of parameters.

param_counts() {
    local model count got
    while read -r model count; do
        "$FSDPGEN" plan "$ROOT/models/$model.lua" --json >"$WORK/plan.json" 2>"$WORK/plan.err"
        got=$(json_number "$WORK/plan.json" params)
        if [ "$got" = "$count" ]; then
            ok "$model has $count parameters"
        else
            bad "$model has ${got:-no plan, not} $count parameters" "$WORK/plan.err"
        fi
    done <<'TABLE'
gpt2_124m 124439808
qwen2.5_0.5b 494032768
qwen2.5_1.5b 1543714304
qwen3_0.6b 596049920
qwen3_1.7b 1720574976
qwen3_4b 4022468096
qwen3_8b 8190735360
qwen3_14b 14768307200
qwen3_32b 32762123264
granite3.1_2b 2533531648
smollm3_3b 3075098624
olmo2_1b 1484916736
phi4_14b 14659507200
gemma2_2b 2614341888
gemma3_1b 999885952
gemma3_4b 3880263168
llama3.2_1b 1235814400
mistral_7b 7241732096
llama8b 8030261248
llama8b_sft 8030261248
llama8b_128k 8030261248
llama70b 70553706496
llama70b_tp 70553706496
llama405b 405853388800
TABLE
    "$FSDPGEN" plan "$ROOT/models/demo.lua" --json >"$WORK/plan.json" 2>"$WORK/plan.err"
    got=$(json_number "$WORK/plan.json" params)
    if [ "${got:-0}" -ge 2000000 ] && [ "${got:-0}" -le 5000000 ]; then
        ok "demo has 2 to 5 million parameters"
    else
        bad "demo has ${got:-no} parameters, not 2 to 5 million" "$WORK/plan.err"
    fi
}
