/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c: op folders → g->ops. In: the embedded templates/ops, and each folder of --ops
 * DIR, which adds an op or replaces the built-in one of that name. A rule runs in the
 * sandbox with its own environment; gen/lua/op.lua checks it, and every mistake is a
 * message at its line. Out: OpRules sorted by name, so that the order of directories does
 * not matter. */
#include "ops/ops.h"
#include "describe/load.h"
#include "base/sandbox.h"
#include "base/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char ops_prefix[] = "templates/ops/";

/* ---- functions for the rule's checker -------------------------------------------- */

static Gen *up_gen(lua_State *L)
{
    return lua_touserdata(L, lua_upvalueindex(1));
}

static int c_problem(lua_State *L)
{
    lua_pushstring(L, dims_problem(up_gen(L), luaL_checkstring(L, 1)));
    return 1;
}

static int c_symbols(lua_State *L)
{
    const char *names[MAX_SYMS];
    int n = dims_symbols(up_gen(L), luaL_checkstring(L, 1), names, 0, MAX_SYMS);

    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushstring(L, names[i]);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

int ops_ident(lua_State *L)
{
    lua_pushboolean(L, ident_ok(luaL_checkstring(L, 1)));
    return 1;
}

/* The type of the model's field of that name, or nil. */
static int c_model_field(lua_State *L)
{
    Attr a;

    if (lua_type(L, 1) == LUA_TSTRING &&
        attr_from_model(up_gen(L), lua_tostring(L, 1), &a))
        lua_pushstring(L, attr_type_name(a.type));
    else
        lua_pushnil(L);
    return 1;
}

static void push_helpers(Gen *g)
{
    static const luaL_Reg helpers[] = {{"problem", c_problem},
                                       {"symbols", c_symbols},
                                       {"ident", ops_ident},
                                       {"model_field", c_model_field},
                                       {NULL, NULL}};

    lua_createtable(g->L, 0, 4);
    lua_pushlightuserdata(g->L, g);
    luaL_setfuncs(g->L, helpers, 1);
}

/* ---- one rule, from Lua into C --------------------------------------------------- */

static const char *field_text(Gen *g, const char *key)
{
    const char *s;

    lua_getfield(g->L, -1, key);
    s = lua_isstring(g->L, -1) ? gen_strdup(g, lua_tostring(g->L, -1)) : NULL;
    lua_pop(g->L, 1);
    return s;
}

static bool field_true(lua_State *L, const char *key)
{
    bool v;

    lua_getfield(L, -1, key);
    v = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return v;
}

/* Reads a list of operands: field `key` of the table on top of the stack. */
static Operand *read_operands(Gen *g, const char *key, const char *dtype_key, int *count)
{
    lua_State *L = g->L;
    Operand *list;

    lua_getfield(L, -1, key);
    *count = (int)sandbox_length(L, -1);
    list = gen_alloc(g, sizeof *list * (size_t)(*count + 1));
    for (int i = 0; i < *count; i++) {
        lua_rawgeti(L, -1, i + 1);
        list[i].name = field_text(g, "name");
        list[i].dims = field_text(g, "dims");
        if (!list[i].dims)
            list[i].dims = "";
        list[i].dtype = field_text(g, dtype_key);
        list[i].may_add = field_true(L, "add");
        list[i].alias = field_text(g, "alias");
        list[i].optional = field_true(L, "optional");
        list[i].form = field_text(g, "form");
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return list;
}

static void read_attr(Gen *g, AttrSpec *s)
{
    lua_State *L = g->L;
    const char *type = field_text(g, "type");

    s->key = field_text(g, "key");
    s->from = field_text(g, "from");
    lua_getfield(L, -1, "quiet");
    s->quiet = lua_toboolean(L, -1);
    lua_pop(L, 1);
    s->type = !strcmp(type, "int")      ? ATTR_INT
              : !strcmp(type, "number") ? ATTR_NUM
              : !strcmp(type, "string") ? ATTR_STR
                                        : ATTR_BOOL;
    s->dflt = (Attr){.key = s->key, .type = s->type};
    lua_getfield(L, -1, "default");
    s->has_default = !lua_isnil(L, -1);
    if (s->has_default) {
        if (s->type == ATTR_INT)
            s->dflt.i = lua_tointeger(L, -1);
        else if (s->type == ATTR_NUM)
            s->dflt.num = lua_tonumber(L, -1);
        else if (s->type == ATTR_STR)
            s->dflt.s = gen_strdup(g, lua_tostring(L, -1));
        else
            s->dflt.i = lua_toboolean(L, -1);
    }
    lua_pop(L, 1);
    if (s->from) {
        s->has_default = true;
        gen_require(attr_from_model(g, s->from, &s->dflt) && (int)s->dflt.type == s->type,
                    "attribute %s from %s", s->key, s->from);
        s->dflt.key = s->key;
    }
}

/* Reads the checked form on top of the stack. */
static void read_rule(Gen *g, OpRule *op)
{
    lua_State *L = g->L;
    OpInfo *info = op->info;

    op->in = read_operands(g, "inputs", "class", &op->n_in);
    op->out = read_operands(g, "outputs", "dtype", &op->n_out);
    info->role = field_text(g, "role");
    info->evaluates = field_text(g, "evaluates");
    info->canonical = field_text(g, "canonical");
    info->states_canonical = info->canonical != NULL;
    if (!info->canonical)
        info->canonical = op->name;
    lua_getfield(L, -1, "arithmetic");
    info->arithmetic = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    op->optimizer = info->role && !strcmp(info->role, "optimizer");
    op->collective = info->role && !strcmp(info->role, "collective");
    lua_getfield(L, -1, "attrs");
    info->n_attrs = (int)sandbox_length(L, -1);
    info->attrs = gen_alloc(g, sizeof *info->attrs * (size_t)(info->n_attrs + 1));
    for (int i = 0; i < info->n_attrs; i++) {
        lua_rawgeti(L, -1, i + 1);
        read_attr(g, &info->attrs[i]);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    lua_getfield(L, -1, "axes");
    info->n_axes = (int)sandbox_length(L, -1);
    info->axes = gen_alloc(g, sizeof *info->axes * (size_t)(info->n_axes + 1));
    for (int i = 0; i < info->n_axes; i++) {
        lua_rawgeti(L, -1, i + 1);
        info->axes[i].dim = field_text(g, "dim");
        info->axes[i].reduction = field_true(L, "reduction");
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    cuts_read(g, info);
}

static bool rule_has(lua_State *L, const OpRule *op, const char *key)
{
    bool has;

    ops_push_function(L, op, key);
    has = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return has;
}

/* Runs op.lua; its rule, in full, is on top of the stack. False after a message. */
static bool run_rule(Gen *g, OpRule *op)
{
    lua_State *L = g->L;
    OpInfo *info = op->info;
    int env = sandbox_env(g->L), status;

    lua_rawgeti(L, LUA_REGISTRYINDEX, env);
    rule_word_push(L);
    lua_setfield(L, -2, "op");
    lua_pop(L, 1);
    status = sandbox_run(g->L, info->text, info->text_bytes,
                         gen_printf(g, "@%s", info->path), env, 1);
    luaL_unref(L, LUA_REGISTRYINDEX, env);
    if (status) {
        ops_report_lua(g, op);
        return false;
    }
    return !rule_take_map(L) || ops_map_expand(g, op);
}

int ops_load_checker(Gen *g)
{
    lua_State *L = g->L;
    int rules = ops_load_function(g, "gen/lua/op.lua");
    int cuts = ops_load_function(g, "gen/lua/op_cuts.lua");

    lua_rawgeti(L, LUA_REGISTRYINDEX, rules);
    lua_rawgeti(L, LUA_REGISTRYINDEX, cuts);
    lua_call(L, 1, 1);
    luaL_unref(L, LUA_REGISTRYINDEX, rules);
    luaL_unref(L, LUA_REGISTRYINDEX, cuts);
    return luaL_ref(L, LUA_REGISTRYINDEX);
}

bool ops_take_rule(Gen *g, OpRule *op, int checker)
{
    lua_State *L = g->L;
    OpInfo *info = op->info;
    const KernelLibrary *library = g->model.kernel_library;
    int problems;

    lua_pushvalue(L, -1);
    op->lua_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_rawgeti(L, LUA_REGISTRYINDEX, checker);
    lua_insert(L, -2);
    push_helpers(g);
    if (sandbox_status(L, lua_pcall(L, 2, 2, 0))) {
        ops_report_lua(g, op);
        return false;
    }
    problems = (int)sandbox_length(L, -1);
    ops_report_problems(g, op);
    lua_pop(L, 1);
    if (!problems) {
        read_rule(g, op);
        info->scaled = rule_has(L, op, "scaled");
        info->same_bits = rule_has(L, op, "same_bits") && !ops_foreign(g, op);
        info->has_backward = rule_has(L, op, "backward");
        info->has_fp8 = rule_has(L, op, "fp8");
        info->has_encoded = rule_has(L, op, "encoded");
        node_cost_rule(L, op);
        info->has_check = rule_has(L, op, "check");
        info->has_flops = rule_has(L, op, "flops");
        info->has_bytes = rule_has(L, op, "bytes");
        info->has_bytes_cuda = rule_has(L, op, "bytes_cuda");
        info->has_products_cuda = rule_has(L, op, "products_cuda");
        info->has_workspace = rule_has(L, op, "workspace");
        info->has_library_kernel = library && ops_has_template(g, op, library->file);
        op->fused = rule_has(L, op, "expands");
    }
    lua_pop(L, 1);
    return problems == 0;
}

/* ---- folders --------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const OpRule *)a)->name, ((const OpRule *)b)->name);
}

/* Adds the folder's rule (texts only), replacing an earlier one of that name. */
static OpRule *add_folder(Gen *g, const char *name, const char *folder, const char *text,
                          size_t bytes, bool from_disk)
{
    OpRule *op = NULL;

    for (int i = 0; i < g->ops.count; i++)
        if (!strcmp(g->ops.items[i].name, name))
            op = &g->ops.items[i];
    if (!op)
        op = gen_push(g, &g->ops);
    *op = (OpRule){.name = gen_strdup(g, name), .folder = gen_strdup(g, folder)};
    op->info = gen_alloc(g, sizeof *op->info);
    *op->info = (OpInfo){.path = gen_printf(g, "%s/op.lua", folder),
                         .text = gen_strndup(g, text, bytes),
                         .text_bytes = bytes,
                         .from_disk = from_disk};
    return op;
}

static void add_embedded(Gen *g)
{
    size_t prefix = sizeof ops_prefix - 1;

    for (int i = 0; i < embedded_count; i++) {
        const char *path = embedded_files[i].path, *slash;
        const Embedded *e;

        if (strncmp(path, ops_prefix, prefix) != 0)
            continue;
        slash = strchr(path + prefix, '/');
        if (!slash || strcmp(slash, "/op.lua") != 0)
            continue;
        e = embed_find(path); /* with --share: from disk */
        gen_require(e, "%s is gone", path);
        add_folder(g, gen_strndup(g, path + prefix, (size_t)(slash - path) - prefix),
                   gen_strndup(g, path, (size_t)(slash - path)), (const char *)e->data,
                   e->bytes, false);
    }
}

static void add_disk(Gen *g, const char *dir)
{
    int count = 0;
    const OpFolder *folders = ops_folders(g, dir, &count);

    for (int i = 0; i < count; i++)
        add_folder(g, folders[i].name, folders[i].path, folders[i].text, folders[i].bytes,
                   true);
}

/* ---- gradients of formulas ------------------------------------------------------- */

static bool op_named(const Gen *g, const char *name)
{
    for (int i = 0; i < g->ops.count; i++)
        if (!strcmp(g->ops.items[i].name, name))
            return true;
    return false;
}

static void add_gradients(Gen *g, int checker)
{
    for (int i = 0, count = g->ops.count; i < count && !diag_errors(g); i++) {
        OpRule gradient = {0};

        if (!ops_map_gradient(g, &g->ops.items[i], &gradient))
            continue;
        if (op_named(g, gradient.name))
            diag_add(g, DIAG_ERROR, ops_place(g, &g->ops.items[i], NULL, NULL),
                     "give one of them another name, or this op a `backward`",
                     "op %s: its gradient is %s, and there is an op %s already",
                     g->ops.items[i].name, gradient.name, gradient.name);
        else if (ops_take_rule(g, &gradient, checker) && ops_map_finish(g, &gradient))
            *gen_push(g, &g->ops) = gradient;
    }
}

/* ---- forms: ops without their optional outputs ----------------------------------- */

/* Adds the form of an op without the outputs marked with this word; maker: registry
 * reference of op_form.lua's function. */
static void add_form(Gen *g, int of, const char *word, int maker)
{
    lua_State *L = g->L;
    const OpRule *op = &g->ops.items[of];
    OpRule form = *op;
    const char *name = gen_printf(g, "%s_%s", op->name, word);

    if (op_named(g, name)) {
        diag_add(g, DIAG_ERROR, ops_place(g, op, "outputs", word), NULL,
                 "op %s: there is an op %s already", op->name, name);
        return;
    }
    form.name = name;
    form.info = gen_alloc(g, sizeof *form.info);
    *form.info = *op->info;
    form.info->form_of = op->name;
    form.info->form = word;
    form.info->canonical = gen_printf(g, "%s_%s", op->info->canonical, word);
    form.info->has_backward = form.info->has_fp8 = form.info->has_encoded = false;
    form.n_out = 0;
    form.out = gen_alloc(g, sizeof *form.out * (size_t)op->n_out);
    for (int i = 0; i < op->n_out; i++)
        if (!op->out[i].form || strcmp(op->out[i].form, word) != 0)
            form.out[form.n_out++] = op->out[i];
    lua_rawgeti(L, LUA_REGISTRYINDEX, maker);
    lua_rawgeti(L, LUA_REGISTRYINDEX, op->lua_ref);
    lua_pushstring(L, word);
    if (lua_pcall(L, 2, 1, 0))
        sandbox_fault(L, word);
    form.lua_ref = luaL_ref(L, LUA_REGISTRYINDEX);
    *gen_push(g, &g->ops) = form;
}

static void add_forms(Gen *g)
{
    int maker = ops_load_function(g, "gen/lua/op_form.lua"), count = g->ops.count;

    for (int i = 0; i < count; i++)
        for (int k = 0; k < g->ops.items[i].n_out; k++) {
            const Operand *out = g->ops.items[i].out;
            bool first = out[k].form != NULL;

            for (int before = 0; first && before < k; before++)
                first = !out[before].form || strcmp(out[before].form, out[k].form) != 0;
            if (first)
                add_form(g, i, out[k].form, maker);
        }
    luaL_unref(g->L, LUA_REGISTRYINDEX, maker);
    if (g->ops.count)
        qsort(g->ops.items, (size_t)g->ops.count, sizeof *g->ops.items, by_name);
}

/* Each role but an optimizer's has one op; what parts exchange is for fsdpgen to say. */
static void check_role(Gen *g, const OpRule *op)
{
    const OpRule *first;

    if (!op->info->role || op->optimizer)
        return;
    first = ops_role(g, op->info->role);
    if (op->collective && ops_foreign(g, op))
        diag_add(g, DIAG_ERROR, ops_place(g, op, "role", NULL), "leave it out",
                 "op %s: the role \"%s\" is for a built-in op", op->name, op->info->role);
    else if (first != op)
        diag_add(g, DIAG_ERROR, ops_place(g, op, "role", NULL), NULL,
                 "op %s: %s has the role \"%s\" already", op->name, first->name,
                 op->info->role);
}

void ops_load(Gen *g)
{
    int checker;

    add_embedded(g);
    if (g->opt.ops_dir)
        add_disk(g, g->opt.ops_dir);
    if (g->ops.count)
        qsort(g->ops.items, (size_t)g->ops.count, sizeof *g->ops.items, by_name);
    checker = ops_load_checker(g);
    for (int i = 0; i < g->ops.count; i++) {
        OpRule *op = &g->ops.items[i];

        if (!run_rule(g, op) || !ops_take_rule(g, op, checker) ||
            !ops_map_finish(g, op)) {
            if (sandbox_of(g->L)->expired)
                break; /* no later rule could run */
            continue;
        }
        check_role(g, op);
    }
    if (!diag_errors(g))
        add_gradients(g, checker);
    if (!diag_errors(g))
        ops_add_scales(g, checker);
    luaL_unref(g->L, LUA_REGISTRYINDEX, checker);
    if (!diag_errors(g))
        add_forms(g);
    if (!diag_errors(g))
        ops_check_canonical(g);
}

/* ---- questions ------------------------------------------------------------------- */

const OpRule *ops_find(const Gen *g, const char *name)
{
    int low = 0, high = g->ops.count;

    while (low < high) {
        int middle = low + (high - low) / 2;
        int c = strcmp(name, g->ops.items[middle].name);

        if (c == 0)
            return &g->ops.items[middle];
        if (c < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const OpRule *ops_role(const Gen *g, const char *role)
{
    for (int i = 0; i < g->ops.count; i++)
        if (g->ops.items[i].info->role && !strcmp(g->ops.items[i].info->role, role))
            return &g->ops.items[i];
    return NULL;
}

const char *ops_nearest(Gen *g, const char *name)
{
    const char **names = gen_alloc(g, sizeof *names * (size_t)(g->ops.count + 1));

    for (int i = 0; i < g->ops.count; i++)
        names[i] = g->ops.items[i].name;
    return diag_nearest(name, names, g->ops.count);
}

const OpRule *ops_form(const Gen *g, const OpRule *op, const bool *dead)
{
    const OpRule *best = NULL;

    for (int i = 0; i < g->ops.count; i++) {
        const OpRule *form = &g->ops.items[i];
        bool fits = form->info->form_of && !strcmp(form->info->form_of, op->name);

        for (int k = 0; fits && k < op->n_out; k++)
            fits = dead[k] || !op->out[k].form ||
                   strcmp(op->out[k].form, form->info->form) != 0;
        if (fits && (!best || form->n_out < best->n_out))
            best = form;
    }
    return best;
}

const KernelLibrary *ops_kernel_library(const Gen *g, const OpRule *op)
{
    return op->info->has_library_kernel ? g->model.kernel_library : NULL;
}

const char *ops_kernel_file(const Gen *g, const KernelLibrary *library)
{
    return library ? library->file : g->model.target->kernel_file;
}

const char *ops_template_path(Gen *g, const OpRule *op, const char *file)
{
    return gen_printf(g, "%s/%s", op->folder, file);
}

const char *ops_folder_file(Gen *g, const OpRule *op, const char *file, size_t *bytes)
{
    const char *path = ops_template_path(g, op, file), *text;
    const Embedded *e;

    if (op->info->from_disk)
        return read_whole_file(path, &text, bytes) == 0 ? text : NULL;
    e = embed_find(path);
    *bytes = e ? e->bytes : 0;
    return e ? (const char *)e->data : NULL;
}

void ops_push_function(lua_State *L, const OpRule *op, const char *key)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, op->lua_ref);
    lua_pushstring(L, key);
    lua_rawget(L, -2);
    lua_remove(L, -2);
}
