# SPDX-License-Identifier: Apache-2.0
# blocks.awk: the code blocks of pages. In: Markdown files; -v out=DIR. Out: for the block that begins
# at line L of page P, DIR/P.L.LANGUAGE with its text, without the indentation of its fence; and on
# stdout a line "FILE|PAGE|LINE|LANGUAGE|DIRECTIVE", the directive being the comment right above:
#   <!-- run -->              tests run it, in the folder of the tutorial
#   <!-- file NAME -->        a file that the reader writes
#   <!-- in FILE -->          lines of that file of the repository, one after the other
#   <!-- output of COMMAND --> lines that COMMAND prints, in order; "..." stands for any

FNR == 1 {
    if (inside) print FILENAME ": a block without an end" >"/dev/stderr"
    inside = 0; directive = ""
    page = FILENAME
    sub(/.*\//, "", page)
}

!inside && /^ *<!-- .* -->$/ {
    directive = $0
    sub(/^ *<!-- /, "", directive)
    sub(/ -->$/, "", directive)
    next
}

!inside && /^ *```/ {
    match($0, /^ */)
    indent = RLENGTH
    language = substr($0, indent + 4)
    if (language == "") print FILENAME ":" FNR ": a block without a language" >"/dev/stderr"
    file = out "/" page "." sprintf("%04d", FNR) "." language
    printf "" >file
    print file "|" FILENAME "|" FNR "|" language "|" directive
    inside = 1
    next
}

inside && /^ *```$/ { inside = 0; directive = ""; close(file); next }
inside { print substr($0, match($0, /^ */) && RLENGTH < indent ? RLENGTH + 1 : indent + 1) >file; next }
{ directive = "" }
