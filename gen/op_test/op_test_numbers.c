/* SPDX-License-Identifier: Apache-2.0 */
/* op_test_numbers.c: rounds, splits and joins single numbers for op_test.lua, by the
 * runtime's own functions. In: numbers of Lua. Out: numbers of Lua. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif
#include "op_test/op_test.h"

#include <dlfcn.h>
#include <math.h>

const RtParam run_param = {.name = "layers.1.w"};

Dtype op_test_dtype(lua_State *L, int index)
{
    Dtype d = dtype_parse(luaL_checkstring(L, index));

    if (d == DT_NONE)
        luaL_error(L, "unknown dtype %s", lua_tostring(L, index));
    return d;
}

/* A function of the runtime: this program's, or that of the products it has loaded. */
void *op_test_runtime(const char *name)
{
    void *f = dlsym(RTLD_DEFAULT, name);

    gen_require(f, "no %s", name);
    return f;
}

static int l_round(lua_State *L)
{
    lua_pushnumber(L, round_to(op_test_dtype(L, 1), luaL_checknumber(L, 2)));
    return 1;
}

/* noise(site, i) -> the 16 bits by which element i of the run, from 1, is rounded */
static int l_noise(lua_State *L)
{
    const RtUpdate u = {.noise = RUN_NOISE};
    const RtUpdateRun run = {.param = &run_param, .element = RUN_ELEMENT};
    static const char *const sites[] = {"master", "moment1", "moment2", NULL};
    uint16_t noise;
    void (*runtime_noise)(const RtUpdate *, const RtUpdateRun *, int, int64_t, int64_t,
                          uint16_t *);

    *(void **)&runtime_noise = op_test_runtime("rt_noise");
    runtime_noise(&u, &run, RT_NOISE_MASTER + luaL_checkoption(L, 1, NULL, sites),
                  luaL_checkinteger(L, 2) - 1, 1, &noise);
    lua_pushinteger(L, noise);
    return 1;
}

/* noisy(v, noise) -> v in bf16, rounded by those bits: up when they reach what is cut */
static int l_noisy(lua_State *L)
{
    const float v = (float)luaL_checknumber(L, 1);
    const uint32_t bits = (uint32_t)rt_bits_f32(v);
    const bool up = (bits & 0xffff) + (uint32_t)luaL_checkinteger(L, 2) > 0xffff;

    lua_pushnumber(L,
                   rt_f32_from_bits((int32_t)((bits & 0xffff0000) + (up ? 65536u : 0u))));
    return 1;
}

/* split(master) -> its weight in bf16, and the rest; joined(weight, rest) -> master */
static int l_split(lua_State *L)
{
    const float v = (float)luaL_checknumber(L, 1);

    lua_pushnumber(L, rt_f32_from_bf16(rt_bf16_from_master(v)));
    lua_pushinteger(L, rt_split_rest(v));
    return 2;
}

static int l_joined(lua_State *L)
{
    const uint16_t weight = rt_bf16_from_f32((float)luaL_checknumber(L, 1));

    lua_pushnumber(L, rt_f32_from_split(weight, (uint16_t)luaL_checknumber(L, 2)));
    return 1;
}

typedef struct Function {
    float (*f32)(float), (*sim32)(float);
    double (*f64)(double), (*sim64)(double);
} Function;

static float sim_sigmoidf(float x)
{
    return 1 / (1 + expf(-x));
}

static double sim_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static float sim_softplusf(float x)
{
    const float e = expf(x > 0 ? -x : x), u = 1 + e;
    return (x <= 0 ? 0 : x) + (logf(u) + (e - (u - 1)) / u);
}

static double sim_softplus(double x)
{
    const double e = exp(x > 0 ? -x : x), u = 1 + e;
    return (x <= 0 ? 0 : x) + (log(u) + (e - (u - 1)) / u);
}

/* The runtime's functions have no address: they are always inlined. */
#define OWN(name)                                                                        \
    static float own_##name##f(float x)                                                  \
    {                                                                                    \
        return rt_##name##f(x);                                                          \
    }                                                                                    \
    static double own_##name(double x)                                                   \
    {                                                                                    \
        return rt_##name(x);                                                             \
    }
OWN(exp)
OWN(log)
OWN(tanh)
OWN(sigmoid)
OWN(softplus)

/* apply(name, dtype, x, simulated) -> the function as kernels of the CPU have it, or of
 * the simulated device (sim_device.h) */
static int l_apply(lua_State *L)
{
    static const char *const names[] = {"exp",     "log",      "tanh",
                                        "sigmoid", "softplus", NULL};
    static const Function functions[] = {
        {own_expf, expf, own_exp, exp},
        {own_logf, logf, own_log, log},
        {own_tanhf, tanhf, own_tanh, tanh},
        {own_sigmoidf, sim_sigmoidf, own_sigmoid, sim_sigmoid},
        {own_softplusf, sim_softplusf, own_softplus, sim_softplus},
    };
    const Function *f = &functions[luaL_checkoption(L, 1, NULL, names)];
    const double x = luaL_checknumber(L, 3);
    const bool simulated = lua_toboolean(L, 4);

    if (op_test_dtype(L, 2) == DT_F32)
        lua_pushnumber(L, (simulated ? f->sim32 : f->f32)((float)x));
    else
        lua_pushnumber(L, (simulated ? f->sim64 : f->f64)(x));
    return 1;
}

void op_test_numbers(lua_State *L)
{
    static const luaL_Reg numbers[] = {
        {"round", l_round},   {"noise", l_noise}, {"noisy", l_noisy}, {"split", l_split},
        {"joined", l_joined}, {"apply", l_apply}, {NULL, NULL},
    };

    luaL_setfuncs(L, numbers, 0);
}
