#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checkpoints: whatever wrote one, whoever goes on from it ends with the bits of a run that was
# never stopped; files do not know who wrote them; they are models; nothing that goes wrong
# costs one that was told of. faults.sh: failing calls, kills, crashes, damage.
set -u
. "$(dirname "$0")/../lib.sh"
quick_builds=1
. "$ROOT/tests/e2e/common.sh"

data=$ROOT/LICENSE
llama=$ROOT/tests/models/tiny_llama.lua
gpt2=$ROOT/tests/models/tiny_gpt2.lua
flags="-O1 -march=$ISA_ARCH" # as matrix and fuzz have it: objects are shared

# make_trainer NAME MODEL [SET...]: $WORK/NAME/trainer
make_trainer() {
    local name=$1 dir=$WORK/$1 model=$2
    shift 2
    generate "$dir" "$model" "${@/#/--set=}" &&
        build_trainer "$dir" -j2 GEMM=builtin CFLAGS="$flags" || {
        bad "$name is built" "$dir.log"
        return 1
    }
}

# run NAME STEPS [FLAGS...]: losses, norms and the weights' hash in $WORK/NAME.result
run() {
    local dir=$WORK/$1 steps=$2
    shift 2
    timeout 120 "$dir/trainer" --data "$data" --steps "$steps" --threads 1 \
        --log "$dir.jsonl" --weights-hash --verbose "$@" >"$dir.out" 2>"$dir.err" || return $?
    {
        grep -o '"step": *[0-9]*\|"loss_hex": *"[^"]*"\|"grad_norm_hex": *"[^"]*"\|"loss_scale": *[0-9.e+]*\|"skipped": *[0-9]*' "$dir.jsonl"
        grep '^weights ' "$dir.out"
    } >"$dir.result"
}

files_of() { # FOLDER: names and contents; two that are missing differ
    (cd "$1" && find . -type f | sort | xargs md5sum) || echo "no folder $1"
}

# ---- round trips ------------------------------------------------------------------------------

# round_trip NAME WRITER READER TOTAL: WRITER stops after a step in the middle, READER goes on,
# and what it ends with is what READER alone, never stopped, ends with ($WORK/NAME.whole).
round_trip() {
    local name=$1 writer=$2 reader=$3 total=$4 at=$5
    local ck=$WORK/$name.ck
    rm -rf "$ck" "$WORK/$reader.jsonl"
    if ! run "$writer" "$at" --checkpoint "$ck"; then
        bad "$name: $writer writes step $at" "$WORK/$writer.err"
    elif ! cp "$WORK/$writer.jsonl" "$WORK/$reader.log.part" ||
        ! { [ "$writer" = "$reader" ] || cp "$WORK/$writer.jsonl" "$WORK/$reader.jsonl"; } ||
        ! run "$reader" "$total" --checkpoint "$ck" --resume; then
        bad "$name: $reader goes on from $writer's step $at" "$WORK/$reader.err"
    elif ! grep -q "^resumed from $ck/step-0*$at: step $at of $total" "$WORK/$reader.out"; then
        bad "$name: $reader says where it goes on" "$WORK/$reader.out"
    elif ! cmp -s "$WORK/$reader.result" "$WORK/$name.whole"; then
        diff "$WORK/$reader.result" "$WORK/$name.whole" >"$WORK/diff"
        bad "$name: $writer, then $reader from step $at: the bits of a whole run" "$WORK/diff"
    else
        ok "$name: $writer, then $reader from step $at"
    fi
}

# family NAME MODEL TOTAL MESHES SET...: trainers of one numerics hash over several meshes.
family() {
    local name=$1 model=$2 total=$3 meshes=$4 mesh i=0 list=() w r
    shift 4
    for mesh in $meshes; do
        local sets=()
        IFS=+ read -ra sets <<<"$mesh"
        make_trainer "$name$i" "$model" "${sets[@]}" "$@" || return
        list+=("$name$i")
        i=$((i + 1))
    done
    run "${list[0]}" "$total" || { bad "$name trains" "$WORK/${list[0]}.err"; return; }
    cp "$WORK/${list[0]}.result" "$WORK/$name.whole"
    for ((w = 0; w < i; w++)); do
        for ((r = 0; r < i; r++)); do
            # in the CI tier each writes once and reads once
            [ "$FULL" = 1 ] || [ $(((w + 1) % i)) = $r ] || continue
            round_trip "$name" "${list[w]}" "${list[r]}" "$total" $((1 + (w + r) % (total - 1)))
        done
    done
    # the files know nothing of who wrote them
    local first=
    for w in "${list[@]}"; do
        rm -rf "$WORK/$w.ck"
        run "$w" 2 --checkpoint "$WORK/$w.ck" || bad "$w: writes" "$WORK/$w.err"
        files_of "$WORK/$w.ck" >"$WORK/$w.files"
        [ -n "$first" ] || first=$w
        check "$name: $w writes the bytes of $first" cmp "$WORK/$w.files" "$WORK/$first.files"
    done
}

