/* SPDX-License-Identifier: Apache-2.0 */
/* match_test: the sandbox's find, match, gmatch and gsub give what Lua's own give, on
 * random subjects and patterns, errors included (whether there is one). */
#include "gen.h"
#include "base/sandbox.h"

#include <lauxlib.h>
#include <lualib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

enum { CASES = 60000, MAX_BYTES = 24 };

/* Everything one pattern does to one subject, as one text. */
static const char probe[] =
    "local s, p, r = ...\n"
    "local out = {}\n"
    "local function add(...)\n"
    "    local t = { ... }\n"
    "    for i = 1, select('#', ...) do t[i] = tostring(t[i]) end\n"
    "    out[#out + 1] = table.concat(t, ',')\n"
    "end\n"
    "local function try(f, ...)\n"
    "    local t = { pcall(f, ...) }\n"
    "    if t[1] then add(table.unpack(t, 1, 12)) else add('error') end\n"
    "end\n"
    "try(string.find, s, p)\n"
    "try(string.find, s, p, 3)\n"
    "try(string.find, s, p, -2, true)\n"
    "try(string.match, s, p)\n"
    "try(string.match, s, p, -3)\n"
    "try(string.gsub, s, p, r)\n"
    "try(string.gsub, s, p, { a = 'X', b = false, ab = 7 })\n"
    "try(string.gsub, s, p, function(x) return x == 'a' and '<' .. x .. '>' end, 3)\n"
    "try(function() local n = 0 for a, b in string.gmatch(s, p) do add(a, b) n = n + 1\n"
    "    if n > 40 then break end end end)\n"
    "return table.concat(out, ';')\n";

static uint64_t state = 1;

static uint32_t below(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % n;
}

static size_t random_text(char *s, const char *const *pieces, uint32_t n_pieces)
{
    size_t n = 0;

    for (uint32_t k = below(9); k; k--) {
        const char *piece = pieces[below(n_pieces)];

        if (n + strlen(piece) > MAX_BYTES)
            break;
        memcpy(s + n, piece, strlen(piece));
        n += strlen(piece);
    }
    return n;
}

static void run(lua_State *L, int chunk, char *const *texts, const size_t *bytes)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, chunk);
    for (int i = 0; i < 3; i++)
        lua_pushlstring(L, texts[i], bytes[i]);
    if (lua_pcall(L, 3, 1, 0))
        fail_msg("%s", lua_tostring(L, -1));
}

static void equal_to_lua(void **unused)
{
    static const char *const subjects[] = {"a", "b", "ab", "aab", "(",   ")",
                                           "[", "]", "1",  "23",  " ",   "x_y",
                                           ".", "%", "A",  "\n",  "\xE9"};
    static const char *const patterns[] = {
        "a",      "b",      "ab",    ".",   "%a",    "%d",  "%w",   "%s",
        "%S",     "%u",     "%p",    "%x",  "%%",    "%.",  "*",    "+",
        "-",      "?",      "^",     "$",   "(",     ")",   "()",   "[ab]",
        "[^a]",   "[%d%s]", "[a-c]", "[]]", "[^]]",  "[a-", "%b()", "%bab",
        "%f[%w]", "%f[^a]", "%1",    "%2",  "[%a-]", "%",   "[",
    };
    static const char *const replacements[] = {"x", "%0", "%1", "%%",
                                               "",  "%2", "%",  "y%1z"};
    Gen g = {0};
    lua_State *own = luaL_newstate();
    char text[3][MAX_BYTES + 1];
    char *texts[3] = {text[0], text[1], text[2]};
    int chunk[2];

    (void)unused;
    luaL_openlibs(own);
    g.L = sandbox_open(&g);
    sandbox_budget(g.L, INT64_C(100000000000), (size_t)64 << 20);
    lua_gc(g.L, LUA_GCRESTART); /* many cases, one state */
    lua_State *L[2] = {own, g.L};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(luaL_loadbuffer(L[i], probe, sizeof probe - 1, "=probe"), 0);
        chunk[i] = luaL_ref(L[i], LUA_REGISTRYINDEX);
    }
    for (int n = 0; n < CASES; n++) {
        size_t bytes[3];
        const char *a, *b;

        bytes[0] = random_text(text[0], subjects, sizeof subjects / sizeof *subjects);
        bytes[1] = random_text(text[1], patterns, sizeof patterns / sizeof *patterns);
        bytes[2] = random_text(text[2], replacements,
                               sizeof replacements / sizeof *replacements);
        for (int i = 0; i < 2; i++)
            run(L[i], chunk[i], texts, bytes);
        a = lua_tostring(L[0], -1);
        b = lua_tostring(L[1], -1);
        if (strcmp(a, b) != 0)
            fail_msg(
                "subject \"%.*s\" pattern \"%.*s\" replacement \"%.*s\"\n  Lua:  %s\n"
                "  ours: %s",
                (int)bytes[0], text[0], (int)bytes[1], text[1], (int)bytes[2], text[2], a,
                b);
        lua_settop(L[0], 0);
        lua_settop(L[1], 0);
    }
    lua_close(own);
    lua_close(g.L);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_to_lua)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
