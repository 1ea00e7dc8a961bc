# SPDX-License-Identifier: MIT-0
# arithmetic.awk: C and CUDA without what no bit depends on. In: sources. Out: their text without
# comments, with one blank for any number of blanks and ends of lines, and without the numbers that
# tell generations apart. The Makefile's checksum of it is a part of the platform: an edited comment
# or a wrapped line leaves it, an edited kernel does not.

# To the end of the line, from where we stand: outside of comments, strings and characters.
function code(line,    out, c) {
    out = ""
    while (line != "") {
        if (inside) { # a comment that goes on
            c = index(line, "*/")
            if (!c) return out
            inside = 0
            line = substr(line, c + 2)
            out = out " "
        } else if (match(line, /"|'|\/\*|\/\//)) {
            out = out blanks(substr(line, 1, RSTART - 1))
            c = substr(line, RSTART, 2)
            line = substr(line, RSTART)
            if (c == "//") return out
            if (c == "/*") {
                inside = 1
                line = substr(line, 3)
            } else if (match(line, substr(c, 1, 1) == "\"" ? /^"([^"\\]|\\.)*"/ : /^'([^'\\]|\\.)*'/)) {
                out = out substr(line, 1, RLENGTH)
                line = substr(line, RLENGTH + 1)
            } else { # as in a directive's text: no string
                out = out substr(line, 1, 1)
                line = substr(line, 2)
            }
        } else {
            out = out blanks(line)
            line = ""
        }
    }
    return out
}

function blanks(text) {
    gsub(/[ \t\r\f\v]+/, " ", text)
    return text
}

BEGIN {
    x = "[0-9a-f]"
    x = x x x x
    identity = "_" x x x x # of 16 digits, behind a name
}

FNR == 1 { inside = continued = 0 }

{
    text = code($0)
    if (text ~ /_IDENTITY/ || text ~ /^ *#error/) next
    gsub(identity, "_", text)
    gsub(/  +/, " ", text)
    sub(/^ /, "", text)
    sub(/ $/, "", text)
    if (text == "") next
    directive = continued || text ~ /^#/
    continued = directive && text ~ /\\$/
    if (directive && !after) printf "\n"
    printf "%s%s", text, directive ? "\n" : " "
    after = directive
}
