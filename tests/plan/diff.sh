# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: `fsdpgen diff`. Golden texts of what differs and of what is refused; the
# fields and counts that it reports against other files that say the same.

diffs=$WORK/diffs
mkdir -p "$diffs"
cp "$here/small_llama.lua" "$diffs/"
cd "$diffs" || exit 70

trainer() { # NAME FLAGS...
    local name=$1
    shift
    "$FSDPGEN" small_llama.lua -o "$name" --set "mesh={shard=2}" --set leaves=4 "$@" \
        >"$WORK/log" 2>&1 || bad "diff: generating $name" "$WORK/log"
}
like_golden() { # NAME: $WORK/out
    local golden=$here/golden/diff_$1.txt
    [ $update = 0 ] || cp "$WORK/out" "$golden"
    if diff -u "$golden" "$WORK/out" >"$WORK/diff" 2>&1; then
        ok "diff golden $1"
    else
        bad "diff golden $1" "$WORK/diff"
    fi
}
# A text for people, and the JSON that says the same.
compared() { # NAME A B
    "$FSDPGEN" diff "$2" "$3" >"$WORK/out" 2>"$WORK/err"
    check "diff $1 ends with 0" [ $? = 0 ]
    check "diff $1 has nothing on stderr" [ ! -s "$WORK/err" ]
    like_golden "$1"
    "$FSDPGEN" diff "$2" "$3" --json >"$WORK/$1.json" 2>"$WORK/err"
    check "diff $1: JSON and text have one verdict" [ "$(tail -n 1 "$WORK/out")" = \
        "$(sed -n 's/^    "text": "\(.*\)"$/\1/p' "$WORK/$1.json")" ]
}

trainer base
trainer same
trainer mesh --set "mesh={shard=4}"
trainer wrap --set wrap=2
trainer lr --set optimizer.lr=1e-3
trainer layer --set model.layers=4
trainer bf16 --set dtypes.param=bf16
trainer muon --set "optimizer=muon{}"
trainer library --set reduction=library
trainer library_mesh --set reduction=library --set "mesh={shard=4}"
trainer local --set micro_batch=1 --set global_batch=16 --set "mesh={replicate=2}" --set accumulate=unsharded
trainer gpu --target cuda
trainer files --set max_skipped=3
for name in same mesh wrap lr layer bf16 files; do compared $name base $name; done
cp "$WORK/mesh.json" "$WORK/out"
like_golden json
"$FSDPGEN" diff base small_llama.lua --set "mesh={shard=2}" --set leaves=4 >"$WORK/out" 2>&1
check "diff: a description is what it generates" [ "$(tail -n 1 "$WORK/out")" = "No difference." ]
"$FSDPGEN" diff base small_llama.lua --set 'target.memory="1MiB"' >"$WORK/out" 2>"$WORK/err"
check "diff: a description whose plan does not fit ends it with 3" [ $? = 3 ]
check "diff: and with that message alone" [ "$(grep -c ': error:' "$WORK/err")$(wc -c <"$WORK/out")" = 10 ]
"$FSDPGEN" diff base/ ./gpu/ | tail -n 1 >"$WORK/out"
check "diff: another target is another platform" grep -q "^Same numerics, other inputs" "$WORK/out"

# Rows of tables as older trainers have them say the same.
cp -R base old_rows
sed -i -e 's/^    PARAM(\("[^"]*"\), *\(SEG_[A-Z_0-9]*\), *\([0-9]*\), SHAPE_1(\([0-9]*\)).*/    { .name = \1, .segment = \2, .offset_elems = \3, .elems = \4, .n_dims = 1, .dim = { \4 } },/' \
    -e 's/ = SEGMENT(\("[^"]*"\), *\([0-9]*\), *\([0-9]*\),.*/ = { .name = \1, .elems = \2, .shard_elems = \3 },/' old_rows/tables.c
check "diff: there are older rows" test "$(grep -c '\.elems = [0-9]*,' old_rows/tables.c)" -gt 8
check "diff: older rows say the same" sh -c \
    "'$FSDPGEN' diff base old_rows | sed -n '/^layout/{n;p}' | grep -qx '  no difference'"

