/* SPDX-License-Identifier: Apache-2.0 */
/* op_test.c: runs op_test.lua, which tests every op folder, in the generator's own
 * sandbox. In: op folders, built in or from --ops DIR. Out: failures on stdout, exit code
 * 1 if any. What Lua cannot do is here: infer a node, render, compile and run kernels on
 * typed buffers. */
#include "op_test.h"

#include "describe/load.h"
#include "rt.h"
#include "base/sandbox.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    Gen gen;
    Kernels *kernels;
    struct {
        Node **items;
        int count, cap;
    } nodes;
    int jobs;
    bool cuda;
    const char *root; /* of the sources */
    int env;          /* of the script */
} test;

/* ---- operands from Lua ----------------------------------------------------------- */

static const OpRule *check_op(lua_State *L, int index)
{
    const char *name = luaL_checkstring(L, index);
    const OpRule *op = ops_find(&test.gen, name);

    if (!op)
        luaL_error(L, "no op %s", name);
    return op;
}

/* { shape = {..}, dtype = ".." } at index */
static Value *check_value(lua_State *L, int index, const char *name)
{
    Value *v = gen_alloc(&test.gen, sizeof *v);

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

static void read_attrs(lua_State *L, int index, Node *n)
{
    const OpInfo *info = n->op->info;

    n->n_attrs = info->n_attrs;
    n->attrs = gen_alloc(&test.gen, sizeof *n->attrs * (size_t)(n->n_attrs + 1));
    for (int i = 0; i < n->n_attrs; i++) {
        Attr *a = &n->attrs[i];

        *a = info->attrs[i].dflt;
        a->key = info->attrs[i].key;
        a->type = info->attrs[i].type;
        if (lua_getfield(L, index, a->key) != LUA_TNIL) {
            if (a->type == ATTR_INT)
                a->i = luaL_checkinteger(L, -1);
            else if (a->type == ATTR_NUM)
                a->num = luaL_checknumber(L, -1);
            else if (a->type == ATTR_STR)
                a->s = gen_strdup(&test.gen, luaL_checkstring(L, -1));
            else
                a->i = lua_toboolean(L, -1);
        } else if (!info->attrs[i].has_default) {
            luaL_error(L, "%s: attribute %s is missing", n->op->name, a->key);
        }
        lua_pop(L, 1);
    }
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

/* infer(op, inputs, attrs) -> { id, outs, workspace, n }: a node of the given op */
static int l_infer(lua_State *L)
{
    Gen *g = &test.gen;
    const OpRule *op = check_op(L, 1);
    Node *n = gen_alloc(g, sizeof *n);

    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_checktype(L, 3, LUA_TTABLE);
    n->n_in = (int)lua_rawlen(L, 2);
    if (n->n_in > op->n_in || (n->n_in < op->n_in && !op->in[n->n_in].optional))
        luaL_error(L, "%s takes %d inputs, not %d", op->name, op->n_in, n->n_in);
    n->op = op;
    n->name = op->name;
    n->n_out = op->n_out;
    n->in = gen_alloc(g, sizeof *n->in * (size_t)(op->n_in + 1));
    n->add = gen_alloc(g, sizeof *n->add * (size_t)(op->n_out + 1));
    for (int i = 0; i < n->n_in; i++) {
        lua_rawgeti(L, 2, i + 1);
        n->in[i] = check_value(L, lua_gettop(L), op->in[i].name);
        lua_pop(L, 1);
    }
    n->out = gen_alloc(g, sizeof *n->out * (size_t)(op->n_out + 1));
    for (int i = 0; i < op->n_out; i++) {
        n->out[i] = gen_alloc(g, sizeof **n->out);
        n->out[i]->name = op->out[i].name;
        n->out[i]->def = n;
        n->out[i]->def_out = i;
    }
    read_attrs(L, 3, n);
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

/* shape(dims, symbols) -> { .. } */
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
            luaL_error(L, "the case says nothing of dims \"%s\"", lua_tostring(L, 1));
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
    test.gen.model.param_dtype = op_test_dtype(L, 1);
    test.gen.model.reduce_dtype = op_test_dtype(L, 2);
    test.gen.model.loss_scale_init = test.gen.model.param_dtype == DT_F16;
    return 0;
}

static int l_rule(lua_State *L)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, check_op(L, 1)->lua_ref);
    return 1;
}

