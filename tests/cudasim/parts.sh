# SPDX-License-Identifier: Apache-2.0
# parts.sh, read by run.sh: steps that are computed in parts. Near the CPU's, and the same bits however
# many ranks share the parts, also where others shard or copy, by NCCL and by the loopback, replayed as
# graphs or call by call, also what an evaluation gives and a sample. The gradients are the CPU's, of all
# kinds of meets. Faults must be told. FULL=1: all rows and faults, else a sample by SEED, which chooses the
# setting, too.

# The axis of the parts: tensor, context and both in turn. of_parts: 4 parts; four, two: the ranks that share
# them, in two rows; few: as few key and value heads as there may be. On two ranks along one of both axes, each
# has two parts that meet side by side, or two times two.
heads=4
# Its digits choose; turn() looks at others, so all combinations occur.
setting=$((SEED * 48271 % 2147483647 / 256))
case $((setting % 3)) in
0) of_parts=parts.tensor=4 few=4 four=mesh.tensor=4 two=mesh.tensor=2 ;;
1) of_parts=parts.context=4 few=1 four=mesh.context=4 two=mesh.context=2 ;;
2) four="mesh.tensor=2 mesh.context=2"
   two=$([ $((setting / 3 % 2)) = 0 ] && echo mesh.tensor=2 || echo mesh.context=2)
   case $((setting / 6 % 2))$two in
   0*) of_parts="parts={tensor=2,context=2}" few=2 ;;
   1mesh.tensor*) of_parts="parts={tensor=4,context=2}" few=4 heads=8 ;;
   1*) of_parts="parts={tensor=2,context=4}" few=2 heads=8 ;;
   esac ;;
esac
in_parts=(--set "$of_parts" --set model.vocab=259 --set model.heads=$heads --set seq=8)
# In f32, or in bf16 with summands in f32 or bf16, which bytes on the way and kernels' loads are of.
summands=() tolerance=1e-4
[ $((setting / 12 % 2)) = 0 ] || { summands=(--set 'dtypes={param="bf16"}') tolerance=2e-2; }
[ $((setting / 24 % 2)) = 0 ] || summands+=(--set 'parts.dtype="param"')
parts=("${in_parts[@]}" --set model.kv_heads=$((setting / 48 % 2 ? few : heads)) --set model.ffn=$((48 + heads)))

# Each time with one thing more, by SEED: documents and a tied table, targets that a mask takes out, a frozen layer,
# ranks that keep whole weights and shard the optimizer's state.
shared_parts() {
    local more parts=("${parts[@]}") plain=("${parts[@]}") data=$data
    for more in 0 1 2 3; do
        [ "$FULL" = 1 ] || [ $((SEED / 5 % 4)) = $more ] || continue
        parts=("${plain[@]}")
        case $more in
        0) parts+=(--set documents.end_id=10 --set model.tied=true) ;;
        1) parts+=(--set loss.mask=true) data=$WORK/masked.txt; masked_text "$data" ;;
        2) parts+=(--set 'groups={{match="model.layers.1.*",frozen=true}}') data=$ROOT/LICENSE ;;
        esac
        shared_parts_with $more
    done
    if [ "$FULL" = 1 ] || [ $((SEED / 3 % 6)) = 3 ]; then
        parts_gradients llama tiny_llama "${plain[@]}" --set model.qk_norm_all=true --set model.qkv_bias=true
    fi
    if [ "$FULL" = 1 ] || [ $((SEED / 3 % 6)) = 4 ]; then
        parts_gradients gpt2 tiny_gpt2 "${in_parts[@]}" --set model.dim=48
    fi
}

shared_parts_with() { # MORE: 0 to 3
    local number=0 sets set flags wanted=$((SEED / 3 % 6))
    [ $1 != 3 ] || wanted=3
    CUDASIM_UNCHECKED=1 reference parts tiny_llama $tolerance "${parts[@]}" "${summands[@]}" || return
    while read -r sets; do
        flags=()
        for set in $sets; do flags+=(--set "$set"); done
        if [ "$FULL" = 1 ] || [ $number = $wanted ]; then
            row parts tiny_llama $((FULL)) "${parts[@]}" "${summands[@]}" "${flags[@]}"
        fi
        number=$((number + 1))
    done <<TABLE
$four
$two mesh.replicate=2 accumulate=unsharded wrap=root_only
$two mesh.shard=2 recompute=block prefetch=2
$two mesh.shard=2 strategy=shard_optimizer
TABLE
    parts_shared $1
}

