/* SPDX-License-Identifier: Apache-2.0 */
/* sim_cudnn_run.c: a graph of cuDNN's operations, computed one after the other in float.
 * What lies nowhere on the device lies here in the shape and with the strides it was
 * given, and is rounded to its type: so a graph that names a wrong operand, a wrong
 * stride or a wrong order computes something else. The library's own order of sums it
 * cannot show. */
#include "sim_cudnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t place(const SimTensor *t, const int64_t i[4])
{
    return i[0] * t->stride[0] + i[1] * t->stride[1] + i[2] * t->stride[2] +
           i[3] * t->stride[3];
}

/* The place in a tensor that is smaller, or has one element, along some axes. */
static int64_t place_in(const SimTensor *t, const int64_t i[4], const int64_t dim[4])
{
    const int64_t at[4] = {i[0] * t->dim[0] / dim[0], i[1] * t->dim[1] / dim[1],
                           i[2] * t->dim[2] / dim[2], i[3] * t->dim[3] / dim[3]};

    return place(t, at);
}

static bool next_index(int64_t i[4], const int64_t dim[4])
{
    for (int k = 3; k >= 0; k--) {
        if (++i[k] < dim[k])
            return true;
        i[k] = 0;
    }
    return false;
}

static int64_t extent(const SimTensor *t)
{
    const int64_t last[4] = {t->dim[0] - 1, t->dim[1] - 1, t->dim[2] - 1, t->dim[3] - 1};

    return place(t, last) + 1;
}

static int64_t bytes_of(cudnnDataType_t type)
{
    return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_INT32     ? 4
           : type == CUDNN_DATA_BFLOAT16 || type == CUDNN_DATA_HALF ? 2
                                                                    : 1;
}

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, 4);
    return x;
}

static float load(const void *p, int64_t i, cudnnDataType_t type)
{
    if (type == CUDNN_DATA_FLOAT)
        return ((const float *)p)[i];
    if (type == CUDNN_DATA_BFLOAT16)
        return float_of((uint32_t)((const uint16_t *)p)[i] << 16);
    return sim_f32_from_f16(((const uint16_t *)p)[i]);
}

static float rounded(float v, cudnnDataType_t type)
{
    if (type == CUDNN_DATA_BFLOAT16)
        return float_of((uint32_t)sim_bf16_from_f32(v) << 16);
    return type == CUDNN_DATA_HALF ? sim_f32_from_f16(sim_f16_from_f32(v)) : v;
}

static void store(void *p, int64_t i, cudnnDataType_t type, float v)
{
    if (type == CUDNN_DATA_FLOAT)
        ((float *)p)[i] = v;
    else if (type == CUDNN_DATA_BFLOAT16)
        ((uint16_t *)p)[i] = sim_bf16_from_f32(v);
    else
        ((uint16_t *)p)[i] = sim_f16_from_f32(v);
}

/* ---- operations ------------------------------------------------------------------ */

typedef struct Run {
    const SimDnnCall *call;
    float *memory[SIM_DNN_TENSORS];
} Run;

static void put(Run *r, int t, int64_t at, float v)
{
    r->memory[t][at] = rounded(v, r->call->graph->tensor[t].type);
}

static void matmul(Run *r, const SimDnnOp *op)
{
    const SimDnnGraph *g = r->call->graph;
    const SimTensor *x = &g->tensor[op->x], *b = &g->tensor[op->b],
                    *y = &g->tensor[op->y];
    int64_t i[4] = {0};

    do {
        const int64_t h = i[1] * x->dim[1] / y->dim[1], hb = i[1] * b->dim[1] / y->dim[1];
        float sum = 0;

        for (int64_t k = 0; k < x->dim[3]; k++) {
            const int64_t at_x[4] = {i[0], h, i[2], k}, at_b[4] = {i[0], hb, k, i[3]};

            sum += r->memory[op->x][place(x, at_x)] * r->memory[op->b][place(b, at_b)];
        }
        put(r, op->y, place(y, i), sum);
    } while (next_index(i, y->dim));
}

