-- SPDX-License-Identifier: Apache-2.0
-- op_test_report.lua: what `fsdpgen test-op` prints of an op: which of the tests its kernels
-- and its rule took, and whether they hold; and the call that a failure is about. In: plans of
-- op_test.lua. Out: two functions: a line for an op, and the text of a call.
local function joined(list) return table.concat(list, ", ") end

local function dtypes_of(plans)
    local list, seen = {}, {}
    for _, plan in ipairs(plans) do
        local name = plan.config and plan.config[1] or plan.dtypes[1]
        if not seen[name] then list[#list + 1] = name end
        seen[name] = true
    end
    return table.concat(list, " ")
end

-- failed: how many checks of it do not hold; plans: its kernels
local function report(name, failed, plans)
    local rule, took = host.rule(name), {}
    if rule.backward and not host.cuda then took[#took + 1] = "gradient" end
    if #plans > 0 then took[#took + 1] = "values" end
    if #plans > 0 then took[#took + 1] = host.cuda and "orders" or "threads" end
    for _, plan in ipairs(plans) do
        if plan.halves then
            took[#took + 1] = "rows"
            break
        end
    end
    local aliased, adds = false, false
    for _, operand in ipairs(rule.outputs or {}) do
        aliased, adds = aliased or operand.alias, adds or operand.add
    end
    if #plans > 0 and aliased then took[#took + 1] = "in place" end
    if #plans > 0 and adds then took[#took + 1] = "beta" end
    if rule.expands then took[#took + 1] = "expansion" end
    local verdict = failed > 0 and string.format("%d FAILED", failed) or "ok"
    local file = host.cuda and "cuda.cu" or "cpu.c"
    if #plans == 0 and failed == 0 then verdict = "not run: no " .. file end
    if #plans > 0 then
        verdict = string.format("%-10s %s; %s", verdict, dtypes_of(plans), joined(took))
    end
    local line = string.format("%-24s %s", name, verdict)
    host.print(line)
end

-- call: an op's name, inputs and attributes; of an optimizer the case it was drawn from
local function call_text(call)
    local rule, given, attrs = host.rule(call.name), {}, {}
    for i, operand in ipairs(rule.inputs) do
        local value = call.inputs and call.inputs[i]
        if value then given[#given + 1] = string.format("%s [%s]", operand[1], joined(value.shape)) end
    end
    for key, value in next, call.attrs or call.case do
        local form = math.type(value) == "float" and "%s = %.9g" or "%s = %s"
        if form == "%s = %s" then value = tostring(value) end
        attrs[#attrs + 1] = string.format(form, key, value)
    end
    table.sort(attrs)
    for _, text in ipairs(attrs) do given[#given + 1] = text end
    return string.format("the call was %s { %s }, of --seed %d", call.name, joined(given),
                         host.seed)
end

return { report, call_text }
