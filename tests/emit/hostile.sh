# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: names that are no identifiers.

hostile() { # hostile TEXT: as a parameter's name; refused with a message, or harmless
    cat >"$WORK/hostile_arch.lua" <<LUA
return arch {
  name = "hostile_arch", fields = { { "vocab", "int" }, { "dim", "int" } },
  build = function(m, b)
    local x = b:block("embed", "embed", "model.", function(g)
      return g.embed { g:tokens(), g:param { $1, { m.vocab, m.dim }, init = "normal", std = 0.02 } }
    end)
    b:block("head", "head", "", function(g, x)
      local w = g:param { "lm_head.weight", { m.vocab, m.dim }, init = "normal", std = 0.02 }
      return (g.cross_entropy { g.linear { x, w }, g:targets() })
    end, x)
  end,
}
LUA
    cat >"$WORK/hostile.lua" <<'LUA'
local a = require "hostile_arch"
return trainer { name = "hostile", model = a { vocab = 64, dim = 32 }, seq = 16,
                 global_batch = 1, optimizer = adamw { lr = 1e-3 } }
LUA
    rm -rf "$WORK/hostile"
    "$FSDPGEN" "$WORK/hostile.lua" -o "$WORK/hostile" >"$WORK/gen.log" 2>&1
    local rc=$?
    [ $rc -eq 1 ] && grep -q 'error:' "$WORK/gen.log" && return 0
    [ $rc -eq 0 ] || { cat "$WORK/gen.log"; return 1; }
    for file in trainer step bind math kernels tables; do
        gcc $strict -I"$WORK/hostile/runtime" "$WORK/hostile/$file.c" || return 1
    done
    ! grep -n 'pwned' "$WORK/hostile"/*.c | grep -v '"[^"]*pwned' | grep -v '^[^:]*:[0-9]*: *\(/\?\*\|.*/\*.*pwned\)'
}
check "an ordinary name works" hostile '"embed_tokens.weight"'
check "and is not refused" test -d "$WORK/hostile"
for name in '"*/ int pwned; /*"' '"\"; int pwned; \""' '"a\nint pwned;\n"' '"?\?/\n int pwned;"' \
            '"\\\"; int pwned; \\"' '"${os.exit(1)} pwned"' '"//@ error(1) pwned"' \
            '"\0pwned"' '"\xff\xfe pwned"' '"$(shell touch pwned)"' '"`touch pwned`"' \
            '"#include \"pwned.h\""' '"int"' '"w"' '"%s%n pwned"' '("x"):rep(5000) .. "pwned"' \
            '""' '"."' '"../../pwned"'; do
    check "parameter named $name" hostile "$name"
done
