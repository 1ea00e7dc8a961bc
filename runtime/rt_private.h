/* SPDX-License-Identifier: MIT-0 */
/* rt_private.h: what the files of the runtime share and emitted code does not see. */
#ifndef RT_PRIVATE_H
#define RT_PRIVATE_H

#include "rt.h"
#include "rt_flags.h"
#include "rt_hash.h"
#include "state/rt_map.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { RT_MACHINE_RANKS = 64 }; /* the most that the CPU target starts */

/* Exit codes of a trainer; 128 + n: ended by signal n. */
enum {
    RT_EXIT_OK = 0,
    RT_EXIT_ERROR = 1,
    RT_EXIT_USAGE = 2,
    RT_EXIT_GATE = 5,
    RT_EXIT_AGAIN = 75 /* a signal: saved, to be resumed */
};

/* ---- the page that all ranks and launchers share --------------------------------- */

/* Streams of collectives; RT_GATHER and RT_REDUCE are rt.h's. RT_CONTROL: small
 * exchanges of the step; RT_MAIL: of saves. */
enum { RT_CONTROL = 2, RT_MAIL = 3, RT_STREAMS = 4, RT_SUM_WORDS = 256 };

/* Where a rank is outside the step's own places. */
enum {
    RT_AT_START = -1,
    RT_AT_DATA = -2,
    RT_AT_INIT = -3,
    RT_AT_SETUP = -4,
    RT_AT_LOG = -5,
    RT_AT_HASH = -6,
    RT_AT_END = -7,
    RT_AT_SAVE = -8,
    RT_AT_LOAD = -9
};

typedef struct RtRankShared {
    /* collectives begun, by stream */
    _Alignas(128) _Atomic uint64_t published[RT_STREAMS];
    _Atomic uint64_t finished;       /* exchanges of the control area read to the end */
    _Atomic uint64_t mail_read;      /* mails of all ranks read */
    _Alignas(128) _Atomic int place; /* index into RtTrainer.places, or RT_AT_* */
    _Atomic int64_t step;            /* 1-based; 0: before the first */
    _Atomic int64_t moved_ns;        /* clock when it last went on */
    _Atomic int64_t looked_ns;       /* CUDA: when its host last looked at its device */
    _Atomic int waiting;             /* stream it waits on, or -1 */
    _Atomic uint64_t waiting_count;  /* for all ranks to have published so many */
    _Atomic int waiting_segment;     /* of that collective, or -1 */
    _Atomic RtGroup waiting_group;   /* whom it joins */
    _Atomic int done;                /* it left with success */
    _Atomic uint32_t
        control_bytes;           /* CUDA: of its control area, that others are to read */
    _Atomic uint32_t mail_bytes; /* of its mail */
    uint64_t numerics_hash, platform_hash;
} RtRankShared;

typedef struct RtShared {
    _Alignas(128) _Atomic uint32_t bell; /* rung at every publication: a futex */
    _Atomic uint32_t sleepers;           /* ranks that listen */
    _Alignas(128) _Atomic int abort;     /* exit code of the job once somebody failed */
    _Atomic int telling;                 /* ranks that are about to say why they fail */
    _Atomic int signal;                  /* the job was asked to end */
    _Atomic int again;                   /* it did, with a checkpoint to go on from */
    RtRankShared rank[RT_MAX_RANKS];
    uint64_t mail[RT_MAX_RANKS][RT_SUM_WORDS];
    bool elsewhere[RT_MAX_RANKS]; /* CUDA: ranks of other machines (rt_machines.c) */
} RtShared;

/* Ranks of this machine below `rank`: its place among them, or of world_size their
 * number.
 */
static inline int rt_ranks_here(const RtShared *shared, int rank)
{
    int n = 0;
    for (int r = 0; r < rank; r++)
        n += !shared->elsewhere[r];
    return n;
}

/* ---- one rank -------------------------------------------------------------------- */

