/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_jinja.c: chat templates of Hugging Face models. In: chat_template.jinja, or
 * the text in tokenizer_config.json, and a chat. Out: the chat as a text, as transformers
 * renders it, with its targets, for tokenize_chat_ids.c. gen/lua/jinja.lua has the
 * language; what it makes of a template is kept for all chats of a thread, since it
 * remembers nothing of them. Each chat has a budget, after a collection of what the one
 * before left. */
#include "tokenize/tokenize_chat.h"

#include "base/json_place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_DEPTH = 64,
    JINJA_INSTRUCTIONS = 100000000,
    JINJA_BYTES = 512 << 20,
    TEMPLATE_BYTES = 16 << 20
};

/* ---- files ----------------------------------------------------------------------- */

static bool has_end(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);

    return n > m && !strcmp(name + n - m, end);
}

bool tok_is_jinja(const char *name)
{
    return !strcmp(name, "tokenizer") || has_end(name, ".jinja") ||
           has_end(name, ".json");
}

/* A file beside tokenizer.json. */
static const char *beside(TokChat *c, const char *name)
{
    const char *file = c->w->tok->file, *slash = strrchr(file, '/');

    return gen_printf(base_gen(&c->base), "%.*s%s", slash ? (int)(slash - file) + 1 : 0,
                      file, name);
}

/* 0: read; ENOENT: there is no such file; else error is set. */
static int read_file(const char *name, const char **text, size_t *bytes, char *error)
{
    const int failed = file_read(name, TEMPLATE_BYTES, text, bytes);

    if (failed)
        snprintf(error, TOK_ERROR_BYTES, "%.200s: %.250s", name,
                 failed == EFBIG ? "is too large for a template" : file_problem(failed));
    return failed;
}

static bool read_config(TokChat *c, const char *name, bool needed, char *error)
{
    const char *text;
    size_t bytes;
    json_error_t problem;
    const int failed = read_file(name, &text, &bytes, error);

    if (failed)
        return failed == ENOENT && !needed;
    c->config = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &problem);
    free((void *)(uintptr_t)text);
    if (!c->config)
        snprintf(error, TOK_ERROR_BYTES, "%.200s:%d:%d: %.200s", name, problem.line,
                 problem.column > 0 ? problem.column : 1, problem.text);
    else if (!json_is_object(c->config))
        snprintf(error, TOK_ERROR_BYTES, "%.200s: is not one object", name);
    return json_is_object(c->config);
}

/* Of several the one that is called default. */
static bool text_of_config(TokChat *c, const char *name, char *error)
{
    const json_t *t = json_object_get(c->config, "chat_template"), *text = t;

    for (size_t i = 0; json_is_array(t) && i < json_array_size(t); i++) {
        const json_t *one = json_array_get(t, i);
        const char *called = json_string_value(json_object_get(one, "name"));

        if (called && !strcmp(called, "default"))
            text = json_object_get(one, "template");
    }
    if (!json_is_string(text)) {
        snprintf(error, TOK_ERROR_BYTES, "%.200s: has no chat_template%s", name,
                 json_is_array(t) ? " that is called default" : "");
        return false;
    }
    c->chunk = gen_printf(base_gen(&c->base), "%s: chat_template", name);
    c->file_bytes = json_string_length(text);
    c->file =
        memcpy(gen_calloc(c->file_bytes + 1, 1), json_string_value(text), c->file_bytes);
    return true;
}

/* 0: read; ENOENT: there is no such file. */
static int text_of_file(TokChat *c, const char *name, char *error)
{
    const char *text;
    const int failed = read_file(name, &text, &c->file_bytes, error);

    if (failed)
        return failed;
    c->chunk = gen_printf(base_gen(&c->base), "%s", name);
    c->file = memcpy(gen_calloc(c->file_bytes + 1, 1), text, c->file_bytes);
    free((void *)(uintptr_t)text);
    return 0;
}

