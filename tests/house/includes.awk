# SPDX-License-Identifier: Apache-2.0
# awk -v rooms="base describe ..." -v beside="import:base describe" -f includes.awk FILES
#
# In: sources below one folder, the names of its rooms, lowest first, and of those beside them:
# each may see the rooms behind its colon. Out: a line for each include that points up, or names
# no room. At the root a .c is above all rooms; a header is for all of them, save those of -v closed,
# and shows nothing of a room, unless it is one of -v open.
BEGIN {
    n = split(rooms, name, " ")
    for (i = 1; i <= n; i++) level[name[i]] = i
    n = split(closed, name, " ")
    for (i = 1; i <= n; i++) shut[name[i]] = 1
    n = split(open, name, " ")
    for (i = 1; i <= n; i++) shows[name[i]] = 1
    n = split(beside, name, ";")
    for (i = 1; i <= n; i++) {
        split(name[i], side, ":")
        m = split(side[2], low, " ")
        for (k = 1; k <= m; k++) sees[side[1], low[k]] = 1
        sees[side[1], side[1]] = 1
        apart[side[1]] = 1
    }
}
FNR == 1 {
    path = FILENAME
    sub("^" folder "/", "", path)
    room = path ~ /\// ? path : ""
    sub(/\/.*/, "", room)
    if (room != "" && !(room in level) && !(room in apart))
        print path ": the room " room " is not known"
}
/^#include "/ {
    split($0, part, "\"")
    header = part[2]
    at = header ~ /\// ? header : ""
    sub(/\/.*/, "", at)
    if (room == "" && (at == "" || FILENAME ~ /\.c$/ || path in shows)) next
    if (room == "") print path ":" FNR ": " header " is of a room, and all rooms see " path
    else if (at == "" && !(room in shut)) next
    else if (at == "" || (room in apart ? !((room, at) in sees) : !(at in level) || level[at] > level[room]))
        print path ":" FNR ": " header " lies above " room
}
