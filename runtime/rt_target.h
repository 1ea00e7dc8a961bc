/* SPDX-License-Identifier: MIT-0 */
/* rt_target.h: what each target, cpu/ and cuda/, provides for the rest of the runtime. Targets are
 * the highest room, which no other includes; but they decide where bytes are and how they travel.
 * So the rooms below call the functions declared here, and no others of a target. What emitted code
 * calls of a target is in rt.h. */
#ifndef RT_TARGET_H
#define RT_TARGET_H

#include "rt_private.h"

/* ---- the arena ------------------------------------------------------------------- */

int64_t rt_shared_bytes(const RtTrainer *t); /* initial size of the descriptor */
bool rt_arena_map(Rt *rt, int fd, bool guard, char *error);
/* Copies between a space of this rank and memory of this process; on a device, device copies. */
typedef enum { RT_SPACE_SYMMETRIC, RT_SPACE_LOCAL } RtSpace;
void rt_arena_read(const Rt *rt, RtSpace space, int64_t offset, void *to, int64_t bytes);
void rt_arena_write(Rt *rt, RtSpace space, int64_t offset, const void *from,
                    int64_t bytes);
#ifdef RT_CUDA
/* A device copies to pinned host memory several times as fast. If the machine refuses to pin that
 * much, nothing changes. */
void rt_arena_pin(const Rt *rt, void *at, int64_t bytes);
#else
static inline void rt_arena_pin(const Rt *rt, void *at, int64_t bytes)
{
    (void)rt, (void)at, (void)bytes;
}
#endif
/* With guards: are the bytes before and after this rank's spaces intact? */
bool rt_arena_intact(const Rt *rt);

/* Bytes of this rank's arena for the host to read or write. On the CPU they are the arena's own; on
 * CUDA a copy of at most RT_WINDOW_BYTES, which opening fills (RT_READ) or closing writes back. Two
 * may be open at once, 0 and 1. The control area is host memory on both. */
enum { RT_READ, RT_WRITE, RT_WINDOWS = 2, RT_WINDOW_ELEMS = 1 << 20 };
#define RT_WINDOW_BYTES ((int64_t)RT_WINDOW_ELEMS * 8)
/* Where the numbers of a micro-batch go, until rt_stage_close sends them. */
typedef struct RtStage {
    int32_t *tokens, *targets, *starts;
} RtStage;
#ifdef RT_CUDA
void *rt_window(Rt *rt, int window, void *at, int64_t bytes, int mode);
void rt_window_close(Rt *rt, int window);
char *rt_control(const Rt *rt, int rank); /* a rank's control area */
RtStage rt_stage(Rt *rt);
void rt_stage_send(Rt *rt);  /* for an evaluation */
void rt_stage_close(Rt *rt); /* for the step: its targets are counted */
/* Sends what the host knows of the step before it starts. */
void rt_step_begin(Rt *rt);
/* What the optimizer reads of the step, in device memory. */
const RtUpdate *rt_device_update(const Rt *rt);
#else
static inline void *rt_window(Rt *rt, int window, void *at, int64_t bytes, int mode)
{
    (void)rt, (void)window, (void)bytes, (void)mode;
    return at;
}
static inline void rt_window_close(Rt *rt, int window)
{
    (void)rt, (void)window;
}
static inline char *rt_control(const Rt *rt, int rank)
{
    return rt->peer[rank] + rt->trainer->control_offset;
}
static inline RtStage rt_stage(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    return (RtStage){rt_local(rt, t->tokens_offset), rt_local(rt, t->targets_offset),
                     rt_local(rt, t->starts_offset)};
}
static inline void rt_stage_send(Rt *rt)
{
    (void)rt;
}
static inline void rt_stage_close(Rt *rt)
{
    (void)rt;
}
static inline void rt_step_begin(Rt *rt)
{
    (void)rt;
}
#endif

/* ---- collectives and exchanges --------------------------------------------------- */

