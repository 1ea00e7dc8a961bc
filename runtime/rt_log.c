/* SPDX-License-Identifier: MIT-0 */
/* rt_log.c: what a person and a program see of a run. In: the step's results. Out: on rank 0 a
 * line a step on stdout and a JSON object a step in --log; at start and end the memory table;
 * in --stats the counters of every rank. */
#include "rt_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *with_commas(char *out, size_t n, double x)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.0f", x);
    const size_t len = strlen(digits);
    size_t at = 0;
    for (size_t i = 0; i < len && at + 2 < n; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

static double mib(int64_t bytes)
{
    return (double)bytes / 1048576.0;
}

void rt_log_start(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    RtState *st = rt->state;
    st->started_seconds = rt_clock();
    if (rt->rank != 0)
        return;
    char text[512], count[48];
    const uint64_t platform = rt_platform_hash(t, text, sizeof text);
    printf("%s: %s parameters, %d rank%s x %d thread%s, %lld samples of data\n", t->name,
           with_commas(count, sizeof count, (double)t->params_elems), t->world_size,
           t->world_size == 1 ? "" : "s", rt->threads, rt->threads == 1 ? "" : "s",
           (long long)rt_tokens_samples(st->tokens));
    printf("numerics %016llx platform %016llx (%s)\n", (unsigned long long)t->numerics_hash,
           (unsigned long long)platform, text);
    printf("memory of each rank, planned\n");
    for (int i = 0; i < t->n_memory; i++)
        printf("  %-28s %10.2f MiB\n", t->memory[i].what, mib(t->memory[i].bytes));
    printf("  %-28s %10.2f MiB, mapped exactly\n", "arena",
           mib(t->symmetric_bytes + t->local_bytes));
    fflush(stdout);
    if (!st->flags.log)
        return;
    st->log = fopen(st->flags.log, "we");
    if (!st->log)
        rt_fail(rt, RT_EXIT_ERROR, "--log %s: %s", st->flags.log, strerror(errno));
}

static void json_line(Rt *rt, double seconds, double tokens, double mfu)
{
    const RtState *st = rt->state;
    FILE *f = st->log;
    fprintf(f, "{\"step\": %lld, \"loss\": %.17g, \"loss_hex\": \"%a\", \"grad_norm\": %.17g, "
            "\"grad_norm_hex\": \"%a\", \"lr\": %.17g, \"tokens\": %lld, "
            "\"step_seconds\": %.6f, \"tokens_per_second\": %.3f, \"mfu\": ",
            (long long)(st->step + 1), st->loss, st->loss, st->grad_norm, st->grad_norm,
            rt_learning_rate(rt->trainer, st->step),
            (long long)((double)(st->step + 1) * tokens), seconds, tokens / seconds);
    if (mfu > 0)
        fprintf(f, "%.6f", mfu);
    else
        fprintf(f, "null");
    fprintf(f, ", \"memory_bytes\": %lld}\n", (long long)rt_memory_high_water_bytes());
    if (fflush(f) != 0)
        rt_fail(rt, RT_EXIT_ERROR, "--log %s: %s", st->flags.log, strerror(errno));
}

void rt_log_step(Rt *rt, double seconds)
{
    const RtTrainer *t = rt->trainer;
    const RtState *st = rt->state;
    if (rt->rank != 0)
        return;
    const double tokens = (double)(t->micro_batches * t->micro_batch * t->seq_tokens);
    const double rate = tokens / seconds;
    double mfu = 0;
    if (st->flags.peak_tflops > 0)
        mfu = rate * t->flops_per_token / (st->flags.peak_tflops * 1e12 * t->world_size);
    if (st->log)
        json_line(rt, seconds, tokens, mfu);
    if (st->flags.quiet)
        return;
    char tps[48], share[16] = "n/a";
    if (mfu > 0)
        snprintf(share, sizeof share, "%.2f%%", 100.0 * mfu);
    const double eta = (double)(st->flags.steps - st->step - 1) *
                       (rt_clock() - st->started_seconds) / (double)(st->step + 1);
    printf("step: %4lld  loss: %8.5f  grad_norm: %8.4f  memory: %5.2fGiB  tps: %s  mfu: %s  "
           "lr: %.2e  eta: %lldm%02llds\n", (long long)(st->step + 1), st->loss, st->grad_norm,
           mib(rt_memory_high_water_bytes()) / 1024.0, with_commas(tps, sizeof tps, rate),
           share, rt_learning_rate(t, st->step), (long long)eta / 60, (long long)eta % 60);
    fflush(stdout);
}

/* ---- the end ------------------------------------------------------------------------------------ */

typedef struct RankStats {
    int64_t tokens, gathered, reduced, high_water;
    double wait_seconds;
} RankStats;

static void write_stats(Rt *rt, const RankStats *all)
{
    const char *path = rt->state->flags.stats;
    FILE *f = fopen(path, "we");
    if (!f)
        rt_fail(rt, RT_EXIT_ERROR, "--stats %s: %s", path, strerror(errno));
    const RtTrainer *t = rt->trainer;
    fprintf(f, "{\"world_size\": %d, \"steps\": %lld, \"arena_bytes\": %lld, "
            "\"symmetric_bytes\": %lld, \"local_bytes\": %lld, \"ranks\": [\n", t->world_size,
            (long long)rt->state->flags.steps,
            (long long)(t->symmetric_bytes + t->local_bytes), (long long)t->symmetric_bytes,
            (long long)t->local_bytes);
    for (int r = 0; r < t->world_size; r++)
        fprintf(f, "  {\"rank\": %d, \"tokens\": %lld, \"gathered_bytes\": %lld, "
                "\"reduced_bytes\": %lld, \"high_water_bytes\": %lld, "
                "\"wait_seconds\": %.6f}%s\n", r, (long long)all[r].tokens,
                (long long)all[r].gathered, (long long)all[r].reduced,
                (long long)all[r].high_water, all[r].wait_seconds,
                r + 1 < t->world_size ? "," : "");
    fprintf(f, "]}\n");
    if (fclose(f) != 0)
        rt_fail(rt, RT_EXIT_ERROR, "--stats %s: %s", path, strerror(errno));
}

/* Collective. */
void rt_log_end(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    RtState *st = rt->state;
    const RankStats mine = {st->tokens_done, st->gathered_bytes, st->reduced_bytes,
                            rt_memory_high_water_bytes(), st->wait_seconds};
    rt_exchange_begin(rt);
    memcpy(rt_symmetric(rt, t->control_offset), &mine, sizeof mine);
    rt_exchange_publish(rt);
    RankStats all[RT_MAX_RANKS];
    for (int r = 0; r < rt->world_size; r++)
        memcpy(&all[r], rt->peer[r] + t->control_offset, sizeof all[r]);
    rt_exchange_end(rt);
    if (rt->rank != 0)
        return;
    const int64_t arena = t->symmetric_bytes + t->local_bytes;
    const int64_t peers = (t->world_size - 1) * t->symmetric_bytes;
    printf("memory: arena %.2f MiB planned and mapped; high-water mark of rank 0 %.2f MiB = "
           "arena + at most %.2f MiB of peers' spaces + %.2f MiB of code, libraries, data\n",
           mib(arena), mib(all[0].high_water), mib(peers),
           mib(all[0].high_water > arena + peers ? all[0].high_water - arena - peers : 0));
    if (st->flags.stats)
        write_stats(rt, all);
    if (st->log && fclose(st->log) != 0)
        rt_fail(rt, RT_EXIT_ERROR, "--log %s: %s", st->flags.log, strerror(errno));
    st->log = NULL;
}
