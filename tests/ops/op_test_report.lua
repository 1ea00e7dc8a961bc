-- SPDX-License-Identifier: Apache-2.0
-- op_test_report.lua: what `fsdpgen test-op` prints of an op: which of the tests its kernels
-- and its rule took, and whether they hold. In: plans of op_test.lua. Out: a line.
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
return function(name, failed, plans)
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
