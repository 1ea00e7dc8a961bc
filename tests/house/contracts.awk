# SPDX-License-Identifier: Apache-2.0
# awk -f contracts.awk FILES. In: .c files. Out: a line for each whose first comment after the
# licence is no contract in the form "In: ... Out: ...", or has a word of another form.
FNR == 1 { text = ""; over = 0; next }
over { next }
{
    line = $0
    sub(/^ *\* ?/, "", line)
    text = text " " line
    if (!/\*\//) next
    over = 1
    if (text !~ / In and out: / && (text !~ / In: / || text !~ / Out: /))
        print FILENAME ": no In: and Out:"
    if (match(text, /(Comes in|Goes out|[Nn]eeds|[Ff]ills|breaks):|\. (Needs|Fills|Breaks) /))
        print FILENAME ": " substr(text, RSTART, RLENGTH)
}
