---@meta fsdpgen
-- SPDX-License-Identifier: Apache-2.0
-- Annotations of the description language for editors (LuaLS). Written by
-- `fsdpgen docs lua` from the table that parses descriptions: DO NOT EDIT.
-- luacheck: ignore

---@class fsdpgen.model  what an architecture returns for its dimensions

---@class (exact) fsdpgen.arch
---@field name string
---@field doc? string
---@field fields table[] rows { name, type, attributes }
---@field values? table names reachable through the architecture
---@field check? fun(m: table, fail: fun(path: string, problem: string, help?: string))
---@field build fun(m: table, b: table)

---@class (exact) fsdpgen.adamw
---@field lr? number base learning rate
---@field betas? number[] decay of the two moments
---@field eps? number added to the root
---@field weight_decay? number decoupled; none on norms and biases
---@field clip? number largest global gradient norm; 0: no clipping

---@class (exact) fsdpgen.lion
---@field lr? number base learning rate
---@field betas? number[] decay of the moment: in the step, and as it is kept
---@field weight_decay? number decoupled; none on norms and biases
---@field clip? number largest global gradient norm; 0: no clipping

---@class (exact) fsdpgen.muon.adamw
---@field lr? number base learning rate
---@field betas? number[] decay of the two moments
---@field eps? number added to the root
---@field weight_decay? number decoupled; none on norms and biases

---@class (exact) fsdpgen.muon
---@field lr? number base learning rate
---@field momentum? number decay of the moment
---@field nesterov? boolean the gradient is mixed into the moment once more for the step
---@field ns_steps? integer Newton-Schulz steps that make a matrix orthogonal
---@field ns_coefficients? number[] of X, X X^T X and (X X^T)^2 X in each of them
---@field eps? number least norm that a matrix is divided by
---@field adjust_lr? "match_rms_adamw"|"original" what multiplies lr for an m x n matrix: 0.2 sqrt(max(m, n)), so that its steps are as long as adamw's; sqrt(max(1, m / n))
---@field weight_decay? number decoupled; none on norms and biases
---@field clip? number largest global gradient norm; 0: no clipping
---@field adamw? fsdpgen.muon.adamw for everything but hidden matrices

---@class (exact) fsdpgen.sgd
---@field lr? number base learning rate
---@field momentum? number decay of the moment; 0: no moment
---@field weight_decay? number decoupled; none on norms and biases
---@field clip? number largest global gradient norm; 0: no clipping

---@class (exact) fsdpgen.constant
---@field warmup? integer steps of linear growth from 0

---@class (exact) fsdpgen.cosine
---@field warmup? integer steps of linear growth from 0
---@field steps integer length of the schedule
---@field min_ratio? number of the base learning rate, at the end

---@class (exact) fsdpgen.linear
---@field warmup? integer steps of linear growth from 0
---@field steps integer length of the schedule
---@field min_ratio? number of the base learning rate, at the end

---@class (exact) fsdpgen.wsd
---@field warmup? integer steps of linear growth from 0
---@field steps integer length of the schedule
---@field decay integer steps of linear decay at the end
---@field min_ratio? number of the base learning rate, at the end

---@class (exact) fsdpgen.inverse_sqrt
---@field warmup? integer steps of linear growth from 0

---@class (exact) fsdpgen.per_block
---@field blocks? integer blocks of a unit
---@field embed? "own"|"join" the embedding: a unit of its own, or with the layers after it
---@field head? "own"|"join" the head: a unit of its own, or with the layers before it

---@class (exact) fsdpgen.by_size
---@field params integer parameters of a unit, at most, unless one piece has more
---@field embed? "own"|"join" the embedding: a unit of its own, or with the layers after it
---@field head? "own"|"join" the head: a unit of its own, or with the layers before it

---@class (exact) fsdpgen.by_name
---@field names number[] patterns of the names of blocks and pieces

---@class (exact) fsdpgen.root_only

---@class (exact) fsdpgen.every
---@field blocks integer one block in so many is recomputed

---@class (exact) fsdpgen.ops
---@field names string[] of ops: `ops { "swiglu", "rmsnorm" }`

---@class (exact) fsdpgen.cpu
---@field arch? string the compiler's `-march` value
---@field memory? string of each rank, with 128 MiB for code and libraries: a number and B, KiB, MiB, GiB, TiB, KB, MB, GB or TB; the plan must fit
---@field comm_thread? boolean gathers and reductions on a thread of their own beside the computation: for ranks that have a core to spare