one=mesh.shard=1
two=mesh.shard=2
four=mesh.shard=4
eight=mesh.shard=8
hybrid=mesh.replicate=2+mesh.shard=2+strategy=hybrid_shard
copies=mesh.shard=2+strategy=no_shard
wide=mesh.shard=4+strategy=shard_grad_op+wrap=root_only+accumulate=unsharded
state=mesh.shard=4+strategy=shard_optimizer

families() {
    family llama "$llama" 5 "$one $two $four $hybrid"
    family split "$llama" 4 "$state $copies" dtypes.param=bf16 dtypes.master=split \
        dtypes.moments=bf16
    family half "$gpt2" 4 "$one $wide" dtypes.param=f16 'loss_scale={init=2^18,growth_interval=2}' \
        'optimizer=lion{lr=1e-3}' 'checkpoint.file_size="64KiB"'
    [ "$FULL" = 1 ] || return
    family whole "$gpt2" 4 "$one $four $state $wide" 'optimizer=muon{lr=1e-2}' dtypes.param=bf16 \
        dtypes.moments=bf16
    family bf16 "$gpt2" 5 "$one $two $four $eight $hybrid $copies $state $wide" dtypes.param=bf16
    family noisy "$llama" 5 "$one $four $wide" dtypes.param=bf16 dtypes.master=bf16
    family sgd "$gpt2" 5 "$one $four" 'optimizer=sgd{lr=1e-2}'
    family exact "$llama" 5 "$two $hybrid" dtypes.param=f64
    family tied "$llama" 5 "$one $four" model.tied=true dtypes.param=bf16
    family frozen "$gpt2" 5 "$one $four $state" 'groups={{match="*.h.0.*",frozen=true}}'
}
part families families

# ---- files as others read them ----------------------------------------------------------------

strict() { # FOLDER
    "$BUILD/tests/checkpoint/checkpoint_strict" $(find "$1" -name '*.safetensors' | sort)
}

readers() {
    local ck=$WORK/llama0.ck/step-00000002 sharded=$WORK/half0.ck/step-00000002
    check "a strict reader takes the files" strict "$ck"
    strict "$ck" >"$WORK/strict.out"
    check "fused tensors have Hugging Face's names" grep -q \
        '^model.layers.1.self_attn.k_proj.weight F32 \[42, 36\]' "$WORK/strict.out"
    check "and not ours" test -z "$(grep qkv_proj "$WORK/strict.out")"
    check "several files have an index" grep -q '"transformer.wpe.weight": "model-0000' \
        "$sharded/model.safetensors.index.json"
    check "a strict reader takes several files" strict "$sharded"
    strict "$sharded" >"$WORK/strict.out"
    local tensors named
    tensors=$(grep -c . <<<"$("$BUILD/tests/checkpoint/checkpoint_strict" "$sharded"/*.safetensors)")
    named=$(grep -c 'safetensors"' "$sharded/model.safetensors.index.json")
    check "the index names every tensor ($tensors)" test "$tensors" = "$named"
    check "no file of weights is larger than asked" test -z \
        "$(find "$sharded" -maxdepth 1 -name 'model-*.safetensors' -size +72k)"
    local python=${PYTHON:-python3}
    if "$python" -c 'import safetensors, numpy' 2>/dev/null; then
        check "Hugging Face's own reader takes them" "$python" -c 'import sys, safetensors
for f in sys.argv[1:]:
    with safetensors.safe_open(f, framework="np") as s:
        assert s.metadata() == {"format": "pt"}, f
        assert all(s.get_tensor(k).size > 0 for k in s.keys()), f' \
            $(find "$ck" -name '*.safetensors')
    else
        echo "skipped: the safetensors package is not installed (pip install safetensors numpy)"
    fi
    # config.json is one that fsdpgen itself imports as the same model
    "$FSDPGEN" import "$ck" >"$WORK/imported.lua" 2>"$WORK/imported.err"
    check "config.json imports without a word" test -s "$WORK/imported.lua" -a ! -s "$WORK/imported.err"
    check "and is the model" grep -q 'layers = 3, dim = 36, heads = 3, head_dim = 14, ffn = 50' \
        "$WORK/imported.lua"
}
part readers:families readers

# ---- weights that others made ---------------------------------------------------------------------

# edit FILE FROM TO: a text of the header becomes another one; its length stays
edit() {
    local n head
    n=$(od -An -tu8 -N 8 "$1" | tr -d ' ')
    head=$(tail -c +9 "$1" | head -c "$n")
    printf "%-${n}s" "${head//"$2"/$3}" | dd of="$1" bs=1 seek=8 conv=notrunc status=none
}

