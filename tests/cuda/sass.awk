# SPDX-License-Identifier: Apache-2.0
# sass.awk: the rows of sass.c from what nvdisasm prints of an image, to compare them.
function is_load(i) { return opcode[i] == "LDG" }
function end_row(   i, j, to, length_, products, loads, shorter, first, last) {
    while (n > 0 && opcode[n - 1] == "NOP") n--
    loop = hmma = ldsm = wide = narrow = first = 0
    last = n - 1
    for (i = 0; i < n; i++) {
        if (!(i in target) || !(target[i] in place)) continue
        to = place[target[i]]
        if (to >= i) continue
        products = loads = 0
        for (j = to; j <= i; j++) {
            products += opcode[j] == "HMMA"
            loads += opcode[j] == "LDSM"
        }
        length_ = i + 1 - to
        shorter = products > 0 ? length_ < loop : length_ > loop
        if (products < hmma || (products == hmma && loop > 0 && !shorter)) continue
        loop = length_
        hmma = products
        ldsm = loads
        first = to
        last = i
    }
    for (i = first; i <= last; i++) {
        wide += is_load(i) && sixteen[i]
        narrow += is_load(i) && !sixteen[i]
    }
    if (name != "") print name, n, loop, hmma, ldsm, wide, narrow
    name = ""
}
/^[ \t]*\.section/ { end_row() }
/^\.text\./ {
    name = substr($1, 7, length($1) - 7)
    n = 0
    delete target
    delete place
}
/^\.L_[A-Za-z0-9_]*:/ { place[substr($1, 1, length($1) - 1)] = n }
/^[ \t]+\/\*[0-9a-f]+\*\// {
    sub(/^[ \t]*\/\*[0-9a-f]+\*\/[ \t{]*(@!?U?P[0-9T]+[ \t]+)?/, "")
    opcode[n] = $1
    sixteen[n] = $1 ~ /\.128/
    sub(/[.;].*/, "", opcode[n])
    if (opcode[n] == "BRA" && match($0, /\.L_[A-Za-z0-9_]+/))
        target[n] = substr($0, RSTART, RLENGTH)
    n++
}
END { end_row() }
