-- SPDX-License-Identifier: Apache-2.0
-- describe.lua: every field of a description, once. gen/describe/fields.c reads this table:
-- parsing, messages, defaults, docs/reference.md (`fsdpgen docs`) and annotations
-- for editors (`fsdpgen docs lua`) all come from it. Architectures declare their
-- fields in the same form.
--
-- A row is { name, type, attributes }:
--   type      int number bool string table list record model any
--   example   what a message shows as a value; otherwise the default
--   default   a value, or a function of the fields above it in the same table (then
--             default_text describes it); optional = true: may be missing;
--             otherwise the field is required
--   min max above below power_of_two    of numbers (above, below: exclusive)
--   values    of a string: the words allowed; pattern, pattern_doc: or a pattern;
--             size = true: a size in bytes, "8GiB"; more: how there can be others
--   fields    of a table; item, count, alone: of a list (alone: its only value may stand
--             without the braces); kinds: constructors of a record, and of a string:
--             records that may stand in its place
--             fills = true: a table that is given has the missing fields of the default
--   number_makes   a number N means this constructor applied to N
--   number_sets    a number sets these fields
--   number         of a bool: an integer from min to max is legal too, and means this
--   of_gpu = true  of a target: describes machines with its `gpu`, so `fsdpgen size` drops
--             it where it plans for another GPU
--   func           of a record: what a function in its place means
--   editor         the type in annotations for an "any", or for that function
--   hash      in, out, platform or none: which of the two hashes depends on it;
--             inherited by the fields inside
--   later     true: a planned field; using it is an error that says so.
--             later_values, later_types, later_kinds: the same for some values;
--             only: the one value available now
-- A constructor has fields, and: positional = the field that its only argument sets, or the
-- unnamed values in its table;
-- constant = true: written without a call; later as above.

-- The optimizers are elsewhere: each is an op folder (gen/lua/optimizer.lua), and `optimizers`
-- lists their names.

-- The table of gen/describe/strategy.c; messages about a wrong name need the defaults, too.
local strategies = strategies
local function strategy_of(t)
    return strategies[t.strategy] or strategies[strategies.names[1]]
end

local function largest_power_of_two(n, most)
    local p = 1
    while p * 2 <= most and n % (p * 2) == 0 do
        p = p * 2
    end
    return p
end

-- The head runs in chunks of tokens, so that not all logits exist at once. Its products are
-- efficient from this many results on: two waves of tiles of 128 x 128 on the largest GPUs. The
-- limit for logits is a GiB in bf16.
local head_elems, most_logits = 1 << 22, 1 << 29

local function chunk_tokens(_, trainer)
    local m, seq, micro_batch = trainer.model or {}, trainer.seq, trainer.micro_batch
    if not (math.type(m.dim) and math.type(m.vocab) and seq and micro_batch) then
        return 1024
    end
    local chunk, tokens = 64, seq * micro_batch
    while chunk * m.dim < head_elems and 2 * chunk * m.vocab <= most_logits do
        chunk = 2 * chunk
    end
    return math.min(chunk, tokens)
end

local function accumulation_dtype(t)
    return t.param == "f64" and "f64" or "f32"
end

local accumulation_text = "`\"f32\"`; with `param = \"f64\"` `\"f64\"`"

local most_parts = 64 -- RT_MAX_PARTS in runtime/rt.h, as a test knows

local own = "--machines FILE adds others"
local gpu_of, cudnn_rates, share_of = machines.gpu_of, machines.cudnn_rates, machines.share_of