static int l_names(lua_State *L)
{
    lua_newtable(L);
    for (int i = 0; i < test.gen.ops.count; i++) {
        lua_pushstring(L, test.gen.ops.items[i].name);
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

static int l_hash(lua_State *L)
{
    size_t n;
    const char *text = luaL_checklstring(L, 1, &n);

    lua_pushstring(L, gen_printf(&test.gen, "%016" PRIx64, hash_bytes(text, n)));
    return 1;
}

static int l_print(lua_State *L)
{
    puts(luaL_checkstring(L, 1));
    fflush(stdout);
    return 0;
}

static char *read_script(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    char *text;
    long n;

    gen_require(f && fseek(f, 0, SEEK_END) == 0, "%s: %s", path, strerror(errno));
    n = ftell(f);
    rewind(f);
    text = gen_alloc(&test.gen, (size_t)n + 1);
    *bytes = fread(text, 1, (size_t)n, f);
    fclose(f);
    return text;
}

/* Runs tests/ops/NAME.lua; its result, or the message of an error, is on top. */
static int run_file(const char *name)
{
    size_t bytes;
    const char *text = read_script(
        gen_printf(&test.gen, "%s/tests/ops/%s.lua", test.root, name), &bytes);

    return sandbox_run(test.gen.L, text, bytes, gen_printf(&test.gen, "@%s.lua", name),
                       test.env, 1);
}

/* part(name): what another file of the script returns */
static int l_part(lua_State *L)
{
    return run_file(luaL_checkstring(L, 1)) ? lua_error(L) : 1;
}

/* ---- kernels --------------------------------------------------------------------- */

/* kernel(node id) -> kernel id, or nil when the op has no cpu.c, or cuda.cu */
static int l_kernel(lua_State *L)
{
    Node *n = test.nodes.items[luaL_checkinteger(L, 1)];
    bool beta = false;
    int id;

    n->kernel = gen_printf(&test.gen, "%s_%d", n->op->name, (int)luaL_checkinteger(L, 1));
    for (int i = 0; i < n->n_out; i++)
        beta = beta || n->op->out[i].may_add;
    ops_push_env(&test.gen, n);
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
    const OpRule *op = check_op(L, 1);
    const char *name = luaL_checkstring(L, 4);
    int id;

    lua_newtable(L);
    emit_str(L, "fn", name);
    emit_str(L, "acc", dtype_ctype(ops_acc_dtype(&test.gen)));
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
    lua_pushboolean(L, kernels_compile(test.kernels, test.jobs));
    return 1;
}

static int l_of_platform(lua_State *L)
{
    lua_pushboolean(L, kernels_of_platform(test.kernels, (int)luaL_checkinteger(L, 1)));
    return 1;
}

static int l_run(lua_State *L)
{
    return op_test_run(L, &test.gen, test.kernels, test.cuda);
}

/* ---- main ------------------------------------------------------------------------ */

static void open_generator(const char *ops_dir)
{
    Gen *g = &test.gen;

    g->opt.command = "check";
    g->opt.ops_dir = ops_dir;
    g->model.param_dtype = g->model.reduce_dtype = DT_F32;
    g->model.master_dtype = g->model.moments_dtype = DT_F32;
    g->model.seq_tokens = g->model.micro_batch = 1;
    g->model.loss_chunk_tokens = 16;
    g->L = sandbox_open(g);
    sandbox_budget(g->L, INT64_MAX / 4, (size_t)4 << 30);
    lua_gc(g->L, LUA_GCRESTART); /* references leave much behind */
    ops_load(g);
    diag_stop_on_errors(g);
}

typedef struct TestOptions {
    const char *work, *only, *ops, *share, *cc, *flags, *cases, *seed, *digests, *golden,
        *target;
    const char *device, *nvcc, *jobs, *root;
} TestOptions;

static int run_script(const TestOptions *o)
{
    static const luaL_Reg host[] = {
        {"infer", l_infer},
        {"shape", l_shape},
        {"dtypes", l_dtypes},
        {"rule", l_rule},
        {"names", l_names},
        {"print", l_print},
        {"hash", l_hash},
        {"kernel", l_kernel},
        {"optimizer", l_optimizer},
        {"compile", l_compile},
        {"of_platform", l_of_platform},
        {"run", l_run},
        {"part", l_part},
        {NULL, NULL},
    };
    lua_State *L = test.gen.L;
    int failures;

    test.env = sandbox_env(test.gen.L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, test.env);
    luaL_newlib(L, host);
    op_test_numbers(L);
    emit_str(L, "only", o->only);
    emit_int(L, "cases", atoll(o->cases));
    emit_int(L, "seed", atoll(o->seed));
    emit_bool(L, "digests", o->digests != NULL);
    emit_bool(L, "golden", o->golden != NULL);
    emit_bool(L, "cuda", test.cuda);
    emit_bool(L, "device", o->device != NULL);
    lua_setfield(L, -2, "host");
    lua_pop(L, 1);
    if (run_file("op_test")) {
        fprintf(stderr, "op_test: %s\n", lua_tostring(L, -1));
        return 1;
    }
    failures = (int)lua_tointeger(L, -1);
    printf("op_test: %d failures\n", failures);
    return failures ? 1 : 0;
}

static bool parse(int argc, char **argv, TestOptions *o)
{
    const struct {
        const char *flag;
        const char **value;
    } known[] = {
        {"--work", &o->work},     {"--only", &o->only}, {"--ops", &o->ops},
        {"--share", &o->share},   {"--cc", &o->cc},     {"--flags", &o->flags},
        {"--cases", &o->cases},   {"--seed", &o->seed}, {"--digests", &o->digests},
        {"--target", &o->target}, {"--nvcc", &o->nvcc}, {"--device", &o->device},
        {"--jobs", &o->jobs},     {"--root", &o->root}, {"--golden", &o->golden},
    };

    for (int i = 1; i < argc; i += 2) {
        bool found = false;

        for (size_t k = 0; k < sizeof known / sizeof *known && i + 1 < argc; k++)
            if (!strcmp(argv[i], known[k].flag)) {
                *known[k].value = argv[i + 1];
                found = true;
            }
        if (!found)
            return false;
    }
    return o->work != NULL && (!strcmp(o->target, "cpu") || !strcmp(o->target, "cuda")) &&
           (!o->device || (o->nvcc && !strcmp(o->target, "cuda")));
}

int main(int argc, char **argv)
{
    TestOptions o = {.cc = OP_TEST_CC,
                     .flags = OP_TEST_FLAGS,
                     .cases = "2",
                     .seed = "1",
                     .target = "cpu",
                     .jobs = "2",
                     .root = OP_TEST_ROOT};

    /* waiting threads that spin would starve the others: here there are more than cores.
     * OpenMP reads its environment before main. */
    if (!getenv("OMP_WAIT_POLICY") && setenv("OMP_WAIT_POLICY", "passive", 1) == 0)
        execv("/proc/self/exe", argv);
    if (!parse(argc, argv, &o)) {
        fprintf(stderr,
                "usage: op_test --work DIR [--only OP,OP] [--cases N] [--seed N]\n"
                "               [--ops DIR] [--share DIR] [--cc CC] [--flags FLAGS]\n"
                "               [--digests yes] [--golden yes] [--jobs N] [--target "
                "cpu|cuda]\n"
                "               [--device SO --nvcc FILE]: of cuda, on a real GPU\n"
                "               [--root DIR]: of the sources, where they were moved\n");
        return 2;
    }
    test.jobs = atoi(o.jobs) > 0 ? atoi(o.jobs) : 1;
    if (o.share)
        embed_share(o.share);
    open_generator(o.ops);
    test.gen.model.target = target_named(o.target);
    test.cuda = test.gen.model.target->device;
    test.kernels = kernels_open(
        &test.gen, o.work, o.cc,
        gen_printf(&test.gen, "-I%s/runtime -I%s/runtime/cuda %s %s%s", o.root, o.root,
                   OP_TEST_NUMERIC_FLAGS, o.flags, test.cuda ? " -DRT_CUDA" : ""),
        test.cuda);
    if (o.device) {
        const char *arch = cuda_device(o.device);

        kernels_compile_by(
            test.kernels,
            gen_printf(
                &test.gen,
                "%s -cubin -std=c++17 --fmad=false -gencode=arch=compute_%s,code=%s "
                "-I%s/runtime/cuda",
                o.nvcc, arch + 3, arch, o.root));
        printf("op_test: on a device, %s\n", arch);
    }
    printf("op_test: seed %s, %s cases for each op and dtype\n", o.seed, o.cases);
    test.root = o.root;
    return run_script(&o);
}
