/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.h: what sandbox.c (limits), sandbox_lib.c (the safe library) and
 * sandbox_match.c (bounded string patterns) share. */
#ifndef SANDBOX_H
#define SANDBOX_H

#include "gen.h"

#include <lauxlib.h>

/* Of a whole run, set by sandbox_open; sandbox_budget changes them. One instruction is
 * about 10 ns; llama405b needs a few million. */
#define SANDBOX_INSTRUCTIONS INT64_C(200000000)
#define SANDBOX_BYTES ((size_t)256 << 20)

typedef struct Sandbox {
    Gen *g;
    int64_t left, instructions; /* instructions still allowed, and at the start */
    size_t used, cap;           /* bytes held by Lua, and the most it may hold */
    bool expired;
    /* where the last error of a sandbox_run was raised, for messages without a place */
    char where_source[256];
    int where_line; /* 0: unknown */
} Sandbox;

Sandbox *sandbox_of(lua_State *L);
/* C functions that loop charge what they do, since no hook runs inside them; raises the
 * budget's error when nothing is left. */
void sandbox_charge(lua_State *L, int64_t work);

void sandbox_install(lua_State *L);       /* sandbox_lib.c: globals of trusted chunks */
void sandbox_install_match(lua_State *L); /* sandbox_match.c: into the table on top */

#endif
