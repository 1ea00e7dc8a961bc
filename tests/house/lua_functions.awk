# SPDX-License-Identifier: Apache-2.0
# Functions in Lua of more than 60 lines: from a line with `function` to the `end` that stands as
# far from the left.
FNR == 1 { depth = 0 }
{
    indent = match($0, /[^ ]/) - 1
    while (depth > 0 && indent >= 0 && indent < at[depth]) depth--
    if (depth > 0 && indent == at[depth] && /^ *end([^a-zA-Z_0-9]|$)/) {
        if (FNR - from[depth] - 1 > 60)
            print FILENAME ":" from[depth] ": a function of " FNR - from[depth] - 1 " lines"
        depth--
    }
}
/(^|[^a-zA-Z_])function[ (]/ && !/^ *--/ && !/[^a-zA-Z_]end[ ,;)}]*$/ {
    depth++
    at[depth] = indent
    from[depth] = FNR
}
