# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Choices outside the numerics hash change neither a bit of the results
# nor a byte of the mathematics files: a model's trainer on one rank is compared with
# trainers over ranks, sharding, units, prefetch, reshard, accumulation, recomputation and
# threads; of the last two each trainer draws one.

# name|description|--set for the whole row|steps
equal_bits_models() {
    cat <<TABLE
llama|tests/models/tiny_llama.lua||3
llama_tied|tests/models/tiny_llama.lua|model.tied=true model.kv_heads=1|3
llama_bf16|tests/models/tiny_llama.lua|dtypes.param="bf16" model.qkv_bias=true|3
llama_f64|tests/models/tiny_llama.lua|dtypes.param="f64" model.qk_norm=true|3
llama_unfused|tests/models/tiny_llama.lua|fuse=false|2
llama_leaves|tests/models/tiny_llama.lua|global_batch=64 leaves=8|2
llama_fp8|tests/models/tiny_llama.lua|dtypes={param="bf16",linear="fp8"} seq=16 model.dim=32 model.head_dim=16 model.ffn=48|3
gpt2|tests/models/tiny_gpt2.lua||3
gpt2_bf16|tests/models/tiny_gpt2.lua|dtypes.param="bf16"|3
gpt2_fp8|tests/models/tiny_gpt2.lua|dtypes={param="bf16",linear="fp8"} seq=16 model.dim=32 model.heads=2 model.ffn=48|2
gpt2_untied|tests/models/tiny_gpt2.lua|model.tied=false|2
sgd|tests/models/tiny_gpt2.lua|optimizer=sgd{lr=0.1,momentum=0.9} lr=wsd{warmup=1,steps=3,decay=2}|3
sgd_plain_bf16|tests/models/tiny_llama.lua|optimizer=sgd{lr=0.1} dtypes.param="bf16" lr=linear{steps=3}|3
groups|tests/models/tiny_llama.lua|groups={{match={"model.embed*","model.layers.0.*"},frozen=true},{match="*mlp*",frozen=true},{match="*norm*",lr=0.5,weight_decay=0.1}} dtypes.param="bf16"|3
lion|tests/models/tiny_llama.lua|optimizer=lion{lr=1e-3} lr=inverse_sqrt{warmup=2}|3
TABLE
}

# Every combination that differs in something, one a line: copies, ranks of a copy and the
# other choices.
equal_bits_choices() {
    local mesh strategy wrap prefetch reshard accumulate reshards
    for mesh in "1 1" "1 2" "1 4" "1 8" "2 1" "4 1" "8 1" "2 2" "2 4" "4 2"; do
        for strategy in full_shard shard_grad_op hybrid_shard no_shard shard_optimizer; do
            case "$strategy $mesh" in
            no_shard*) reshards=true ;;
            shard_optimizer*" 1") continue ;;
            shard_optimizer*) reshards=true ;;
            hybrid_shard*" 1" | hybrid_shard" 1 "*) continue ;;
            full_shard" 1 "[48] | hybrid_shard*4) reshards="true false 2" ;;
            full_shard" 1 "* | hybrid_shard*) reshards="true false" ;;
            shard_grad_op" 1 "*) reshards=false ;;
            *) continue ;;
            esac
            for accumulate in sharded unsharded; do
                if [ $strategy = no_shard ]; then
                    echo "$mesh $strategy 1 1 true $accumulate"
                    echo "$mesh $strategy 99 0 false $accumulate"
                    continue
                fi
                if [ $strategy = shard_optimizer ]; then
                    for wrap in 1 2 root_only 'by_size{20000,embed="join"}'; do
                        echo "$mesh $strategy $wrap 1 true $accumulate"
                    done
                    continue
                fi
                for wrap in 1 2 99; do
                    for prefetch in 0 1 2 '{order="post",backward=3}' \
                        '{order="none",forward=2}' '{forward=3,backward=3,in_flight=2}'; do
                        for reshard in $reshards; do
                            echo "$mesh $strategy $wrap $prefetch $reshard $accumulate"
                        done
                    done
                done
                for wrap in root_only 'by_size(6000)' 'by_size{20000,embed="join"}' \
                    'by_name{{"embed","head"},"layers.*.mlp_*"}' \
                    'function(b)return(b.class=="layer"and{mlp_up=true}or(b.name))end'; do
                    for reshard in $reshards; do
                        echo "$mesh $strategy $wrap 1 $reshard $accumulate"
                    done
                done
            done
        done
    done
}

# Models in parts of both axes, some with fewer key and value heads than parts; the meshes that follow share
# these, too.
both_axes_models() {
    cat <<TABLE
both|tests/models/tiny_llama.lua|parts={tensor=2,context=2} model.heads=8 model.kv_heads=4 model.head_dim=6 model.ffn=52 seq=18 documents={end_id=10}|2
both_bf16|tests/models/tiny_llama.lua|parts={dtype="f32",tensor=2,context=4} model.heads=16 model.kv_heads=4 model.head_dim=4 model.ffn=52 seq=20 model.tied=true model.qkv_bias=true dtypes.param="bf16"|2
both_f64|tests/models/tiny_llama.lua|parts={tensor=2,context=2} seq=20 micro_batch=1 model.heads=4 model.kv_heads=2 model.ffn=52 model.qk_norm=true model.window=5 dtypes.param="f64"|2
both_fp8|tests/models/tiny_llama.lua|parts={tensor=2,context=2} seq=32 model.dim=64 model.heads=4 model.head_dim=16 model.ffn=64 dtypes={param="bf16",linear="fp8"}|2
copies|tests/models/tiny_llama.lua|parts={tensor=1,context=8} model.heads=8 model.kv_heads=2 model.head_dim=6 seq=20 documents={end_id=10}|2
both_gpt2|tests/models/tiny_gpt2.lua|parts={tensor=2,context=2} model.heads=4 model.dim=40 seq=18 loss.mask=true|2
both_gpt2_bf16|tests/models/tiny_gpt2.lua|parts={tensor=2,context=4} model.heads=8 model.dim=48 seq=20 dtypes.param="bf16"|2
both_gpt2_f64|tests/models/tiny_gpt2.lua|parts={tensor=4,context=2} model.heads=8 model.dim=48 seq=20 model.tied=false dtypes.param="f64"|2
TABLE
}

