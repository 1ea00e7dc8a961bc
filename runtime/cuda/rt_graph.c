/* SPDX-License-Identifier: MIT-0 */
/* rt_graph.c: parts of a step as CUDA graphs. In: functions of step.c, each called with
 * only the rank: the micro-step's variants, the merge of a leaf, the end of the step.
 * Out: what they enqueue, in one launch each.
 *
 * 1. The first step runs uncaptured. In it NCCL connects, and kernels and cuBLASLt load
 *    what they need, which may allocate and wait for the device: a capture forbids both.
 * 2. After it, with nothing in progress, each part that it ran is captured once: its
 *    calls are recorded, not executed. From the second step on nothing is allocated.
 * 3. An evaluation between two steps is not captured: it uses the communicators call by
 *    call while no graph runs, which NCCL's default support for mixing allows.
 * 4. A graph repeats addresses and numbers as they were at capture. Offsets are the
 *    plan's, so they stay. What changes is in device memory (rt_norm.c): learning rate,
 *    bias corrections, clip factor, whether to skip, the scale of the loss, the round of
 *    a merge.
 * 5. Tokens, and the numbers of rounds and steps, are copied between the graphs from
 *    pinned memory, which is written again only after an event, or the step's end, shows
 *    that it was read. The loss of a micro-batch leaves a graph at one address, and a
 *    copy moves it to its own.
 * 6. A graph begins when the previous one is complete and ends when all streams have
 *    joined, so it does not wait for collectives that were started before it. */
#include "cuda/rt_gpu.h"

enum { MAX_GRAPHS = 8 };

/* Counted by rt_nccl.c while enqueuing; a graph's launch counts it again. */
typedef struct Moved {
    int64_t gathered, reduced, replicate, node, matrix, met;
} Moved;

typedef struct Graph {
    RtStepPart *part;
    cudaGraphExec_t exec; /* NULL: not captured */
    Moved moved;
} Graph;
static Graph graphs[MAX_GRAPHS];
static int n_graphs;

static Moved moved_so_far(const RtState *st)
{
    return (Moved){st->gathered_bytes, st->reduced_bytes, st->replicate_bytes,
                   st->node_bytes,     st->matrix_bytes,  st->met_bytes};
}

static void set_moved(RtState *st, Moved m)
{
    st->gathered_bytes = m.gathered;
    st->reduced_bytes = m.reduced;
    st->replicate_bytes = m.replicate;
    st->node_bytes = m.node;
    st->matrix_bytes = m.matrix;
    st->met_bytes = m.met;
}

static Moved sum(Moved a, int64_t sign, Moved b)
{
    return (Moved){a.gathered + sign * b.gathered,   a.reduced + sign * b.reduced,
                   a.replicate + sign * b.replicate, a.node + sign * b.node,
                   a.matrix + sign * b.matrix,       a.met + sign * b.met};
}

static Graph *graph_of(const Rt *rt, RtStepPart *part)
{
    for (int i = 0; i < n_graphs; i++)
        if (graphs[i].part == part)
            return &graphs[i];
    if (n_graphs == MAX_GRAPHS)
        rt_fail(rt, RT_EXIT_ERROR, "a step of more than %d parts", MAX_GRAPHS);
    graphs[n_graphs] = (Graph){.part = part};
    return &graphs[n_graphs++];
}

void rt_run(Rt *rt, RtStepPart *part)
{
    RtState *st = rt->state;
    Graph *g = graph_of(rt, part);
    if (g->exec == NULL) {
        part(rt);
    } else {
        RT_CUDA_CALL(rt, cudaGraphLaunch(g->exec, rt_gpu.stream[RT_COMPUTE]));
        set_moved(st, sum(moved_so_far(st), 1, g->moved));
    }
    if (st->micro_batch >= 0) { /* the part has computed its loss */
        if (rt_counts(rt))
            rt_loss_put(rt);
        st->micro_batch = -1;
    }
}

static void capture(Rt *rt, Graph *g)
{
    const Moved moved = moved_so_far(rt->state);
    cudaGraph_t graph;
    rt_capture_begin(rt);
    g->part(rt);
    rt_capture_end(rt, &graph);
    g->moved = sum(moved_so_far(rt->state), -1, moved);
    set_moved(rt->state, moved); /* nothing has moved yet */
    /* Collectives keep the priority of their stream. */
    RT_CUDA_CALL(rt, cudaGraphInstantiate(&g->exec, graph,
                                          cudaGraphInstantiateFlagUseNodePriority));
    RT_CUDA_CALL(rt, cudaGraphDestroy(graph));
    /* Uploads now what a launch needs on the device. */
    RT_CUDA_CALL(rt, cudaGraphUpload(g->exec, rt_gpu.stream[RT_COMPUTE]));
}

void rt_graphs_capture(Rt *rt)
{
    rt_gpu_measure(RT_OUT_LATER);
    for (int i = 0; i < n_graphs; i++)
        capture(rt, &graphs[i]);
    rt_gpu_drain(rt);
    rt_gpu_measure(RT_OUT_GRAPHS);
}

void rt_graphs_close(Rt *rt)
{
    for (int i = 0; i < n_graphs; i++)
        if (graphs[i].exec != NULL)
            RT_CUDA_CALL(rt, cudaGraphExecDestroy(graphs[i].exec));
    n_graphs = 0;
}