static float pointwise_of(const SimDnnOp *op, float x, float b, float mask,
                          const int64_t i[4])
{
    switch (op->mode) {
    case CUDNN_POINTWISE_MUL:
        return x * b;
    case CUDNN_POINTWISE_ADD:
        return x + b;
    case CUDNN_POINTWISE_SUB:
        return x - b;
    case CUDNN_POINTWISE_DIV:
        return x / b;
    case CUDNN_POINTWISE_EXP:
        return expf(x);
    case CUDNN_POINTWISE_LOG:
        return logf(x);
    case CUDNN_POINTWISE_IDENTITY:
        return x;
    case CUDNN_POINTWISE_GEN_INDEX:
        return (float)i[op->axis];
    case CUDNN_POINTWISE_CMP_GE:
        return x >= b;
    case CUDNN_POINTWISE_CMP_GT:
        return x > b;
    case CUDNN_POINTWISE_BINARY_SELECT:
        return mask != 0 ? x : b;
    default:
        abort(); /* sim_dnn_problem refused it */
    }
}

static void pointwise(Run *r, const SimDnnOp *op)
{
    const SimDnnGraph *g = r->call->graph;
    const SimTensor *y = &g->tensor[op->y];
    int64_t i[4] = {0};

    do {
        const float x = r->memory[op->x][place_in(&g->tensor[op->x], i, y->dim)];
        const float b =
            op->b < 0 ? 0 : r->memory[op->b][place_in(&g->tensor[op->b], i, y->dim)];
        const float mask =
            op->t < 0 ? 0 : r->memory[op->t][place_in(&g->tensor[op->t], i, y->dim)];

        put(r, op->y, place(y, i), pointwise_of(op, x, b, mask, i));
    } while (next_index(i, y->dim));
}

static void reduce(Run *r, const SimDnnOp *op)
{
    const SimDnnGraph *g = r->call->graph;
    const SimTensor *x = &g->tensor[op->x], *y = &g->tensor[op->y];
    const bool max = op->mode == CUDNN_REDUCE_TENSOR_MAX;
    const int64_t n = extent(y);
    float *sum = malloc((size_t)n * sizeof *sum);
    int64_t i[4] = {0};

    if (!sum)
        abort();
    for (int64_t k = 0; k < n; k++)
        sum[k] = max ? -INFINITY : 0;
    do {
        const float v = r->memory[op->x][place(x, i)];
        float *to = &sum[place_in(y, i, x->dim)];

        *to = max ? fmaxf(*to, v) : *to + v;
    } while (next_index(i, x->dim));
    memset(i, 0, sizeof i);
    do {
        put(r, op->y, place(y, i), sum[place(y, i)]);
    } while (next_index(i, y->dim));
    free(sum);
}

/* The same memory, with other strides. */
static void reshape(Run *r, const SimDnnOp *op)
{
    const SimTensor *y = &r->call->graph->tensor[op->y];
    int64_t i[4] = {0};

    do {
        put(r, op->y, place(y, i), r->memory[op->x][place(y, i)]);
    } while (next_index(i, y->dim));
}

/* ---- the device's memory --------------------------------------------------------- */

/* All rows of a tensor, along the axis whose elements lie together. */
static void touch(const SimTensor *t, void *p, bool write)
{
    const int64_t bytes = bytes_of(t->type);
    const int along = t->stride[3] == 1 || t->dim[3] == 1 ? 3 : 2, rows = 5 - along;

    for (int64_t i = 0; i < t->dim[0]; i++)
        for (int64_t k = 0; k < t->dim[1]; k++) {
            const int64_t first[4] = {i, k, 0, 0};

            sim_touch_rows((char *)p + place(t, first) * bytes, t->dim[rows],
                           t->dim[along] * bytes, t->stride[rows] * bytes, write);
        }
}

static void take(Run *r, int k)
{
    const SimTensor *t = &r->call->graph->tensor[k];
    int64_t i[4] = {0};

    r->memory[k] = calloc((size_t)extent(t), sizeof(float));
    if (!r->memory[k])
        abort();
    if (t->by_value)
        r->memory[k][0] = r->call->value[k];
    else if (!t->is_virtual && !t->written)
        do {
            r->memory[k][place(t, i)] = load(r->call->at[k], place(t, i), t->type);
        } while (next_index(i, t->dim));
}

static void give(Run *r, int k)
{
    const SimTensor *t = &r->call->graph->tensor[k];
    int64_t i[4] = {0};

    if (!t->is_virtual && t->written)
        do {
            store(r->call->at[k], place(t, i), t->type, r->memory[k][place(t, i)]);
        } while (next_index(i, t->dim));
    free(r->memory[k]);
}

