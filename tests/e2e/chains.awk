# SPDX-License-Identifier: Apache-2.0
# chains.awk: a random architecture of ops that are formulas, for chains of them: on -v count=N ops f1, f2,
# ... of tests/ops/formulas.awk with -v chained=1, of shape 1 + i % 5. In: -v seed, -v count, -v
# layers, -v dir. Out: dir/chains.lua, a description, and dir/arch/chains.lua. Each layer is
# another graph, whose values are read once, several times, by other ops, or by the backward alone.

function random(n) {
    state = (state * 16807) % 2147483647
    return int(state / 2147483647 * n)
}

# A row made before, mostly one of the last.
function row(made, back) {
    back = random(3) ? random(2) : random(made)
    back = back < made ? made - 1 - back : 0
    used[back] = 1
    return "v" back
}

function param(name, cols) {
    return "g:param { \"" name ".weight\", { " cols " }, init = \"normal\", std = 0.5, decay = false }"
}

function matrix(name, rows) {
    return "g:param { \"" name ".weight\", { " rows ", m.dim }, init = \"normal\", std = 0.3, decay = true }"
}

function layer(number, made, wide, i, op, shape, args) {
    print "    function(m) return function(g, y)" > arch
    print "        local v0 = y" > arch
    print "        local wide = g.linear { v0, " matrix("wide", "2 * m.dim") " }" > arch
    print "        local v1 = g.linear { v0, " matrix("narrow", "m.dim") " }" > arch
    made = 2
    split("", used)
    for (i = 0; i < 8; i++) {
        op = i ? 1 + random(count) : 3 # the first reads what is twice as wide
        shape = 1 + op % 5
        args = shape == 4 ? "wide" : row(made)
        if (shape == 2) args = args ", " row(made)
        if (shape == 3) args = args ", " row(made) ", " param("w" i, "m.dim")
        if (shape == 5) args = args ", " param("w" i, "m.dim") ", " param("b" i, "m.dim")
        printf "        local v%d = g.f%d { %s }\n", made++, op, args > arch
    }
    for (i = 0; i < made - 1; i++)
        if (!(i in used)) print "        y = g.add { y, v" i " }" > arch
    print "        return g.add { y, v" (made - 1) " }" > arch
    print "    end end," > arch
}

BEGIN {
    state = 1 + (seed * 7919 + 54321) % 2147483646
    for (i = 0; i < 10; i++) random(2)
    arch = dir "/arch/chains.lua"
    print "local layers = {" > arch
    for (i = 0; i < layers; i++) layer(i)
    print "}\nlocal function build(m, b)\n    local x = b:block(\"embed\", \"embed\", \"net.\", function(g)" > arch
    print "        return g.embed { g:tokens(), " matrix("tokens", "m.vocab") " }\n    end)" > arch
    print "    for i, f in ipairs(layers) do" > arch
    print "        local name = (\"layers.%d\"):format(i - 1)" > arch
    print "        x = b:block(name, (\"layer_%d\"):format(i), \"net.\" .. name .. \".\", f(m), x)" > arch
    print "    end\n    b:block(\"head\", \"head\", \"net.\", function(g, y)" > arch
    print "        local logits = g.scale { g.linear { y, " matrix("head", "m.vocab") " }, by = 0.5 }" > arch
    print "        return (g.cross_entropy { logits, g:targets() })\n    end, x)\nend" > arch
    print "return arch { name = \"chains\", doc = \"random chains\", build = build, fields = {" > arch
    print "    { \"dim\", \"int\", min = 1, doc = \"width\" }, { \"vocab\", \"int\", min = 2, doc = \"ids\" } } }" > arch
    file = dir "/chains.lua"
    print "local chains = require \"arch.chains\"\nreturn trainer {\n    name = \"chains\"," > file
    print "    model = chains { dim = " (random(2) ? 48 : 21) ", vocab = 256 }," > file
    print "    seq = 9, micro_batch = 1, global_batch = 4, leaves = 2, dtypes = { param = \"f32\" }," > file
    print "    optimizer = adamw { lr = 1e-3, clip = 1.0 }, lr = constant { warmup = 0 },\n}" > file
}
