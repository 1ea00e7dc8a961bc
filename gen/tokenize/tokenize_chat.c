/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_chat.c: chats to ids and a mask. In: the messages of a JSON line; a template:
 * Lua that returns function(messages, record), which returns a list of parts: texts,
 * token(NAME), and target(PART). Out: ids, and which of them are targets, that is, to be
 * predicted.
 *
 * 1. Special tokens come from token() alone. Messages are text, whatever they contain, so
 *    a message cannot end its turn. Added tokens that are not special are found in texts.
 * 2. Adjacent texts are one text for the patterns. A token is a target if one of its
 *    bytes is a target's. If normal form C composes a letter across the border, the
 *    target has the bytes by which the letter grew.
 * 3. Templates run in the sandbox. Each chat has a Lua state of its own, in which the
 *    template's file runs first, with one budget of time and memory for both. Otherwise
 *    state and garbage left by a template would reach the next chats of the same thread,
 *    and the result would depend on the number of threads. */
#include "tokenize/tokenize_chat.h"

#include "base/sandbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    MAX_DEPTH = 64,
    CHAT_INSTRUCTIONS = 20000000,
    CHAT_BYTES = 512 << 20,
    TEMPLATE_BYTES = 16 << 20,
    BYTES_PER_WORK = 8 /* of a text that is scanned */
};

/* ---- what templates call --------------------------------------------------------- */

static TokChat *chat_of(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

static int lua_token(lua_State *L)
{
    size_t n;
    const char *name = luaL_checklstring(L, 1, &n);
    int64_t id;

    sandbox_charge(L, chat_of(L)->w->tok->n_added);
    id = tok_id_of(chat_of(L)->w->tok, name, n);

    if (id < 0)
        return luaL_error(L, "the tokenizer has no added token \"%s\"", name);
    lua_createtable(L, 0, 2);
    lua_pushinteger(L, (lua_Integer)id);
    lua_setfield(L, -2, "id");
    return 1;
}

static int lua_target(lua_State *L)
{
    lua_createtable(L, 0, 2);
    if (lua_type(L, 1) == LUA_TSTRING) {
        lua_pushvalue(L, 1);
        lua_setfield(L, -2, "text");
    } else {
        luaL_checktype(L, 1, LUA_TTABLE);
        lua_getfield(L, 1, "id");
        lua_setfield(L, -2, "id");
        lua_getfield(L, 1, "text");
        lua_setfield(L, -2, "text");
    }
    lua_pushboolean(L, true);
    lua_setfield(L, -2, "target");
    return 1;
}

/* Removes the white space around it, like Python's strip. */
static int lua_trim(lua_State *L)
{
    size_t n;
    const char *s = luaL_checklstring(L, 1, &n);

    sandbox_charge(L, (int64_t)n / BYTES_PER_WORK);
    s = tok_strip(s, &n);
    lua_pushlstring(L, s, n);
    return 1;
}

/* ---- a chat for Lua -------------------------------------------------------------- */

static void push_json(lua_State *L, const json_t *v, int depth)
{
    const char *key;
    json_t *item;

    if (depth == MAX_DEPTH)
        luaL_error(L, "the record is nested more than %d deep", MAX_DEPTH);
    luaL_checkstack(L, 4, "the record is too deep");
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        lua_newtable(L);
        json_object_foreach((json_t *)(uintptr_t)v, key, item)
        {
            push_json(L, item, depth + 1);
            lua_setfield(L, -2, key);
        }
        break;
    case JSON_ARRAY:
        lua_newtable(L);
        for (size_t i = 0; i < json_array_size(v); i++) {
            push_json(L, json_array_get(v, i), depth + 1);
            lua_rawseti(L, -2, (lua_Integer)i + 1);
        }
        break;
    case JSON_STRING:
        lua_pushlstring(L, json_string_value(v), json_string_length(v));
        break;
    case JSON_INTEGER:
        lua_pushinteger(L, json_integer_value(v));
        break;
    case JSON_REAL:
        lua_pushnumber(L, json_real_value(v));
        break;
    case JSON_NULL:
        lua_pushnil(L);
        break;
    default:
        lua_pushboolean(L, json_is_true(v));
    }
}

/* ---- parts ----------------------------------------------------------------------- */

