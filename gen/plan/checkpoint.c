/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c: the files of a checkpoint: which parameter lies where, and the
 * config.json that makes them a model of Hugging Face's.
 *
 * In: checkpoint.file_size and the architecture's config (check), the parameters
 * (graph). Out: Param.file, file_elems; Model.n_files, config_json. Breaks: nothing.
 *
 * The layout knows the model and nothing else: parameters in the model's order, whole, a
 * new file when the next one would exceed file_size. So ranks, strategy and wrap are
 * free, and files are equal byte for byte. */
#include "describe/load.h"
#include "plan/plan.h"
#include "base/sandbox.h"

#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ----------------------------------------------------------------------- */

static void place_params(Gen *g)
{
    Model *m = &g->model;
    int64_t bytes = 0, elems = 0; /* in the file so far */

    m->n_files = 1;
    for (int i = 0; i < g->params.count; i++) {
        Param *p = &g->params.items[i];
        const int64_t more = p->elems * dtype_bytes(p->decl->dtype);

        if (bytes > 0 && bytes + more > m->file_bytes) {
            m->n_files++;
            bytes = elems = 0;
        }
        p->file = m->n_files - 1;
        p->file_elems = elems;
        elems += p->elems;
        bytes += more;
    }
}

/* Each element of each parameter has one place, without gaps, and no file is larger than
 * asked but for a single tensor. */
const char *verify_checkpoint(Gen *g)
{
    const Model *m = &g->model;
    int64_t bytes = 0, elems = 0;
    int file = 0;

    for (int i = 0; i < g->params.count; i++) {
        const Param *p = &g->params.items[i];

        if (p->file == file + 1 && elems > 0) {
            file++;
            bytes = elems = 0;
        }
        if (p->file != file || p->file_elems != elems)
            return gen_printf(g, "parameter %s: file %d at %lld, not %d at %lld", p->name,
                              p->file, (long long)p->file_elems, file, (long long)elems);
        elems += p->elems;
        bytes += p->elems * dtype_bytes(p->decl->dtype);
        if (bytes > m->file_bytes && elems > p->elems)
            return gen_printf(g, "file %d is larger than checkpoint.file_size", file);
    }
    if (file != m->n_files - 1)
        return gen_printf(g, "%d files, not %d", file + 1, m->n_files);
    return NULL;
}

/* ---- config.json ----------------------------------------------------------------- */

/* The shortest text that reads back as x, with a point or an exponent. */
static const char *json_number(Gen *g, double x)
{
    char s[40];
    int digits = 1;

    if (x == floor(x) && fabs(x) < 1e15)
        return gen_printf(g, "%.1f", x);
    do {
        snprintf(s, sizeof s, "%.*g", digits, x);
    } while (strtod(s, NULL) != x && digits++ < 17);
    return gen_printf(g, "%s%s", s, strpbrk(s, ".e") ? "" : ".0");
}

static bool is_plain(const char *s)
{
    for (; *s; s++)
        if (*s < 32 || *s > 126 || *s == '"' || *s == '\\')
            return false;
    return true;
}

static bool put_json(Gen *g, Text *t, int indent);

/* A list on top of the stack: of { key, value } an object, of strings an array; empty:
 * null. */
static bool put_list(Gen *g, Text *t, int indent)
{
    lua_State *L = g->L;
    lua_Integer n = sandbox_length(L, -1);
    bool object = n > 0 && lua_rawgeti(L, -1, 1) == LUA_TTABLE, ok = true;

    if (n == 0) {
        text_printf(t, "null");
        return true;
    }
    lua_pop(L, 1);
    text_printf(t, "%s\n", object ? "{" : "[");
    for (lua_Integer i = 1; ok && i <= n; i++) {
        text_printf(t, "%*s", indent + 2, "");
        lua_rawgeti(L, -1, i);
        if (object) {
            ok = lua_istable(L, -1) && lua_rawgeti(L, -1, 1) == LUA_TSTRING &&
                 is_plain(lua_tostring(L, -1));
            if (!ok)
                return false;
            text_printf(t, "\"%s\": ", lua_tostring(L, -1));
            lua_pop(L, 1);
            lua_rawgeti(L, -1, 2);
            lua_remove(L, -2);
        }
        ok = put_json(g, t, indent + 2);
        lua_pop(L, 1);
        text_printf(t, "%s\n", i < n ? "," : "");
    }
    text_printf(t, "%*s%s", indent, "", object ? "}" : "]");
    return ok;
}

static bool put_json(Gen *g, Text *t, int indent)
{
    lua_State *L = g->L;

    switch (lua_type(L, -1)) {
    case LUA_TBOOLEAN:
        text_printf(t, "%s", lua_toboolean(L, -1) ? "true" : "false");
        return true;
    case LUA_TSTRING:
        text_printf(t, "\"%s\"", lua_tostring(L, -1));
        return is_plain(lua_tostring(L, -1));
    case LUA_TNUMBER:
        if (lua_isinteger(L, -1))
            text_printf(t, "%lld", (long long)lua_tointeger(L, -1));
        else
            text_printf(t, "%s", json_number(g, lua_tonumber(L, -1)));
        return isfinite(lua_tonumber(L, -1));
    case LUA_TTABLE:
        return indent < 40 && put_list(g, t, indent);
    default:
        return false;
    }
}

