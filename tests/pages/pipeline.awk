# SPDX-License-Identifier: Apache-2.0
# pipeline.awk: a picture of the passes, each with a figure of one description. In: lines
# "PASS|WHAT IT MAKES|FIGURE" in the order of the passes, and -v title=..., -v from=..., -v to=...
# for the boxes at both ends. Out: SVG; colours follow the reader's light or dark scheme.

BEGIN { FS = "|" }
{ n++; pass[n] = $1; what[n] = $2; figure[n] = $3 }

function box(class, x, y, a, b, c) {
    printf "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", class, x, y,
           wide, high
    printf "<text class=\"text\" x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", x + 10, y + 20, a
    printf "<text class=\"dim\" x=\"%d\" y=\"%d\">%s</text>\n", x + 10, y + 38, b
    printf "<text class=\"figure\" x=\"%d\" y=\"%d\">%s</text>\n", x + 10, y + 56, c
}

function place(i) { # boxes go in rows, each row to the right
    px = 12 + (i % columns) * (wide + gap)
    py = 44 + int(i / columns) * (high + gap)
}

END {
    columns = 5; wide = 172; high = 66; gap = 24
    rows = int((n + 2 + columns - 1) / columns)
    width = 24 + columns * wide + (columns - 1) * gap
    height = 44 + rows * (high + gap)
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" ", width, height
    printf "font-family=\"sans-serif\" font-size=\"12\">\n"
    print "<!-- written by tests/pages/figures.sh from a plan: do not edit -->"
    print "<style>"
    print ".ground{fill:#ffffff}.text{fill:#1f2328}.dim{fill:#59636e}.figure{fill:#0969da}"
    print ".pass{fill:#f6f8fa;stroke:#d1d9e0}.end{fill:#ddf4ff;stroke:#54aeff}"
    print ".arrow{stroke:#59636e;stroke-width:1.5;fill:none}"
    print "@media (prefers-color-scheme:dark){.ground{fill:#0d1117}.text{fill:#e6edf3}"
    print ".dim{fill:#9198a1}.figure{fill:#4493f8}.pass{fill:#151b23;stroke:#3d444d}"
    print ".end{fill:#121d2f;stroke:#1f6feb}.arrow{stroke:#9198a1}}"
    print "</style>"
    printf "<title>%s</title>\n", title
    printf "<rect class=\"ground\" width=\"%d\" height=\"%d\"/>\n", width, height
    printf "<text class=\"text\" x=\"12\" y=\"24\" font-size=\"15\">%s</text>\n", title
    for (i = 0; i < n + 2; i++) {
        place(i)
        if (i == 0) box("end", px, py, from, "a description", "Lua")
        else if (i == n + 1) box("end", px, py, to, "a trainer's folder", "C, Makefile, plan")
        else box("pass", px, py, pass[i], what[i], figure[i])
        if (i == n + 1) continue
        if (i % columns < columns - 1) {
            ax = px + wide; ay = py + high / 2
            printf "<path class=\"arrow\" d=\"M%d %dh%dm-6 -4l6 4l-6 4\"/>\n", ax + 2, ay, gap - 4
        } else {
            printf "<path class=\"arrow\" d=\"M%d %dv%dH%dv%dm-4 -6l4 6l4 -6\"/>\n", px + wide / 2,
                   py + high, gap / 2, 12 + wide / 2, gap / 2 - 2
        }
    }
    print "</svg>"
}
