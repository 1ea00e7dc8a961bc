# SPDX-License-Identifier: Apache-2.0
# english.awk: turns of phrase that made pages, messages and comments hard to read. In: pages (.md),
# and sources, of which the text between double quotes and in comments counts; out: a line for each
# hit. tests/house/english.txt shows what to write instead. Words are matched in lower case. With
# -v unseen=1, of a list of sentences: the phrases that occur in none of them.

BEGIN {
    n = split("(is|are|was|were) told( |$|[.,;:])\ntold (of|by|when|as|before)\nunless told\n" \
              "nobody\nwithout a word\nwhat is (no|none) \n(that|which) is none\n" \
              "(is|are) none of\nnone (is|that is) \nis it that\nfor want of\nmakes? of it\n" \
              "begins? anew|anew\n(newest|is|are) sound\nwhatever is known\n" \
              "(know|knows) (nothing|neither|no )\nnever does\nstands? still\n" \
              "(^|[^a-z])(is|are) no [a-z]\n(goes on from|go on (from|with))\n" \
              "(for|of) what is\ndue later\nand (their|the) like\nwho is busiest\n" \
              "say so when\nat hand\nit is none\nwhere (none|one) is\npass(es|ed) over\n" \
              "who goes by\n(for|of|to|by) who \nas [a-z_.]+ (has|have) it\nto be had\n" \
              "(is|are) dealt\nsaid once\nthe own \n(lies?|stands?) behind\n" \
              "said (of|by)", part, "\n")
    patterns = part[1]
    for (i = 2; i <= n; i++) patterns = patterns "|" part[i]
}

FNR == 1 {
    page = FILENAME ~ /\.md$/
    dashes = FILENAME ~ /\.lua$/
    fence = open = 0
    wrapped = ""
}
page && /^ *```/ { fence = !fence; next }
fence { next }

# What comments of a line say; `open`: the line begins inside one, and then ends inside one.
function comments(line,    text, at) {
    if (dashes) return match(line, /(^|[^-])--[^-]/) ? substr(line, RSTART + RLENGTH - 1) : ""
    text = ""
    while (line != "") {
        if (open) {
            at = index(line, "*/")
            text = text " " (at ? substr(line, 1, at - 1) : line)
            if (!at) break
            line = substr(line, at + 2)
            open = 0
        } else {
            at = index(line, "/*")
            if (!at) break
            line = substr(line, at + 2)
            open = 1
        }
    }
    sub(/^ *\* ?/, "", text)
    return text
}

{
    text = page ? $0 : ""
    if (!page) {
        rest = $0
        while (match(rest, /"([^"\\]|\\.)*"/)) {
            text = text substr(rest, RSTART + 1, RLENGTH - 2) " "
            rest = substr(rest, RSTART + RLENGTH)
        }
        text = text comments($0)
    }
    text = tolower(text)
    gsub(/there (is|are) no |(is|are) no (longer|more|such|different)/, "", text)
    if (unseen) {
        for (i = 1; i <= n; i++) if (match(text, part[i])) seen[i] = 1
        next
    }
    # a phrase may go on in the next line
    if (match(wrapped " " text, patterns) && RSTART + RLENGTH > length(wrapped) + 1)
        print FILENAME ":" FNR ": " substr(wrapped " " text, RSTART, RLENGTH)
    wrapped = text
}

END { for (i = 1; unseen && i <= n; i++) if (!seen[i]) print "in no sentence: " part[i] }