# The fields inside the hash that differ are those of the runtime's own list, beside what follows
# from them.
numerics() { # FOLDER
    sed -n '/^const char trainer_numerics/,$s/^    "\(.*\)\\n".*/\1/p' "$1/checkpoint.c" |
        grep -v '^arithmetic\.\|^graph = '
}
for pair in base:lr base:layer base:bf16 base:muon library:library_mesh base:local; do
    old=${pair%:*} name=${pair#*:}
    "$FSDPGEN" diff "$old" "$name" --json >"$WORK/json"
    # the list of that name behind "numerics"
    sed -n '/^    "numerics"/,/^    "platform"/p' "$WORK/json" |
        sed -n 's/^        "\([^"]*\)",*$/\1/p' | sort >"$WORK/said"
    diff <(numerics "$old") <(numerics "$name") | sed -n 's/^[<>] \([^ ]*\) = .*/\1/p' |
        sort -u >"$WORK/listed"
    check "diff $name: the inputs of the numerics hash" diff "$WORK/listed" "$WORK/said"
    check "diff $name: there are some" [ -s "$WORK/said" ]
done

# What a step executes, against plan.txt's micro-steps. A rank of base has 2 leaves of 2
# micro-batches; of local 2 leaves of 4, whose gradients stay until the step's end.
planned() { # FOLDER COLUMN TIMES-LOCAL TIMES-LAST TIMES-END
    awk -v c="$2" -v a="$3" -v b="$4" -v e="$5" '/^  local micro-step/ { n += a * $c }
        /^  last micro-step/ { n += b * $c } /^  end of step/ { n += e * $(c + 1) }
        END { print n + 0 }' "$1/plan.txt"
}
counted() { # FOLDER KIND: in the JSON, old side
    "$FSDPGEN" diff "$1" gpu --json | tr -d '\n' |
        sed -n "s/.*\"kind\": \"$2\", *\"old\": \([0-9]*\),.*/\1/p"
}
counts() { # FOLDER KIND COLUMN TIMES...
    local have need
    have=$(counted "$1" "$2")
    need=$(planned "$1" "${@:3}")
    check "diff: $2 of a step of $1: $have, planned $need" [ "$have" = "$need" ]
}
counts base span 3 2 2 0
counts base all_gather_start 5 2 2 0
counts base reduce_scatter_start 9 2 2 0
counts local span 3 7 1 0
counts local all_reduce_start 9 0 1 1
segments=$(grep -c '^    \[SEG_' local/tables.c)
check "diff: merges of local" [ "$(counted local merge_segment)" = $((2 * segments)) ]

# Refused, with a message, and 1; usage: 2. What a terminal would obey is printed as escapes.
refused() { # A B
    "$FSDPGEN" diff "$@" >"$WORK/stdout" 2>"$WORK/stderr" </dev/null
    echo "exit $?: diff $*" | cat -v
    cat -v "$WORK/stderr"
    [ ! -s "$WORK/stdout" ] || echo "SOMETHING ON STDOUT"
}
damaged() { # NAME FILE SED-SCRIPT: a copy with one change
    cp -R base "$1"
    sed -i "$3" "$1/$2"
    refused base "$1"
}
esc=$(printf '\033')
{
    refused base nowhere
    refused base small_llama.txt
    mkdir empty
    refused empty base
    damaged no_json manifest.json '2s/"generator"/generator/'
    damaged not_ours manifest.json 's/fsdpgen 0/other 0/'
    damaged newer manifest.json 's/fsdpgen 0\.1\.0/fsdpgen 0.10.0/'
    damaged short_hash manifest.json 's/"numerics": "./"numerics": "/'
    damaged outside manifest.json 's|"Makefile"|"../Makefile"|'
    damaged control manifest.json 's|"Makefile"|"\\u001b[31m"|'
    damaged cut plan.json '10,$d'
    damaged list plan.json '1,$d' && echo '[]' >list/plan.json && refused base list
    damaged negative plan.json 's/"params": [0-9]*,$/"params": -1,/'
    damaged huge plan.json 's/"arena": [0-9]*/"arena": 9223372036854775807/'
    damaged other_hash plan.json 's/"numerics_hash": "./"numerics_hash": "x/'
    damaged lua description.lua 's/^    seq = /    seq = os.exit /'
    damaged deep description.lua "s/^    seq = .*/    seq = $(printf '{%.0s' {1..99})/"
    damaged table tables.c 's/^    PARAM(/    PARAMS(/'
    damaged no_step step.c 's/trainer_step/trainer_stop/'
    damaged gone step.c '' && rm gone/step.c && refused base gone
    damaged linked step.c '' && ln -sf ../base/step.c linked/step.c && refused base linked
    damaged fifo plan.json '' && rm fifo/plan.json && mkfifo fifo/plan.json && refused base fifo
    damaged large math.c '' && truncate -s 9M large/math.c && refused base large
    damaged half Makefile '' && touch half/.fsdpgen-unfinished && refused base half
    refused "a$esc[31m" base
    refused base
    refused base same wrap
    refused base same -o x
} 2>&1 | sed '/^exit 0/,/^SOMETHING/d' >"$WORK/out"
like_golden refused

# What could hold a reader up, or end it, is refused or compared.
hostile() { # NAME FILE: whose text is in $WORK/text
    rm -rf hostile
    cp -R base hostile
    mv "$WORK/text" "hostile/$2"
    "$FSDPGEN" diff base hostile >"$WORK/out" 2>"$WORK/err" </dev/null
    [ $? -le 1 ] && [ "$(cat "$WORK/out" "$WORK/err" | wc -l)" -ge 2 ]
    check "diff: $1" [ $? = 0 ]
    check "diff: $1: it has not run out of anything" \
        sh -c "! grep -qE 'memory|too long|stopped|signal|bug' '$WORK/err'"
}
repeat() { awk -v n="$1" -v s="$2" 'BEGIN { while (n-- > 0) printf "%s", s }'; } # N TEXT
sed 's/^    update(rt);$/&\n    trainer_step(rt); trainer_step(rt);/' base/step.c >"$WORK/text"
hostile "a step that calls itself" step.c
{ echo 'void trainer_step(Rt *rt) {'; repeat 99999 'for (int i = 0; i < 999; i++) {f(rt);'; } >"$WORK/text"
hostile "nested loops" step.c
{ for i in {0..40}; do echo "void f$i(Rt *rt) { f$((i + 1))(rt); f$((i + 1))(rt); }"; done
    echo 'void trainer_step(Rt *rt) { f0(rt); }'; } >"$WORK/text"
hostile "calls that double" step.c
repeat 2000000 '(' >"$WORK/text"
hostile "brackets that never close" math.c
repeat 200000 'const RtSegment trainer_segments[1] = {' >"$WORK/text"
hostile "tables in tables" tables.c
{ echo; echo 'return trainer {'; repeat 500000 'x={'; } >"$WORK/text"
hostile "a deep description" description.lua
repeat 3000000 '[' >"$WORK/text"
hostile "a deep plan" plan.json
{ printf '{"generator": "fsdpgen 0.1.0", "numerics": "0123456789abcdef", "files": {'
    seq 99999 | sed 's/.*/"&": "0123456789abcdef",/'
    echo '"x": "0123456789abcdef"}}'; } >"$WORK/text"
hostile "a manifest of 100000 files" manifest.json

# Compared as it is, but nothing is promised; and text of strangers stays text.
cp -R base edited
sed -i "s/\"adamw\"/&/; s/^    name = .*/    name = \"$esc]0;x$esc\\\\\\\\ \\xe2\\x80\\xae\",/" edited/description.lua
compared edited base edited
{ "$FSDPGEN" diff base edited; "$FSDPGEN" diff base edited --json; } |
    tr -d '\n\040-\176' >"$WORK/control"
check "diff: no control character is printed" [ ! -s "$WORK/control" ]
cd "$ROOT" || exit 70
