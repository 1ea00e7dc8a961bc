-- SPDX-License-Identifier: Apache-2.0
-- op_test_make.lua: what cases of ops that compute in parts make alike. In: the random numbers of
-- op_test.lua and whether inputs are golden, in a table. Out: a table of functions, to which op_test.lua adds.
return function(t)

local make, integer = {}, t.integer

-- n[rows] becomes as many rows of each of n.parts parts of a table; their numbers, and ids of these
-- parts and of others.
function make.part_of_rows(n, rows)
    local part, tokens, each, all = {}, {}, n[rows], n.parts + integer(0, 2)
    local first = integer(0, all - n.parts)
    n[rows] = each * n.parts
    for k = 1, n.parts do part[k] = first + k - 1 end
    for i = 1, n.t do tokens[i] = integer(0, all * each - 1) end
    return { part = part, tokens = tokens, targets = tokens }
end

-- n.v becomes as many columns of each of n.parts parts of n.vocab classes; their numbers, and targets
-- among these classes and others. The last part may have fewer classes than columns.
function make.part_of_classes(n, masked)
    local each, given = n.v, make.part_of_rows(n, "v")
    local after = (given.part[n.parts] + 1 + integer(0, 1)) * each
    n.vocab = after - (integer(0, 1) == 1 and integer(0, each - 1) or 0)
    for i = 1, n.t do
        given.targets[i] = masked and integer(0, 2) == 0 and -1 or integer(0, n.vocab - 1)
    end
    return given
end

-- A sink for each head; some are -inf, as if there were none. Golden inputs are older, and random: nil.
function make.sinks(heads)
    local sinks = {}
    for h = 1, t.golden and 0 or heads do
        sinks[h] = integer(0, 2) == 0 and -math.huge or integer(-128, 127) / 64
    end
    return sinks[1] and sinks
end

return make

end
