# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: models at the limits of what blocks there may be: 1,024, each of a class of its own;
# a block that reads parameters of many units.
many=$WORK/many
mkdir -p "$many"
cat >"$many/many.lua" <<'LUA'
return arch {
  name = "many", fields = { { "vocab", "int" }, { "dim", "int" }, { "blocks", "int" }, { "shared", "int" },
             { "norms", "int", default = 1 } },
  build = function(m, b)
    local x = b:block("embed", "embed", "model.", function(g)
      return g.embed { g:tokens(), g:param { "embed.weight", { m.vocab, m.dim }, init = "normal", std = 0.5 } }
    end)
    local function weight(g, i)
      return g:param { global = "shared.g" .. i, { m.dim }, init = "ones" }
    end
    for i = 1, m.blocks do
      x = b:block("l" .. i, "l" .. i, "l" .. i .. ".", function(g, x)
        local w = i <= m.shared and weight(g, i) or g:param { "w", { m.dim }, init = "ones" }
        for _ = 1, m.norms do x = g.rmsnorm { x, w, eps = 1e-5 + i * 1e-7 } end
        return x
      end, x)
    end
    b:block("head", "head", "", function(g, x)
      for i = 1, m.shared do x = g.rmsnorm { x, weight(g, i), eps = 1e-5 } end
      local w = g:param { "lm_head.weight", { m.vocab, m.dim }, init = "normal", std = 0.5 }
      return (g.cross_entropy { g.linear { x, w }, g:targets() })
    end, x)
  end,
}
LUA
cat >"$many/model.lua" <<'LUA'
return trainer { name = "many", model = require "many" { vocab = 256, dim = 32, blocks = 20, shared = 20 }, seq = 16,
                 micro_batch = 1, global_batch = 2, mesh = { shard = 2 }, wrap = 1,
                 optimizer = adamw { lr = 1e-3 }, dtypes = { param = "f32" } }
LUA
check "a head that reads 20 units' parameters" "$FSDPGEN" "$many/model.lua" -o "$many/shared"
for file in step bind; do
    check "and $file.c compiles" gcc $strict -I"$many/shared/runtime" "$many/shared/$file.c"
done
check "1,022 classes" "$FSDPGEN" "$many/model.lua" --set model.blocks=1020 --set model.shared=0 -o "$many/classes"
fits_no_rank() {
    "$FSDPGEN" plan "$many/model.lua" --set model.blocks=50 --set model.shared=0 --set model.norms=100 --set seq=1048576 \
        --set model.dim=65536 --set micro_batch=1024 --set global_batch=1024 --set mesh.shard=1 \
        --set 'dtypes={param="f64",reduce="f64",master="f64",moments="f64"}' >"$WORK/many.log" 2>&1
    test $? = 1 && grep -q 'error: a rank needs more than 2^60 bytes' "$WORK/many.log"
}
check "sums of sizes beyond 64 bits" fits_no_rank
