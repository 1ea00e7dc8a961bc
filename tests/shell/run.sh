#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command line as people meet it: options that a command does not take, suggestions, help; what
# is made of the one table (completions, manual pages, the reference); `fsdpgen init`; annotations
# for editors, by a checker of ours; the Dockerfiles.
set -u
. "$(cd "$(dirname "$0")/.." && pwd)/lib.sh"
here=$ROOT/tests/shell
commands="generate plan check import diff report init test-op tune size tokenize completion"

# wrong WHAT LINE ARGS...: exit 2, nothing on stdout, and that line first on stderr
wrong() {
    local what=$1 line=$2 status
    shift 2
    "$FSDPGEN" "$@" >"$WORK/out" 2>"$WORK/err" </dev/null
    status=$?
    if [ $status = 2 ] && [ ! -s "$WORK/out" ] && [ "$(head -n 1 "$WORK/err")" = "fsdpgen: $line" ]; then
        ok "$what"
    else
        bad "$what: status $status" "$WORK/err"
    fi
}

options() {
    cd "$WORK" || exit 70
    wrong "an unknown option" "check: unknown option --sett; did you mean --set?" check x.lua --sett a=1
    wrong "one like none" "check: unknown option --frobnicate; a field of the description is set by --set FIELD=VALUE" check x.lua --frobnicate
    wrong "another command's" 'check: --output is not an option of `check`, but of: generate, tune, report, tokenize' check x.lua --output d
    wrong "another command's, by its letter" 'check: --output is not an option of `check`, but of: generate, tune, report, tokenize' check x.lua -o d
    wrong "one of plan, for the default" '--json is not an option of `generate`, but of: plan, tune, size, diff, report' x.lua -o d --json
    wrong "one of tokenize" 'diff: --decode is not an option of `diff`, but of: tokenize' diff a b --decode
    wrong "one of plan, for tokenize" 'tokenize: --json is not an option of `tokenize`, but of: plan, tune, size, diff, report' \
        tokenize --json x.txt
    wrong "an unknown command" \
        "unknown command plam; did you mean plan; without a command a description is generated" plam
    wrong "one like none" \
        "unknown command frobnicate; without a command a description is generated" frobnicate x.lua
    wrong "no description" "plan: no description is given; write: fsdpgen plan MODEL.lua" plan
    wrong "no word" "no description is given; write: fsdpgen generate MODEL.lua -o DIR" -o d
    wrong "two descriptions" 'plan: `b.lua` is one word too many; write: fsdpgen plan MODEL.lua' plan a.lua b.lua
    wrong "one side of a diff" \
        "diff: two generated folders or descriptions are needed; write: fsdpgen diff A B" diff a
    wrong "no folder" "no folder is given to write: -o DIR" x.lua
    wrong "a pass" 'check: --dump: there is no "shrad"; did you mean shard?' check x.lua --dump shrad
    wrong "a colour" 'check: --color: there is no "blue"; there are: auto, always, never' check x.lua --color=blue
    wrong "a shell" "completion: there is no \"ksh\"; did you mean zsh?" completion ksh
    wrong "no shell" "completion: no shell is named; write: fsdpgen completion bash|zsh|fish [--trainer]" completion
    wrong "a value for a switch" "plan: --json takes no value" plan x.lua --json=1
    wrong "no value" "--output needs a value: --output DIR" x.lua -o
    wrong "an option for a value" \
        "--output needs a value, DIR, but --check is an option; if it is meant: --output=--check" x.lua -o --check
    wrong "two forms" "plan: --all and --json: one at a time" plan x.lua --json --all
    wrong "a dump and a table" "plan: --dump and --kernels: one at a time" plan x.lua --kernels --dump graph
    wrong "a dump and a page" "plan: --dump and --html: one at a time" plan x.lua --html x.html --dump graph
    wrong "a dump and a check" "--dump and --check: one at a time" x.lua -o d --check --dump load
    wrong "a dump and a folder" "--dump and --output: one at a time" x.lua -o d --dump=place
    wrong "a dump and a trace" "plan: --dump and --trace: one at a time" plan x.lua --dump graph --trace x.json
    wrong "a count" 'tokenize: --threads: `0` is not between 1 and 256' tokenize --threads 0 x.txt
    check "options stand before the command, too" bash -c "'$FSDPGEN' --color never check x.lua 2>&1 |
        grep -q '^x.lua: error: cannot read the description'"
    cd "$ROOT" || exit 70
}

