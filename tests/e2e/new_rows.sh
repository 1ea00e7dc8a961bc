# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: --init --new-rows. The weights of a smaller vocabulary, in the embedding and an
# untied head; rows beyond it are the mean of the old ones, to the bit, on any number of ranks, and where
# each of two ranks has a part of the rows, with padding behind them.

# rows_of FILE.safetensors TENSOR COLS: its f32 values, a row on each line, as hex
rows_of() {
    perl -e 'local $/; open F, "<:raw", $ARGV[0]; my $s = <F>; my $n = unpack "Q<", $s;
        my $head = substr $s, 8, $n; my ($from, $to) = $head =~ /"\Q$ARGV[1]\E":\s*\{[^}]*"data_offsets":\s*\[(\d+),\s*(\d+)\]/;
        my $d = substr $s, 8 + $n + $from, $to - $from;
        print map { unpack("H*", $_) . "\n" } unpack "(a" . 4 * $ARGV[2] . ")*", $d' "$@"
}

# mean_of: of such rows on stdin, in f64 and in their order, as one more row
mean_of() {
    perl -ne 'chomp; my @x = unpack "f<*", pack "H*", $_; $n++; $sum[$_] += $x[$_] for 0 .. $#x;
        END { print unpack("H*", pack "f<*", map { $_ / $n } @sum), "\n" }'
}

new_rows() {
    local dir=$WORK/rows old new tensor ranks sets=(--set model.heads=4 --set model.ffn=52)
    mkdir -p "$dir"
    generate "$dir/old" "$ROOT/tests/models/tiny_llama.lua" "${sets[@]}" --set mesh.shard=1 &&
        build_trainer "$dir/old" GEMM=builtin && train "$dir/old" "$data" 2 --checkpoint "$dir/ck_old" ||
        { bad "--new-rows: the model of 259 ids" "$dir/old.log"; return; }
    old=$dir/ck_old/step-00000002
    sets+=(--set model.vocab=263)
    for ranks in 1 2 2_of_parts; do
        generate "$dir/new$ranks" "$ROOT/tests/models/tiny_llama.lua" "${sets[@]}" \
            $([ $ranks = 2_of_parts ] && echo --set parts.tensor=2 --set mesh.tensor=2 || echo --set mesh.shard=$ranks) &&
            build_trainer "$dir/new$ranks" GEMM=builtin ||
            { bad "--new-rows: a model of 263 ids" "$dir/new$ranks.log"; return; }
        timeout 60 "$dir/new$ranks/trainer" --data "$data" --init "$old" --new-rows --steps 0 --weights-hash \
            --quiet >"$dir/hash$ranks" 2>"$dir/err"
        check "--new-rows on $ranks ranks" grep -q '^weights ' "$dir/hash$ranks"
    done
    check "the same weights on both" cmp <(grep ^weights "$dir/hash1") <(grep ^weights "$dir/hash2")
    check "and where each has a part of the rows" cmp <(grep ^weights "$dir/hash1") <(grep ^weights "$dir/hash2_of_parts")
    check "a part has 136 rows, so 9 are padding" grep -qF '[136, 36]' "$dir/new2_of_parts/math.c"
    # a learning rate that rounds away leaves them in a checkpoint
    generate "$dir/still" "$ROOT/tests/models/tiny_llama.lua" "${sets[@]}" --set optimizer.lr=1e-30 \
        --set mesh.shard=1 && build_trainer "$dir/still" GEMM=builtin &&
        train "$dir/still" "$data" 1 --init "$old" --new-rows --checkpoint "$dir/ck_new" ||
        bad "--new-rows: a step that changes nothing" "$dir/still.log"
    new=$dir/ck_new/step-00000001
    for tensor in model.embed_tokens.weight lm_head.weight; do
        rows_of "$old/model.safetensors" $tensor 36 >"$dir/old.rows"
        rows_of "$new/model.safetensors" $tensor 36 >"$dir/new.rows"
        check "$tensor: 259 rows" [ "$(wc -l <"$dir/old.rows")" = 259 ]
        mean_of <"$dir/old.rows" >"$dir/mean"
        check "$tensor: the old rows, and four times their mean" cmp "$dir/new.rows" \
            <(cat "$dir/old.rows" "$dir/mean" "$dir/mean" "$dir/mean" "$dir/mean")
    done
    timeout 60 "$dir/new1/trainer" --data "$data" --init "$old" --steps 0 >"$dir/out" 2>"$dir/err"
    check "without --new-rows: exit code 1" [ $? = 1 ]
    check "says what it does" grep -qF \
        "is [259, 36], the model's is [263, 36]: --new-rows makes the missing rows the mean of these" "$dir/err"
    timeout 60 "$dir/old/trainer" --data "$data" --init "$new" --new-rows --steps 0 >"$dir/out" 2>"$dir/err"
    check "a smaller vocabulary: exit code 1" [ $? = 1 ]
    check "is refused" grep -qE "is \[263, 36\], the model's is \[259, 36\]$" "$dir/err"
    timeout 60 "$dir/new1/trainer" --data "$data" --new-rows >"$dir/out" 2>"$dir/err"
    check "--new-rows alone: exit code 2" [ $? = 2 ]
    check "needs --init" grep -qF -- "--new-rows needs --init DIR" "$dir/err"
}
