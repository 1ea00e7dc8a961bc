-- SPDX-License-Identifier: Apache-2.0
-- op.lua: what an op rule may say. In: the table of a templates/ops/NAME/op.lua. Out: the same in
-- one plain form for ops.c, and a list of problems, each with the key and the item it stands at, so
-- that messages show the line. The language of rules:
--
--   return op {
--     doc       = "what it computes",
--     arithmetic = 1,              the version of a built-in op's bits. It stands for the rule in
--                                  the numerics hash, so increase it whenever the op's result
--                                  changes in any bit, on any target, or the default of an
--                                  attribute changes. An op of --ops is hashed by the text of
--                                  its folder instead
--     canonical = "add",           the name of a built-in op in the numerics hash, if not its
--                                  folder's: an op that replaces another and computes the same
--                                  bits takes its name and its version, too
--     role      = "sum",           it adds two gradients; "column_sum": it adds the rows of one, in
--                                  the order of gen/lua/formula_sums.lua, so that formulas which
--                                  make them may; "scale": it makes the scale of a tensor in fp8;
--                                  "optimizer": not part of the graph;
--                                  "collective": what parts exchange, inserted by the pass split. Its
--                                  input may have any shape, "...", which is then a list, n.x
--     fields, moments, dtypes, default, uses, lr_adjust
--                                  of an optimizer for descriptions: gen/lua/optimizer.lua
--     evaluates = "op",            it makes the `loss` of that op (and of its forms) without its
--                                  gradients, and as `next_logits` the logits of the token `row`;
--                                  its other inputs and its attributes are that op's
--     scaled    = true,            its gradient is that of loss_scale times the loss: the
--                                  kernel's last argument, where the trainer scales
--     inputs    = { { "x", "t d" }, ... },    class = "float" (default), fp8, i32, acc, grad,
--                                             any; optional = true: a call may omit it, also
--                                             before others; n.x and x are nil then
--     attrs     = { eps = "number", heads = { "int", 8 }, c = { "int", from = "seq" },
--                   softcap = { "number", 0, quiet = true } },
--                                  quiet: dumps and kernels' names leave it out where it has
--                                  its default, so that adding a variant to an op changes no
--                                  text of a model without it (the numerics hash never has
--                                  defaults)
--     outputs   = { { "y", "t d", dtype = "x", alias = "x" },
--                   { "dw", "d", dtype = "grad", add = true, optional = "frozen" } },
--                                  if no output marked "frozen" has a user, NAME_frozen replaces
--                                  the op. It lacks these outputs and has the same rule and
--                                  templates, where n.dw and dw are nil (else n.dw is true)
--                                  dtype: an operand's, the one that a text attribute names (or
--                                  the operand's that it names), or param, acc, grad, f64, i32
--     axes      = { t = "parallel", d = "reduction" },
--     cuts      = { t = { dw = "sum" }, heads = { qkv = { 2, "heads", "kv_heads" }, ... } },
--                                  axes along which parts of a call are calls of the same op:
--                                  gen/lua/op_cuts.lua
--     in_parts  = { w = 1, ops = function(g, n, part, parts) return { y = value } end },
--                                  what parts compute in place of the op where w is cut along its first
--                                  dim: gen/lua/op_cuts.lua
--     check     = function(n) return problem end,
--     workspace = function(n) return bytes end,   n.elem_bytes: of the first input's dtype (after
--                                  ids: of the next one's), n.acc_bytes: of the dtype of sums
--     workspace_cuda = function(n) return bytes end,   if cuda.cu needs another amount;
--                                                      workspace_cudnn: cudnn.cu
--     check_cuda = function(n) return problem end,     what the kernels of cuda.cu cannot do; knows
--                                                      n.acc_bytes
--     check_cudnn = function(n) return problem end,    what cuDNN's kernel, which cudnn.cu
--                                                      launches, cannot do
--     slow_cudnn = function(n) return reason end,      why "auto" prefers the generated kernel, where
--                                                      cuDNN's can run; of all ops that share a site
--     site_cudnn = function(n) return text end,        what a measured choice between the two depends
--                                                      on: no mesh, schedule or number of sequences;
--                                                      the same text of all ops that share a site
--     flops     = function(n) ... end,  bytes = function(n) ... end,   knows n.elem_bytes, too
--     cost      = "copy",          the kernel's class of rates: attention, attention_bwd, norm,
--                                  elementwise, copy. Default: norm if an axis is a
--                                  reduction, else elementwise
--     products  = function(n) return { { "nt", m, n, k, times } } end,   the matrix products it
--                                  calls, if it does, each that many times (1)
--     products_cuda = function(n) return { .. } end,   if cuda.cu calls others; knows n.elem_bytes
--     bytes_cuda = function(n) return bytes end,   what cuda.cu's kernels move, for their price there:
--                                  beside the products, in passes of their own; without products,
--                                  in place of `bytes`. Knows n.grad_bytes, too
--                                  An operand counts once, however often a launch reads it; the workspace
--                                  does not count, because it is read while it lies in the cache. ctest
--                                  ops_bytes compares both with what kernels move (tests/ops/bytes.sh)
--     backward  = function(g, n, d) return { x = gradient } end,
--     fp8       = function(g, n, grain) return { y = value } end,   the graph that takes the call's
--                                  place with dtypes.linear = "fp8", in all blocks but the last; its
--                                  last call makes the output. nil: the call stays. grain: 16, times
--                                  the number of parts, so that parts of its multiples are multiples
--                                  of 16
--     encoded   = function(g, n) return { q = value } end,   what takes the place of a call on a
--                                  weight that is gathered in fp8, built of n.codes, in e4m3, and
--                                  n.scale, and of what it has; nil: the weight is not gathered so.
--                                  Only of a built-in op, since codes have the bits of these
--     expands   = function(g, n) return { y = value } end,        fused ops
--     same_bits = true,            of a built-in fused op whose kernels have the bits of its
--                                  expansion: it is fused after the numerics hash, which has the
--                                  expansion, and only where the target has a kernel of it. It may
--                                  expand into other fused ops
--     scale_of  = { y = function(n) return blocks end },   of a built-in op whose output y is often rounded
--                                  to fp8 next: on devices NAME_scale makes y and its scale. It has the
--                                  same rule and cuda.cu, where s, the output, and n.s are not nil then,
--                                  and `workspace` has 4 bytes more for each of at most so many blocks of
--                                  threads: gen/lua/op_scale.lua
--     reference = function(n) ... end,  cases = function(r) ... end,
--     variants  = { { softcap = 1.5 }, ... },   attributes that take the place of a case's, and
--                                  optional inputs that are given (sinks = true): tests draw one
--                                  sometimes, and keep golden bits of each
--     rounds_inside = "why",       for tests: in bf16 and f16 results differ from the reference's
--                                  by more than one rounding
--   }
--
-- `op.map { y = "x * sigmoid(x)" }` makes such a rule of a formula: gen/lua/op_map.lua.
--
-- Dims are names, numbers, +, -, * and parentheses without blanks: "t 2*f", "t (h+2)*hd".
-- A name alone, or a number times a name, binds the name; integer attributes are bound
-- already. Instead of a text, dims may be a function of n that returns the shape.

