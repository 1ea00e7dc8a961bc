# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. The tutorial, and README's first model, command by command as they stand there,
# on this build; then the blocks of other pages that say `run`, in the folder that it leaves. What
# installs packages or builds fsdpgen is not run: CI has done it.
export CC_CACHE=${CC_CACHE:-$WORK/objects}
export CC=$ROOT/tests/cc_cached "${ISA_MAKE[@]}"
tutorial=$WORK/tutorial
mkdir -p "$tutorial/bin"
ln -s "$FSDPGEN" "$tutorial/bin/fsdpgen"
for name in README.md docs models tests out templates runtime; do ln -s "$ROOT/$name" "$tutorial/$name"; done
sed "s/tied = /teid = /" "$blocks"/tutorial.md.*.lua >"$tutorial/wrong.lua"

run_block() { # BLOCK: its commands, as a person types them; the first that fails ends it
    (cd "$tutorial" && PATH=$tutorial/bin:$PATH timeout 300 bash -e -o pipefail "$1") \
        >"$WORK/block.log" 2>&1 </dev/null
}

# The blocks of one page, in order: files are written, commands run if WHICH matches the directive.
run_page() { # PAGE WHICH
    local file page line language directive
    while IFS='|' read -r file page line language directive; do
        [ "$page" = "$1" ] || continue
        case $directive in
        "file "*) cp "$file" "$tutorial/${directive#file }"; continue ;;
        "output of "*)
            [ "$page" = docs/tutorial.md ] || continue
            (cd "$tutorial" && PATH=$tutorial/bin:$PATH bash -c "${directive#output of }") \
                >"$WORK/output" 2>&1
            check "$page:$line is printed" in_order "$file" "$WORK/output"
            continue ;;
        esac
        [ "$language" = sh ] || continue
        # shellcheck disable=SC2254 # a pattern
        case $directive in $2) ;; *) continue ;; esac
        ! grep -qE '^(cmake|\./demo\.sh|\./test\.sh)' "$file" || continue
        if run_block "$file"; then ok "$page:$line runs"; else bad "$page:$line" "$WORK/block.log"; fi
    done <"$WORK/list"
}

hex_of() { # LOG: losses and norms to the bit, of steps until 30
    grep -o '"step": *[0-9]*\|"\(loss\|grad_norm\)_hex": *"[^"]*"' "$1" | paste - - - |
        awk '{ sub(/.*: */, "", $0) } 1' | sed -n 1,30p
}

started=$SECONDS
run_page docs/tutorial.md '*'
check "the tutorial saved at 30, 60 and 80" test -d "$tutorial/ck/step-00000030" -a \
    -d "$tutorial/ck/step-00000060" -a -d "$tutorial/ck/step-00000080"
check "its losses on 4 ranks are those on 2" cmp <(grep -c . <(hex_of "$tutorial/log4.jsonl"); hex_of \
    "$tutorial/log4.jsonl") <(echo 30; hex_of "$tutorial/log.jsonl")
check "its model learned" awk '
    match($0, /"loss": *[0-9.]+/) { v = substr($0, RSTART, RLENGTH); sub(/.* |.*:/, "", v)
                                    last = v; if (!n++) first = v }
    END { exit !(last < first - 2) }' "$tutorial/log.jsonl"
echo "Figure: the tutorial's commands took $((SECONDS - started)) s here"

for page in docs/*.md; do [ "$page" = docs/tutorial.md ] || run_page "$page" run; done

# README's model is the tutorial's; its commands train it from the start, in one run of four. They
# save where README says, so the folder is read from its command.
check "README and the tutorial describe one model" cmp "$blocks"/README.md.*.lua \
    "$blocks"/tutorial.md.*.lua
readme() {
    local saved
    saved=$(sed -n 's/.*--data .*--checkpoint \([^ ]*\).*/\1/p' "$blocks"/README.md.*.sh)
    run_page README.md '*'
    check "README's first model saved" test -d "$tutorial/${saved:-no folder}/step-00000060"
}
turn 3 4 readme
