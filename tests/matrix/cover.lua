-- SPDX-License-Identifier: Apache-2.0
-- cover.lua: rows that meet every pair of values of two factors which the rules allow.
--
--     matrix_lua cover.lua values            every value, for run.sh to ask the generator
--     matrix_lua cover.lua rows SEED [OUT [ONLY]]   the rows without the values that OUT names
--                                            (`factor value;...`); of a factor in ONLY
--                                            (`factor=value,value;...`) only those values
--
-- values: lines `factor value<tab>set<tab>set...`. rows: lines `label<tab>threads<tab>set...`,
-- then on stderr what is covered. Greedy: a row starts at a pair that is not met yet and takes,
-- factor by factor in a random order, the value that meets most; the best of several such rows
-- is kept. What is written is counted again, from the rows alone. Deterministic by the seed.

local here = arg[0]:match("^(.*)/") or "."
local choices = dofile(here .. "/choices.lua")

local state
local function random(n) -- 1..n
    state = (state * 6364136223846793005 + 1442695040888963407)
    return (state >> 33) % n + 1
end

local function shuffled(n)
    local order = {}
    for i = 1, n do
        local j = random(i)
        order[i] = order[j]
        order[j] = i
    end
    return order
end

-- `factor=value,value;...` as { factor = { value = true } }; a word that nobody knows is an error
local function parse_only(text)
    local only, known = {}, {}
    for _, f in ipairs(choices.factors) do
        for j = 2, #f do
            known[f[1] .. " " .. f[j][1]] = true
        end
    end
    for factor, values in text:gmatch("([^;=]+)=([^;]+)") do
        only[factor] = {}
        for value in values:gmatch("[^,]+") do
            assert(known[factor .. " " .. value], "no value " .. value .. " of " .. factor)
            only[factor][value] = true
        end
    end
    return only
end

-- factors without the values that are not available or not wanted, names to places
local function load_factors(left_out, only)
    local factors, place = {}, {}
    for i, f in ipairs(choices.factors) do
        local values = {}
        for j = 2, #f do
            local wanted = not only[f[1]] or only[f[1]][f[j][1]]
            if wanted and not left_out[f[1] .. " " .. f[j][1]] then
                values[#values + 1] = f[j]
            end
        end
        factors[i] = { name = f[1], values = values }
        place[f[1]] = i
    end
    return factors, place
end

-- Does the (partial) row break a rule? A rule speaks once all its factors are chosen.
local function legal(factors, place, row)
    for _, rule in ipairs(choices.rules) do
        local labels = {}
        for k = 1, #rule - 1 do
            local f = place[rule[k]]
            labels[k] = row[f] and factors[f].values[row[f]][1]
        end
        if #labels == #rule - 1 and not rule[#rule](table.unpack(labels)) then
            return false
        end
    end
    return true
end

-- Can the factors that rules speak of still be chosen? The others always can.
local function completable(factors, place, row)
    if not legal(factors, place, row) then
        return false
    end
    for _, rule in ipairs(choices.rules) do
        for k = 1, #rule - 1 do
            local f = place[rule[k]]
            if not row[f] then
                for v = 1, #factors[f].values do
                    row[f] = v
                    local good = completable(factors, place, row)
                    row[f] = nil
                    if good then
                        return true
                    end
                end
                return false
            end
        end
    end
    return true
end

local function key(i, a, j, b) -- i < j
    return ((i * 64 + a) * 64 + j) * 64 + b
end

-- Every pair that some whole row can have.
local function all_pairs(factors, place)
    local open, list, refused = {}, {}, 0
    for i = 1, #factors do
        for j = i + 1, #factors do
            for a = 1, #factors[i].values do
                for b = 1, #factors[j].values do
                    if completable(factors, place, { [i] = a, [j] = b }) then
                        open[key(i, a, j, b)] = true
                        list[#list + 1] = { i, a, j, b }
                    else
                        refused = refused + 1
                    end
                end
            end
        end
    end
    return open, list, refused
end

local function met_with(row, n, f, v, open)
    local met = 0
    for g = 1, n do
        if row[g] and g ~= f then
            local k = g < f and key(g, row[g], f, v) or key(f, v, g, row[g])
            met = met + (open[k] and 1 or 0)
        end
    end
    return met
end

local function one_row(factors, place, open, seed_pair)
    local row = { [seed_pair[1]] = seed_pair[2], [seed_pair[3]] = seed_pair[4] }
    local total = 1
    for _, f in ipairs(shuffled(#factors)) do
        if not row[f] then
            local best, best_met = nil, -1
            for _, v in ipairs(shuffled(#factors[f].values)) do
                row[f] = nil
                local met = met_with(row, #factors, f, v, open)
                row[f] = v
                if met > best_met and completable(factors, place, row) then
                    best, best_met = v, met
                end
            end
            row[f] = best
            total = total + best_met
        end
    end
    return row, total
end

local function close_pairs(row, n, open)
    local closed = 0
    for i = 1, n do
        for j = i + 1, n do
            local k = key(i, row[i], j, row[j])
            closed = closed + (open[k] and 1 or 0)
            open[k] = nil
        end
    end
    return closed
end

local function cover(factors, place)
    local open, list = all_pairs(factors, place)
    local rows = {}
    for _, at in ipairs(shuffled(#list)) do
        if open[key(table.unpack(list[at]))] then
            local best, best_met
            for _ = 1, 12 do
                local row, met = one_row(factors, place, open, list[at])
                if not best or met > best_met then
                    best, best_met = row, met
                end
            end
            rows[#rows + 1] = best
            close_pairs(best, #factors, open)
        end
    end
    return rows
end

local function print_row(factors, row)
    local label, sets, threads = {}, {}, nil
    for i, f in ipairs(factors) do
        local v = f.values[row[i]]
        label[i] = f.name .. " " .. v[1]
        threads = f.name == "threads" and v[1] or threads
        for s = 2, #v do
            sets[#sets + 1] = v[s]
        end
    end
    print(table.concat(label, ", ") .. "\t" .. threads .. "\t" .. table.concat(sets, "\t"))
end

local function print_rows(seed, left_out_names, only)
    local left_out = {}
    for name in left_out_names:gmatch("[^;]+") do
        left_out[name] = true
    end
    state = math.tointeger(seed)
    local factors, place = load_factors(left_out, parse_only(only))
    local rows = cover(factors, place)
    local open, list, refused = all_pairs(factors, place)
    for _, row in ipairs(rows) do
        assert(legal(factors, place, row), "a row breaks a rule")
        print_row(factors, row)
        close_pairs(row, #factors, open)
    end
    assert(next(open) == nil, "a pair is not met")
    io.stderr:write(("%d rows meet %d pairs; %d pairs are refused by the rules\n"):format(
        #rows, #list, refused))
end

local function print_values()
    for _, f in ipairs(choices.factors) do
        for j = 2, #f do
            local v, words = f[j], {}
            for _, set in ipairs(v.with or {}) do
                words[#words + 1] = set
            end
            for s = 2, #v do
                words[#words + 1] = v[s]
            end
            print(f[1] .. " " .. v[1] .. "\t" .. table.concat(words, "\t"))
        end
    end
end

if arg[1] == "values" then
    print_values()
elseif arg[1] == "rows" then
    print_rows(arg[2], arg[3] or "", arg[4] or "")
else
    error("matrix_lua cover.lua values | rows SEED [OUT [ONLY]]")
end
