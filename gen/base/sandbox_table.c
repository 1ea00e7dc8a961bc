/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_table.c: tables whose behaviour depends on their contents alone, for foreign
 * chunks. In and out: Lua's tables, Lua's messages. Lua orders keys by hashes that differ
 * between runs, and this shows in three ways: the order of `next`; `#t` of a list with
 * holes, which is any border that Lua finds first; and `table.sort`, whose pivots depend
 * on the clock. Here keys come in order, `#t` is the border that one fixed search finds,
 * and `table.sort` is a stable merge sort. All of it is charged. */
#include "base/sandbox.h"

#include <string.h>

enum {
    MAX_LIST = 1 << 24,  /* elements that a table function may visit */
    LENGTH_WORK = 8,     /* cost of a # */
    KEY_WORK = 4,        /* cost of a key beside an instruction */
    COMPARISON_WORK = 8, /* cost of a comparison in table.sort */
    BYTES_PER_WORK = 16  /* bytes of keys compared at the cost of one */
};

/* ---- lengths --------------------------------------------------------------------- */

static bool has(lua_State *L, int index, lua_Integer i)
{
    const bool is = lua_rawgeti(L, index, i) != LUA_TNIL;

    lua_pop(L, 1);
    return is;
}

lua_Integer sandbox_length(lua_State *L, int index)
{
    lua_Integer low = 0, high = 1; /* there is one at low, but not at high */

    if (!lua_istable(L, index))
        return 0;
    index = lua_absindex(L, index);
    while (has(L, index, high)) {
        low = high;
        if (high > LUA_MAXINTEGER / 2)
            return high; /* keys that are powers of two would let it double for ever */
        high *= 2;
    }
    while (high - low > 1) {
        const lua_Integer middle = low + (high - low) / 2;

        if (has(L, index, middle))
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The operator # of chunks (lex_mark_lengths): `mark ^ x`. Upvalue 1: Lua's own
 * metamethod for x ^ y of strings. */
static int length_operator(lua_State *L)
{
    sandbox_charge(L, LENGTH_WORK);
    if (lua_type(L, 1) != LUA_TSTRING || strcmp(lua_tostring(L, 1), SANDBOX_LENGTH) != 0)
        return sandbox_original(L);
    if (luaL_getmetafield(L, 2, "__len") == LUA_TNIL) {
        if (lua_type(L, 2) == LUA_TTABLE)
            lua_pushinteger(L, sandbox_length(L, 2));
        else if (lua_type(L, 2) == LUA_TSTRING)
            lua_pushinteger(L, (lua_Integer)lua_rawlen(L, 2));
        else
            return luaL_error(L, "attempt to get length of a %s value",
                              luaL_typename(L, 2));
    } else {
        lua_pushvalue(L, 2);
        lua_pushvalue(L, 2); /* with the arguments that Lua passes */
        lua_call(L, 2, 1);
    }
    return 1;
}

static int base_rawlen(lua_State *L)
{
    luaL_argexpected(L, lua_istable(L, 1) || lua_type(L, 1) == LUA_TSTRING, 1,
                     "table or string");
    lua_pushinteger(L, lua_istable(L, 1) ? sandbox_length(L, 1)
                                         : (lua_Integer)lua_rawlen(L, 1));
    return 1;
}

/* ---- a stable sort --------------------------------------------------------------- */

/* Sorts `item`, which it fills with 0 .. n-1. before(order, a, b): does a come before b?
 * It may raise errors, so all memory belongs to Lua. */
typedef struct Order {
    lua_State *L;
    bool (*before)(struct Order *o, int a, int b);
    const void *keys;
    bool charge;
    int *item, *spare;
    int list; /* stack index */
} Order;

static void merge(Order *o, int from, int middle, int to)
{
    int left = from, right = middle;

    if (!o->before(o, o->item[middle], o->item[middle - 1]))
        return; /* already in order */
    for (int k = from; k < to; k++)
        if (right < to && (left == middle || o->before(o, o->item[right], o->item[left])))
            o->spare[k] = o->item[right++];
        else
            o->spare[k] = o->item[left++];
    memcpy(o->item + from, o->spare + from, (size_t)(to - from) * sizeof *o->item);
}

/* Leaves a userdata with the order on the stack. */
static void order_items(Order *o, int n)
{
    o->item = lua_newuserdatauv(o->L, 2 * sizeof(int) * (size_t)(n ? n : 1), 0);
    o->spare = o->item + n;
    for (int i = 0; i < n; i++)
        o->item[i] = i;
    for (int width = 1; width < n; width *= 2)
        for (int from = 0; from + width < n; from += 2 * width)
            merge(o, from, from + width, n - from < 2 * width ? n : from + 2 * width);
}

/* ---- keys in order --------------------------------------------------------------- */

typedef struct Key {
    int type; /* booleans, numbers, strings; then types without an order */
    bool integer;
    lua_Integer i;
    lua_Number n;
    const char *s;
    size_t len;
} Key;

static Key key_at(lua_State *L, int index)
{
    Key k = {.type = lua_type(L, index)};

    if (k.type == LUA_TBOOLEAN) {
        k.i = lua_toboolean(L, index);
    } else if (k.type == LUA_TNUMBER) {
        k.integer = lua_isinteger(L, index);
        k.i = k.integer ? lua_tointeger(L, index) : 0;
        k.n = lua_tonumber(L, index);
    } else if (k.type == LUA_TSTRING) {
        k.s = lua_tolstring(L, index, &k.len);
    }
    return k;
}

static bool has_order(const Key *k)
{
    return k->type == LUA_TBOOLEAN || k->type == LUA_TNUMBER || k->type == LUA_TSTRING;
}

static int key_order(const Key *a, const Key *b)
{
    const size_t n = a->len < b->len ? a->len : b->len;
    int c;

    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    if (a->type == LUA_TBOOLEAN || (a->integer && b->integer))
        return (a->i > b->i) - (a->i < b->i);
    if (a->type == LUA_TNUMBER)
        return a->n != b->n ? (a->n < b->n ? -1 : 1) : (int)b->integer - (int)a->integer;
    c = n ? memcmp(a->s, b->s, n) : 0;
    return c ? c : (a->len > b->len) - (a->len < b->len);
}

/* The cost of a comparison with this key. */
static int64_t key_work(const Key *k)
{
    return 1 + (int64_t)k->len / BYTES_PER_WORK;
}

static bool key_before(Order *o, int a, int b)
{
    const Key *keys = o->keys;

    if (o->charge)
        sandbox_charge(o->L, key_work(&keys[a]));
    return key_order(&keys[a], &keys[b]) < 0;
}

/* Pushes the sorted keys of the table at index. Keys without an order come last; for a
 * chunk, which is charged, they are an error. */
static void push_keys(lua_State *L, int index, bool chunk)
{
    Order o = {.L = L, .before = key_before, .charge = chunk};
    lua_Integer n = 0;
    Key *keys;

    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1))
        n++;
    if (chunk)
        sandbox_charge(L, KEY_WORK * n);
    if (n > MAX_LIST)
        luaL_error(L, "the table has too many keys");
    lua_createtable(L, (int)n, 0);
    o.list = lua_gettop(L);
    o.keys = keys = lua_newuserdatauv(L, (size_t)(n ? n : 1) * sizeof *keys, 0);
    n = 0;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        keys[n] = key_at(L, -2);
        if (chunk && !has_order(&keys[n]))
            luaL_error(L, "a table with a %s as a key has no order to go through",
                       lua_typename(L, keys[n].type));
        lua_pushvalue(L, -2);
        lua_rawseti(L, o.list, ++n);
    }
    order_items(&o, (int)n);
    lua_createtable(L, (int)n, 0);
    for (int i = 0; i < (int)n; i++) {
        lua_rawgeti(L, o.list, o.item[i] + 1);
        lua_rawseti(L, -2, i + 1);
    }
    lua_replace(L, o.list);
    lua_settop(L, o.list);
}

