/* SPDX-License-Identifier: Apache-2.0 */
/* op_test.c: runs tests/ops/op_test.lua, which tests op folders, in the
 * generator's own sandbox. In: op folders, built in or from outside. Out: the number of
 * failures, each printed. This file does what Lua cannot: infer a node, render, compile
 * and run kernels on typed buffers. */
#include "op_test/op_test.h"

#include "base/sandbox.h"
#include "describe/target.h"

#include <inttypes.h>
#include <string.h>

static struct {
    Gen *g;
    const OpTestOptions *o;
    Kernels *kernels;
    struct {
        Node **items;
        int count, cap;
    } nodes;
    bool cuda;
    int env; /* of the script */
    int failures;
} test;

/* ---- operands from Lua ----------------------------------------------------------- */

/* { shape = {..}, dtype = ".." } at index */
static Value *check_value(lua_State *L, int index, const char *name)
{
    Value *v = gen_alloc(test.g, sizeof *v);

    v->name = name;
    lua_getfield(L, index, "dtype");
    v->dtype = op_test_dtype(L, -1);
    lua_pop(L, 1);
    lua_getfield(L, index, "shape");
    v->n_dims = (int)lua_rawlen(L, -1);
    v->elems = 1;
    for (int i = 0; i < v->n_dims && i < MAX_DIMS; i++) {
        lua_rawgeti(L, -1, i + 1);
        v->dim[i] = luaL_checkinteger(L, -1);
        v->elems *= v->dim[i];
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    v->bytes = v->elems * dtype_bytes(v->dtype);
    return v;
}

static void push_value(lua_State *L, const Value *v)
{
    lua_newtable(L);
    emit_str(L, "dtype", dtype_name(v->dtype));
    emit_int(L, "elems", v->elems);
    lua_newtable(L);
    for (int i = 0; i < v->n_dims; i++) {
        lua_pushinteger(L, v->dim[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "shape");
}

/* The values in the table at index, by their places; one that is omitted is nil. */
static void take_inputs(lua_State *L, int index, Node *n)
{
    const OpRule *op = n->op;

    n->in = gen_alloc(test.g, sizeof *n->in * (size_t)(op->n_in + 1));
    for (int i = 0; i < op->n_in; i++) {
        if (lua_rawgeti(L, index, i + 1) != LUA_TNIL)
            n->in[i] = check_value(L, lua_gettop(L), op->in[i].name);
        else if (!op->in[i].optional)
            luaL_error(L, "%s: its input %s is missing", op->name, op->in[i].name);
        lua_pop(L, 1);
    }
    if (lua_rawgeti(L, index, op->n_in + 1) != LUA_TNIL)
        luaL_error(L, "%s takes %d inputs, but there is one more", op->name, op->n_in);
    lua_pop(L, 1);
    n->n_in = builder_given(op, n->in, n->in, &n->omitted);
}

/* infer(op, inputs, attrs) -> { id, outs, workspace, n }: a node of the given op */
static int l_infer(lua_State *L)
{
    Gen *g = test.g;
    const OpRule *op = op_test_op(L, 1);
    Node *n = gen_alloc(g, sizeof *n);

    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_checktype(L, 3, LUA_TTABLE);
    n->op = op;
    n->name = op->name;
    n->n_out = op->n_out;
    n->add = gen_alloc(g, sizeof *n->add * (size_t)(op->n_out + 1));
    take_inputs(L, 2, n);
    n->out = gen_alloc(g, sizeof *n->out * (size_t)(op->n_out + 1));
    for (int i = 0; i < op->n_out; i++) {
        n->out[i] = gen_alloc(g, sizeof **n->out);
        n->out[i]->name = op->out[i].name;
        n->out[i]->def = n;
        n->out[i]->def_out = i;
    }
    n->n_attrs = op->info->n_attrs;
    n->attrs = gen_alloc(g, sizeof *n->attrs * (size_t)(n->n_attrs + 1));
    builder_attrs(builder_get(g), op, 3, n->attrs);
    infer_node(g, n);
    *gen_push(g, &test.nodes) = n;
    lua_newtable(L);
    emit_int(L, "id", test.nodes.count - 1);
    emit_int(L, "workspace", n->workspace_bytes);
    emit_num(L, "flops", n->flops);
    lua_newtable(L);
    for (int i = 0; i < op->n_out; i++) {
        push_value(L, n->out[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "outs");
    infer_push_n(g, n);
    lua_setfield(L, -2, "n");
    return 1;
}

/* shape(dims, symbols) -> { .. }, or nil where a symbol has no whole number */
static int l_shape(lua_State *L)
{
    const char *p = luaL_checkstring(L, 1);
    Syms syms = {0};
    int n = 0;

    for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1))
        if (lua_isinteger(L, -1) && syms.n < MAX_SYMS) {
            syms.name[syms.n] = lua_tostring(L, -2);
            syms.value[syms.n++] = lua_tointeger(L, -1);
        }
    lua_newtable(L);
    while (*p) {
        size_t bytes = strcspn(p, " ");
        int64_t v;

        if (!dims_eval(p, bytes, &syms, &v))
            return 0;
        lua_pushinteger(L, v);
        lua_rawseti(L, -2, ++n);
        p += bytes;
        p += strspn(p, " ");
    }
    return 1;
}

/* dtypes(param, reduce): what the following nodes are inferred for */
static int l_dtypes(lua_State *L)
{
    test.g->model.param_dtype = op_test_dtype(L, 1);
    test.g->model.reduce_dtype = op_test_dtype(L, 2);
    test.g->model.loss_scale_init = test.g->model.param_dtype == DT_F16;
    return 0;
}

static int l_rule(lua_State *L)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, op_test_op(L, 1)->lua_ref);
    return 1;
}

/* cuts(op) -> { { axis, free, ordered, repeats }, ... } */
static int l_cuts(lua_State *L)
{
    const OpInfo *info = op_test_op(L, 1)->info;

    lua_newtable(L);
    for (int i = 0; i < info->n_cuts; i++) {
        lua_newtable(L);
        emit_str(L, "axis", info->cuts[i].axis);
        emit_bool(L, "free", info->cuts[i].free);
        emit_bool(L, "ordered", info->cuts[i].ordered);
        if (info->cuts[i].repeats)
            emit_str(L, "repeats", info->cuts[i].repeats);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

/* Parts as { [place of the operand] = { dim, sections, weights }, "sum" or "max" } in
 * field `key` of the table on top; weights: names of attributes. Of the node's inputs, or
 * outputs. */
static void push_parts(lua_State *L, const char *key, const PartState *parts,
                       const Cut *cut, const Node *node, bool inputs)
{
    lua_newtable(L);
    for (int i = 0; i < (inputs ? node->n_in : node->n_out); i++) {
        const PartState *p = &parts[i];
        const CutOperand *o = cuts_operand(cut, inputs ? node_operand(node, i)->name
                                                       : node->op->out[i].name);

        if (p->kind == PART_WHOLE)
            continue;
        if (part_is_made(p)) {
            lua_pushstring(L, p->kind == PART_PARTIAL ? "sum" : "max");
        } else {
            lua_newtable(L);
            emit_int(L, "dim", p->dim + 1);
            lua_newtable(L);
            for (int k = 0; k < p->sections.n; k++) {
                lua_pushinteger(L, p->sections.elems[k]);
                lua_rawseti(L, -2, k + 1);
            }
            lua_setfield(L, -2, "sections");
            lua_newtable(L);
            for (int k = 0; k < o->n_weights; k++) {
                lua_pushstring(L, o->weight[k]);
                lua_rawseti(L, -2, k + 1);
            }
            lua_setfield(L, -2, "weights");
        }
        lua_rawseti(L, -2, (inputs ? operand_index(node, i) : i) + 1);
    }
    lua_setfield(L, -2, key);
}

/* cut(node id, axis, sections or nil) -> { inputs, outputs, attrs }, or nil */
static int l_cut(lua_State *L)
{
    const Node *n = test.nodes.items[luaL_checkinteger(L, 1)];
    const char *axis = luaL_checkstring(L, 2);
    const Cut *cut = NULL;
    const PartState *parts;
    Sections s = {0};

    for (int i = 0; i < n->op->info->n_cuts; i++)
        if (!strcmp(n->op->info->cuts[i].axis, axis))
            cut = &n->op->info->cuts[i];
    if (!cut)
        return luaL_error(L, "%s has no cut %s", n->op->name, axis);
    if (lua_istable(L, 3)) {
        s.n = (int)lua_rawlen(L, 3);
        s.elems = gen_alloc(test.g, sizeof *s.elems * (size_t)(s.n + 1));
        for (int i = 0; i < s.n; i++) {
            lua_rawgeti(L, 3, i + 1);
            s.elems[i] = luaL_checkinteger(L, -1);
            lua_pop(L, 1);
        }
    }
    parts = cuts_parts(test.g, n, cut, s.n ? &s : NULL);
    if (!parts)
        return 0;
    lua_newtable(L);
    push_parts(L, "inputs", parts, cut, n, true);
    push_parts(L, "outputs", parts + n->n_in, cut, n, false);
    lua_newtable(L);
    for (int i = 0; i < cut->n_attrs; i++) {
        lua_pushstring(L, cut->attrs[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "attrs");
    return 1;
}

static int l_names(lua_State *L)
{
    lua_newtable(L);
    for (int i = 0; i < test.g->ops.count; i++) {
        lua_pushstring(L, test.g->ops.items[i].name);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int l_hash(lua_State *L)
{
    size_t n;
    const char *text = luaL_checklstring(L, 1, &n);

    lua_pushstring(L, gen_printf(test.g, "%016" PRIx64, hash_bytes(text, n)));
    return 1;
}

static int l_print(lua_State *L)
{
    puts(luaL_checkstring(L, 1));
    fflush(stdout);
    return 0;
}

/* Runs tests/ops/NAME.lua and pushes its result. Its own lines, of "=", are not what
 * messages point at. */
static void run_file(lua_State *L, const char *name)
{
    const Embedded *e = emit_embedded(gen_printf(test.g, "tests/ops/%s.lua", name));

    if (sandbox_load(L, (const char *)e->data, e->bytes,
                     gen_printf(test.g, "=%s.lua", name)))
        lua_error(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, test.env);
    lua_setupvalue(L, -2, 1);
    lua_call(L, 0, 1);
}

/* part(name): what another file of the script returns */
static int l_part(lua_State *L)
{
    run_file(L, luaL_checkstring(L, 1));
    return 1;
}

/* ---- kernels --------------------------------------------------------------------- */

/* kernel(node id) -> kernel id, or nil when the op has no cpu.c, or cuda.cu */
static int l_kernel(lua_State *L)
{
    Node *n = test.nodes.items[luaL_checkinteger(L, 1)];
    bool beta = false;
    int id;

    n->kernel = gen_printf(test.g, "%s_%d", n->op->name, (int)luaL_checkinteger(L, 1));
    for (int i = 0; i < n->n_out; i++)
        beta = beta || n->op->out[i].may_add;
    ops_push_env(test.g, n);
    id = kernels_add(test.kernels, n->op, n->kernel, n->n_in + n->n_out, beta,
                     n->workspace_bytes > 0);
    if (id < 0)
        return 0;
    lua_pushinteger(L, id);
    return 1;
}

/* optimizer(op, attrs, { dtype of each input }, name) -> kernel id, or nil */
static int l_optimizer(lua_State *L)
{
    const OpRule *op = op_test_op(L, 1);
    const char *name = luaL_checkstring(L, 4);
    int id;

    lua_newtable(L);
    emit_str(L, "fn", name);
    emit_str(L, "acc", dtype_ctype(ops_acc_dtype(test.g)));
    emit_bool(L, "optimizer", true);
    for (int i = 0; i < op->info->n_attrs; i++) {
        lua_getfield(L, 2, op->info->attrs[i].key);
        lua_setfield(L, -2, op->info->attrs[i].key);
    }
    for (int i = 0; i < op->n_in; i++) {
        Dtype d;

        lua_rawgeti(L, 3, i + 1);
        d = op_test_dtype(L, -1);
        lua_pop(L, 1);
        lua_newtable(L);
        emit_str(L, "name", op->in[i].name);
        emit_str(L, "type", dtype_ctype(d));
        emit_str(L, "dtype", dtype_name(d));
        lua_setfield(L, -2, op->in[i].name);
    }
    id = kernels_add(test.kernels, op, name, op->n_in, false, false);
    if (id < 0)
        return 0;
    lua_pushinteger(L, id);
    return 1;
}

static int l_compile(lua_State *L)
{
    lua_pushboolean(L, kernels_compile(test.kernels, test.o->jobs));
    return 1;
}

static int l_of_platform(lua_State *L)
{
    lua_pushboolean(L, kernels_of_platform(test.kernels, (int)luaL_checkinteger(L, 1)));
    return 1;
}

static int l_run(lua_State *L)
{
    return op_test_run(L, test.g, test.kernels, test.cuda);
}

/* moved(node id): the bytes that plan prices its kernel by, and those of passes beside
 * products */
static int l_moved(lua_State *L)
{
    Node *n = test.nodes.items[luaL_checkinteger(L, 1)];

    node_cost(test.g, n);
    lua_pushinteger(L, n->cost.moved_bytes);
    lua_pushinteger(L, n->cost.pass_bytes);
    return 2;
}

/* of_products(kernel id): does it call the library of products? */
static int l_of_products(lua_State *L)
{
    lua_pushboolean(L, kernels_of_products(test.kernels, (int)luaL_checkinteger(L, 1)));
    return 1;
}

/* foreign(op): does its folder come from outside? */
static int l_foreign(lua_State *L)
{
    lua_pushboolean(L, op_test_op(L, 1)->info->from_disk);
    return 1;
}

/* ---- the run --------------------------------------------------------------------- */

static void open_generator(Gen *g, const char *ops_dir)
{
    g->opt.command = "check";
    g->opt.ops_dir = ops_dir;
    g->model.param_dtype = g->model.reduce_dtype = DT_F32;
    g->model.master_dtype = g->model.moments_dtype = DT_F32;
    g->model.seq_tokens = g->model.micro_batch = 1;
    g->model.loss_chunk_tokens = 16;
    g->L = sandbox_open(g);
    sandbox_budget(g->L, INT64_MAX / 4, (size_t)4 << 30);
    lua_gc(g->L, LUA_GCRESTART); /* references make much garbage */
    ops_load(g);
    diag_stop_on_errors(g);
    /* no trainer is here to give a field: the case says it, and then a backward must */
    for (int i = 0; i < g->ops.count; i++)
        for (int k = 0; k < g->ops.items[i].info->n_attrs; k++) {
            AttrSpec *spec = &g->ops.items[i].info->attrs[k];

            spec->has_default = spec->has_default && !spec->from;
        }
}

static void push_host(lua_State *L, const OpTestOptions *o)
{
    static const luaL_Reg host[] = {
        {"infer", l_infer},
        {"shape", l_shape},
        {"dtypes", l_dtypes},
        {"rule", l_rule},
        {"names", l_names},
        {"cuts", l_cuts},
        {"cut", l_cut},
        {"print", l_print},
        {"hash", l_hash},
        {"kernel", l_kernel},
        {"optimizer", l_optimizer},
        {"compile", l_compile},
        {"of_platform", l_of_platform},
        {"of_products", l_of_products},
        {"run", l_run},
        {"part", l_part},
        {"foreign", l_foreign},
        {"moved", l_moved},
        {NULL, NULL},
    };

    luaL_newlib(L, host);
    op_test_numbers(L);
    op_test_blame(L, test.g, o);
    emit_str(L, "only", o->only);
    emit_str(L, "ops", o->ops ? o->ops : "templates/ops");
    emit_int(L, "cases", o->cases);
    emit_int(L, "seed", o->seed);
    emit_bool(L, "digests", o->digests);
    emit_bool(L, "golden", o->golden);
    emit_bool(L, "bytes", o->bytes);
    emit_bool(L, "person", o->person);
    emit_bool(L, "formulas", o->formulas);
    emit_bool(L, "cuda", test.cuda);
    emit_bool(L, "device", o->device != NULL);
}

/* The script itself, inside builder_protect. */
static int run_script(lua_State *L)
{
    run_file(L, "op_test");
    test.failures = (int)lua_tointeger(L, -1);
    return 0;
}

static void open_kernels(Gen *g, const OpTestOptions *o)
{
    const char *root = op_test_word(g, o->root);
    const char *flags = gen_printf(g, "-I%s/runtime -I%s/runtime/cuda %s%s", root, root,
                                   o->flags, test.cuda ? " -DRT_CUDA" : "");

    test.kernels = kernels_open(g, o, flags, test.cuda);
    if (o->device) {
        const char *arch = cuda_device(o->device);

        kernels_compile_by(
            test.kernels, gen_printf(g,
                                     "%s -cubin -std=c++17 --fmad=false "
                                     "-gencode=arch=compute_%s,code=%s -I%s/runtime/cuda",
                                     o->nvcc, arch + 3, arch, root));
        printf(o->person ? "on a GPU here, %s\n" : "op_test: on a device, %s\n", arch);
    }
}

int op_test(Gen *g, const OpTestOptions *o)
{
    test.g = g;
    test.o = o;
    open_generator(g, o->ops);
    g->model.target = target_named(o->target);
    test.cuda = g->model.target->device;
    open_kernels(g, o);
    if (o->bytes)
        cuda_count();
    test.env = sandbox_env(g->L);
    lua_rawgeti(g->L, LUA_REGISTRYINDEX, test.env);
    push_host(g->L, o);
    lua_setfield(g->L, -2, "host");
    lua_pop(g->L, 1);
    if (builder_protect(g, run_script, NULL, (Pos){0}))
        return test.failures;
    diag_print(g);
    return -1;
}