static bool read_template(TokChat *c, const char *name, char *error)
{
    const bool of_tokenizer = !strcmp(name, "tokenizer"),
               is_config = has_end(name, ".json");
    const char *config = is_config ? name : beside(c, "tokenizer_config.json");
    int failed = 0;

    if (!read_config(c, config, is_config, error))
        return false;
    if (!is_config)
        failed = text_of_file(c, of_tokenizer ? beside(c, "chat_template.jinja") : name,
                              error);
    if (failed && !(failed == ENOENT && of_tokenizer && c->config))
        return false;
    if ((is_config || failed) && !text_of_config(c, config, error))
        return false;
    if (tok_utf8_valid(c->file, c->file_bytes) == c->file_bytes)
        return true;
    snprintf(error, TOK_ERROR_BYTES, "%.200s: byte %zu is not UTF-8", c->chunk,
             tok_utf8_valid(c->file, c->file_bytes) + 1);
    return false;
}

/* ---- values ---------------------------------------------------------------------- */

static void push_value(lua_State *L, const TokChat *c, const json_t *v, int depth);

static void push_text(lua_State *L, const char *s, size_t n, bool theirs)
{
    if (!theirs) {
        lua_pushlstring(L, s, n);
        return;
    }
    lua_createtable(L, 0, 3);
    lua_pushliteral(L, "text");
    lua_setfield(L, -2, "kind");
    lua_pushlstring(L, s, n);
    lua_setfield(L, -2, "s");
    lua_pushboolean(L, true);
    lua_setfield(L, -2, "data");
}

/* Roles that templates write between their tokens are as their own. */
static bool is_role(const char *key, const json_t *v)
{
    static const char *const roles[] = {"assistant", "user", "system", "tool",
                                        "developer"};

    for (int i = 0; i < 5; i++)
        if (!strcmp(key, "role") && json_is_string(v) &&
            !strcmp(json_string_value(v), roles[i]))
            return true;
    return false;
}

static void push_object(lua_State *L, const TokChat *c, const json_t *v, int depth)
{
    const char *key;
    json_t *item;
    lua_Integer n = 0;

    lua_createtable(L, 0, 4);
    lua_pushliteral(L, "dict");
    lua_setfield(L, -2, "kind");
    lua_pushboolean(L, true);
    lua_setfield(L, -2, "data");
    lua_newtable(L);
    lua_newtable(L);
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        lua_pushstring(L, key);
        lua_rawseti(L, -3, ++n);
        if (is_role(key, item))
            lua_pushstring(L, json_string_value(item));
        else
            push_value(L, c, item, depth + 1);
        lua_setfield(L, -2, key);
    }
    lua_setfield(L, -3, "map");
    lua_setfield(L, -2, "keys");
}

static void push_array(lua_State *L, const TokChat *c, const json_t *v, int depth)
{
    const size_t n = json_array_size(v);

    lua_newtable(L);
    for (size_t i = 0; i < n; i++) {
        push_value(L, c, json_array_get(v, i), depth + 1);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_pushliteral(L, "list");
    lua_setfield(L, -2, "kind");
    lua_pushinteger(L, (lua_Integer)n);
    lua_setfield(L, -2, "n");
}

/* As gen/lua/jinja_value.lua has them; NULL is none. */
static void push_value(lua_State *L, const TokChat *c, const json_t *v, int depth)
{
    if (depth == MAX_DEPTH)
        luaL_error(L, "the record is nested more than %d deep", MAX_DEPTH);
    luaL_checkstack(L, 8, "the record is too deep");
    if (json_is_object(v))
        push_object(L, c, v, depth);
    else if (json_is_array(v))
        push_array(L, c, v, depth);
    else if (json_is_string(v))
        push_text(L, json_string_value(v), json_string_length(v), true);
    else if (json_is_integer(v))
        lua_pushinteger(L, json_integer_value(v));
    else if (json_is_real(v))
        lua_pushnumber(L, json_real_value(v));
    else if (json_is_boolean(v))
        lua_pushboolean(L, json_is_true(v));
    else
        lua_rawgeti(L, LUA_REGISTRYINDEX, c->none);
}

/* bos_token and its like, which are texts or {content}; what the record says; none of
 * either is a message's. */
static void push_variables(lua_State *L, const TokChat *c)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token",
                                        "pad_token", "sep_token", "cls_token",
                                        "mask_token"};
    const json_t *more = json_object_get(c->record, "chat_template_kwargs");
    const char *key;
    json_t *v;

    lua_newtable(L);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *token = json_object_get(c->config, names[i]);

        token = json_is_object(token) ? json_object_get(token, "content") : token;
        if (!json_is_string(token))
            continue;
        push_text(L, json_string_value(token), json_string_length(token), false);
        lua_setfield(L, -2, names[i]);
    }
    push_value(L, c, json_object_get(c->record, "tools"), 0);
    lua_setfield(L, -2, "tools");
    push_value(L, c, json_object_get(c->record, "documents"), 0);
    lua_setfield(L, -2, "documents");
    lua_pushboolean(L, false);
    lua_setfield(L, -2, "add_generation_prompt");
    json_object_foreach((json_t *)(uintptr_t)more, key, v)
    {
        push_value(L, c, v, 0);
        lua_setfield(L, -2, key);
    }
    push_value(L, c, c->messages, 0);
    lua_setfield(L, -2, "messages");
}

