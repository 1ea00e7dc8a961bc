/* SPDX-License-Identifier: MIT-0 */
/* rt_target.h: what each target, cpu/ and cuda/, has for the rest of the runtime. Targets
 * are the highest room, which no other includes; but where bytes lie and how they travel is
 * theirs, so the rooms below call what stands here, and nothing else of them. What emitted
 * code calls of a target is in rt.h. */
#ifndef RT_TARGET_H
#define RT_TARGET_H

#include "rt_private.h"

/* ---- where the arena lies -------------------------------------------------------- */

int64_t rt_shared_bytes(const RtTrainer *t); /* that the descriptor has at first */
bool rt_arena_map(Rt *rt, int fd, bool guard, char *error);
/* Between a space of this rank and memory of this process: on a device, copies. */
typedef enum { RT_SPACE_SYMMETRIC, RT_SPACE_LOCAL } RtSpace;
void rt_arena_read(const Rt *rt, RtSpace space, int64_t offset, void *to, int64_t bytes);
void rt_arena_write(Rt *rt, RtSpace space, int64_t offset, const void *from,
                    int64_t bytes);
#ifdef RT_CUDA
/* A device copies to memory of the host that is pinned several times as fast. Where the
 * machine does not pin as much, nothing changes. */
void rt_arena_pin(const Rt *rt, void *at, int64_t bytes);
#else
static inline void rt_arena_pin(const Rt *rt, void *at, int64_t bytes)
{
    (void)rt, (void)at, (void)bytes;
}
#endif
/* With guards: were the bytes before and after this rank's spaces left alone? */
bool rt_arena_intact(const Rt *rt);

/* Bytes of this rank's arena, for the host to read or to write: on the CPU the arena's
 * own; on CUDA a copy of at most RT_WINDOW_BYTES, which opening fills (RT_READ) or
 * closing writes back. Two may be open at once, 0 and 1. The control area is host memory
 * on both. */
enum { RT_READ, RT_WRITE, RT_WINDOWS = 2, RT_WINDOW_ELEMS = 1 << 20 };
#define RT_WINDOW_BYTES ((int64_t)RT_WINDOW_ELEMS * 8)
/* Where a micro-batch's numbers are put, until rt_stage_close sends them off. */
typedef struct RtStage {
    int32_t *tokens, *targets, *starts;
} RtStage;
#ifdef RT_CUDA
void *rt_window(Rt *rt, int window, void *at, int64_t bytes, int mode);
void rt_window_close(Rt *rt, int window);
char *rt_control(const Rt *rt, int rank); /* a rank's control area */
RtStage rt_stage(Rt *rt);
void rt_stage_send(Rt *rt);  /* of an evaluation */
void rt_stage_close(Rt *rt); /* of the step: its targets are counted */
/* Sends off what the host knows of the step before it begins. */
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

/* Enqueues a collective on a stream, RT_GATHER or RT_REDUCE; returns before it is
 * complete. All ranks start the same ones in the same order. On CUDA sums need RT_REDUCE and the
 * reduce dtype. */
void rt_collective_start(Rt *rt, int stream, RtOp op);
/* For the collective of this subject that was started last on the stream. */
void rt_collective_wait(Rt *rt, int stream, int subject);
/* rt_at for RT_AT_* and the places of the step. */
void rt_enter(Rt *rt, int place);
/* Small exchange through the control areas: begin (mine may be written: everybody has
 * read it), publish (everybody has written: theirs may be read), end (I have read
 * them). bytes: of mine that I have written, which travel where ranks are on several
 * machines. */
void rt_exchange_begin(Rt *rt);
void rt_exchange_publish(Rt *rt, size_t bytes);
void rt_exchange_end(Rt *rt);
/* With RtTrainer.comm_thread: from here on, until it ends, a thread of its own drives the
 * queues. */
void rt_comm_begin(Rt *rt);
void rt_comm_end(Rt *rt);
void rt_comm_drain(Rt *rt);    /* every started collective is complete */
void rt_comm_step_end(Rt *rt); /* that, and the step's results are known */

/* ---- sums ------------------------------------------------------------------------ */

/* As rt_merge_segment, of a node and its partial sums. */
void rt_merge(Rt *rt, void *node, void *partials, int64_t elems);
/* What an evaluation put into the loss slot; the slot is zero again. */
double rt_loss_take(Rt *rt);

/* ---- memory ---------------------------------------------------------------------- */

int64_t rt_memory_high_water_bytes(void);
/* Of what rt_host_free_bytes says, what this rank's arena will take that it has not yet. */
int64_t rt_arena_awaits_bytes(const Rt *rt);
/* When the arenas of all ranks are more than this machine can give now. */
void rt_memory_warn(const RtTrainer *t);
void rt_memory_planned(const Rt *rt, FILE *out);
void rt_memory_resident(const Rt *rt, FILE *out);

/* ---- several machines, tuning ---------------------------------------------------- */

#ifdef RT_NCCL
struct RtJob;
struct RtJoin;
struct RtSecret;
/* Before the ranks of this machine start: waits until those of all others have come.
 * False, and why. Then start, once, when this process has started its own; end: this
 * machine's are done, or the job was aborted, which the others hear of. */
bool rt_machines_meet(const RtTrainer *t, const RtFlags *f, const struct RtJoin *j,
                      const struct RtSecret *secret, RtShared *shared, int fd,
                      int64_t patience_ns, char *error);
void rt_machines_start(struct RtJob *job);
void rt_machines_close(void); /* in a rank: the connections are its watcher's */
void rt_machines_end(struct RtJob *job);
#endif
#ifdef RT_CUDA
int rt_tune(const RtTrainer *t, const RtFlags *f); /* --tune-kernels: an exit code */
#endif

#endif
