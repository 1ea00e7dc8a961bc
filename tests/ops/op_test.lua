-- SPDX-License-Identifier: Apache-2.0
-- op_test.lua: what every op folder must hold, on random odd shapes. In: `host`
-- (gen/op_test/op_test.c). Out: the number of failures, each printed with op, dtypes and seed. For
-- each op:
--   references   the backward's graph gives the gradient of the reference: op_test_backward.lua;
--                a fused op's reference equals its expansion's
--   kernels      cpu.c equals the reference within the dtype's rounding, for f64, f32 and
--                bf16; the same bits with 1, 2, 3 and 8 threads, and in place where that
--                is allowed; beta = 1 adds; nothing outside the operands is written
--   cuts         the parts of a call that is cut are what the rule says: op_test_cuts.lua
--   rows         rows keep their bits when others are beside them: op_test_rows.lua
--   fused        the kernel's bits are those of its expansion's kernels, one by one:
--                op_test_fused.lua
-- Optimizers: op_test_optimizers.lua.
-- With --golden only this, for golden.sh: the digest of each kernel's outputs on inputs that
-- follow from the op's name, beside the version of its arithmetic. With --bytes: op_test_bytes.lua.

local fmt = string.format
local report, call_text = table.unpack(host.part "op_test_report")
local failures, checks = 0, 0
local call -- that is tested: name, inputs, attrs; or an optimizer's plan

local function fail(...)
    failures = failures + 1
    host.fail(fmt(...), call and call_text(call))
end

local function check(ok, ...)
    checks = checks + 1
    if not ok then fail(...) end
    return ok
end

-- ---- randomness: splitmix64, so that a seed means the same everywhere ---------------

local state = host.seed * 0x9e3779b97f4a7c15

local function bits()
    state = state + 0x9e3779b97f4a7c15
    local z = state
    z = (z ~ (z >> 30)) * 0xbf58476d1ce4e5b9
    z = (z ~ (z >> 27)) * 0x94d049bb133111eb
    return z ~ (z >> 31)
end

-- Golden inputs do not depend on other ops.
local function seed_by(text)
    state = 0
    for i = 1, #text do state = (state ~ string.byte(text, i)) * 0x100000001b3 end
end

local function uniform() return (bits() >> 11) * 2.0 ^ -53 end
local function integer(low, high) return low + (bits() >> 1) % (high - low + 1) end

-- ---- values: { shape, dtype, elems, data } ------------------------------------------

-- param and reduce dtypes; sums are kept in f32, in f64 when param is f64
local configs = {
    { "f64", "f64" }, { "f32", "f32" }, { "f32", "bf16" }, { "bf16", "f32" },
    { "bf16", "bf16" }, { "f16", "f32" }, { "f16", "bf16" },
}
if host.cuda then -- cuBLASLt writes no bf16 from others
    configs = { { "f64", "f64" }, { "f32", "f32" }, { "bf16", "f32" }, { "bf16", "bf16" } }
    if host.device then configs[5] = { "f16", "f32" } end -- simulated ones are slow
end
if host.bytes then configs = { { "bf16", "f32" }, { "f32", "f32" } } end
if host.golden then
    configs = { { "f64", "f64" }, { "f32", "f32" }, { "bf16", "f32" }, { "bf16", "bf16" } }
end
if host.formulas then configs = { { "f64", "f64" }, { "f32", "f32" }, { "bf16", "f32" } } end
local other_threads = host.cuda and { 2, 3 } or { 2, 3, 8 }
local counted = host.cuda and "%s in order %d" or "%s with %d threads"

local function class_dtype(class, config)
    local acc = config[1] == "f64" and "f64" or "f32"
    if class == "fp8" then return integer(0, 1) == 0 and "e4m3" or "e5m2" end
    return class == "i32" and "i32" or class == "grad" and config[2] or class == "acc" and acc
        or config[1]
end

local function zeros(value)
    value.data = {}
    for i = 1, value.elems do value.data[i] = 0.0 end
    return value
end

local function random_data(value)
    value.data = {}
    for i = 1, value.elems do
        value.data[i] = host.round(value.dtype, uniform() * 4 - 2)
    end
    return value
