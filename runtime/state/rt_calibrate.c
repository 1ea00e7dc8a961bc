/* SPDX-License-Identifier: MIT-0 */
/* rt_calibrate.c: trainer --calibrate FILE: how fast this machine is on the shapes of
 * this model. In: kernels and products alone (calibrate.c), the arena. Out: FILE, one
 * JSON object: the times of products, rates of the other kernels by kind, of collectives
 * by size.
 *
 * 1. All ranks run the same at once, as in a step, so they share cores and memory.
 * 2. Operands lie in the arena. A kernel reads first what its last call wrote, as a step
 *    does; a product reads other bytes each time.
 * 3. A time is the lower quartile of several calls, and the mean of that over ranks. How
 *    many calls there are follows from the first one and a share of HALF_A_MINUTE.
 * 4. No weight, no data and no checkpoint is read or written. */
#include "job/rt_file.h"
#include "job/rt_out.h"
#include "rt_target.h"
#include "state/rt_state.h"

#include <stdlib.h>
#include <string.h>

#define HALF_A_MINUTE 30.0
enum {
    LEAST_CALLS = 3,
    MOST_CALLS = 25,
    WINDOW_BYTES = 64 << 20, /* of operands; beyond any cache's share of a rank */
    LEAST_BYTES = 64 << 10,  /* of a collective */
    MAX_SIZES = 24
};

typedef struct Bench Bench;
typedef void Call(Bench *b);
struct Bench {
    Rt *rt;
    char *space; /* free bytes of the local space */
    int64_t bytes, next;
    double share; /* seconds for one measurement */
    /* what is called */
    const RtTimed *timed;
    RtOp op;
    int stream;
    int64_t copied;
};

typedef struct Sums {
    double flops, bytes, seconds;
} Sums;

typedef struct Moved {
    int64_t bytes;
    double seconds;
} Moved;

/* ---- places ---------------------------------------------------------------------- */

typedef struct Range {
    int64_t from, bytes;
} Range;

/* The largest range of a space of `bytes` without the given ones. */
static Range largest_gap(int64_t bytes, const Range *used, int n)
{
    Range best = {0, 0};
    for (int i = -1; i < n; i++) { /* a gap starts at the beginning or after one */
        const int64_t end = i < 0 ? 0 : used[i].from + used[i].bytes;
        const int64_t from = (end + 4095) / 4096 * 4096;
        int64_t to = bytes;
        for (int k = 0; k < n; k++)
            if (used[k].bytes > 0 && used[k].from + used[k].bytes > from &&
                used[k].from < to)
                to = used[k].from;
        if (to - from > best.bytes)
            best = (Range){from, to - from};
    }
    return best;
}

/* What kernels and collectives need beside their operands. */
static Range free_local(const Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    const int64_t numbers = t->micro_batch * t->seq_tokens * 4;
    const Range used[] = {{t->tokens_offset, numbers},
                          {t->targets_offset, numbers},
                          {t->starts_offset, t->packed ? numbers : 0},
                          {t->library_offset, t->library_bytes}};
    return largest_gap(t->local_bytes, used, sizeof used / sizeof *used);
}

static Range free_symmetric(const Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    const Range used[] = {{t->control_offset, RT_CONTROL_BYTES(t->micro_batches)},
                          {t->staging_offset, t->staging_bytes},
                          {t->meeting_offset, t->meeting_bytes}};
    return largest_gap(t->symmetric_bytes, used, sizeof used / sizeof *used);
}

/* Numbers of magnitude 0.5 to 2 in every dtype: the smallest numbers would take longer.
 */
static void fill(Bench *b, int64_t bytes)
{
    static uint32_t block[1 << 16];
    const int64_t from = b->space - (char *)rt_local(b->rt, 0);
    for (int64_t i = 0; i < 1 << 16; i++)
        block[i] =
            ((uint32_t)rt_hash64(&i, sizeof i, 1) & 0x807f807fu) | UINT32_C(0x3f003f00);
    for (int64_t at = 0; at < bytes; at += (int64_t)sizeof block) {
        const int64_t left = bytes - at, n = (int64_t)sizeof block;
        rt_arena_write(b->rt, RT_SPACE_LOCAL, from + at, block, left < n ? left : n);
    }
}

