-- SPDX-License-Identifier: Apache-2.0
-- optimizer.lua: the constructor in the rule of an optimizer, for descriptions. In: the
-- table of its op.lua, which has role = "optimizer" and fields, and what load_optimizers.c knows
-- of other folders. Out: rows of fields (gen/lua/describe.lua), what each of them feeds, and all
-- mistakes, each with its place in op.lua. gen/lua/op.lua checks what kernels need of the rule,
-- later. The language, beside that of other ops:
--
--   fields     = { { "eps", "number", above = 0, max = 1, default = 1e-8, doc = "..." },
--                  { "betas", "list", count = 2, item = { "beta", "number", min = 0, below = 1 },
--                    default = { 0.9, 0.95 }, feeds = { "beta1", "beta2" } } },
--                the constructor's fields, in addition to lr, weight_decay and clip, which all
--                have. A row has the form of describe.lua, with a few types and attributes, and
--                has a default. feeds: the attribute that gets the value; by default the one
--                with the field's name. "matrix.steps" belongs to the op in uses.matrix. false:
--                none, because moments or lr_adjust reads it. Attributes beta1 and
--                beta2 give the bias corrections of a step
--   moments    = 1, per element; or function(f) of the fields' values
--   dtypes     = { master = { "f32" }, moments = { "f32", "bf16" } },
--                dtypes that its kernels support; by default all
--   default    = true: the optimizer of descriptions that name none
--   uses       = { momentum = "op", matrix = "op", others = "op" },
--                it treats matrices as a whole: `momentum` (an optimizer without fields) turns
--                gradients into momentum, `matrix` (an op on one matrix) turns that into a
--                direction, and this optimizer applies it; `others` (an optimizer with fields,
--                in a table of that name) updates all other parameters
--   lr_adjust  = function(f, m, n), the factor of an m x n matrix's learning rate; default 1

local fmt = string.format

local rate = { "lr", "number", above = 0, max = 1e3, default = 3e-4,
               doc = "base learning rate" }
local decay = { "weight_decay", "number", min = 0, max = 1e3, default = 0.1,
                doc = "decoupled; none on norms and biases" }
local clip = { "clip", "number", min = 0, max = 1e30, default = 1.0,
               doc = "largest global gradient norm; 0: no clipping" }

-- Dtypes in which the runtime can keep state.
local state_dtypes = {
    master = { "f32", "f64", "split", "bf16" },
    moments = { "f32", "f64", "bf16" },
}
local use_names = { "matrix", "momentum", "others" }
local most_moments = 2 -- what a trainer has room for
local most_items = 24  -- of a list: the limit of an op's attributes

local ranges = { "min", "max", "above", "below" }
local attributes = { -- legal attributes of a field, by its type
    number = { "default", "doc", "example", "feeds", "min", "max", "above", "below" },
    int = { "default", "doc", "example", "feeds", "min", "max", "above", "below",
            "power_of_two" },
    bool = { "default", "doc", "example", "feeds" },
    string = { "default", "doc", "example", "feeds", "values" },
    list = { "default", "doc", "example", "feeds", "count", "item" },
}
local item_attributes = { -- of a list's item
    number = ranges,
    int = { "min", "max", "above", "below", "power_of_two" },
    bool = {},
}
local attribute_types = {
    doc = "string", example = "string", values = "table", item = "table", count = "number",
    min = "number", max = "number", above = "number", below = "number",
    power_of_two = "boolean",
}

local function has(list, word)
    for _, w in ipairs(list) do
        if w == word then return true end
    end
    return false
end