hash_of() { # TRAINER FOLDER: of the weights it begins with
    timeout 60 "$WORK/$1/trainer" --data "$data" --steps 0 --threads 1 --weights-hash --init \
        "$2" 2>"$WORK/init.err" | grep '^weights '
}

imports() {
    local ck=$WORK/llama0.ck/step-00000002 in=$WORK/in want x
    want=$(grep '^weights ' "$WORK/llama3.out") # of two steps
    for x in llama0 llama2 llama3 split0 split1; do
        check "$x begins with the weights of $ck" test "$(hash_of $x "$ck")" = "$want"
    done
    x=$(hash_of half0 "$WORK/half0.ck/step-00000002")
    check "several files, f16" test -n "$x" -a "$x" = "$(hash_of half1 "$WORK/half1.ck/step-00000002")"
    rm -rf "$in" && mkdir "$in" && cp "$ck/model.safetensors" "$in/"
    edit "$in/model.safetensors" '"model.' '"'
    check 'a base model has no first word' test "$(hash_of llama1 "$in")" = "$want"
    # wrong FROM TO WORDS: what is wrong with a header is told
    wrong() {
        cp "$ck/model.safetensors" "$in/"
        edit "$in/model.safetensors" "$1" "$2"
        check "--init says: $3" test -z "$(hash_of llama1 "$in")"
        check "--init says: $3 (words)" grep -q "$3" "$WORK/init.err"
    }
    wrong 'layers.1.mlp.up_proj' 'layers.1.mlp.up_prox' \
        'tensor model.layers.1.mlp.up_proj.weight is missing'
    wrong '"shape":[42,36]' '"shape":[36,42]' \
        'q_proj.weight is \[36, 42\], the model.s is \[42, 36\]'
    wrong '"F32","shape":[259,36]' '"I32","shape":[259,36]' 'has a dtype that weights cannot have'
    wrong '"F32","shape":[259,36]' '"F64","shape":[259,36]' 'an entry is not a tensor'
    wrong '"data_offsets":[0,' '"data_offsets":[4,' 'an entry is not a tensor'
    wrong '{"__metadata__"' '["__metadata__"' 'its header is not a JSON object'
    truncate -s 50000 "$in/model.safetensors"
    check 'a file cut short' test -z "$(hash_of llama1 "$in")"
    rm "$in/model.safetensors"
    check 'an empty folder' test -z "$(hash_of llama1 "$in")"
    check 'says what is looked for' grep -q 'has neither model.safetensors nor' "$WORK/init.err"
    printf '{"weight_map": {"a": "../model.safetensors"}}' >"$in/model.safetensors.index.json"
    check 'an index that leads elsewhere' test -z "$(hash_of llama1 "$in")"
    check 'is refused' grep -q 'is not a name of a file beside it' "$WORK/init.err"
    cp "$WORK/half0.ck/step-00000002"/model* "$in/"
    check 'a model with other tensors' test -z "$(hash_of llama1 "$in")"
}
part imports:families imports

# ---- what is refused, and how it is said --------------------------------------------------------

# says NAME CODE PATTERN TRAINER STEPS FLAGS...
says() {
    local name=$1 code=$2 pattern=$3 trainer=$4
    shift 4
    run "$trainer" "$@"
    local got=$?
    if [ $got != "$code" ]; then
        bad "$name: code $got, not $code" "$WORK/$trainer.err"
    elif ! cat "$WORK/$trainer.out" "$WORK/$trainer.err" | grep -qE "$pattern"; then
        bad "$name: no line like '$pattern'" "$WORK/$trainer.err"
    else
        ok "$name"
    fi
}

