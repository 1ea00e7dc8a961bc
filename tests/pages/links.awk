# SPDX-License-Identifier: Apache-2.0
# links.awk: what pages link to. In: Markdown files, twice; out: a line for each link inside the
# repository whose anchor is not a heading, and "exists FILE PLACE" for each file that must be there.

function anchor(text) { # as GitHub and mkdocs make one of a heading
    text = tolower(text)
    gsub(/[^a-z0-9_ -]/, "", text)
    gsub(/ /, "-", text)
    return text
}

function normal(path,    n, i, parts, kept, depth) { # a/../b is b
    n = split(path, parts, "/")
    for (i = 1; i <= n; i++)
        if (parts[i] == ".." && depth > 0 && kept[depth] != "..") depth--
        else if (parts[i] != "." && parts[i] != "") kept[++depth] = parts[i]
    path = ""
    for (i = 1; i <= depth; i++) path = path (i > 1 ? "/" : "") kept[i]
    return path
}

FNR == 1 { fence = 0; folder = FILENAME; if (!sub(/[^\/]*$/, "", folder)) folder = ""; seen[FILENAME]++ }
/^ *```/ { fence = !fence; next }
fence { next }

seen[FILENAME] == 1 && /^#+ / {
    title = $0
    sub(/^#+ /, "", title)
    heading[FILENAME "#" anchor(title)] = 1
}

seen[FILENAME] == 2 {
    rest = $0
    while (match(rest, /\]\([^)]*\)/)) {
        link = substr(rest, RSTART + 2, RLENGTH - 3)
        rest = substr(rest, RSTART + RLENGTH)
        if (link ~ /^[a-z]+:/) continue
        target = link
        sub(/#.*/, "", target)
        target = target == "" ? FILENAME : normal(folder target)
        print "exists " target " " FILENAME ":" FNR
        if (link ~ /#/) {
            sub(/.*#/, "", link)
            if (!((target "#" link) in heading)) print FILENAME ":" FNR ": no heading #" link " in " target
        }
    }
}
