# SPDX-License-Identifier: Apache-2.0
# formulas.awk: random formulas as op folders. In: -v seed, -v count, -v dir. Out: the folders
# dir/f1, dir/f2, ..., each with an op.lua. Formulas are smooth but for max, min, abs and select, and
# of numbers from -2 to 2 they make no large ones, so that differences of them are exact enough. Smooth
# ones also draw exact zeros; where a slope jumps, formula_values.lua has it.
# -v chained=1: formulas read all inputs of their shape, in its order, and stay between -3 and 3, for
# tests/e2e/chains.awk.

# 0..n-1; the same everywhere
function random(n) {
    state = (state * 16807) % 2147483647
    return int(state / 2147483647 * n)
}

function pick(list, parts) { return parts[1 + random(split(list, parts, " "))] }

function number() { return pick("0.5 2 3 0.25 1.5 0.044715 0.1 1") }

# Never a number alone: a compiler may compute a function of it as no device does.
function leaf() {
    if (random(6) == 0) return "(" number() pick("* + -") pick(inputs) ")"
    return pick(inputs)
}

# what is never near 0
function positive(depth) { return "(" number() " + square(" formula(depth) "))" }

function formula(depth, kind, a, b) {
    if (depth <= 0) return leaf()
    kind = random(24)
    a = formula(depth - 1)
    if (kind < 4) return "(" a " + " formula(depth - 1) ")"
    if (kind < 7) return "(" a " - " formula(depth - 1) ")"
    if (kind < 10) return leaf() " * " bounded(depth - 1)
    if (kind == 10) return "-" bounded(depth - 1)
    if (kind == 11) return a " / " positive(depth - 2)
    if (kind == 12) return pick("relu silu gelu softplus") "(" a ")"
    if (kind == 13) return "log" positive(depth - 1)
    if (kind == 14) return pick("sqrt rsqrt") positive(depth - 1)
    if (kind == 15) return pick("max min") "(" a ", " formula(depth - 1) ")"
    if (kind == 16) return "abs(" a ")"
    if (kind == 17) return "softcap(" a ", " number() ")"
    if (kind == 18) return "select(" a " " pick("< <= > >=") " " leaf() ", " formula(depth - 2) ", " leaf() ")"
    if (kind == 19) return "exp(min(" a ", 1))"
    if (kind == 20) return bounded(depth - 1) "^" pick("2 3 4")
    if (kind == 21) return row(depth - 1)
    if (kind == 22) return "(" leaf() " - " row(depth - 1) ")"
    return bounded(depth)
}

# one value for the row
function row(depth) {
    if (random(3) == 0) return "rms" positive(depth)
    return pick("mean(( max(( sum(0.1*( mean((") formula(depth) "))"
}

# from -1 to 1, or a leaf
function bounded(depth) {
    if (random(4) == 0) return leaf()
    return pick("tanh sigmoid") "(" formula(depth - 1) ")"
}

# Reads all inputs of a shape.
function all_of(shape) {
    if (shape == 1) return "x"
    if (shape == 2) return "x + g"
    if (shape == 3) return "x + g * w[d]"
    return shape == 4 ? "gate * up" : "x * w[d] + b[d]"
}

# Of formulas without kinks: cases with exact zeros among numbers that all dtypes have.
function zeros(shape, text, name) {
    if (chained || text ~ /relu|max|min|abs|select/) return ""
    name = shape == 4 ? "gu" : "x"
    return ",\n        inputs = function(n, r)\n            local list = {}\n            for i = 1, " \
        (shape == 4 ? "2 * " : "") "n.t * n.d do list[i] = r(0, 1) * r(-128, 127) / 64 end\n" \
        "            return { " name " = list }\n        end"
}

BEGIN {
    state = 1 + (seed * 7919 + 12345) % 2147483646
    for (i = 0; i < 10; i++) random(2)
    all[1] = "x"; all[2] = "x g"; all[3] = "x x g w[d]"; all[4] = "gate up up"; all[5] = "x w[d] b[d]"
    for (i = 1; i <= count; i++) {
        shape = chained ? 1 + i % 5 : 1 + random(5)
        inputs = all[shape]
        first = shape == 4 ? "gate" : "x"
        text = first " * 0.5 + " formula(2 + random(3))
        if (i <= 4 && !chained) { # what the planted faults of formulas.sh need, whatever the seed
            shape = 2
            first = "x"
            text = i == 1 ? "x * 0.5 + tanh(g) / (1 + square(x)) + max(x, g) - (g - (x - g)) + mean(x * g) + rms(1 + square(mean(g)))" : i == 2 ? "x + x * (g - g)" : i == 3 ? "g * 0.5 + softplus(x)" : "g * 0.5 + max(x, g)"
        }
        if (length(text) > 900) text = first " * " first
        if (chained) text = "softcap(0.25 * (" all_of(shape) ") + " text ", 3)"
        parts = shape == 4 ? " parts = { gu = { \"gate\", \"up\" } }," : ""
        folder = dir "/f" i
        system("mkdir -p " folder)
        file = folder "/op.lua"
        printf "return op.map {%s y = \"%s\",\n    cases = function(r) return { t = r(%s, 3), d = r(%s, 21)%s } end }\n", parts, text,
            i == 3 || i == 4 ? 2 : 1, i == 3 || i == 4 ? 7 : 1, zeros(shape, text) > file
        close(file)
    }
}
