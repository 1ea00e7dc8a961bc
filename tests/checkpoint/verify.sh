# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh, after faults.sh: `trainer verify` and `trainer ls`: what they say of checkpoints
# that are whole, damaged in any place, of before, cut short, or none.

vck=$WORK/verify.ck

# verifies CODE PATTERN [FLAGS...]: of $vck, by a trainer of another number of ranks
verifies() {
    local want=$1 pattern=$2 code
    shift 2
    timeout 60 "$verifier" verify "$@" >"$WORK/verify.out" 2>"$WORK/verify.err"
    code=$?
    [ $code = "$want" ] && cat "$WORK/verify.out" "$WORK/verify.err" | grep -qE -- "$pattern"
}

# Chunks of 4 KiB, so that a small model has many; the sanitizers, where all counts are asked for.
verify_begin() {
    if [ "$FULL" = 1 ] || [ ! -x "$WORK/verifier" ]; then
        local flags=$flags
        [ "$FULL" = 1 ] && flags="$flags -fsanitize=address,undefined -fno-sanitize-recover=all"
        broken_runtime fault1 checkpoint/rt_checkpoint.h 's/RT_CHUNK_BYTES = 4194304/RT_CHUNK_BYTES = 4096/' \
            checkpoint/rt_chunks.c 's/PIECE_BYTES = 256 << 10/PIECE_BYTES = 1024/' || return 1
        cp "$WORK/broken/trainer" "$WORK/verifier"
    fi
    export ASAN_OPTIONS=detect_leaks=0
    verifier=$WORK/verifier
    rm -rf "$vck"
    timeout 60 "$verifier" --data "$data" --threads 1 --quiet --checkpoint "$vck" --checkpoint-every 1 \
        --steps 2 >"$WORK/verify.out" 2>&1 || { bad 'small chunks: runs' "$WORK/verify.out"; return 1; }
    rm -rf "$WORK/verify.base" && cp -r "$vck" "$WORK/verify.base"
}

verify_again() { rm -rf "$vck" && cp -r "$WORK/verify.base" "$vck"; }

whole_ones() {
    local t
    for t in '' '--threads 1' '--threads 7'; do
        # shellcheck disable=SC2086
        check "verify $t: whole" verifies 0 "^$vck/step-00000001: as it was written: step 1, 7 files, [0-9]+ bytes" \
            "$vck" $t
        check "both" test "$(wc -l <"$WORK/verify.out")" = 2
    done
    check "one of them" verifies 0 'step 1, 7 files' "$vck/step-00000001"
    check "one alone" test "$(wc -l <"$WORK/verify.out")" = 1
    verifier=$WORK/fault2/trainer
    verifies 1 'optimizer/moment1.safetensors: ' "$vck" # of other chunks: another format
    check "by chunks of another size none is whole" test $? = 0
    check "nor does it end otherwise" test ! -s "$WORK/verify.err"
    fault_begin
    check "verify knows no mesh, as checkpoints do not" verifies 0 'as it was written' "$fck"
    verifier=$WORK/verifier
}

