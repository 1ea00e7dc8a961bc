/* SPDX-License-Identifier: Apache-2.0 */
/* sim_cudnn.c: cuDNN's backend, as trainers call it for attention: descriptors that keep
 * what they are told, a graph that is checked when it is finalized, engines of which the
 * first wants too much workspace, plans, executions. What a graph computes is
 * sim_cudnn_run.c. */
#include "sim_cudnn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ATTRIBUTES = 16 };

typedef struct Attribute {
    cudnnBackendAttributeName_t name;
    int64_t count;
    void *values;
} Attribute;

typedef struct Descriptor {
    cudnnBackendDescriptorType_t type;
    Attribute attribute[MAX_ATTRIBUTES];
    int n_attributes;
    bool final;
    int64_t engine;           /* of a configuration, of an engine */
    const SimDnnGraph *graph; /* of a graph and of all that comes of it */
} Descriptor;

static char last_error[128];

static cudnnStatus_t refuse(const char *why)
{
    snprintf(last_error, sizeof last_error, "%s", why);
    return CUDNN_STATUS_BAD_PARAM;
}

#define BEGIN                                                                            \
    SIM_LOCKED;                                                                          \
    if (sim_planted(__func__))                                                           \
    return CUDNN_STATUS_EXECUTION_FAILED

size_t cudnnGetVersion(void)
{
    return (size_t)sim_setting("CUDASIM_CUDNN", CUDNN_VERSION);
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS     ? "success"
           : status == CUDNN_STATUS_BAD_PARAM ? "a bad parameter"
                                              : "an error of the library";
}

void cudnnGetLastErrorString(char *message, size_t bytes)
{
    snprintf(message, bytes, "%s", last_error);
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    BEGIN;
    *handle = calloc(1, sizeof(cudaStream_t));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    BEGIN;
    *(cudaStream_t *)(void *)handle = stream;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- descriptors ----------------------------------------------------------------- */

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *descriptor)
{
    BEGIN;
    Descriptor *d = calloc(1, sizeof *d);
    d->type = type;
    *descriptor = d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    Descriptor *d = descriptor;

    for (int i = 0; d && i < d->n_attributes; i++)
        free(d->attribute[i].values);
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

static size_t size_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
        return sizeof(bool);
    case CUDNN_TYPE_DATA_TYPE:
        return sizeof(cudnnDataType_t);
    case CUDNN_TYPE_POINTWISE_MODE:
        return sizeof(cudnnPointwiseMode_t);
    case CUDNN_TYPE_REDUCTION_OPERATOR_TYPE:
        return sizeof(cudnnReduceTensorOp_t);
    case CUDNN_TYPE_HEUR_MODE:
        return sizeof(cudnnBackendHeurMode_t);
    default:
        return 8; /* numbers, pointers */
    }
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values)
{
    Descriptor *d = descriptor;
    BEGIN;

    if (!d || d->final || d->n_attributes == MAX_ATTRIBUTES || count < 1)
        return refuse("an attribute of nothing, or of what is final");
    Attribute *a = &d->attribute[d->n_attributes++];
    *a = (Attribute){name, count, malloc((size_t)count * size_of(type))};
    memcpy(a->values, values, (size_t)count * size_of(type));
    return CUDNN_STATUS_SUCCESS;
}

static const Attribute *find(const Descriptor *d, cudnnBackendAttributeName_t name)
{
    for (int i = 0; d && i < d->n_attributes; i++)
        if (d->attribute[i].name == name)
            return &d->attribute[i];
    return NULL;
}

static const Descriptor *descriptor_of(const Descriptor *d,
                                       cudnnBackendAttributeName_t name)
{
    const Attribute *a = find(d, name);

    return a ? *(Descriptor *const *)a->values : NULL;
}

static int64_t number_of(const Descriptor *d, cudnnBackendAttributeName_t name)
{
    const Attribute *a = find(d, name);

    return a ? *(const int64_t *)a->values : -1;
}

static int enum_of(const Descriptor *d, cudnnBackendAttributeName_t name)
{
    const Attribute *a = find(d, name);

    return a ? *(const int *)a->values : -1;
}

static bool flag_of(const Descriptor *d, cudnnBackendAttributeName_t name)
{
    const Attribute *a = find(d, name);

    return a && *(const bool *)a->values;
}

/* ---- graphs ---------------------------------------------------------------------- */