void sandbox_push_keys(lua_State *L, int index)
{
    push_keys(L, lua_absindex(L, index), false);
}

/* Upvalues: the sorted keys, how many were visited. */
static int pairs_next(lua_State *L)
{
    lua_Integer i = lua_tointeger(L, lua_upvalueindex(2));

    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    for (;;) {
        if (lua_rawgeti(L, lua_upvalueindex(1), ++i) == LUA_TNIL)
            return 1;
        lua_pushvalue(L, -1);
        if (lua_rawget(L, 1) != LUA_TNIL) { /* skips keys removed meanwhile */
            lua_pushinteger(L, i);
            lua_replace(L, lua_upvalueindex(2));
            return 2;
        }
        lua_pop(L, 2);
    }
}

static int base_pairs(lua_State *L)
{
    luaL_checkany(L, 1);
    if (luaL_getmetafield(L, 1, "__pairs") != LUA_TNIL) {
        lua_pushvalue(L, 1);
        lua_call(L, 1, 3);
        return 3;
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    push_keys(L, 1, true);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, pairs_next, 2);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

static int base_next(lua_State *L)
{
    Key after = {0}, best = {0};
    bool first, found = false;

    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    first = lua_isnil(L, 2);
    if (!first)
        after = key_at(L, 2);
    lua_pushnil(L); /* 3: the smallest so far */
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        const Key k = key_at(L, -2);

        if (!has_order(&k) || (!first && !has_order(&after)))
            luaL_error(L, "a table with a %s as a key has no order to go through",
                       lua_typename(L, has_order(&k) ? after.type : k.type));
        sandbox_charge(L, 2 * key_work(&k));
        if ((first || key_order(&k, &after) > 0) &&
            (!found || key_order(&k, &best) < 0)) {
            best = k;
            found = true;
            lua_copy(L, -2, 3);
        }
    }
    if (!found)
        return 1;
    lua_pushvalue(L, -1);
    lua_rawget(L, 1);
    return 2;
}