end

-- What several ops' cases make alike.
local make = host.part "op_test_make" { integer = integer, golden = host.golden }

-- For t tokens in sequences of seq: where in it the document of each token begins.
function make.starts(t, seq)
    local starts, length = {}, integer(1, seq)
    for i = 0, t - 1 do
        local at = i % seq
        starts[i + 1] = (at == 0 or integer(1, length) == 1) and at or starts[i]
    end
    return starts
end

-- Ops that make logits in the dtype of their inputs, and wider numbers of them.
local wide_of_logits = {
    linear_cross_entropy = true, linear_cross_entropy_alone = true,
    linear_cross_entropy_frozen = true, linear_loss = true,
}

-- Ends the test: what the rule's `cases` drew is not a case.
local function bad_case(name, ...)
    host.at(name, "cases")
    error(fmt(...), 0)
end

local function shape_of(name, operand, case)
    local dims = operand[2]
    if type(dims) == "function" then return dims(case) end
    return host.shape(dims, case) or bad_case(name, "a case has no whole number for a dim of %s, \"%s\"",
                                              operand[1], dims)
end

-- Place, value and operand of each input that a call gives; optional ones may be nil, also before others.
local function each_input(name, inputs)
    local operands = host.rule(name).inputs
    local function following(_, i)
        repeat i = i + 1 until inputs[i] or i > #operands
        if inputs[i] then return i, inputs[i], operands[i] end
    end
    return following, nil, 0
end