/* CUDASIM_UNSTEADY_CUDNN=N: an engine that is said to be steady, and every N-th time is
 * not. */
static void unsettle(Run *r)
{
    static int64_t runs;
    const int64_t every = sim_setting("CUDASIM_UNSTEADY_CUDNN", 0);
    const SimDnnGraph *g = r->call->graph;

    if (every == 0 || ++runs % every != 0)
        return;
    for (int k = 0; k < g->n_tensors; k++)
        if (!g->tensor[k].is_virtual && g->tensor[k].written)
            r->memory[k][extent(&g->tensor[k]) - 1] *= 1.02f;
}

SimResult sim_dnn_run(SimOp *op)
{
    const SimDnnCall *call = op->work.payload;
    const SimDnnGraph *g = call->graph;
    const int64_t used = call->workspace_bytes < 4096 ? call->workspace_bytes : 4096;
    Run r = {.call = call};

    for (int k = 0; k < g->n_tensors; k++)
        if (!g->tensor[k].is_virtual && !g->tensor[k].by_value)
            touch(&g->tensor[k], call->at[k], g->tensor[k].written);
    if (used > 0)
        sim_touch(call->workspace, used, true, NULL);
    if (sim_problem())
        return SIM_OP_DONE;
    for (int k = 0; k < g->n_tensors; k++)
        take(&r, k);
    for (int k = 0; k < g->n_ops; k++) {
        const SimDnnOp *o = &g->op[k];

        (o->kind == SIM_DNN_MATMUL      ? matmul
         : o->kind == SIM_DNN_POINTWISE ? pointwise
         : o->kind == SIM_DNN_REDUCE    ? reduce
                                        : reshape)(&r, o);
    }
    unsettle(&r);
    for (int k = 0; k < g->n_tensors; k++)
        give(&r, k);
    if (used > 0) /* holds anything afterwards */
        memset(call->workspace, 0xff, (size_t)used);
    sim_clock_us += (double)sim_setting("CUDASIM_CUDNN_US", 0);
    return SIM_OP_DONE;
}

/* ---- what is legal --------------------------------------------------------------- */

static bool known_mode(int mode)
{
    static const int known[] = {
        CUDNN_POINTWISE_MUL,    CUDNN_POINTWISE_ADD,          CUDNN_POINTWISE_SUB,
        CUDNN_POINTWISE_DIV,    CUDNN_POINTWISE_EXP,          CUDNN_POINTWISE_LOG,
        CUDNN_POINTWISE_CMP_GE, CUDNN_POINTWISE_IDENTITY,     CUDNN_POINTWISE_GEN_INDEX,
        CUDNN_POINTWISE_CMP_GT, CUDNN_POINTWISE_BINARY_SELECT};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (mode == known[i])
            return true;
    return false;
}

const char *sim_dnn_problem(const SimDnnGraph *g)
{
    bool made[SIM_DNN_TENSORS] = {false};

    for (int k = 0; k < g->n_tensors; k++)
        made[k] = !g->tensor[k].written;
    for (int k = 0; k < g->n_ops; k++) {
        const SimDnnOp *o = &g->op[k];
        const SimTensor *x = &g->tensor[o->x], *y = &g->tensor[o->y];
        const SimTensor *b = o->b < 0 ? NULL : &g->tensor[o->b];

        if (!made[o->x] || (o->b >= 0 && !made[o->b]) || (o->t >= 0 && !made[o->t]))
            return "an operation reads what is not made before it";
        if (made[o->y])
            return "a tensor is made twice";
        made[o->y] = true;
        if (o->kind == SIM_DNN_MATMUL &&
            (!b || x->dim[3] != b->dim[2] || x->dim[2] != y->dim[2] ||
             b->dim[3] != y->dim[3] || y->dim[1] % b->dim[1] != 0 ||
             x->dim[0] != y->dim[0] || b->dim[0] != y->dim[0]))
            return "a product of other sizes";
        if (o->kind == SIM_DNN_POINTWISE && !known_mode(o->mode))
            return "an unknown operation";
        if (o->kind == SIM_DNN_POINTWISE && o->mode == CUDNN_POINTWISE_BINARY_SELECT &&
            o->t < 0)
            return "a choice without a mask";
    }
    for (int k = 0; k < g->n_tensors; k++)
        if (g->tensor[k].is_virtual && !g->tensor[k].written)
            return "a tensor is read that nobody makes";
    return NULL;
}
