/* SPDX-License-Identifier: Apache-2.0 */
/* wrap.c: which pieces are gathered and freed together; the first part of the shard pass.
 *
 * In: blocks with their pieces, the description's wrap. Out: a Wrap: every piece in one
 * group. This partition is the whole result of a policy: shard.c makes a unit of each
 * group, and no later pass asks for the policy. A group's pieces need not be consecutive;
 * then the unit is gathered each time one of them runs.
 *
 * The ends of the model, embedding and head, are the blocks before the first whose kind
 * repeats and those after the last. */
#include "describe/load.h"
#include "base/glob.h"
#include "plan/plan.h"
#include "base/sandbox.h"

#include <lauxlib.h>
#include <string.h>

typedef struct Ends {
    int first, last; /* the blocks between the ends: first .. last */
} Ends;

/* Blocks of one kind, as the architecture named it, may belong to several classes, which
 * differ in what is frozen. */
static bool same_kind(const Class *a, const Class *b)
{
    return a == b || (a->hint && b->hint && !strcmp(a->hint, b->hint));
}

static Ends find_ends(Gen *g)
{
    int *uses = gen_alloc(g, sizeof *uses * (size_t)(g->blocks.count + 1));
    int n = g->blocks.count;
    Ends e = {n, -1};

    for (int b = 0; b < n; b++)
        for (int i = 0; i < n; i++)
            uses[b] += same_kind(g->blocks.items[b].cls, g->blocks.items[i].cls);
    for (int b = 0; b < n; b++)
        if (uses[b] > 1) {
            e.first = (int)min_i64(e.first, b);
            e.last = b;
        }
    if (e.last < 0) /* nothing repeats: the ends are the first and the last block */
        e = n > 2 ? (Ends){1, n - 2} : (Ends){n, n - 1};
    return e;
}

/* Starts a group with piece i. */
static void begin(Wrap *w, int i)
{
    w->group[i] = w->n_groups++;
}

static void join(Wrap *w, int i)
{
    w->group[i] = w->n_groups - 1;
}

static int pieces_of(const Gen *g, int block)
{
    return g->blocks.items[block].cls->pieces.count;
}

/* ---- per_block, by_size, root_only ----------------------------------------------- */

static void per_block(Gen *g, Wrap *w)
{
    const WrapRule *rule = &g->model.wrap;
    Ends e = find_ends(g);

    for (int i = 0; i < w->n_pieces; i++) {
        int b = w->piece[i].block;
        bool begins = (b - e.first) % rule->blocks == 0;

        if (b < e.first)
            begins = b == 0 || !rule->embed_joins;
        else if (b > e.last)
            begins = b == 0 || !rule->head_joins;
        else if (b == e.first)
            begins = b == 0 || !rule->embed_joins;
        if (w->piece[i].piece == 0 && begins)
            begin(w, i);
        else
            join(w, i);
    }
}

/* Joins blocks as long as a unit has no more parameters than the limit. A block with more
 * is cut, and its pieces are joined in the same way. open: what the previous unit may
 * still take; returns that of the last unit made, 0 if it must not grow. */
static int64_t size_block(Wrap *w, int first, int n, int64_t most, int64_t open)
{
    int64_t all = 0;
    bool whole, joins;

    for (int i = first; i < first + n; i++)
        all += w->params[i];
    whole = all <= most || n == 1;
    joins = whole && first > 0 && all <= open;
    for (int i = first; i < first + n; i++) {
        if ((i == first && !joins) || (!whole && w->params[i] > open)) {
            begin(w, i);
            open = most;
        } else {
            join(w, i);
        }
        open = max_i64(0, open - w->params[i]);
    }
    return whole ? open : 0;
}

static void by_size(Gen *g, Wrap *w)
{
    const WrapRule *rule = &g->model.wrap;
    Ends e = find_ends(g);
    int64_t open = 0;

    for (int i = 0; i < w->n_pieces;) {
        int b = w->piece[i].block, n = pieces_of(g, b);
        bool alone =
            (b < e.first && !rule->embed_joins) || (b > e.last && !rule->head_joins);

        open = size_block(w, i, n, rule->params, alone ? 0 : open);
        open = alone ? 0 : open;
        i += n;
    }
}

static void root_only(Wrap *w)
{
    begin(w, 0);
    for (int i = 1; i < w->n_pieces; i++)
        join(w, i);
    w->name[0] = "root";
}

/* ---- by_name --------------------------------------------------------------------- */