/* Takes the part on top of the stack, the k-th. */
static void take_part(lua_State *L, TokChat *c, lua_Integer k)
{
    bool target = false;
    const char *s;
    size_t n;

    if (lua_type(L, -1) == LUA_TTABLE) {
        lua_getfield(L, -1, "target");
        target = lua_toboolean(L, -1);
        lua_pop(L, 1);
        lua_getfield(L, -1, "id");
        if (lua_isinteger(L, -1)) {
            const lua_Integer id = lua_tointeger(L, -1);

            if (id < 0 || id > c->w->tok->max_id)
                luaL_error(L, "part %I: there is no id %I", k, id);
            if (!tok_chat_flush(c))
                luaL_error(L, "%s", c->w->error);
            tok_chat_push(c->out, (uint32_t)id, target);
            lua_pop(L, 1);
            return;
        }
        lua_pop(L, 1);
        lua_getfield(L, -1, "text");
        lua_replace(L, -2);
    }
    if (lua_type(L, -1) != LUA_TSTRING)
        luaL_error(L,
                   "part %I of what the template returns is %s; parts are texts, "
                   "token(NAME) and target(PART)",
                   k, luaL_typename(L, -1));
    s = lua_tolstring(L, -1, &n);
    if (tok_utf8_valid(s, n) < n)
        luaL_error(L, "part %I is not UTF-8", k);
    if (!tok_chat_add(c, s, n, target))
        luaL_error(L, "%s", c->w->error);
}

static bool is_part_key(lua_State *L, int index)
{
    return lua_isinteger(L, index) && lua_tointeger(L, index) >= 1;
}

/* Refuses the first key of the table on top of the stack that is not a part's. */
static void refuse_key(lua_State *L)
{
    sandbox_push_keys(L, -1);
    for (lua_Integer k = 1; lua_rawgeti(L, -1, k) != LUA_TNIL; k++, lua_pop(L, 1))
        if (lua_type(L, -1) == LUA_TSTRING)
            luaL_error(L, "the template returns a list with a key `%s`; parts have none",
                       lua_tostring(L, -1));
    luaL_error(L, "the template returns a list with a key that is not 1, 2, 3, ...");
}

/* The number of parts in the table on top of the stack. A loop would end at a nil among
 * them, so each key is checked. */
static lua_Integer count_parts(lua_State *L)
{
    lua_Integer n = 0, last = 0, k = 1;
    bool good = true;

    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1), n++) {
        good = good && is_part_key(L, -2);
        if (good && lua_tointeger(L, -2) > last)
            last = lua_tointeger(L, -2);
    }
    if (!good)
        refuse_key(L);
    if (n == 0)
        luaL_error(L, "the template returns no part");
    if (last > n) {
        while (lua_rawgeti(L, -1, k) != LUA_TNIL) {
            lua_pop(L, 1);
            k++;
        }
        luaL_error(L,
                   "part %I of what the template returns is nil; of what may be missing "
                   "write (x or \"\")",
                   k);
    }
    return n;
}

/* Runs everything protected, including Lua's out-of-memory errors. */
static int run(lua_State *L)
{
    TokChat *c = lua_touserdata(L, 1);
    lua_Integer n;

    lua_rawgeti(L, LUA_REGISTRYINDEX, c->function);
    push_json(L, c->messages, 0);
    push_json(L, c->record, 0);
    lua_call(L, 2, 1);
    if (lua_type(L, -1) != LUA_TTABLE)
        return luaL_error(L, "the template returns %s, not a list of parts",
                          luaL_typename(L, -1));
    n = count_parts(L);
    for (lua_Integer k = 1; k <= n; k++) {
        lua_rawgeti(L, -1, k);
        take_part(L, c, k);
        lua_pop(L, 1);
    }
    if (!tok_chat_flush(c))
        return luaL_error(L, "%s", c->w->error);
    return 0;
}

/* ---- opening --------------------------------------------------------------------- */

static bool failed(lua_State *L, char *error)
{
    snprintf(error, TOK_ERROR_BYTES, "%.400s", lua_tostring(L, -1));
    lua_settop(L, 0);
    return false;
}

static int install(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"token", lua_token}, {"target", lua_target}, {"trim", lua_trim}};
    TokChat *c = lua_touserdata(L, 1);

    lua_rawgeti(L, LUA_REGISTRYINDEX, (int)lua_tointeger(L, 2));
    for (int i = 0; i < 3; i++) {
        lua_pushlightuserdata(L, c);
        lua_pushcclosure(L, functions[i].func, 1);
        lua_setfield(L, -2, functions[i].name);
    }
    return 0;
}

/* The text of a template: one of fsdpgen's own, or a file, read once for all chats. */
static bool read_template(TokChat *c, const char *name, char *error)
{
    const Embedded *e =
        embed_find(gen_printf(base_gen(&c->base), "templates/chat/%s.lua", name));
    const size_t n = strlen(name);
    const char *text;
    size_t bytes;
    int failed;

    if (e) {
        c->own = true;
        c->file = sandbox_mark((const char *)e->data, e->bytes, &c->file_bytes);
        c->chunk = gen_printf(base_gen(&c->base), "@%s", e->path);
        return true;
    }
    if (n < 4 || strcmp(name + n - 4, ".lua")) {
        snprintf(
            error, TOK_ERROR_BYTES,
            "--template %.100s: there is chatml, llama3, tokenizer (the model's own), "
            "FILE.jinja, tokenizer_config.json, and what a FILE.lua says",
            name);
        return false;
    }
    c->chunk = gen_printf(base_gen(&c->base), "@%s", name);
    failed = file_read(name, TEMPLATE_BYTES, &text, &bytes);
    if (failed) {
        snprintf(error, TOK_ERROR_BYTES, "%.100s: %.300s", name,
                 failed == EFBIG ? "is too large for a template" : file_problem(failed));
        return false;
    }
    c->file = sandbox_mark(text, bytes, &c->file_bytes);
    free((void *)(uintptr_t)text);
    return true;
}