enum { RT_QUEUE = 64 };
typedef enum {
    RT_OP_GATHER,
    RT_OP_GATHER_IN_PLACE,
    RT_OP_REDUCE_SCATTER,
    RT_OP_ALL_REDUCE,
    RT_OP_TO_OWNERS,
    RT_OP_FROM_OWNERS
} RtOpKind;
/* A collective: it knows neither segments nor what its bytes are for. */
typedef struct RtOp {
    RtOpKind kind;
    RtGroup group;
    RtDtype dtype;
    int64_t elems; /* a gather, a reduce-scatter: of one part; an all-reduce: of all */
    int64_t from;  /* symmetric offset; of matrices, the number of their batch */
    char *to;      /* this rank's result */
    int segment;   /* for what is said of waits */
} RtOp;

typedef struct RtQueue {
    RtOp op[RT_QUEUE];
    /* Over the whole run. The step's thread starts, the thread that drives the queue
     * completes. */
    _Atomic uint64_t started, completed;
    uint64_t *last; /* by segment, then by batch: `started` once its last one was */
    _Atomic uint64_t
        rounds;     /* publications that are complete: some operations have more */
    int round;      /* of the operation at the head */
    bool published; /* that round is visible to the peers */
} RtQueue;

typedef struct RtTokens RtTokens; /* rt_data.c */

typedef struct RtState {
    RtFlags flags;
    RtShared *shared;
    int spins; /* tries before a waiting rank sleeps */
    RtQueue queue[2];
    _Atomic int comm_stop; /* the communication thread ends */
    pthread_t comm;
    uint64_t exchanges;
    /* data */
    RtTokens *tokens;
    struct RtDigests *digests; /* of all data */
    int64_t step;              /* of the run, 0-based */
    int64_t first_step;        /* that this process computes: those before were resumed */
    int64_t order_step;        /* before it the order of data began; then so much was seen: */
    int64_t order_samples, order_tokens;
    int64_t micro_batch;       /* loaded last */
    int64_t round;             /* of merges */
    double *losses;            /* [micro_batches], this rank's filled */
    int64_t targets;           /* of this rank's micro-batches of the step, not masked */
    /* the step's results, equal on all ranks */
    double loss, grad_norm, clip_factor;
    /* of held-out data; equal on all ranks */
    RtTokens *held_out;
    int64_t eval_micro_batches, eval_left_over, eval_tokens;
    double eval_loss;
    bool evaluated;       /* after this step */
    int64_t valid_tokens; /* targets of all ranks: what loss and gradient are means of */
    uint64_t superacc[RT_SUPERACC_WORDS];
    double beta1_power, beta2_power; /* beta^t after t updates */
    bool skip; /* this step's update: loss or norm is not finite, or there is no target */
    int64_t skipped, skipped_in_a_row; /* updates, for what was not finite; in a row:
                                          those that no smaller loss scale can save */
    double loss_scale;                 /* now; 0: none */
    int64_t scaled_updates;            /* since it changed */
    bool overflowed;                   /* skip: a smaller loss scale may help */
    /* counters (--stats) */
    int64_t tokens_done, gathered_bytes, reduced_bytes, replicate_bytes, node_bytes,
        matrix_bytes;
    double wait_seconds;
    FILE *log;
    char lost[RT_ERROR_BYTES]; /* what the run fails with in its end; empty: nothing */
    double started_seconds;
    struct RtCheckpoint *checkpoint; /* NULL: without --checkpoint */
    int shared_fd;                   /* of the memory that all ranks share */
} RtState;