/* ---- table functions: real lists of bounded length ------------------------------- */

/* A metatable can claim any length, and a table with 60 keys can have a border at 2^60.
 * Both would keep Lua's C loops busy for ever. */
static lua_Integer check_list(lua_State *L, int arg)
{
    lua_Integer n;

    luaL_checktype(L, arg, LUA_TTABLE);
    if (lua_getmetatable(L, arg))
        luaL_argerror(L, arg, "a plain table is expected, without a metatable");
    n = sandbox_length(L, arg);
    if (n > MAX_LIST)
        luaL_argerror(L, arg, "the list is too long");
    return n;
}

static void check_range(lua_State *L, int64_t first, int64_t last)
{
    if (last < first)
        return;
    if (first < -(int64_t)MAX_LIST || last > (int64_t)MAX_LIST)
        luaL_error(L, "the range of positions is too long");
    sandbox_charge(L, last - first);
}

/* Moves the items [from, to] up by one. */
static void shift(lua_State *L, lua_Integer from, lua_Integer to, int by)
{
    sandbox_charge(L, to - from);
    for (lua_Integer i = by > 0 ? to : from; i >= from && i <= to; i -= by) {
        lua_rawgeti(L, 1, i);
        lua_rawseti(L, 1, i + by);
    }
}

static int table_insert(lua_State *L) /* insert(list, [position,] value) */
{
    const lua_Integer n = check_list(L, 1) + 1;
    const int given = lua_gettop(L);
    lua_Integer at = n;

    if (given != 2 && given != 3)
        return luaL_error(L, "wrong number of arguments to 'insert'");
    if (given == 3) {
        at = luaL_checkinteger(L, 2);
        luaL_argcheck(L, at >= 1 && at <= n, 2, "position out of bounds");
        shift(L, at, n - 1, 1);
    }
    lua_settop(L, given);
    lua_rawseti(L, 1, at);
    return 0;
}

static int table_remove(lua_State *L) /* remove(list [, position]) */
{
    const lua_Integer n = check_list(L, 1);
    const lua_Integer at = luaL_optinteger(L, 2, n);

    if (!lua_isnoneornil(L, 2))
        luaL_argcheck(L, (at >= 1 && at <= n + 1) || (n == 0 && at == 0), 2,
                      "position out of bounds");
    lua_rawgeti(L, 1, at);
    if (at >= 1 && at < n)
        shift(L, at + 1, n, -1);
    lua_pushnil(L);
    lua_rawseti(L, 1, at >= 1 && at < n ? n : at);
    return 1;
}

