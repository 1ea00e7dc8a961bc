#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The house: a file's folder is its layer, and includes and calls point downward; files and functions
# stay short; the generator knows no optimizer by name; files have one form of headers, contracts and
# layout; every suite takes names of its parts. Each rule is seen to fail once, with what it is for planted in a copy.
set -u
. "$(cd "$(dirname "$0")/.." && pwd)/lib.sh"
here=$ROOT/tests/house

sources() { # FOLDER
    find "$1" -name '*.[ch]' | sort
}

# gen.h is the one header that shows lower rooms the types of higher ones: struct Gen holds them
# all. base and tokenize do without it. The header of a room's types (describe/model.h, ops/rule.h,
# graph/ir.h, plan/step.h) is like any other of the room.
gen_includes() { # ROOT: those that point up
    local folder=$1/gen
    mapfile -t files < <(sources "$folder")
    awk -v folder="$folder" -v rooms="base describe ops graph hf plan prove report emit drive" \
        -v beside="import:base describe hf;tokenize:base data;shell:base describe ops drive tokenize job;tune:base describe ops graph hf plan prove report emit drive;op_test:base describe ops graph emit" \
        -v closed="base tokenize" -v open="gen.h" \
        -f "$here/includes.awk" "${files[@]}"
}

low="job data state checkpoint" # rooms of the runtime, below its targets

# Kernels and the C of kernels.c find the headers of cuda/ by name alone, as the Makefile says.
runtime_includes() { # ROOT
    local folder=$1/runtime
    mapfile -t files < <(sources "$folder")
    awk -v folder="$folder" -v rooms="$low" -v beside="cpu:$low;cuda:$low" \
        -f "$here/includes.awk" "${files[@]}"
}

# What both targets have for the rooms below is declared in rt_target.h, which says why. rt.h and
# rt_gemm.h are for emitted code, and of all rooms. Two functions of a target are for both: where each
# rank holds all weights, what gathers them after an update also completes those of the start
# (rt_complete_weights); the platform names the library of products (rt_platform_hash).
runtime_calls() { # ROOT
    local folder=$1/runtime
    mapfile -t files < <(sources "$folder")
    awk -v folder="$folder" -v rooms="$low" -v beside="cpu:$low;cuda:$low" \
        -v contract="rt_target.h rt.h rt_gemm.h" \
        -v allowed="rt_gather_updated_start rt_gemm_library" \
        -f "$here/calls.awk" "${files[@]}" "${files[@]}"
}

long_files() { # ROOT: sources, templates, and what tests are made of
    {
        sources "$1/gen"
        sources "$1/runtime"
        find "$1/gen/lua" "$1/templates" "$1/tests" -name '*.lua' -o -name '*.c' -o -name '*.h' \
            -o -name '*.cu' -o -name '*.sh' | sort
    } | while read -r file; do
        lines=$(wc -l <"$file")
        [ "$lines" -le 600 ] || echo "$file has $lines lines"
    done
}

long_functions() { # ROOT
    mapfile -t files < <(sources "$1/gen" && sources "$1/runtime" &&
        find "$1/templates" -name '*.c' -o -name '*.cu' | sort)
    awk -f "$here/functions.awk" "${files[@]}"
    mapfile -t files < <(find "$1/gen/lua" "$1/templates" -name '*.lua' | sort)
    awk -f "$here/lua_functions.awk" "${files[@]}"
}

