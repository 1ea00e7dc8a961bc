# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. What pages say of fields and flags is what the code says of itself.

generated() { # PAGE BEGIN END [WHAT]: the part between two comments is what fsdpgen docs prints
    sed -n "/^<!-- $2 -->\$/,/^<!-- end of $2 -->\$/p" "$1" | sed '1d;$d' >"$WORK/page_part"
    # shellcheck disable=SC2086
    "$FSDPGEN" docs ${3:-} | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' >"$WORK/docs_part"
    if [ "$update" = 1 ]; then # with --update the page gets it
        awk -v from="<!-- $2 -->" -v to="<!-- end of $2 -->" -v part="$WORK/docs_part" '
            $0 == to { while ((getline line <part) > 0) print line; inside = 0 }
            !inside { print }
            $0 == from { inside = 1 }' "$1" >"$WORK/page" && cp "$WORK/page" "$1"
        cp "$WORK/docs_part" "$WORK/page_part"
    fi
    check "$1 has what fsdpgen docs ${3:-} prints" diff "$WORK/page_part" "$WORK/docs_part"
}

generated docs/reference.md "fsdpgen docs"
generated docs/reference.md "fsdpgen docs options" options
generated docs/op_list.md "fsdpgen docs ops" ops
generated docs/trainer.md "fsdpgen docs trainer-options" trainer-options
generated docs/migrate.md "fsdpgen docs accelerate" accelerate