local fmt = string.format

local keys = {
  doc = "string", arithmetic = "number", canonical = "string", role = "string",
  evaluates = "string", scaled = "boolean", same_bits = "boolean", inputs = "table", attrs = "table",
  outputs = "table", axes = "table", cuts = "table", in_parts = "table", check = "function",
  workspace = "function", workspace_cuda = "function", workspace_cudnn = "function",
  check_cuda = "function", check_cudnn = "function", slow_cudnn = "function", site_cudnn = "function",
  flops = "function", bytes = "function", bytes_cuda = "function", cost = "string", products = "function",
  products_cuda = "function",
  backward = "function", expands = "function", fp8 = "function", encoded = "function",
  scale_of = "table", reference = "function", cases = "function", variants = "table", rounds_inside = "string",
}
-- For optimizers, and except for fields only together with them; gen/lua/optimizer.lua has checked
-- them.
local optimizer_keys = { fields = true, moments = true, dtypes = true, default = true,
                         uses = true, lr_adjust = true }
for key in pairs(optimizer_keys) do keys[key] = "any" end
local input_classes = { float = true, fp8 = true, i32 = true, acc = true, grad = true, any = true }
local optimizer_classes = { float = true, master = true, moments = true, grad = true,
                            acc = true }
local output_dtypes = { param = true, acc = true, grad = true, f64 = true, i32 = true }
local output_fields = { true, true, dtype = true, add = true, alias = true,
                        optional = true }
