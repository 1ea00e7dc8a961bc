# SPDX-License-Identifier: Apache-2.0
# sentences.awk: texts without their form, so that a sentence is found wherever its lines break. In:
# pages, sources, or with -v list=1 english.txt. Out: one line per file, in lower case, without leaders
# of comments, quotes and blanks in a row; of the list, a line per sentence as it was.

function plain(s) {
    gsub(/["`\\]/, "", s)
    gsub(/[ \t]+/, " ", s)
    sub(list ? /[.]? *$/ : / *$/, "", s)
    return tolower(s)
}

list && /^- / { print plain(substr($0, 3)) }
list { next }
FNR == 1 && NR > 1 { print "" }
FNR == 1 { printf "%s:", FILENAME }
{
    sub(/^[ \t]*(\/?\*+\/?|--+|#+|\.\.)?[ \t]*/, "")
    printf " %s", plain($0)
}
END { if (!list) print "" }
