-- SPDX-License-Identifier: Apache-2.0
-- hash.lua: for every field of a description, a change of it, and on which side of the numerics
-- hash the field's own table says it is.
--
--     matrix_lua hash.lua ROOT
--
-- Lines `field|side|bits|model|sets of both|sets of the change`: side is in, out, platform or
-- none; bits: `other`, `same`, or `any` with the reason in the rows below. Fields are read from
-- gen/lua/describe.lua, models/arch/*.lua and the rules of optimizers, so one without a change
-- here is an error. Fields that are not available yet need none.

-- Measured kernels of attention, of cases whose sets have no blanks.
local auto = "target=cuda{attention='auto'} dtypes.param=bf16 model.head_dim=16 "
local function choices(kernels)
    local site = ("causal over 19 tokens, 3 heads of 3, 16 wide, bf16"):gsub(" ", "\\032")
    return ("target.attention_choices={gpu='H200',arch='sm_90',cudnn=91501,cuda=13000,"
        .. "sites={{site='%s',kernels='%s'}}}"):format(site, kernels)
end
local measured = auto .. choices("generated")

-- field = { set, ..., base = sets of both trainers, model =, bits = }
local rows = {
    name = { 'name="other"' },
    seq = { "seq=18" },
    micro_batch = { "micro_batch=1" },
    global_batch = { "global_batch=32" },
    leaves = { "leaves=4" },
    seed = { "seed=2" },
    fuse = { "fuse=false", bits = "any" }, -- what is fused equals its expansion to the bit
    reduction = { "reduction=library", base = "mesh.shard=4" },

    ["parts.dtype"] = { 'parts.dtype="param"', base = 'model.heads=4 model.vocab=260 parts.tensor=2 dtypes.param="bf16"' },
    ["parts.context"] = { "parts.context=2", base = "model.heads=4 model.kv_heads=2" },
    ["parts.tensor"] = { "parts.tensor=2", base = "model.heads=4 model.vocab=260" },

    ["dtypes.param"] = { "dtypes.param=bf16" },
    ["dtypes.reduce"] = { "dtypes.reduce=bf16" },
    ["dtypes.master"] = { "dtypes.master=bf16", base = "dtypes.param=bf16" },
    ["dtypes.linear"] = { "dtypes.linear=fp8",
                          base = "seq=16 model.dim=32 model.head_dim=16 model.ffn=48" },
    ["dtypes.moments"] = { "dtypes.moments=bf16" },
    ["dtypes.output"] = { "dtypes.output=f32", base = "dtypes.param=bf16" },

    optimizer = { "optimizer=sgd{lr=2e-3}" },
    ["adamw.lr"] = { "optimizer.lr=2.1e-3" },
    ["adamw.betas"] = { "optimizer.betas={0.9,0.96}" },
    ["adamw.eps"] = { "optimizer.eps=1e-7" },
    ["adamw.weight_decay"] = { "optimizer.weight_decay=0.2" },
    ["adamw.clip"] = { "optimizer.clip=0.5" },
    ["sgd.lr"] = { "optimizer.lr=0.2", base = "optimizer=sgd{lr=0.1}" },
    ["sgd.momentum"] = { "optimizer.momentum=0.9", base = "optimizer=sgd{lr=0.1}" },
    ["sgd.weight_decay"] = { "optimizer.weight_decay=0.2", base = "optimizer=sgd{lr=0.1}" },
    ["sgd.clip"] = { "optimizer.clip=0.5", base = "optimizer=sgd{lr=0.1}" },
    ["lion.lr"] = { "optimizer.lr=2e-4", base = "optimizer=lion{lr=1e-4}" },
    ["lion.betas"] = { "optimizer.betas={0.8,0.9}", base = "optimizer=lion{lr=1e-4}" },
    ["lion.weight_decay"] = { "optimizer.weight_decay=0.2", base = "optimizer=lion{lr=1e-4}" },
    -- the sign of a gradient does not know its length; its mix with the moment does, a little
    ["lion.clip"] = { "optimizer.clip=0.5", base = "optimizer=lion{lr=1e-4}", bits = "any" },
    ["muon.lr"] = { "optimizer.lr=2e-3", base = "optimizer=muon{lr=1e-3}" },
    ["muon.momentum"] = { "optimizer.momentum=0.8", base = "optimizer=muon{lr=1e-3}" },
    ["muon.nesterov"] = { "optimizer.nesterov=false", base = "optimizer=muon{lr=1e-3}" },
    ["muon.ns_steps"] = { "optimizer.ns_steps=4", base = "optimizer=muon{lr=1e-3}" },
    ["muon.ns_coefficients"] = { "optimizer.ns_coefficients={2,-1.5,0.5}",
                                 base = "optimizer=muon{lr=1e-3}" },
    ["muon.eps"] = { "optimizer.eps=0.5", base = "optimizer=muon{lr=1e-3}" },
    ["muon.adjust_lr"] = { "optimizer.adjust_lr=original", base = "optimizer=muon{lr=1e-3}" },
    ["muon.weight_decay"] = { "optimizer.weight_decay=0.2", base = "optimizer=muon{lr=1e-3}" },
    -- a matrix's direction does not know the gradient's length; its mix with the moment does
    ["muon.clip"] = { "optimizer.clip=0.5", base = "optimizer=muon{lr=1e-3}" },
    ["muon.adamw.lr"] = { "optimizer.adamw.lr=2e-3", base = "optimizer=muon{lr=1e-3}" },
    ["muon.adamw.betas"] = { "optimizer.adamw.betas={0.8,0.95}",
                             base = "optimizer=muon{lr=1e-3}" },
    ["muon.adamw.eps"] = { "optimizer.adamw.eps=1e-6", base = "optimizer=muon{lr=1e-3}" },
    ["muon.adamw.weight_decay"] = { "optimizer.adamw.weight_decay=0.2",
                                    base = "optimizer=muon{lr=1e-3}" },

    lr = { "lr=constant{}" },
    ["constant.warmup"] = { "lr.warmup=3", base = "lr=constant{}" },
    ["cosine.warmup"] = { "lr.warmup=4" },
    ["cosine.steps"] = { "lr.steps=21" },
    ["cosine.min_ratio"] = { "lr.min_ratio=0.2" },
    ["linear.warmup"] = { "lr.warmup=3", base = "lr=linear{steps=20}" },
    ["linear.steps"] = { "lr.steps=21", base = "lr=linear{steps=20}" },
    ["linear.min_ratio"] = { "lr.min_ratio=0.2", base = "lr=linear{steps=20}" },
    ["wsd.warmup"] = { "lr.warmup=2", base = "lr=wsd{steps=6,decay=4}" },
    ["wsd.steps"] = { "lr.steps=7", base = "lr=wsd{steps=6,decay=4}" },
    ["wsd.decay"] = { "lr.decay=5", base = "lr=wsd{steps=6,decay=4}" },
    ["wsd.min_ratio"] = { "lr.min_ratio=0.2", base = "lr=wsd{steps=6,decay=4}" },
    ["inverse_sqrt.warmup"] = { "lr.warmup=3", base = "lr=inverse_sqrt{}" },

    groups = { "groups={{match='*.weight',lr=0.5}}" },
    ["groups.match"] = { "groups={{match='*.bias',lr=0.5}}", model = "tiny_gpt2",
                         base = "groups={{match='*.weight',lr=0.5}}" },
    ["groups.lr"] = { "groups={{match='*',lr=0.6}}", base = "groups={{match='*',lr=0.5}}" },
    ["groups.weight_decay"] = { "groups={{match='*',weight_decay=0.6}}",
                                base = "groups={{match='*',weight_decay=0.5}}" },
    ["groups.optimizer"] = {
        "groups={{match='*.o_proj.*',optimizer='adamw'}}",
        base = "optimizer=muon{lr=1e-3} groups={{match='*.o_proj.*'}}" },
    ["groups.frozen"] = { "groups={{match='*.o_proj.*',frozen=true}}",
                          base = "groups={{match='*.o_proj.*'}}" },

    ["loss.chunk_tokens"] = { "loss.chunk_tokens=7" },
    ["loss.mask"] = { "loss.mask=true" },
    ["loss.z"] = { "loss.z=0.01" },
    ["loss.label_smoothing"] = { "loss.label_smoothing=0.1" },
    documents = { "documents={end_id=32}" },
    ["documents.end_id"] = { "documents={end_id=101}", base = "documents={end_id=32}" },

    -- powers of two change bits where f16 under- or overflows
    ["loss_scale.init"] = { "loss_scale.init=1", base = "dtypes.param=f16" },
    ["loss_scale.growth_interval"] = {
        "loss_scale.growth_interval=1", base = "dtypes.param=f16 loss_scale={init=1}" },
    ["loss_scale.factor"] = {
        "loss_scale.factor=16", base = "dtypes.param=f16 loss_scale={init=1,growth_interval=1}" },
    ["loss_scale.min"] = { "loss_scale.min=1099511627776",
        base = "dtypes.param=f16 loss_scale={init=1099511627776,factor=65536}" },

    ["mesh.replicate"] = { "mesh.replicate=2" },
    ["mesh.shard"] = { "mesh.shard=2" },
    ["mesh.context"] = { "mesh.context=2", base = "model.heads=4 model.kv_heads=2 parts.context=2" },
    ["mesh.tensor"] = { "mesh.tensor=2", base = "model.heads=4 model.vocab=260 parts.tensor=2" },
    ["mesh.node"] = { "mesh.node=2", base = "mesh.shard=4" },
    strategy = { "strategy=no_shard", base = "mesh.shard=2" },
    reshard_after_forward = { "reshard_after_forward=false", base = "mesh.shard=2" },
    wrap = { "wrap=root_only", base = "mesh.shard=2" },
    ["per_block.blocks"] = { "wrap.blocks=2", base = "mesh.shard=2" },
    ["per_block.embed"] = { "wrap=per_block{embed='join'}", base = "mesh.shard=2" },
    ["per_block.head"] = { "wrap=per_block{head='join'}", base = "mesh.shard=2" },
    ["by_size.params"] = { "wrap=by_size(3000)", base = "mesh.shard=2 wrap=by_size(7000)" },
    ["by_size.embed"] = { "wrap=by_size{params=7000,embed='join'}",
                          base = "mesh.shard=2 wrap=by_size(7000)" },
    ["by_size.head"] = { "wrap=by_size{params=7000,head='join'}",
                         base = "mesh.shard=2 wrap=by_size(7000)" },
    ["by_name.names"] = { "wrap=by_name{'*.1'}", base = "mesh.shard=2 wrap=by_name{'*.0'}" },
    ["prefetch.forward"] = { "prefetch.forward=2", base = "mesh.shard=2" },
    ["prefetch.backward"] = { "prefetch.backward=0", base = "mesh.shard=2" },
    ["prefetch.order"] = { "prefetch.order=post", base = "mesh.shard=2" },
    ["prefetch.in_flight"] = { "prefetch.in_flight=1", base = "mesh.shard=2" },
    recompute = { "recompute=block" },
    ["every.blocks"] = { "recompute=every(1)", base = "recompute=every(2)" },
    ["ops.names"] = { "recompute=ops{'attention'}", base = "recompute=ops{'swiglu'}" },
    accumulate = { "accumulate=unsharded", base = "mesh.shard=2" },
    ["checkpoint.file_size"] = { "checkpoint.file_size='64KiB'" },
    ["checkpoint.config"] = { "checkpoint.config=none" },
    ["checkpoint.class"] = { "checkpoint.config=unchecked checkpoint.class=modeling_mine.OtherForCausalLM",
                             base = "checkpoint.config=unchecked checkpoint.class=modeling_mine.OneForCausalLM" },
    max_skipped = { "max_skipped=7" },
    target = false, -- its kinds are its only values
    ["cpu.comm_thread"] = { "target.comm_thread=true", base = "mesh.shard=2", bits = "same" },
    ["cpu.arch"] = { "target.arch=x86-64" },
    -- trainers for GPUs: what they compute is shown elsewhere
    ["cuda.gpu"] = { "target=cuda{gpu='h200'}", base = "target=cuda{gpu='h100'}", bits = "any" },
    ["cuda.arch"] = { "target.arch=sm_80", base = "target=cuda{}", bits = "any" },
    ["cuda.memory"] = { "target.memory='64GiB'", base = "target=cuda{}", bits = "any" },
    ["cuda.reserve"] = { "target.reserve='5GiB'", base = "target=cuda{}", bits = "any" },
    ["cuda.rates"] = { "target.rates={tflops=100}", base = "target=cuda{}", bits = "any" },
    ["cuda.rates.tflops"] = { "target.rates.tflops=99", base = "target=cuda{}", bits = "any" },
    ["cuda.rates.memory"] = { "target.rates.memory=999", base = "target=cuda{}", bits = "any" },
    ["cuda.rates.link"] = { "target.rates.link=99", base = "target=cuda{}", bits = "any" },
    ["cuda.rates.attention"] = { "target.rates.attention=99", base = "target=cuda{}", bits = "any" },
    ["cuda.rates.attention_bwd"] = { "target.rates.attention_bwd=99", base = "target=cuda{}", bits = "any" },
    ["cuda.rates.cudnn"] = { "target.rates.cudnn={attention=99}", base = "target=cuda{attention='auto'}",
                             bits = "any" },
    ["cuda.rates.cudnn.attention"] = { "target.rates.cudnn.attention=99",
                                       base = "target=cuda{attention='auto'}", bits = "any" },
    ["cuda.rates.cudnn.attention_bwd"] = { "target.rates.cudnn.attention_bwd=99",
                                           base = "target=cuda{attention='auto'}", bits = "any" },
    ["cuda.rates.norm"] = { "target.rates.norm=999", base = "target=cuda{}", bits = "any" },
    ["cuda.rates.sms"] = { "target.rates.sms=99", base = "target=cuda{}", bits = "any" },
    ["cuda.rates.peak"] = { "target.rates.peak=99", base = "target=cuda{}", bits = "any" },
    ["cuda.node"] = { "target.node=aws-p5", base = "target=cuda{}", bits = "any" },
    ["cuda.fabric"] = { "target.fabric=tapered", base = "target=cuda{}", bits = "any" },
    ["cuda.nodes"] = { "target.nodes=2", base = "target=cuda{} mesh.shard=2", bits = "any" },
    ["cuda.network"] = { "target.network={nics=4}", base = "target=cuda{}", bits = "any" },
    ["cuda.network.gpus"] = { "target.network={gpus=4}", base = "target=cuda{}", bits = "any" },
    ["cuda.network.domain"] = { "target.network={domain=4}", base = "target=cuda{}", bits = "any" },
    ["cuda.network.nics"] = { "target.network={nics=2}", base = "target=cuda{}", bits = "any" },
    ["cuda.network.nic"] = { "target.network={nic=12}", base = "target=cuda{}", bits = "any" },
    ["cuda.network.step"] = { "target.network={step=1}", base = "target=cuda{}", bits = "any" },
    ["cuda.network.price"] = { "target.network={price=1}", base = "target=cuda{}", bits = "any" },
    ["cuda.network.rail"] = { "target.network={rail=false}", base = "target=cuda{}", bits = "any" },
    ["cuda.network.down"] = { "target.network={down=8}", base = "target=cuda{}", bits = "any" },
    ["cuda.network.oversubscription"] = { "target.network={oversubscription=2}",
                                          base = "target=cuda{}", bits = "any" },
    ["cuda.network.net_step"] = { "target.network={net_step=1}", base = "target=cuda{}", bits = "any" },
    ["cuda.jit"] = { "target.jit=true", base = "target=cuda{}", bits = "any" },
    ["cuda.attention_choices"] = { choices("cudnn"), base = auto, bits = "any" },
    ["cuda.attention_choices.gpu"] = { "target.attention_choices.gpu='H100'", base = measured, bits = "any" },
    ["cuda.attention_choices.arch"] = { "target.attention_choices.arch='sm_90a'", base = measured, bits = "any" },
    ["cuda.attention_choices.cudnn"] = { "target.attention_choices.cudnn=91600", base = measured, bits = "any" },
    ["cuda.attention_choices.cuda"] = { "target.attention_choices.cuda=13010", base = measured, bits = "any" },
    ["cuda.attention_choices.sites"] = { "target.attention_choices.sites={}", base = measured, bits = "any" },
    ["cuda.attention_choices.sites.site"] = false, -- another one than the model's is an error
    ["cuda.attention_choices.sites.kernels"] = { choices("cudnn"), base = measured, bits = "any" },
    ["cuda.attention"] = { "target.attention=cudnn", bits = "any",
                           base = "target=cuda{} dtypes.param=bf16 model.head_dim=16" },
    ["cpu.memory"] = { "target.memory='64GiB'", base = "target=cpu{memory='32GiB'}" },

    ["llama.layers"] = { "model.layers=3" },
    ["llama.dim"] = { "model.dim=40" },
    ["llama.heads"] = { "model.heads=6", base = "model.kv_heads=3" },
    ["llama.kv_heads"] = { "model.kv_heads=1" },
    ["llama.head_dim"] = { "model.head_dim=12" },
    ["llama.ffn"] = { "model.ffn=51" },
    ["llama.vocab"] = { "model.vocab=260" },
    ["llama.rope"] = { "model.rope={theta=1e3}" },
    ["llama.rope.theta"] = { "model.rope.theta=1e3" },
    ["llama.rope.scaling"] = { "model.rope.scaling=" .. "{factor=8,low_freq_factor=1,"
        .. "high_freq_factor=4,original=32}" },
    ["llama.norm_eps"] = { "model.norm_eps=1e-4" },
    ["llama.tied"] = { "model.tied=true" },
    ["llama.qkv_bias"] = { "model.qkv_bias=true" },
    ["llama.qk_norm"] = { "model.qk_norm=true" },
    ["llama.window"] = { "model.window=5" },
    ["llama.rope.fraction"] = { "model.rope.fraction=0.5", base = "model.head_dim=12 model.rope.theta=100" },
    ["llama.qk_norm_all"] = { "model.qk_norm_all=true" },
    ["llama.post_norm"] = { "model.post_norm=true" },
    ["llama.sandwich_norm"] = { "model.sandwich_norm=true" },
    ["llama.norm_less_one"] = { "model.norm_less_one=true" },
    ["llama.geglu"] = { "model.geglu=true" },
    ["llama.scale_embedding"] = { "model.scale_embedding=true" },
    ["llama.global_every"] = { "model.global_every=2", base = "model.window=5" },
    ["llama.attention_chunk"] = { "model.attention_chunk=5" },
    ["llama.attention_sinks"] = { "model.attention_sinks=true" },
    ["llama.attention_softcap"] = { "model.attention_softcap=0.1" },
    ["llama.logits_softcap"] = { "model.logits_softcap=0.5" },
    ["llama.rope.local_theta"] = { "model.rope.local_theta=50", base = "model.window=5" },
    ["llama.nope_every"] = { "model.nope_every=2" },
    -- names of a checkpoint's tensors: no bits, but a hash of their own
    ["llama.fused_names"] = { "model.fused_names=true", bits = "same" },
    ["llama.embedding_multiplier"] = { "model.embedding_multiplier=2" },
    ["llama.attention_multiplier"] = { "model.attention_multiplier=0.5" },
    ["llama.residual_multiplier"] = { "model.residual_multiplier=0.5" },
    ["llama.logits_scaling"] = { "model.logits_scaling=2" },
    ["llama.init_std"] = { "model.init_std=0.03" },
    ["llama.scale_residual_init"] = { "model.scale_residual_init=true" },
    ["gpt2.layers"] = { "model.layers=3" },
    ["gpt2.dim"] = { "model.dim=45" },
    ["gpt2.heads"] = { "model.heads=2" },
    ["gpt2.ffn"] = { "model.ffn=51" },
    ["gpt2.vocab"] = { "model.vocab=260" },
    ["gpt2.max_positions"] = { "model.max_positions=24" },
    ["gpt2.norm_eps"] = { "model.norm_eps=1e-4" },
    ["gpt2.tied"] = { "model.tied=false" },
    ["gpt2.init_std"] = { "model.init_std=0.03" },
}
-- Both sides of rope.scaling's fields: one more digit each.
for field, other in pairs { factor = "factor=4,low_freq_factor=1,high_freq_factor=4",
                            low_freq_factor = "factor=8,low_freq_factor=2,high_freq_factor=4",
                            high_freq_factor = "factor=8,low_freq_factor=1,high_freq_factor=5",
                            original = "factor=8,low_freq_factor=1,high_freq_factor=4" } do
    local original = field == "original" and 64 or 32
    rows["llama.rope.scaling." .. field] = {
        ("model.rope.scaling={%s,original=%d}"):format(other, original),
        base = "model.rope.scaling={factor=8,low_freq_factor=1,high_freq_factor=4,original=32}"
            .. " model.rope.theta=100",
    }
end

-- ---- the fields ---------------------------------------------------------------------------------

local root = arg[1]
local found = {} -- in the order of the tables: { path, side }
local kind_side = {} -- of a constructor: the side of the field that takes it


local function available(f)
    if f.later or f.later_values and f.values and #f.later_values + 1 >= #f.values then
        return false
    end
    return f.only == nil
end

local function add_fields(prefix, fields, side)
    for _, f in ipairs(fields) do
        local path, of = prefix .. f[1], f.hash or side
        local inner = f.fields or f.item and f.item.fields
        for _, kind in ipairs(f.kinds or {}) do
            kind_side[kind] = of
        end
        if available(f) and f[2] ~= "model" then
            if not (f[2] == "table" and f.fields) or rows[path] then
                found[#found + 1] = { path, of }
            end
            if inner then
                add_fields(path .. ".", inner, of)
            end
        end
    end
end

-- What gen/describe/load.c gives the file: here only what the list of fields needs.
strategies = {
    names = { "full_shard", "no_shard", "shard_grad_op", "hybrid_shard", "shard_optimizer" },
}
axes = setmetatable({}, { __index = function() return "out" end })
machines = dofile(root .. "/gen/lua/machines.lua").words()

-- Optimizers are op folders: their rows, as gen/describe/load_optimizers.c has them made.
local optimizer_file = dofile(root .. "/gen/lua/optimizer.lua")
optimizers = { names = {}, halves = {}, of_matrices = "", dtypes = optimizer_file.dtypes }
local made = {}
local function rule_of(name)
    local function same(rule) return rule end
    local op = setmetatable({ map = same }, { __call = function(_, rule) return same(rule) end })
    local env = setmetatable({ op = op }, { __index = _G })
    return assert(loadfile(root .. "/templates/ops/" .. name .. "/op.lua", "t", env))()
end
for name in io.popen("ls '" .. root .. "/templates/ops'"):lines() do
    local rule = rule_of(name)
    if rule.role == "optimizer" and rule.fields then
        local answer, problems = optimizer_file.make(name, rule, {
            rule_of = rule_of, names = {}, use_of = {},
            nearest = function() end, identifier = function() return true end,
        })
        assert(#problems == 0, problems[1] and problems[1].message)
        optimizers.names[#optimizers.names + 1] = name
        made[#made + 1] = { name, fields = answer.rows }
    end
end
assert(#made > 0, "no optimizers")

local description = dofile(root .. "/gen/lua/describe.lua")
add_fields("", description.trainer, nil)
table.move(description.constructors, 1, #description.constructors, #made + 1, made)
for _, constructor in ipairs(made) do
    if not constructor.later then
        assert(kind_side[constructor[1]], constructor[1] .. " is in no field")
        add_fields(constructor[1] .. ".", constructor.fields, kind_side[constructor[1]])
    end
end
for _, name in ipairs { "llama", "gpt2" } do
    local env = setmetatable({ arch = function(fields) return fields end }, { __index = _G })
    local arch = assert(loadfile(root .. "/models/arch/" .. name .. ".lua", "t", env))()
    add_fields(name .. ".", arch.fields, "in")
end

local missing = {}
for _, f in ipairs(found) do
    local path, side = f[1], f[2]
    local row = rows[path]
    if row == nil then
        missing[#missing + 1] = path
    elseif row then
        local bits = row.bits or side == "in" and "other" or side == "platform" and "any" or "same"
        local model = row.model or path:match("^gpt2%.") and "tiny_gpt2" or "tiny_llama"
        print(table.concat({ path, side, bits, model, row.base or "", table.concat(row, " ") }, "|"))
    end
end
for _, path in ipairs(missing) do
    io.stderr:write("no change is given for the field " .. path .. "\n")
end
os.exit(#missing == 0)