local attr_types = { int = true, number = true, string = true, bool = true }
-- What a kernel's template sees apart from dims, attributes and operands.
local taken = {
  fn = true, acc = true, ld = true, st = true, rnd = true, lit = true, beta = true,
  workspace = true, elem_bytes = true, acc_bytes = true, grad_bytes = true, adds = true,
  inputs = true, outputs = true, put = true, round = true, noise = true,
  optimizer = true, scaled = true, loss_scale = true,
  -- macros that compilers predefine
  hppa = true, i386 = true, linux = true, m68k = true, mc68000 = true, mips = true, sparc = true,
  sun = true, unix = true, vax = true,
}
local costs = { attention = true, attention_bwd = true, norm = true, elementwise = true, copy = true }
local roles = { sum = true, column_sum = true, copy = true, scale = true, optimizer = true,
                collective = true }
local most = 24 -- inputs, outputs or attributes: C has arrays of that size

local function sorted_keys(t)
  local list = {}
  for k in pairs(t) do list[#list + 1] = k end
  table.sort(list, function(a, b) return tostring(a) < tostring(b) end)
  return list
end

local function names_of(t)
  return table.concat(sorted_keys(t), ", ")
end

-- What a check has: the rule; dims, C's grammar, { problem = f(text), symbols = f(text), ident =
-- f(text), model_field = f(name) }; problems and out, which are returned; known: every name of the
-- rule and what it names; symbols: names of dims; operands: by name "input" or "output"; optimizer:
-- is it an optimizer's rule?
local Check = {}
Check.__index = Check

