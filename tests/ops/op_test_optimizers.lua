-- SPDX-License-Identifier: Apache-2.0
-- op_test_optimizers.lua: what every optimizer's op must hold: its kernel equals the
-- reference within the dtype's rounding, with the same noise, has the same bits with other
-- numbers of threads, and writes nothing that lies outside the run. In: functions of
-- op_test.lua, in a table. Out: dtypes to test, and two functions: plan and test.
return function(t)

local fmt, check, compare, same_bits = string.format, t.check, t.compare, t.same_bits
local uniform, integer, random_data = t.uniform, t.integer, t.random_data
local bounds, counted = t.bounds, t.counted
local add_golden, seed_by = t.add_golden, t.seed_by

-- param, reduce, master, moments
local optimizer_configs = {
    { "f64", "f64", "f64", "f64" }, { "f32", "f32", "f32", "f32" },
    { "bf16", "f32", "f32", "f32" }, { "bf16", "bf16", "f32", "bf16" },
    { "bf16", "f32", "bf16", "bf16" }, { "bf16", "f32", "split", "f32" },
    { "f16", "f32", "f32", "bf16" },
}

-- The moment that is a mean of squares, where it is not the second: never below 0.
local squares = { rmsprop = "moment1" }

local function plan_optimizer(name, config, number)
    local rule, case, dtypes = host.rule(name), host.rule(name).cases(integer), {}
    local by_class = {
        float = config[1], grad = config[2], master = config[3], moments = config[4],
        acc = config[1] == "f64" and "f64" or "f32",
    }
    host.dtypes(config[1], config[2])
    for i, operand in ipairs(rule.inputs) do
        dtypes[i] = by_class[operand.class or "float"]
    end
    local id = host.optimizer(name, case, dtypes, fmt("%s_%d", name, number))
    return id and {
        name = name, id = id, case = case, dtypes = dtypes,
        what = fmt("%s %s", name, table.concat(config, "/")),
    }
end

local function test_optimizer(plan)
    local rule, n = host.rule(plan.name), { round = nil }
    if host.golden then seed_by(plan.what) end
    local operands, index = {}, {}
    for key, v in next, plan.case do n[key] = v end
    for i, operand in ipairs(rule.inputs) do index[operand[1]] = i end
    -- A matrix may begin anywhere in its parameter: elements before it belong to another.
    local all = n.e
    local before = index.direction and integer(0, math.min(9, all - 1)) or 0
    local function of_run(data) return { table.unpack(data, before + 1) } end
    n.e = all - before
    local lr_ratio = integer(0, 1) == 0 and 1 or 0.125
    n.scale, n.decay = 0.25, uniform() / 5
    n.lr = (0.01 + uniform() / 10) * lr_ratio -- of this parameter
    n.bias1, n.bias2 = 0.1 + uniform() / 2, 0.05 + uniform() / 2
    n.lr_adjust = 0.5 + uniform()
    local update = {
        scale = n.scale, lr = n.lr / lr_ratio, lr_ratio = lr_ratio, decay = n.decay,
        bias1 = n.bias1, bias2 = n.bias2, lr_adjust = n.lr_adjust, before = before,
    }
    local acc = plan.dtypes[1] == "f64" and "f64" or "f32"
    for i, operand in ipairs(rule.inputs) do
        local value = {
            name = operand[1], dtype = plan.dtypes[i], elems = all, shape = { all },
        }
        random_data(value)
        if operand[1] == (squares[plan.name] or "moment2") then
            for k = 1, n.e do value.data[k] = math.abs(value.data[k]) end
        end
        n[operand[1]] = of_run(value.data)
        operands[i] = value
    end
    if index.param and plan.dtypes[index.param] == plan.dtypes[index.master] then
        -- one buffer for both
        operands[index.master].same = index.param
        n.param = n.master
    end
    if index.master and plan.dtypes[index.master] == "split" then
        -- the bits of a master in two places
        local masters = random_data({ dtype = "f32", elems = all, shape = { all } }).data
        for k = 1, all do
            local weight, rest = host.split(masters[k])
            operands[index.param].data[k], operands[index.master].data[k] = weight, rest
        end
        n.master = of_run(masters)
    end
    local rounded = {} -- how often: once for each element, in order
    n.round = function(what, v)
        local dtype = plan.dtypes[index[what]]
        rounded[what] = (rounded[what] or 0) + 1
        if dtype == "split" then return host.round("f32", v) end
        if dtype == "bf16" and what ~= "param" then -- state is rounded by noise
            return host.noisy(v, host.noise(what, before + rounded[what]))
        end
        return host.round(dtype, v)
    end
    local grad = n.grad
    rule.reference(n)
    local first
    for _, threads in ipairs { 1, 3, 8 } do
        local data, raw, problem, moved = host.run {
            kernel = plan.id, threads = threads, beta = 0, workspace = 0,
            operands = operands, update = update,
        }
        check(not problem, "%s: %s", plan.what, problem)
        if host.golden then return add_golden(plan.what, raw) end
        if host.bytes then
            return t.test_update(plan, moved, n.e, index.master and operands[index.master].same)
        end
        if not first then
            first = raw
            local covered = index.master and operands[index.master].same
            for i = 1, #operands do
                for k = 1, i == covered and 0 or before do
                    check(data[i][k] == operands[i].data[k], "%s: writes before the run",
                          plan.what)
                end
                data[i] = of_run(data[i])
            end
            if index.master and plan.dtypes[index.master] == "split" then
                local weights, rests = data[index.param], data[index.master]
                for k = 1, n.e do rests[k] = host.joined(weights[k], rests[k]) end
            end
            for i, operand in ipairs(rule.inputs) do
                local dtype = bounds[plan.dtypes[i]] and plan.dtypes[i] ~= "f32"
                    and plan.dtypes[i] or acc
                local what = fmt("%s: %s", plan.what, operand[1])
                compare(what, data[i], n[operand[1]], dtype)
                if rounded[operand[1]] and dtype == "bf16" and operand[1] ~= "param" then
                    -- the same noise: only what f32 computes otherwise may differ
                    local other = 0
                    for k = 1, n.e do
                        if data[i][k] ~= n[operand[1]][k] then other = other + 1 end
                    end
                    check(other <= 1 + n.e // 20, "%s: %d of %d rounded by other noise",
                          what, other, n.e)
                end
            end
        else
            same_bits(fmt(counted, plan.what, threads), raw, first)
        end
    end
    check(n.grad == grad, "%s: writes the gradient", plan.what)
end

return optimizer_configs, plan_optimizer, test_optimizer

end