local trainer = {
    { "name", "string", pattern = "^[a-z][a-z0-9_.]*$", max_bytes = 64, forbid = "..",
      hash = "none",
      pattern_doc = "a lower-case letter, then lower-case letters, digits, `_` and `.`",
      example = '"my_model"',
      doc = "name of the model in banners, in `--log` and in names of event files" },
    { "model", "model", hash = "in", example = "llama { ... }",
      doc = "an architecture with its dimensions: `llama { ... }`" },
    { "seq", "int", min = 1, max = 1 << 24, hash = "in", example = "1024",
      doc = "tokens per sequence" },
    { "micro_batch", "int", min = 1, max = 1 << 20, default = 1, hash = "in",
      doc = "sequences per micro-batch" },
    { "global_batch", "int", min = 1, max = 1 << 24, hash = "in", example = "64",
      doc = "sequences per step; a multiple of `micro_batch`" },
    { "leaves", "int", min = 1, max = 1 << 16, power_of_two = true, hash = "in",
      default = function(t)
          return largest_power_of_two(math.max(t.global_batch // t.micro_batch, 1), 8)
      end,
      default_text = "the largest power of two up to 8 that divides the micro-batches of a step",
      doc = "leaves of the tree that sums the gradients of a step: divides the number of "
          .. "micro-batches; the number of data ranks must divide it" },
    { "dtypes", "table", default = {}, hash = "in",
      doc = "storage types of weights, gradients and optimizer state",
      fields = {
          { "param", "string", values = { "f32", "bf16", "f64", "f16" },
            default = "bf16",
            doc = "gathered weights, activations, outputs of blocks and logits; `\"f64\"` is for tests" },
          { "reduce", "string", values = { "f32", "f64", "bf16" },
            default = accumulation_dtype, default_text = accumulation_text,
            doc = "gradients and their sums; every sum is rounded to it, even on one rank" },
          { "master", "string", values = optimizers.dtypes.master,
            default = accumulation_dtype, default_text = accumulation_text,
            doc = "weights that the optimizer updates; `\"split\"` stores the lower 16 bits of an f32 "
                .. "master beside its bf16 weight; `\"bf16\"` updates the bf16 weights themselves, "
                .. "with stochastic rounding" },
          { "linear", "string", values = { "param", "fp8", "mxfp8", "nvfp4" },
            later_values = { "mxfp8", "nvfp4" }, default = "param", neutral = "param",
            doc = "operands of the matrix products of all blocks but the last, which has the "
                .. "head: `\"fp8\"` rounds weights and values to e4m3 and gradients to e5m2, each "
                .. "tensor with a scale of its own; see [numerics](numerics.md)" },
          { "moments", "string", values = optimizers.dtypes.moments,
            default = accumulation_dtype, default_text = accumulation_text,
            doc = "optimizer state; `\"bf16\"` is rounded stochastically" },
      } },
    { "optimizer", "record", kinds = optimizers.names, default = optimizers.default,
      hash = "in", doc = "the optimizer, with its base learning rate" },
    { "lr", "record", kinds = { "constant", "linear", "cosine", "wsd", "inverse_sqrt" },
      default = "constant", hash = "in",
      doc = "schedule that multiplies the base learning rate" },
    { "groups", "list", optional = true, hash = "in",
      example = '{ { match = "*.bias", lr = 0.1 } }',
      doc = "settings for some parameters, selected by name; the first group that matches a "
          .. "parameter applies",
      item = { "group", "table", fields = {
          { "match", "list", alone = true, example = '"model.embed_tokens.*"',
            item = { "glob", "string", max_bytes = 256, pattern = "^[A-Za-z0-9_.*?]+$",
                     pattern_doc = "a name with `*` for any characters and `?` for one" },
            doc = "patterns of names: `*` matches any characters, dots too, `?` one" },
          { "lr", "number", above = 0, max = 1e6, optional = true,
            doc = "multiplies the learning rate" },
          { "weight_decay", "number", min = 0, max = 1e3, optional = true,
            doc = "replaces the optimizer's, for norms and biases too" },
          { "frozen", "bool", default = false,
            doc = "the weights never change: no gradient, no optimizer state, no reduction" },
          { "optimizer", "string", values = optimizers.halves, optional = true,
            default_text = ("by the matrix: [%s](%s.md)"):format(optimizers.of_matrices,
                                                                 optimizers.of_matrices),
            doc = "which half of " .. optimizers.of_matrices
                .. " updates these matrices" },
      } } },
    { "init", "any", optional = true, later = true, hash = "in",
      doc = "initial weights by name pattern; the architecture's when missing" },
    { "seed", "int", min = 0, max = (1 << 53) - 1, default = 1, hash = "in",
      doc = "seed of initial weights and data order" },
    { "loss", "table", default = {}, hash = "in", doc = "the loss: cross entropy of the next token",
      fields = {
          { "chunk_tokens", "int", min = 1, max = 1 << 24, default = chunk_tokens,
            default_text = "by tokens, dim and vocabulary",
            doc = "tokens whose logits exist at once; the default keeps the head's products "
                .. "efficient: 2^22 / dim tokens, but at most 2^29 logits" },
          { "mask", "bool", default = false, neutral = false,
            doc = "each data file `X` has a file `X.mask` that says which tokens are targets" },
          { "z", "number", min = 0, max = 1e3, default = 0, neutral = 0,
            doc = "weight of the z-loss: adds `z lse^2` to the loss of each token" },
          { "label_smoothing", "number", min = 0, below = 1, default = 0, neutral = 0,
            doc = "share of each target that is spread evenly over all tokens" },
      } },
    { "loss_scale", "table", hash = "in",
      default = function(t)
          return { init = t.dtypes.param == "f16" and 65536 or 0 }
      end,
      default_text = "only with f16",
      doc = "dynamic scaling of f16 gradients: a step whose gradient is not finite is "
          .. "skipped and lowers the scale",
      fields = {
          { "init", "int", min = 0, max = 1 << 40, default = 65536,
            doc = "initial scale of a micro-batch's mean loss: a power of two with f16, 0 with "
                .. "other dtypes" },
          { "growth_interval", "int", min = 1, max = 1 << 40, default = 2000,
            doc = "number of updates in a row after which the scale grows" },
          { "factor", "int", min = 2, max = 1 << 16, power_of_two = true, default = 2,
            doc = "factor by which the scale grows and shrinks" },
          { "min", "int", min = 1, max = 1 << 40, power_of_two = true, default = 1,
            doc = "least scale" },
      } },
    { "documents", "table", optional = true, hash = "in", example = "{ end_id = 0 }",
      doc = "samples are packed documents; attention and positions restart in each",
      fields = {
          { "end_id", "int", min = 0, max = (1 << 31) - 1, example = "0",
            doc = "token that ends a document" },
      } },
    { "parts", "table", default = {}, hash = "in",
      doc = "number of parts in which a value is computed, however many ranks share them",
      fields = {
          { "tensor", "int", min = 1, max = most_parts, power_of_two = true, default = 1, neutral = 1,
            doc = "parts of heads and features, which `mesh.tensor` ranks share" },
          { "context", "int", min = 1, max = most_parts, power_of_two = true, default = 1, neutral = 1,
            doc = "parts of each sequence, which `mesh.context` ranks share; with `parts.tensor` at most 64 in all" },
          { "dtype", "string", values = { "param", "f32" }, default = "f32", graph = true,
            doc = "dtype of the summands of values that are sums over parts: `\"f32\"`, or `\"param\"`, rounded to "
                .. "`dtypes.param` before they are added in f32; gradients of weights have `dtypes.reduce`" },
      } },
    { "reduction", "string", values = { "tree", "library" }, default = "tree", hash = "in",
      neutral = "tree",
      doc = "order in which gradients are summed over ranks: a tree that does not depend on "
          .. "the ranks, or one rank after the other, as a library would; then mesh, strategy and "
          .. "accumulate are in the hash, too" },
    { "mesh", "table", default = {}, hash = "out", example = "{ shard = 2 }",
      doc = "ranks along each axis",
      fields = {
          { "replicate", "int", min = 1, max = 4096, default = 1, hash = axes.replicate,
            doc = "copies of the model" },
          { "shard", "int", min = 1, max = 4096, default = 1, hash = axes.shard,
            doc = "ranks that share one copy" },
          { "context", "int", min = 1, max = most_parts, power_of_two = true, default = 1, hash = axes.context,
            doc = "context parallelism: ranks that share the parts of `parts.context`" },
          { "tensor", "int", min = 1, max = most_parts, power_of_two = true, default = 1, hash = axes.tensor,
            doc = "tensor parallelism: ranks that share the parts of `parts.tensor`" },
          { "node", "int", min = 1, max = 4096,
            default = function(t)
                return math.min(4096, t.replicate * t.shard * t.context * t.tensor) -- more are refused
            end,
            default_text = "all ranks",
            doc = "ranks per node: reductions sum within nodes first, so that fewer bytes cross "
                .. "between nodes; the cpu target simulates nodes" },
          { "expert", "int", min = 1, max = 1024, default = 1, only = 1,
            doc = "expert parallelism" },
          { "pipeline", "int", min = 1, max = 1024, default = 1, hash = axes.pipeline, only = 1,
            doc = "pipeline stages" },
      } },
    { "strategy", "string", hash = "out",
      values = strategies.names,
      default = function(t)
          return strategies.of_mesh(t.mesh.replicate, t.mesh.shard)
      end,
      default_text = "from the mesh",
      doc = "what is sharded; `\"shard_optimizer\"` shards only the optimizer's state (ZeRO-1)" },
    { "wrap", "record", kinds = { "per_block", "by_size", "by_name", "root_only" },
      number_makes = "per_block", func = "a function of each block",
      editor = "fun(block: fsdpgen.block): boolean|string|table<string, boolean|string>",
      default = "per_block", hash = "out",
      doc = "how parameters form units, which are gathered and freed together" },
    { "reshard_after_forward", "bool", number = "a group size", min = 1, max = 4096,
      default = function(t) return strategy_of(t).reshards end,
      default_text = "`true`; with `\"shard_grad_op\"` `false`", hash = "out",
      doc = "free the gathered weights between forward and backward; N: within groups of N "
          .. "ranks, each keeps a part of them" },
    { "prefetch", "table", default = {}, number_sets = { "forward", "backward" },
      hash = "out",
      doc = "how many units are gathered ahead of their use, and when",
      fields = {
          { "forward", "int", min = 0, max = 16, default = 1, doc = "units ahead in the forward" },
          { "backward", "int", min = 0, max = 16, default = 1, doc = "units ahead in the backward" },
          { "order", "string", values = { "pre", "post", "none" }, default = "pre",
            doc = "when the backward gathers the next unit: before the current one computes; after "
                .. "that, before its reduction (one unit less is held); or when it is needed" },
          { "in_flight", "int", min = 1, max = 64,
            default = function(t)
                return 1 + math.max(t.forward, t.backward)
            end,
            default_text = "one more than the units ahead",
            doc = "most units held at once: the current one and those ahead" },
      } },
    { "recompute", "string", values = { "none", "cheap", "block", "auto" },
      kinds = { "every", "ops" },
      default = "none", hash = "out", example = '"block"',
      doc = "activations that the backward computes again; `\"auto\"`: as few as the budget of the " ..
            "target requires, and none without a budget" },
    { "accumulate", "string", values = { "sharded", "unsharded" },
      default = function(t)
          return strategy_of(t).accumulates_sharded and "sharded" or "unsharded"
      end,
      default_text = '`"sharded"`; with `"shard_optimizer"` `"unsharded"`',
      hash = "out", doc = "how gradients are kept between the micro-batches of a step" },
    { "checkpoint", "table", default = {}, hash = "out",
      doc = "how checkpoints are written",
      fields = {
          { "file_size", "string", size = true, default = "5GB",
            doc = "largest size of a file of weights, unless one tensor is larger; several files "
                .. "get an index" },
          { "config", "string", values = { "checked", "unchecked", "none" },
            default = "checked",
            doc = "the `config.json` beside the weights: an error unless the class that it names "
                .. "computes this graph; written as the architecture says, without a check; or no "
                .. "such file" },
          { "class", "string", optional = true, max_bytes = 128,
            pattern = "^[A-Za-z_][A-Za-z0-9_]*%.[A-Za-z_][A-Za-z0-9_]*$",
            pattern_doc = "a file's name, a dot and a class: "
                .. "`\"modeling_mine.MineForCausalLM\"`",
            example = '"modeling_mine.MineForCausalLM"',
            doc = "a class of your own that `config.json` names (`architectures`, `auto_map`); "
                .. "what it computes is not checked" } } },
    { "max_skipped", "int", min = 0, max = 1 << 30, default = 20, hash = "out",
      doc = "how many updates in a row may be skipped because a loss or gradient is not "
          .. "finite; one more ends the run with exit code 5; with f16, updates that lower the loss "
          .. "scale do not count" },
    { "fuse", "bool", default = true, hash = "in",
      doc = "replace op sequences by fused kernels" },
    { "target", "record", kinds = { "cpu", "cuda" }, default = "cpu", hash = "platform",
      doc = "the hardware that the trainer is compiled for" },
}

local warmup = { "warmup", "int", min = 0, max = 1 << 40, default = 0,
                 doc = "steps in which the rate grows linearly from 0" }
local length = { "steps", "int", min = 1, max = 1 << 40, example = "100000",
                 doc = "length of the schedule" }
local min_ratio = { "min_ratio", "number", min = 0, max = 1, default = 0.1,
                    doc = "the rate at the end, as a share of the base rate" }

-- What a wrap does with the ends of the model, before and after the layers.
local embed = { "embed", "string", values = { "own", "join" }, default = "own",
                doc = "the embedding is a unit of its own, or joins the layers after it" }
local head = { "head", "string", values = { "own", "join" }, default = "own",
               doc = "the head is a unit of its own, or joins the layers before it" }

local constructors = {
    { "constant", fields = { warmup } },
    { "cosine", fields = { warmup, length, min_ratio } },
    { "linear", fields = { warmup, length, min_ratio } },
    { "wsd", fields = { warmup, length,
        { "decay", "int", min = 1, max = 1 << 40, example = "10000",
          doc = "steps of linear decay at the end" },
        min_ratio } },
    { "inverse_sqrt", fields = { warmup } },
    { "per_block", positional = "blocks", fields = {
        { "blocks", "int", min = 1, max = 1 << 20, default = 1,
          doc = "blocks per unit" },
        embed, head } },
    { "by_size", positional = "params", fields = {
        { "params", "int", min = 1, max = 1 << 50, example = "100000000",
          doc = "most parameters of a unit, unless one piece has more" },
        embed, head } },
    { "by_name", positional = "names", fields = {
        { "names", "list", item = { "name", "any", editor = "string|string[]" },
          example = '{ "layers.*.mlp_*", { "embed", "head" } }',
          doc = "patterns of names of blocks and pieces" } } },
    { "root_only", constant = true, fields = {} },
    { "every", positional = "blocks", fields = {
        { "blocks", "int", min = 1, max = 1 << 20,
          doc = "recompute one block in this many" } } },
    { "ops", positional = "names", fields = {
        { "names", "list", item = { "name", "string", max_bytes = 64 },
          example = '{ "swiglu" }',
          doc = "names of ops: `ops { \"swiglu\", \"rmsnorm\" }`" } } },
    { "cpu", fields = {
        { "arch", "string", pattern = "^[a-z0-9_.-]+$", max_bytes = 64,
          default = "native",
          pattern_doc = "lower-case letters, digits, `_`, `.` and `-`",
          doc = "the compiler's `-march` value" },
        { "memory", "string", size = true, optional = true, example = '"8GiB"',
          doc = "budget of each rank, of which 128 MiB are for code and libraries; the plan must "
              .. "fit. Units are B, KiB, MiB, GiB, TiB, KB, MB, GB, TB" },
        { "comm_thread", "bool", default = false,
          doc = "run gathers and reductions on a thread of their own beside the computation; "
              .. "for ranks with a core to spare" } } },
    { "cuda", fields = {
        { "gpu", "string", values = machines.gpus, default = "h100", more = own,
          doc = "the GPU to plan for; decides the defaults of the fields below" },
        { "arch", "list", alone = true, of_gpu = true,
          default = function(t) return { gpu_of(t).arch } end,
          default_text = "the gpu's", example = '"sm_90a"',
          item = { "name", "string", values = machines.archs },
          doc = "architectures whose kernels the trainer carries" },
        { "memory", "string", size = true, of_gpu = true,
          default = function(t) return gpu_of(t).memory end,
          default_text = "the gpu's", example = '"79GiB"',
          doc = "usable memory of an idle GPU; the plan must fit" },
        { "reserve", "string", size = true, default = "4GiB",
          doc = "part of `memory` that is left to the CUDA context, cuBLAS and NCCL" },
        { "attention", "string", values = { "generated", "cudnn", "auto", "tune" },
          default = "generated",
          doc = "kernels of attention: generated ones, or cuDNN's (bf16 or f16 on sm_90 and "
              .. "sm_90a, without `documents`). `\"auto\"` takes what `attention_choices` names; elsewhere "
              .. "cuDNN's, if they can run and heads are wider than 64: measured, they were faster with heads of "
              .. "128 and slower with heads of 64. `\"tune\"` is `\"auto\"` in a trainer that has both kinds, for "
              .. "`--tune-kernels`" },
        { "attention_choices", "table", optional = true, of_gpu = true,
          example = "require \"attention\"",
          doc = "with `attention = \"auto\"`: which kernels were faster, as `trainer --tune-kernels` writes it to "
              .. "`attention.lua`",
          fields = {
              { "gpu", "string", max_bytes = 128, example = '"NVIDIA H200"',
                doc = "the GPU that was measured" },
              { "arch", "string", pattern = "^sm_%d+a?$", pattern_doc = "`sm_` and a number",
                example = '"sm_90"', doc = "its architecture, which must be that of `arch`" },
              { "cudnn", "int", min = 1, max = 1 << 31, example = "91501", doc = "version of cuDNN" },
              { "cuda", "int", min = 1, max = 1 << 31, example = "13000", doc = "version of the CUDA runtime" },
              { "sites", "list", example = '{ { site = "...", kernels = "cudnn" } }',
                doc = "a choice for each shape of attention",
                item = { "site", "table", fields = {
                    { "site", "string", max_bytes = 256,
                      example = '"causal over 4096 tokens, 32 heads of 8, 128 wide, bf16"',
                      doc = "the shape; one that the model does not have is an error" },
                    { "kernels", "string", values = { "generated", "cudnn" }, example = '"cudnn"',
                      doc = "which kernels run it, forward and backward" },
                } } },
          } },
        { "rates", "table", fills = true, of_gpu = true,
          default = function(t)
              local r, own = gpu_of(t).rates, t.attention ~= "cudnn"
              return {
                  tflops = r[1], memory = r[2], link = r[3], peak = r[4],
                  attention = own and r[5] or cudnn_rates.attention,
                  attention_bwd = own and r[6] or cudnn_rates.attention_bwd,
                  cudnn = (t.attention == "auto" or t.attention == "tune") and cudnn_rates or nil,
                  norm = share_of(r[2], 0.8), sms = r[7],
              }
          end,
          default_text = "the gpu's",
          doc = "rates that predict the time of a step",
          fields = {
              machines.rate("tflops", "TFLOP/s of bf16 matrix products",
                            { default = 720, default_text = "the gpu's" }),
              machines.rate("memory", "GB/s of the GPU's memory",
                            { default = 2800, default_text = "the gpu's" }),
              machines.rate("link", "GB/s that a rank receives from others",
                            { default = 360, default_text = "the gpu's" }),
              machines.rate("attention", "TFLOP/s of attention's forward",
                            { default = 260, default_text = "the gpu's" }),
              machines.rate("attention_bwd", "TFLOP/s of attention's backward",
                            { default = 175, default_text = "the gpu's" }),
              { "cudnn", "table", optional = true, example = "{ attention = 400 }",
                doc = "with `attention = \"auto\"`: rates of the attention that cuDNN runs",
                fields = {
                    machines.rate("attention", "TFLOP/s of the forward",
                                  { default = cudnn_rates.attention }),
                    machines.rate("attention_bwd", "TFLOP/s of attention's backward",
                                  { default = cudnn_rates.attention_bwd }),
                } },
              machines.rate("norm", "GB/s of kernels that reduce rows or columns: norms, losses",
                            { default = 2240, default_text = "the gpu's" }),
              { "sms", "int", min = 1, max = 1 << 16, default = 132, default_text = "the gpu's",
                doc = "multiprocessors, which share the tiles of a product; a sum over ranks that is limited takes "
                    .. "at most half of them" },
              { "peak", "number", min = 0, max = 1e6, default = 0, default_text = "the gpu's",
                doc = "TFLOP/s that the vendor states, for the MFU that a trainer prints; 0: no MFU" },
          } },
        { "node", "string", values = machines.nodes, optional = true, more = own,
          of_gpu = true, example = '"hgx-h100"',
          doc = "datasheet of the nodes (`gen/lua/machines.lua`), which predicts times; by "
              .. "default the first node with this GPU" },
        { "fabric", "string", values = machines.fabrics, optional = true, more = own,
          of_gpu = true, example = '"rail"',
          doc = "datasheet of the network between nodes; by default the node's" },
        { "nodes", "int", min = 1, max = 4096, power_of_two = true, optional = true,
          of_gpu = true, example = "2",
          doc = "number of nodes; by default as many as the ranks fill" },
        { "network", "table", optional = true, of_gpu = true, example = "{ nics = 4, oversubscription = 2 }",
          doc = "your own cluster's numbers, which replace those of the datasheets",
          fields = {
              { "gpus", "int", min = 1, max = 4096, optional = true, example = "8",
                doc = "GPUs per node" },
              { "domain", "int", min = 1, max = 4096, optional = true, example = "72",
                doc = "GPUs that NVLink or PCIe joins; more than `gpus` if it joins several nodes" },
              { "nics", "int", min = 1, max = 1024, optional = true, example = "8",
                doc = "NICs per node" },
              machines.rate("nic", "GB/s of each NIC", { optional = true, example = "46" }),
              { "step", "number", min = 0, max = 1e6, optional = true, example = "3.4",
                doc = "microseconds that a step of a ring takes within a node" },
              { "price", "number", min = 0, max = 1e6, optional = true, example = "20",
                doc = "price of a node in dollars per hour, for `fsdpgen plan` and `size`" },
              { "rail", "bool", optional = true, example = "true",
                doc = "the NICs of a node go to different leaf switches" },
              { "down", "int", min = 1, max = 1 << 20, optional = true, example = "32",
                doc = "number of NICs that reach their full rate among each other" },
              { "oversubscription", "number", min = 1, max = 1e3, optional = true,
                example = "2", doc = "how many times slower a NIC is beyond these" },
              { "net_step", "number", min = 0, max = 1e6, optional = true, example = "9.6",
                doc = "microseconds that a step of a ring takes between nodes" },
          } },
        { "jit", "bool", default = false,
          doc = "`make` builds a trainer that compiles its kernels when it starts, for the "
              .. "GPU it finds, as `make JIT=1` does" } } },
}

return { trainer = trainer, constructors = constructors }