---@class (exact) fsdpgen.cuda.rates
---@field tflops? number of bf16 matrix products
---@field memory? number GB/s from memory
---@field link? number GB/s that a rank receives from others

---@class (exact) fsdpgen.cuda
---@field gpu? "a100-40gb"|"a100-80gb"|"l40s"|"rtx4090"|"h100"|"h200"|"b200"|"rtx5090" what it is planned for: how much memory, for which architecture
---@field arch? string[]|string architectures whose kernels the trainer carries
---@field memory? string usable memory of an idle GPU
---@field reserve? string of it what is left to the context, to cuBLAS and NCCL; the plan must fit beside it
---@field rates? fsdpgen.cuda.rates to predict the time of a step by
---@field attention? "generated"|"cudnn" by generated kernels, or by cuDNN's: bf16 or f16 on sm_90 and sm_90a, without `documents`
---@field jit? boolean `make` builds a trainer that compiles its kernels when it starts, for the GPU it finds, as `make JIT=1` does

---@class (exact) fsdpgen.trainer.dtypes
---@field param? "f32"|"bf16"|"f64"|"f16" weights as gathered and activations, what blocks hand on and logits too; `"f64"` is for tests
---@field reduce? "f32"|"f64"|"bf16" gradients and their sums: every sum is rounded to it, also on one rank
---@field master? "f32"|"f64"|"split"|"bf16" weights that the optimizer updates; `"split"`: the 16 bits below a bf16 weight, which together are an f32 master; `"bf16"`: the bf16 weights themselves, by stochastic rounding
---@field linear? "param"|"fp8"|"mxfp8"|"nvfp4" operands of matrix products
---@field moments? "f32"|"f64"|"bf16" optimizer state; `"bf16"` by stochastic rounding

---@class (exact) fsdpgen.trainer.groups
---@field match string[]|string names: `*` stands for any letters, dots too, `?` for one
---@field lr? number multiplies the learning rate
---@field weight_decay? number instead of the optimizer's, on norms and biases too
---@field frozen? boolean never change: no gradient, no optimizer state, no reduction
---@field optimizer? "muon"|"adamw" which half of muon takes them: matrices that it would not, or would

---@class (exact) fsdpgen.trainer.loss
---@field chunk_tokens? integer tokens whose logits exist at once: as many as keep the head's products efficient, so that `chunk * dim` is 2^22, but at most 2^29 logits
---@field mask? boolean beside each data file `X`, `X.mask` says which tokens are targets
---@field z? number weight of the z-loss: `z lse^2` joins the loss of a token
---@field label_smoothing? number share of the target given to all tokens alike

---@class (exact) fsdpgen.trainer.loss_scale
---@field init? integer scale of a micro-batch's mean loss at the start; a power of two; 0: none
---@field growth_interval? integer updates in a row after which it grows
---@field factor? integer by which it grows and shrinks
---@field min? integer it shrinks no further

---@class (exact) fsdpgen.trainer.documents
---@field end_id integer token that ends a document

---@class (exact) fsdpgen.trainer.parts
---@field tensor? integer of heads and features
---@field context? integer of sequences
---@field dtype? "f32" of sums over parts

---@class (exact) fsdpgen.trainer.mesh
---@field replicate? integer copies of the model
---@field shard? integer ranks that share one copy
---@field node? integer ranks of a node: reductions sum within nodes first, so that fewer bytes cross; the cpu target simulates nodes
---@field tensor? integer tensor parallelism
---@field expert? integer expert parallelism
---@field pipeline? integer pipeline stages
---@field context? integer context parallelism

---@class (exact) fsdpgen.trainer.prefetch
---@field forward? integer units ahead
---@field backward? integer units ahead
---@field order? "pre"|"post"|"none" of the backward: gather before the unit at hand computes, after it but before its reduction (one unit less is held), or at use
---@field in_flight? integer most units gathered at once: the one at hand and those ahead

---@class (exact) fsdpgen.trainer.checkpoint
---@field file_size? string a file of weights grows to this size, unless one tensor is larger; more of them have an index: `"5GB"`
---@field config? "checked"|"unchecked"|"none" the `config.json` beside the weights: refused unless the class that it names computes this graph; as the architecture writes it, whatever the graph; or no such file
---@field class? string of your own, that `config.json` names (`architectures`, `auto_map`): what it computes is not checked