-- Inputs and attributes of a random call of the op, or of a variant of it. An optional input is
-- left out unless the case or the variant gives it.
local function random_case(name, config, variant)
    local rule, case = host.rule(name), nil
    -- of a single class nothing is left but roundings, so there is nothing to compare
    repeat case = rule.cases(integer) until not wide_of_logits[name] or case.v > 1
    if type(case) ~= "table" then bad_case(name, "a case is a %s, not a table of sizes", type(case)) end
    if rule.variants and not host.golden then variant = rule.variants[integer(0, #rule.variants)] end
    for key, value in next, variant or {} do case[key] = value end
    local given = case.inputs and case.inputs(case, integer, make) or {}
    local inputs, attrs = {}, {}
    for key in next, rule.attrs or {} do attrs[key] = case[key] end
    for i, operand in ipairs(rule.inputs) do
        if not operand.optional or given[operand[1]] or case[operand[1]] then
            local value = {
                shape = shape_of(name, operand, case),
                dtype = class_dtype(operand.class, config), elems = 1,
            }
            for _, n in ipairs(value.shape) do value.elems = value.elems * n end
            -- a GPU's library multiplies no two e5m2, which only gradients are
            if host.device and value.dtype == "e5m2" and i > 1 and inputs[1].dtype == "e5m2" then
                value.dtype = "e4m3"
            end
            value.data = given[operand[1]]
            if not value.data then random_data(value) end
            inputs[i] = value
        end
    end
    call = { name = name, inputs = inputs, attrs = attrs }
    return inputs, attrs
end

-- ---- references ---------------------------------------------------------------------

-- Runs the op's reference; returns its outputs.
local function apply(name, inputs, attrs)
    local rule, node = host.rule(name), host.infer(name, inputs, attrs)
    local n, dtype = node.n, {}
    for _, value, operand in each_input(name, inputs) do
        n[operand[1]], dtype[operand[1]] = value.data, value.dtype
    end
    for i, operand in ipairs(rule.outputs) do
        n[operand[1]] = zeros(node.outs[i]).data
        dtype[operand[1]] = node.outs[i].dtype
    end
    n.round = function(what, v) return host.round(dtype[what], v) end
    if rule.scaled and inputs[1].dtype == "f16" then n.loss_scale = 64 end
    rule.reference(n)
    for i, operand in ipairs(rule.outputs) do
        check(#node.outs[i].data == node.outs[i].elems,
              "%s: its reference writes past %s", name, operand[1])
    end
    return node.outs, node
end

-- A builder for `backward` and `expands`: `run` computes each op at once.
local function builder(run)
    return setmetatable({}, {
        __index = function(_, name)
            return function(call)
                local inputs, attrs = {}, {}
                for key, v in next, call do
                    if math.type(key) then inputs[key] = v else attrs[key] = v end
                end
                return table.unpack(run(name, inputs, attrs))
            end
        end,
    })
end

local by_reference = builder(function(name, inputs, attrs)
    return (apply(name, inputs, attrs))
end)

-- What `backward` and `expands` get as n.
local function operands_by_name(name, node, inputs, outputs)
    local rule, n = host.rule(name), {}
    for key, v in next, node.n do n[key] = v end
    for i, operand in ipairs(rule.inputs) do n[operand[1]] = inputs[i] end
    for i, operand in ipairs(rule.outputs) do n[operand[1]] = outputs and outputs[i] end
    return n
end

local allowed = ": off by %.3g, where %.3g is allowed"
local formula = host.part "op_test_formula" { check = check, integer = integer }
local test_backward = host.part "op_test_backward" {
    check = check, integer = integer, random_case = random_case, random_data = random_data,
    zeros = zeros, apply = apply, by_reference = by_reference, formula = formula, each_input = each_input,
    operands_by_name = operands_by_name, allowed = allowed,
}

-- ---- kernels ------------------------------------------------------------------------

local bounds, grows, rounds_inside, lost_by_fp8 = table.unpack(host.part "op_test_bounds")

-- size: magnitude of what was added up to give want[k], want itself by default; more: what
-- is allowed beyond rounding
local function compare(what, got, want, dtype, name, size, more)
    local bound, largest = bounds[dtype], 0.0
    local part = bound[2] * (grows[name] and grows[name](call.attrs) or 1)
    local inside = rounds_inside[name] or name and host.rule(name).rounds_inside
    if inside and (dtype == "bf16" or dtype == "f16") then part = bound[1] end
    size = size or want
    local copies = name and host.rule(name).cost == "copy" -- zeros have their signs
    for k = 1, #want do
        if math.abs(size[k]) < math.huge then largest = math.max(largest, math.abs(size[k])) end
    end
    for k = 1, #want do
        local limit = bound[1] * math.abs(size[k]) + part * largest + (more or 0)
        local off = math.abs(got[k] - want[k])
        local near = got[k] == want[k] or off <= limit and off < math.huge
        if not check(near, "%s[%d] is %.9g, not %.9g" .. allowed, what, k, got[k],
                     want[k], off, limit) then
            return
        end
        if copies and want[k] == 0
           and not check(1 / got[k] == 1 / want[k], "%s[%d] is %a, not %a", what, k, got[k], want[k]) then
            return
        end
    end
end

-- A kernel waiting to be compiled, with the inputs of its case.
local function plan_kernel(name, inputs, attrs)
    local node = host.infer(name, inputs, attrs)
    local id = host.kernel(node.id)
    return id and { name = name, id = id, node = node, inputs = inputs, attrs = attrs }
end

-- Runs it; outs: initial contents or nil. Returns the outputs' data and bytes.
local function run_kernel(plan, threads, beta, outs, in_place)
    local rule, operands, place = host.rule(plan.name), {}, {}
    for _, value, operand in each_input(plan.name, plan.inputs) do
        operands[#operands + 1] = { dtype = value.dtype, elems = value.elems, data = value.data }
        place[operand[1]] = #operands
    end
    local first = #operands + 1
    for i, out in ipairs(plan.node.outs) do
        operands[#operands + 1] = { dtype = out.dtype, elems = out.elems, data = outs and outs[i],
                                    same = in_place and place[rule.outputs[i].alias] or nil }
    end
    local data, raw, problem, moved = host.run {
        kernel = plan.id, threads = threads, beta = beta, workspace = plan.node.workspace,
        operands = operands,
    }
    check(not problem, "%s: %s", plan.what or plan.name, problem)
    return { table.unpack(data, first) }, { table.unpack(raw, first) }, problem, moved
end

local function same_bits(what, a, b)
    for i = 1, #a do
        if not check(a[i] == b[i], "%s: output %d has other bits", what, i) then
            return
        end
    end
end

-- Rows first + 1 to first + rows of a value.
local function rows_of(value, first, rows)
    local width = value.elems // value.shape[1]
    local shape = { table.unpack(value.shape) }
    shape[1] = rows
    return {
        shape = shape, dtype = value.dtype, elems = rows * width,
        data = { table.unpack(value.data, first * width + 1, (first + rows) * width) },
    }
end

local function of_tokens(operand) return string.find(operand[2], "^t%f[^%w]") end

-- The op's inputs for the tokens first + 1 to first + rows.
local function inputs_of(plan, first, rows)
    local inputs = {}
    for i, value, operand in each_input(plan.name, plan.inputs) do
        inputs[i] = of_tokens(operand) and rows_of(value, first, rows) or value
    end
    return inputs
end

-- The reference, `chunk` tokens at a time where the op has that attribute: what it adds
-- to is rounded after each of them, as its kernel does.
local function apply_in_chunks(plan)
    local rule, t, chunk = host.rule(plan.name), plan.node.n.t, plan.attrs.chunk
    local want = apply(plan.name, plan.inputs, plan.attrs)
    local adds = false
    for _, operand in ipairs(rule.outputs) do adds = adds or operand.add end
    if not adds or not chunk or chunk >= t then return want end
    local sums = {}
    for first = 0, t - 1, chunk do
        local inputs = inputs_of(plan, first, math.min(chunk, t - first))
        local part = apply(plan.name, inputs, plan.attrs)
        for i, operand in ipairs(rule.outputs) do
            local sum = sums[i] or {}
            for k = 1, operand.add and #part[i].data or 0 do
                sum[k] = host.round(part[i].dtype, (sum[k] or 0.0) + part[i].data[k])
            end
            sums[i] = sum
        end
    end
    for i, operand in ipairs(rule.outputs) do
        if operand.add then want[i].data = sums[i] end
    end
    return want
end

local golden, golden_order = {}, {} -- of each kernel: what its outputs were
local function add_golden(what, raw)
    if not golden[what] then golden_order[#golden_order + 1] = what end
    golden[what] = host.hash((golden[what] or "") .. table.concat(raw))
end

-- Stores, and where it can, adds to what lies there.
local function golden_kernel(plan)
    local initial, adds = {}, false
    host.dtypes(plan.config[1], plan.config[2])
    seed_by(plan.what)
    for i, operand in ipairs(host.rule(plan.name).outputs) do
        local out = plan.node.outs[i]
        adds = adds or operand.add
        initial[i] = random_data { dtype = out.dtype, elems = out.elems }.data
    end
    local _, raw = run_kernel(plan, 2, 0)
    add_golden(plan.what, raw)
    if adds then
        _, raw = run_kernel(plan, 2, 1, initial)
        add_golden(plan.what, raw)
    end
end

local plan_rows, test_rows = host.part "op_test_rows" {
    check = check, integer = integer, plan_kernel = plan_kernel, run_kernel = run_kernel,
    inputs_of = inputs_of, of_tokens = of_tokens,
}

local test_bytes, test_update = host.part "op_test_bytes" { check = check, run_kernel = run_kernel, each_input = each_input }
local function test_kernel(plan)
    local rule, what = host.rule(plan.name), plan.what
    call = plan
    host.at(plan.name, host.cuda and "cuda.cu" or "cpu.c", what)
    if host.golden then return golden_kernel(plan) end
    if host.bytes then return test_bytes(plan) end
    host.dtypes(plan.config[1], plan.config[2])
    local want = apply_in_chunks(plan)
    local data, raw, problem = run_kernel(plan, 1, 0)
    if problem and host.cuda then return end -- it stopped there
    if rule.interpret then formula.test(plan, data) end
    for i, operand in ipairs(host.formulas and {} or rule.outputs) do
        local dtype, size, more = want[i].dtype, nil, nil
        -- sums in another order may round a logit otherwise, and so what is wider
        local ulp = wide_of_logits[plan.name] and bounds[plan.config[1]][1] or 0
        if operand.dtype == "f64" then
            -- a loss is a sum in f64 of differences, of a few units, that were rounded before
            dtype = class_dtype("acc", plan.config)
            size = { math.abs(want[i].data[1]) + plan.node.n.t }
            more = ulp > bounds[dtype][1] and 16 * ulp -- of one logit, below 32
        elseif operand.add and ulp > bounds[dtype][1] then
            dtype = plan.config[1]
        elseif host.device and rule.products and rule.inputs[1].class == "fp8" then
            more = lost_by_fp8(plan.inputs)
        end
        compare(fmt("%s: %s", what, operand[1]), data[i], want[i].data, dtype, plan.name,
                size, more)
    end
    if host.digests and not host.of_platform(plan.id) then
        local digest = host.hash(table.concat(raw))
        host.print(fmt("bits of %s (%d): %s", what, plan.id, digest))
    end
    for _, threads in ipairs(other_threads) do
        local _, others = run_kernel(plan, threads, 0)
        same_bits(fmt(counted, what, threads), others, raw)
    end
    if plan.halves then test_rows(plan, raw) end
    local aliased, adds = false, false
    for _, operand in ipairs(rule.outputs) do
        aliased = aliased or operand.alias ~= nil
        adds = adds or operand.add
    end
    if aliased then
        local _, others = run_kernel(plan, 3, 0, nil, true)
        same_bits(what .. " in place", others, raw)
    end
    if adds then
        local initial = {}
        for i, out in ipairs(plan.node.outs) do
            initial[i] = random_data {
                dtype = out.dtype, elems = out.elems, shape = out.shape,
            }.data
        end
        local sums = run_kernel(plan, 2, 1, initial)
        for i, operand in ipairs(rule.outputs) do
            local expected, size = {}, {}
            for k = 1, #data[i] do
                local old = operand.add and initial[i][k] or 0
                expected[k] = data[i][k] + old
                size[k] = 2 * (math.abs(data[i][k]) + math.abs(old))
            end
            compare(fmt("%s: beta 1, %s", what, operand[1]), sums[i], expected,
                    plan.node.outs[i].dtype, plan.name, size)
        end
        local _, again = run_kernel(plan, 8, 1, initial)
        local _, once = run_kernel(plan, 1, 1, initial)
        same_bits(fmt(counted, what .. " with beta 1", 8), again, once)
    end
end

local test_expansion_reference, plan_expansion, test_fused = host.part "op_test_fused" {
    check = check, compare = compare, builder = builder, operands_by_name = operands_by_name,
    plan_kernel = plan_kernel, run_kernel = run_kernel, inputs_of = inputs_of,
    of_tokens = of_tokens, class_dtype = class_dtype, random_case = random_case, apply = apply,
    by_reference = by_reference,
}

local test_cuts = host.part "op_test_cuts" {
    check = check, integer = integer, random_case = random_case, apply = apply, each_input = each_input,
}

local optimizer_configs, plan_optimizer, test_optimizer =
    host.part "op_test_optimizers" {
        check = check, compare = compare, same_bits = same_bits, uniform = uniform,
        integer = integer, random_data = random_data, bounds = bounds, counted = counted,
        add_golden = add_golden, seed_by = seed_by, test_update = test_update,
    }

-- ---- all ops ------------------------------------------------------------------------

local only = host.only and {}
for one in string.gmatch(host.only or "", "[^,]+") do only[one] = true end

local function wanted(name)
    if host.formulas then return string.find(name, "^f%d+") ~= nil end -- of formulas.awk
    return only and only[name] or not only and (not host.person or host.foreign(name))
end

local plans, optimizers, tested, missing = {}, {}, {}, {}
-- An op need not have a cuda.cu: then it is listed.
local function has_kernel(plan, name)
    if not plan and (host.cuda or host.rule(name).same_bits) then
        if missing[#missing] ~= name then missing[#missing + 1] = name end
        return false
    end
    if not plan then
        call = nil
        host.at(name, "cpu.c")
    end
    return check(plan, "%s has no kernel: write cpu.c, or its rule as a formula, op.map", name)
end

-- Kernels of all dtypes for a random case each; cut rows cost two more, so that only the
-- first in f32 has them where all ops are tested.
local function plan_case(name, rule, case, number)
    local of_fp8 = rule.inputs[1] and rule.inputs[1].class == "fp8"
    for i, config in ipairs(configs) do
        if host.cuda and of_fp8 and config[1] == "f64" then goto next end -- no such product
        host.dtypes(config[1], config[2])
        local variant = number and rule.variants[number]
        local plan = plan_kernel(name, random_case(name, config, variant))
        if has_kernel(plan, name) then
            plan.config = config
            if host.formulas and i == 2 then formula.special(plan.inputs) end -- rows are NaN then
            plan.what = fmt("%s%s %s/%s", name, number and "+" .. number or "", config[1], config[2])
            plans[#plans + 1] = plan
            if not host.golden and not host.bytes then
                if rule.expands then plan_expansion(plan) end
                if host.person or i == 2 and case == 1 then plan_rows(plan) end
            end
        end
        ::next::
    end
end

local needed = {
    reference = "the naive computation that kernels are compared with",
    cases = "what draws the sizes of random calls",
}

-- False, after messages, where the rule has not what tests need.
local function can_be_tested(name, rule)
    local whole = true
    for _, key in ipairs { "reference", "cases" } do
        host.at(name, key)
        if not rule[key] then whole = check(false, "%s has no `%s`: %s", name, key, needed[key]) end
    end
    return whole
end

-- The references of an op are tested at once, its kernels when all are compiled.
local function plan_op(name, rule)
    call = nil
    host.at(name, "cases")
    if host.golden then seed_by(name) end
    if rule.role == "optimizer" then
        for i, config in ipairs(optimizer_configs) do
            local plan = plan_optimizer(name, config, i)
            if has_kernel(plan, name) then optimizers[#optimizers + 1] = plan end
        end
    elseif rule.role ~= "collective" -- of all parts at once: tests/graph/parts.lua
           and can_be_tested(name, rule) then
        for case = 1, host.cases do
            if not host.cuda and not host.golden then -- of references only: done with cpu.c
                if rule.backward then test_backward(name) end
                if rule.expands then test_expansion_reference(name) end
                if rule.cuts and not host.formulas then test_cuts(name) end
            end
            host.at(name, "cases")
            plan_case(name, rule, case)
        end
        for i in ipairs(host.golden and rule.variants or {}) do plan_case(name, rule, 1, i) end
    end
end

for _, name in ipairs(host.names()) do
    if wanted(name) then
        local before = failures
        plan_op(name, host.rule(name))
        tested[#tested + 1] = { name = name, failed = failures - before, plans = {} }
        tested[name] = tested[#tested]
    end
end
call = nil
check(#tested > 0, host.only and "no op is called %s" or
      "%s has no op folders: a subfolder with an op.lua for each op", host.only or host.ops)

-- Runs test(plan); what fails is counted for the plan's op.
local function counted_test(plan, test)
    local before, of = failures, tested[plan.name]
    test(plan)
    of.plans[#of.plans + 1] = plan
    of.failed = of.failed + failures - before
end

local compiled = host.compile()
if not compiled then
    failures = failures + 1
    if not host.person then host.fail("kernels do not compile") end
else
    for _, plan in ipairs(plans) do
        counted_test(plan, function()
            test_kernel(plan)
            if plan.parts and #plan.parts > 0 then test_fused(plan) end
        end)
    end
    for _, plan in ipairs(optimizers) do
        call = plan
        host.at(plan.name, host.cuda and "cuda.cu" or "cpu.c", plan.what)
        counted_test(plan, test_optimizer)
    end
    for _, what in ipairs(golden_order) do
        local version = host.rule(string.match(what, "^[%w_]+")).arithmetic or 0
        host.print(fmt("golden %s %d %s", what, version, golden[what]))
    end
end
local kernels = #plans + #optimizers
if host.person then
    for _, of in ipairs(compiled and tested or {}) do report(of.name, of.failed, of.plans) end
    host.print(fmt("%d ops, %d kernels, %d checks, %d failures", #tested, kernels, checks,
                   failures))
    return failures
end
if #missing > 0 then
    host.print(fmt("op_test: no %s: ", host.cuda and "cuda.cu" or "cpu.c") .. table.concat(missing, ", "))
end
host.print(fmt("op_test: %d ops, %d kernels, %d checks", #tested, kernels, checks))
return failures