/* The tensor of that number, a new one if there was none; -1 without a descriptor. */
static int tensor(SimDnnGraph *g, const Descriptor *d)
{
    SimTensor t = {.uid = number_of(d, CUDNN_ATTR_TENSOR_UNIQUE_ID)};

    if (!d)
        return -1;
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensor[i].uid == t.uid)
            return i;
    memcpy(t.dim, find(d, CUDNN_ATTR_TENSOR_DIMENSIONS)->values, sizeof t.dim);
    memcpy(t.stride, find(d, CUDNN_ATTR_TENSOR_STRIDES)->values, sizeof t.stride);
    t.type = (cudnnDataType_t)enum_of(d, CUDNN_ATTR_TENSOR_DATA_TYPE);
    t.is_virtual = flag_of(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    t.by_value = flag_of(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
    if (g->n_tensors == SIM_DNN_TENSORS)
        abort();
    g->tensor[g->n_tensors] = t;
    return g->n_tensors++;
}

static SimDnnOp operation(SimDnnGraph *g, const Descriptor *d)
{
    SimDnnOp o = {.b = -1, .t = -1};
    const Descriptor *how;

    switch (d->type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        o.kind = SIM_DNN_MATMUL;
        o.x = tensor(g, descriptor_of(d, CUDNN_ATTR_OPERATION_MATMUL_ADESC));
        o.b = tensor(g, descriptor_of(d, CUDNN_ATTR_OPERATION_MATMUL_BDESC));
        o.y = tensor(g, descriptor_of(d, CUDNN_ATTR_OPERATION_MATMUL_CDESC));
        break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        how = descriptor_of(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
        o.kind = SIM_DNN_POINTWISE;
        o.mode = enum_of(how, CUDNN_ATTR_POINTWISE_MODE);
        o.axis = number_of(how, CUDNN_ATTR_POINTWISE_AXIS);
        o.x = tensor(g, descriptor_of(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
        o.b = tensor(g, descriptor_of(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
        o.t = tensor(g, descriptor_of(d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC));
        o.y = tensor(g, descriptor_of(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
        break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        how = descriptor_of(d, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
        o.kind = SIM_DNN_REDUCE;
        o.mode = enum_of(how, CUDNN_ATTR_REDUCTION_OPERATOR);
        o.x = tensor(g, descriptor_of(d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
        o.y = tensor(g, descriptor_of(d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
        break;
    default:
        o.kind = SIM_DNN_RESHAPE;
        o.x = tensor(g, descriptor_of(d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
        o.y = tensor(g, descriptor_of(d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
        break;
    }
    g->tensor[o.y].written = true;
    return o;
}

/* Graphs are kept to the end: captured executions have them. */
static cudnnStatus_t finalize_graph(Descriptor *d)
{
    const Attribute *ops = find(d, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    SimDnnGraph *g = calloc(1, sizeof *g);
    const char *problem;

    for (int64_t i = 0; ops && i < ops->count && i < SIM_DNN_OPS; i++)
        g->op[g->n_ops++] = operation(g, ((Descriptor *const *)ops->values)[i]);
    problem = ops ? sim_dnn_problem(g) : "a graph of nothing";
    if (problem)
        return refuse(problem);
    d->graph = g;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    Descriptor *d = descriptor;
    const Descriptor *from = NULL;
    BEGIN;

    if (!d || d->final)
        return refuse("nothing to finalize");
    if (d->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR &&
        finalize_graph(d) != CUDNN_STATUS_SUCCESS)
        return CUDNN_STATUS_BAD_PARAM;
    if (d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
        from = descriptor_of(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        from = descriptor_of(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (from) {
        d->graph = from->graph;
        d->engine = from->engine;
    }
    d->final = true;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- engines and plans ----------------------------------------------------------- */

/* As the library's: the backward keeps a 16-bit number for every pair, in whole blocks.
 * The first engine wants more than anybody plans; the second is not the same every time.
 */
static int64_t workspace_bytes(const Descriptor *plan)
{
    const SimDnnGraph *g = plan->graph;
    int64_t bytes = 256;

    for (int k = 0; k < g->n_ops; k++) {
        const SimTensor *y = &g->tensor[g->op[k].y];

        if (g->op[k].kind == SIM_DNN_RESHAPE && y->dim[2] == y->dim[3])
            bytes = 256 + 2 * y->dim[0] * y->dim[1] * y->dim[2] * y->dim[3];
    }
    return plan->engine == 0 ? INT64_C(1) << 40 : bytes;
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most,
                                       int64_t *count, void *values)
{
    const Descriptor *d = descriptor;
    BEGIN;

    (void)type;
    *count = 1;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        *count = most < 3 ? most : 3;
        for (int64_t i = 0; i < *count; i++) {
            Descriptor *config = ((Descriptor **)values)[i];

            config->graph = d->graph;
            config->engine = i;
        }
        break;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        ((Descriptor **)values)[0]->engine = d->engine;
        break;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        *count = d->engine == 1;
        *(cudnnBackendNumericalNote_t *)values = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
        break;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        *(int64_t *)values = d->engine;
        break;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        *(int64_t *)values = workspace_bytes(d);
        break;
    default:
        return refuse("an attribute that is not known here");
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    const Descriptor *p = plan;
    const Attribute *uids = find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const Attribute *data = find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    const Attribute *space = find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    SimDnnCall call = {.graph = p->graph, .workspace_bytes = workspace_bytes(p)};
    SimWork work = {.run = sim_dnn_run, .payload = &call, .payload_bytes = sizeof call};
    BEGIN;

    call.workspace = space ? *(void *const *)space->values : NULL;
    for (int k = 0; k < p->graph->n_tensors; k++) {
        const SimTensor *t = &p->graph->tensor[k];

        for (int64_t i = 0; i < uids->count && i < data->count; i++)
            if (((const int64_t *)uids->values)[i] == t->uid)
                call.at[k] = ((void *const *)data->values)[i];
        if (!t->is_virtual && !call.at[k])
            return refuse("a tensor without a place");
        if (t->by_value)
            call.value[k] = *(const float *)call.at[k];
    }
    snprintf(work.what, sizeof work.what, "attention by cuDNN");
    sim_enqueue(sim_stream(*(cudaStream_t *)(void *)handle), &work);
    return sim_broken() ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS;
}