local function sorted_keys(t)
    local keys = {}
    for k in pairs(t) do keys[#keys + 1] = k end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    return keys
end

local function words(list, quote, last)
    local text = ""
    for i, w in ipairs(list) do
        text = text .. (i == 1 and "" or i == #list and last or ", ") .. quote .. w .. quote
    end
    return text
end

-- A value as messages show it.
local function show(v)
    if type(v) == "string" then return fmt("%q", v) end
    return (type(v) == "table" or type(v) == "function") and "a " .. type(v) or tostring(v)
end

local function table_of(v)
    return type(v) == "table" and v or {}
end

-- The type of a scalar in the terms of fields; nil if it has none.
local function type_of(v)
    return type(v) == "boolean" and "bool" or type(v) == "string" and "string"
        or math.type(v) == "integer" and "int" or math.type(v) and "number" or nil
end

-- The attributes of a rule: { name = { type, has a value without a field } }.
local function attributes_of(rule)
    local attrs = {}
    for key, spec in pairs(table_of(rule.attrs)) do
        local row = type(spec) == "table" and spec or { spec }
        attrs[key] = { type = row[1], given = row[2] ~= nil or row.from ~= nil }
    end
    return attrs
end

local function is_optimizer(rule)
    return type(rule) == "table" and rule.role == "optimizer"
end

-- The moments among the inputs; nil and a problem unless they are moment1, moment2.
local function moments_of(rule)
    local n = 0
    for i, operand in ipairs(table_of(rule.inputs)) do
        if type(operand) == "table" and operand.class == "moments" then
            n = n + 1
            if operand[1] ~= "moment" .. n or n > most_moments then
                return nil, { "inputs", i, 1 }
            end
        end
    end
    return n
end

local function in_range(f, v)
    return not (f.min and v < f.min or f.max and v > f.max or f.above and v <= f.above
        or f.below and v >= f.below or f.power_of_two and (v < 1 or v & (v - 1) ~= 0))
end

-- ---- one field ---------------------------------------------------------------------------

-- what: the field, or its list's item. False after a problem.
local function check_attributes(bad, what, row, at, type_name, allowed)
    local good = true
    for _, key in ipairs(sorted_keys(row)) do
        local want = attribute_types[key]
        if math.type(key) == "integer" then
            if key > 2 then
                good = bad({ at, key }, fmt("%s: %s stands after the type", what, show(row[key])),
                           "write attributes by name: default = ...")
            end
        elseif not has(allowed, key) then
            local all, known = {}, false
            for _, list in pairs(attributes) do
                known = known or has(list, key)
                for _, name in ipairs(list) do all[#all + 1] = name end
            end
            local near = not known and type(key) == "string" and bad.nearest(key, all)
            good = bad({ at, key, key = true },
                       known and fmt("%s: type %s has no %s", what, type_name, key)
                           or fmt("%s: unknown attribute '%s'", what, tostring(key)),
                       near and fmt("did you mean `%s`?", near)
                           or #allowed == 0 and "leave it out"
                           or "its attributes are " .. words(allowed, "", " and "))
        elseif want and type(row[key]) ~= want then
            good = bad({ at, key }, fmt("%s: %s must be a %s, not %s", what, key, want,
                                        show(row[key])), fmt("write %s = a %s", key, want))
        elseif want == "number" and not (row[key] == row[key] and math.abs(row[key]) < math.huge)
        then
            good = bad({ at, key }, fmt("%s: %s is not a finite number", what, key),
                       "leave it out, or write a number")
        end
    end
    return good
end

-- Checks a default, or an item of one.
local function check_default(bad, what, f, type_name, v, at)
    local is = type_of(v)
    if is ~= type_name and not (type_name == "number" and is == "int") then
        return bad(at, fmt("%s: its default is %s, not of type %s", what, show(v), type_name),
                   "write default = a value of that type")
    elseif type_name == "string" then
        return has(f.values, v)
            or bad(at, fmt("%s: its default %s is not one of its values", what, show(v)),
                   "use " .. words(f.values, '"', " or "))
    elseif type_name ~= "bool" and (v ~= v or math.abs(v) == math.huge) then
        return bad(at, fmt("%s: its default is not a finite number", what),
                   "write default = a number")
    elseif type_name ~= "bool" and not in_range(f, v) then
        return bad(at, fmt("%s: its default %s is out of its own range", what, tostring(v)),
                   "change the default, or the range")
    end
    return true
end

local function check_list(bad, what, f, at)
    local item, count = f.item, f.count
    if math.type(count) ~= "integer" or count < 1 or count > most_items then
        return bad({ at, "count" }, fmt("%s: a list has a count from 1 to %d, not %s", what,
                                        most_items, show(count)), "write count = 2")
    elseif type(item) ~= "table" or type(item[1]) ~= "string" or not item_attributes[item[2]] then
        return bad({ at, "item" }, what .. ": a list needs item = { name, type }",
                   'write item = { "beta", "number", min = 0, below = 1 }')
    elseif not check_attributes(bad, what .. ": item", item, { at, "item" }, item[2],
                                item_attributes[item[2]]) then
        return false
    elseif type(f.default) ~= "table" or #f.default ~= count then
        return bad({ at, "default" }, fmt("%s: its default is not a list of %d", what, count),
                   fmt("write default = a list of %d values", count))
    end
    for i, v in ipairs(f.default) do
        if not check_default(bad, what, item, item[2], v, { at, "default", i }) then
            return false
        end
    end
    return true
end

-- The row for describe.lua; nil after a problem.
local function check_field(bad, f, at)
    local name = type(f) == "table" and f[1]
    if type(name) ~= "string" then
        bad(at, "a field is not a row { name, type, ... }",
            'write { "beta", "number", default = 0.9 }')
        return
    end
    local what, type_name = "field '" .. name .. "'", f[2]
    if not bad.identifier(name) then
        bad({ at, 1 }, what .. " has no legal name",
            "use lower-case letters, digits and _, a letter first, no word of Lua")
        return
    elseif type(type_name) ~= "string" or not attributes[type_name] then
        bad({ at, 2 }, type_name == nil and what .. " has no type"
                or fmt("%s: unknown type %s", what, tostring(type_name)),
            "use number, int, bool, string or list")
        return
    elseif not check_attributes(bad, what, f, at, type_name, attributes[type_name]) then
        return
    elseif type_name == "string" then
        for i = 1, math.max(1, #table_of(f.values)) do
            if type(table_of(f.values)[i]) ~= "string" then
                bad({ at, "values" }, what .. ": a string needs a list of its values",
                    'write values = { "a", "b" }')
                return
            end
        end
    end
    if f.default == nil then
        bad(at, what .. " has no default", "add default = a value of its type")
        return
    elseif type_name == "list" and not check_list(bad, what, f, at)
        or type_name ~= "list"
        and not check_default(bad, what, f, type_name, f.default, { at, "default" }) then
        return
    end
    local row = {}
    for key, v in pairs(f) do
        if key ~= "feeds" then row[key] = v end
    end
    return row
end

-- ---- what fields feed --------------------------------------------------------------------

-- ops: { self = { name, attrs, fed }, matrix = ..., momentum = ... }. Adds to feeds.
local function check_feed(bad, f, target, type_name, path, at, ops, feeds, use_of)
    local what = "field '" .. f[1] .. "'"
    local use, attr = target:match("^([^.]*)%.(.*)$")
    local op = ops[use or "self"]
    if use and (not op or use == "self") then
        local known = {}
        for _, name in ipairs(use_names) do
            if ops[name] then known[#known + 1] = name end
        end
        return bad(at, fmt("%s feeds %s, but uses names no such op", what, target),
                   #known > 0 and "before the point stands " .. words(known, "", " or ")
                       or "write the name of an attribute of its own")
    end
    attr = attr or target
    local spec = op.attrs[attr]
    if not spec then
        local near = bad.nearest(attr, sorted_keys(op.attrs))
        return bad(at, fmt("%s: op %s has no attribute %s", what, op.name, attr),
                   near and fmt("did you mean feeds = \"%s\"?", (use and use .. "." or "") .. near)
                       or use and "its attributes are " .. words(sorted_keys(op.attrs), "", " and ")
                       or fmt('write attrs = { %s = "%s" }', attr, type_name))
    elseif spec.type ~= type_name then
        return bad(at, fmt("%s is not an attribute of type %s: %s of %s is %s", what, type_name, attr,
                           op.name, tostring(spec.type)),
                   use and "give the field that type"
                       or fmt('write attrs = { %s = "%s" }', attr, type_name))
    elseif op.fed[attr] then
        return bad(at, fmt("%s: field '%s' feeds %s already", what, op.fed[attr], target),
                   "remove one of them")
    end
    op.fed[attr] = f[1]
    feeds[#feeds + 1] = { field = path, attr = attr, type = type_name, use = use_of[use or "self"] }
end

local function check_feeds(bad, rule, f, at, ops, feeds, use_of)
    local list, target = f[2] == "list", f.feeds
    if target == nil then
        if list then
            return bad(at, fmt("field '%s': a list says which attributes it feeds", f[1]),
                       'write feeds = { "a", "b" }, a name for each value')
        end
        return check_feed(bad, f, f[1], f[2], f[1], { at, 1 }, ops, feeds, use_of)
    end
    local names = type(target) == "string" and { target } or table_of(target)
    local good = target == false
        or list == (type(target) == "table") and #names == (list and f.count or 1)
    for i = 1, #names do good = good and type(names[i]) == "string" end
    if not good then
        return bad({ at, "feeds" }, fmt("field '%s': feeds is not %s", f[1],
                                        list and fmt("a list of %d names", f.count) or "a name"),
                   "name attributes; or feeds = false, where moments or lr_adjust reads the field")
    elseif target == false then
        if type(rule.moments) ~= "function" and type(rule.lr_adjust) ~= "function" then
            bad({ at, "feeds" }, fmt("field '%s' feeds nothing, and nothing reads it", f[1]),
                "leave feeds out; or let moments or lr_adjust be functions of the fields")
        end
        return
    end
    for i, name in ipairs(names) do
        check_feed(bad, f, name, list and f.item[2] or f[2],
                   list and fmt("%s[%d]", f[1], i) or f[1],
                   list and { at, "feeds", i } or { at, "feeds" }, ops, feeds, use_of)
    end
end

-- Reports attributes without a value.
local function check_fed(bad, ops)
    for _, use in ipairs { "self", "matrix", "momentum" } do
        local op = ops[use]
        for _, attr in ipairs(op and sorted_keys(op.attrs) or {}) do
            if not op.fed[attr] and not op.attrs[attr].given then
                bad(use == "self" and { "attrs", attr, key = true } or { "uses", use },
                    use == "self" and fmt("attribute %s has no field", attr)
                        or fmt("attribute %s of %s has no field", attr, op.name),
                    fmt('add { "%s", "%s", %sdefault = ... } to fields', attr,
                        tostring(op.attrs[attr].type),
                        use == "self" and "" or fmt('feeds = "%s.%s", ', use, attr)))
            end
        end
    end
end

-- ---- the rest of a rule ------------------------------------------------------------------

-- True if the op at uses[use] is what it must be.
local function check_use(bad, rule, use, other, taken)
    local name, at = rule.uses[use], { "uses", use }
    if other == nil then
        local near = bad.nearest(name, bad.names)
        return bad(at, fmt("uses.%s: there is no op %s", use, name),
                   near and fmt("did you mean \"%s\"?", near) or "name a folder of --ops, or an "
                       .. "op of fsdpgen")
    elseif use == "matrix" then
        return not is_optimizer(other) and #table_of(other.inputs) == 1
            and #table_of(other.outputs) == 1
            or bad(at, fmt("uses.matrix: %s is not of one matrix", name),
                   "name an op with one input and one output, no optimizer")
    elseif use == "momentum" then
        return is_optimizer(other) and other.fields == nil
            or bad(at, fmt("uses.momentum: %s is not an optimizer without fields", name),
                   'name an op with role = "optimizer" and no fields, which makes `direction`')
    end
    if not is_optimizer(other) or other.fields == nil or other.uses ~= nil then
        return bad(at, fmt("uses.others: %s is not an optimizer with fields that treats each "
                           .. "element by itself", name),
                   "name one that descriptions have, and that uses no other op")
    elseif has({ "lr", "weight_decay", "clip" }, name) or taken[name] then
        return bad(at, fmt("uses.others: there is a field %s already", name),
                   "give that field another name")
    end
    return true
end

-- The ops in `uses`, by use; nil after a problem, {} without uses.
local function check_uses(bad, rule, rule_of)
    if rule.uses == nil then return {} end
    if type(rule.uses) ~= "table" then
        bad({ "uses" }, "uses is not a table of ops",
            "write uses = { momentum = ..., matrix = ..., others = ... }")
        return
    end
    local found, good, taken = {}, true, {}
    for _, key in ipairs(sorted_keys(rule.uses)) do
        if not has(use_names, key) then
            good = bad({ "uses", key, key = true }, fmt("uses.%s is unknown", tostring(key)),
                       "it has momentum, matrix and others")
        end
    end
    for _, f in ipairs(table_of(rule.fields)) do
        if type(f) == "table" and f[1] ~= nil then taken[f[1]] = true end
    end
    for _, use in ipairs(use_names) do
        if type(rule.uses[use]) ~= "string" then
            good = bad({ "uses", use }, fmt("uses.%s is not the name of an op", use),
                       "an optimizer that uses other ops names a momentum, a matrix and others")
        else
            found[use] = rule_of(rule.uses[use])
            good = check_use(bad, rule, use, found[use], taken) and good
        end
    end
    return good and found or nil
end

local function check_moments(bad, rule, used)
    local own, at = moments_of(rule)
    local momentum, at_momentum = 0
    if rule.uses ~= nil and not used then return end
    if used.momentum then momentum, at_momentum = moments_of(used.momentum) end
    if not own then
        return bad(at, "an input of class moments that is not moment1 or moment2, in this order",
                   "trainers have room for two moments, of these names")
    elseif used.momentum and (not momentum or momentum > 1 or own > 0) then
        return bad(at_momentum and { "uses", "momentum" } or { "inputs" },
                   "a matrix has one moment at most, moment1, which uses.momentum keeps",
                   "leave the other inputs of class moments out")
    end
    local kept = math.max(own, momentum or 0)
    local n, of_kept = rule.moments, fmt("the inputs have %d of class moments", kept)
    if n == nil then
        bad({ "moments" }, "moments is missing: how many of each element it keeps",
            fmt("write moments = %d: %s", kept, of_kept))
    elseif type(n) ~= "number" and type(n) ~= "function" then
        bad({ "moments" }, fmt("moments is %s, but a number or a function of the fields is "
                               .. "expected", show(n)), fmt("write moments = %d", kept))
    elseif type(n) == "number" and
        (math.type(n) ~= "integer" or n < 0 or n > most_moments) then
        bad({ "moments" }, fmt("moments: %s is not a number of moments", tostring(n)),
            fmt("use an integer from 0 to %d", most_moments))
    elseif type(n) == "number" and n ~= kept then
        bad({ "moments" }, fmt("moments is %d, but %s", n, of_kept),
            fmt("write moments = %d, or change the inputs", kept))
    end
    return kept
end

local function check_dtypes(bad, rule)
    local out = { master = state_dtypes.master, moments = state_dtypes.moments }
    if rule.dtypes == nil then return out end
    if type(rule.dtypes) ~= "table" then
        bad({ "dtypes" }, fmt("dtypes is %s, but a table is expected", show(rule.dtypes)),
            'write dtypes = { moments = { "f32", "f64" } }')
        return out
    end
    for _, key in ipairs(sorted_keys(rule.dtypes)) do
        local list, known = rule.dtypes[key], state_dtypes[key]
        if not known then
            bad({ "dtypes", key, key = true }, fmt("dtypes.%s is not a state", tostring(key)),
                "states are master and moments")
        elseif type(list) ~= "table" or #list == 0 then
            bad({ "dtypes", key }, fmt("dtypes.%s is not a list of dtypes", key),
                fmt("write %s = { %s }, or leave it out", key, words(known, '"', ", ")))
        else
            out[key] = {}
            for i, dtype in ipairs(list) do
                out[key][i] = dtype
                if not has(known, dtype) then
                    bad({ "dtypes", key, i }, fmt("dtypes.%s: %s cannot be kept", key,
                                                  show(dtype)),
                        "use " .. words(known, '"', ", "))
                end
            end
        end
    end
    return out
end

-- The table of the optimizer for parameters that are not matrices: its fields; the rate and decay
-- come from this optimizer's table if it has none of its own.
local function others_row(name, of, rows)
    local fields = { { "lr", "number", above = rate.above, max = rate.max, optional = true,
                       default_text = of .. "'s", doc = rate.doc } }
    for _, row in ipairs(rows) do fields[#fields + 1] = row end
    fields[#fields + 1] = { "weight_decay", "number", min = decay.min, max = decay.max,
                            optional = true, default_text = of .. "'s", doc = decay.doc }
    return { name, "table", default = {}, doc = "for everything but hidden matrices", fields = fields }
end

-- The rows of the rule's fields, after the learning rate's in out.rows, and what they feed.
local function check_fields(bad, rule, ops, used, out, use_of)
    local names = {}
    for _, key in ipairs(sorted_keys(rule.fields)) do
        if math.type(key) ~= "integer" or key < 1 or key > #rule.fields then
            bad({ "fields", key, key = true }, fmt("fields.%s has a name, but rows have none",
                                                   tostring(key)),
                fmt('write { "%s", type, default = ... }', tostring(key)))
        end
    end
    for i, f in ipairs(rule.fields) do
        local at = { "fields", i }
        local row = check_field(bad, f, at)
        if row and (has({ "lr", "weight_decay", "clip" }, row[1]) or names[row[1]]) then
            bad({ at, 1 }, fmt("field '%s' is declared twice%s", row[1], names[row[1]] and ""
                               or ": every optimizer has one"), "remove one of them")
        elseif row then
            out.rows[#out.rows + 1] = row
            names[row[1]] = true
            if used then check_feeds(bad, rule, f, at, ops, out.feeds, use_of) end
        end
    end
end

local function check_lr_adjust_and_default(bad, rule)
    if rule.lr_adjust ~= nil and (type(rule.lr_adjust) ~= "function" or not rule.uses) then
        bad({ "lr_adjust" }, rule.uses and "lr_adjust is not a function"
                or "lr_adjust is of optimizers that treat matrices as a whole",
            rule.uses and "write lr_adjust = function(f, m, n) return 1 end" or "leave it out")
    end
    if rule.default ~= nil and type(rule.default) ~= "boolean" then
        bad({ "default" }, fmt("default is %s, but true or false is expected",
                               show(rule.default)), "write default = true, or leave it out")
    end
end

local make

-- rule: of the folder `name`. env: rule_of(name): another op's rule, nil if there is none;
-- nearest(word, list): for "did you mean"; identifier(name): can Lua write it as a field? names: of
-- all ops; use_of: C's number of each use. Returns what load_optimizers.c reads, and the list of
-- problems { at, message, help }.
function make(name, rule, env)
    local problems = {}
    local bad = setmetatable({ nearest = env.nearest, names = env.names,
                               identifier = env.identifier }, {
        __call = function(_, at, message, help)
            problems[#problems + 1] = { at = at, message = message, help = help }
            return false
        end })
    local out = { name = name, rows = { rate }, feeds = {}, uses = {}, moments = rule.moments,
                  lr_adjust = rule.lr_adjust, default = rule.default == true }
    local used = check_uses(bad, rule, env.rule_of)
    local ops = {}
    ops.self = { name = name, attrs = attributes_of(rule), fed = {} }
    for use, other in pairs(used or {}) do
        out.uses[use] = rule.uses[use]
        if use ~= "others" then
            ops[use] = { name = rule.uses[use], attrs = attributes_of(other), fed = {} }
        end
    end
    if type(rule.fields) ~= "table" then
        bad({ "fields" }, "fields is not a list of rows { name, type, ... }",
            'write fields = { { "beta", "number", default = 0.9 } }')
        return out, problems
    end
    check_fields(bad, rule, ops, used, out, env.use_of)
    if used and #problems == 0 then check_fed(bad, ops) end
    out.kept = check_moments(bad, rule, used) or 0
    out.dtypes = check_dtypes(bad, rule)
    check_lr_adjust_and_default(bad, rule)
    out.rows[#out.rows + 1], out.rows[#out.rows + 2] = decay, clip
    if used and used.others then
        local name_of, rows = rule.uses.others, {}
        local others = make(name_of, used.others, env)
        for i = 2, #others.rows - 2 do rows[#rows + 1] = others.rows[i] end
        for _, feed in ipairs(others.feeds) do
            out.feeds[#out.feeds + 1] = { field = name_of .. "." .. feed.field, attr = feed.attr,
                                          type = feed.type, use = env.use_of.others }
        end
        out.rows[#out.rows + 1] = others_row(name_of, name, rows)
    end
    return out, problems
end

return { make = make, dtypes = state_dtypes }