static const char *piece_text(Gen *g, const Wrap *w, int i)
{
    const Block *b = &g->blocks.items[w->piece[i].block];
    const char *piece = b->cls->pieces.items[w->piece[i].piece].name;

    return piece ? gen_printf(g, "%s.%s", b->name, piece) : b->name;
}

/* Puts the pieces that the pattern matches, and that no earlier item took, into groups:
 * all into `group`, or with -1 each block or piece into one of its own. */
static bool take(Gen *g, Wrap *w, const char *pattern, int group, bool *known)
{
    bool any = false;
    int block = -1; /* matched as a whole, in a group of its own */

    for (int i = 0; i < w->n_pieces; i++) {
        bool whole = glob_matches(pattern, g->blocks.items[w->piece[i].block].name);

        if (!whole && !glob_matches(pattern, piece_text(g, w, i)))
            continue;
        *known = true;
        if (w->group[i] >= 0)
            continue;
        any = true;
        if (group >= 0)
            w->group[i] = group;
        else if (whole && w->piece[i].block == block)
            join(w, i);
        else
            begin(w, i);
        block = whole ? w->piece[i].block : -1;
    }
    return any;
}

static void nothing_taken(Gen *g, const Wrap *w, int item, const char *pattern,
                          bool known)
{
    const char **names = gen_alloc(g, sizeof *names * (size_t)(2 * w->n_pieces + 1));
    Pos pos = model_pos(g, gen_printf(g, "wrap.names[%d]", item));
    const char *near;
    int n = 0;

    for (int i = 0; i < w->n_pieces; i++) {
        names[n++] = g->blocks.items[w->piece[i].block].name;
        names[n++] = piece_text(g, w, i);
    }
    near = diag_nearest(pattern, names, n);
    diag_add(g, DIAG_ERROR, pos.line ? pos : model_pos(g, "wrap"),
             known  ? "the first item that matches a block or piece takes it"
             : near ? gen_printf(g, "did you mean \"%s\"?", near)
                    : gen_printf(g, "names are like \"%s\" and \"%s\"", names[0],
                                 piece_text(g, w, w->n_pieces / 2)),
             known ? "wrap: by_name: all that \"%s\" matches is in units already"
                   : "wrap: by_name: no block or piece is called \"%s\"",
             pattern);
}

/* Takes the list on top of the stack as one group. */
static void take_group(Gen *g, Wrap *w, int item)
{
    lua_State *L = g->L;
    int at = lua_gettop(L), group = w->n_groups++;

    for (lua_Integer i = 1; lua_rawgeti(L, at, i) != LUA_TNIL; i++) {
        const char *pattern = gen_strdup(g, lua_tostring(L, -1));
        bool known = false;

        if (!take(g, w, pattern, group, &known))
            nothing_taken(g, w, item, pattern, known);
        lua_settop(L, at);
    }
    lua_settop(L, at);
    lua_pushstring(L, "name");
    if (lua_rawget(L, at) == LUA_TSTRING)
        w->name[group] = gen_strdup(g, lua_tostring(L, -1));
    lua_settop(L, at);
}

static void by_name(Gen *g, Wrap *w)
{
    lua_State *L = g->L;
    int at, rest = -1;

    for (int i = 0; i < w->n_pieces; i++)
        w->group[i] = -1;
    lua_rawgeti(L, LUA_REGISTRYINDEX, g->model.wrap.ref);
    at = lua_gettop(L);
    for (int item = 1; lua_rawgeti(L, at, item) != LUA_TNIL; item++) {
        if (lua_istable(L, -1)) {
            take_group(g, w, item);
        } else {
            const char *pattern = gen_strdup(g, lua_tostring(L, -1));
            bool known = false;

            if (!take(g, w, pattern, -1, &known))
                nothing_taken(g, w, item, pattern, known);
        }
        lua_settop(L, at);
    }
    lua_settop(L, at - 1);
    for (int i = 0; i < w->n_pieces; i++) { /* the rest: runs of pieces */
        if (w->group[i] >= 0) {
            rest = -1;
        } else if (rest >= 0) {
            w->group[i] = rest;
        } else {
            begin(w, i);
            rest = w->group[i];
        }
    }
}

/* ---- a function ------------------------------------------------------------------ */

static const char *const help_answer = "return true (a unit begins), false (it joins the "
                                       "unit before), the name of a unit, or "
                                       "a table of these by piece";

