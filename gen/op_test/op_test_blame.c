/* SPDX-License-Identifier: Apache-2.0 */
/* op_test_blame.c: where messages of op_test.lua point. In: what it tests now, a check
 * that failed, or an error of Lua. Out: diagnostics at the field of the rule, the file of
 * the folder or the line of the rule's own Lua, as `fsdpgen check` has them. */
#include "op_test/op_test.h"

#include <string.h>

static struct {
    Gen *g;
    const OpTestOptions *o;
    const OpRule *op; /* what is tested now: an op, and */
    const char *key;  /* a key of its rule, or a file of its folder */
    int shown;        /* its failures */
} blame;

const OpRule *op_test_op(lua_State *L, int index)
{
    const char *name = luaL_checkstring(L, index);
    const OpRule *op = ops_find(blame.g, name);
    const char *near = op ? NULL : ops_nearest(blame.g, name);

    if (near)
        luaL_error(L, "%s: there is no such op; did you mean %s?", name, near);
    if (!op)
        luaL_error(L, "%s: there is no such op", name);
    return op;
}

static Pos place(void)
{
    if (!blame.op)
        return (Pos){0};
    if (strchr(blame.key, '.'))
        return (Pos){.file = ops_template_path(blame.g, blame.op, blame.key)};
    return ops_place(blame.g, blame.op, blame.key, NULL);
}

/* at(op, key, what): names what is tested next by a key of the op's rule, or a file of
 * its folder; what: the kernels that run, which a crash is blamed on */
static int l_at(lua_State *L)
{
    const OpRule *op = op_test_op(L, 1);
    const char *key = luaL_checkstring(L, 2);
    char *flight = blame.o->flight;
    Builder *b = builder_get(blame.g);

    if (op != blame.op || strcmp(key, blame.key))
        blame.shown = 0;
    blame.op = op;
    blame.key = gen_strdup(blame.g, key);
    b->blame = place(); /* of errors outside the rule's Lua */
    b->block = gen_printf(blame.g, "op %s", op->name);
    if (flight && lua_isnoneornil(L, 3))
        flight[0] = '\0';
    else if (flight)
        snprintf(flight, OP_TEST_FLIGHT_BYTES, "%s: error: %s",
                 ops_template_path(blame.g, op, key), luaL_checkstring(L, 3));
    return 0;
}

/* fail(text, call): reports a check that failed, at what `at` named; call: a text, or nil
 */
static int l_fail(lua_State *L)
{
    enum { MOST = 3 }; /* messages of one thing; the others are counted */
    const char *text = luaL_checkstring(L, 1), *call = luaL_optstring(L, 2, NULL);

    if (!blame.o->person) {
        printf("FAIL %s%s%s\n", text, call ? "; " : "", call ? call : "");
        fflush(stdout);
        return 0;
    }
    if (blame.shown++ >= MOST)
        return 0;
    diag_add(blame.g, DIAG_ERROR, place(), call, "%s", text);
    diag_print(blame.g);
    return 0;
}

void op_test_blame(lua_State *L, Gen *g, const OpTestOptions *o)
{
    static const luaL_Reg functions[] = {{"at", l_at}, {"fail", l_fail}, {NULL, NULL}};

    blame.g = g;
    blame.o = o;
    luaL_setfuncs(L, functions, 0);
}
