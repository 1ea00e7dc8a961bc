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
--   number_makes   a number N means this constructor applied to N
--   number_sets    a number sets these fields
--   number         of a bool: an integer from min to max is legal too, and means this
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

local own = "--machines FILE adds others"
local gpu_of, cudnn_rates = machines.gpu_of, machines.cudnn_rates

local trainer = {
    { "name", "string", pattern = "^[a-z][a-z0-9_.]*$", max_bytes = 64, forbid = "..",
      hash = "none",
      pattern_doc = "a lower-case letter, then lower-case letters, digits, `_` and `.`",
      example = '"my_model"', doc = "of the trainer and its files" },
    { "model", "model", hash = "in", example = "llama { ... }",
      doc = "an architecture with its dimensions: `llama { ... }`" },
    { "seq", "int", min = 1, max = 1 << 24, hash = "in", example = "1024",
      doc = "tokens of a sequence" },
    { "micro_batch", "int", min = 1, max = 1 << 20, default = 1, hash = "in",
      doc = "sequences of a micro-batch" },
    { "global_batch", "int", min = 1, max = 1 << 24, hash = "in", example = "64",
      doc = "sequences of a step; a multiple of micro_batch" },
    { "leaves", "int", min = 1, max = 1 << 16, power_of_two = true, hash = "in",
      default = function(t)
          return largest_power_of_two(math.max(t.global_batch // t.micro_batch, 1), 8)
      end,
      default_text = "the largest that divides, at most 8",
      doc = "leaves of the sum over micro-batches: a power of two that divides their "
          .. "number; the data ranks must divide it" },
    { "dtypes", "table", default = {}, hash = "in",
      doc = "storage of each kind of number",
      fields = {
          { "param", "string", values = { "f32", "bf16", "f64", "f16" },
            default = "bf16",
            doc = "weights as gathered and activations, what blocks hand on and logits too; "
                .. "`\"f64\"` is for tests" },
          { "reduce", "string", values = { "f32", "f64", "bf16" },
            default = accumulation_dtype, default_text = "`\"f32\"`",
            doc = "gradients and their sums: every sum is rounded to it, also on one rank" },
          { "master", "string", values = optimizers.dtypes.master,
            default = accumulation_dtype, default_text = "`\"f32\"`",
            doc = "weights that the optimizer updates; `\"split\"`: the 16 bits below a bf16 "
                .. "weight, which together are an f32 master; `\"bf16\"`: the bf16 weights "
                .. "themselves, by stochastic rounding" },
          { "linear", "string", values = { "param", "fp8", "mxfp8", "nvfp4" },
            default = "param", neutral = "param", only = "param",
            doc = "operands of matrix products" },
          { "moments", "string", values = optimizers.dtypes.moments,
            default = accumulation_dtype, default_text = "`\"f32\"`",
            doc = "optimizer state; `\"bf16\"` by stochastic rounding" },
      } },
    { "optimizer", "record", kinds = optimizers.names, default = optimizers.default,
      hash = "in", doc = "and its base learning rate" },
    { "lr", "record", kinds = { "constant", "linear", "cosine", "wsd", "inverse_sqrt" },
      default = "constant", hash = "in",
      doc = "schedule that multiplies the base learning rate" },
    { "groups", "list", optional = true, hash = "in",
      example = '{ { match = "*.bias", lr = 0.1 } }',
      doc = "parameters that are treated in another way, by their names; the first group "
          .. "that matches a parameter takes it",
      item = { "group", "table", fields = {
          { "match", "list", alone = true, example = '"model.embed_tokens.*"',
            item = { "glob", "string", max_bytes = 256, pattern = "^[A-Za-z0-9_.*?]+$",
                     pattern_doc = "a name with `*` for any letters and `?` for one" },
            doc = "names: `*` stands for any letters, dots too, `?` for one" },
          { "lr", "number", above = 0, max = 1e6, optional = true,
            doc = "multiplies the learning rate" },
          { "weight_decay", "number", min = 0, max = 1e3, optional = true,
            doc = "instead of the optimizer's, on norms and biases too" },
          { "frozen", "bool", default = false,
            doc = "never change: no gradient, no optimizer state, no reduction" },
          { "optimizer", "string", values = optimizers.halves, optional = true,
            default_text = "see " .. optimizers.of_matrices,
            doc = "which half of " .. optimizers.of_matrices
                .. " takes them: matrices that it would not, or would" },
      } } },
    { "init", "any", optional = true, later = true, hash = "in",
      doc = "initial weights by name pattern; the architecture's when missing" },
    { "seed", "int", min = 0, max = (1 << 53) - 1, default = 1, hash = "in",
      doc = "of initial weights and data order" },
    { "loss", "table", default = {}, hash = "in", doc = "cross entropy of the next token",
      fields = {
          { "chunk_tokens", "int", min = 1, max = 1 << 24, default = chunk_tokens,
            default_text = "by tokens, dim and vocabulary",
            doc = "tokens whose logits exist at once: as many as keep the head's products "
                .. "efficient, so that `chunk * dim` is 2^22, but at most 2^29 logits" },
          { "mask", "bool", default = false, neutral = false,
            doc = "beside each data file `X`, `X.mask` says which tokens are targets" },
          { "z", "number", min = 0, max = 1e3, default = 0, neutral = 0,
            doc = "weight of the z-loss: `z lse^2` joins the loss of a token" },
          { "label_smoothing", "number", min = 0, below = 1, default = 0, neutral = 0,
            doc = "share of the target given to all tokens alike" },
      } },
    { "loss_scale", "table", hash = "in",
      default = function(t)
          return { init = t.dtypes.param == "f16" and 65536 or 0 }
      end,
      default_text = "only with f16",
      doc = "dynamic scaling of f16 gradients: a step whose gradient is not finite is "
          .. "skipped and lowers it",
      fields = {
          { "init", "int", min = 0, max = 1 << 40, default = 65536,
            doc = "scale of a micro-batch's mean loss at the start; a power of two; 0: none" },
          { "growth_interval", "int", min = 1, max = 1 << 40, default = 2000,
            doc = "updates in a row after which it grows" },
          { "factor", "int", min = 2, max = 1 << 16, power_of_two = true, default = 2,
            doc = "by which it grows and shrinks" },
          { "min", "int", min = 1, max = 1 << 40, power_of_two = true, default = 1,
            doc = "it shrinks no further" },
      } },
    { "documents", "table", optional = true, hash = "in", example = "{ end_id = 0 }",
      doc = "samples are packed documents; attention and positions restart in each",
      fields = {
          { "end_id", "int", min = 0, max = (1 << 31) - 1, example = "0",
            doc = "token that ends a document" },
      } },
    { "parts", "table", default = {}, hash = "in",
      doc = "parts in which one value is computed, whatever ranks share them",
      fields = {
          { "tensor", "int", min = 1, max = 1024, default = 1, neutral = 1, only = 1,
            doc = "of heads and features" },
          { "context", "int", min = 1, max = 1024, default = 1, neutral = 1, only = 1,
            doc = "of sequences" },
          { "dtype", "string", values = { "f32" }, default = "f32", neutral = "f32",
            doc = "of sums over parts" },
      } },
    { "reduction", "string", values = { "tree", "library" }, default = "tree", hash = "in",
      neutral = "tree",
      doc = "order in which gradients are summed over ranks: a tree that does not know them, "
          .. "or as a library would, one after the other; then mesh, strategy and "
          .. "accumulate are inside the hash, too" },
    { "mesh", "table", default = {}, hash = "out", example = "{ shard = 2 }",
      doc = "ranks along each axis",
      fields = {
          { "replicate", "int", min = 1, max = 4096, default = 1, hash = axes.replicate,
            doc = "copies of the model" },
          { "shard", "int", min = 1, max = 4096, default = 1, hash = axes.shard,
            doc = "ranks that share one copy" },
          { "node", "int", min = 1, max = 4096,
            default = function(t)
                return t.replicate * t.shard
            end,
            default_text = "all ranks",
            doc = "ranks of a node: reductions sum within nodes first, so that fewer bytes "
                .. "cross; the cpu target simulates nodes" },
          { "tensor", "int", min = 1, max = 1024, default = 1, hash = axes.tensor, only = 1,
            doc = "tensor parallelism" },
          { "expert", "int", min = 1, max = 1024, default = 1, only = 1,
            doc = "expert parallelism" },
          { "pipeline", "int", min = 1, max = 1024, default = 1, hash = axes.pipeline, only = 1,
            doc = "pipeline stages" },
          { "context", "int", min = 1, max = 1024, default = 1, hash = axes.context, only = 1,
            doc = "context parallelism" },
      } },
    { "strategy", "string", hash = "out",
      values = strategies.names,
      default = function(t)
          return strategies.of_mesh(t.mesh.replicate, t.mesh.shard)
      end,
      default_text = "from the mesh",
      doc = "what is sharded: `\"shard_optimizer\"` only the optimizer's state (ZeRO-1)" },
    { "wrap", "record", kinds = { "per_block", "by_size", "by_name", "root_only" },
      number_makes = "per_block", func = "a function of each block",
      editor = "fun(block: fsdpgen.block): boolean|string|table<string, boolean|string>",
      default = "per_block", hash = "out",
      doc = "what is gathered and freed together: a unit" },
    { "reshard_after_forward", "bool", number = "a group size", min = 1, max = 4096,
      default = function(t) return strategy_of(t).reshards end,
      default_text = "`true`; with `\"shard_grad_op\"` `false`", hash = "out",
      doc = "free the gathered weights between forward and backward; N: groups of N ranks "
          .. "keep them, a part each" },
    { "prefetch", "table", default = {}, number_sets = { "forward", "backward" },
      hash = "out",
      doc = "units gathered ahead of their use",
      fields = {
          { "forward", "int", min = 0, max = 16, default = 1, doc = "units ahead" },
          { "backward", "int", min = 0, max = 16, default = 1, doc = "units ahead" },
          { "order", "string", values = { "pre", "post", "none" }, default = "pre",
            doc = "of the backward: gather before the current unit computes, after it but "
                .. "before its reduction (one unit less is held), or at use" },
          { "in_flight", "int", min = 1, max = 64,
            default = function(t)
                return 1 + math.max(t.forward, t.backward)
            end,
            default_text = "one more than the units ahead",
            doc = "most units gathered at once: the current one and those ahead" },
      } },
    { "recompute", "string", values = { "none", "cheap", "block", "auto" },
      kinds = { "every", "ops" },
      default = "none", hash = "out", example = '"block"',
      doc = "activations computed again in the backward; `\"auto\"`: as few as the budget of the " ..
            "target asks for, without a budget none" },
    { "accumulate", "string", values = { "sharded", "unsharded" },
      default = function(t)
          return strategy_of(t).accumulates_sharded and "sharded" or "unsharded"
      end,
      default_text = '`"sharded"`; with `"shard_optimizer"` `"unsharded"`',
      hash = "out", doc = "where a step's gradients wait for its other micro-batches" },
    { "checkpoint", "table", default = {}, hash = "out",
      doc = "how checkpoints are written",
      fields = {
          { "file_size", "string", size = true, default = "5GB",
            doc = "a file of weights grows to this size, unless one tensor is larger; more "
                .. "of them have an index: `\"5GB\"`" },
          { "config", "string", values = { "checked", "unchecked", "none" },
            default = "checked",
            doc = "the `config.json` beside the weights: refused unless the class that it "
                .. "names computes this graph; as the architecture writes it, whatever the "
                .. "graph; or no such file" },
          { "class", "string", optional = true, max_bytes = 128,
            pattern = "^[A-Za-z_][A-Za-z0-9_]*%.[A-Za-z_][A-Za-z0-9_]*$",
            pattern_doc = "a file's name, a dot and a class: "
                .. "`\"modeling_mine.MineForCausalLM\"`",
            example = '"modeling_mine.MineForCausalLM"',
            doc = "of your own, that `config.json` names (`architectures`, `auto_map`): what "
                .. "it computes is not checked" } } },
    { "max_skipped", "int", min = 0, max = 1 << 30, default = 20, hash = "out",
      doc = "updates skipped in a row, for a loss or gradient that is not finite; one "
          .. "more ends the run with exit code 5" },
    { "fuse", "bool", default = true, hash = "in",
      doc = "replace op sequences by fused kernels" },
    { "target", "record", kinds = { "cpu", "cuda" }, default = "cpu", hash = "platform",
      doc = "what the trainer is compiled for" },
}

local warmup = { "warmup", "int", min = 0, max = 1 << 40, default = 0,
                 doc = "steps of linear growth from 0" }
local length = { "steps", "int", min = 1, max = 1 << 40, example = "100000",
                 doc = "length of the schedule" }
local min_ratio = { "min_ratio", "number", min = 0, max = 1, default = 0.1,
                    doc = "of the base learning rate, at the end" }

-- What a wrap does with the ends of the model, before and after the layers.
local embed = { "embed", "string", values = { "own", "join" }, default = "own",
                doc = "the embedding: a unit of its own, or with the layers after it" }
local head = { "head", "string", values = { "own", "join" }, default = "own",
               doc = "the head: a unit of its own, or with the layers before it" }

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
          doc = "blocks of a unit" },
        embed, head } },
    { "by_size", positional = "params", fields = {
        { "params", "int", min = 1, max = 1 << 50, example = "100000000",
          doc = "parameters of a unit, at most, unless one piece has more" },
        embed, head } },
    { "by_name", positional = "names", fields = {
        { "names", "list", item = { "name", "any", editor = "string|string[]" },
          example = '{ "layers.*.mlp_*", { "embed", "head" } }',
          doc = "patterns of the names of blocks and pieces" } } },
    { "root_only", constant = true, fields = {} },
    { "every", positional = "blocks", fields = {
        { "blocks", "int", min = 1, max = 1 << 20,
          doc = "one block in so many is recomputed" } } },
    { "ops", positional = "names", fields = {
        { "names", "list", item = { "name", "string", max_bytes = 64 },
          example = '{ "swiglu" }',
          doc = "of ops: `ops { \"swiglu\", \"rmsnorm\" }`" } } },
    { "cpu", fields = {
        { "arch", "string", pattern = "^[a-z0-9_.-]+$", max_bytes = 64,
          default = "native",
          pattern_doc = "lower-case letters, digits, `_`, `.` and `-`",
          doc = "the compiler's `-march` value" },
        { "memory", "string", size = true, optional = true, example = '"8GiB"',
          doc = "of each rank, with 128 MiB for code and libraries: a number and B, KiB, "
              .. "MiB, GiB, TiB, KB, MB, GB or TB; the plan must fit" },
        { "comm_thread", "bool", default = false,
          doc = "gathers and reductions on a thread of their own beside the computation: "
              .. "for ranks that have a core to spare" } } },
    { "cuda", fields = {
        { "gpu", "string", values = machines.gpus, default = "h100", more = own,
          doc = "what it is planned for: how much memory, for which architecture" },
        { "arch", "list", alone = true,
          default = function(t) return { gpu_of(t).arch } end,
          default_text = "the gpu's", example = '"sm_90a"',
          item = { "name", "string", values = machines.archs },
          doc = "architectures whose kernels the trainer carries" },
        { "memory", "string", size = true,
          default = function(t) return gpu_of(t).memory end,
          default_text = "the gpu's", example = '"79GiB"',
          doc = "usable memory of an idle GPU" },
        { "reserve", "string", size = true, default = "4GiB",
          doc = "of it what is left to the context, to cuBLAS and NCCL; the plan must fit "
              .. "beside it" },
        { "attention", "string", values = { "generated", "cudnn", "auto" },
          default = "generated",
          doc = "by generated kernels, or by cuDNN's: bf16 or f16 on sm_90 and sm_90a, without "
              .. "`documents`; `\"auto\"`: by cuDNN's where these can, decided when the trainer "
              .. "is generated, from the description alone" },
        { "rates", "table",
          default = function(t)
              local r, own = gpu_of(t).rates, t.attention ~= "cudnn"
              return {
                  tflops = r[1], memory = r[2], link = r[3], peak = r[4],
                  attention = own and r[5] or cudnn_rates.attention,
                  attention_bwd = own and r[6] or cudnn_rates.attention_bwd,
                  cudnn = t.attention == "auto" and cudnn_rates or nil,
                  norm = 0.8 * r[2], sms = r[7],
              }
          end,
          default_text = "the gpu's",
          doc = "to predict the time of a step by",
          fields = {
              { "tflops", "number", min = 1, max = 1e6, default = 720,
                doc = "of bf16 matrix products" },
              { "memory", "number", min = 1, max = 1e6, default = 2800,
                doc = "GB/s from memory" },
              { "link", "number", min = 1, max = 1e6, default = 360,
                doc = "GB/s that a rank receives from others" },
              { "attention", "number", min = 1, max = 1e6, default = 260,
                doc = "TFLOP/s of attention's forward" },
              { "attention_bwd", "number", min = 1, max = 1e6, default = 175,
                doc = "TFLOP/s of its backward" },
              { "cudnn", "table", optional = true, example = "{ attention = 590 }",
                doc = "with `attention = \"auto\"`: of the attention that cuDNN runs",
                fields = {
                    { "attention", "number", min = 1, max = 1e6,
                      default = cudnn_rates.attention, doc = "TFLOP/s of its forward" },
                    { "attention_bwd", "number", min = 1, max = 1e6,
                      default = cudnn_rates.attention_bwd,
                      doc = "TFLOP/s of its backward" },
                } },
              { "norm", "number", min = 1, max = 1e6, default = 2240,
                doc = "GB/s of kernels that reduce rows or columns: norms, losses" },
              { "sms", "int", min = 1, max = 1 << 16, default = 132,
                doc = "processors that share the tiles of a product, for `plan --kernels`" },
              { "peak", "number", min = 0, max = 1e6, default = 0,
                doc = "TFLOP/s that the vendor states, for the MFU that a trainer prints; 0: "
                    .. "it prints none" },
          } },
        { "node", "string", values = machines.nodes, optional = true, more = own,
          example = '"hgx-h100"',
          doc = "the datasheet of the nodes that ranks lie on (`gen/lua/machines.lua`), to "
              .. "predict the time of a step by; by default the first that is built with the gpu" },
        { "fabric", "string", values = machines.fabrics, optional = true, more = own,
          example = '"rail"',
          doc = "the datasheet of what joins the nodes; by default the node's" },
        { "nodes", "int", min = 1, max = 4096, power_of_two = true, optional = true,
          example = "2",
          doc = "that the ranks lie on; by default as many as they fill" },
        { "network", "table", optional = true, example = "{ nics = 4, oversubscription = 2 }",
          doc = "numbers of your own cluster in place of the datasheets'",
          fields = {
              { "gpus", "int", min = 1, max = 4096, optional = true, example = "8",
                doc = "of a node" },
              { "domain", "int", min = 1, max = 4096, optional = true, example = "72",
                doc = "GPUs that NVLink or PCIe joins, across nodes if they are more than a "
                    .. "node's" },
              { "nics", "int", min = 1, max = 1024, optional = true, example = "8",
                doc = "of a node" },
              { "nic", "number", min = 1e-3, max = 1e6, optional = true, example = "46",
                doc = "GB/s of each" },
              { "step", "number", min = 0, max = 1e6, optional = true, example = "3.4",
                doc = "microseconds of a step of a ring within a node" },
              { "price", "number", min = 0, max = 1e6, optional = true, example = "20",
                doc = "dollars an hour of a node, for `fsdpgen size`" },
              { "rail", "bool", optional = true, example = "true",
                doc = "the NICs of a node go to different leaf switches" },
              { "down", "int", min = 1, max = 1 << 20, optional = true, example = "32",
                doc = "NICs that have their full rate among each other" },
              { "oversubscription", "number", min = 1, max = 1e3, optional = true,
                example = "2", doc = "how many times less a NIC has beyond them" },
              { "net_step", "number", min = 0, max = 1e6, optional = true, example = "9.6",
                doc = "microseconds of a step of a ring between nodes" },
          } },
        { "jit", "bool", default = false,
          doc = "`make` builds a trainer that compiles its kernels when it starts, for the "
              .. "GPU it finds, as `make JIT=1` does" } } },
}

return { trainer = trainer, constructors = constructors }
