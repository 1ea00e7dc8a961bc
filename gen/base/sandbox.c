/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.c: a Lua state that can only compute. In: foreign chunks of text. Out: values,
 * or one message; the same ones in each run on each machine.
 *
 * What bounds it:
 * 1. A count hook. Once expired it fires at every instruction, so that no pcall can
 *    swallow the error.
 * 2. An allocator with a cap, whose growth is charged to the same budget.
 * 3. C functions that charge their own loops.
 * 4. Processor time. Some instructions do work in proportion to a string or a table,
 *    which the count cannot see: `==` and `<` of long strings, arguments by the thousand,
 *    a walk through an emptied table. So the hook also reads the clock, and charges
 *    chunks that took far longer than their count.
 * 5. What hooks cannot interrupt does not exist here: finalizers, coroutines,
 *    backtracking patterns, bytecode, I/O.
 * 6. Behind all of it, the process limits of child.c.
 *
 * What might differ between runs or machines, and why it does not:
 *
 *   order of pairs, next       keys are sorted (sandbox_table.c)
 *   #t of a list with holes    one search, of contents alone; so for table.*, rawlen
 *   table.sort's pivots        a merge sort
 *   x ^ y, exp, log, sin, ...  our own, correctly rounded (exact.c)
 *   sqrt, floor, fmod, %, //   exact in IEEE 754
 *   numbers as text, and back  the C library's %.14g and strtod, in the C locale:
 *                              exact where they round correctly (glibc, musl, BSD)
 *   NaN as text                tostring and format write `nan`; `..` and other implicit
 *                              conversions write the sign that the processor gave it:
 *                              x86 `-nan`. The one difference that is left.
 *   tostring, %p of tables     the type's name; %p is refused
 *   weak tables, the collector garbage is never collected: a state is short-lived
 *   memory that runs out       ends the chunk, even inside pcall; the amount left is
 *                              never visible
 *   collectgarbage, os, io, random                 are absent
 *   letters of patterns, upper ASCII (sandbox_match.c); the locale is never set
 *   depth of recursion         Lua's own limits, of its version
 *   a chunk's name in messages the file name as fsdpgen was given it */
#include "base/sandbox.h"

#include "base/lex.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    HOOK_INSTRUCTIONS = 1000,
    SLOW_HOOK_INSTRUCTIONS = 16, /* after a stretch that took long */
    NS_PER_INSTRUCTION = 100,    /* ten times the usual cost: never reached by slowness */
    ALLOC_BYTES_PER_INSTRUCTION = 16,
    SLACK_BYTES = 1 << 20 /* for the message when memory is exhausted */
};

static void budget_hook(lua_State *L, lua_Debug *ar);

/* The next instruction ends the chunk. */
static void stop_soon(Sandbox *s)
{
    if (s->left > 0)
        s->left = 0;
    if (s->L)
        lua_sethook(s->L, budget_hook, LUA_MASKCOUNT, 1);
}