# A bit anywhere is found where it lies, and what is there is named.
bits() {
    local count=12 i f at size files chunk n=0
    [ "$FULL" = 1 ] && count=2000
    mapfile -t files < <(cd "$vck/step-00000002" && find . -name '*.safetensors' | sort)
    for ((i = 0; i < count; i++)); do
        f=${files[i % ${#files[@]}]}
        size=$(stat -c %s "$vck/step-00000002/$f")
        random "$size"
        at=$random_value
        damage "$vck/step-00000002/$f" flip "$at"
        chunk=$((at / 4096))
        if verifies 1 "^$vck/step-00000002: ${f#./}: chunk $chunk, bytes $((chunk * 4096)) to [0-9]+: not what was written" "$vck" &&
            [ "$(wc -l <"$WORK/verify.out")" = 3 ] &&
            grep -q '^.*step-00000001: as it was written' "$WORK/verify.out"; then
            n=$((n + 1))
        else
            bad "verify: $f, bit at $at" "$WORK/verify.out"
        fi
        damage "$vck/step-00000002/$f" flip "$at" # and back
    done
    ok "$n flips are found in their chunks"
    check "and nothing else" verifies 0 'as it was written' "$vck"
    f=$vck/step-00000002/model.safetensors
    at=$(($(stat -c %s "$f") - 5)) # of the last tensor
    damage "$f" flip $at
    check "its tensor is named" verifies 1 'not what was written \((.*, )?lm_head.weight\)' "$vck"
    check "in JSON, too" verifies 1 '"file": "model.safetensors", "chunk": [0-9]+, "from": [0-9]+, "to": [0-9]+, "why": "not what was written", "tensors": ".*lm_head.weight"' \
        "$vck" --json
    if command -v jq >/dev/null; then
        check "which is JSON" jq -e '.[0].whole == false and .[1].whole' "$WORK/verify.out"
    elif python3 -c '' 2>/dev/null; then
        check "which is JSON" python3 -m json.tool "$WORK/verify.out"
    fi
    damage "$f" flip $at
}

# Files that are missing, shorter, longer, none, or say something else.
other_damage() {
    local d=$vck/step-00000002
    for f in model.safetensors optimizer/moment2.safetensors train_state.json CHUNKS config.json; do
        mv "$d/$f" "$WORK/moved"
        check "verify: $f is missing" verifies 1 "step-00000002: $f: is missing" "$vck"
        check "and then damaged" verifies 1 'step-00000002: damaged: step 2, 7 files' "$vck"
        mkdir "$d/$f"
        check "verify: $f is a folder" verifies 1 "$f: is not a file" "$vck"
        rmdir "$d/$f"
        head -c 100 "$WORK/moved" >"$d/$f"
        check "verify: $f is cut" verifies 1 "$f: has 100 bytes, not the [0-9]* of MANIFEST" "$vck"
        (cat "$WORK/moved" && printf x) >"$d/$f"
        check "verify: $f is longer" verifies 1 "$f: has [0-9]* bytes, not the" "$vck"
        mv "$WORK/moved" "$d/$f"
    done
    damage "$d/CHUNKS" flip 30
    check "verify: CHUNKS" verifies 1 'CHUNKS: is not what was written' "$vck"
    damage "$d/model.safetensors" flip 20000
    check "verify: without CHUNKS the file is named" verifies 1 'model.safetensors: is not what was written' "$vck"
    verify_again
    for f in 3 40 100; do
        damage "$d/MANIFEST" flip $f
        check "verify: MANIFEST, byte $f" verifies 1 'step-00000002: MANIFEST: .* is not what was written' "$vck"
        check "and no more" verifies 1 'step-00000002: damaged: nothing in it can be verified' "$vck"
        damage "$d/MANIFEST" flip $f
    done
    mv "$d" "$vck/step-00000009"
    check "verify: another step's name" verifies 1 'step-00000009: MANIFEST: .* is of step 2: the folder has' "$vck"
    check "ls: the same" bash -c "'$verifier' ls '$vck' | grep -q 'damaged: .* is of step 2'"
    mv "$vck/step-00000009" "$d"
    rm "$d/MANIFEST"
    check "verify: no MANIFEST" verifies 1 'MANIFEST: open .*: No such file' "$vck"
    verify_again
}

# A MANIFEST that was made to deceive: hashes that fit, and numbers that do not.
deceiving() {
    local d=$vck/step-00000002 lines n=0
    for lines in 'file a 9223372036854775807 0123456789abcdef' \
        'file CHUNKS 9223372036854775807 0123456789abcdef
file model.safetensors 9223372036854775806 0123456789abcdef' \
        'file optimizer/master.safetensors 4611686018427387904 0123456789abcdef
file optimizer/moment1.safetensors 4611686018427387904 0123456789abcdef
file model.safetensors 4611686018427387904 0123456789abcdef' 'file ../../x 3 0123456789abcdef' ''; do
        printf 'fsdpgen checkpoint 2\nstep 2\n%s\n' "$lines" >"$d/MANIFEST"
        printf 'end %s\n' "$("$BUILD/tests/checkpoint/checkpoint_hash64" <"$d/MANIFEST")" >>"$d/MANIFEST"
        verifies 1 'damaged' "$vck" && "$verifier" ls "$vck" >"$WORK/ls.out" 2>&1 && n=$((n + 1))
    done
    check "numbers that deceive harm neither verify nor ls" test $n = 5
    verify_again
}

# A format of later days is no damage: no older checkpoint is taken for it. A damaged MANIFEST is, whatever
# format it names.
newer_format() {
    local d=$vck/step-00000002
    sed -i '1s/2/3/' "$d/MANIFEST"
    timeout 60 "$verifier" --data "$data" --threads 1 --quiet --checkpoint "$vck" --resume --steps 2 \
        >"$WORK/newer.out" 2>"$WORK/newer.err" </dev/null
    check "a changed digit of the format is damage: the step before is taken" test $? = 0 -a \
        "$(grep -c 'step-00000002 is skipped: .*MANIFEST is not what was written$' "$WORK/newer.err")" = 1
    verify_again
    printf 'fsdpgen checkpoint 3\nstep 2\nsomething else\n' >"$d/MANIFEST"
    printf 'end %s\n' "$("$BUILD/tests/checkpoint/checkpoint_hash64" <"$d/MANIFEST")" >>"$d/MANIFEST"
    check "verify: a newer format" verifies 1 'MANIFEST is of format 3, and this trainer reads formats 1 to 2' "$vck"
    check "ls: the same" bash -c "'$verifier' ls '$vck' | grep -q 'is of format 3'"
    timeout 60 "$verifier" --data "$data" --threads 1 --quiet --checkpoint "$vck" --resume --steps 3 \
        >"$WORK/newer.out" 2>"$WORK/newer.err" </dev/null
    check "a run does not go on before it" test $? = 1 -a ! -e "$vck/step-00000003"
    check "and says what to do" grep -q 'is of format 3, .* by --init of a copy without MANIFEST; that is not damage' "$WORK/newer.err"
    verify_again
}

# Checkpoints of before there was a file CHUNKS.
without_chunks() {
    broken_runtime fault2 checkpoint/rt_save.c '/^    add_chunks(c);$/d' checkpoint/rt_save.c 's/^        write_chunks(c, folder);/        (void)write_chunks, (void)add_chunks;/' || return
    rm -rf "$fck"
    trainer_on broken 1 || { bad 'a runtime without CHUNKS runs' "$WORK/broken.err"; return; }
    check 'it writes none' test ! -e "$fck/step-00000001/CHUNKS"
    verifier=$WORK/fault2/trainer
    check 'verify: whole' verifies 0 'as it was written: step 1, 6 files' "$fck"
    damage "$fck/step-00000001/model.safetensors" flip 20000
    check 'verify: damaged' verifies 1 'model.safetensors: is not what was written' "$fck"
    damage "$fck/step-00000001/model.safetensors" flip 20000
    check 'a run goes on from it' test -z "$(recovers fault2 1)"
    verifier=$WORK/verifier
}

# ---- folders that are none -------------------------------------------------------------------------------

nothing_there() {
    local d=$WORK/nothing
    rm -rf "$d" && mkdir "$d"
    check 'verify: an empty folder' verifies 1 'error: there is no checkpoint: neither' "$d"
    check 'verify: no folder' verifies 1 'open .*/none: No such file' "$d/none"
    : >"$d/file"
    check 'verify: a file' verifies 1 'Not a directory' "$d/file"
    cp "$vck/step-00000001/model.safetensors" "$d/"
    mkdir "$d/led" && ln -s nowhere "$d/led/step-00000001"
    check 'verify: a link that leads nowhere' verifies 1 'step-00000001: damaged: nothing in it' "$d/led"
    check 'verify: weights of others' verifies 1 'weights that others made have no hashes' "$d"
    check 'verify: no word' verifies 2 'verify: name the folder: trainer verify DIR'
    check 'verify: two words' verifies 2 'unexpected' "$d" "$d"
    check 'verify: a flag of training' verifies 2 'is for training, not for .trainer verify' "$d" --steps 3
    lists 0 'there is no checkpoint in' "$d" || bad 'ls: an empty folder' "$WORK/ls.out"
    lists 1 'No such file' "$d/none" || bad 'ls: no folder' "$WORK/ls.out"
    lists 1 'Not a directory' "$d/file" || bad 'ls: a file' "$WORK/ls.out"
    lists 2 'ls: name the folder' || bad 'ls: no word' "$WORK/ls.out"
}

# ---- ls --------------------------------------------------------------------------------------------------

# lists CODE PATTERN [FLAGS...]
lists() {
    local want=$1 pattern=$2 code
    shift 2
    timeout 60 "$WORK/fault2/trainer" ls "$@" >"$WORK/ls.out" 2>&1
    code=$?
    [ $code = "$want" ] && grep -qE -- "$pattern" "$WORK/ls.out"
}

listings() {
    local numerics
    numerics=$("$WORK/fault2/trainer" --numerics-hash | sed -n 's/^numerics //p')
    check 'ls: a line for each' lists 0 "^step-00000002 .* MiB  20[0-9-]+ [0-9:]+  $numerics  this  .* 608  whole$" "$vck"
    check 'ls: the newest first' test "$(grep -n '^step-0' "$WORK/ls.out" | cut -d: -f1,2 | cut -c 1-15 | tr '\n' ' ')" = \
        '2:step-00000002 3:step-00000001 '
    check 'ls: one of them' lists 0 "^$vck/step-00000001 .*  304  whole" "$vck/step-00000001"
    check 'ls: JSON' lists 0 "^  .\"folder\": \"step-00000002\", \"is\": \"whole\", \"step\": 2, \"bytes\": [0-9]+, \"written\": [0-9]+, \"numerics\": \"$numerics\", \"this_trainer\": true, \"tokens\": 608" \
        "$vck" --json
    mkdir "$vck/.tmp-step-00000003" "$vck/.trash-step-00000000" "$vck/step-00000001.damaged1" "$vck/other"
    check 'ls: one that is being written' lists 0 '^.tmp-step-00000003 .* unfinished$' "$vck"
    check 'ls: one that is removed' lists 0 '^.trash-step-00000000 .* being removed$' "$vck"
    check 'ls: one kept aside' lists 0 '^step-00000001.damaged1 .* kept aside: it did not verify' "$vck"
    check 'ls: nothing else' test "$(wc -l <"$WORK/ls.out")" = 6
    truncate -s 10 "$vck/step-00000001/model.safetensors"
    check 'ls: a damaged one' lists 0 '^step-00000001 .* damaged: .*has 10 bytes, not the' "$vck"
    rm "$vck/step-00000002/MANIFEST"
    check 'ls: no MANIFEST' lists 0 '^step-00000002 .* damaged: open .*MANIFEST: No such file' "$vck"
    check "ls: another model's" lists 0 ' another  *[0-9]+  whole' "$WORK/half0.ck"
    verify_again
}

verify_suite() {
    verify_begin || return
    whole_ones
    bits
    other_damage
    deceiving
    newer_format
    without_chunks
    nothing_there
    listings
    unset ASAN_OPTIONS
}
part verify:families,first_checkpoint verify_suite
