/* SPDX-License-Identifier: Apache-2.0 */
/* words.h: what the fuzzers put into texts, as Lua source. Each once broke something,
 * here or elsewhere; add what broke something now. Only mutate.c includes it. */
/* clang-format off */
static const char *const numbers[] = {
    "0", "-1", "1", "2", "3", "7", "63", "65536", "1e308", "-1e308", "1e400", "0/0",
    "-(0/0)", "1/0", "-1/0", "math.huge", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "math.mininteger", "1 << 62", "1 << 53", "(1 << 53) + 1",
    "1 << 31", "2147483647", "2147483648", "4294967295", "4294967296", "1e18", "1e-320",
    "-0.0", "1.5", "0x7fffffffffffffff", "0x1p-1074", "1 << 20", "1 << 24", "1 << 40",
    "3037000500", "1e9", "16777216", "1048576", "1000003", "5e-324", "0.1", "1 << 63",
    "-2147483648", "1023", "1025"
};

static const char *const strings[] = {
    "\"\"", "\"x\"", "\"\\0\"", "\"demo\\0\"", "\"\\n#include </etc/passwd>\\n\"",
    "\"*/ x /*\"", "\"\\\"); system(\\\"touch x\"", "\"${os.exit()}\"", "\"%s%n%d\"",
    "\"../../x\"", "\"$(touch x)\"", "\"`touch x`\"", "\"\\\\\\n\"",
    "(\"a\"):rep(100000)", "\"\\u{202E}\"", "\"con\"", "\".\"", "\"..\"", "\"a..b\"",
    "\"a.\"", "\"-march\"", "\"native -o x\"", "\"main\"", "\"trainer\"", "\"int\"",
    "\"rt_\"", "\"f32\"", "\"bf16\"", "\"f64\"", "\"f16\"", "\"x86-64-v3\"",
    "\"no_shard\"", "\"full_shard\"", "\"sharded\"", "\"unsharded\"", "\"\\xff\\xfe\"",
    "\"\\r\\27[2J\"", "\"a'b\"", "\"#define\"", "\"?" "?/\"", "(\"a\"):rep(64)",
    "(\"a\"):rep(65)", "\"none\"", "\"auto\"", "\"Name\"", "\"//@ os.exit()\"", "'\"'",
    "[[\n]]", "[==[x]==]", "\"manifest.json\""
};

static const char *const values[] = {
    "nil", "true", "false", "{}", "{{}}", "{1, 2}", "{0.9}", "{0.9, 0.95, 0.99}",
    "{x = 1}", "{shard = 2}", "{forward = 2}", "function() end", "llama", "trainer",
    "math", "string.rep", "adamw {}", "adamw", "sgd {lr = 1}", "cpu {}", "cpu", "cuda {}",
    "per_block(2)", "per_block", "per_block(1 << 20)", "by_size(1e6)", "root_only",
    "constant {}", "constant {warmup = 3}", "cosine {steps = 1}",
    "cosine {warmup = 9, steps = 3}", "linear {steps = 3}", "wsd {steps = 9, decay = 9}",
    "inverse_sqrt {}", "lion {}", "sgd {momentum = 0.9}", "{{match = \"*\", lr = 0.5}}",
    "{{match = {\"*norm*\", \"*mlp*\"}, frozen = true}}", "{{match = \"*\", frozen = true}}",
    "{{match = \"*.0.*\", weight_decay = 0}, {match = \"l?yer*\"}}", "{{match = {}}}",
    "setmetatable({}, {})",
    "setmetatable({}, {__index = function() error(\"x\") end})", "llama {}",
    "llama {layers = 1}", "require \"arch.gpt2\"", "require \"x\"", "_G", "_ENV",
    "(function() local t = {} t.t = t return t end)()", "{[1] = 2, x = 3}", "{[{}] = 1}",
    "{[1.5] = 1}", "{[\"a b\"] = 1}", "table.pack()", "select(\"#\")", "every(2)",
    "ops {\"add\"}", "{param = \"bf16\", reduce = \"f64\"}", "{theta = 1}",
    "{scaling = {factor = 8}}", "...", "{scaling = llama.scaling_3_1}",
    "{chunk_tokens = 1}", "{lr = 1}", "error(\"x\")", "error {}"
};

/* Each uses up one of the sandbox's limits: instructions, memory, stack, or tries to. */
static const char *const endless[] = {
    "while true do end", "local t = {} while true do t[#t + 1] = {} end",
    "local s = \"x\" while true do s = s .. s end",
    "local function f() return f() end f()", "local function f() return 1 + f() end f()",
    "while true do pcall(error) end",
    "local t = setmetatable({}, {__index = function(t, k) return t[k] end}) return t.x",
    "return (\"x\"):rep(1 << 40)",
    "return (\"a\"):rep(1 << 27):find((\"a-\"):rep(200) .. \"b\")",
    "local t = {} for i = 1, 1e9 do t[i] = i end", "::a:: goto a",
    "return trainer(setmetatable({}, {__pairs = function() while true do end end}))",
    "while true do string.format(\"%99.99f\", 1e308) end",
    "return table.concat(setmetatable({}, {__len = function() return 1 << 62 end}))",
    "table.sort(setmetatable({}, {__len = function() return 1 << 30 end}))",
    "return table.unpack({}, 1, 1 << 30)", "return utf8.char(table.unpack({}, 1, 1e7))",
    "local t = {} for i = 1, 1e7 do t[\"k\" .. i] = i end return trainer(t)",
    "return string.pack(\"s\", (\"x\"):rep(1 << 28))", "table.move({}, 1, 1 << 62, 2)"
};

/* Paths of --set, right and wrong. */
static const char *const fields[] = {
    "seq", "micro_batch", "global_batch", "leaves", "mesh", "mesh.shard", "mesh.tensor",
    "name", "model", "model.layers", "model.dim", "model.rope.theta",
    "model.rope.scaling.factor", "model.x", "optimizer.lr", "optimizer.betas",
    "optimizer", "lr", "lr.steps", "lr.warmup", "dtypes.param", "dtypes", "wrap",
    "prefetch", "prefetch.forward", "strategy", "target", "target.arch",
    "loss.chunk_tokens", "seed", "fuse", "accumulate", "recompute", "groups", "groups[1]",
    "groups.match", "max_skipped", "", "a",
    "a.b", ".", "..", "x=y", "mesh.", ".mesh", "mesh..shard", "1", "model.heads", "\n"
};
