/* SPDX-License-Identifier: Apache-2.0 */
/* op_test_run.c: one call of a kernel, for op_test.lua. In: its operands as lists of
 * numbers. Out: what it left in them, as numbers and as bytes, and the first thing that
 * it did wrong. */
#include "op_test/op_test.h"

#include <math.h>
#include <string.h>

/* run{ kernel=, threads=, beta=, workspace=,
 *      operands={ {dtype=, elems=, data= or nil, same=i, name=}, .. }, update={..} }
 *   -> { {data..}, .. }, { bytes of each }, problem or nil, traffic
 * An operand without data starts as NaN; `same` lays it on an earlier operand's bytes. */
typedef struct Run {
    int n;
    Buf buf[MAX_OPERANDS];
    bool own[MAX_OPERANDS];
    char *data[MAX_OPERANDS];
    RtUpdate update;
    RtUpdateRun update_run;
    int64_t before; /* elements of an optimizer's operands that come before the run */
} Run;

static double number_field(lua_State *L, int index, const char *key)
{
    double v;

    lua_getfield(L, index, key);
    v = lua_tonumber(L, -1);
    lua_pop(L, 1);
    return v;
}

/* An operand of an optimizer, by its name in op.lua. */
static void place_state(RtUpdateRun *run, const char *name, char *data)
{
    if (!name)
        return;
    if (!strcmp(name, "param"))
        run->weights = data;
    else if (!strcmp(name, "master"))
        run->master = data;
    else if (!strcmp(name, "moment1"))
        run->moment1 = data;
    else if (!strcmp(name, "moment2"))
        run->moment2 = data;
    else if (!strcmp(name, "grad"))
        run->grad = data;
    else if (!strcmp(name, "direction"))
        run->direction = data;
}

static void read_operand(lua_State *L, Run *r, int i)
{
    int item = lua_gettop(L), same = (int)number_field(L, item, "same");
    Dtype d;

    lua_getfield(L, item, "dtype");
    d = op_test_dtype(L, -1);
    lua_pop(L, 1);
    r->own[i] = same == 0;
    r->buf[i] =
        same ? r->buf[same - 1] : buf_new(d, (int64_t)number_field(L, item, "elems"));
    r->data[i] = r->buf[i].data;
    if (lua_getfield(L, item, "data") == LUA_TTABLE)
        for (int64_t k = 0; k < r->buf[i].elems; k++) {
            lua_rawgeti(L, -1, k + 1);
            buf_put(&r->buf[i], k, lua_tonumber(L, -1));
            lua_pop(L, 1);
        }
    lua_pop(L, 1);
    lua_getfield(L, item, "name");
    place_state(&r->update_run, lua_tostring(L, -1),
                r->data[i] + r->before * dtype_bytes(r->buf[i].dtype));
    lua_pop(L, 1);
}

static void read_update(lua_State *L, Run *r)
{
    int at = lua_gettop(L);

    r->update = (RtUpdate){.scale64 = number_field(L, at, "scale"),
                           .lr64 = number_field(L, at, "lr"),
                           .bias1_64 = number_field(L, at, "bias1"),
                           .bias2_64 = number_field(L, at, "bias2")};
    r->update.scale = (float)r->update.scale64;
    r->update.lr = (float)r->update.lr64;
    r->update.bias1 = (float)r->update.bias1_64;
    r->update.bias2 = (float)r->update.bias2_64;
    r->update_run.lr_ratio = number_field(L, at, "lr_ratio");
    r->update_run.lr_adjust = number_field(L, at, "lr_adjust");
    r->update_run.weight_decay = number_field(L, at, "decay");
    r->update.noise = RUN_NOISE;
    r->update_run.param = &run_param;
    r->update_run.element = RUN_ELEMENT + r->before;
    r->update_run.elems = r->buf[0].elems - r->before;
    r->data[0] = (char *)&r->update; /* the kernel's two arguments */
    r->data[1] = (char *)&r->update_run;
}