static void fill_tokens(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    const RtStage to = rt_stage(rt);
    for (int64_t i = 0; i < t->micro_batch * t->seq_tokens; i++) {
        to.tokens[i] = (int32_t)(rt_hash64(&i, sizeof i, 2) % (uint64_t)t->vocab);
        to.targets[i] = (int32_t)(rt_hash64(&i, sizeof i, 3) % (uint64_t)t->vocab);
        if (t->packed)
            to.starts[i] = 0;
    }
    rt_stage_send(rt);
}

/* ---- one measurement ------------------------------------------------------------- */

/* The mean over ranks; all have come here when it returns. */
static double mean(Rt *rt, double seconds)
{
    uint64_t ns = (uint64_t)(1e9 * (seconds > 0 ? seconds : 0));
    rt_sum_words(rt, &ns, 1);
    return 1e-9 * (double)ns / rt->world_size;
}

static Call call_collective;
static double once(Bench *b, Call *call)
{
    mean(b->rt, 0);
    rt_enter(b->rt, RT_AT_SETUP); /* progress, for the watcher */
    rt_lap_begin(b->rt, call == call_collective);
    call(b);
    return rt_lap_end(b->rt);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The lower quartile: what else runs on the machine only makes calls longer. */
static double typical(double *seconds, int n)
{
    qsort(seconds, (size_t)n, sizeof *seconds, ascending);
    return seconds[n / 4];
}

/* Seconds of a call. All ranks make as many. */
static double measure(Bench *b, Call *call)
{
    double seconds[MOST_CALLS];
    once(b, call); /* touches pages, loads kernels */
    const double first = mean(b->rt, once(b, call));
    int n =
        first > 0 && b->share / first < MOST_CALLS ? (int)(b->share / first) : MOST_CALLS;
    n = n < LEAST_CALLS ? LEAST_CALLS : n;
    for (int i = 0; i < n; i++)
        seconds[i] = once(b, call);
    return mean(b->rt, typical(seconds, n));
}

static void run_timed(Rt *rt, const RtTimed *x, char *at)
{
    if (x->product != NULL)
        rt_product(rt, x->product, at, at + x->second, at + x->out);
    else
        x->run(rt, at);
}

static void call_timed(Bench *b)
{
    const RtTimed *x = b->timed;
    const int64_t window = b->bytes < WINDOW_BYTES ? b->bytes : WINDOW_BYTES;
    if (b->next + x->bytes > (x->bytes > window ? x->bytes : window))
        b->next = 0;
    char *at = b->space + b->next;
    b->next += x->kind <= RT_TIMED_TN ? x->bytes : x->out;
    run_timed(b->rt, x, at);
}

static void call_collective(Bench *b)
{
    rt_collective_start(b->rt, b->stream, b->op);
    rt_collective_wait(b->rt, b->stream, b->op.subject);
}

static void call_copy(Bench *b)
{
    rt_copy(b->rt, b->space + b->copied, b->space, b->copied);
}

enum { LAUNCHES = 64 };
static void call_least(Bench *b)
{
    for (int i = 0; i < LAUNCHES; i++)
        rt_launch_least(b->rt, b->space);
}

/* ---- kernels --------------------------------------------------------------------- */

static int count_timed(const RtTrainer *t)
{
    int n = 0;
    while (t->timed != NULL && t->timed[n].name != NULL)
        n++;
    return n;
}

/* False: its operands do not fit the free bytes. */
static bool measure_timed(Bench *b, const RtTimed *x, double *seconds)
{
    if (x->bytes > b->bytes)
        return false;
    b->timed = x;
    b->next = 0;
    fill(b, b->bytes < WINDOW_BYTES || x->bytes > WINDOW_BYTES
                ? (x->bytes > WINDOW_BYTES ? x->bytes : b->bytes)
                : WINDOW_BYTES);
    *seconds = measure(b, call_timed);
    return true;
}

static const char *dtype_name(RtDtype d)
{
    static const char *const names[] = {
        [RT_F32] = "f32", [RT_F64] = "f64", [RT_BF16] = "bf16", [RT_F16] = "f16"};
    return names[d];
}

/* Products into out, the others into sums by kind. */
static void measure_kernels(Bench *b, FILE *out, Sums *sums)
{
    static const char *const forms[] = {"nt", "nn", "tn"};
    const char *comma = "";
    for (const RtTimed *x = b->rt->trainer->timed; x != NULL && x->name != NULL; x++) {
        Sums *of = &sums[x->kind <= RT_TIMED_TN ? RT_TIMED_NT : x->kind];
        double seconds;
        if (!measure_timed(b, x, &seconds)) {
            if (b->rt->rank == 0)
                rt_say("trainer: note: %s is not measured: its operands take more than "
                       "the arena has free",
                       x->name);
            continue;
        }
        of->flops += x->flops;
        of->bytes += (double)x->traffic_bytes;
        of->seconds += seconds;
        if (out == NULL || x->kind > RT_TIMED_TN)
            continue;
        fprintf(out,
                "%s\n  {\"form\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld, "
                "\"dtype\": \"%s\", \"us\": %.6g}",
                comma, forms[x->kind - RT_TIMED_NT], (long long)x->m, (long long)x->n,
                (long long)x->k, dtype_name(x->dtype), 1e6 * seconds);
        comma = ",";
    }
}

static void put_rate(FILE *out, const char *name, double amount, double seconds,
                     const char **comma)
{
    if (!(amount > 0 && seconds > 0))
        return;
    fprintf(out, "%s\"%s\": %.6g", *comma, name, 1e-9 * amount / seconds);
    *comma = ", ";
}

/* Rates that the model has kernels for. */
static void put_rates(FILE *out, const Sums *sums, double copied, double copy_seconds)
{
    const char *comma = "";
    const Sums *s = sums;
    fprintf(out, "\"rates\": {");
    put_rate(out, "product_gflops", s[RT_TIMED_NT].flops, s[RT_TIMED_NT].seconds, &comma);
    s = &sums[RT_TIMED_ATTENTION];
    put_rate(out, "attention_gflops", s->flops, s->seconds, &comma);
    s = &sums[RT_TIMED_ATTENTION_BWD];
    put_rate(out, "attention_bwd_gflops", s->flops, s->seconds, &comma);
    s = &sums[RT_TIMED_ELEMENTWISE];
    put_rate(out, "elementwise_gbps", s->bytes, s->seconds, &comma);
    s = &sums[RT_TIMED_NORM];
    put_rate(out, "norm_gbps", s->bytes, s->seconds, &comma);
    put_rate(out, "copy_gbps", copied, copy_seconds, &comma);
    fprintf(out, "},\n");
}

/* ---- collectives ----------------------------------------------------------------- */

static int largest_segment(const RtTrainer *t)
{
    int best = 0;
    for (int i = 1; i < t->n_segments; i++)
        if (t->segments[i].elems > t->segments[best].elems)
            best = i;
    return best;
}

/* A collective of that many bytes in all, or of what fits; returns how many. Weights are
 * not in use, so parts may lie anywhere in the symmetric space. */
static int64_t choose_collective(Bench *b, bool gather, int64_t bytes)
{
    const RtTrainer *t = b->rt->trainer;
    const int segment = largest_segment(t);
    const RtSegment *s = &t->segments[segment];
    const int ranks = rt_group_ranks(s->within);
    const RtDtype dtype = gather ? rt_gathered_dtype(s) : t->reduce_dtype;
    const int64_t size = (int64_t)rt_dtype_bytes(dtype);
    const Range gap = free_symmetric(b->rt);
    int64_t elems = bytes / size / ranks / RT_GRAIN_ELEMS * RT_GRAIN_ELEMS;
    elems = elems > s->shard_elems ? s->shard_elems : elems;
    elems = elems < RT_GRAIN_ELEMS ? RT_GRAIN_ELEMS : elems;
    const int64_t part = elems * size, whole = part * ranks;
    b->stream = gather ? RT_GATHER : RT_REDUCE;
    b->op = (RtOp){.kind = gather ? RT_OP_GATHER : RT_OP_REDUCE_SCATTER,
                   .group = s->within,
                   .dtype = dtype,
                   .elems = elems,
                   .from = gap.from,
                   .to = b->space,
                   .order = t->library_order ? RT_ORDER_LIBRARY : RT_ORDER_TREE,
                   .subject = segment};
#ifdef RT_CUDA
    if (gather) /* ranks write into it: it is in the symmetric space, after the part */
        b->op.to = rt_symmetric(b->rt, gap.from + (part + 4095) / 4096 * 4096);
    const int64_t symmetric = gather ? whole + part + 4096 : whole;
#else
    const int64_t symmetric = gather ? part : whole;
#endif
    return symmetric <= gap.bytes && whole <= b->bytes ? whole : 0;
}

/* Sizes from LEAST_BYTES on, times 4, and the largest segment's own. */
static int measure_collectives(Bench *b, bool gather, Moved *moved)
{
    const RtTrainer *t = b->rt->trainer;
    const RtSegment *s = &t->segments[largest_segment(t)];
    const int64_t most =
        s->elems *
        (gather ? (int64_t)rt_dtype_bytes(rt_gathered_dtype(s)) : rt_sum_bytes(t));
    int n = 0;
    for (int64_t bytes = LEAST_BYTES; s->within != 0 && n < MAX_SIZES; bytes *= 4) {
        const bool last = bytes >= most;
        const int64_t whole = choose_collective(b, gather, last ? most : bytes);
        if (whole > 0 && (n == 0 || whole > moved[n - 1].bytes))
            moved[n++] = (Moved){whole, measure(b, call_collective)};
        if (last)
            break;
    }
    return n;
}

static void put_collectives(FILE *out, const Bench *b, const char *kind,
                            const Moved *moved, int n, const char **comma)
{
    const RtTrainer *t = b->rt->trainer;
    for (int i = 0; i < n; i++) {
        fprintf(out,
                "%s\n  {\"kind\": \"%s\", \"ranks\": %d, \"bytes\": %lld, \"us\": %.6g}",
                *comma, kind, rt_group_ranks(t->segments[largest_segment(t)].within),
                (long long)moved[i].bytes, 1e6 * moved[i].seconds);
        *comma = ",";
    }
}

/* Time of a product beside the largest gather, relative to it alone; 0: not measured. On
 * the CPU ranks compute or exchange, one after the other, unless a thread does it. */
static double contention(Bench *b, const Moved *gather)
{
    enum { TRIES = 9 };
    const RtTimed *best = NULL;
    double alone[TRIES], beside[TRIES];
    for (const RtTimed *x = b->rt->trainer->timed; x != NULL && x->name != NULL; x++)
        if (x->kind <= RT_TIMED_TN && x->bytes + gather->bytes <= b->bytes &&
            (best == NULL || x->flops < best->flops))
            best = x;
    if (best == NULL || choose_collective(b, true, gather->bytes) == 0)
        return 0;
    char *const at =
        b->space + b->bytes / 4096 * 4096 - (best->bytes + 4095) / 4096 * 4096;
    for (int i = 0; i < 2 * TRIES; i++) {
        mean(b->rt, 0);
        if (i % 2 == 1)
            rt_collective_start(b->rt, b->stream, b->op);
        rt_lap_begin(b->rt, false);
        run_timed(b->rt, best, at);
        (i % 2 == 1 ? beside : alone)[i / 2] = rt_lap_end(b->rt);
        if (i % 2 == 1)
            rt_collective_wait(b->rt, b->stream, b->op.subject);
    }
    const double one = mean(b->rt, typical(alone, TRIES));
    const double two = mean(b->rt, typical(beside, TRIES));
    return one > 0 && two > one ? two / one : 1;
}

/* ---- all of it ------------------------------------------------------------------- */

static void put_head(FILE *out, const Rt *rt)
{
    char text[1024];
    rt_platform_hash(rt->trainer, text, sizeof text);
    fprintf(out, "{\"fsdpgen_rates\": 1, \"platform\": ");
    rt_json_put(out, text);
#ifdef RT_CUDA
    const char *target = "cuda";
#else
    const char *target = "cpu";
#endif
    fprintf(out, ", \"target\": \"%s\", \"threads\": %d, \"ranks\": %d,\n", target,
            rt->threads, rt->world_size);
}

/* Measures everything; all ranks, out NULL in those that do not write. */
static void measure_all(Bench *b, FILE *out)
{
    Sums sums[RT_TIMED_ELEMENTWISE + 1] = {{0}};
    Moved gathers[MAX_SIZES], sums_of[MAX_SIZES];
    const char *comma = "";
    if (out != NULL) {
        put_head(out, b->rt);
        fprintf(out, "\"products\": [");
    }
    measure_kernels(b, out, sums);
    b->copied = (b->bytes < WINDOW_BYTES ? b->bytes : WINDOW_BYTES) / 2 / 64 * 64;
    const double copy = measure(b, call_copy), least = measure(b, call_least) / LAUNCHES;
    const int n_gathers = measure_collectives(b, true, gathers);
    const int n_sums = measure_collectives(b, false, sums_of);
    const double beside = n_gathers > 0 ? contention(b, &gathers[n_gathers - 1]) : 0;
    if (out == NULL)
        return;
    fprintf(out, "\n],\n");
    put_rates(out, sums, 2.0 * (double)b->copied, copy);
    fprintf(out, "\"collectives\": [");
    put_collectives(out, b, "all_gather", gathers, n_gathers, &comma);
    put_collectives(out, b, "reduce_scatter", sums_of, n_sums, &comma);
    fprintf(out, "%s]", *comma != '\0' ? "\n" : "");
    if (beside > 0)
        fprintf(out, ",\n\"contention\": %.4g", beside);
    if (least > 0)
        fprintf(out, ",\n\"launch_us\": %.4g", 1e6 * least);
    fprintf(out, "}\n");
}

void rt_calibrate(Rt *rt)
{
    static RtOutput out;
    const char *path = rt->state->flags.calibrate;
    const Range gap = free_local(rt);
    const double began = rt_clock();
    const int n = count_timed(rt->trainer) + 2 * MAX_SIZES / 2;
    Bench b = {.rt = rt,
               .space = (char *)rt_local(rt, gap.from),
               .bytes = gap.bytes,
               .share = HALF_A_MINUTE / n};
    RtText memory = {0};
    if (rt->rank == 0 && !rt_text_open(&memory))
        rt_fail(rt, RT_EXIT_ERROR, "out of memory");
    fill_tokens(rt);
    measure_all(&b, memory.f);
    if (rt->rank != 0)
        return;
    char *text = rt_text_end(&memory);
    if (text == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "out of memory");
    if (!rt_output_begin(&out, path, rt_output_begins(rt, "calibrate")) ||
        (fwrite(text, 1, memory.bytes, out.f), !rt_output_end(rt, &out)))
        rt_output_lost(rt, "calibrate", path);
    else if (!rt->state->flags.quiet)
        rt_say("trainer: measured in %.0f s: %.500s", rt_clock() - began, path);
    free(text);
}
