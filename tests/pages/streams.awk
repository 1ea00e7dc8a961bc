# SPDX-License-Identifier: Apache-2.0
# streams.awk: a picture of two parts of one micro-step, of its forward and of its backward, side by
# side at one scale. In: the dumps `schedule` and `simulate` of one plan, in this order; -v title=...;
# -v first=A -v first_end=B -v second=C -v second_end=D, the instructions at whose start or end the
# parts begin or end. Out: SVG, one row for each stream, a bar for each instruction, a line for each
# wait for another stream. Colours follow the reader's light or dark scheme.

function x_of(ps) {
    if (ps <= a_to) return left + (ps - a_from) * scale
    return left + (a_to - a_from) * scale + space + (ps - b_from) * scale
}
function part_of(i) { # 1, 2, or 0: not in the picture
    return end[i] <= a_to && start[i] >= a_from ? 1 : start[i] >= b_from && end[i] <= b_to ? 2 : 0
}
function part_of_time(ps) { return ps <= a_to ? 1 : ps >= b_from && ps <= b_to ? 2 : 0 }
function ms(ps) { return sprintf("%.1f", ps / 1e9) }

BEGIN {
    width = 960; left = 84; space = 40; top = 64; row = 58; bar = 30
    n_rows = split("compute gather reduce", rows, " ")
    for (i = 1; i <= n_rows; i++) at[rows[i]] = top + (i - 1) * row
}

FNR == 1 { file++ }

file == 1 && /^[a-z]+:$/ { last = $0 == "last:" }
file == 1 && last && /^ *[0-9]+ / { this = $1 }
file == 1 && last && /^ +waits for / { sub(/:.*/, "", $3); waits[this] = waits[this] " " $3 }

file == 2 && /^ *[0-9]+ / && $4 > 0 { # those of an evaluation have no time
    name = $5
    for (i = 6; i <= NF; i++) name = name " " $i
    n++
    id[n] = $1; stream[n] = $2; start[n] = $3; end[n] = $4; what[n] = name; of_id[$1] = n
    if (name == first) a_from = $3
    if (name == first_end) a_to = $4
    if (name == second) b_from = $3
    if (name == second_end) b_to = $4
}

function label(name) {
    sub(/^gather of /, "", name); sub(/^reduction of /, "", name)
    sub(/ for its (forward|backward)$/, "", name); sub(/^merge of .*/, "", name)
    sub(/^layers\./, "layer ", name); sub(/ forward$/, "", name); sub(/ backward$/, "", name)
    return name
}

function kind(i) {
    if (stream[i] != "compute") return stream[i]
    return what[i] ~ /backward$/ ? "backward" : what[i] ~ /^merge/ ? "merge" : "forward"
}

END {
    if (!a_to || !b_to) { print "streams.awk: no such instruction" >"/dev/stderr"; exit 1 }
    scale = (width - left - 12 - space) / (a_to - a_from + b_to - b_from)
    high = top + n_rows * row + 34
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" ", width, high
    printf "font-family=\"sans-serif\" font-size=\"12\">\n"
    print "<!-- written by tests/pages/figures.sh from a plan: do not edit -->"
    print "<style>"
    print ".ground{fill:#ffffff}.text{fill:#1f2328}.dim{fill:#59636e}.on{fill:#ffffff}"
    print ".forward{fill:#1f6feb}.backward{fill:#8250df}.merge{fill:#6e7781}"
    print ".gather{fill:#1a7f37}.reduce{fill:#bc4c00}.wait{stroke:#59636e;stroke-width:1;fill:none}"
    print "@media (prefers-color-scheme:dark){.ground{fill:#0d1117}.text{fill:#e6edf3}"
    print ".dim{fill:#9198a1}.wait{stroke:#9198a1}}"
    print "</style>"
    printf "<title>%s</title>\n", title
    printf "<rect class=\"ground\" width=\"%d\" height=\"%d\"/>\n", width, high
    printf "<text class=\"text\" x=\"12\" y=\"22\" font-size=\"15\">%s</text>\n", title
    printf "<text class=\"dim\" x=\"12\" y=\"42\">predicted; blue: forward, violet: backward, " \
           "green: all-gather, orange: reduce-scatter; lines: waits</text>\n"
    for (i = 1; i <= n_rows; i++)
        printf "<text class=\"text\" x=\"12\" y=\"%d\">%s</text>\n", at[rows[i]] + 20, rows[i]
    for (i = 1; i <= n; i++) {
        if (!part_of(i)) continue
        count = split(waits[id[i]], list, " ")
        for (k = 1; k <= count; k++) {
            j = of_id[list[k]]
            if (!j || stream[j] == stream[i] || part_of(j) != part_of(i)) continue
            down = at[stream[i]] > at[stream[j]]
            printf "<line class=\"wait\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n",
                   x_of(end[j]), at[stream[j]] + (down ? bar : 0),
                   x_of(start[i]), at[stream[i]] + (down ? 0 : bar)
        }
    }
    for (i = 1; i <= n; i++) {
        if (!part_of(i)) continue
        wide = x_of(end[i]) - x_of(start[i])
        printf "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\">" \
               "<title>%s, %s ms</title></rect>\n", kind(i), x_of(start[i]), at[stream[i]],
               wide < 0.8 ? 0.8 : wide - 0.4, bar, what[i], ms(end[i] - start[i])
        text = label(what[i])
        if (text != "" && wide > 6.4 * length(text) + 4)
            printf "<text class=\"on\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                   x_of(start[i]) + wide / 2, at[stream[i]] + 20, text
    }
    y = top + n_rows * row
    for (i = 1; i <= n_rows; i++)
        printf "<text class=\"dim\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">...</text>\n",
               x_of(a_to) + space / 2, at[rows[i]] + 20
    for (ms_at = 0; ms_at <= b_to / 1e9; ms_at += 10) {
        if (!part_of_time(ms_at * 1e9)) continue
        printf "<text class=\"dim\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d ms</text>\n",
               x_of(ms_at * 1e9), y + 14, ms_at
    }
    print "</svg>"
}
