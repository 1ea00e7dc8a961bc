/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.h: the sandboxed Lua state for its users; then what sandbox.c (limits), sandbox_lib.c,
 * _table.c, _math.c (the safe library) and _match.c (bounded string patterns) share. */
#ifndef SANDBOX_H
#define SANDBOX_H

#include "base/base.h"

#include <lauxlib.h>

/* A fresh state: base, string (its patterns cannot backtrack without bound), table, math, utf8;
 * text chunks only; no __gc, no I/O; limits on instructions and memory, with clear messages. */
lua_State *sandbox_open(Gen *g);
/* Closes L and opens a fresh state in its place; nothing of the old one is reachable from it. */
lua_State *sandbox_again(lua_State *L);
/* Runs a chunk from memory, under the name that messages show. Returns lua_pcall's status, with
 * results or a message on the stack. env: registry reference of the environment table, or
 * LUA_NOREF. */
int sandbox_run(lua_State *L, const char *text, size_t n, const char *chunk, int env,
                int n_results);
/* The same for chunks that run often: takes the text that sandbox_mark prepared, which is to be
 * freed. */
char *sandbox_mark(const char *text, size_t n, size_t *bytes);
int sandbox_run_marked(lua_State *L, const char *text, size_t n, const char *chunk, int env,
                       int n_results);
/* A fresh environment for a foreign chunk (descriptions, architectures, ops): a copy of the safe
 * library. `load` exists only in the globals, which trusted chunks (gen/lua) see. */
int sandbox_env(lua_State *L);
/* luaL_loadbufferx for a chunk given as text: pushes the message or the function. */
int sandbox_load(lua_State *L, const char *text, size_t n, const char *chunk);
/* `#t` as chunks see it; and a pushed list of t's keys, in the same order in each run. */
lua_Integer sandbox_length(lua_State *L, int index);
void sandbox_push_keys(lua_State *L, int index);
/* Pushes the value as `tostring` shows it to chunks: no addresses. */
void sandbox_push_text(lua_State *L, int index);
/* After your own lua_pcall: turns its error value into a text (out of memory, values that are not
 * strings). */
int sandbox_status(lua_State *L, int status);
/* After an error in trusted code, with the message on the stack: a bug of ours, unless the
 * description has used up the budgets. */
_Noreturn void sandbox_fault(lua_State *L, const char *what);
/* Resets the budgets (tests that run references need more). */
void sandbox_budget(lua_State *L, int64_t instructions, size_t bytes);

/* ---- inside ---------------------------------------------------------------------- */

/* Limits for a whole run, set by sandbox_open; sandbox_budget changes them. An instruction takes
 * about 10 ns; llama405b needs a few million, and 16 MiB. */
#define SANDBOX_INSTRUCTIONS INT64_C(200000000)
#define SANDBOX_BYTES ((size_t)512 << 20)
/* In compiled chunks the operator # becomes `SANDBOX_LENGTH_SOURCE x` (sandbox_table.c). */
#define SANDBOX_LENGTH "\1#"
#define SANDBOX_LENGTH_SOURCE "'\\1#'^"

typedef struct Sandbox {
    Gen *g;
    lua_State *L;               /* NULL: not made yet */
    int64_t left, instructions; /* instructions still allowed, and allowed at the start */
    size_t used, cap;           /* bytes that Lua holds, and may hold at most */
    bool expired, full;         /* full: the cap was exceeded */
    int64_t seen_left, seen_ns; /* at the last hook: instructions left, processor time */
    /* where the last error of a sandbox_run was raised, for messages without a place */
    char where_source[256];
    int where_line; /* 0: unknown */
} Sandbox;

Sandbox *sandbox_of(lua_State *L);
/* C functions that loop charge their work, because no hook runs inside them. Raises the budget's
 * error when it is used up. */
void sandbox_charge(lua_State *L, int64_t work);

/* Replaces the running function by Lua's own, which is upvalue 1 and has no upvalues. So messages
 * name it and the chunk's line. */
static inline int sandbox_original(lua_State *L)
{
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

void sandbox_install(lua_State *L); /* sandbox_lib.c: globals of trusted chunks */
/* Adds to the table on top of the stack; the second argument is the index of Lua's own library. */
void sandbox_install_order(lua_State *L); /* pairs, next, rawlen */
void sandbox_install_table(lua_State *L, int lua_table);
void sandbox_install_math(lua_State *L, int lua_math);
void sandbox_install_match(lua_State *L);
void sandbox_install_length(lua_State *L); /* the metatable of strings */
/* sandbox_math.c: ends the program if `^` is not ours. */
void sandbox_check_pow(lua_State *L);

#endif
