-- SPDX-License-Identifier: Apache-2.0
-- choices.lua: the matrix's factors: fields outside the numerics hash, and what a run adds to
-- them. A value: { label, sets..., with = sets that it needs before it can be asked for alone }.
-- `rules` says which combinations the generator refuses for good; each row of the matrix keeps
-- them all.

local function mesh(replicate, shard)
    return { replicate .. "x" .. shard, "mesh.replicate=" .. replicate, "mesh.shard=" .. shard }
end

-- Ranks along tensor or context share the parts of models that have some; for others it is 1x1.
local function along(tensor, context)
    local parts = { "model.heads=8", "model.kv_heads=8", "model.head_dim=6", "model.ffn=56", "seq=16",
                    "parts.tensor=" .. tensor, "parts.context=" .. context }
    return { tensor .. "x" .. context, "mesh.tensor=" .. tensor, "mesh.context=" .. context, with = parts }
end

local four, both = { "mesh.shard=4" }, { "mesh.replicate=2", "mesh.shard=2" }

local factors = {
    { "mesh", mesh(1, 1), mesh(1, 2), mesh(2, 1), mesh(1, 4), mesh(2, 2), mesh(4, 1),
      mesh(1, 8), mesh(2, 4), mesh(4, 2), mesh(8, 1) },
    { "along", { "1x1" }, along(2, 1), along(4, 1), along(8, 1), along(1, 2), along(2, 2), along(4, 2),
      along(1, 4), along(2, 4), along(1, 8) },
    { "strategy",
      { "full_shard", "strategy=full_shard" },
      { "shard_grad_op", "strategy=shard_grad_op", with = four },
      { "hybrid_shard", "strategy=hybrid_shard", with = both },
      { "no_shard", "strategy=no_shard" },
      { "shard_optimizer", "strategy=shard_optimizer", with = { "mesh.shard=2" } } },
    { "reshard",
      { "default" },
      { "true", "reshard_after_forward=true" },
      { "false", "reshard_after_forward=false" },
      { "group2", "reshard_after_forward=2", with = four } },
    { "wrap",
      { "block", "wrap=1" },
      { "2blocks", "wrap=2" },
      { "all", "wrap=99" },
      { "size", "wrap=by_size(7000)" },
      { "inside", "wrap=by_size(2000)" },
      { "name", "wrap=by_name{'layers.1', 'layers.*.mlp_*', {'embed', 'head'}}" },
      { "root", "wrap=root_only" },
      { "function", "wrap=function(b) return b.index % 2 == 0 or b.class end" } },
    { "forward", { "0", "prefetch.forward=0" }, { "1", "prefetch.forward=1" },
      { "3", "prefetch.forward=3" } },
    { "backward", { "0", "prefetch.backward=0" }, { "1", "prefetch.backward=1" },
      { "2", "prefetch.backward=2" } },
    { "order", { "pre", "prefetch.order=pre" }, { "post", "prefetch.order=post" },
      { "none", "prefetch.order=none" } },
    { "in_flight", { "default" }, { "1", "prefetch.in_flight=1" },
      { "2", "prefetch.in_flight=2" } },
    { "recompute",
      { "none", "recompute=none" },
      { "cheap", "recompute=cheap" },
      { "block", "recompute=block" },
      { "every2", "recompute=every(2)" },
      { "ops", "recompute=ops{'attention'}" },
      { "auto", "recompute=auto", "target.memory='1GiB'" },
      { "budget", "recompute=auto", "target.memory='134300KiB'" } }, -- something must go
    { "accumulate", { "sharded", "accumulate=sharded" },
      { "unsharded", "accumulate=unsharded" } },
    { "node", { "all" }, { "2 ranks", "mesh.node=2", with = { "mesh.shard=2" } } },
    { "collectives", { "by the step" }, { "on a thread", "target.comm_thread=true" } },
    { "dtype", { "own" }, { "f32" }, { "bf16" }, { "f64" } }, -- inside the hash: run.sh sets it
    { "threads", { "1" }, { "2" }, { "3" } }, -- of a rank: a flag of the trainer
}

local function split(m)
    local p, s = m:match("(%d+)x(%d+)")
    return tonumber(p), tonumber(s)
end

local function ranks(m, along)
    local p, s = split(m)
    local t, c = split(along)
    return p * s * t * c
end

local rules = {
    { "mesh", "along", function(m, along)
        return ranks(m, along) <= 8
    end },
    { "mesh", "along", "node", function(m, along, node)
        return node == "all" or ranks(m, along) > 1
    end },
    { "along", "node", function(along, node) -- a node has all ranks along tensor
        return node == "all" or split(along) <= 2
    end },
    { "mesh", "strategy", function(m, strategy)
        local p, s = split(m)
        if strategy == "hybrid_shard" then
            return p > 1 and s > 1
        end
        if strategy == "shard_optimizer" then
            return p == 1 or s > 1
        end
        return strategy == "no_shard" or p == 1
    end },
    { "mesh", "reshard", function(m, reshard)
        local _, s = split(m)
        return reshard ~= "group2" or s % 2 == 0
    end },
    { "strategy", "reshard", function(strategy, reshard)
        if strategy == "shard_grad_op" then
            return reshard == "default" or reshard == "false"
        end
        local whole = strategy == "no_shard" or strategy == "shard_optimizer"
        return not (whole and reshard == "group2")
    end },
}

return { factors = factors, rules = rules }