# Two ranks share the parts, every access checked.
parts_shared() { # MORE: with FULL, faults are planted once
    local dir=$WORK/parts one=$WORK/reference_parts held=$WORK/parts_held.txt what which
    if ! trainer "$dir" tiny_llama cuda "${parts[@]}" "${summands[@]}" --set $two || ! build_cuda "$dir" ||
       ! run_cuda "$dir" FLAGS="--stats $dir.stats"; then
        bad "parts: two ranks share them: does not run" "$dir.log"
        return
    fi
    same_bits "parts: two ranks share them" "$dir" parts
    check "parts: a rank receives the planned bytes, in replayed steps too" \
        test $((STEPS * $(json_number "$dir/plan.json" met))) = "$(json_number "$dir.stats" met_bytes)"
    check "parts: the arena mapped is the arena planned" \
        test "$(json_number "$dir.stats" arena_bytes)" = "$(json_number "$dir/plan.json" arena)"
    check "parts: call by call: runs" run_cuda "$dir" FLAGS=--no-graphs
    same_bits "parts: call by call" "$dir" parts
    head -c 320 "$data" >"$held"
    [ ! -e "$data.mask" ] || head -c 40 "$data.mask" >"$held.mask"
    for which in "$one" "$dir"; do
        timeout 1800 "$which/trainer" --data "$data" --steps $STEPS --quiet --threads 1 --log "$which.eval.jsonl" \
            --checkpoint "$which.ck" --eval "$held" --eval-every 1 --debug-gradients "$which.g" >"$which.out" 2>>"$which.log"
        timeout 1800 "$which/trainer" sample --prompt "5 6 7" --checkpoint "$one.ck" --tokens 8 --threads 1 \
            >"$which.ids" 2>>"$which.log"
        grep -o '"eval_loss_hex": "[^"]*"' "$which.eval.jsonl" >"$which.hex"
    done
    check "parts: evaluations have equal bits" bash -c "[ -s '$one.hex' ] && cmp '$one.hex' '$dir.hex'"
    check "parts: samples are equal" bash -c "[ -s '$one.ids' ] && cmp '$one.ids' '$dir.ids'"
    check "parts: two ranks have the gradients of one" gradients_equal "$one.g" "$dir.g"
    for what in model optimizer/moment1 optimizer/moment2; do
        check "parts: checkpoints have equal bytes: $what" \
            cmp {"$one","$dir"}".ck/step-0000000$STEPS/$what.safetensors"
    done
    [ "$FULL" = 1 ] && [ $1 != 0 ] || parts_faults "$dir"
}

# A sum to columns, whose summands in f32 are packed before they are sent, and added to bf16.
packed_sums() {
    local n dir=$WORK/row turned=../e2e/outside/turned
    local small=(--set seq=8 --set micro_batch=2 --set parts.tensor=4)
    local sets=(--set 'dtypes.param="bf16"' --set 'parts.dtype="f32"')
    CUDASIM_UNCHECKED=1 reference packed $turned 2e-2 "${sets[@]}" || return
    check "packed sums: a kernel adds packed f32 to bf16" \
        grep -q '_f32_packed(const meet_.*, rt_bf16 \*y' "$WORK/reference_packed/kernels.cu"
    for n in 4 2; do
        row packed $turned 1 "${sets[@]}" --set mesh.tensor=$n
        check "packed sums: $n ranks run" run_cuda "$dir" FLAGS="--stats $dir.stats"
        check "packed sums: each of $n ranks receives the planned bytes" \
            test $((STEPS * $(json_number "$dir/plan.json" met))) = "$(json_number "$dir.stats" met_bytes)"
    done
}

# Products in fp8 of parts along both axes: their scales are the largest of all parts', and operands in fp8
# travel, rows and columns.
fp8_parts() {
    local dir=$WORK/row sets=(--set 'dtypes={param="bf16",linear="fp8"}' --set model.layers=2)
    sets+=(--set "parts={tensor=2,context=2}" --set seq=64 --set model.dim=64 --set model.heads=4)
    sets+=(--set model.head_dim=16 --set model.ffn=64)
    CUDASIM_UNCHECKED=1 reference fp8_parts tiny_llama 2e-2 "${sets[@]}" || return
    [ "$FULL" = 0 ] || row fp8_parts tiny_llama 1 "${sets[@]}" --set mesh.context=2 --set mesh.shard=2
    row fp8_parts tiny_llama 0 "${sets[@]}" --set mesh.tensor=2 --set mesh.context=2
    REFERENCE=fp8_parts
    if plant "$dir" kernels.cu 's/sum\[k\] = sum\[k\] > other\[k\]/sum[k] = sum[k] < other[k]/'; then
        other "fp8 in parts: the scale of the smallest part" "$dir"
    else
        bad "fp8 in parts: no scales that meet" "$dir.log"
    fi
    REFERENCE=llama
}

# held_order DIR: what its first process starts, in order, is $order: kernels' (s) and gathers' (a) first letters
held_order() {
    local process
    rm -f "$WORK/order"
    STEPS=1 run_cuda "$1" CUDASIM_ORDER="$WORK/order" || { bad "held starts: $1 does not run" "$1.log"; return 1; }
    process=$(head -n 1 "$WORK/order" | cut -d ' ' -f 1)
    order=$(sed -n "s/^$process \(.\).*/\1/p" "$WORK/order" | head -n 13 | tr -d '\n')
}

