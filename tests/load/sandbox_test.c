/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_test: what a chunk gives does not depend on the run. Every state of Lua has
 * another seed of its hashes and other addresses, as every run has; so a program that
 * gives one answer in many states gives it always. And work that instructions do not
 * count ends by the budget, in any case. */
#include "base/sandbox.h"
#include "gen.h"

#include <lualib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { STATES = 24 };

/* What a chunk returns, as a text; or its message. The state is the caller's to close. */
static const char *answer(lua_State **L, const char *chunk, int64_t instructions)
{
    Gen g = {0};
    int env;

    *L = g.L = sandbox_open(&g);
    env = sandbox_env(g.L);
    sandbox_budget(g.L, instructions, (size_t)256 << 20);
    sandbox_run(g.L, chunk, strlen(chunk), "=chunk", env, 1);
    return luaL_tolstring(g.L, -1, NULL);
}

static void gives(const char *chunk, const char *want)
{
    lua_State *L;

    assert_string_equal(answer(&L, chunk, SANDBOX_INSTRUCTIONS), want);
    lua_close(L);
}

/* The same in many states, all open, so that no two have the same address. */
static void gives_one_answer(const char *chunk)
{
    lua_State *L[STATES];
    const char *text[STATES];

    for (int i = 0; i < STATES; i++) {
        text[i] = answer(&L[i], chunk, SANDBOX_INSTRUCTIONS);
        assert_string_equal(text[i], text[0]);
        assert_null(strstr(text[i], "chunk:"));
    }
    for (int i = 0; i < STATES; i++)
        lua_close(L[i]);
}

static void ends_with(const char *chunk, const char *message)
{
    lua_State *L;
    const char *got = answer(&L, chunk, 2000000);

    if (!strstr(got, message))
        printf("%s\n  gives %s\n", chunk, got);
    assert_non_null(strstr(got, message));
    lua_close(L);
}

/* ---- sort ------------------------------------------------------------------------ */

/* Lists of 2 .. 1000 items with few keys, sorted by them: items of one key keep their
 * order, and the sort is that of an insertion sort. */
static const char sorts[] =
    "local out, seed = {}, 7\n"
    "local function random(n) seed = (seed * 1103515245 + 12345) % 2147483648\n"
    "  return seed // 65536 % n end\n"
    "for round = 1, 120 do\n"
    "  local n = round <= 100 and round + 1 or 50 * (round - 100)\n"
    "  local keys, list = 1 + random(9), {}\n"
    "  for i = 1, n do list[i] = { key = random(keys), i = i } end\n"
    "  table.sort(list, function(a, b) return a.key < b.key end)\n"
    "  for i = 2, n do\n"
    "    local a, b = list[i - 1], list[i]\n"
    "    if a.key > b.key or (a.key == b.key and a.i > b.i) then\n"
    "      return 'not stable: ' .. n .. ' items, at ' .. i\n"
    "    end\n"
    "  end\n"
    "end\n"
    "return 'stable'";

static const char sort_order[] =
    "local t = {}\n"
    "for i = 1, 300 do t[i] = i * 7919 % 101 end\n"
    "table.sort(t)\n"
    "for i = 2, #t do if t[i] < t[i - 1] then return 'wrong' end end\n"
    "table.sort(t, function(a, b) return a > b end)\n"
    "for i = 2, #t do if t[i] > t[i - 1] then return 'wrong' end end\n"
    "local s = { 'b', 'a', 'c' } table.sort(s) return table.concat(s) .. #t";

static const char sort_kept[] =
    "local t = { 3, 1, 2, 5, 4 }\n"
    "local n = 0\n"
    "pcall(table.sort, t, function(a, b) n = n + 1 if n == 4 then error 'x' end\n"
    "  return a < b end)\n"
    "return table.concat(t, ' ')";

static void sort_is_stable(void **unused)
{
    (void)unused;
    gives(sorts, "stable");
    gives(sort_order, "abc300");
    gives(sort_kept, "3 1 2 5 4"); /* nothing half-sorted */
    gives("local t = {} table.sort(t) t[1] = 1 table.sort(t) return #t", "1");
}

static void sort_complains(void **unused)
{
    (void)unused;
    ends_with("table.sort({ 1, 'a' })", "attempt to compare string with number");
    ends_with("table.sort({ {}, {} })", "attempt to compare two table values");
    ends_with("table.sort({ 1, 2 }, 3)", "bad argument #2 to 'sort' (function expected");
    ends_with("table.sort(3)", "bad argument #1 to 'sort' (table expected");
    ends_with("table.sort({ 1, 1 }, function(a, b) return a <= b end)",
              "invalid order function for sorting");
    ends_with("local t = {} for i = 1, 100000 do t[i] = -i end\n"
              "table.sort(t, function(a, b) return a < b end)",
              "ran for more than");
}

