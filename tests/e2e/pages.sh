# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. What docs/ says of fields and flags is what the code says of itself.

readme() {
    sed -n '/^<!-- fsdpgen docs -->$/,/^<!-- end of fsdpgen docs -->$/p' "$ROOT/docs/reference.md" |
        sed '1d;$d' >"$WORK/readme_fields"
    "$FSDPGEN" docs | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' >"$WORK/docs_fields"
    if cmp -s "$WORK/readme_fields" "$WORK/docs_fields"; then
        ok "docs/reference.md's fields are those of fsdpgen docs"
    else
        diff "$WORK/readme_fields" "$WORK/docs_fields" >"$WORK/docs.diff"
        bad "docs/reference.md's fields differ from fsdpgen docs" "$WORK/docs.diff"
    fi
    sed -n '/^<!-- fsdpgen docs accelerate -->$/,/^<!-- end of fsdpgen docs accelerate -->$/p' \
        "$ROOT/docs/migrate.md" | sed '1d;$d' >"$WORK/readme_accelerate"
    "$FSDPGEN" docs accelerate >"$WORK/docs_accelerate"
    check "docs/migrate.md's table is that of fsdpgen docs accelerate" \
        diff "$WORK/readme_accelerate" "$WORK/docs_accelerate"
    local missing="" flag
    for flag in $("$FSDPGEN" --help | grep -o '^ *\(-o, \)\{0,1\}--[a-z-]*' | grep -o '\--[a-z-]*'); do
        grep -rq -- "$flag" "$ROOT/docs" || missing="$missing $flag"
    done
    same "docs/ names every option; missing" "${missing:-none}" "none"
}
