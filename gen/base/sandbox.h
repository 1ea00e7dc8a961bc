/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.h: the sandboxed Lua state for whoever runs Lua; then what sandbox.c (limits),
 * sandbox_lib.c, _table.c, _math.c (the safe library) and _match.c (bounded string
 * patterns) share. */
#ifndef SANDBOX_H
#define SANDBOX_H

#include "base/base.h"

#include <lauxlib.h>

/* A fresh state: base, string (no patterns that backtrack without bound), table, math,
 * utf8; text chunks only; no __gc, no I/O; instruction and memory caps with clear
 * messages. */
lua_State *sandbox_open(Gen *g);
/* Closes L; a fresh state in its place, which nothing of the old one can reach. */
lua_State *sandbox_again(lua_State *L);
/* Runs a chunk from memory; chunk name is what messages show. Returns lua_pcall's status,
 * with results or a message on the stack. env: registry ref of the environment table, or
 * LUA_NOREF. */
int sandbox_run(lua_State *L, const char *text, size_t n, const char *chunk, int env,
                int n_results);
/* The same for whoever runs a chunk often: with the text that sandbox_mark made of it, to
 * be freed. */
char *sandbox_mark(const char *text, size_t n, size_t *bytes);
int sandbox_run_marked(lua_State *L, const char *text, size_t n, const char *chunk, int env,
                       int n_results);
/* A fresh environment for a stranger's chunk (descriptions, architectures, ops): the safe
 * library, copied; `load` is in the globals alone, which trusted chunks (gen/lua) see. */
int sandbox_env(lua_State *L);
/* luaL_loadbufferx for whoever has the text of a chunk: the message or the function. */
int sandbox_load(lua_State *L, const char *text, size_t n, const char *chunk);
/* `#t` as chunks see it; and a list of t's keys, pushed, in an order that is the same in
 * each run. */
lua_Integer sandbox_length(lua_State *L, int index);
void sandbox_push_keys(lua_State *L, int index);
/* After a lua_pcall of your own: makes its message a text (memory, non-text errors). */
int sandbox_status(lua_State *L, int status);
/* After an error, on top of the stack, of what is not the description's: a bug of ours,
 * unless the description has used up the budgets. */
_Noreturn void sandbox_fault(lua_State *L, const char *what);
/* Starts the budgets anew (tests that run references need more). */
void sandbox_budget(lua_State *L, int64_t instructions, size_t bytes);

/* ---- inside ---------------------------------------------------------------------- */

/* Of a whole run, set by sandbox_open; sandbox_budget changes them. One instruction is
 * about 10 ns; llama405b needs a few million, and 16 MiB. */
#define SANDBOX_INSTRUCTIONS INT64_C(200000000)
#define SANDBOX_BYTES ((size_t)512 << 20)
/* The operator # in what Lua compiles is `SANDBOX_LENGTH_SOURCE x` (sandbox_table.c). */
#define SANDBOX_LENGTH "\1#"
#define SANDBOX_LENGTH_SOURCE "'\\1#'^"

typedef struct Sandbox {
    Gen *g;
    lua_State *L;               /* NULL: not yet made */
    int64_t left, instructions; /* instructions still allowed, and at the start */
    size_t used, cap;           /* bytes held by Lua, and the most it may hold */
    bool expired, full;         /* full: it asked for more */
    int64_t seen_left, seen_ns; /* at the last hook: instructions left, processor time */
    /* where the last error of a sandbox_run was raised, for messages without a place */
    char where_source[256];
    int where_line; /* 0: unknown */
} Sandbox;

Sandbox *sandbox_of(lua_State *L);
/* C functions that loop charge what they do, since no hook runs inside them; raises the
 * budget's error when nothing is left. */
void sandbox_charge(lua_State *L, int64_t work);

/* Lua's own function, which is upvalue 1 and has none itself, in the place of the one
 * that runs: so messages name it and the chunk's line. */
static inline int sandbox_original(lua_State *L)
{
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

void sandbox_install(lua_State *L); /* sandbox_lib.c: globals of trusted chunks */
/* Into the table on top; the second argument is where Lua's own library lies. */
void sandbox_install_order(lua_State *L); /* pairs, next, rawlen */
void sandbox_install_table(lua_State *L, int lua_table);
void sandbox_install_math(lua_State *L, int lua_math);
void sandbox_install_match(lua_State *L);
void sandbox_install_length(lua_State *L); /* the metatable of strings */
/* sandbox_math.c: ends the program if `^` is not ours. */
void sandbox_check_pow(lua_State *L);

#endif