/* What the architecture knows of the trainer beyond its own fields. */
static void push_trainer(Gen *g)
{
    static const char *const names[][2] = {
        {"f32", "float32"}, {"f64", "float64"}, {"bf16", "bfloat16"}, {"f16", "float16"}};
    lua_State *L = g->L;

    lua_newtable(L);
    for (int i = 0; i < 4; i++) {
        if (strcmp(names[i][0], dtype_name(g->model.param_dtype)))
            continue;
        lua_pushstring(L, names[i][1]);
        lua_setfield(L, -2, "dtype");
    }
    if (g->model.packed) {
        lua_pushinteger(L, g->model.document_end);
        lua_setfield(L, -2, "document_end");
    }
}

/* Is a list that begins with a list on top of the stack? */
static bool is_object(lua_State *L)
{
    bool object = false;

    if (lua_istable(L, -1)) {
        object = lua_rawgeti(L, -1, 1) == LUA_TTABLE;
        lua_pop(L, 1);
    }
    return object;
}

/* Its config(m, t) returns a list of { key, value }, or nil where Hugging Face has no
 * such model. */
static void make_config(Gen *g)
{
    lua_State *L = g->L;
    Text t = {.g = g};

    if (g->model.config_ref == LUA_NOREF)
        return;
    lua_rawgeti(L, LUA_REGISTRYINDEX, g->model.config_ref);
    lua_rawgeti(L, LUA_REGISTRYINDEX, g->model.model_ref);
    push_trainer(g);
    if (sandbox_status(L, lua_pcall(L, 2, 1, 0)) != LUA_OK) {
        loader_lua_error(g, "model", model_pos(g, "model"));
        return;
    }
    if (!lua_isnil(L, -1)) {
        if (!is_object(L) || !put_list(g, &t, 0))
            diag_add(g, DIAG_ERROR, model_pos(g, "model"),
                     "return a list of { key, value }; values: plain strings, numbers, "
                     "booleans, lists of strings, such lists again; {} as a value is "
                     "null; where Hugging Face has no such model, return nil",
                     "arch %s: what config returned is no config.json", g->model.arch);
        text_printf(&t, "\n");
        g->model.config_json = t.s;
    }
    lua_pop(L, 1);
}

/* ---- a copy of what a rank writes ------------------------------------------------ */

/* Bytes in files of an element of the segment; of a matrix the second moment is none. */
static void file_bytes(const Gen *g, const Segment *s, int64_t *item, int64_t *moment2)
{
    const Model *m = &g->model;
    bool split = m->master_dtype == DT_SPLIT;

    *item = dtype_bytes(s->dtype);
    *moment2 = 0;
    for (int i = 0; i < g->prog.bufs.count; i++) {
        const Buffer *b = &g->prog.bufs.items[i];

        if (b->segment != s->id)
            continue;
        if (b->kind == BUF_MASTER)
            *item += dtype_bytes(split ? DT_F32 : m->master_dtype);
        if (b->kind == BUF_MOMENT1)
            *item += dtype_bytes(m->moments_dtype);
        if (b->kind == BUF_MOMENT2)
            *moment2 = dtype_bytes(m->moments_dtype);
    }
}

/* Of elements lo .. hi of a segment. */
static int64_t range_bytes(const Gen *g, const Segment *s, int64_t lo, int64_t hi,
                           int64_t item, int64_t moment2)
{
    int64_t bytes = 0;

    for (int i = 0; i < s->n_params; i++) {
        const Param *p = &g->params.items[s->params[i]];

        bytes += layout_between(p, lo, hi) * (item + (p->matrix ? 0 : moment2));
    }
    return bytes;
}

/* A rank writes its shard, or its share of it where several ranks hold the same, in
 * grains; the copy of it has no pads. Of the rank that writes most. */
int64_t checkpoint_snapshot_bytes(Gen *g)
{
    int world = g->model.mesh.world_size;
    int64_t *bytes = gen_alloc(g, (size_t)world * sizeof *bytes), most = 0;

    for (int i = 0; i < g->segments.count; i++) {
        const Segment *s = &g->segments.items[i];
        int64_t item, moment2;

        file_bytes(g, s, &item, &moment2);
        for (int r = 0; r < world; r++) {
            Stretch share = layout_share(g, s, r);

            bytes[r] += range_bytes(g, s, share.lo, share.hi, item, moment2);
        }
    }
    for (int r = 0; r < world; r++)
        most = max_i64(most, bytes[r]);
    return most;
}

/* ---- the pass -------------------------------------------------------------------- */

void checkpoint_layout(Gen *g)
{
    place_params(g);
    make_config(g);
}

void checkpoint_dump(Gen *g, Text *t)
{
    for (int i = 0; i < g->params.count; i++) {
        const Param *p = &g->params.items[i];

        if (p->file_elems == 0)
            text_printf(t, "file %d of %d\n", p->file + 1, g->model.n_files);
        text_printf(t, "  %14lld %12lld %s", (long long)p->file_elems,
                    (long long)p->elems, p->name);
        for (int k = 0; k < p->decl->n_parts; k++)
            text_printf(t, "%s %s", k ? "," : ":", p->decl->part_name[k]);
        text_printf(t, "\n");
    }
    text_printf(t, "config.json\n%s",
                g->model.config_json ? g->model.config_json : "none\n");
}