/* { name, class, index, blocks, params, pieces = { { name, params }, ... } } */
static void push_block(Gen *g, const Wrap *w, int first)
{
    lua_State *L = g->L;
    const Block *b = &g->blocks.items[w->piece[first].block];
    int64_t params = 0;

    luaL_checkstack(L, 10, "wrap");
    lua_newtable(L);
    lua_pushstring(L, b->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, b->cls->name);
    lua_setfield(L, -2, "class");
    lua_pushinteger(L, b->id + 1);
    lua_setfield(L, -2, "index");
    lua_pushinteger(L, g->blocks.count);
    lua_setfield(L, -2, "blocks");
    lua_newtable(L);
    for (int k = 0; k < b->cls->pieces.count; k++) {
        params += w->params[first + k];
        if (!b->cls->pieces.items[k].name)
            break;
        lua_newtable(L);
        lua_pushstring(L, b->cls->pieces.items[k].name);
        lua_setfield(L, -2, "name");
        lua_pushinteger(L, w->params[first + k]);
        lua_setfield(L, -2, "params");
        lua_rawseti(L, -2, k + 1);
    }
    lua_setfield(L, -2, "pieces");
    lua_pushinteger(L, params);
    lua_setfield(L, -2, "params");
}

/* Takes what the function returned for a piece, on top of the stack. */
static void answer(Gen *g, Wrap *w, int i, const char *of)
{
    lua_State *L = g->L;
    size_t n;
    const char *name;

    switch (lua_type(L, -1)) {
    case LUA_TBOOLEAN:
        if (lua_toboolean(L, -1) || i == 0)
            begin(w, i);
        else
            w->group[i] = w->group[i - 1];
        return;
    case LUA_TSTRING:
        name = lua_tolstring(L, -1, &n);
        if (!wrap_name_ok(name, n)) {
            diag_add(
                g, DIAG_ERROR, model_pos(g, "wrap"),
                "use a lower-case letter, then lower-case letters, digits, _ and dots",
                "wrap: of %s the function returned %s, which is not a name of a unit", of,
                check_show(g, -1));
            break;
        }
        for (int k = 0; k < w->n_groups; k++)
            if (w->name[k] && !strcmp(w->name[k], name)) {
                w->group[i] = k;
                return;
            }
        begin(w, i);
        w->name[w->group[i]] = gen_strdup(g, name);
        return;
    default:
        diag_add(g, DIAG_ERROR, model_pos(g, "wrap"), help_answer,
                 "wrap: of %s the function returned %s", of, check_show(g, -1));
        break;
    }
    begin(w, i);
}

/* Reports keys of the table on top of the stack that are not pieces of the block. */
static void unknown_pieces(Gen *g, const Class *c, const char *block)
{
    lua_State *L = g->L;
    Words names = {0};

    for (int k = 0; k < c->pieces.count && c->pieces.items[k].name; k++)
        *gen_push(g, &names) = c->pieces.items[k].name;
    sandbox_push_keys(L, -1);
    for (lua_Integer i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
        if (lua_type(L, -1) == LUA_TSTRING && words_have(&names, lua_tostring(L, -1))) {
            lua_pop(L, 1);
            continue;
        }
        diag_add(
            g, DIAG_ERROR, model_pos(g, "wrap"),
            names.count ? gen_printf(g, "its pieces are %s", words_all(g, &names))
                        : "it has no pieces: return true, false or the name of a unit",
            "wrap: of %s the function returned a table with %s, which is not a piece",
            block, check_show(g, -1));
        break; /* one message is enough */
    }
    lua_pop(L, 2);
}

static void ask_block(Gen *g, Wrap *w, int first)
{
    lua_State *L = g->L;
    const Block *b = &g->blocks.items[w->piece[first].block];
    int top = lua_gettop(L);

    lua_rawgeti(L, LUA_REGISTRYINDEX, g->model.wrap.ref);
    push_block(g, w, first);
    if (sandbox_status(L, lua_pcall(L, 1, 1, 0)) != LUA_OK) {
        loader_lua_error(g, gen_printf(g, "wrap: of %s", b->name), model_pos(g, "wrap"));
        return;
    }
    if (!lua_istable(L, -1)) {
        answer(g, w, first, b->name);
        for (int k = 1; k < b->cls->pieces.count; k++)
            w->group[first + k] = w->group[first];
    } else {
        unknown_pieces(g, b->cls, b->name);
        for (int k = 0; k < b->cls->pieces.count; k++) {
            lua_pushstring(L, b->cls->pieces.items[k].name);
            if (lua_isnil(L, -1) || lua_rawget(L, -2) == LUA_TNIL) {
                lua_pop(L, 1);
                lua_pushboolean(L, false);
            }
            answer(g, w, first + k, piece_text(g, w, first + k));
            lua_pop(L, 1);
        }
    }
    lua_settop(L, top);
}