/* ---- nothing of a run ------------------------------------------------------------ */

/* Keys that went leave places that are used again, or not, as their hashes have it. */
static const char holes[] =
    "local out, keys = {}, {}\n"
    "for i = 1, 12 do keys[i] = %s end\n"
    "for round = 1, 100 do\n"
    "  local t = {}\n"
    "  for i = 1, 12 do t[%s] = i end\n"
    "  for i = 1, 9 do t[%s] = nil end\n"
    "  for _, i in ipairs { 1, 2, 4, 5, 6, 7, 8, 16, 17 } do t[i] = i end\n"
    "  local a, b, c, d = #t, rawlen(t), select('#', table.unpack(t)), 0\n"
    "  table.insert(t, 99)\n"
    "  for k in %s(t) do d = d * 3 + (tonumber(k) or 1) end\n"
    "  out[#out + 1] = a .. ',' .. b .. ',' .. c .. ',' .. d\n"
    "end\n"
    "return table.concat(out, ' ')";

static const char weak[] = "local t, mt = {}, {}\n"
                           "setmetatable(t, mt)\n"
                           "mt.__mode = 'kv'\n"
                           "for i = 1, 1000 do t[i] = {} t[{}] = i end\n"
                           "for i = 1, 200000 do local garbage = { i } end\n"
                           "local n = 0\n"
                           "for i = 1, 1000 do if t[i] then n = n + 1 end end\n"
                           "return n";

static void runs_do_not_show(void **unused)
{
    char chunk[1024];

    (void)unused;
    snprintf(chunk, sizeof chunk, holes, "nil", "'k' .. i .. round", "'k' .. i .. round",
             "pairs");
    gives_one_answer(chunk);
    snprintf(chunk, sizeof chunk, holes, "function() end", "keys[i]", "keys[i]",
             "ipairs");
    gives_one_answer(chunk);
    gives(weak, "1000");
    gives(
        "return tostring(0/0) .. tostring(-(0/0)) .. ('%s %.1f %5g'):format(0/0, -(0/0), "
        "0/0)",
        "nannannan nan   nan");
    gives("local ok, e = pcall(('x').rep, 'x', 1 << 28) return e",
          "string.rep: the result is longer than 64 MiB");
    gives("local t = {} pcall(function() while true do t[#t + 1] = ('x'):rep(1 << 24)\n"
          "end end) return 'caught'",
          "chunk:2: needs more than 256 MiB of memory");
}

/* # is an operator as it was: what Lua itself says of a chunk, its mistakes included. */
static void lengths_are_lua_s(void **unused)
{
    static const char *const chunks[] = {
        "return #{ 1, 2, 3 } ^ 2",
        "return -#'abc' * 2",
        "return 2 ^ #'abc' ^ 1",
        "return #'ab' .. #{}",
        "return not #{}",
        "return #'abc' == 3 and #'#' or '#'",
        "return #-#'abc'",
        "return # --[[ # ]] [[#\n]] -- #",
        "return #[==[ # ]] ]==]",
        "return #\"\\\"#\\\\\" + #'\\'#'",
        "local t = { 1, { #'ab', n = #'a' } } return #t + #t[2] + t[2].n; -- #",
        "return #setmetatable({}, { __len = function(t) return 7 end })",
        "local function f(...) return select('#', ...) end return f(nil, nil)",
        "return ('x'):rep(#'abc', '#')",
        "return '3' ^ '2' + '1'",
        "local a = #'\\z\n   ab' return a",
        "local t = { 1, 2, 3, nil } while #t > 1 do t[#t] = nil end return #t",
        "return 0x1p#2",
        "#",
        "local t = {} return t # t",
        "local t = {} t #'x'",
        "local t = {} do #t end",
        "return (#)",
        "return #nil",
    };

    (void)unused;
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        lua_State *own = luaL_newstate();

        if (luaL_loadbuffer(own, chunks[i], strlen(chunks[i]), "=chunk") == LUA_OK) {
            luaL_openlibs(own);
            lua_pcall(own, 0, 1, 0);
        }
        gives(chunks[i], luaL_tolstring(own, -1, NULL));
        lua_close(own);
    }
    ends_with("local x\nreturn #x", "chunk:2: attempt to get length of a nil value");
}