# The names of the options of a command: "--output --set ...", out of its help.
named() { "$FSDPGEN" "$1" --help | sed -n 's/^  \(-[a-z], \|    \)\(--[a-z-]*\).*/\2/p'; }

help() {
    local command
    for command in $commands; do
        "$FSDPGEN" "$command" --help >"$WORK/help" 2>&1 || bad "$command --help" "$WORK/help"
        check "$command --help is its own" grep -q "^fsdpgen $command: " "$WORK/help"
        check "$command --help fits a terminal" test -z "$(awk 'length > 90' "$WORK/help")"
        check "$command -h is the same" cmp "$WORK/help" <("$FSDPGEN" "$command" -h)
    done
    check "check --help has no options of others" test "$(named check | xargs)" = \
        "--set --target --path --ops --machines --dump --color --help"
    "$FSDPGEN" --help >"$WORK/help"
    for command in $commands; do
        check "--help names $command" grep -q "^  $command  *[a-z]" "$WORK/help"
    done
}

# completes PROGRAM WHAT "EXPECTED" WORDS...: what bash proposes for the last word, in order
completes() {
    local program=$1 what=$2 want=$3 word words=() got
    shift 3
    for word; do # as readline cuts them
        case $word in
        *=) words+=("${word%=}" =) ;;
        *=*) words+=("${word%%=*}" = "${word#*=}") ;;
        *) words+=("$word") ;;
        esac
    done
    got=$(cd "$WORK/files" && bash --norc -c 'source "$1"; f=_$2; shift; COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1)); $f; printf "%s\n" "${COMPREPLY[@]}"' - "$WORK/$program.bash" "$program" \
        "${words[@]}" 2>&1 | sort | xargs)
    if [ "$got" = "$want" ]; then
        ok "bash: $what"
    else
        echo "$got" >"$WORK/got"
        bad "bash: $what, not '$want'" "$WORK/got"
    fi
}

completion_bash() {
    local command
    mkdir -p "$WORK/files/folder"
    touch "$WORK/files/a.lua" "$WORK/files/b c.lua" "$WORK/files/x.txt"
    "$FSDPGEN" completion bash >"$WORK/fsdpgen.bash" || bad "completion bash"
    "$FSDPGEN" completion bash --trainer >"$WORK/trainer.bash" || bad "completion bash --trainer"
    for command in $commands; do
        completes fsdpgen "options of $command" "$(named "$command" | sort | xargs)" "$command" --
    done
    completes fsdpgen "commands" "plan" pl
    completes fsdpgen "commands and descriptions" "a.lua b c.lua check completion diff docs folder generate import init plan report size test-op tokenize tune" ""
    completes fsdpgen "descriptions" "a.lua b c.lua folder" plan ""
    completes fsdpgen "passes" "shard" plan a.lua --dump sh
    completes fsdpgen "passes, behind =" "schedule" plan a.lua --dump=sche
    completes fsdpgen "the start of a value, behind =" "always auto never" plan a.lua --color=
    completes fsdpgen "targets" "cpu cuda" a.lua --target ""
    completes fsdpgen "fields" "mesh.context= mesh.node= mesh.replicate= mesh.shard= mesh.tensor=" a.lua --set mesh.
    completes fsdpgen "fields of what a record may be" "optimizer.lr=" check a.lua --set optimizer.l
    completes fsdpgen "nothing behind a field's =" "" check a.lua --set seq=
    completes fsdpgen "folders" "folder" a.lua -o ""
    completes fsdpgen "files" "a.lua b c.lua bytes folder x.txt" tokenize --tokenizer ""
    completes fsdpgen "names and files" "chatml" tokenize --template ch
    completes fsdpgen "nothing for a number" "" tokenize --threads ""
    completes fsdpgen "shells" "bash fish zsh" completion ""
    completes fsdpgen "what init begins with" "gpt2 llama" init --arch ""
    completes fsdpgen "after an option's value" "--set" --color never check a.lua --se
    completes trainer "flags" "--check-data --checkpoint --checkpoint-every --checkpoint-seconds" --check
    completes trainer "flags of a command" "--top-k --top-p" sample --top
    completes trainer "a word behind =" "must" --resume=
    completes trainer "files of data" "x.txt" --data x
    completes trainer "folders" "folder" --checkpoint ""
    completes trainer "commands" "sample" sam
    completes trainer "a folder for a command" "folder" verify ""
}

