-- SPDX-License-Identifier: Apache-2.0
-- gradcheck.lua OPS_FOLDERS GRAD_DUMP FUSE_DUMP: are the gradients of a graph right? In: what
-- --dump=grad and --dump=fuse print, and the ops' references, which compute in f64. Each class is run
-- forward and backward on random values; its gradients are compared with central differences,
-- then with those of the fused graph. Nothing of the generator takes part but its text and its
-- reading of formulas.
-- Out: one line a class, "bad" where they differ; exit 1 then.
local folders, grad_file, fuse_file = arg[1], arg[2], arg[3]
local here = arg[0]:match("^(.*/)")
local graph = assert(loadfile(here .. "graph_run.lua"))(folders)
local parse, run, random, inputs_of = graph.parse, graph.run, graph.random, graph.inputs_of

-- What the backward differentiates: the loss, or the output times what the backward takes.
local function objective(class, inputs)
    local values = inputs_of(class, {}, inputs)
    run(class.forward, values)
    if class.loss then return values[class.loss][1] end
    local out, d, sum = values[class.returns[1].name], values[class.takes[#class.takes].name], 0.0
    for i = 1, #out do sum = sum + out[i] * d[i] end
    return sum
end

local function compare(what, got, want, tolerance, bad)
    local scale = math.max(math.abs(want), math.abs(got), 1e-3)
    if not (math.abs(got - want) <= tolerance * scale) then
        bad[#bad + 1] = ("%s: %.12g, not %.12g"):format(what, got, want)
    end
end

local function check_class(class, fused, setup)
    local bad, count = {}, 0
    local inputs = inputs_of(class, setup)
    local values = inputs_of(class, {}, inputs)
    run(class.forward, values)
    run(class.backward, values)
    local pairs_to_check = {}
    for _, p in ipairs(class.params) do
        pairs_to_check[#pairs_to_check + 1] = { p.ident, class.grads[p.name], fused.grads[p.name] }
    end
    local n = #class.returns
    if n > 0 and class.returns[n].name:find("^d_") then
        pairs_to_check[#pairs_to_check + 1] = { class.takes[1].name, class.returns[n].name,
                                                fused.returns[#fused.returns].name }
    end
    local again = inputs_of(class, {}, inputs)
    run(fused.forward, again, class)
    run(fused.backward, again, class)
    for _, p in ipairs(pairs_to_check) do
        local x, d, f = inputs[p[1]], values[p[2]], again[p[3]]
        for i = 1, #d do compare(p[2] .. " fused", f[i], d[i], 1e-9, bad) end
        for _ = 1, 4 do
            local i, h = math.tointeger(random() * #x // 1) + 1, 1e-5
            local at = x[i]
            x[i] = at + h
            local up = objective(class, inputs)
            x[i] = at - h
            local down = objective(class, inputs)
            x[i] = at
            compare(("%s[%d]"):format(p[2], i), d[i], (up - down) / (2 * h), 2e-5, bad)
            count = count + 1
        end
    end
    return bad, count
end

local setup_nodes, classes = parse(grad_file)
local _, fused = parse(fuse_file)
local setup, failed = {}, false
run(setup_nodes, setup)
for i, class in ipairs(classes) do
    local bad, count = check_class(class, fused[i], setup)
    print(("%s %s: %d derivatives"):format(#bad == 0 and "good" or "bad", class.name, count))
    for k = 1, math.min(#bad, 5) do print("  " .. bad[k]) end
    failed = failed or #bad > 0
end
os.exit(not failed and #classes > 0 and 0 or 1)
