/* SPDX-License-Identifier: MIT-0 */
/* rt_cudnn_graph.c: causal attention and its backward as graphs of cuDNN operations. In:
 * RtAttention. Out: a plan for a device.
 *
 * The library has no operation "attention": it recognises the graph of its parts, in the
 * order used here, and runs one kernel for all. The backward has two forms; this is the
 * one that stores the scores' gradients in a workspace for all pairs and adds in a fixed
 * order, so its bits are the same every time. */
#define _GNU_SOURCE
#include "cuda/rt_cudnn.h"

#include <stdbool.h>
#include <stdio.h>

typedef cudnnBackendDescriptor_t Desc;

enum { MAX_OPS = 32, MAX_MADE = 192, MAX_CONFIGS = 8, VIRTUAL = RT_DNN_TENSORS };

/* The first failing call is recorded, and no other is made after it. */
typedef struct Graph {
    const RtAttention *a;
    Desc op[MAX_OPS], made[MAX_MADE];
    int n_ops, n_made;
    int64_t next; /* number of the next virtual tensor */
    cudnnStatus_t status;
    const char *failed;
} Graph;

typedef struct Shape {
    int64_t dim[4], stride[4];
} Shape;

#define CALL(g, call)                                                                    \
    do {                                                                                 \
        if ((g)->status == CUDNN_STATUS_SUCCESS) {                                       \
            (g)->status = (call);                                                        \
            (g)->failed = #call;                                                         \
        }                                                                                \
    } while (0)

static Desc make(Graph *g, cudnnBackendDescriptorType_t type)
{
    Desc d = NULL;
    CALL(g, cudnnBackendCreateDescriptor(type, &d));
    if (d != NULL && g->n_made < MAX_MADE)
        g->made[g->n_made++] = d;
    return d;
}

static void set(Graph *g, Desc d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    CALL(g, cudnnBackendSetAttribute(d, name, type, n, values));
}

static void set_desc(Graph *g, Desc d, cudnnBackendAttributeName_t name, Desc value)
{
    set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finish(Graph *g, Desc d)
{
    CALL(g, cudnnBackendFinalize(d));
}

/* ---- tensors --------------------------------------------------------------------- */

static Desc tensor(Graph *g, int64_t number, cudnnDataType_t type, Shape s,
                   int64_t alignment, bool by_value)
{
    Desc t = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const bool is_virtual = number >= VIRTUAL;
    set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number);
    set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, s.dim);
    set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, s.stride);
    set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    if (by_value)
        set(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    finish(g, t);
    return t;
}

static cudnnDataType_t element(const RtAttention *a)
{
    return a->dtype == RT_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

/* Rows of `heads` heads, one per token, `row` elements apart: [sequence, head, token,
 * element]. */
static Shape rows(const RtAttention *a, int64_t heads, int64_t row)
{
    return (Shape){{a->sequences, heads, a->seq, a->head_dim},
                   {a->seq * row, a->head_dim, row, 1}};
}

/* As the right operand of a product: tokens last. */
static Shape turned(Shape s)
{
    return (Shape){{s.dim[0], s.dim[1], s.dim[3], s.dim[2]},
                   {s.stride[0], s.stride[1], s.stride[3], s.stride[2]}};
}

/* For every pair of tokens of a head; for every token of it. */
static Shape pairs(const RtAttention *a)
{
    const int64_t s = a->seq;
    return (Shape){{a->sequences, a->heads, s, s}, {a->heads * s * s, s * s, s, 1}};
}

static Shape each(const RtAttention *a, int64_t heads)
{
    return (Shape){{a->sequences, a->heads, a->seq, 1}, {heads * a->seq, a->seq, 1, 1}};
}

static Desc real(Graph *g, int64_t number, Shape s)
{
    return tensor(g, number, element(g->a), s, 16, false);
}

/* A float for each query; lse may start at any alignment. */
static Desc numbers(Graph *g, int64_t number, int64_t heads)
{
    return tensor(g, number, CUDNN_DATA_FLOAT, each(g->a, heads),
                  g->a->seq % 4 == 0 ? 16 : 4, false);
}

static Desc value(Graph *g, int64_t number)
{
    return tensor(g, number, CUDNN_DATA_FLOAT, (Shape){{1, 1, 1, 1}, {1, 1, 1, 1}}, 4,
                  true);
}

static Desc nowhere(Graph *g, cudnnDataType_t type, Shape s)
{
    return tensor(g, g->next++, type, s, type == CUDNN_DATA_BOOLEAN ? 1 : 16, false);
}

/* ---- operations ------------------------------------------------------------------ */

static void push(Graph *g, Desc op)
{
    finish(g, op);
    if (g->n_ops < MAX_OPS)
        g->op[g->n_ops++] = op;
}

static Desc product(Graph *g, Desc a, Desc b, Desc c)
{
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    Desc how = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    finish(g, how);
    Desc op = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    set_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    push(g, op);
    return c;
}

/* y = x MODE b, or MODE x without b; with a mask: x where it is true, else b. Axis: for
 * an index, or -1. */
static Desc pointwise(Graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t type,
                      int64_t axis, Desc x, Desc b, Desc mask, Desc y)
{
    Desc how = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (axis >= 0)
        set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finish(g, how);
    Desc op = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b != NULL)
        set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (mask != NULL)
        set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, mask);
    set_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    push(g, op);
    return y;
}

