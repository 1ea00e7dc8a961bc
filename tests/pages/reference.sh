# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. What pages say of fields and flags is what the code says of itself.

printed() {
    if [ "${1:-}" != size ]; then
        "$FSDPGEN" docs "$@"
        return
    fi
    echo '```text'
    "$FSDPGEN" size models/[g-z]*.lua --gpu a100-80gb --gpu h100 --gpu h200 --gpu b200 --gpu rtx4090 \
        --price a100-80gb=1.50 --price h100=2.50 --price h200=3.00 --price b200=5.00 --price rtx4090=0.40
    echo '```'
}

generated() { # PAGE NAME [WHAT]: the part between two comments is what fsdpgen docs prints
    sed -n "/^<!-- $2 -->\$/,/^<!-- end of $2 -->\$/p" "$1" | sed '1d;$d' >"$WORK/page_part"
    # shellcheck disable=SC2086
    printed ${3:-} | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' >"$WORK/docs_part"
    if [ "$update" = 1 ]; then # with --update the page gets it
        awk -v from="<!-- $2 -->" -v to="<!-- end of $2 -->" -v part="$WORK/docs_part" '
            $0 == to { while ((getline line <part) > 0) print line; inside = 0 }
            !inside { print }
            $0 == from { inside = 1 }' "$1" >"$WORK/page" && cp "$WORK/page" "$1"
        cp "$WORK/docs_part" "$WORK/page_part"
    fi
    check "$1 has what $2 prints" diff "$WORK/page_part" "$WORK/docs_part"
}

generated docs/reference.md "fsdpgen docs"
generated docs/reference.md "fsdpgen docs options" options
generated docs/op_list.md "fsdpgen docs ops" ops
turn 2 4 generated docs/sizing.md "fsdpgen size" size
generated docs/trainer.md "fsdpgen docs trainer-options" trainer-options
generated docs/migrate.md "fsdpgen docs accelerate" accelerate

# The GPUs of gen/lua/machines.lua against what docs/sizing.md says is stated: multiprocessors, peak, and
# the attainable share of the memory's rate; and the stated peak against what the clock allows.
stated_rates() {
    sed -n 's/^    { "\([a-z0-9-]*\)", arch.*rates = { \([0-9., ]*\) } },$/\1,\2/p' gen/lua/machines.lua |
        tr -d ' ' >"$WORK/gpus"
    sed -n 's/^| `\([a-z0-9-]*\)` | [^|]*| \([0-9.]*\) | \([0-9]*\) x \([0-9]*\) x \([0-9.]*\) | \([0-9]*\) | [A-Z].*/\1,\2,\3,\4,\5,\6/p' \
        docs/sizing.md >"$WORK/stated"
    awk -F, 'FILENAME != last { last = FILENAME; files++ }
        files == 1 { memory[$1] = $3; peak[$1] = $5; sms[$1] = $8; n++; next }
        { rows++
          clocked = $3 * $4 * $5 / 1000
          if (!($1 in peak) || peak[$1] != $2 || sms[$1] != $3) print $1 ": not what machines.lua has"
          if (clocked < 0.995 * $2 || clocked > 1.005 * $2) print $1 ": its clock allows " clocked
          if (memory[$1] < 0.8 * $6 || memory[$1] > 0.9 * $6) print $1 ": memory is not 80 to 90 %" }
        END { if (rows != n || n < 8) print rows " rows of " n }' "$WORK/gpus" "$WORK/stated" >"$WORK/wrong"
    cat "$WORK/wrong"
    [ ! -s "$WORK/wrong" ]
}
check "docs/sizing.md: what is stated of each GPU" stated_rates