/* ---- work that no instruction counts --------------------------------------------- */

static void all_work_ends(void **unused)
{
    static const char *const loops[] = {
        "local a, b = ('x'):rep(1 << 24), ('x'):rep(1 << 24)\n"
        "while true do local c = a == b end",
        "local a = ('x'):rep(1 << 24) while true do local c = a < a end",
        "local a, b = ('x'):rep(1 << 24), ('x'):rep(1 << 24)\n"
        "while true do local c = a <= b end",
        "local a, t = ('x'):rep(1 << 24), {}\n"
        "t[('x'):rep(1 << 24)] = 1 while true do local c = t[a] end",
        "local a = ('x'):rep(1 << 22) while true do local c = a .. 'y' end",
        "local a, b = ('x'):rep(1 << 24), ('x'):rep(1 << 24)\n"
        "while true do pcall(rawequal, a, b) end",
        "local a = (' '):rep(1 << 24) .. '1' while true do for i = 1, a do end end",
        "local a = (' '):rep(1 << 24) .. '1' while true do local c = a + 1 end",
        "local a = (' '):rep(1 << 24) .. '1' while true do local c = tonumber(a) end",
        "local a = (' '):rep(1 << 24) .. '1' while true do local c = math.floor(a) end",
        "local t = {} for i = 1, 200000 do t[i] = i end for i = 1, 200000 do t[i] = nil\n"
        "end while true do pairs(t) end",
        "local function f(...) while true do local a = select(-1, ...) end end\n"
        "local t = {} for i = 1, 100000 do t[i] = i end f(table.unpack(t))",
        "local function f(...) while true do local a = (...) end end\n"
        "local t = {} for i = 1, 100000 do t[i] = i end f(table.unpack(t))",
        "local p = '[' .. ('a'):rep(1 << 20) .. ']*x' while true do\n"
        "local c = ('b'):rep(1 << 16):find(p) end",
        "local s = ('a'):rep(1 << 22) while true do local c = s:find('b', 1, true) end",
        "local s = ('a'):rep(1 << 22) while true do local c = s:byte(1, 100000) end",
        "local s = ('a'):rep(1 << 22) while true do local c = ('%5.1s'):format(s) end",
        "local t = {} for i = 1, 64 do t[('x'):rep(1 << 20) .. i] = 1 end\n"
        "while true do for k in pairs(t) do end end",
        "local t = { {}, {}, {} } while true do table.sort(t, function() return false "
        "end)\n"
        "end",
        "local t = {} for i = 1, 1000 do t[i] = i end while true do\n"
        "table.insert(t, 1, 0) table.remove(t, 1) end",
        "while true do local c = math.sin(1e300) ^ 0.3 end",
        "local ok while true do ok = pcall(error, 'x') end",
    };

    (void)unused;
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        alarm(120); /* a loop that does not end */
        ends_with(loops[i], i == 4 ? "" : "ran for more than 2 million instructions");
    }
    alarm(0);
}

/* ---- hooks under a deep stack ---------------------------------------------------- */

static int hooks_set;

void __real_lua_sethook(lua_State *L, lua_Hook hook, int mask, int count);
void __wrap_lua_sethook(lua_State *L, lua_Hook hook, int mask, int count);
void __wrap_lua_sethook(lua_State *L, lua_Hook hook, int mask, int count)
{
    hooks_set++;
    __real_lua_sethook(L, hook, mask, count);
}

/* Setting a hook visits each level of the stack, so its own time may not look like slow
 * work of the chunk, after which a hook is set again: here 3,800 times. Ten calls of
 * 200,000 are slow, with two hooks for each, and the machine may add some. */
static void slow_work_sets_few_hooks(void **unused)
{
    static const char chunk[] =
        "local a, b = ('x'):rep(4000000), ('x'):rep(3999999) .. 'x'\n"
        "local function f(n) if n % 20000 == 0 then b = a == b and b end\n"
        "return 1 + f(n + 1) end\n"
        "return f(0)";

    lua_State *L;

    (void)unused;
    hooks_set = 0;
    assert_non_null(strstr(answer(&L, chunk, SANDBOX_INSTRUCTIONS), "stack overflow"));
    assert_in_range(hooks_set, 1, 1000);
    lua_close(L);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sort_is_stable),   cmocka_unit_test(sort_complains),
        cmocka_unit_test(runs_do_not_show), cmocka_unit_test(lengths_are_lua_s),
        cmocka_unit_test(all_work_ends),    cmocka_unit_test(slow_work_sets_few_hooks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
