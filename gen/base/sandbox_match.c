/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_match.c: find, match, gmatch and gsub with Lua's patterns (reference manual
 * §6.4.1) for foreign chunks. Every step is charged to the sandbox's budget, so a
 * pattern that backtracks for ever ends like an endless loop, with the budget's
 * message. Lua's own matcher cannot be stopped.
 *
 * In: a subject, a pattern, and for gsub a string, a table or a function. Out: as
 * Lua's. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include "base/sandbox.h"

#include <ctype.h>
#include <string.h>

enum {
    MAX_CAPTURES = 32,
    MAX_DEPTH = 180,
    OPEN = -1,
    POSITION = -2,
    STEPS_A_CHARGE = 256,
    BYTES_A_STEP = 8 /* bytes of a set, or of plain text, that cost one step */
};

typedef struct Match {
    lua_State *L;
    const char *text, *text_end, *pattern_end;
    int level, depth, steps;
    struct {
        const char *start;
        ptrdiff_t len;
    } capture[MAX_CAPTURES];
} Match;

static const char *match_here(Match *m, const char *s, const char *p);

static void steps(Match *m, ptrdiff_t n)
{
    m->steps += (int)n;
    if (m->steps < STEPS_A_CHARGE)
        return;
    sandbox_charge(m->L, m->steps);
    m->steps = 0;
}

static void step(Match *m)
{
    steps(m, 1);
}

/* The end of the single-character class that starts at p. */
static const char *class_end(Match *m, const char *p)
{
    const char *from = p;

    if (p == m->pattern_end)
        luaL_error(m->L, "malformed pattern (ends unexpectedly)");
    if (*p == '%') {
        if (p + 1 == m->pattern_end)
            luaL_error(m->L, "malformed pattern (ends with '%%')");
        return p + 2;
    }
    if (*p != '[')
        return p + 1;
    p++;
    if (p < m->pattern_end && *p == '^')
        p++;
    do { /* the first character may be a ']' */
        if (p == m->pattern_end)
            luaL_error(m->L, "malformed pattern (missing ']')");
        if (*p == '%') {
            if (p + 1 >= m->pattern_end)
                luaL_error(m->L, "malformed pattern (missing ']')");
            p++;
        }
        p++;
    } while (p == m->pattern_end || *p != ']');
    steps(m, (p - from) / BYTES_A_STEP);
    return p + 1;
}

/* ASCII classes in every locale, so that all machines match alike. -1: not a class. */
static int in_lower_class(int c, int letter)
{
    static int (*const classes['z' - 'a' + 1])(int) = {
        ['a' - 'a'] = isalpha, ['c' - 'a'] = iscntrl, ['d' - 'a'] = isdigit,
        ['g' - 'a'] = isgraph, ['l' - 'a'] = islower, ['p' - 'a'] = ispunct,
        ['s' - 'a'] = isspace, ['u' - 'a'] = isupper, ['w' - 'a'] = isalnum,
        ['x' - 'a'] = isxdigit};

    if (letter < 'a' || letter > 'z' || !classes[letter - 'a'])
        return -1;
    return c < 128 && classes[letter - 'a'](c);
}

static bool in_class(int c, int cl)
{
    bool upper = cl >= 'A' && cl <= 'Z';
    int in = in_lower_class(c, upper ? cl | 32 : cl);

    return in < 0 ? cl == c : upper ? !in : in;
}

static bool in_set(int c, const char *p, const char *last) /* last: the closing ']' */
{
    bool found = true;

    if (p[1] == '^') {
        found = false;
        p++;
    }
    while (++p < last) {
        if (*p == '%') {
            p++;
            if (in_class(c, (unsigned char)*p))
                return found;
        } else if (p[1] == '-' && p + 2 < last) {
            if ((unsigned char)p[0] <= c && c <= (unsigned char)p[2])
                return found;
            p += 2;
        } else if ((unsigned char)*p == c) {
            return found;
        }
    }
    return !found;
}

static bool match_one(Match *m, const char *s, const char *p, const char *end)
{
    int c;

    step(m);
    if (s >= m->text_end)
        return false;
    c = (unsigned char)*s;
    switch (*p) {
    case '.':
        return true;
    case '%':
        return in_class(c, (unsigned char)p[1]);
    case '[':
        steps(m, (end - p) / BYTES_A_STEP);
        return in_set(c, p, end - 1);
    default:
        return (unsigned char)*p == c;
    }
}