static void push_results(lua_State *L, Gen *g, Run *r)
{
    const char *problem = NULL;

    lua_createtable(L, r->n, 0);
    lua_createtable(L, r->n, 0);
    for (int i = 0; i < r->n; i++) {
        Buf *b = &r->buf[i];

        lua_createtable(L, (int)b->elems, 0);
        for (int64_t k = 0; k < b->elems; k++) {
            if (isnan(buf_get(b, k)))
                buf_put(b, k, NAN); /* compilers choose the sign */
            lua_pushnumber(L, buf_get(b, k));
            lua_rawseti(L, -2, k + 1);
        }
        lua_rawseti(L, -3, i + 1);
        lua_pushlstring(L, b->data, (size_t)(b->elems * dtype_bytes(b->dtype)));
        lua_rawseti(L, -2, i + 1);
        if (!buf_guard_ok(b))
            problem = gen_printf(g, "writes past the end of operand %d", i + 1);
    }
    lua_pushstring(L, problem);
}

/* { { read_all, read_first, written_all, written_first }, .. } of the operands, then of
 * the workspace. */
static void push_traffic(lua_State *L, int operands)
{
    int64_t counted[4];

    lua_newtable(L);
    for (int i = 0; i <= operands; i++) {
        cuda_traffic(i < operands ? i : MAX_OPERANDS, counted);
        lua_newtable(L);
        for (int k = 0; k < 4; k++) {
            lua_pushinteger(L, counted[k]);
            lua_rawseti(L, -2, k + 1);
        }
        lua_rawseti(L, -2, i + 1);
    }
}

/* Arguments, as addresses of the device. An optimizer's run is the host's. */
static void move_to_device(Run *r)
{
    RtUpdateRun *run = &r->update_run;
    const bool optimizer = r->data[1] == (char *)run;

    for (int i = optimizer ? 2 : 0; i < r->n; i++)
        r->data[i] = cuda_at(r->data[i]);
    if (!optimizer)
        return;
    r->data[0] = cuda_at(&r->update);
    run->weights = cuda_at(run->weights);
    run->master = cuda_at(run->master);
    run->moment1 = cuda_at(run->moment1);
    run->moment2 = cuda_at(run->moment2);
    run->grad = cuda_at(run->grad);
    run->direction = cuda_at(run->direction);
}

int op_test_run(lua_State *L, Gen *g, Kernels *kernels, bool cuda)
{
    Run r = {0};
    Buf workspace = buf_new(DT_U8, (int64_t)number_field(L, 1, "workspace"));
    int threads = (int)number_field(L, 1, "threads");
    const Buf *bufs[MAX_OPERANDS + 1] = {[MAX_OPERANDS] = &workspace};
    const char *problem = NULL;
    void (*set_threads)(int);

    if (lua_getfield(L, 1, "update") == LUA_TTABLE)
        r.before = (int64_t)number_field(L, lua_gettop(L), "before");
    lua_pop(L, 1);
    lua_getfield(L, 1, "operands");
    r.n = (int)lua_rawlen(L, -1);
    gen_require(r.n <= MAX_OPERANDS, "%d operands", r.n);
    for (int i = 0; i < r.n; i++) {
        lua_rawgeti(L, -1, i + 1);
        read_operand(L, &r, i);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    if (lua_getfield(L, 1, "update") == LUA_TTABLE)
        read_update(L, &r);
    lua_pop(L, 1);
    *(void **)&set_threads = op_test_runtime("omp_set_num_threads");
    set_threads(threads > 0 ? threads : 1);
    for (int i = 0; i < r.n; i++)
        bufs[i] = r.own[i] ? &r.buf[i] : NULL;
    if (cuda) {
        cuda_begin(bufs, MAX_OPERANDS + 1, &r.update, threads);
        move_to_device(&r);
    }
    kernels_run(kernels, (int)number_field(L, 1, "kernel"), r.data,
                (float)number_field(L, 1, "beta"),
                cuda ? cuda_at(workspace.data) : workspace.data);
    if (cuda)
        problem = cuda_end(bufs, MAX_OPERANDS + 1, &r.update);
    push_results(L, g, &r);
    if (problem) {
        lua_pop(L, 1);
        lua_pushstring(L, problem);
    }
    if (!buf_guard_ok(&workspace)) {
        lua_pop(L, 1);
        lua_pushstring(L, "writes past the end of its workspace");
    }
    push_traffic(L, r.n);
    buf_free(&workspace);
    for (int i = 0; i < r.n; i++)
        if (r.own[i])
            buf_free(&r.buf[i]);
    return 4;
}
