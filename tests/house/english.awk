# SPDX-License-Identifier: Apache-2.0
# english.awk: turns of phrase that made pages and messages hard to read. In: pages (.md), and
# sources, of which only the text between double quotes counts; out: a line for each hit.
# tests/house/english.txt shows what to write instead. Words are matched in lower case.

BEGIN {
    n = split("(is|are|was|were) told( |$|[.,;:])|told (of|by|when|as|before)|unless told|nobody|" \
              "without a word|what is no |that is none|which is none|is none of|are none of|none (is|that is) |" \
              "is it that|for want of|makes? of it|begins? anew|newest sound|is sound|(is|are) sound|" \
              "whatever is known|(know|knows) (nothing|neither|no )|never does|" \
              "stands? still|(^|[^a-z])(is|are) no [a-z]|goes on from|go on (from|with)|for what is|of what is|anew|due later|and their like|who is busiest|say so when", part, "|")
    patterns = ""
    for (i = 1; i <= n; i++) patterns = patterns (i > 1 ? "|" : "") part[i]
}

FNR == 1 { page = FILENAME ~ /\.md$/; fence = 0; wrapped = "" }
page && /^ *```/ { fence = !fence; next }
fence { next }

{
    text = page ? $0 : ""
    if (!page) {
        rest = $0
        while (match(rest, /"([^"\\]|\\.)*"/)) {
            text = text substr(rest, RSTART + 1, RLENGTH - 2) " "
            rest = substr(rest, RSTART + RLENGTH)
        }
    }
    text = tolower(text)
    gsub(/there (is|are) no |(is|are) no (longer|more|such|different)/, "", text)
    # a phrase may go on in the next line
    if (match(wrapped " " text, patterns) && RSTART + RLENGTH > length(wrapped) + 1)
        print FILENAME ":" FNR ": " substr(wrapped " " text, RSTART, RLENGTH)
    wrapped = text
}
