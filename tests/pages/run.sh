#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The pages people read, README.md and docs/: links lead somewhere, quoted files and outputs are what
# they are, commands parse and have flags that exist, the tutorial runs as it stands there, the
# reference and the pictures are what fsdpgen makes today (--update writes both).
set -u
. "$(cd "$(dirname "$0")/.." && pwd)/lib.sh"
here=$ROOT/tests/pages
cd "$ROOT" || exit 70
pages=(README.md docs/*.md)
blocks=$WORK/blocks
mkdir -p "$blocks"

extract() {
    awk -v out="$blocks" -f "$here/blocks.awk" "${pages[@]}" >"$WORK/list" 2>"$WORK/extract.log"
    check "each block ends, and names its language" test ! -s "$WORK/extract.log"
}

links() {
    local missing=$WORK/missing target place
    awk -f "$here/links.awk" "${pages[@]}" "${pages[@]}" >"$WORK/links"
    grep -v '^exists ' "$WORK/links" >"$missing"
    while read -r _ target place; do
        [ -e "$target" ] || echo "$place: no file $target" >>"$missing"
    done < <(grep '^exists ' "$WORK/links")
    if [ -s "$missing" ]; then bad "a link leads nowhere" "$missing"; else ok "links"; fi
    at_least "links" "$(grep -c '^exists ' "$WORK/links")" 60
    # each page can be reached from README
    for target in docs/*.md; do
        check "README leads to $target" grep -q "($target" README.md
    done
}

# A block's lines are in a text in this order; "..." skips. Blanks at the start do not count.
in_order() { # BLOCK TEXT
    awk 'function bare(s) { sub(/^ +/, "", s); sub(/ +$/, "", s); return s }
         NR == FNR { want[++n] = bare($0); next }
         { if (k < n && want[k + 1] == "...") k++
           if (k < n && bare($0) == want[k + 1]) k++ }
         END { while (k < n && want[k + 1] == "...") k++
               if (k < n) { print "not there: " want[k + 1]; exit 1 } }' "$1" "$2"
}

quotes() {
    local file page line language directive command
    while IFS='|' read -r file page line language directive; do
        case $directive in
        "in "*)
            if grep -qx ' *\.\.\.' "$file"; then
                check "$page:$line is in ${directive#in }" in_order "$file" "${directive#in }"
            else
                check "$page:$line is in ${directive#in }" contained "$file" "${directive#in }"
            fi ;;
        "output of "*)
            [ "$page" != docs/tutorial.md ] || continue # tutorial.sh has its files
            command=${directive#output of }
            case $command in "fsdpgen "*) ;; *) bad "$page:$line: what is $command?"; continue ;; esac
            # shellcheck disable=SC2086
            (eval "\"$FSDPGEN\" ${command#fsdpgen }") >"$WORK/output" 2>&1
            check "$page:$line is printed" in_order "$file" "$WORK/output" ;;
        esac
    done <"$WORK/list"
}

contained() { # BLOCK FILE: its lines stand there one after the other, whatever their indentation
    awk 'function bare(s) { sub(/^ +/, "", s); return s }
         NR == FNR { want[++n] = bare($0); next }
         { have[++m] = bare($0) }
         END { for (i = 1; i <= m - n + 1; i++) {
                   for (k = 1; k <= n && have[i + k - 1] == want[k]; k++) { }
                   if (k > n) exit 0 }
               print "its lines are not there"; exit 1 }' "$1" "$2"
}

part extract extract
part links links
part quotes:extract quotes
part commands:extract . "$here/commands.sh"
part reference . "$here/reference.sh"
part figures . "$here/drawn.sh"
part tutorial:extract turn 1 2 . "$here/tutorial.sh"
part html . "$here/html.sh"
finish