# An optimizer is its op folder: the generator knows none by name.
optimizer_names() { # ROOT
    local names
    names=$(grep -lE 'role = "optimizer"' "$ROOT"/templates/ops/*/op.lua |
        sed 's|/op.lua$||; s|.*/||' | paste -sd'|')
    [ -n "$names" ] || echo "no optimizers"
    find "$1/gen" -name '*.[ch]' -o -name '*.lua' | sort | xargs grep -nwE "$names"
    true
}

# Parameters that are cut along an axis, or stored in a dtype of their own, are for tables, places and
# checkpoints (tests/checkpoint/keys.c makes them); no kernel takes them, so emit_check_math and
# add_matrix end fsdpgen as a bug. No description reaches that: nothing in gen/ makes such parameters,
# and the axes of a mesh that would are "not available yet" (tests/load).
keyed_parameters() { # ROOT: what sets a key, but the copy of a segment's from its parameters
    grep -rnE '(->|\.)(axes|cut_dim) = |decl->dtype = |ClassParam [a-z]+ = \{' "$1/gen" --include='*.c' |
        grep -vE 'plan/shard\.c:[0-9]+:    s->axes = like->axes;|ops/ops\.c:[0-9]+:    info->axes = |plan/shard\.c:[0-9]+:        p->cut_dim = mark\[a\]\.dim;|\{\.dtype = b->g->model\.param_dtype\};'
    true
}

# libm rounds these otherwise on some machines, and what is emitted is the same on all: base/exact.c has
# its own, and sandbox_math.c a pow for Lua. op_test compares kernels on one machine.
libm_calls() { # ROOT
    grep -rn '(' "$1/gen" --include='*.[ch]' | sed 's|/[*].*||' |
        grep -E '[^A-Za-z0-9_"](exp2?|expm1|log(2|10|1p)?|sin|cos|tan|asin|acos|atan2?|sinh|cosh|tanh|pow|cbrt|hypot|erf)f?l?\(' |
        grep -vE "^$1/gen/op_test/|:[0-9]+: [*] |double pow\(double x, double y\)$"
    true
}

none() { # WHAT FUNCTION ROOT
    if "$2" "$3" >"$WORK/found" 2>&1 && [ ! -s "$WORK/found" ]; then
        ok "$1"
    else
        bad "$1" "$WORK/found"
    fi
}
# A ruler of a comment is one line, and ends where all do.
torn_rulers() {
    find "$1/gen" "$1/runtime" -name '*.[ch]' -exec awk '
        /^\/\* ---- / && (!/-- \*\/$/ || length > 88) { print FILENAME ":" FNR ": " $0 }' {} +
}

# A single statement on a line of its own has no braces: what clang-format would say, without it.
needless_braces() {
    find "$1/gen" "$1/runtime" -name '*.c' -exec awk '
        FNR == 1 { two = one = "" }
        {
            indent = $0
            sub(/[^ ].*/, "", indent)
            if (one ~ /;$/ && $0 == indent "}" && two ~ ("^" indent "(if|for|while) \\(.*\\) \\{$"))
                print FILENAME ":" FNR - 2 ": " two
            two = one
            one = $0
        }' {} +
}

# The second line of a file is its name, and what it is.
headers() {
    find "$1/gen" "$1/runtime" -name '*.[ch]' -exec awk '
        FNR == 2 {
            name = FILENAME
            sub(/.*\//, "", name)
            if (index($0, "/* " name ":") != 1 && index($0, "/* " name ",") != 1) print FILENAME ": " $0
        }' {} +
}

# The first comment of a .c file is its contract: what comes in, what goes out; a pass also says
# what it breaks. One form, "In: ... Out: ... Breaks: ...", or "In and out: ...".
contracts() {
    find "$1/gen" "$1/runtime" -name '*.c' | sort | xargs awk -f "$here/contracts.awk"
}

# A suite sources its files into one shell, where a second function of a name replaces the first.
functions_twice() {
    local suite
    for suite in "$1"/tests/*/; do
        [ ! -e "${suite}run.sh" ] || { echo "${suite}run.sh" && find "$suite" -maxdepth 1 -name '*.sh' ! -perm -u+x; } |
            xargs grep -HoE '^[a-z_0-9]+\(\)' |
            awk -F: 'seen[$2] { print $1 ": " $2 " is of " seen[$2], "too" } { seen[$2] = $1 }'
    done
}

# The rest of a .c file's form is clang-format 14's; headers are laid out by hand. The kernels of
# users' ops are templates.
formatted() {
    find "$1/gen" "$1/runtime" "$1/tests" -name '*.c' ! -path '*/ops/*/cpu.c' | sort |
        xargs "$clang_format" --style="file:$ROOT/.clang-format" --dry-run 2>&1 |
        grep 'clang-formatted'
    true
}

# clang-format 14, by either name; other versions disagree on details.
clang_format=
for program in clang-format-14 clang-format; do
    case $("$program" --version 2>/dev/null) in *"version 14."*) clang_format=$program; break ;; esac
done

format() {
    if [ -z "$clang_format" ]; then
        echo "house: format skipped: clang-format 14 is not installed"
    else
        none ".c files are as clang-format 14 prints them" formatted "$ROOT"
    fi
}

median_length() {
    local n
    n=$(find "$1/gen" "$1/runtime" -name '*.[ch]' -exec wc -l {} + | awk '$2 != "total" { print $1 }' |
        sort -n | awk '{ n[NR] = $1 } END { print n[int((NR + 1) / 2)] }')
    [ "$n" -lt 300 ] || echo "the median of files is $n lines"
}

# --list names the parts of each suite, and a name that is none of them is refused with that list.
suites_without_names() { # ROOT
    local suite status first
    for suite in "$1"/tests/*/run.sh; do
        "$suite" --list >"$WORK/listed" 2>"$WORK/listed.err"
        status=$?
        first=$(head -n 1 "$WORK/listed")
        if [ $status != 0 ] || [ -z "$first" ] || [ -s "$WORK/listed.err" ] ||
            grep -q '[^A-Za-z0-9_.-]' "$WORK/listed"; then
            echo "$suite --list: status $status, prints: $first $(head -n 1 "$WORK/listed.err")"
            continue
        fi
        "$suite" "$first" no.such.part >"$WORK/refused" 2>&1
        status=$?
        [ $status = 2 ] && grep -q "no part no.such.part; there are: $first" "$WORK/refused" ||
            echo "$suite no.such.part: status $status, prints: $(head -n 1 "$WORK/refused")"
    done
}

# What people read: pages, texts and comments in sources.
read_files() { # ROOT
    find "$1/README.md" "$1/docs" "$1/tests/README.md" "$1/gen" "$1/runtime" "$1/templates" "$1/models" \
        -name '*.md' -o -name '*.[ch]' -o -name '*.lua' -o -name '*.cu' -o -name Makefile | sort
}

# A phrase that english.awk knows.
strange_english() { # ROOT
    read_files "$1" | xargs awk -f "$here/english.awk"
}

# A sentence that english.txt has as it was.
old_sentences() { # ROOT
    awk -v list=1 -f "$here/sentences.awk" "$here/english.txt" >"$WORK/sentences"
    read_files "$1" | xargs awk -f "$here/sentences.awk" | grep -F -f "$WORK/sentences" |
        awk 'NR == FNR { old[++n] = $0; next }
             { for (i = 1; i <= n; i++)
                   if (index($0, old[i])) print substr($0, 1, index($0, ":")) " " old[i] }' \
            "$WORK/sentences" -
}

# english.txt shows each as it was and as it should read.
english() {
    none "pages, messages and comments are in plain English" strange_english "$ROOT"
    none "no sentence is as it was" old_sentences "$ROOT"
    at_least "sentences before and after" "$(grep -c '^- ' "$here/english.txt")" 100
    check "each has both" awk '/^[-+] / { if (/^-/ != (last != "-")) exit 1; last = substr($0, 1, 1) }' \
        "$here/english.txt"
    grep '^- ' "$here/english.txt" >"$WORK/before.md"
    check "each phrase was met" test -z \
        "$(awk -v unseen=1 -f "$here/english.awk" "$WORK/before.md")"
    grep '^+ ' "$here/english.txt" >"$WORK/after.md"
    check "what should be written is fine" test -z "$(awk -f "$here/english.awk" "$WORK/after.md")"
}

found() { # WHAT FUNCTION TEXT
    "$2" "$WORK/planted" >"$WORK/found"
    check "$1 is found" grep -qF "$3" "$WORK/found"
}

planted() {
    mkdir -p "$WORK/planted/tests"
    cp -R "$ROOT/gen" "$ROOT/runtime" "$ROOT/templates" "$ROOT/docs" "$ROOT/models" \
        "$ROOT/README.md" "$WORK/planted/"
    cp "$ROOT/tests/README.md" "$WORK/planted/tests/"
    echo '#include "plan/plan.h"' >>"$WORK/planted/gen/ops/infer.c"
    found "gen: an include of a higher room" gen_includes ": plan/plan.h lies above ops"
    echo '#include "tokenize/tokenize.h"' >>"$WORK/planted/gen/emit/emit.c"
    found "gen: one of a room beside" gen_includes ": tokenize/tokenize.h lies above emit"
    echo '#include "plan/plan.h"' >>"$WORK/planted/gen/import/import_hf.c"
    found "gen: one of the passes by a room beside them" gen_includes "lies above import"
    echo '#include "plan/step.h"' >>"$WORK/planted/gen/base/show.c"
    found "gen: types of a higher room, in the lowest" gen_includes "plan/step.h lies above base"
    echo '#include "graph/ir.h"' >>"$WORK/planted/gen/describe/mesh.c"
    found "gen: types of a higher room" gen_includes "graph/ir.h lies above describe"
    echo '#include "gen.h"' >>"$WORK/planted/gen/base/pack.h"
    found "gen: gen.h in the room that does without it" gen_includes "gen.h lies above base"
    mkdir "$WORK/planted/gen/new" && echo >"$WORK/planted/gen/new/new.c"
    found "gen: a room without a place" gen_includes "the room new is not known"
    echo '#include "checkpoint/rt_checkpoint.h"' >>"$WORK/planted/runtime/data/rt_known.c"
    found "runtime: an include of a higher room" runtime_includes "lies above data"
    echo '#include "cuda/rt_gpu.h"' >>"$WORK/planted/runtime/cpu/rt_sum.c"
    found "runtime: one of the other target" runtime_includes "lies above cpu"
    echo '#include "data/rt_data.h"' >>"$WORK/planted/runtime/job/rt_agree.c"
    found "runtime: one of the room above the lowest" runtime_includes "data/rt_data.h lies above job"
    echo '#include "state/rt_state.h"' >>"$WORK/planted/runtime/rt_private.h"
    found "runtime: one by a header of all rooms" runtime_includes "all rooms see rt_private.h"
    echo 'void f(void) { rt_checkpoint_step(0); }' >>"$WORK/planted/runtime/job/rt_wait.c"
    found "runtime: a call of a higher room, without an include" runtime_calls \
        "rt_checkpoint_step is of checkpoint, above job"
    echo 'void (*f)(void) = rt_comm_wait;' >>"$WORK/planted/runtime/data/rt_known.c"
    found "runtime: one of the target beside the contract" runtime_calls "rt_comm_wait is of cpu, above data"
    echo 'void g(void) { rt_gpu_drain(0); }' >>"$WORK/planted/runtime/cpu/rt_sum.c"
    found "runtime: one of the other target" runtime_calls "rt_gpu_drain is of cuda, above cpu"
    echo 'void h(void) { rt_main(0, 0, 0); }' >>"$WORK/planted/runtime/checkpoint/rt_due.c"
    found "runtime: one of what stands above all" runtime_calls "rt_main is of ., above checkpoint"
    echo 'void rt_save_sum(int n);' >>"$WORK/planted/runtime/rt_private.h"
    found "runtime: a header of all rooms that declares a room's" runtime_calls "rt_save_sum is of job, above all"
    echo 'bool rt_update_gate(Rt *rt);' >>"$WORK/planted/runtime/rt_target.h"
    found "runtime: a contract for what is no target's" runtime_calls \
        "rt_update_gate is of checkpoint, which is no target"
    echo '/* as adamw has it */' >>"$WORK/planted/gen/plan/policy.c"
    found "gen: an optimizer's name" optimizer_names "/* as adamw has it */"
    printf 'static void f(Param *p)\n{\n    p->axes = 1;\n}\n' >>"$WORK/planted/gen/plan/wrap.c"
    found "gen: a parameter that is cut" keyed_parameters "plan/wrap.c:"
    sed -i 's/{.dtype = b->g->model.param_dtype}/{.dtype = DT_F32}/' "$WORK/planted/gen/graph/builder_block.c"
    found "gen: one of another dtype" keyed_parameters "graph/builder_block.c:"
    echo 'double planted(double x) { return log2(x); }' >>"$WORK/planted/gen/plan/wrap.c"
    found "gen: a function of libm" libm_calls "return log2(x)"
    sed -i '2s/rt_log.c/log/' "$WORK/planted/runtime/state/rt_log.c"
    found "another header" headers "rt_log.c: /* log:"
    sed -i '2,4s/ In:/ Comes in:/' "$WORK/planted/gen/graph/canon.c"
    found "a contract in another form" contracts "graph/canon.c: no In: and Out:"
    sed -i '2,9s/Breaks:/breaks:/' "$WORK/planted/gen/plan/place.c"
    found "a contract with a word of another form" contracts "plan/place.c: breaks:"
    if [ -n "$clang_format" ]; then
        echo 'int  two_blanks;' >>"$WORK/planted/runtime/data/rt_known.c"
        found "a file that clang-format would change" formatted "rt_known.c:"
    fi
    printf '/* ---- a part -------------------\n */\n' >>"$WORK/planted/gen/plan/mesh.c"
    found "a torn ruler" torn_rulers "mesh.c:"
    printf 'void f(int x)\n{\n    if (x) {\n        g();\n    }\n}\n' >>"$WORK/planted/runtime/data/rt_eval.c"
    found "braces around one statement" needless_braces "rt_eval.c:"
    seq 601 >"$WORK/planted/gen/base/long.c"
    found "a long file" long_files "long.c has 601 lines"
    printf '%s\n' 'int f(void)' '{' "$(seq -f '    g(%.0f);' 61)" '}' \
        >"$WORK/planted/runtime/data/rt_long.c"
    found "a long function" long_functions "rt_long.c:2: a function of 61 lines"
    cp "$WORK/planted/runtime/data/rt_long.c" "$WORK/planted/templates/ops/scale/cuda.cu"
    found "a long kernel" long_functions "scale/cuda.cu:2: a function of 61 lines"
    printf '%s\n' 'return {' '    f = function()' "$(seq -f '        g(%.0f)' 61)" '    end,' '}' \
        >"$WORK/planted/gen/lua/long.lua"
    found "a long function in Lua" long_functions "long.lua:2: a function of 61 lines"
    seq 601 >"$WORK/planted/tests/long.sh"
    found "a long test" long_files "long.sh has 601 lines"
    echo 'The user is' >>"$WORK/planted/docs/data.md" && echo 'told of it.' >>"$WORK/planted/docs/data.md"
    found "a strange phrase in a page" strange_english "docs/data.md"
    echo 'const char *planted = "file: nobody reads it";' >>"$WORK/planted/gen/base/show.c"
    found "one in a message" strange_english "gen/base/show.c"
    printf '/* For the one reader\n * at hand. */\n' >>"$WORK/planted/runtime/rt_main.c"
    found "one in a comment" strange_english "runtime/rt_main.c:"
    printf '/* Threads take what is\n * read by the own rank, each rank a slice\n * for all. */\n' \
        >>"$WORK/planted/runtime/rt_main.c"
    found "an old sentence in a comment" old_sentences "runtime/rt_main.c: each rank a slice for all"
    mkdir "$WORK/planted/tests/twice"
    echo 'eval_of() { :; }' | tee "$WORK/planted/tests/twice/run.sh" >"$WORK/planted/tests/twice/more.sh"
    found "a function of a test that stands twice" functions_twice "eval_of() is of"
    rm -r "$WORK/planted/tests/twice"
    mkdir "$WORK/planted/tests/deaf" "$WORK/planted/tests/lax"
    printf '%s\n' '#!/bin/sh' 'echo "skipped: no $1 is here"' >"$WORK/planted/tests/deaf/run.sh"
    printf '%s\n' '#!/bin/sh' 'echo one' >"$WORK/planted/tests/lax/run.sh"
    chmod +x "$WORK/planted/tests"/*/run.sh
    found "a suite that does not list its parts" suites_without_names "deaf/run.sh --list: status 0"
    found "a suite that refuses no name" suites_without_names "lax/run.sh no.such.part: status 0"
}

# A suite whose children are signalled as soon as they are forked keeps its folder; one whose own end
# comes removes it.
signalled() {
    local folder
    mkdir "$WORK/suite" && cat >"$WORK/suite/run.sh" <<END
. "$ROOT/tests/lib.sh"
for _ in \$(seq 50); do
    (sleep 1) &
    kill -TERM \$!
    wait \$!
done 2>/dev/null
echo "folder \$WORK"
finish
END
    check "children that get signals do not remove a suite's folder" bash "$WORK/suite/run.sh"
    folder=$(sed -n 's/^folder //p' "$WORK/check.log")
    check "the suite does" test -n "$folder" -a ! -e "$folder"
}

part gen none "gen: includes point downward" gen_includes "$ROOT"
part runtime none "runtime: includes point downward" runtime_includes "$ROOT"
part calls none "runtime: calls point downward" runtime_calls "$ROOT"
part optimizers none "gen: no optimizer is known by name" optimizer_names "$ROOT"
part keys none "gen: no parameter has a key that kernels do not take" keyed_parameters "$ROOT"
part lengths none "files have at most 600 lines" long_files "$ROOT"
part functions none "functions have at most 60 lines" long_functions "$ROOT"
part median none "the median file has less than 300 lines" median_length "$ROOT"
part libm none "gen: no function of libm that machines round differently" libm_calls "$ROOT"
part headers none "files begin with their names" headers "$ROOT"
part format format
part contracts none "contracts have one form" contracts "$ROOT"
part rulers none "rulers of comments are whole" torn_rulers "$ROOT"
part braces none "single statements have no braces" needless_braces "$ROOT"
part english english
part names none "every suite takes names of its parts" suites_without_names "$ROOT"
part functions_twice none "a suite's functions stand once" functions_twice "$ROOT"
part planted planted
part signalled signalled
finish