# What fish proposes for the line, without descriptions.
fish_says() { # PROGRAM WHAT "EXPECTED" LINE
    local got
    got=$(cd "$WORK/files" && HOME=$WORK fish --no-config -c 'source $argv[1]; complete -C $argv[2]' \
        "$WORK/$1.fish" "$4" 2>&1 | cut -f 1 | sort | xargs)
    if [ "$got" = "$3" ]; then ok "fish: $2"; else echo "$got" >"$WORK/got"; bad "fish: $2" "$WORK/got"; fi
}

completion_fish() {
    command -v fish >/dev/null || return
    fish_says fsdpgen "options of a command" \
        "--all --color --dump --fabric --force --help --html --image --json --kernels --machines --nodes --ops --path --price --rates --set --target --tokens --trace" "fsdpgen plan --"
    fish_says fsdpgen "commands" plan "fsdpgen pl"
    fish_says fsdpgen "fields" "mesh.context= mesh.node= mesh.replicate= mesh.shard= mesh.tensor=" "fsdpgen a.lua --set mesh."
    fish_says fsdpgen "passes" "--dump=schedule" "fsdpgen check a.lua --dump=sche"
    fish_says fsdpgen "shells" "bash fish zsh" "fsdpgen completion "
    fish_says trainer "flags of a command" "--tokens --top-k --top-p" "./trainer sample --to"
    fish_says trainer "a word behind =" "--resume=must" "trainer --resume="
}

# What an interactive zsh proposes for the line after a Tab.
zsh_says() { # PROGRAM WHAT "EXPECTED" LINE
    local got
    HOME=$WORK timeout 60 zsh -f "$here/complete.zsh" "$WORK/zsh" "$WORK/files" "$WORK/proposed" "$4" \
        >"$WORK/zsh.log" 2>&1 || { bad "zsh: $2" "$WORK/zsh.log"; return; }
    got=$(grep -vx 'done' "$WORK/proposed" | sort -u | xargs)
    if [ "$got" = "$3" ]; then ok "zsh: $2"; else echo "$got" >"$WORK/got"; bad "zsh: $2" "$WORK/got"; fi
}

completion_zsh() {
    command -v zsh >/dev/null || return
    mkdir -p "$WORK/zsh" "$WORK/files/folder"
    touch "$WORK/files/a.lua" "$WORK/files/x.txt"
    cp "$WORK/fsdpgen.zsh" "$WORK/zsh/_fsdpgen"
    cp "$WORK/trainer.zsh" "$WORK/zsh/_trainer"
    zsh_says fsdpgen "options of a command" \
        "--all --color --dump --fabric --force --help --html --image --json --kernels --machines --nodes --ops --path --price --rates --set --target --tokens --trace" "fsdpgen plan --"
    zsh_says fsdpgen "commands" plan "fsdpgen pl"
    zsh_says fsdpgen "fields" "mesh.context mesh.node mesh.replicate mesh.shard mesh.tensor" "fsdpgen a.lua --set mesh."
    zsh_says fsdpgen "passes" schedule "fsdpgen check a.lua --dump=sche"
    zsh_says fsdpgen "folders" folder "fsdpgen a.lua -o "
    zsh_says trainer "flags of a command" "--tokens --top-k --top-p" "trainer sample --to"
    zsh_says trainer "a word behind =" must "trainer --resume="
    zsh_says trainer "files of data" x.txt "trainer --data x"
}

# shell_reads SHELL FILE...: it reads that without running it
shell_reads() {
    local shell=$1 file
    shift
    if ! command -v "$shell" >/dev/null; then
        echo "skipped: $shell is not installed: its completions are not read by it"
        return
    fi
    for file; do check "$shell reads $(basename "$file")" "$shell" -n "$file"; done
}