static void *sandbox_alloc(void *ud, void *p, size_t old, size_t bytes)
{
    Sandbox *s = ud;
    void *q;

    if (!p)
        old = 0; /* for a new block Lua passes a type tag here */
    if (bytes == 0) {
        s->used -= old;
        free(p);
        return NULL;
    }
    if (bytes > old && s->used + (bytes - old) > s->cap + (s->full ? SLACK_BYTES : 0)) {
        s->full = true;
        stop_soon(s);
        return NULL;
    }
    q = realloc(p, bytes);
    if (!q && bytes > old)
        gen_out_of_memory(bytes);
    if (!q)
        q = p; /* the block is too large now, but Lua relies on shrinking to succeed */
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

/* Where chunks that are not ours stand: for messages about what they took. */
static void push_where(lua_State *L, int level)
{
    lua_Debug ar;

    while (lua_getstack(L, level, &ar) && lua_getinfo(L, "S", &ar) &&
           (*ar.what == 'C' || !strncmp(ar.source, "@gen/lua/", 9)))
        level++;
    luaL_where(L, level);
}

/* level: of the chunk's function, relative to this call. */
static void expire(lua_State *L, int level)
{
    Sandbox *s = sandbox_of(L);

    s->expired = true;
    lua_sethook(L, budget_hook, LUA_MASKCOUNT, 1);
    push_where(L, level);
    if (s->full)
        lua_pushfstring(L, "needs more than %d MiB of memory", (int)(s->cap >> 20));
    else
        lua_pushfstring(L, "ran for more than %d million instructions%s",
                        (int)(s->instructions / 1000000),
                        s->instructions == SANDBOX_INSTRUCTIONS
                            ? "; a description only builds a value"
                            : "");
    lua_concat(L, 2);
    lua_error(L);
}

static int64_t processor_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Charges time far above what was counted since the last look. One slow stretch is
 * charged little, because the machine may have caused it; only lasting work is
 * stopped. */
static void charge_time(lua_State *L, Sandbox *s)
{
    int64_t now = processor_ns();
    const int64_t over =
        (now - s->seen_ns) / NS_PER_INSTRUCTION - (s->seen_left - s->left);
    const int count = over > 0 ? SLOW_HOOK_INSTRUCTIONS : HOOK_INSTRUCTIONS;

    if (over > 0)
        s->left -= min_i64(over, s->instructions / 64);
    if (lua_gethookcount(L) != count) {
        /* It visits each level of the stack. That is charged, but not taken for a slow
         * stretch of the chunk, after which it would be done again. */
        const int64_t before = now;

        lua_sethook(L, budget_hook, LUA_MASKCOUNT, count);
        now = processor_ns();
        s->left -= (now - before) / NS_PER_INSTRUCTION;
    }
    s->seen_ns = now;
    s->seen_left = s->left;
}

static void budget_hook(lua_State *L, lua_Debug *ar)
{
    Sandbox *s = sandbox_of(L);

    (void)ar;
    if (!s->expired && s->left > 0) {
        s->left -= lua_gethookcount(L);
        charge_time(L, s);
    }
    if (s->left <= 0)
        expire(L, 0); /* a hook has no stack level of its own */
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

    s->left = s->instructions = s->seen_left = instructions;
    s->seen_ns = processor_ns();
    s->cap = bytes > s->used ? bytes : s->used;
    s->expired = s->full = false;
    lua_sethook(L, budget_hook, LUA_MASKCOUNT, HOOK_INSTRUCTIONS);
}

_Noreturn void sandbox_fault(lua_State *L, const char *what)
{
    const Sandbox *s = sandbox_of(L);

    if (s->expired || s->full) {
        print_line(stderr, "fsdpgen: error: ",
                   "the description left too little of what it may use: %s",
                   lua_tostring(L, -1));
        exit(EXIT_DIAG);
    }
    gen_die("%s: %s", what, lua_tostring(L, -1));
}

static int panic(lua_State *L)
{
    sandbox_fault(L, "an error in Lua outside any call");
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
    s->L = L = lua_newstate(sandbox_alloc, s);
    gen_require(L, "cannot make a Lua state");
    lua_gc(L, LUA_GCSTOP);
    lua_atpanic(L, panic);
    sandbox_budget(L, SANDBOX_INSTRUCTIONS, SANDBOX_BYTES);
    lua_pushcfunction(L, install);
    if (lua_pcall(L, 0, 0, 0))
        sandbox_fault(L, "the safe library");
    return L;
}

lua_State *sandbox_open(Gen *g)
{
    lua_State *L = open_in(gen_alloc(g, sizeof(Sandbox)), g);

    sandbox_check_pow(L);
    return L;
}

lua_State *sandbox_again(lua_State *L)
{
    Sandbox *s = sandbox_of(L);

    s->L = NULL;
    lua_close(L);
    return open_in(s, s->g);
}

int sandbox_status(lua_State *L, int status)
{
    if (status == LUA_OK)
        return status;
    if (status == LUA_ERRMEM) {
        lua_pop(L, 1);
        lua_pushfstring(L, "needs more than %d MiB of memory",
                        (int)(sandbox_of(L)->cap >> 20));
    } else if (lua_type(L, -1) != LUA_TSTRING) { /* error({}) and similar */
        const char *type = luaL_typename(L, -1);

        lua_pop(L, 1);
        lua_pushfstring(L, "raised an error that is a %s, not a text", type);
    }
    return status;
}

/* Message handler: remembers the innermost line of a chunk; keeps the message. */
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

char *sandbox_mark(const char *text, size_t n, size_t *bytes)
{
    return lex_mark_lengths(text, n, SANDBOX_LENGTH_SOURCE, bytes);
}

static int load_marked(lua_State *L, const char *text, size_t n, const char *chunk)
{
    sandbox_of(L)->left -= (int64_t)n / ALLOC_BYTES_PER_INSTRUCTION; /* raises no error */
    return luaL_loadbufferx(L, text, n, chunk, "t");
}

int sandbox_load(lua_State *L, const char *text, size_t n, const char *chunk)
{
    size_t bytes;
    char *marked = sandbox_mark(text, n, &bytes);
    const int status = load_marked(L, marked, bytes, chunk);

    free(marked);
    return status;
}

int sandbox_run_marked(lua_State *L, const char *text, size_t n, const char *chunk,
                       int env, int n_results)
{
    int status, top = lua_gettop(L);

    sandbox_of(L)->where_line = 0;
    lua_pushcfunction(L, remember_place);
    status = load_marked(L, text, n, chunk);
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

int sandbox_run(lua_State *L, const char *text, size_t n, const char *chunk, int env,
                int n_results)
{
    size_t bytes;
    char *marked = sandbox_mark(text, n, &bytes);
    const int status = sandbox_run_marked(L, marked, bytes, chunk, env, n_results);

    free(marked);
    return status;
}