-- item: the word after the key that the message points at, if it is one.
function Check:bad(key, item, message, help)
  item = type(item) == "string" and item or nil
  self.problems[#self.problems + 1] = { key = key, item = item, message = message, help = help }
end

-- Takes a name for the rule; true if it is free.
function Check:claim(key, name, what)
  if type(name) ~= "string" or not self.dims.ident(name) then
    self:bad(key, nil, fmt("%s must be named by a C identifier", what))
  elseif taken[name] then
    self:bad(key, name,
             fmt("%s may not be named %s: kernels see something else by that name", what,
                 name))
  elseif self.known[name] then
    self:bad(key, name, fmt("%s is already the name of %s", name, self.known[name]),
             "operands, dims and attributes share one set of names")
  else
    self.known[name] = what
    return true
  end
end

-- Does an item of a field's table have a key? example: how one is written, by the key.
function Check:has_key(field, key, value, example)
  if math.type(key) ~= "integer" then return true end
  self:bad(field, value, fmt("item %d of %s has no key", key, field),
           fmt("say %s = { " .. example .. " }", field, type(value) == "string" and value or "t"))
end

-- Checks keys and the types of their values.
function Check:keys()
  local rule = self.rule
  for _, key in ipairs(sorted_keys(rule)) do
    if not keys[key] then
      self:bad(key, nil, fmt("unknown field %s", tostring(key)),
               "fields are " .. names_of(keys))
    elseif keys[key] ~= "any" and type(rule[key]) ~= keys[key] then
      self:bad(key, nil, fmt("%s must be a %s, not a %s", key, keys[key], type(rule[key])))
      if keys[key] == "table" then rule[key] = nil end
    end
  end
end

-- Checks the names by which the hash and the passes know the op.
function Check:identity()
  local rule, out = self.rule, self.out
  local version = rule.arithmetic
  if type(version) == "number" and
     (math.type(version) ~= "integer" or version < 1 or version > 1000000) then
    self:bad("arithmetic", nil, fmt("arithmetic must be an integer from 1 to 1000000, not %s",
                                    tostring(version)))
  end
  out.arithmetic = math.type(version) == "integer" and version or 0
  out.canonical = rule.canonical
  if type(rule.canonical) == "string" and not self.dims.ident(rule.canonical) then
    self:bad("canonical", nil, "canonical must be a C identifier")
  end
  out.role = rule.role
  if rule.role and not roles[rule.role] then
    self:bad("role", nil, fmt("unknown role %s", rule.role),
             'roles are "sum", "column_sum", "copy", "scale", "optimizer" and "collective"')
  end
  out.evaluates = rule.evaluates
  if rule.cost and not costs[rule.cost] then
    self:bad("cost", nil, fmt("unknown cost %s", rule.cost),
             "costs are " .. names_of(costs) .. "; products have a function of that name")
  end
  self.optimizer = rule.role == "optimizer"
  for _, key in ipairs(sorted_keys(optimizer_keys)) do
    if rule[key] ~= nil and not self.optimizer then
      self:bad(key, nil, fmt("only an optimizer has %s", key), key == "fields"
               and "write attrs = { ... }" or "leave it out, or write role = \"optimizer\"")
    elseif rule[key] ~= nil and rule.fields == nil then
      self:bad(key, nil, fmt("only an optimizer with fields has %s", key),
               "leave it out, or write fields = {}")
    end
  end
end

function Check:attr_type(name)
  local spec = (self.rule.attrs or {})[name]
  return type(spec) == "table" and spec[1] or spec
end

function Check:attribute(key, spec)
  local want = spec[1]
  if want == "int" then self.symbols[key] = true end
  if want == "int" or want == "bool" or want == "string" then
    local d = spec[2]
    local is = math.type(d) == "integer" and "int"
      or type(d) == "boolean" and "bool" or type(d)
    if d ~= nil and is ~= want then
      self:bad("attrs", key, fmt("the default of %s is not %s", key, want))
    end
  elseif spec[2] ~= nil and type(spec[2]) ~= "number" then
    self:bad("attrs", key, fmt("the default of %s is not a number", key))
  end
  local from = spec.from ~= nil and self.dims.model_field(spec.from)
  if spec.from ~= nil and not from then
    self:bad("attrs", key, fmt("%s: a trainer has no field %s", key, tostring(spec.from)),
             "from is seq, micro_batch, loss_chunk_tokens, loss_masked, loss_z or "
             .. "label_smoothing")
  elseif from and from ~= want then
    self:bad("attrs", key, fmt("%s is %s, but %s of a trainer is %s", key, want, spec.from,
                               from), fmt('say { "%s", from = "%s" }', from, spec.from))
  end
  if spec.quiet and spec[2] == nil then
    self:bad("attrs", key, fmt("%s is quiet, but has no default", key),
             fmt('say { "%s", DEFAULT, quiet = true }', want))
  end
  local attrs = self.out.attrs
  attrs[#attrs + 1] = { key = key, type = want, default = spec[2], from = spec.from,
                        quiet = spec.quiet }
end

function Check:attributes()
  for _, key in ipairs(sorted_keys(self.rule.attrs or {})) do
    local says = self.rule.attrs[key]
    local spec = type(says) == "string" and { says } or says
    if not self:has_key("attrs", key, not attr_types[says] and says, '%s = "int"') then
      -- its message is enough
    elseif type(spec) ~= "table" or not attr_types[spec[1]] then
      self:bad("attrs", key, fmt("attribute %s has no type", tostring(key)),
               'say "int", "number", "string", "bool", or { "int", default }')
    elseif self:claim("attrs", key, "an attribute") then
      self:attribute(key, spec)
    end
  end
end

-- Each variant gives attributes or optional inputs.
function Check:variants()
  local optional = {}
  for _, o in ipairs(self.out.inputs) do optional[o.name] = o.optional end
  for i, variant in ipairs(self.rule.variants or {}) do
    if type(variant) ~= "table" then
      self:bad("variants", nil, fmt("variant %d is %s, not a table of attributes", i,
                                    tostring(variant)), "say { { softcap = 1.5 } }")
    else
      for _, name in ipairs(sorted_keys(variant)) do
        if not (self.rule.attrs or {})[name] and not optional[name] then
          self:bad("variants", nil, fmt("variant %d has %s, which is neither an attribute nor an "
                                        .. "optional input", i, tostring(name)))
        end
      end
    end
  end
end

-- What inputs and outputs have in common; nil if the item has no name.
function Check:operand(key, item, what)
  if type(item) ~= "table" then
    self:bad(key, nil, fmt('%s must be { "name", "dims" }', what))
    return
  end
  if not self:claim(key, item[1], what) then return end
  local o = { name = item[1], index = 0 }
  if item[2] == "..." and self.rule.role == "collective" then
    o.dims = item[2]
  elseif type(item[2]) == "string" then
    local problem = self.dims.problem(item[2])
    if problem then
      self:bad(key, item[1], fmt('dims "%s" of %s: %s', item[2], item[1], problem))
    else
      o.dims = item[2]
    end
  elseif type(item[2]) ~= "function" then
    self:bad(key, item[1], fmt("%s has no dims", item[1]), 'say "t d", or a function of n')
  end
  return o
end

function Check:input(item)
  local o, inputs = self:operand("inputs", item, "an input"), self.out.inputs
  if not o then return end
  local classes = self.optimizer and optimizer_classes or input_classes
  o.class = item.class or "float"
  if not classes[o.class] then
    self:bad("inputs", o.name, fmt("%s has unknown class %s", o.name, tostring(o.class)),
             "classes are " .. names_of(classes))
  end
  o.optional = item.optional == true
  local before = inputs[#inputs]
  if before and before.optional and not o.optional then
    self:bad("inputs", o.name, fmt("%s stands after %s, which is optional", o.name,
                                   before.name), "optional inputs come last")
  elseif o.optional and self.rule.expands then
    self:bad("inputs", o.name, fmt("%s of a fused op cannot be optional", o.name))
  end
  for _, k in ipairs(sorted_keys(item)) do
    if k ~= 1 and k ~= 2 and k ~= "class" and k ~= "optional" then
      self:bad("inputs", o.name, fmt("unknown field %s of %s", tostring(k), o.name),
               "an input has a name, dims, class and optional")
    end
  end
  inputs[#inputs + 1] = o
  self.operands[o.name] = "input"
end

-- first_float: the first input of class float; its dtype is the default.
function Check:output(item, first_float)
  local o, outputs = self:operand("outputs", item, "an output"), self.out.outputs
  if not o then return end
  o.dtype = item.dtype or first_float
  local known = output_dtypes[o.dtype] or self.operands[o.dtype] or self:attr_type(o.dtype) == "string"
  if self.inputs_good and not known then
    self:bad("outputs", o.name, fmt("%s has unknown dtype %s", o.name, tostring(o.dtype)),
             "say an operand before it, or " .. names_of(output_dtypes))
  end
  o.add = item.add == true
  if o.add and o.dtype ~= "grad" and self.rule.role ~= "collective" then
    self:bad("outputs", o.name, fmt("%s adds, but is not a gradient", o.name),
             'say dtype = "grad"')
  end
  o.alias = item.alias
  if o.alias ~= nil and self.operands[o.alias] ~= "input" then
    self:bad("outputs", o.name, fmt("%s is an alias of %s, which is not an input", o.name,
                                    tostring(o.alias)))
    o.alias = nil
  end
  for _, before in ipairs(outputs) do
    if before.form and before.name == o.dtype and before.form ~= item.optional then
      self:bad("outputs", o.name, fmt("%s has the dtype of %s, which is optional", o.name,
                                      o.dtype))
    end
  end
  o.form = item.optional
  if o.form ~= nil and (type(o.form) ~= "string" or not self.dims.ident(o.form)) then
    self:bad("outputs", o.name, fmt("%s is optional, but not by a C identifier", o.name),
             'say optional = "frozen": NAME_frozen is the op without it')
    o.form = nil
  end
  for _, k in ipairs(sorted_keys(item)) do
    if not output_fields[k] then
      self:bad("outputs", o.name, fmt("unknown field %s of %s", tostring(k), o.name),
               "an output has a name, dims, dtype, add, alias and optional")
    end
  end
  outputs[#outputs + 1] = o
  self.operands[o.name] = "output"
end

function Check:inputs_and_outputs()
  local first_float
  for _, item in ipairs(self.rule.inputs or {}) do self:input(item) end
  -- consequences of a mistake need no message of their own
  self.inputs_good = #self.problems == 0
  for _, o in ipairs(self.out.inputs) do
    if o.class == "float" then first_float = first_float or o.name end
  end
  for _, item in ipairs(self.rule.outputs or {}) do self:output(item, first_float) end
  local outputs, always = self.out.outputs, false
  if #outputs == 0 and not self.optimizer and #self.problems == 0 then
    self:bad("outputs", nil, "an op has outputs")
  end
  for _, o in ipairs(outputs) do always = always or not o.form end
  if #outputs > 0 and not always then
    self:bad("outputs", nil, "all outputs are optional", "an op has one that it always makes")
  end
end

-- Names in inputs' dims become dims of the op; outputs may use only names that inputs bind.
function Check:dims_of_operands()
  local known, symbols, dims = self.known, self.symbols, self.dims
  for _, o in ipairs(self.out.inputs) do
    for _, s in ipairs(o.dims and o.dims ~= "..." and dims.symbols(o.dims) or {}) do
      if not symbols[s] then
        if known[s] then
          -- they would have the same key in n
          self:bad("inputs", o.name,
                   fmt("dim %s of %s is already the name of %s", s, o.name, known[s]))
        end
        symbols[s], known[s] = true, known[s] or "a dim"
        if taken[s] then
          self:bad("inputs", o.name, fmt("a dim may not be named %s", s))
        end
      end
    end
  end
  for _, o in ipairs(self.out.outputs) do
    for _, s in ipairs(o.dims and dims.symbols(o.dims) or {}) do
      if self.inputs_good and not symbols[s] then
        self:bad("outputs", o.name, fmt("dim %s of %s occurs in no input", s, o.name),
                 "use the inputs' dims, an int attribute, or a function")
      end
    end
  end
end

function Check:axes()
  local axes = self.out.axes
  for _, k in ipairs(sorted_keys(self.rule.axes or {})) do
    local v = self.rule.axes[k]
    if not self:has_key("axes", k, v, '%s = "parallel"') then
      -- its message is enough
    elseif v ~= "parallel" and v ~= "reduction" then
      self:bad("axes", k, fmt("axis %s is neither parallel nor reduction", tostring(k)))
    elseif self.inputs_good and not self.symbols[k] then
      self:bad("axes", k, fmt("axis %s is not a dim of the inputs", tostring(k)))
    else
      axes[#axes + 1] = { dim = k, reduction = v == "reduction" }
    end
  end
end

-- Checks which parts of a rule require or exclude each other.
function Check:together()
  local rule, out = self.rule, self.out
  if not self.optimizer and not rule.flops and not rule.expands then
    self:bad("flops", nil, "flops is missing",
             "say flops = function(n) return 2 * n.t * n.d end")
  end
  for _, key in ipairs { "inputs", "outputs", "attrs" } do
    if #out[key] > most then self:bad(key, nil, fmt("more than %d %s", most, key)) end
  end
  if rule.cost and rule.products then
    self:bad("cost", nil, "an op with products has their cost", "leave out one of them")
  end
  if rule.evaluates and (self.operands.row ~= "input"
                         or self.operands.next_logits ~= "output") then
    self:bad("evaluates", nil, "what evaluates an op takes row and makes next_logits")
  end
  if rule.expands and rule.backward then
    self:bad("backward", nil, "a fused op has no backward: its expansion has")
  end
  if rule.products and #out.inputs == 0 then
    self:bad("products", nil, "an op with products has inputs: they have the first one's dtype")
  end
  if rule.same_bits and not rule.expands then
    self:bad("same_bits", nil, "only a fused op has the bits of its expansion")
  end
  if rule.scale_of and #sorted_keys(rule.scale_of) ~= 1 then
    self:bad("scale_of", nil, "scale_of has one output",
             "say scale_of = { y = function(n) return n.t end }")
  end
  for _, name in ipairs(sorted_keys(rule.scale_of or {})) do
    if self.operands[name] ~= "output" or type(rule.scale_of[name]) ~= "function" then
      self:bad("scale_of", name, fmt("scale_of says %s, which is not an output with a function",
                                     tostring(name)), "say scale_of = { y = function(n) return n.t end }")
    end
  end
  local sum = ({ sum = { 2, "sum takes two values" },
                 column_sum = { 1, "column sum takes one value" },
                 copy = { 1, "copy takes one value" } })[rule.role]
  if sum and (#out.inputs ~= sum[1] or #out.outputs ~= 1 or #out.attrs > 0) then
    self:bad("role", nil, fmt("the %s, returns one and has no attributes", sum[2]))
  end
end

-- check_cuts: the function of op_cuts.lua.
return function(check_cuts)
  return function(rule, dims)
    local check = setmetatable({
      rule = rule, dims = dims, problems = {}, known = {}, symbols = {}, operands = {},
      out = { inputs = {}, outputs = {}, attrs = {}, axes = {}, cuts = {} },
    }, Check)
    if type(rule) ~= "table" then
      check:bad(nil, nil, "the file does not return op { ... }")
      return check.out, check.problems
    end
    check:keys()
    check:identity()
    check:attributes()
    check:inputs_and_outputs()
    check:variants()
    check:dims_of_operands()
    check:axes()
    check_cuts(check)
    check:together()
    return check.out, check.problems
  end
end