/* A failure of this rank: the first to fail prints `[rank R] error: ...`, all end. */
_Noreturn void rt_fail(const Rt *rt, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Another rank failed and says why: waits until it has, and leaves with its exit code. */
_Noreturn void rt_leave(const Rt *rt);
/* rt_at for RT_AT_* and the places of the step. */
void rt_enter(Rt *rt, int place);

/* ---- rt_wait.c: time, waiting for peers ------------------------------------------ */

double rt_clock(void); /* seconds, monotonic */
int64_t rt_clock_ns(void);
/* What peers wait for has changed: wakes those that sleep. */
void rt_ring(RtShared *shared);
/* One turn of a loop that waits for ready(ctx): spins, then sleeps until the bell rings.
 * Leaves the process when the job is aborted. tries counts turns without progress. */
void rt_pause(const Rt *rt, int tries, bool (*ready)(const void *ctx), const void *ctx);

/* ---- where the arena lies -------------------------------------------------------- */

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

/* ---- rt_comm.c ------------------------------------------------------------------- */

/* Enqueues an operation; returns before it is complete. */
void rt_comm_start(Rt *rt, int stream, RtOp op);
/* So many that were started on the stream over the run are complete. */
void rt_comm_wait(Rt *rt, int stream, uint64_t started);
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

/* ---- rt_collective.c ------------------------------------------------------------- */

/* The hops of a sum over a group: among the ranks of a node, then among nodes. */
typedef struct RtHops {
    int count;         /* 1 or 2 */
    RtGroup near, far; /* one hop: far is the whole group */
} RtHops;
RtHops rt_hops(const Rt *rt, RtGroup group);
/* Counts bytes that this rank has read from another, or from each of its group. */
void rt_count_bytes(Rt *rt, int peer, int64_t bytes, int64_t *counter);
void rt_count_group(Rt *rt, RtGroup group, int64_t bytes, int64_t *counter);
/* rt_comm.c: for the collective of a segment, or a batch behind the segments, that was
 * started last. */
void rt_wait_last(Rt *rt, int stream, int subject);

/* ---- rt_pull.c ------------------------------------------------------------------- */

/* One round of an operation whose group has published it; how many rounds it has. */
void rt_pull(Rt *rt, const RtOp *op, int round);
int rt_pull_rounds(const Rt *rt, const RtOp *op);

/* ---- rt_matrix.c ----------------------------------------------------------------- */

void rt_pull_to_owners(Rt *rt, int batch);
void rt_pull_from_owners(Rt *rt, int batch);

/* ---- rt_sum.c -------------------------------------------------------------------- */

/* How many partial sums the node of a round joins: its trailing ones. */
static inline int rt_merge_levels(int64_t round)
{
    return __builtin_ctzll(~(unsigned long long)round);
}
static inline bool rt_is_last_round(const Rt *rt, int64_t round)
{
    return round == rt->trainer->leaves / rt->world_size - 1;
}
enum { RT_SUM_ELEMS = 1024 }; /* a block on its way up: 8 KiB of double at most */
/* out[n] = the sum of count parts of n <= RT_SUM_ELEMS elements, count a power of two
 * from 2 on; out may be one of the parts. By the balanced tree, or in order of ranks. */
typedef void RtSumFn(RtDtype d, void *out, const char *const *parts, int count,
                     int64_t n);
RtSumFn rt_sum_tree, rt_sum_in_order;

/* rt_sum.c; CUDA: rt_norm.c. As rt_merge_segment, of a node and its partial sums. */
void rt_merge(Rt *rt, void *node, void *partials, int64_t elems);

/* ---- rt_update.c, rt_schedule.c -------------------------------------------------- */

int64_t rt_sum_bytes(const RtTrainer *t); /* of a number in the dtype of sums */
/* The summed gradient of this rank's shard. */
char *rt_grad_shard(const Rt *rt, int segment);
double rt_learning_rate(const RtTrainer *t, int64_t step);
/* The step's update is complete, or skipped: t of the optimizer, counters. */
void rt_update_end(Rt *rt);
/* Ends the run when more updates in a row were skipped than the trainer allows. */
void rt_update_gate(Rt *rt);
bool rt_is_finite(double x);
int64_t rt_step_tokens(const RtTrainer *t);

/* ---- rt_scale.c ------------------------------------------------------------------ */

double rt_scale(const Rt *rt);  /* by which gradients are too large; 1: none */
void rt_scale_overflow(Rt *rt); /* not finite: a smaller scale may help */
void rt_scale_step(Rt *rt);     /* at the end of a step, after its log */

/* ---- rt_norm.c ------------------------------------------------------------------- */

/* What an evaluation put into the loss slot; the slot is zero again. */
double rt_loss_take(Rt *rt);

void rt_superacc_add(uint64_t *acc, double x); /* x >= 0, or not finite */
double rt_superacc_round(const uint64_t *acc); /* NaN when something was not finite */

/* ---- rt_init.c, rt_hash.c, rt_debug.c -------------------------------------------- */

void rt_init_weights(Rt *rt);
/* Where each rank holds all weights: those that others wrote. Collective. */
void rt_complete_weights(Rt *rt);
void rt_import_weights(Rt *rt, const char *dir); /* a folder of Hugging Face's */
/* Rank 0 warns where config.json there describes another model (rt_config.c). */
void rt_config_compare(const Rt *rt, const char *folder);
/* base[i] = x in dtype d. rest: it is the weight of an f32 master, which may keep the
 * rest of it. */
void rt_store(RtDtype d, char *base, int64_t i, double x, bool rest);
uint64_t rt_weights_hash(Rt *rt); /* collective */
uint64_t rt_platform_hash(const RtTrainer *t, char *text, size_t text_bytes);
void rt_debug_gradients(Rt *rt, const char *path); /* collective */

/* ---- rt_data.c, rt_tokens.c ------------------------------------------------------ */

/* Files as the trainer reads them: its sequences, vocabulary, masks. */
RtTokens *rt_tokens_open(const RtTrainer *t, const char *const *patterns, int n_patterns,
                         char *error);
/* The same of another flag than --data, for messages. */
RtTokens *rt_tokens_open_for(const RtTrainer *t, const char *flag,
                             const char *const *patterns, int n_patterns, char *error);
void rt_tokens_close(RtTokens *d);
int64_t rt_tokens_samples(const RtTokens *d);
bool rt_tokens_unused_mask(const RtTokens *d); /* masks lie there, the trainer has none */
/* A mask that says nothing of its tokens; or NULL. */
const char *rt_tokens_bare_mask(const RtTokens *d);
/* A file whose bytes are tokens of a large vocabulary, though nobody said so; or NULL. */
const char *rt_tokens_bytes_of(const RtTokens *d);
/* The mapped file in which an address lies; NULL: in none. */
const char *rt_tokens_holding(const RtTokens *d, uintptr_t address);
/* Place in the data of global sample `index` (0, 1, ...): a bijection in each epoch, of
 * all or, with weights, of each source. */
int64_t rt_tokens_place(const RtTokens *d, uint64_t seed, int64_t index);
/* With weights: a line for each source; what of them decides the order, or 0. */
void rt_tokens_print_mix(const RtTokens *d, FILE *out);
uint64_t rt_tokens_mix(const RtTokens *d);
/* Of all files in their order: what they hold, by sizes and by what lies at their ends;
 * not what they are called. */
uint64_t rt_tokens_hash(const RtTokens *d);
/* Fills tokens and targets of a sample, -1 where masked; false with error set when an id
 * is no token. */
bool rt_tokens_read(const RtTokens *d, int64_t sample, int32_t *tokens, int32_t *targets,
                    char *error);

/* A sample becomes sequence b of a micro-batch, with the starts of its documents. */
void rt_tokens_fill(Rt *rt, const RtTokens *d, int64_t sample, RtStage to, int64_t b);
/* ---- rt_digest.c, rt_changed.c: what the data hold ------------------------------- */

/* Collective. open: hashes what is little, begins with the rest; step: after each step,
 * until all is known; settle: before a checkpoint is written, waits for it unless a
 * signal came. Whatever is not as it should be ends the run. */
void rt_digest_open(Rt *rt);
void rt_digest_step(Rt *rt);
void rt_digest_settle(Rt *rt);
void rt_digest_close(Rt *rt);
void rt_digest_print(const Rt *rt, FILE *out);
/* Do the files still hold what they did? Now; and where an epoch ends with the step. */
void rt_changed_check(Rt *rt);
void rt_changed_epoch(Rt *rt);
/* A file that is cut short under the run is named. */
void rt_changed_watch(const Rt *rt);
/* The flag by which the run reads the file of that device and inode; NULL: it does not. */
const char *rt_data_flag(const Rt *rt, uint64_t device, uint64_t inode);

/* ---- rt_agree.c: a rank that differs from rank 0 fails --------------------------- */

void rt_agree_builds(Rt *rt);
void rt_agree_flags(Rt *rt);
void rt_agree_data(Rt *rt, const char *flag, const RtTokens *d);

/* ---- rt_eval.c, rt_sample.c ------------------------------------------------------ */

/* False, and why: what the flags ask for cannot be. */
bool rt_eval_check(const RtTrainer *t, const RtFlags *f, char *error);
bool rt_sample_check(const RtTrainer *t, const RtFlags *f, char *error);
void rt_eval_open(Rt *rt);
void rt_eval_print(const Rt *rt);
bool rt_eval_due(const Rt *rt); /* after the step at hand */
void rt_evaluate(Rt *rt);       /* collective */
void rt_sample(Rt *rt);         /* collective */

/* ---- rt_due.c, rt_resume.c ------------------------------------------------------- */

/* Collective. Without --checkpoint they do nothing and return false. */
void rt_checkpoint_weights(Rt *rt); /* `trainer sample`: those of the newest sound one */
bool rt_checkpoint_begin(Rt *rt);   /* were weights and state read from one? */
/* Of the copies that saves beside training write from: bytes of this rank's, 0: there are
 * none; does the address lie in one? */
int64_t rt_snapshot_bytes(const Rt *rt);
bool rt_snapshot_holds(const Rt *rt, uintptr_t address);
/* After a step: saves when it is time. Does the run end here, to be resumed? */
bool rt_checkpoint_step(Rt *rt);
/* Before the first step: the same, of a run whose state is on the disk. */
bool rt_checkpoint_asked(Rt *rt);
/* Does the run end soon: by a signal, by --stop-after, without its log? What takes long
 * asks, from any thread and on each rank alone, and does without the rest. */
bool rt_due_soon(const Rt *rt);
/* Collective: sums, modulo 2^64, over all ranks; n <= RT_SUM_WORDS. */
void rt_sum_words(Rt *rt, uint64_t *words, int n);
/* As rt_sum_words, among the threads that read or write checkpoints, which may be others. */
void rt_save_sum(Rt *rt, uint64_t *words, int n);
void rt_save_moves(Rt *rt);    /* this rank goes on, says the page that all share */
void rt_snapshot_join(Rt *rt); /* it has written, if there is one */
int rt_verify(const RtFlags *f);                 /* an exit code */
int rt_ls(const RtTrainer *t, const RtFlags *f); /* the same */

/* ---- rt_shared.c ----------------------------------------------------------------- */

/* The memory that ranks share, and its descriptor; NULL with errno, or, of the first, told
 * on stderr. */
RtShared *rt_shared_first(const RtTrainer *t, int *fd);
RtShared *rt_shared_create(const RtTrainer *t, int *fd);
/* The same, with what may come behind: copies for saves, digests of a few data files. */
int64_t rt_shared_most_bytes(const RtTrainer *t);
const char *rt_shared_error(int64_t bytes); /* words for errno, where so many are wanted */
RtShared *rt_shared_map(int fd); /* of another's descriptor; or NULL with errno */

/* ---- rt_shm.c, rt_memory.c, rt_log.c --------------------------------------------- */

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
int64_t rt_memory_high_water_bytes(void);
/* That this machine, or its control group, can give now. */
int64_t rt_host_free_bytes(void);
/* Of it, what this rank's arena will take that it has not yet. */
int64_t rt_arena_awaits_bytes(const Rt *rt);
/* When the arenas of all ranks are more than this machine can give now. */
void rt_memory_warn(const RtTrainer *t);
void rt_memory_planned(const Rt *rt, FILE *out);
void rt_memory_resident(const Rt *rt, FILE *out);
/* Where words for a person go: stdout, or where that holds tokens, stderr. */
static inline FILE *rt_words(const Rt *rt)
{
    return rt->state->flags.command == RT_SAMPLE ? stderr : stdout;
}
void rt_log_start(Rt *rt);
void rt_log_step(Rt *rt, double seconds);
void rt_log_eval(Rt *rt); /* of a run that computes no step */
void rt_log_end(Rt *rt);  /* collective */

/* ---- rt_launch.c, rt_watch.c, rt_join.c, rt_cores.c, rt_main.c ------------------- */

/* What one watching process knows of the job. */
typedef struct RtJob {
    const RtTrainer *trainer;
    const RtFlags *flags;
    RtShared *shared;
    int fd;                 /* of the shared memory */
    int pid[RT_MAX_RANKS];  /* ranks this process started; 0: ended, or another's */
    int peer[RT_MAX_RANKS]; /* sockets of the processes that watch other ranks; or -1 */
    int running;            /* ranks this process started that have not ended */
    bool judges;            /* looks for ranks that stand still */
    bool leads;             /* CUDA: this machine's ranks reach others through it */
    bool told;              /* that a signal came */
    bool insists;           /* who asked does not want to wait for a save */
    int64_t deadline_ns;
} RtJob;

/* rt_signals.c: numbers of the signals that ask a job to end; how many. With checkpoints
 * they end the process with RT_EXIT_AGAIN until it watches ranks. */
enum { RT_MAX_SIGNALS = 80 };
int rt_signals_asking(int *numbers);
void rt_signals_early(void);

/* The ranks' share of the cores this process may use. */
typedef struct RtCores {
    int cpu[1024], n_cpus; /* in the order of packages and cores: siblings adjoin */
    int quota;             /* CPUs the control group grants, at most n_cpus */
} RtCores;
void rt_cores_find(RtCores *c);
int rt_cores_threads(const RtCores *c, const RtFlags *f, int ranks);
void rt_cores_short_turns(void);
void rt_cores_bind(const RtCores *c, int index, int ranks, int threads);
/* Starts this program again when OpenMP would bind or spin as if it were alone. */
void rt_cores_fit_openmp(const RtCores *c, const RtFlags *f, int ranks, char **argv);

/* Rank and ranks as a launcher's environment names them; -1: not told. */
typedef struct RtJoin {
    const char *launcher; /* "torchrun", ...; NULL: none */
    int rank, world_size;
    int local_rank, local_size; /* of this machine */
    int machine;                /* its number */
    bool named;                 /* the identity is that on all machines */
    char identity[512];         /* the same for all ranks of the job, and only them */
} RtJoin;
/* Was this process started by a launcher? error: what is wrong with its variables, or "". */
bool rt_join_find(RtJoin *j, char *error);
int rt_join(const RtTrainer *t, const RtFlags *f, const RtJoin *j);
int rt_launch_ranks(const RtTrainer *t, const RtFlags *f);
#ifdef RT_NCCL
/* rt_machines.c. Before the ranks of this machine start: waits until those of all others
 * have come. False, and why. Then start, once, when this process has started its own;
 * end: this machine's are done, or the job was aborted, which the others hear of. */
struct RtSecret;
bool rt_machines_meet(const RtTrainer *t, const RtFlags *f, const RtJoin *j,
                      const struct RtSecret *secret, RtShared *shared, int fd,
                      int64_t patience_ns, char *error);
void rt_machines_start(RtJob *job);
void rt_machines_close(void); /* in a rank: the connections are its watcher's */
void rt_machines_end(RtJob *job);
#endif
#ifdef RT_CUDA
/* Of the shared memory: a rank's control area. */
int64_t rt_control_offset(const RtTrainer *t, int rank);
int64_t rt_control_bytes(const RtTrainer *t);
int rt_tune(const RtTrainer *t, const RtFlags *f); /* --tune-kernels: an exit code */
#endif
/* Forks a rank; in the child it never returns. False when fork fails. */
bool rt_job_start(RtJob *job, int rank, const RtCores *cores, int index, int ranks);
void rt_job_init(RtJob *job, const RtTrainer *t, const RtFlags *f, RtShared *shared,
                 int fd);
/* The first failure decides the job's exit code; true for who found it, who then tells.
 */
bool rt_job_fails(RtJob *job, int code);
/* A line on stderr, bytes that a terminal might obey as \xNN; a terminal that takes none
 * for a second does without. */
void rt_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void rt_job_tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int rt_watch(RtJob *job); /* the job's exit code */
int rt_rank_main(const RtTrainer *t, const RtFlags *f, RtShared *shared, int fd, int rank,
                 int threads, bool crowded);
/* For torchrun, which shows it as the root cause. */
void rt_report_error(const char *text);
void rt_json_put(FILE *f, const char *text); /* as a string of JSON */

#endif