/* Pushes the units as by_name would list them. */
static void push_names(Gen *g, const Wrap *w)
{
    lua_State *L = g->L;

    lua_createtable(L, w->n_groups, 0);
    for (int k = 0; k < w->n_groups; k++) {
        int n = 0;

        lua_newtable(L);
        for (int i = 0; i < w->n_pieces; i++) {
            if (w->group[i] != k)
                continue;
            lua_pushstring(L, piece_text(g, w, i));
            lua_rawseti(L, -2, ++n);
        }
        if (w->name[k]) {
            lua_pushstring(L, w->name[k]);
            lua_setfield(L, -2, "name");
        }
        lua_rawseti(L, -2, k + 1);
    }
}

static void by_function(Gen *g, Wrap *w)
{
    for (int i = 0; i < w->n_pieces; i += pieces_of(g, w->piece[i].block)) {
        ask_block(g, w, i);
        if (diag_errors(g)) /* the next block would fail alike */
            return;
    }
    push_names(g, w);
    resolve_wrap(g);
}

/* ---- the partition --------------------------------------------------------------- */

static void list_pieces(Gen *g, Wrap *w)
{
    bool *seen = gen_alloc(g, (size_t)g->params.count + 1);
    int n = 0;

    for (int b = 0; b < g->blocks.count; b++)
        w->n_pieces += pieces_of(g, b);
    w->piece = gen_alloc(g, sizeof *w->piece * (size_t)(w->n_pieces + 1));
    w->group = gen_alloc(g, sizeof *w->group * (size_t)(w->n_pieces + 1));
    w->params = gen_alloc(g, sizeof *w->params * (size_t)(w->n_pieces + 1));
    for (int b = 0; b < g->blocks.count; b++) {
        const Block *blk = &g->blocks.items[b];

        for (int k = 0; k < blk->cls->params.count; k++) {
            const Param *p = &g->params.items[blk->param[k]];

            if (p->block != blk || seen[p->id])
                continue;
            seen[p->id] = true; /* one block may use a tied parameter twice */
            w->params[n + blk->cls->params.items[k].piece] += p->elems;
        }
        for (int k = 0; k < blk->cls->pieces.count; k++)
            w->piece[n++] = (PieceRef){b, k};
    }
}

/* Numbers the groups in the order of their first pieces, without empty ones. */
static void number_groups(Gen *g, Wrap *w)
{
    int *id = gen_alloc(g, sizeof *id * (size_t)(w->n_groups + 1));
    const char **name = gen_alloc(g, sizeof *name * (size_t)(w->n_groups + 1));
    int n = 0;

    for (int k = 0; k < w->n_groups; k++)
        id[k] = -1;
    for (int i = 0; i < w->n_pieces; i++) {
        if (id[w->group[i]] < 0) {
            name[n] = w->name[w->group[i]];
            id[w->group[i]] = n++;
        }
        w->group[i] = id[w->group[i]];
    }
    w->n_groups = n;
    w->name = name;
}

/* The largest number of names from by_name: one for each item of its list. */
static size_t most_groups(Gen *g, const Wrap *w)
{
    size_t n = (size_t)w->n_pieces + 1;

    if (g->model.wrap.kind == WRAP_BY_NAME) {
        lua_rawgeti(g->L, LUA_REGISTRYINDEX, g->model.wrap.ref);
        n += (size_t)sandbox_length(g->L, -1);
        lua_pop(g->L, 1);
    }
    return n;
}

Wrap wrap_partition(Gen *g)
{
    Wrap w = {0};

    list_pieces(g, &w);
    w.name = gen_alloc(g, sizeof *w.name * most_groups(g, &w));
    switch (g->model.wrap.kind) {
    case WRAP_PER_BLOCK:
        per_block(g, &w);
        break;
    case WRAP_BY_SIZE:
        by_size(g, &w);
        break;
    case WRAP_BY_NAME:
        by_name(g, &w);
        break;
    case WRAP_ROOT_ONLY:
        root_only(&w);
        break;
    case WRAP_FUNCTION:
        by_function(g, &w);
        break;
    }
    if (!diag_errors(g))
        number_groups(g, &w);
    return w;
}