# both_axes_choices SETS: on up to 8 ranks, at least two of which share the parts.
both_axes_choices() {
    local copies shards choices t c tensor=${1#*tensor=} context=${1#*context=}
    while read -r copies shards choices; do
        for t in 1 2 4; do
            for c in 1 2 4; do
                [ $t -le "${tensor%%,*}" ] && [ $c -le "${context%%\}*}" ] && [ $((t * c)) -gt 1 ] &&
                    [ $((copies * shards * t * c)) -le 8 ] &&
                    echo "$copies $shards $choices tensor=$t,context=$c"
            done
        done
    done < <(equal_bits_choices)
}

# equal_bits_one NAME MODEL SETS STEPS REFERENCE COPIES SHARDS STRATEGY WRAP PREFETCH
# RESHARD ACCUMULATE [PARTS]
equal_bits_one() {
    local name=$1 model=$2 sets=$3 steps=$4 reference=$5 dir=$WORK/bits threads what set
    local recomputes=(none block 'every(2)' cheap
                      'ops{"linear","swiglu","gelu","attention","layernorm"}' auto) recompute
    local flags=(--set "mesh={replicate=$6,shard=$7${13:+,${13}}}" --set "strategy=$8" --set "wrap=$9"
                 --set "prefetch=${10}" --set "reshard_after_forward=${11}"
                 --set "accumulate=${12}")
    for set in $sets; do flags+=(--set "$set"); done
    random ${#recomputes[@]}
    recompute=${recomputes[$random_value]}
    flags+=(--set "recompute=$recompute")
    [ "$recompute" = auto ] && flags+=(--set 'target=cpu{memory="1GiB"}')
    random 8
    threads=$((random_value + 1))
    what="$name: $6 x $7 ranks${13:+, ${13}}, $8, wrap $9, prefetch ${10}, reshard ${11}, ${12}, \
recompute $recompute, $threads threads"
    rm -rf "$dir" "$dir".*
    if ! generate "$dir" "$ROOT/$model" "${flags[@]}" || ! build_trainer "$dir" ||
       ! train "$dir" "$data" "$steps" --threads "$threads"; then
        bad "$what: does not run" "$dir.log"
    elif ! cmp -s "$reference.result" "$dir.result"; then
        diff "$reference.result" "$dir.result" >"$dir.diff"
        bad "$what: other bits" "$dir.diff"
    elif ! same_mathematics "$reference" "$dir"; then
        bad "$what: other mathematics files"
    else
        ok "$what"
    fi
}

# equal_bits EACH MODELS CHOICES: so many choices of each model, all of them if EACH is 0; without FULL
# of a fifth of the models, as SEED chooses.
equal_bits() {
    local each=$1 name model sets steps reference set line count i flags number=0 data=$data text=$data choices
    while IFS='|' read -r name model sets steps; do
        number=$((number + 1))
        [ "$FULL" = 1 ] || [ $(((number + SEED / 2) % 5)) = 0 ] || continue
        mapfile -t choices < <("$3" "$sets")
        count=${#choices[@]}
        data=$text
        case $sets in *loss.mask*) data=$WORK/masked.txt; masked_text "$data" ;; esac
        reference=$WORK/reference_$name
        flags=()
        for set in $sets; do flags+=(--set "$set"); done
        if ! generate "$reference" "$ROOT/$model" "${flags[@]}" ||
           ! build_trainer "$reference" ||
           ! train "$reference" "$data" "$steps" --threads 2; then
            bad "$name: the reference on one rank does not run" "$reference.log"
            continue
        fi
        cp "$reference.result" "$reference.first"
        train "$reference" "$data" "$steps" --threads 1
        check "$name: two runs of one trainer, 2 threads and 1" cmp "$reference.first" "$reference.result"
        for ((i = 0; i < (each ? each : count); i++)); do
            if [ "$each" -gt 0 ]; then
                random "$count"
                line=${choices[$random_value]}
            else
                line=${choices[$i]}
            fi
            # shellcheck disable=SC2086 # the fields of the line are arguments
            equal_bits_one "$name" "$model" "$sets" "$steps" "$reference" $line
        done
    done < <("$2")
}

# Products whose K libraries split among threads (768 x 768 x 8192 as a weight's gradient,
# and odd ones), on one and two ranks with 1 to 8 threads.
equal_bits_products() {
    local dir=$WORK/products threads ranks first=
    for ranks in 1 2; do
        rm -rf "$dir" "$dir".*
        if ! generate "$dir" "$ROOT/tests/models/wide_llama.lua" --set "mesh.shard=$ranks" ||
           ! build_trainer "$dir"; then
            bad "wide products, $ranks ranks: does not build" "$dir.log"
            continue
        fi
        for threads in ${1:-1 2 3 8}; do
            if ! train "$dir" "$data" 1 --threads "$threads"; then
                bad "wide products, $ranks ranks, $threads threads: does not run" "$dir.log"
                continue
            fi
            [ -n "$first" ] || { first=$WORK/first_products; cp "$dir.result" "$first"; }
            check "wide products, $ranks ranks, $threads threads" cmp "$first" "$dir.result"
        done
    done
}