/* ---- opening --------------------------------------------------------------------- */

/* Where the text lies between white space, as Python's strip has it. */
static int space_ends(lua_State *L)
{
    size_t n;
    const char *s = luaL_checklstring(L, 1, &n);

    sandbox_charge(L, (int64_t)n / 8);
    s = tok_strip(s, &n);
    lua_pushinteger(L, (lua_Integer)(s - lua_tostring(L, 1)) + 1);
    lua_pushinteger(L, (lua_Integer)(s - lua_tostring(L, 1)) + (lua_Integer)n);
    return 2;
}

/* The files of the language share a global table. */
static int load_language(lua_State *L)
{
    static const char *const files[] = {
        "gen/lua/jinja_value.lua", "gen/lua/jinja_filter.lua", "gen/lua/jinja_lex.lua",
        "gen/lua/jinja_read.lua", "gen/lua/jinja.lua"};
    TokChat *c = lua_touserdata(L, 1);

    lua_newtable(L);
    lua_pushcfunction(L, space_ends);
    lua_setfield(L, -2, "space_ends");
    lua_pushvalue(L, -1);
    lua_setglobal(L, "jinja");
    for (int i = 0; i < 5; i++) {
        const Embedded *e = embed_find(files[i]);

        if (sandbox_run(L, (const char *)e->data, e->bytes,
                        gen_printf(base_gen(&c->base), "@%s", files[i]), LUA_NOREF, 0))
            return lua_error(L);
    }
    lua_getfield(L, -1, "values");
    lua_getfield(L, -1, "none");
    c->none = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_pop(L, 1);
    lua_getfield(L, -1, "open");
    lua_pushlstring(L, c->file, c->file_bytes);
    lua_pushstring(L, c->chunk);
    lua_call(L, 2, 1);
    c->function = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

static int run(lua_State *L);

/* The chat took too much: a message with the template's line in place of the sandbox's.
 */
static void place_end(lua_State *L)
{
    const bool full = sandbox_of(L)->full;

    lua_settop(L, 0);
    lua_gc(L, LUA_GCCOLLECT);
    sandbox_budget(L, JINJA_INSTRUCTIONS, JINJA_BYTES);
    lua_getglobal(L, "jinja");
    lua_getfield(L, -1, "fail");
    lua_pushfstring(L,
                    full ? "needs more than %d MiB of memory for a chat"
                         : "ran for more than %d million steps on a chat",
                    full ? JINJA_BYTES >> 20 : JINJA_INSTRUCTIONS / 1000000);
    lua_pcall(L, 1, 0, 0);
}

static bool call(TokChat *c, lua_CFunction f, char *error)
{
    lua_State *L = c->L;
    int status;

    lua_settop(L, 0);
    lua_gc(L, LUA_GCCOLLECT);
    sandbox_budget(L, JINJA_INSTRUCTIONS, JINJA_BYTES);
    lua_pushcfunction(L, f);
    lua_pushlightuserdata(L, c);
    status = sandbox_status(L, lua_pcall(L, 1, 0, 0));
    if (status != LUA_OK && f == run && sandbox_of(L)->left <= 0)
        place_end(L);
    if (status != LUA_OK)
        snprintf(error, TOK_ERROR_BYTES, "%.400s", lua_tostring(L, -1));
    lua_settop(L, 0);
    return status == LUA_OK;
}

/* A special token that is looked for in normal form would be looked for in what messages
 * say, too. */
static bool check_tokens(const Tokenizer *t, char *error)
{
    for (int k = 0; k < t->n_added && (t->nfc || t->spaces.to); k++)
        if (t->added[k].special && t->added[k].normalized) {
            snprintf(error, TOK_ERROR_BYTES,
                     "%.150s: the special token `%.60s` is `normalized`, which is not "
                     "supported with a template of the model's",
                     t->file, t->added[k].name);
            return false;
        }
    return true;
}

bool tok_jinja_open(TokChat *c, const char *name, char *error)
{
    c->jinja = true;
    if (!check_tokens(c->w->tok, error) || !read_template(c, name, error))
        return false;
    c->L = sandbox_open(base_gen(&c->base));
    return call(c, load_language, error);
}

/* ---- a chat ---------------------------------------------------------------------- */

static bool is_token_of_ours(const TokChat *c, const TokAdded *a, size_t at)
{
    bool theirs = c->find == TOK_FIND_PLAIN || memcmp(c->text.s + at, a->s, a->n) != 0;

    for (size_t i = at; c->theirs && i < at + a->n; i++)
        theirs = theirs || c->theirs[i];
    return a->special && !theirs;
}

/* Of a turn that ends with a special token and white space, without that. */
static size_t turn_end(const TokChat *c, size_t from, size_t to)
{
    const Tokenizer *t = c->w->tok;
    const size_t end = to - tok_space_end(c->text.s + from, to - from);

    for (int k = 0; k < t->n_added; k++)
        if (t->added[k].n <= end - from &&
            is_token_of_ours(c, &t->added[k], end - t->added[k].n))
            return end;
    return to;
}

/* On the stack: the text, whose bytes are messages', targets, whether those are turns. */
static void take_text(lua_State *L, TokChat *c)
{
    size_t n;
    const char *s = lua_tolstring(L, -4, &n);
    const bool turns = lua_toboolean(L, -1);
    const lua_Integer bounds = (lua_Integer)lua_rawlen(L, -2);

    c->theirs = lua_type(L, -3) == LUA_TSTRING ? lua_tostring(L, -3) : NULL;
    c->find = lua_toboolean(L, -3) && !c->theirs ? TOK_FIND_PLAIN : TOK_FIND_ALL;
    if (tok_utf8_valid(s, n) < n)
        luaL_error(L, "the template cuts a text within a character");
    if (!tok_chat_add(c, s, n, false))
        luaL_error(L, "%s", c->w->error);
    for (lua_Integer k = 1; k + 1 <= bounds; k += 2) {
        size_t from, to;

        lua_rawgeti(L, -2, k);
        lua_rawgeti(L, -3, k + 1);
        from = (size_t)lua_tointeger(L, -2);
        to = (size_t)lua_tointeger(L, -1);
        lua_pop(L, 2);
        tok_chat_span(c, from, turns ? turn_end(c, from, to) : to);
    }
}

static int run(lua_State *L)
{
    TokChat *c = lua_touserdata(L, 1);

    lua_rawgeti(L, LUA_REGISTRYINDEX, c->function);
    push_variables(L, c);
    lua_call(L, 1, 4);
    take_text(L, c);
    if (!tok_chat_flush(c))
        return luaL_error(L, "%s", c->w->error);
    return 0;
}

bool tok_jinja_run(TokChat *c, char *error)
{
    const bool good = call(c, run, error);

    c->theirs = NULL;
    return good;
}