/* Runs the template's file in the fresh state; it returns the function. */
static bool load_template(TokChat *c, char *error)
{
    lua_State *L = c->L;
    const int env = sandbox_env(L);

    sandbox_budget(L, CHAT_INSTRUCTIONS, CHAT_BYTES);
    lua_pushcfunction(L, install);
    lua_pushlightuserdata(L, c);
    lua_pushinteger(L, env);
    if (lua_pcall(L, 2, 0, 0) != LUA_OK ||
        sandbox_run_marked(L, c->file, c->file_bytes, c->chunk, env, 1))
        return failed(L, error);
    if (lua_type(L, -1) != LUA_TFUNCTION) {
        snprintf(error, TOK_ERROR_BYTES,
                 "%.100s: returns %s; a template returns function(messages, record)",
                 c->chunk + 1, luaL_typename(L, -1));
        return false;
    }
    c->function = luaL_ref(L, LUA_REGISTRYINDEX);
    return true;
}

TokChat *tok_chat_open(TokWorker *w, const char *template, char *error)
{
    TokChat *c = gen_calloc(1, sizeof *c);

    c->w = w;
    c->pieces = w->tok->vocab.pieces;
    c->find = TOK_FIND_PLAIN;
    if (tok_is_jinja(template)) {
        if (tok_jinja_open(c, template, error))
            return c;
        tok_chat_close(c);
        return NULL;
    }
    if (!read_template(c, template, error)) {
        free(c);
        return NULL;
    }
    c->L = sandbox_open(base_gen(&c->base));
    if (!load_template(c, error)) { /* reports mistakes before any input is read */
        tok_chat_close(c);
        return NULL;
    }
    return c;
}

void tok_chat_close(TokChat *c)
{
    if (!c)
        return;
    if (c->L)
        lua_close(c->L);
    json_decref(c->config);
    free(c->text.s);
    free(c->normal.s);
    free(c->spans);
    free(c->file);
    free(c);
}

/* ---- a record -------------------------------------------------------------------- */

/* The known role that this role differs from only in case; it would not be treated as
 * that role, nor be a target. NULL: none. */
static const char *meant_role(const char *role)
{
    static const char *const roles[] = {"assistant", "user", "system", "tool"};

    for (int i = 0; i < 4; i++)
        if (!strcasecmp(role, roles[i]) && strcmp(role, roles[i]) != 0)
            return roles[i];
    return NULL;
}

/* A template of a model's takes lists of parts, too, and calls without words. */
static bool is_content(const TokChat *c, const json_t *m)
{
    const json_t *content = json_object_get(m, "content");

    return json_is_string(content) ||
           (c->jinja && (json_is_array(content) || (!content && tok_has_calls(m))));
}

static bool check_message(const TokChat *c, const json_t *m, size_t i, char *error)
{
    const char *role = json_string_value(json_object_get(m, "role"));
    const char *good = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

    if (!role || !*role || strlen(role) > 64 || role[strspn(role, good)])
        snprintf(error, TOK_ERROR_BYTES,
                 "message %zu: `role` is a word of letters, digits, `_` and `-`", i + 1);
    else if (c->own && meant_role(role))
        snprintf(error, TOK_ERROR_BYTES,
                 "message %zu: the role `%s` is unknown; write `%s`", i + 1, role,
                 meant_role(role));
    else if (!is_content(c, m))
        snprintf(error, TOK_ERROR_BYTES, "message %zu: `content` is not text", i + 1);
    else
        return true;
    return false;
}

/* Each chat of a template in Lua has a fresh state. */
static bool run_lua(TokChat *c, char *error)
{
    lua_State *L = c->L = sandbox_again(c->L);
    int status;

    if (!load_template(c, error))
        return false;
    lua_settop(L, 0);
    lua_pushcfunction(L, run);
    lua_pushlightuserdata(L, c);
    status = sandbox_status(L, lua_pcall(L, 1, 0, 0));
    return status == LUA_OK || failed(L, error);
}

bool tok_chat_run(TokChat *c, const json_t *list, const json_t *record, TokIds *out,
                  char *error)
{
    json_t *messages = tok_messages(list, !c->jinja, error);
    bool good = messages != NULL;

    for (size_t i = 0; good && i < json_array_size(messages); i++)
        good = check_message(c, json_array_get(messages, i), i, error);
    c->messages = messages;
    c->record = record;
    c->out = out;
    c->text.n = c->n_spans = c->bytes = 0;
    c->begin = out->n;
    good = good && (c->jinja ? tok_jinja_run(c, error) : run_lua(c, error));
    json_decref(messages);
    return good;
}