# Two ranks along tensor and two that shard: gathers go behind the first meet of the next span, and the
# step waits for those that no meet has let go.
held_starts() {
    local dir=$WORK/held order what
    if ! trainer "$dir" tiny_llama cuda --set parts.tensor=4 --set model.heads=4 --set model.kv_heads=4 --set model.ffn=52 --set seq=8 \
           --set mesh.tensor=2 --set mesh.shard=2 || ! build_cuda "$dir"; then
        bad "held starts: a trainer" "$dir.log"
        return
    fi
    held_order "$dir" || return
    check "embed and layer 0 arrive, layer 1 behind the first meet of layer 0: $order" [ "$order" = aaassaassssaa ]
    what="a gather that is held, and not begun where it is waited for"
    parts_faulty "$dir" "$what" cuda/rt_comm.c 's/if (is_held(stream, subject))/if (false)/' &&
        fault "$what" "no event makes it wait" "$dir"
    what="a gather before the meet that it delays"
    parts_faulty "$dir" "$what" cuda/rt_comm.c 's/held.on = true/held.on = false/' && held_order "$dir" &&
        check "$what comes earlier: $order" [ "$order" != aaassaassssaa ]
    what="starts that no meet lets go"
    parts_faulty "$dir" "$what" cuda/rt_parts.c 's/rt_held_begin(rt);//' && held_order "$dir" &&
        check "$what come later: $order" [ "$order" != aaassaassssaa ]
}

parts_faults() { # DIR
    local dir=$1 REFERENCE=parts what
    what="a part that is read before it arrives"
    parts_fault_turn 0 &&
        parts_faulty "$dir" "$what" cuda/rt_parts.c 's/rt_detour_end(rt);//' &&
        fault "$what" "no event makes it wait" "$dir"
    what="a piece from where the sender's own begins"
    parts_fault_turn 1 &&
        parts_faulty "$dir" "$what" cuda/rt_parts.c 's/\.send = from + peer \* piece/.send = from + along->first \/ along->here * piece/' &&
        other "$what" "$dir"
    what="a meet that one rank does not come to"
    parts_fault_turn 1 &&
        parts_faulty "$dir" "$what" cuda/rt_parts.c '/^    if (joins)$/s/joins/joins \&\& (parts->rt->rank != 1 || ++meets != 9)/; s/^void rt_meet_on_device(/static int meets;\n&/' &&
        fault "$what" 'which sends others|has stood still' "$dir" FLAGS="--deadline 5"
    what="a part that meets what another lane received"
    [[ $of_parts = *{* ]] &&
        parts_faulty "$dir" "$what" cuda/rt_parts.c 's/(lane \/ along->lane_step \* (along->all - along->here) + place)/place/' &&
        other "$what" "$dir"
    what="a kernel that reads another lane's own parts"
    [[ $of_parts = *{* ]] && parts_fault_turn 0 &&
        parts_faulty "$dir" "$what" cuda/rt_parts.c 's/p->from\[lane + (q - along->first) \* /p->from[(q - along->first) * /' &&
        other "$what" "$dir"
    what="a kernel that writes another lane's results"
    [[ $of_parts = *{* ]] && parts_fault_turn 1 &&
        parts_faulty "$dir" "$what" cuda/rt_parts.c 's/&parts->to\[lane + /\&parts->to[/' &&
        wrong "$what" "$dir"
    what="a piece that was packed for another part"
    [[ $two = *context* ]] && parts_fault_turn 2 &&
        parts_faulty "$dir" "$what" cuda/rt_parts.c 's/q - along->first) + part \* piece/q - along->first) + part % along->here * piece/' &&
        other "$what" "$dir"
    what="targets and losses that both ranks count"
    parts_fault_turn 2 &&
        parts_faulty "$dir" "$what" rt_private.h 's/& ~rt->trainer->data) == 0/\& 0) == 0/' &&
        other "$what" "$dir"
}

parts_fault_turn() { # N: is it this run's turn? all with FULL
    [ "$FULL" = 1 ] || [ $((SEED / 3 % 3)) = "$1" ]
}

# parts_faulty DIR WHAT FILE SED: the trainer again, with a fault in a file of runtime/
parts_faulty() {
    local runtime=$WORK/runtime_parts
    rm -rf "$runtime"
    cp -R "$ROOT/runtime" "$runtime"
    sed -i "$4" "$runtime/$3"
    ! cmp -s "$runtime/$3" "$ROOT/runtime/$3" &&
        build_trainer "$1" CUDA_HOME="$home" RUNTIME="$runtime" && return
    bad "parts: $2: not planted" "$1.log"
    return 1
}

# parts_gradients NAME MODEL FLAGS...: in f64
parts_gradients() {
    local name=$1 model=$2 dir=$WORK/parts_$1 target
    shift 2
    for target in cpu cuda; do
        if ! trainer "$dir.$target" "$model" $target "$@" --set 'dtypes={param="f64"}' ||
           ! CUDASIM_UNCHECKED=1 build_trainer "$dir.$target" CUDA_HOME="$home" GEMM=builtin ||
           ! STEPS=1 run_cuda "$dir.$target" FLAGS="--debug-gradients $dir.$target.g"; then
            bad "parts: gradients of $name: $target does not run" "$dir.$target.log"
            return
        fi
    done
    check "parts: $name has the CPU's gradients" gradients_equal "$dir.cpu.g" "$dir.cuda.g"
}