---@class (exact) fsdpgen.trainer
---@field name string of the trainer and its files
---@field model fsdpgen.model an architecture with its dimensions: `llama { ... }`
---@field seq integer tokens of a sequence
---@field micro_batch? integer sequences of a micro-batch
---@field global_batch integer sequences of a step; a multiple of micro_batch
---@field leaves? integer leaves of the sum over micro-batches: a power of two that divides their number; the data ranks must divide it
---@field dtypes? fsdpgen.trainer.dtypes storage of each kind of number
---@field optimizer? fsdpgen.adamw|fsdpgen.lion|fsdpgen.muon|fsdpgen.sgd and its base learning rate
---@field lr? fsdpgen.constant|fsdpgen.linear|fsdpgen.cosine|fsdpgen.wsd|fsdpgen.inverse_sqrt schedule that multiplies the base learning rate
---@field groups? fsdpgen.trainer.groups[] parameters that are treated in another way, by their names; the first group that matches a parameter takes it
---@field init? any initial weights by name pattern; the architecture's when missing (later)
---@field seed? integer of initial weights and data order
---@field loss? fsdpgen.trainer.loss cross entropy of the next token
---@field loss_scale? fsdpgen.trainer.loss_scale dynamic scaling of f16 gradients: a step whose gradient is not finite is skipped and lowers it
---@field documents? fsdpgen.trainer.documents samples are packed documents; attention and positions restart in each
---@field parts? fsdpgen.trainer.parts parts in which one value is computed, whatever ranks share them
---@field reduction? "tree"|"library" order in which gradients are summed over ranks: a tree that does not know them, or as a library would, one after the other; then mesh, strategy and accumulate are inside the hash, too
---@field mesh? fsdpgen.trainer.mesh ranks along each axis
---@field strategy? "full_shard"|"no_shard"|"shard_grad_op"|"hybrid_shard"|"shard_optimizer" what is sharded: `"shard_optimizer"` only the optimizer's state (ZeRO-1)
---@field wrap? fsdpgen.per_block|fsdpgen.by_size|fsdpgen.by_name|fsdpgen.root_only|integer|function what is gathered and freed together: a unit
---@field reshard_after_forward? boolean|integer free the gathered weights between forward and backward; N: groups of N ranks keep them, a part each
---@field prefetch? fsdpgen.trainer.prefetch|integer units gathered ahead of their use
---@field recompute? "none"|"cheap"|"block"|"auto"|fsdpgen.every|fsdpgen.ops activations computed again in the backward
---@field accumulate? "sharded"|"unsharded" where a step's gradients wait for its other micro-batches
---@field checkpoint? fsdpgen.trainer.checkpoint how checkpoints are written
---@field max_skipped? integer updates skipped in a row, for a loss or gradient that is not finite; one more ends the run with exit code 5
---@field fuse? boolean replace op sequences by fused kernels
---@field target? fsdpgen.cpu|fsdpgen.cuda what the trainer is compiled for

---@param fields fsdpgen.trainer
---@return fsdpgen.trainer
function trainer(fields) end

---@param fields fsdpgen.arch
---@return fun(dimensions: table): fsdpgen.model
function arch(fields) end

---@param fields? fsdpgen.adamw
---@return fsdpgen.adamw
function adamw(fields) end

---@param fields? fsdpgen.lion
---@return fsdpgen.lion
function lion(fields) end

---@param fields? fsdpgen.muon
---@return fsdpgen.muon
function muon(fields) end

---@param fields? fsdpgen.sgd
---@return fsdpgen.sgd
function sgd(fields) end

---@param fields? fsdpgen.constant
---@return fsdpgen.constant
function constant(fields) end

---@param fields? fsdpgen.cosine
---@return fsdpgen.cosine
function cosine(fields) end

---@param fields? fsdpgen.linear
---@return fsdpgen.linear
function linear(fields) end

---@param fields? fsdpgen.wsd
---@return fsdpgen.wsd
function wsd(fields) end

---@param fields? fsdpgen.inverse_sqrt
---@return fsdpgen.inverse_sqrt
function inverse_sqrt(fields) end

---@param blocks integer
---@return fsdpgen.per_block
function per_block(blocks) end

---@param params integer
---@return fsdpgen.by_size
function by_size(params) end

---@param names integer
---@return fsdpgen.by_name
function by_name(names) end

---@type fsdpgen.root_only
root_only = {}

---@param blocks integer
---@return fsdpgen.every
function every(blocks) end

---@param names integer
---@return fsdpgen.ops
function ops(names) end

---@param fields? fsdpgen.cpu
---@return fsdpgen.cpu
function cpu(fields) end

---@param fields? fsdpgen.cuda
---@return fsdpgen.cuda
function cuda(fields) end