static const char *match_balance(Match *m, const char *s, const char *p)
{
    int depth = 1;

    if (p + 1 >= m->pattern_end)
        luaL_error(m->L, "malformed pattern (missing arguments to '%%b')");
    if (s >= m->text_end || *s != p[0])
        return NULL;
    for (s++; s < m->text_end; s++) {
        step(m);
        if (*s == p[1]) {
            if (--depth == 0)
                return s + 1;
        } else if (*s == p[0]) {
            depth++;
        }
    }
    return NULL;
}

static const char *match_most(Match *m, const char *s, const char *p, const char *end)
{
    ptrdiff_t n = 0;

    while (match_one(m, s + n, p, end))
        n++;
    for (; n >= 0; n--) { /* give back one at a time */
        const char *r = match_here(m, s + n, end + 1);

        if (r)
            return r;
    }
    return NULL;
}

static const char *match_least(Match *m, const char *s, const char *p, const char *end)
{
    for (;; s++) {
        const char *r = match_here(m, s, end + 1);

        if (r)
            return r;
        if (!match_one(m, s, p, end))
            return NULL;
    }
}

static const char *open_capture(Match *m, const char *s, const char *p, ptrdiff_t kind)
{
    const char *r;

    if (m->level >= MAX_CAPTURES)
        luaL_error(m->L, "too many captures");
    m->capture[m->level].start = s;
    m->capture[m->level].len = kind;
    m->level++;
    r = match_here(m, s, p);
    if (!r)
        m->level--;
    return r;
}

static const char *close_capture(Match *m, const char *s, const char *p)
{
    int i = m->level - 1;
    const char *r;

    while (i >= 0 && m->capture[i].len != OPEN)
        i--;
    if (i < 0)
        luaL_error(m->L, "invalid pattern capture");
    m->capture[i].len = s - m->capture[i].start;
    r = match_here(m, s, p);
    if (!r)
        m->capture[i].len = OPEN;
    return r;
}

static const char *match_back_reference(Match *m, const char *s, int digit)
{
    int i = digit - '1';
    size_t n;

    if (i < 0 || i >= m->level || m->capture[i].len == OPEN)
        luaL_error(m->L, "invalid capture index %%%d", i + 1);
    if (m->capture[i].len == POSITION) /* a position has no text to repeat */
        return NULL;
    n = (size_t)m->capture[i].len;
    steps(m, (ptrdiff_t)n / BYTES_A_STEP);
    if ((size_t)(m->text_end - s) < n || memcmp(m->capture[i].start, s, n) != 0)
        return NULL;
    return s + n;
}

static const char *match_frontier(Match *m, const char *s, const char *p, const char *end)
{
    int before = s == m->text ? 0 : (unsigned char)s[-1];
    int here = s < m->text_end ? (unsigned char)*s : 0;

    steps(m, (end - p) / BYTES_A_STEP * 2);
    return !in_set(before, p, end - 1) && in_set(here, p, end - 1) ? match_here(m, s, end)
                                                                   : NULL;
}

/* %b %f %1. *done: the item was one of them. */
static const char *match_escape(Match *m, const char *s, const char *p, bool *done)
{
    *done = true;
    if (p[1] == 'b') {
        s = match_balance(m, s, p + 2);
        return s ? match_here(m, s, p + 4) : NULL;
    }
    if (p[1] == 'f') {
        p += 2;
        if (p >= m->pattern_end || *p != '[')
            luaL_error(m->L, "missing '[' after '%%f' in pattern");
        return match_frontier(m, s, p, class_end(m, p));
    }
    if (p[1] >= '0' && p[1] <= '9') {
        s = match_back_reference(m, s, p[1]);
        return s ? match_here(m, s, p + 2) : NULL;
    }
    *done = false;
    return NULL;
}

static const char *match_item(Match *m, const char *s, const char *p)
{
    while (p < m->pattern_end) {
        const char *end, *r;

        step(m);
        if (*p == '(')
            return p + 1 < m->pattern_end && p[1] == ')'
                       ? open_capture(m, s, p + 2, POSITION)
                       : open_capture(m, s, p + 1, OPEN);
        if (*p == ')')
            return close_capture(m, s, p + 1);
        if (*p == '$' && p + 1 == m->pattern_end)
            return s == m->text_end ? s : NULL;
        if (*p == '%' && p + 1 < m->pattern_end) {
            bool done;

            r = match_escape(m, s, p, &done);
            if (done)
                return r;
        }
        end = class_end(m, p);
        switch (end < m->pattern_end ? *end : '\0') {
        case '*':
            return match_most(m, s, p, end);
        case '+':
            return match_one(m, s, p, end) ? match_most(m, s + 1, p, end) : NULL;
        case '-':
            return match_least(m, s, p, end);
        case '?':
            if (match_one(m, s, p, end)) {
                r = match_here(m, s + 1, end + 1);
                if (r)
                    return r;
            }
            p = end + 1;
            break;
        default:
            if (!match_one(m, s, p, end))
                return NULL;
            s++;
            p = end;
        }
    }
    return s;
}

