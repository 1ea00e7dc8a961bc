# SPDX-License-Identifier: Apache-2.0
# Functions of more than 60 lines between their braces, which stand in the first column.
FNR == 1 { from = 0 }
/^\{/ || /^[a-zA-Z].*\) *\{$/ { from = FNR }
/^\}/ {
    if (from && FNR - from - 1 > 60) print FILENAME ":" from ": a function of " FNR - from - 1 " lines"
    from = 0
}
