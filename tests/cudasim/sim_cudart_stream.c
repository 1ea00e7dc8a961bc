/* SPDX-License-Identifier: Apache-2.0 */
/* sim_cudart_stream.c: streams, events and graphs of the CUDA runtime on the simulated
 * device (sim_stream.h). Events stay allocated: an operation may still record one. */
#include "sim_cudart.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

cudaError_t sim_result(cudaError_t e);

#define BEGIN                                                                            \
    SIM_LOCKED;                                                                          \
    if (sim_planted(__func__))                                                           \
    return sim_result(cudaErrorUnknown)

/* ---- streams --------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags,
                                         int priority)
{
    BEGIN;
    (void)priority;
    *stream = (cudaStream_t)sim_stream_create(flags != cudaStreamNonBlocking);
    return sim_result(cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    BEGIN;
    sim_stream_destroy(sim_stream(stream));
    return sim_result(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    SimStream *s = sim_stream(stream);
    BEGIN_UNCAPTURED;

    sim_wait(s->last);
    return sim_result(cudaSuccess);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    SimStream *s = sim_stream(stream);
    BEGIN_UNCAPTURED;

    sim_progress_some();
    if (sim_broken())
        return sim_result(cudaSuccess);
    if (!sim_is_done(s->last))
        return cudaErrorNotReady;
    sim_wait(s->last); /* what the host saw done is ordered before what it does next */
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    BEGIN_UNCAPTURED;
    sim_wait_all();
    return sim_result(cudaSuccess);
}

/* ---- events ---------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    BEGIN;
    (void)flags;
    *event = calloc(1, sizeof(SimEvent));
    return sim_result(*event ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    BEGIN;
    sim_event_record((SimEvent *)event, sim_stream(stream));
    return sim_result(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    BEGIN;
    (void)flags;
    return sim_result(sim_event_await(sim_stream(stream), (const SimEvent *)event)
                          ? cudaSuccess
                          : cudaErrorStreamCaptureIsolation);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    BEGIN_UNCAPTURED;
    if (((const SimEvent *)event)->capture)
        return sim_result(cudaErrorCapturedEvent);
    sim_wait(((const SimEvent *)event)->op);
    return sim_result(cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    const uint32_t op = ((const SimEvent *)event)->op;
    BEGIN_UNCAPTURED;

    if (((const SimEvent *)event)->capture)
        return sim_result(cudaErrorCapturedEvent);
    sim_progress_some();
    if (sim_broken())
        return sim_result(cudaSuccess);
    if (!sim_is_done(op))
        return cudaErrorNotReady;
    sim_wait(op);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    BEGIN;
    *ms = (float)((((const SimEvent *)to)->seconds - ((const SimEvent *)from)->seconds) *
                  1e3);
    return sim_result(cudaSuccess);
}

/* ---- functions of the host, in a stream ------------------------------------------ */

typedef struct HostCall {
    cudaHostFn_t fn;
    void *data;
} HostCall;

static SimResult run_host(SimOp *op)
{
    const HostCall *c = op->work.payload;

    c->fn(c->data);
    return SIM_OP_DONE;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *data)
{
    HostCall call = {fn, data};
    const SimWork work = {.run = run_host,
                          .payload = &call,
                          .payload_bytes = sizeof call,
                          .what = "a function of the host"};
    BEGIN;

    sim_enqueue(sim_stream(stream), &work);
    return sim_result(cudaSuccess);
}

/* ---- graphs ---------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    BEGIN;
    (void)mode;
    return sim_result(sim_capture_begin(sim_stream(stream))
                          ? cudaSuccess
                          : cudaErrorStreamCaptureUnsupported);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  enum cudaStreamCaptureStatus *status)
{
    BEGIN;
    *status = sim_stream(stream)->capture ? cudaStreamCaptureStatusActive
                                          : cudaStreamCaptureStatusNone;
    return sim_result(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    bool spoilt;
    BEGIN;

    *graph = (cudaGraph_t)sim_capture_end(sim_stream(stream), &spoilt);
    return sim_result(*graph   ? cudaSuccess
                      : spoilt ? cudaErrorStreamCaptureInvalidated
                               : cudaErrorStreamCaptureUnjoined);
}

/* An executable is its graph, with one user more. */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags)
{
    BEGIN;
    if (flags != 0 && flags != cudaGraphInstantiateFlagUseNodePriority)
        return sim_result(cudaErrorInvalidValue);
    ((SimGraph *)graph)->users++;
    *exec = (cudaGraphExec_t)graph;
    return sim_result(cudaSuccess);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
    (void)exec, (void)stream;
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    BEGIN;
    if (nodes)
        return sim_result(cudaErrorNotSupported);
    *count = (size_t)((SimGraph *)graph)->count;
    return sim_result(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    BEGIN;
    sim_graph_launch((SimGraph *)exec, sim_stream(stream));
    return sim_result(cudaSuccess);
}

static cudaError_t release(SimGraph *g)
{
    sim_wait_all(); /* its nodes' arguments are the graph's */
    sim_graph_release(g);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    BEGIN;
    return sim_result(release((SimGraph *)exec));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    BEGIN;
    return sim_result(release((SimGraph *)graph));
}
