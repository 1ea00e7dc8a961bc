/* SPDX-License-Identifier: Apache-2.0 */
/* check_optimizer.c: checks the description against its optimizer's rule (fields.h). In:
 * the resolved description, the Optimizer of its constructor. Out: messages about dtypes
 * that the optimizer does not support and groups that it cannot use; the number of
 * moments it keeps; then its values in the C Model. Functions of a rule get copies, so
 * that they cannot change anything. */
#include "describe/check.h"
#include "base/sandbox.h"

#include <lauxlib.h>
#include <string.h>

/* NULL if the description has no valid one. */
static const Optimizer *optimizer_of(Check *c)
{
    const Kind *kind = kinds_find(&c->ld->kinds, value_kind(c, "optimizer"));

    return kind ? kind->optimizer : NULL;
}

/* ---- groups ---------------------------------------------------------------------- */

/* The optimizers that treat matrices as a whole, and so have halves. */
static Words with_halves(Check *c)
{
    Words names = {0};

    for (int i = 0; i < c->ld->kinds.count; i++) {
        const Kind *k = &c->ld->kinds.items[i];

        if (k->optimizer && k->optimizer->others)
            *gen_push(c->g, &names) = k->name;
    }
    return names;
}

void check_half(Check *c, const char *path)
{
    const Optimizer *o = optimizer_of(c);
    const char *half = value_str(c, path);
    Words names;

    if (!*half)
        return;
    if (o && o->others) {
        if (strcmp(half, o->name) != 0 && strcmp(half, o->others->name) != 0)
            COMPLAIN(c, path,
                     gen_printf(c->g, "use \"%s\" or \"%s\"", o->name, o->others->name),
                     "%s: \"%s\" is not a half of %s", path, half, o->name);
        return;
    }
    names = with_halves(c);
    if (names.count)
        COMPLAIN(c, path,
                 gen_printf(c->g, "leave it out, or use %s { ... }", names.items[0]),
                 "%s: only %s %s two halves to choose from", path,
                 words_all(c->g, &names), names.count == 1 ? "has" : "have");
    else
        COMPLAIN(c, path, "leave it out", "%s: no optimizer has halves to choose from",
                 path);
}

/* ---- dtypes and moments ---------------------------------------------------------- */

static void check_state(Check *c, const Optimizer *o, const char *state, const Words *may)
{
    const char *path = gen_printf(c->g, "dtypes.%s", state), *dtype = value_str(c, path);

    if (*dtype && !words_have(may, dtype))
        COMPLAIN(c, path, gen_printf(c->g, "use %s", words_join(c->g, may, "\"")),
                 "%s: %s cannot keep its state in \"%s\"", path, o->name, dtype);
}

/* What the rule's function returns for the values in the table on top of the stack; -1
 * after a message. */
static int count_moments(Check *c, const Optimizer *o)
{
    lua_State *L = c->L;
    Pos pos = optimizer_place(o, "moments");
    int n;

    if (o->moments_ref == LUA_NOREF)
        return o->moments;
    lua_rawgeti(L, LUA_REGISTRYINDEX, o->moments_ref);
    lua_pushvalue(L, -2);
    check_copy(L);
    if (sandbox_status(L, lua_pcall(L, 1, 1, 0))) {
        loader_lua_error(c->g, gen_printf(c->g, "op %s", o->name), pos);
        c->errors++;
        return -1;
    }
    n = lua_isinteger(L, -1) && lua_tointeger(L, -1) >= 0 &&
                lua_tointeger(L, -1) <= o->kept
            ? (int)lua_tointeger(L, -1)
            : -1;
    if (n < 0)
        check_error(c, pos,
                    o->kept ? gen_printf(c->g,
                                         "return an integer from 0 to %d: the inputs "
                                         "have %d of class moments",
                                         o->kept, o->kept)
                            : "return 0: no input is of class moments",
                    "op %s: moments makes %s of the fields' values", o->name,
                    check_show(c->g, -1));
    lua_pop(L, 1);
    return n;
}

void check_optimizer(Check *c)
{
    const Optimizer *o = optimizer_of(c);
    lua_State *L = c->L;
    int others = 0;

    if (!o)
        return;
    check_state(c, o, "master", &o->master);
    check_state(c, o, "moments", &o->moments_dtypes);
    if (o->others && o->others != o) {
        check_state(c, o->others, "master", &o->others->master);
        check_state(c, o->others, "moments", &o->others->moments_dtypes);
    }
    if (c->errors)
        return;
    value_push(c, "optimizer");
    check_copy(L);
    c->moments = count_moments(c, o);
    if (o->others) {
        lua_getfield(L, -1, o->others->name);
        others = count_moments(c, o->others);
        lua_pop(L, 1);
    }
    if (others > c->moments)
        c->moments = others;
    c->optimizer_ref = luaL_ref(L, LUA_REGISTRYINDEX);
}

/* ---- into the Model -------------------------------------------------------------- */

static FieldValue value_of(Check *c, const Feed *f)
{
    const char *path = gen_printf(c->g, "optimizer.%s", f->field);
    FieldValue v = {0};

    if (f->type == FIELD_INT)
        value_int(c, path, &v.i);
    else if (f->type == FIELD_BOOL)
        v.i = value_bool(c, path);
    else if (f->type == FIELD_STRING)
        v.s = value_str(c, path);
    else
        v.num = value_num(c, path);
    return v;
}

/* The value of the `others` table, or the common one. */
static double others_value(Check *c, const Optimizer *o, const char *name, double of_all)
{
    const char *path = gen_printf(c->g, "optimizer.%s.%s", o->others->name, name);

    if (value_push(c, path) == LUA_TNUMBER)
        of_all = lua_tonumber(c->L, -1);
    lua_pop(c->L, 1);
    return of_all;
}

void fill_optimizer(Check *c, Model *m)
{
    const Optimizer *o = optimizer_of(c);

    m->optimizer = o;
    m->optimizer_ref = c->optimizer_ref;
    m->moments = c->moments;
    m->lr = value_num(c, "optimizer.lr");
    m->weight_decay = value_num(c, "optimizer.weight_decay");
    m->clip = value_num(c, "optimizer.clip");
    m->optimizer_values =
        gen_alloc(c->g, sizeof *m->optimizer_values * (size_t)(o->feeds.count + 1));
    for (int i = 0; i < o->feeds.count; i++)
        m->optimizer_values[i] = value_of(c, &o->feeds.items[i]);
    if (o->others) {
        m->others_lr = others_value(c, o, "lr", m->lr);
        m->others_decay = others_value(c, o, "weight_decay", m->weight_decay);
    }
}