/* Enqueues a collective on a stream, RT_GATHER or RT_REDUCE, and returns before it is complete.
 * All ranks start the same ones in the same order. On CUDA, sums need the reduce dtype. */
void rt_collective_start(Rt *rt, int stream, RtOp op);
/* Waits for the last started collective of this subject on the stream. */
void rt_collective_wait(Rt *rt, int stream, int subject);
/* rt_at for RT_AT_* and the places of the step. */
void rt_enter(Rt *rt, int place);
/* A small exchange through the control areas: begin (everybody has read mine, so I may write),
 * publish (everybody has written, so I may read theirs), end (I have read them). bytes: how many of
 * mine I have written; they travel if ranks are on several machines. */
void rt_exchange_begin(Rt *rt);
void rt_exchange_publish(Rt *rt, size_t bytes);
void rt_exchange_end(Rt *rt);
/* With RtTrainer.comm_thread: from here to the end, a thread of its own drives the queues. */
void rt_comm_begin(Rt *rt);
void rt_comm_end(Rt *rt);
void rt_comm_drain(Rt *rt);    /* returns when every started collective is complete */
void rt_comm_step_end(Rt *rt); /* and the step's results are known */

/* ---- sums ------------------------------------------------------------------------ */

/* Like rt_merge_segment, for a node and its partial sums. */
void rt_merge(Rt *rt, void *node, void *partials, int64_t elems);
/* The loss that an evaluation left in the loss slot; resets the slot to zero. */
double rt_loss_take(Rt *rt);

/* ---- measuring (--calibrate) ------------------------------------------------- */

/* Seconds that what is computed between the two took; on CUDA by events on the compute stream, on
 * the CPU by the clock of the rank's only thread, if it has one and waits for no other rank. */
void rt_lap_begin(Rt *rt, bool waits);
double rt_lap_end(Rt *rt);
/* C = A B. product: RtGemm; on CUDA RtMatmul, which the first call prepares. */
void rt_product(Rt *rt, void *product, const void *a, const void *b, void *c);
/* Copies within the local space, as fast as this rank can; and the least that can be started:
 * threads that do nothing, or a launch of 4 bytes at `at`. */
void rt_copy(Rt *rt, char *to, const char *from, int64_t bytes);
void rt_launch_least(Rt *rt, char *at);

/* rt_matrix.c: copies rows of row_bytes, in either space. */
typedef struct RtRows {
    char *at;
    int64_t pitch_bytes; /* from one row to the next */
} RtRows;
void rt_copy_rows(Rt *rt, RtRows to, RtRows from, int64_t row_bytes, int64_t rows);

/* ---- memory ---------------------------------------------------------------------- */

int64_t rt_memory_high_water_bytes(void);
/* Memory that this rank's arena will still take from what rt_host_free_bytes reports. */
int64_t rt_arena_awaits_bytes(const Rt *rt);
/* Warns if the arenas of all ranks exceed the memory that this machine can give now, and if the
 * library under the products has no kernels for this processor. */
void rt_start_warn(const RtTrainer *t);
void rt_memory_planned(const Rt *rt, FILE *out);
void rt_memory_resident(const Rt *rt, FILE *out);

/* ---- several machines, tuning ---------------------------------------------------- */

#ifdef RT_NCCL
struct RtJob;
struct RtJoin;
struct RtSecret;
/* Before the ranks of this machine start: waits for those of all other machines. False: not met,
 * and why. Then start, once, when this process has started its own; end: this machine's ranks have
 * ended, or the job was aborted; it tells the others. */
bool rt_machines_meet(const RtTrainer *t, const RtFlags *f, const struct RtJoin *j,
                      const struct RtSecret *secret, RtShared *shared, int fd,
                      int64_t patience_ns, char *error);
void rt_machines_start(struct RtJob *job);
void rt_machines_close(void); /* in a rank: closes the connections of its watcher */
void rt_machines_end(struct RtJob *job);
#endif
#ifdef RT_CUDA
int rt_tune(const RtTrainer *t, const RtFlags *f); /* --tune-kernels; returns an exit code */
#endif

#endif
