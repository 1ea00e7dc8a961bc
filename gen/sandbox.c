/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.c: a Lua state that can compute and nothing else. In: chunks of text from
 * strangers. Out: values, or one message. Three things bound it: a count hook, which
 * once expired fires at every instruction so that no pcall can swallow it; an
 * allocator with a cap, whose growth is charged to the same budget; and C functions
 * that charge their own loops (sandbox_lib.c, sandbox_match.c). What hooks cannot
 * reach does not exist here: finalizers, coroutines, backtracking patterns, bytecode,
 * I/O. The process limits of child.c stand behind all of it. */
#include "sandbox.h"

#include <stdlib.h>
#include <string.h>

enum { HOOK_INSTRUCTIONS = 1000, ALLOC_BYTES_PER_INSTRUCTION = 16 };

static void *sandbox_alloc(void *ud, void *p, size_t old, size_t bytes)
{
    Sandbox *s = ud;
    void *q;

    if (!p)
        old = 0; /* Lua passes a type tag there */
    if (bytes == 0) {
        s->used -= old;
        free(p);
        return NULL;
    }
    if (bytes > old && bytes - old > s->cap - s->used) {
        s->left -=
            s->instructions / 32; /* Lua collects all garbage then: not free, and no */
        return NULL;              /* pcall may try for ever */
    }
    q = realloc(p, bytes);
    if (!q)
        return NULL;
    s->used = s->used - old + bytes;
    if (bytes > old)
        s->left -= (int64_t)((bytes - old) / ALLOC_BYTES_PER_INSTRUCTION);
    return q;
}

Sandbox *sandbox_of(lua_State *L)
{
    void *ud;

    lua_getallocf(L, &ud);
    return ud;
}

static void budget_hook(lua_State *L, lua_Debug *ar);

/* level: of the chunk's function, seen from here. */
static void expire(lua_State *L, int level)
{
    Sandbox *s = sandbox_of(L);

    s->expired = true;
    lua_sethook(L, budget_hook, LUA_MASKCOUNT, 1);
    luaL_where(L, level);
    lua_pushfstring(
        L,
        "ran for more than %d million instructions; a description only builds a "
        "value",
        (int)(s->instructions / 1000000));
    lua_concat(L, 2);
    lua_error(L);
}

static void budget_hook(lua_State *L, lua_Debug *ar)
{
    Sandbox *s = sandbox_of(L);

    (void)ar;
    s->left -= s->expired ? 1 : HOOK_INSTRUCTIONS;
    if (s->left <= 0)
        expire(L, 0); /* a hook has no level of its own */
}

void sandbox_charge(lua_State *L, int64_t work)
{
    Sandbox *s = sandbox_of(L);

    s->left -= work;
    if (s->left <= 0)
        expire(L, 1);
}

void sandbox_budget(lua_State *L, int64_t instructions, size_t bytes)
{
    Sandbox *s = sandbox_of(L);

    s->left = s->instructions = instructions;
    s->cap = bytes > s->used ? bytes : s->used;
    s->expired = false;
    lua_sethook(L, budget_hook, LUA_MASKCOUNT, HOOK_INSTRUCTIONS);
}

static int panic(lua_State *L)
{
    gen_die("an error in Lua outside any call: %s", lua_tostring(L, -1));
}

static int install(lua_State *L)
{
    sandbox_install(L);
    return 0;
}

static lua_State *open_in(Sandbox *s, Gen *g)
{
    lua_State *L;

    *s = (Sandbox){.g = g, .cap = SANDBOX_BYTES};
    L = lua_newstate(sandbox_alloc, s);
    gen_require(L, "cannot make a Lua state");
    lua_atpanic(L, panic);
    sandbox_budget(L, SANDBOX_INSTRUCTIONS, SANDBOX_BYTES);
    lua_pushcfunction(L, install);
    if (lua_pcall(L, 0, 0, 0))
        gen_die("the safe library: %s", lua_tostring(L, -1));
    return L;
}

lua_State *sandbox_open(Gen *g)
{
    return open_in(gen_alloc(g, sizeof(Sandbox)), g);
}

lua_State *sandbox_again(Gen *g)
{
    Sandbox *s = sandbox_of(g->L);

    lua_close(g->L);
    return open_in(s, g);
}

int sandbox_status(lua_State *L, int status)
{
    if (status == LUA_OK)
        return status;
    if (status == LUA_ERRMEM) {
        lua_pop(L, 1);
        lua_pushfstring(L, "needs more than %d MiB of memory",
                        (int)(sandbox_of(L)->cap >> 20));
    } else if (lua_type(L, -1) != LUA_TSTRING) { /* error({}) and the like */
        const char *type = luaL_typename(L, -1);

        lua_pop(L, 1);
        lua_pushfstring(L, "raised an error that is a %s, not a text", type);
    }
    return status;
}

/* Message handler: remembers the innermost line of a chunk; the message stays as it is.
 */
static int remember_place(lua_State *L)
{
    Sandbox *s = sandbox_of(L);
    lua_Debug ar;

    for (int level = 0; lua_getstack(L, level, &ar); level++)
        if (lua_getinfo(L, "Sl", &ar) && ar.currentline > 0) {
            snprintf(s->where_source, sizeof s->where_source, "%s", ar.source + 1);
            s->where_line = ar.currentline;
            break;
        }
    return 1;
}

int sandbox_run(Gen *g, const char *text, size_t n, const char *chunk, int env,
                int n_results)
{
    lua_State *L = g->L;
    int status, top = lua_gettop(L);

    sandbox_of(L)->where_line = 0;
    lua_pushcfunction(L, remember_place);
    status = luaL_loadbufferx(L, text, n, chunk, "t");

    if (status == LUA_OK && env != LUA_NOREF) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, env);
        if (!lua_setupvalue(L, -2, 1)) /* a chunk that reads no global has no upvalue */
            lua_pop(L, 1);
    }
    if (status == LUA_OK)
        status = lua_pcall(L, 0, n_results, top + 1);
    lua_remove(L, top + 1);
    return sandbox_status(L, status);
}