# Lines of others stay where they are in a log that is resumed; the log of another run is not one.
logs() {
    local ck=$WORK/refuse.ck log=$WORK/llama1.jsonl
    rm -rf "$ck" "$log"
    run llama1 3 --checkpoint "$ck" --checkpoint-every 1
    sed -i -e '2a #another disk' -e '3a {"event": 1}' "$log"
    rm -r "$ck/step-00000003"
    run llama1 5 --checkpoint "$ck" --resume
    check 'a resumed log keeps what is not of a step' test "$(cut -c 1-6 "$log" | tr '\n' ' ')" = \
        '{"run" {"step #anoth {"step {"even {"run" {"step {"step {"step '
    check 'and has each step once' test "$(sed -n 's/^{"step": \([0-9]*\),.*/\1/p' "$log" | tr '\n' ' ')" = '1 2 3 4 5 '
    run llama1 6 --seed 7 && cp "$log" "$WORK/other.jsonl"
    reads 'a log of another seed, in a dry run' 1 'output +PROBLEM .*: the log of another run: its seed is 7' \
        llama1 --dry-run --data "$data" --threads 1 --checkpoint "$ck" --resume --steps 6 --log "$log"
    check 'whose other outputs are not said to be well' test "$(grep -c '^  output ' "$WORK/reads.out")" = 1
    says 'a log of another seed' 1 'the log of another run: its seed is 7, that of .*5 1; name another file' \
        llama1 6 --checkpoint "$ck" --resume
    check 'stays' cmp "$log" "$WORK/other.jsonl"
    sed -i '1s/"numerics": "[0-9a-f]*/"numerics": "0000000000000000/; 1s/"seed": 7/"seed": 1/' "$log"
    says 'a log of other numerics' 1 'the log of another run: its numerics hash is 0000000000000000, that of' \
        llama1 6 --checkpoint "$ck" --resume
    says 'which --force replaces' 0 'resumed from' llama1 6 --checkpoint "$ck" --resume --force
    check 'as a whole' test "$(cut -c 1-6 "$log" | tr '\n' ' ')" = '{"run" {"step '
}

refusals() {
    local ck=$WORK/refuse.ck x
    says 'resume in an empty folder starts at step 0' 0 "no checkpoint in $ck yet" \
        llama1 4 --checkpoint "$ck" --checkpoint-every 1 --resume --keep 2 --keep-every 3
    check "kept: the newest two, and every third" test "$(ls "$ck" | tr '\n' ' ')" = \
        "step-00000003 step-00000004 "
    run llama1 6 --checkpoint "$ck" --checkpoint-every 1 --resume --keep 1 --keep-every 3
    check "kept: the newest, and every third" test "$(ls "$ck" | tr '\n' ' ')" = \
        "step-00000003 step-00000006 "
    x=$(grep '^weights' "$WORK/llama1.out")
    says 'a finished run prints its hash' 0 "$x" llama2 6 --checkpoint "$ck" --resume
    says 'checkpoints are not written over' 1 'the newest of step 6: --resume continues from it' \
        llama1 6 --checkpoint "$ck"
    says 'another seed' 1 'was trained with seed 1: leave it out' \
        llama1 7 --checkpoint "$ck" --resume --seed 2
    says 'other mathematics' 1 'is of other mathematics' split0 7 --checkpoint "$ck" --resume
    check 'what differs is named' grep -q 'checkpoint: *dtypes.param = "f32"' "$WORK/split0.err"
    check 'on both sides' grep -q 'this trainer: *dtypes.param = "bf16"' "$WORK/split0.err"
    says '--resume alone' 2 'resume needs --checkpoint DIR' llama1 6 --resume
    says '--keep-every alone' 2 'needs --keep K' llama1 6 --checkpoint "$ck" --keep-every 2
    # the same folder twice: the second run waits for a moment, then leaves
    locked "$ck"
    says 'a folder in use' 1 'another run writes its checkpoints there: process [0-9]* of this machine' \
        llama1 7 --checkpoint "$ck" --resume
    kill $!
    # another platform: told, recorded, and the run goes on
    build_trainer "$WORK/llama1" GEMM=builtin CFLAGS="$flags -DANOTHER_PLATFORM" ||
        bad "another build" "$WORK/llama1.log"
    says 'another platform is announced' 0 'steps up to 6 were computed on another platform' \
        llama1 7 --checkpoint "$ck" --resume
    check 'and recorded' grep -q '"platforms": \[{"from_step": 0, .*{"from_step": 6,' \
        "$ck/step-00000007/train_state.json"
    build_trainer "$WORK/llama1" GEMM=builtin CFLAGS="$flags"
    # the log of a run that is resumed loses the steps that are computed again
    rm -rf "$ck"
    run llama1 3 --checkpoint "$ck"
    run llama1 5
    printf '{"step": 6, "lo' >>"$WORK/llama1.jsonl"
    run llama1 5 --checkpoint "$ck" --resume
    check 'the log goes on where the checkpoint is' cmp "$WORK/llama1.result" "$WORK/llama.whole"
}
part refusals:families refusals
part logs:families logs
. "$(dirname "$0")/accept.sh"
. "$(dirname "$0")/faults.sh"
. "$(dirname "$0")/odd.sh"
. "$(dirname "$0")/apart.sh"
. "$(dirname "$0")/config.sh"
. "$(dirname "$0")/ends.sh"
. "$(dirname "$0")/verify.sh"
. "$(dirname "$0")/samples.sh"
. "$(dirname "$0")/data.sh"
. "$(dirname "$0")/keys.sh"
. "$(dirname "$0")/onward.sh"
. "$(dirname "$0")/parts.sh"
. "$(dirname "$0")/axes.sh"
finish