/* The same on virtual floats: for all pairs, or a number per query. */
static Desc with(Graph *g, cudnnPointwiseMode_t mode, Desc x, Desc b, Shape s)
{
    return pointwise(g, mode, CUDNN_DATA_FLOAT, -1, x, b, NULL,
                     nowhere(g, CUDNN_DATA_FLOAT, s));
}

static Desc reduce(Graph *g, cudnnReduceTensorOp_t what, Desc x, Desc y)
{
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    Desc how = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
        &what);
    set(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    finish(g, how);
    Desc op = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_desc(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_desc(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    set_desc(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    push(g, op);
    return y;
}

/* The same elements in another shape: how a graph transposes a matrix. */
static Desc reshape(Graph *g, Desc x, Desc y)
{
    Desc op = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_desc(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_desc(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    push(g, op);
    return y;
}

static Desc index_of(Graph *g, int64_t axis, Desc scores)
{
    return pointwise(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis, scores, NULL,
                     NULL, nowhere(g, CUDNN_DATA_INT32, pairs(g->a)));
}

/* Sets scores of keys that a query does not see so that their exp is 0. */
static Desc hide(Graph *g, Desc scores, cudnnPointwiseMode_t mode, Desc a, Desc b)
{
    const Shape all = pairs(g->a);
    Desc seen = pointwise(g, mode, CUDNN_DATA_BOOLEAN, -1, a, b, NULL,
                          nowhere(g, CUDNN_DATA_BOOLEAN, all));
    return pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, scores,
                     value(g, RT_DNN_HIDDEN), seen, nowhere(g, CUDNN_DATA_FLOAT, all));
}

static Desc masked(Graph *g, Desc scores)
{
    Desc query = index_of(g, 2, scores), key = index_of(g, 3, scores);
    Desc seen = hide(g, scores, CUDNN_POINTWISE_CMP_GE, query, key);
    if (g->a->window == 0 || g->a->window >= g->a->seq)
        return seen;
    query = index_of(g, 2, seen);
    key = index_of(g, 3, seen);
    Desc end = pointwise(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, 3, key,
                         value(g, RT_DNN_WINDOW), NULL,
                         nowhere(g, CUDNN_DATA_FLOAT, pairs(g->a)));
    return hide(g, seen, CUDNN_POINTWISE_CMP_GT, end, query);
}

static void forward(Graph *g)
{
    const RtAttention *a = g->a;
    const Shape all = pairs(a), one = each(a, a->heads);
    const Shape kv = rows(a, a->kv_heads, a->qkv_row);
    Desc q = real(g, RT_DNN_Q, rows(a, a->heads, a->qkv_row));
    Desc s =
        product(g, q, real(g, RT_DNN_K, turned(kv)), nowhere(g, CUDNN_DATA_FLOAT, all));
    s = masked(g, with(g, CUDNN_POINTWISE_MUL, s, value(g, RT_DNN_SCALE), all));

    Desc top = reduce(g, CUDNN_REDUCE_TENSOR_MAX, s, nowhere(g, CUDNN_DATA_FLOAT, one));
    Desc e = with(g, CUDNN_POINTWISE_SUB, s, top, all);
    e = with(g, CUDNN_POINTWISE_EXP, e, NULL, all);
    Desc sum = reduce(g, CUDNN_REDUCE_TENSOR_ADD, e, nowhere(g, CUDNN_DATA_FLOAT, one));
    Desc log = with(g, CUDNN_POINTWISE_LOG, sum, NULL, one);
    pointwise(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, -1, top, log, NULL,
              numbers(g, RT_DNN_LSE, a->lse_heads));
    Desc p = pointwise(g, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, -1, e, sum, NULL,
                       nowhere(g, element(a), all));
    product(g, p, real(g, RT_DNN_V, kv), real(g, RT_DNN_O, rows(a, a->heads, a->o_row)));
}

/* The gradient of keys or values: `weights` of all pairs, transposed, times rows of all
 * heads; then the sum over the heads that share them. */
static void into_kv(Graph *g, Desc weights, Desc x, int64_t number)
{
    const RtAttention *a = g->a;
    const Shape s = rows(a, a->heads, a->heads * a->head_dim);
    Desc w = reshape(g, weights, nowhere(g, element(a), turned(pairs(a))));
    Desc out = real(g, number, rows(a, a->kv_heads, a->qkv_row));
    if (a->heads == a->kv_heads) {
        product(g, w, x, out);
        return;
    }
    /* Each head's rows are adjacent. */
    Shape of_heads = s;
    of_heads.stride[0] = a->heads * a->seq * a->head_dim;
    of_heads.stride[1] = a->seq * a->head_dim;
    of_heads.stride[2] = a->head_dim;
    Desc all = product(g, w, x, nowhere(g, element(a), of_heads));
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, all, out);
}

/* With p = exp(s - lse), dp = do v^T and delta = sum(do * o): ds = p * (dp - delta) *
 * scale. */
static void backward(Graph *g)
{
    const RtAttention *a = g->a;
    const Shape all = pairs(a), one = each(a, a->heads);
    const Shape kv = rows(a, a->kv_heads, a->qkv_row);
    const Shape of_o = rows(a, a->heads, a->o_row);
    Desc q = real(g, RT_DNN_Q, rows(a, a->heads, a->qkv_row));
    Desc k = real(g, RT_DNN_K, turned(kv)), v = real(g, RT_DNN_V, turned(kv));
    Desc o = real(g, RT_DNN_O, of_o), d_o = real(g, RT_DNN_D_O, of_o);
    Desc scale = value(g, RT_DNN_SCALE);

    Desc dots = with(g, CUDNN_POINTWISE_MUL, d_o, o, rows(a, a->heads, a->o_row));
    Desc sums =
        reduce(g, CUDNN_REDUCE_TENSOR_ADD, dots, nowhere(g, CUDNN_DATA_FLOAT, one));
    Desc delta =
        pointwise(g, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, -1, sums,
                  value(g, RT_DNN_ONE), NULL, numbers(g, RT_DNN_DELTA, a->heads));

    Desc s = product(g, q, k, nowhere(g, CUDNN_DATA_FLOAT, all));
    s = with(g, CUDNN_POINTWISE_MUL, s, scale, all);
    s = with(g, CUDNN_POINTWISE_SUB, s, numbers(g, RT_DNN_LSE, a->lse_heads), all);
    Desc p = with(g, CUDNN_POINTWISE_EXP, masked(g, s), NULL, all);
    into_kv(g, p, d_o, RT_DNN_DV);

    Desc dp = product(g, d_o, v, nowhere(g, CUDNN_DATA_FLOAT, all));
    Desc ds = with(g, CUDNN_POINTWISE_SUB, dp, delta, all);
    ds = with(g, CUDNN_POINTWISE_MUL, ds, p, all);
    ds = with(g, CUDNN_POINTWISE_MUL, ds, scale, all);
    into_kv(g, ds, q, RT_DNN_DK);
    Desc keys = reshape(g, k, nowhere(g, element(a), kv));
    product(g, ds, keys, real(g, RT_DNN_DQ, rows(a, a->heads, a->qkv_row)));
}

/* ---- plans ----------------------------------------------------------------------- */

static int64_t number_of(Graph *g, Desc d, cudnnBackendAttributeName_t name)
{
    int64_t value = 0, n = 0;
    CALL(g, cudnnBackendGetAttribute(d, name, CUDNN_TYPE_INT64, 1, &n, &value));
    return value;
}

static Desc engine_of(Graph *g, Desc config)
{
    Desc engine = make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t n = 0;
    CALL(g, cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine));
    return engine;
}

/* Does the library say that an engine's bits may differ from run to run? */
static bool is_unsteady(Graph *g, Desc engine)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT] = {0};
    int64_t n = 0;
    CALL(g, cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                     CUDNN_TYPE_NUMERICAL_NOTE,
                                     CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, notes));
    for (int64_t i = 0; i < n; i++)
        if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
            return true;
    return false;
}