static const char *match_here(Match *m, const char *s, const char *p)
{
    const char *r;

    if (++m->depth > MAX_DEPTH)
        luaL_error(m->L, "pattern too complex");
    r = match_item(m, s, p);
    m->depth--;
    return r;
}

/* ---- captures -------------------------------------------------------------------- */

static void push_capture(Match *m, int i, const char *s, const char *e)
{
    if (i >= m->level) {
        if (i != 0)
            luaL_error(m->L, "invalid capture index %%%d", i + 1);
        lua_pushlstring(m->L, s, (size_t)(e - s));
    } else if (m->capture[i].len == POSITION) {
        lua_pushinteger(m->L, m->capture[i].start - m->text + 1);
    } else {
        if (m->capture[i].len == OPEN)
            luaL_error(m->L, "unfinished capture");
        lua_pushlstring(m->L, m->capture[i].start, (size_t)m->capture[i].len);
    }
}

static int push_captures(Match *m, const char *s, const char *e)
{
    int n = m->level == 0 && s ? 1 : m->level;

    luaL_checkstack(m->L, n, "too many captures");
    for (int i = 0; i < n; i++)
        push_capture(m, i, s, e);
    return n;
}

static void match_start(Match *m, lua_State *L, const char *s, size_t n, const char *p,
                        size_t pn)
{
    m->L = L;
    m->text = s;
    m->text_end = s + n;
    m->pattern_end = p + pn;
    m->level = m->depth = 0;
}

/* Byte offset for Lua's init argument. */
static size_t start_of(lua_Integer init, size_t n)
{
    if (init > 0)
        return (size_t)init - 1;
    if (init == 0)
        return 0;
    return init < -(lua_Integer)n ? 0 : n + (size_t)init;
}

static bool is_plain(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!p[i] || strchr("^$*+?.([%-", p[i]))
            return false;
    return true;
}

/* ---- the four functions ---------------------------------------------------------- */

/* Upvalue 1: true for find, false for match. */
static int find_or_match(lua_State *L)
{
    bool find = lua_toboolean(L, lua_upvalueindex(1));
    size_t n, pn;
    const char *s = luaL_checklstring(L, 1, &n), *p = luaL_checklstring(L, 2, &pn);
    size_t at = start_of(luaL_optinteger(L, 3, 1), n);
    Match m = {0};
    bool anchor = pn && *p == '^';

    if (at > n) {
        lua_pushnil(L);
        return 1;
    }
    if (find && (lua_toboolean(L, 4) || is_plain(p, pn))) {
        const char *r = pn ? memmem(s + at, n - at, p, pn) : s + at;

        sandbox_charge(L, (int64_t)((n - at + pn) / BYTES_A_STEP + 1));
        if (!r) {
            lua_pushnil(L);
            return 1;
        }
        lua_pushinteger(L, r - s + 1);
        lua_pushinteger(L, r - s + (lua_Integer)pn);
        return 2;
    }
    match_start(&m, L, s, n, p, pn);
    p += anchor;
    for (const char *from = s + at; from <= m.text_end; from++) {
        const char *e;

        m.level = m.depth = 0;
        e = match_here(&m, from, p);
        if (e && find) {
            lua_pushinteger(L, from - s + 1);
            lua_pushinteger(L, e - s);
            return 2 + push_captures(&m, NULL, NULL);
        }
        if (e)
            return push_captures(&m, from, e);
        if (anchor)
            break;
    }
    sandbox_charge(L, m.steps);
    lua_pushnil(L);
    return 1;
}

