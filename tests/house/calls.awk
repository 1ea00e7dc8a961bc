# SPDX-License-Identifier: Apache-2.0
# awk -v rooms="job data ..." -v beside="cpu:job data ..." -v contract="rt_target.h rt.h"
#     -v allowed="NAME ..." -f calls.awk FILES FILES
#
# In: C below one folder, twice, the names of its rooms as for includes.awk. Out: a line for each
# function that a file names though only rooms define it which the file may not see, whatever it
# includes. Of the targets, which are the rooms beside the others, each may name what is declared in
# the first header of the contract, and the names that are allowed; the contract's own headers
# declare what they like. Functions of a first header that no target defines, or that a lower room
# does, are told, too: it is of targets alone.
BEGIN {
    n = split(rooms, name, " ")
    for (i = 1; i <= n; i++) {
        level[name[i]] = i
        for (k = 1; k <= i; k++) sees[name[i], name[k]] = 1
    }
    n = split(beside, name, ";")
    for (i = 1; i <= n; i++) {
        split(name[i], side, ":")
        m = split(side[2], low, " ")
        for (k = 1; k <= m; k++) sees[side[1], low[k]] = 1
        sees[side[1], side[1]] = apart[side[1]] = 1
    }
    n = split(contract, name, " ")
    for (i = 1; i <= n; i++) declares[name[i]] = 1
    first = name[1]
    n = split(allowed, name, " ")
    for (i = 1; i <= n; i++) offered[name[i]] = 1
}

# A line without comments and strings.
function code(line,    out, c) {
    for (out = ""; line != "";) {
        if (inside) {
            c = index(line, "*/")
            if (!c) return out
            inside = 0
            line = substr(line, c + 2)
        } else if (match(line, /"([^"\\]|\\.)*"|'([^'\\]|\\.)*'|\/\*|\/\//)) {
            out = out substr(line, 1, RSTART - 1) " "
            c = substr(line, RSTART, 2)
            line = substr(line, RSTART + RLENGTH)
            if (c == "//") return out
            inside = c == "/*"
        } else {
            return out line
        }
    }
    return out
}

FNR == 1 {
    path = FILENAME
    sub("^" folder "/", "", path)
    room = path ~ /\// ? path : ""
    sub(/\/.*/, "", room)
    second = seen[path]++
    inside = 0
    pending = ""
}

{ text = code($0) }

# First: where each function is defined, and what the contract declares.
!second {
    if (text ~ /^[A-Za-z_]/ && match(text, /rt_[a-z0-9_]+\(/)) {
        pending = substr(text, RSTART, RLENGTH - 1)
        private = text ~ /^static/ || path ~ /\.h$/
    }
    if (text ~ /;/) pending = ""
    if (text ~ /^\{/ && pending != "") {
        if (private) own[room, pending] = 1
        else at[pending] = at[pending] " " (room == "" ? "." : room)
        pending = ""
    }
    if (path == first && text ~ /^[A-Za-z_]/ && match(text, /rt_[a-z0-9_]+\(/))
        offered[substr(text, RSTART, RLENGTH - 1)] = listed[substr(text, RSTART, RLENGTH - 1)] = 1
}

# Then: who names it.
second && !(path in declares) && !(room == "" && path ~ /\.c$/) {
    while (match(text, /[A-Za-z_][A-Za-z_0-9]*/)) {
        word = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        if (!(word in at) || (room, word) in own) continue
        may = 0
        n = split(at[word], of, " ")
        for (i = 1; i <= n; i++)
            if ((room, of[i]) in sees || ((of[i] in apart) && (word in offered))) may = 1
        if (!may) print path ":" FNR ": " word " is of" at[word] ", above " (room == "" ? "all" : room)
    }
}

END {
    for (word in listed) {
        n = split(at[word], of, " ")
        for (i = 1; i <= n; i++)
            if (!(of[i] in apart)) print first ": " word " is of " of[i] ", which is no target"
        if (n == 0) print first ": no target has " word
    }
}