/* concat(list, sep, i, j) and unpack(list, i, j), with an explicit last position for
 * Lua's own. Upvalues: Lua's function, the argument number of i. */
static int range_function(lua_State *L)
{
    const int at = (int)lua_tointeger(L, lua_upvalueindex(2));
    const lua_Integer n = check_list(L, 1);
    const lua_Integer last = luaL_optinteger(L, at + 1, n);

    check_range(L, luaL_optinteger(L, at, 1), last);
    lua_settop(L, at);
    lua_pushinteger(L, last);
    return sandbox_original(L);
}

static int table_move(lua_State *L) /* move(a1, f, e, t [, a2]) */
{
    int64_t first = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3);
    const int given = lua_gettop(L);

    check_list(L, 1);
    if (!lua_isnoneornil(L, 5))
        check_list(L, 5);
    check_range(L, first, last);
    lua_settop(L, given);
    return sandbox_original(L);
}

/* ---- table.sort ------------------------------------------------------------------ */

/* Is item a of the list before item b, by the function at index 2 or by `<`? */
static bool ask(Order *o, int a, int b)
{
    lua_State *L = o->L;
    bool is;

    if (!lua_isnil(L, 2))
        lua_pushvalue(L, 2);
    lua_rawgeti(L, o->list, a + 1);
    lua_rawgeti(L, o->list, b + 1);
    if (lua_isnil(L, 2)) {
        is = lua_compare(L, -2, -1, LUA_OPLT);
        lua_pop(L, 2);
    } else {
        lua_call(L, 2, 1);
        is = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    return is;
}

/* Lua detects an invalid order function only by chance. Here it is detected whenever two
 * compared items each come before the other, as with `<=` on equal items. */
static bool item_before(Order *o, int a, int b)
{
    sandbox_charge(o->L, COMPARISON_WORK);
    if (!ask(o, a, b))
        return false;
    if (!lua_isnil(o->L, 2) && ask(o, b, a))
        luaL_error(o->L, "invalid order function for sorting: each of two items comes "
                         "before the other");
    return true;
}

/* sort(list [, before]): the list changes after all comparisons succeeded, or not at
 * all. */
static int table_sort(lua_State *L)
{
    Order o = {.L = L, .before = item_before, .list = 3};
    const lua_Integer n = check_list(L, 1);

    if (!lua_isnoneornil(L, 2))
        luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    sandbox_charge(L, n);
    lua_createtable(L, (int)n, 0);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, 1, i);
        lua_rawseti(L, 3, i);
    }
    order_items(&o, (int)n);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, 3, o.item[i - 1] + 1);
        lua_rawseti(L, 1, i);
    }
    return 0;
}

/* ---- putting it together --------------------------------------------------------- */

static void wrap(lua_State *L, int from, const char *name, lua_CFunction f, int where)
{
    lua_getfield(L, from, name);
    lua_pushinteger(L, where);
    lua_pushcclosure(L, f, 2);
    lua_setfield(L, -2, name);
}

void sandbox_install_table(lua_State *L, int lua_table)
{
    static const luaL_Reg own[] = {{"insert", table_insert},
                                   {"remove", table_remove},
                                   {"sort", table_sort},
                                   {NULL, NULL}};

    luaL_setfuncs(L, own, 0);
    lua_getfield(L, lua_table, "pack");
    lua_setfield(L, -2, "pack");
    wrap(L, lua_table, "concat", range_function, 3);
    wrap(L, lua_table, "unpack", range_function, 2);
    wrap(L, lua_table, "move", table_move, 0);
}

void sandbox_install_order(lua_State *L)
{
    static const luaL_Reg own[] = {{"pairs", base_pairs},
                                   {"next", base_next},
                                   {"rawlen", base_rawlen},
                                   {NULL, NULL}};

    luaL_setfuncs(L, own, 0);
}

void sandbox_install_length(lua_State *L)
{
    lua_getfield(L, -1, "__pow");
    lua_pushcclosure(L, length_operator, 1);
    lua_setfield(L, -2, "__pow");
}