/* Upvalues: subject, pattern, next start, end of the last match (-1: none). */
static int gmatch_next(lua_State *L)
{
    size_t n, pn;
    const char *s = lua_tolstring(L, lua_upvalueindex(1), &n);
    const char *p = lua_tolstring(L, lua_upvalueindex(2), &pn);
    lua_Integer last = lua_tointeger(L, lua_upvalueindex(4));
    Match m = {0};

    match_start(&m, L, s, n, p, pn);
    for (lua_Integer at = lua_tointeger(L, lua_upvalueindex(3)); at <= (lua_Integer)n;
         at++) {
        const char *e;

        m.level = m.depth = 0;
        e = match_here(&m, s + at, p);
        if (e && e - s != last) {
            lua_pushinteger(L, e - s);
            lua_copy(L, -1, lua_upvalueindex(3));
            lua_replace(L, lua_upvalueindex(4));
            return push_captures(&m, s + at, e);
        }
    }
    return 0;
}

static int str_gmatch(lua_State *L)
{
    size_t n;

    luaL_checklstring(L, 1, &n);
    luaL_checkstring(L, 2);
    lua_Integer at = (lua_Integer)start_of(luaL_optinteger(L, 3, 1), n);

    lua_settop(L, 2);
    lua_pushinteger(L, at);
    lua_pushinteger(L, -1);
    lua_pushcclosure(L, gmatch_next, 4);
    return 1;
}

static void add_string(Match *m, luaL_Buffer *b, const char *s, const char *e)
{
    size_t n;
    const char *r = lua_tolstring(m->L, 3, &n);

    for (size_t i = 0; i < n; i++) {
        step(m);
        if (r[i] != '%') {
            luaL_addchar(b, r[i]);
            continue;
        }
        i++;
        if (i < n && r[i] == '%') {
            luaL_addchar(b, '%');
        } else if (i < n && r[i] == '0') {
            luaL_addlstring(b, s, (size_t)(e - s));
        } else if (i < n && r[i] >= '1' && r[i] <= '9') {
            push_capture(m, r[i] - '1', s, e);
            luaL_tolstring(m->L, -1, NULL); /* positions are numbers */
            lua_remove(m->L, -2);
            luaL_addvalue(b);
        } else {
            luaL_error(m->L, "invalid use of '%%' in replacement string");
        }
    }
}

/* True if something replaced the match [s, e). */
static bool add_value(Match *m, luaL_Buffer *b, const char *s, const char *e, int type)
{
    lua_State *L = m->L;

    if (type == LUA_TFUNCTION) {
        int n;

        lua_pushvalue(L, 3);
        n = push_captures(m, s, e);
        lua_call(L, n, 1);
    } else if (type == LUA_TTABLE) {
        push_capture(m, 0, s, e);
        lua_gettable(L, 3);
    } else {
        add_string(m, b, s, e);
        return true;
    }
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
        luaL_addlstring(b, s, (size_t)(e - s));
        return false;
    }
    if (!lua_isstring(L, -1))
        luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    luaL_addvalue(b);
    return true;
}

static int str_gsub(lua_State *L)
{
    size_t n, pn;
    const char *s = luaL_checklstring(L, 1, &n), *p = luaL_checklstring(L, 2, &pn);
    const char *last = NULL;
    int type = lua_type(L, 3);
    lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)n + 1), count = 0;
    bool anchor = pn && *p == '^';
    Match m = {0};
    luaL_Buffer b;

    luaL_argexpected(L,
                     type == LUA_TNUMBER || type == LUA_TSTRING ||
                         type == LUA_TFUNCTION || type == LUA_TTABLE,
                     3, "string/function/table");
    lua_settop(L, 4);
    if (type == LUA_TNUMBER)
        lua_tolstring(L, 3, NULL);
    luaL_buffinit(L, &b);
    match_start(&m, L, s, n, p, pn);
    p += anchor;
    while (count < most) {
        const char *e;

        m.level = m.depth = 0;
        e = match_here(&m, s, p);
        if (e && e != last) {
            count++;
            add_value(&m, &b, s, e, type);
            s = last = e;
        } else if (s < m.text_end) {
            luaL_addchar(&b, *s);
            s++;
        } else {
            break;
        }
        if (anchor)
            break;
    }
    sandbox_charge(L, m.steps);
    luaL_addlstring(&b, s, (size_t)(m.text_end - s));
    luaL_pushresult(&b);
    lua_pushinteger(L, count);
    return 2;
}

void sandbox_install_match(lua_State *L)
{
    static const luaL_Reg others[] = {
        {"gmatch", str_gmatch}, {"gsub", str_gsub}, {NULL, NULL}};

    for (int find = 0; find < 2; find++) {
        lua_pushboolean(L, find);
        lua_pushcclosure(L, find_or_match, 1);
        lua_setfield(L, -2, find ? "find" : "match");
    }
    luaL_setfuncs(L, others, 0);
}