completion_others() {
    local shell command flag form
    for shell in zsh fish; do
        "$FSDPGEN" completion $shell >"$WORK/fsdpgen.$shell" || bad "completion $shell"
        "$FSDPGEN" completion $shell --trainer >"$WORK/trainer.$shell" || bad "completion $shell --trainer"
        for command in $commands; do
            for flag in $(named "$command"); do
                case $shell in zsh) form="$flag[]=}['\\[]" ;; *) form="-l ${flag#--} " ;; esac
                check "$shell: $command $flag" grep -q -e "$form" "$WORK/fsdpgen.$shell"
            done
        done
        check "$shell: a field" grep -q 'optimizer\.lr' "$WORK/fsdpgen.$shell"
        check "$shell: a flag of trainers" grep -q -e 'checkpoint-every' "$WORK/trainer.$shell"
        shell_reads $shell "$WORK/fsdpgen.$shell" "$WORK/trainer.$shell"
    done
    mkdir -p "$WORK/files"
    completion_fish
    completion_zsh
}

manual() {
    local page
    for page in man man-trainer; do
        "$FSDPGEN" docs $page >"$WORK/$page.1" || bad "docs $page"
        if command -v groff >/dev/null; then
            groff -ww -man -z "$WORK/$page.1" >"$WORK/$page.log" 2>&1
            check "groff has no warning about $page" test ! -s "$WORK/$page.log"
        else
            echo "skipped: groff is not installed"
        fi
        if command -v mandoc >/dev/null; then
            # pages have no date, so that their bytes do not depend on the clock
            mandoc -T lint -W warning "$WORK/$page.1" 2>&1 | grep -v 'missing date' >"$WORK/$page.log"
            check "mandoc has no warning about $page" test ! -s "$WORK/$page.log"
        fi
    done
    local command flag
    for page in man man-trainer; do sed 's/\\-/-/g; s/\\f[BIR]//g' "$WORK/$page.1" >"$WORK/$page.txt"; done
    for command in $commands; do
        for flag in $(named "$command"); do
            [ "$flag" = --help ] || check "the page has $flag" grep -q -e "^\(-[a-z], \)\{0,1\}$flag\b" "$WORK/man.txt"
        done
    done
    for flag in --data --checkpoint-every --resume --top-k --no-graphs --meet; do
        check "the trainer's page has $flag" grep -q -e "^$flag\b" "$WORK/man-trainer.txt"
    done
}

# What `fsdpgen init` writes is a description that generates, whatever was asked for.
init() {
    cd "$WORK" || exit 70
    local arch target file
    "$FSDPGEN" init mine/first.lua >"$WORK/out" 2>"$WORK/err" || bad "init" "$WORK/err"
    "$FSDPGEN" init $'mine/x\nos.lua' >"$WORK/out2" 2>"$WORK/err2"
    check "init: a name with a newline" test $? = 2 -a ! -s "$WORK/out2"
    check "init: says what is next" grep -qx '  fsdpgen first.lua -o build/first' "$WORK/out"
    check "init: the description is the template" cmp mine/first.lua \
        <(sed 's/${file}/first.lua/; s/${name}/first/; s/${param}/f32/; s/${shard}/2/; s/${target}/target = cpu {},/' \
            "$ROOT/templates/init/llama.lua")
    check "init: annotations are the shipped ones" cmp mine/.fsdpgen/fsdpgen.lua "$ROOT/models/fsdpgen.lua"
    check "init: architectures, too" cmp mine/.fsdpgen/arch/gpt2.lua "$ROOT/models/arch/gpt2.lua"
    check "init: its settings name the annotations" grep -q '"workspace.library": \[".fsdpgen"\]' mine/.luarc.json
    check "init: what is next works" sh -c "cd mine && '$FSDPGEN' plan first.lua && '$FSDPGEN' first.lua -o build/first"
    for arch in llama gpt2; do
        for target in cpu cuda; do
            file=$arch-$target/My-Model.2.lua
            check "init --arch $arch --target $target" "$FSDPGEN" init "$file" --arch $arch --target $target
            "$FSDPGEN" check "$file" >"$WORK/out" 2>"$WORK/err"
            check "it generates without a warning" test $? = 0 -a ! -s "$WORK/err"
            check "check names what it checked" grep -qE "^$arch-$target/My-Model\.2\.lua: ok, $arch, [0-9.]+ M parameters on " "$WORK/out"
            check "it is for $target" grep -q "^    target = $target {" "$file"
            check "its name is legal" grep -q '^    name = "my_model_2",$' "$file"
            check "its commands are its own" grep -qx -- '--     fsdpgen My-Model.2.lua -o build/my_model_2' "$file"
            check "it fits a page" test "$(wc -l <"$file")" -ge 55 -a "$(wc -l <"$file")" -le 80
        done
    done
    mkdir here && (cd here && "$FSDPGEN" init) >"$WORK/out" 2>&1
    check "init: without a name" test -s here/model.lua -a -s here/.luarc.json
    "$FSDPGEN" init here >"$WORK/out" 2>"$WORK/err"
    check "init: into a folder that has one: exit 1" test $? = 1 -a ! -s "$WORK/out"
    check "init: it names the file in the way" grep -qx 'fsdpgen: error: init: here/model.lua: exists; --force replaces it' "$WORK/err"
    echo "// edited" >>here/.luarc.json
    check "init: a second description beside it" "$FSDPGEN" init here/second.lua
    check "init: an editor's settings are kept" grep -q edited here/.luarc.json
    echo "-- edited" >>here/model.lua
    check "init --force" "$FSDPGEN" init here/ --force
    check "init --force replaces it" sh -c "! grep -q edited here/model.lua"
    ln -sf /dev/null here/.luarc.json
    "$FSDPGEN" init here --force >"$WORK/out" 2>"$WORK/err"
    check "init: no link is followed" grep -q 'here/.luarc.json: exists, and is not a regular file' "$WORK/err"
    mkdir own.fsdpgen linked && echo mine | tee own.fsdpgen/model.lua >own.fsdpgen/fsdpgen.lua && ln -s ../own.fsdpgen linked/.fsdpgen
    "$FSDPGEN" init own.fsdpgen >"$WORK/out" 2>&1
    check "init: a folder whose name ends like the library's" test $? = 1 -a "$(cat own.fsdpgen/model.lua)" = mine
    "$FSDPGEN" init linked --force >"$WORK/out" 2>"$WORK/err"
    check "init: a library that is a link" test $? = 1 -a "$(cat own.fsdpgen/fsdpgen.lua)" = mine
    check "init: and it says so" grep -qx 'fsdpgen: error: init: linked/.fsdpgen: is a symbolic link; move it away' "$WORK/err"
    "$FSDPGEN" init /dev/null/x >"$WORK/out" 2>"$WORK/err"
    check "init: no folder can be made" test $? = 1
    check "init: and it says why" grep -q '/dev/null/x: Not a directory' "$WORK/err"
    check "init: nothing is left half written" test -z "$(find . -name '*.part')"
    cd "$ROOT" || exit 70
}