/* Configurations that the library proposes, in its order; returns how many. */
static int propose(Graph *g, cudnnHandle_t handle, Desc device, Desc config[MAX_CONFIGS])
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t n = 0;
    Desc graph = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->n_ops,
        g->op);
    if (handle != NULL)
        set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    finish(g, graph);
    Desc heuristic = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_desc(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (handle == NULL)
        set_desc(g, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
    finish(g, heuristic);
    for (int i = 0; i < MAX_CONFIGS; i++)
        config[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    CALL(g, cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_CONFIGS, &n,
                                     config));
    return g->status == CUDNN_STATUS_SUCCESS ? (int)n : 0;
}

/* False: the library cannot plan with this configuration, or its bits vary; another one
 * may work. */
static bool plan_by(Graph *g, cudnnHandle_t handle, Desc device, Desc config,
                    RtDnnPlan *plan)
{
    Desc d = NULL, engine = engine_of(g, config);
    if (is_unsteady(g, engine))
        return false;
    CALL(g, cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &d));
    set_desc(g, d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (handle != NULL)
        set(g, d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    else
        set_desc(g, d, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
    if (g->status != CUDNN_STATUS_SUCCESS ||
        cudnnBackendFinalize(d) != CUDNN_STATUS_SUCCESS) {
        cudnnBackendDestroyDescriptor(d);
        return false;
    }
    plan->plan = d;
    plan->engine = number_of(g, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
    plan->workspace_bytes = number_of(g, d, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    return true;
}

static bool plan_within(Graph *g, cudnnHandle_t handle, Desc device, int64_t most_bytes,
                        RtDnnPlan *plan, char *why, size_t why_bytes)
{
    Desc config[MAX_CONFIGS] = {NULL};
    const int n = propose(g, handle, device, config);
    int64_t least = -1;
    for (int i = 0; i < n; i++) {
        if (!plan_by(g, handle, device, config[i], plan))
            continue;
        if (plan->workspace_bytes <= most_bytes)
            return g->status == CUDNN_STATUS_SUCCESS;
        if (least < 0 || plan->workspace_bytes < least)
            least = plan->workspace_bytes;
        cudnnBackendDestroyDescriptor(plan->plan);
    }
    if (least >= 0) {
        snprintf(why, why_bytes, "it wants a workspace of %lld bytes, of %lld planned",
                 (long long)least, (long long)most_bytes);
    } else {
        snprintf(why, why_bytes,
                 "it has no engine for it whose bits are the same every time");
    }
    return false;
}

bool rt_dnn_plan(const RtAttention *a, cudnnHandle_t handle,
                 cudnnBackendDescriptor_t device, int64_t most_bytes, RtDnnPlan *plan,
                 char *why, size_t why_bytes)
{
    Graph g = {.a = a, .next = VIRTUAL, .status = CUDNN_STATUS_SUCCESS};
    if (a->backward)
        backward(&g);
    else
        forward(&g);
    const bool done = g.status == CUDNN_STATUS_SUCCESS &&
                      plan_within(&g, handle, device, most_bytes, plan, why, why_bytes);
    if (g.status != CUDNN_STATUS_SUCCESS) {
        char last[256] = "";
        cudnnGetLastErrorString(last, sizeof last);
        snprintf(why, why_bytes, "%.40s: %s %s", g.failed, cudnnGetErrorString(g.status),
                 last);
    }
    while (g.n_made > 0)
        cudnnBackendDestroyDescriptor(g.made[--g.n_made]);
    return done;
}