# What cmake --install puts where the shells and man look.
installed() {
    local file
    if [ ! -e "$BUILD/pages/fsdpgen.1" ]; then
        bad "the build has no pages: cmake --build"
        return
    fi
    check "cmake --install" cmake --install "$BUILD" --prefix "$WORK/prefix"
    for file in man/man1/fsdpgen.1 man/man1/fsdpgen-trainer.1 bash-completion/completions/fsdpgen \
        bash-completion/completions/trainer zsh/site-functions/_fsdpgen zsh/site-functions/_trainer \
        fish/vendor_completions.d/fsdpgen.fish fish/vendor_completions.d/trainer.fish; do
        check "installed: $file" test -s "$WORK/prefix/share/$file"
    done
    check "the installed page is what docs prints" cmp "$WORK/prefix/share/man/man1/fsdpgen.1" \
        <("$FSDPGEN" docs man)
}

# What an editor with the Lua language server would say of descriptions: a checker of ours over the
# annotations. It finds nothing in what is shipped, and each mistake that is planted in a copy.
editor_says() { "$WORK/lua_run" "$here/annotations/check.lua" "$here/annotations" "$@"; }

finds() { # WHAT FILE SED MESSAGE: in a copy of models/, with that edit
    rm -rf "$WORK/planted"
    cp -R "$ROOT/models" "$WORK/planted"
    sed -i "$3" "$WORK/planted/$2"
    editor_says "$WORK/planted/fsdpgen.lua" "$WORK"/planted/{demo,llama8b}.lua "$WORK"/planted/arch/*.lua \
        >"$WORK/found" 2>&1
    if cmp -s "$ROOT/models/$2" "$WORK/planted/$2"; then
        bad "annotations: $1: nothing is planted"
    elif grep -qF "/planted/$2:" "$WORK/found" && grep -qF "$4" "$WORK/found"; then
        ok "annotations: $1"
    else
        bad "annotations: $1: no '$4'" "$WORK/found"
    fi
}

annotations() {
    local lua description
    for lua in lua5.4 lua-5.4 lua54 lua; do pkg-config --exists $lua && break; done
    # shellcheck disable=SC2046
    cc -O1 "$ROOT/tests/graph/lua_run.c" -o "$WORK/lua_run" $(pkg-config --cflags --libs $lua) ||
        { bad "lua_run.c"; return; }
    check "annotations: models/ and its architectures" editor_says "$ROOT/models/fsdpgen.lua" \
        $(find "$ROOT/models" -name '*.lua' ! -name fsdpgen.lua | sort)
    "$FSDPGEN" init "$WORK/edited/a.lua" >/dev/null && "$FSDPGEN" init "$WORK/edited/b.lua" --arch gpt2 \
        --target cuda --force >/dev/null || bad "init"
    check "annotations: what init writes, by the library beside it" editor_says \
        "$WORK/edited/.fsdpgen/fsdpgen.lua" "$WORK/edited/a.lua" "$WORK/edited/b.lua"
    finds "a text for a number" llama8b.lua 's/dim = 4096/dim = "4096"/' \
        'fsdpgen.llama.dimensions.dim is "4096", not integer'
    finds "an unknown dimension" llama8b.lua 's/ffn = /fnn = /' 'fsdpgen.llama.dimensions has no field fnn'
    finds "a missing one" llama8b.lua 's/heads = 32, //' 'fsdpgen.llama.dimensions needs the field heads'
    finds "an unknown name of an architecture" llama8b.lua 's/scaling_3_1/scaling_3_3/' 'has no field scaling_3_3'
    finds "an unknown field" llama8b.lua 's/seq = 8192/seqq = 8192/' 'fsdpgen.trainer has no field seqq'
    finds "one of a table" llama8b.lua 's/mesh = {/mesh = { tensr = 1,/' 'fsdpgen.trainer.mesh has no field tensr'
    finds "one of an optimizer" llama8b.lua 's/adamw {/adamw { momentum = 1,/' 'fsdpgen.adamw has no field momentum'
    finds "a value of a list" llama8b.lua 's/0.95 }/"0.95" }/' 'betas[2] is "0.95", not number'
    finds "a fraction for an integer" llama8b.lua 's/steps = 100000/steps = 1e5/' 'cosine.steps is number, not integer'
    finds "a word" llama8b.lua 's/mesh = {/recompute = "all", mesh = {/' 'recompute is "all", not "none"'
    finds "a schedule for an optimizer" llama8b.lua 's/^    lr = cosine/    optimizer = cosine/' \
        'optimizer is fsdpgen.cosine, not'
    finds "an unknown constructor" llama8b.lua 's/adamw {/adamm {/' 'there is no adamm'
    finds "names of units" demo.lua 's/mesh = {/wrap = by_name { "a", 3 }, mesh = {/' \
        'fsdpgen.by_name[2] is integer, not string|string[]'
    finds "an unknown method" arch/llama.lua 's/g:param/g:parm/' 'fsdpgen.g has no field parm'
    finds "an unknown op" arch/llama.lua 's/g\.swiglu/g.swigl/' 'fsdpgen.g has no field swigl'
    finds "a field that m lacks" arch/llama.lua 's/m\.attention_softcap,/m.attention_softcp,/' 'fsdpgen.llama.m has no field attention_softcp'
    finds "an attribute's type" arch/llama.lua 's/eps = m.norm_eps/eps = m.tied/' 'rmsnorm.eps is boolean, not number'
    finds "an unknown attribute" arch/llama.lua 's/window = way/windows = way/' 'fsdpgen.op.attention has no field windows'
    finds "a missing input" arch/llama.lua 's/g\.linear { act, w/g.linear { act/' 'fsdpgen.op.linear needs a value at 2'
    finds "a number for an input" arch/gpt2.lua 's/g\.gelu { up/g.gelu { 1/' 'gelu[1] is integer, not fsdpgen.value'
    finds "an argument" arch/llama.lua 's/g:cut "mlp_up"/g:cut(3)/' 'name of g.cut is integer, not string'
    finds "a missing argument" arch/gpt2.lua 's/b:block("embed", "embed", "transformer."/b:block("embed", "embed"/' \
        'prefix of b.block is a function, not string'
    finds "an initial value" arch/gpt2.lua 's/init = "ones"/init = "one"/' 'fsdpgen.param.init is "one", not'
    finds "what config gets" arch/gpt2.lua 's/t\.document_end/t.document_ends/' 'fsdpgen.config has no field document_ends'
    finds "a row's type" arch/gpt2.lua 's/{ "vocab", "int"/{ "vocab", "in"/' 'fsdpgen.row[2] is "in", not'
    finds "a class that is not declared" fsdpgen.lua 's/^---@class (exact) fsdpgen.part$/---@class fsdpgen.prt/' \
        'fsdpgen.part is not declared'
}

# The Dockerfiles (images.sh does their steps): packages, paths, tags, the user; and the files that
# they copy are enough for CMake.
packages_of() { # DOCKERFILE STAGE: the packages of its n-th apt-get install
    sed -e :a -e '/\\$/{N;s/\\\n//;ba' -e '}' "$1" | grep -o 'apt-get install -y --no-install-recommends [^&]*' |
        sed -n "$2p" | sed 's/.*recommends//' | xargs -n 1
}

dockerfiles() {
    local file name path want
    # shellcheck source=tests/deps.sh
    want=$(. "$ROOT/tests/deps.sh" && deps_table | sed -n 's/^build|\([^|]*\)|.*/\1/p' | sort)
    for file in "$ROOT"/docker/*.Dockerfile; do
        name=docker/$(basename "$file")
        check "$name builds with the packages of tests/deps.sh" test "$(packages_of "$file" 1)" = "$want"
        check "$name: what runs has a compiler and make" test "$(packages_of "$file" 2 | grep -cxE 'gcc|libc6-dev|make')" = 3
        check "$name: libraries, not their headers" test "$(packages_of "$file" 2 | grep -cE \
            '^(libjansson|liblua5.4-|libpcre2-8-|libutf8proc|libxxhash|libyaml-0-|libzstd)[0-9]+$')" = 7
        check "$name: each image has a tag" test -z "$(grep '^FROM ' "$file" | grep -vE '^FROM [a-z/]+:[a-z0-9.-]*[0-9][a-z0-9.-]*( AS [a-z]+)?$')"
        check "$name: no registry's host, no latest" test -z "$(grep -E '^FROM ([^/ ]*\.[^/ ]*/|.*:latest)' "$file")"
        check "$name: package lists are removed" test "$(grep -c 'rm -rf /var/lib/apt/lists' "$file")" = 2
        check "$name: its user has no rights" test "$(grep -E '^(USER|CMD|ENTRYPOINT) ' "$file" | head -n 1)" = "USER fsdpgen"
        check "$name is named in docs/operate.md" grep -q "docker build -f $name " "$ROOT/docs/operate.md"
        rm -rf "$WORK/context"
        mkdir "$WORK/context"
        for path in $(sed -n 's/^COPY \([^-].*\) [^ ]*$/\1/p' "$file"); do
            check "$name: $path exists" test -e "$ROOT/$path"
            mkdir -p "$WORK/context/$(dirname "$path")"
            cp -R "$ROOT/$path" "$WORK/context/$path"
        done
        check "$name: what it copies is what CMake needs" cmake -S "$WORK/context" -B "$WORK/context/build" \
            -DFSDPGEN_TESTS=OFF -DFSDPGEN_RUNTIME=OFF
        [ "$FULL" != 1 ] || check "$name: and builds" cmake --build "$WORK/context/build"
    done
    # the names of packages, where this system is the image's and has package lists
    if grep -q '^12' /etc/debian_version 2>/dev/null && apt-cache show libc6-dev >/dev/null 2>&1; then
        for path in $(packages_of "$ROOT/docker/cpu.Dockerfile" 1) $(packages_of "$ROOT/docker/cpu.Dockerfile" 2); do
            check "docker/cpu.Dockerfile: Debian 12 has $path" apt-cache show "$path"
        done
    fi
    check "there is one for each target" test "$(cd "$ROOT/docker" && echo *)" = "cpu.Dockerfile cuda.Dockerfile"
}

part options options
part help help
part completion_bash completion_bash
part completion_others completion_others
part manual manual
part init init
part installed installed
part annotations annotations
part test_op:installed turn 1 2 . "$here/test_op.sh"
part dockerfiles turn 0 2 dockerfiles
images() { # minutes, and packages from a mirror
    [ "$FULL" = 1 ] || [ ${#part_names[@]} -gt 0 ] || return 0
    . "$here/images.sh"
}
part images images
finish
