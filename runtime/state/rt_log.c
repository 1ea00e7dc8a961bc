/* SPDX-License-Identifier: MIT-0 */
/* rt_log.c: what a person and a program see of a run. In: the step's results. Out: on
 * rank 0 a line a step on stdout and a JSON object a step in --log; at start and end the
 * memory tables; in --stats the counters of every rank. */
#include "data/rt_data.h"
#include "job/rt_out.h"
#include "rt_target.h"
#include "state/rt_state.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
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

/* Without the sign that a processor gives what is not a number. */
static double told(double x)
{
    return x == x ? x : __builtin_nan("");
}

static void log_failed(const Rt *rt)
{
    rt_fail(rt, RT_EXIT_ERROR, "--log %s: %s", rt->state->flags.log, strerror(errno));
}

/* A line is lost. With checkpoints that costs no step: the run saves the one at hand and
 * ends (rt_due.c), or, with --keep-going, goes on without its log. */
static void line_lost(Rt *rt)
{
    RtState *st = rt->state;
    if (st->checkpoint == NULL)
        log_failed(rt);
    rt_output_lost(rt, "log", st->flags.log);
    if (st->flags.keep_going) {
        rt_say("trainer: warning: %s: training goes on without a log", st->lost);
        st->lost[0] = '\0';
    }
    fclose(st->log);
    st->log = NULL;
}

/* Where the lines of steps after `step` begin: they will be written again. A line that
 * was cut short by a crash is dropped with them. */
static long lines_end(FILE *f, int64_t step)
{
    long end = 0;
    char line[1024];
    while (fgets(line, sizeof line, f) != NULL) {
        long long n;
        if (sscanf(line, "{\"step\": %lld,", &n) != 1 || n > step ||
            strchr(line, '\n') == NULL)
            break;
        end = ftell(f);
    }
    return end;
}

/* A run that was resumed goes on in the log that it has, if it is a file. */
static void open_log(Rt *rt)
{
    RtState *st = rt->state;
    struct stat s;
    const bool has_lines = stat(st->flags.log, &s) == 0 && S_ISREG(s.st_mode);
    st->log = st->first_step > 0 && has_lines ? fopen(st->flags.log, "r+e") : NULL;
    if (st->log != NULL) {
        const long end = lines_end(st->log, st->first_step);
        if (fseek(st->log, end, SEEK_SET) != 0 || ftruncate(fileno(st->log), end) != 0)
            log_failed(rt);
        return;
    }
    st->log = stat(st->flags.log, &s) == 0 && !S_ISREG(s.st_mode)
                  ? rt_output_stream(st->flags.log)
                  : fopen(st->flags.log, "we");
    if (st->log == NULL)
        log_failed(rt);
}

void rt_log_start(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    RtState *st = rt->state;
    st->started_seconds = rt_clock();
    if (rt->rank != 0)
        return;
    char text[1024], count[48];
    const uint64_t platform = rt_platform_hash(t, text, sizeof text);
    printf(
        "%s: %s parameters, %d rank%s x %d thread%s, %lld samples of data, seed %lld\n",
        t->name, with_commas(count, sizeof count, (double)t->params_elems), t->world_size,
        t->world_size == 1 ? "" : "s", rt->threads, rt->threads == 1 ? "" : "s",
        (long long)rt_tokens_samples(st->tokens), (long long)st->flags.seed);
    rt_tokens_print_mix(st->tokens, stdout);
    printf("numerics %016llx platform %016llx (%s)\n",
           (unsigned long long)t->numerics_hash, (unsigned long long)platform, text);
    rt_digest_print(rt, stdout);
    rt_memory_planned(rt, stdout);
    rt_stdout_flush(rt);
    if (rt_tokens_unused_mask(st->tokens)) {
        rt_say("trainer: warning: there are masks beside the data, but this "
               "trainer was generated with loss.mask = false: every token is "
               "a target");
    }
    if (rt_tokens_bare_mask(st->tokens) != NULL) {
        rt_say("trainer: note: %s does not say which tokens it was made for, so only "
               "their number was checked; masks of fsdpgen tokenize do",
               rt_tokens_bare_mask(st->tokens));
    }
    if (rt_tokens_bytes_of(st->tokens) != NULL) {
        rt_say("trainer: warning: the bytes of %s are taken for tokens, 256 of the "
               "model's %lld: `fsdpgen tokenize` makes tokens of it; text:FILE says "
               "that bytes are meant",
               rt_tokens_bytes_of(st->tokens), (long long)t->vocab);
    }
    if (st->flags.log != NULL)
        open_log(rt);
}

/* JSON has no words for what is not finite: null. */
static void json_result(FILE *f, const char *name, double x)
{
    if (rt_is_finite(x))
        fprintf(f, "\"%s\": %.17g, \"%s_hex\": \"%a\", ", name, x, name, x);
    else
        fprintf(f, "\"%s\": null, \"%s_hex\": null, ", name, name);
}

/* One object a line. */
static void json_line(Rt *rt, double seconds, double mfu)
{
    const RtState *st = rt->state;
    const int64_t tokens = rt_step_tokens(rt->trainer);
    FILE *f = st->log;
    fprintf(f, "{\"step\": %lld, ", (long long)(st->step + 1));
    json_result(f, "loss", st->loss);
    json_result(f, "grad_norm", st->grad_norm);
    fprintf(f, "\"lr\": %.17g, \"skipped\": %lld, \"tokens\": %lld, ",
            rt_learning_rate(rt->trainer, st->step), (long long)st->skipped,
            (long long)((st->step + 1) * tokens));
    if (rt->trainer->loss_scale.init != 0)
        fprintf(f, "\"loss_scale\": %.17g, ", st->loss_scale);
    if (rt->trainer->masked || rt->trainer->packed)
        fprintf(f, "\"valid_tokens\": %lld, ", (long long)st->valid_tokens);
    if (st->evaluated) {
        json_result(f, "eval_loss", st->eval_loss);
        fprintf(f, "\"eval_tokens\": %lld, ", (long long)st->eval_tokens);
    }
    fprintf(f, "\"step_seconds\": %.6f, \"tokens_per_second\": %.3f, \"mfu\": ", seconds,
            (double)tokens / seconds);
    if (mfu > 0)
        fprintf(f, "%.6f", mfu);
    else
        fprintf(f, "null");
    fprintf(f, ", \"memory_bytes\": %lld}\n", (long long)rt_memory_high_water_bytes());
    if (fflush(f) != 0 || ferror(f))
        line_lost(rt);
}

static const char *duration(char *out, size_t n, double seconds)
{
    const long long s = (long long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(out, n, "%lldh%02lldm", s / 3600, s / 60 % 60);
    else
        snprintf(out, n, "%lldm%02llds", s / 60, s % 60);
    return out;
}

void rt_log_step(Rt *rt, double seconds)
{
    const RtTrainer *t = rt->trainer;
    const RtState *st = rt->state;
    rt_enter(rt, RT_AT_LOG);
    if (rt->rank != 0)
        return;
    const double rate = (double)rt_step_tokens(t) / seconds;
    double mfu = 0;
    if (st->flags.peak_tflops > 0)
        mfu = rate * t->flops_per_token / (st->flags.peak_tflops * 1e12 * t->world_size);
    if (st->log != NULL)
        json_line(rt, seconds, mfu);
    if (st->flags.quiet)
        return;
    char loss[32] = "     n/a", tps[48], share[16] = "n/a", eta[32];
    if (st->valid_tokens > 0)
        snprintf(loss, sizeof loss, "%8.5f", st->loss);
    if (mfu > 0)
        snprintf(share, sizeof share, "%.2f%%", 100.0 * mfu);
    char skipped[64] = "";
    if (st->skip && st->valid_tokens == 0) {
        snprintf(skipped, sizeof skipped, "  (no update: every target is masked)");
    } else if (st->skip) {
        snprintf(skipped, sizeof skipped, "  update skipped, %lld so far%s",
                 (long long)st->skipped,
                 st->overflowed ? "; the loss scale shrinks" : "");
    }
    char eval[48] = "";
    if (st->evaluated && st->eval_tokens == 0)
        snprintf(eval, sizeof eval, "  eval_loss:      n/a");
    else if (st->evaluated)
        snprintf(eval, sizeof eval, "  eval_loss: %8.5f", told(st->eval_loss));
    const double left = (double)(st->flags.steps - st->step - 1);
    const double done = (double)(st->step + 1 - st->first_step);
    printf("step: %4lld  loss: %s  grad_norm: %8.4f  memory: %5.2fGiB  tps: %s  mfu: %s  "
           "lr: %.2e  eta: %s%s%s\n",
           (long long)(st->step + 1), loss, st->grad_norm,
           (double)rt_memory_high_water_bytes() / 1073741824.0,
           with_commas(tps, sizeof tps, rate), share, rt_learning_rate(t, st->step),
           duration(eta, sizeof eta, left * (rt_clock() - st->started_seconds) / done),
           eval, skipped);
    rt_stdout_flush(rt);
}

void rt_log_eval(Rt *rt)
{
    const RtState *st = rt->state;
    if (rt->rank == 0) {
        char text[160];
        if (st->eval_tokens == 0) {
            snprintf(text, sizeof text,
                     "step: %4lld  eval_loss:      n/a  (every target is masked)",
                     (long long)st->step);
        } else {
            snprintf(text, sizeof text,
                     "step: %4lld  eval_loss: %8.5f (%a) of %lld tokens",
                     (long long)st->step, told(st->eval_loss), told(st->eval_loss),
                     (long long)st->eval_tokens);
        }
        rt_stdout_result(rt, text);
    }
}

/* ---- the end --------------------------------------------------------------------- */

typedef struct RankStats {
    int64_t tokens, gathered, reduced, replicate, node, matrix, high_water;
    double wait_seconds;
} RankStats;

static void write_stats(Rt *rt, const RankStats *all)
{
    const RtTrainer *t = rt->trainer;
    const char *path = rt->state->flags.stats;
    static RtOutput out;
    if (!rt_output_begin(&out, path, rt_output_begins(rt, "stats"))) {
        rt_output_lost(rt, "stats", path);
        return;
    }
    FILE *f = out.f;
    fprintf(f,
            "{\"world_size\": %d, \"steps\": %lld, \"arena_bytes\": %lld, "
            "\"symmetric_bytes\": %lld, \"local_bytes\": %lld, \"ranks\": [\n",
            t->world_size, (long long)rt->state->flags.steps,
            (long long)(t->symmetric_bytes + t->local_bytes),
            (long long)t->symmetric_bytes, (long long)t->local_bytes);
    for (int r = 0; r < t->world_size; r++) {
        fprintf(f,
                "  {\"rank\": %d, \"tokens\": %lld, \"gathered_bytes\": %lld, "
                "\"reduced_bytes\": %lld, \"replicate_bytes\": %lld, "
                "\"node_bytes\": %lld, \"matrix_bytes\": %lld, "
                "\"high_water_bytes\": %lld, "
                "\"wait_seconds\": %.6f}%s\n",
                r, (long long)all[r].tokens, (long long)all[r].gathered,
                (long long)all[r].reduced, (long long)all[r].replicate,
                (long long)all[r].node, (long long)all[r].matrix,
                (long long)all[r].high_water, all[r].wait_seconds,
                r + 1 < t->world_size ? "," : "");
    }
    fprintf(f, "]}\n");
    if (!rt_output_end(&out))
        rt_output_lost(rt, "stats", path);
}

void rt_log_end(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    RtState *st = rt->state;
    const RankStats mine = {st->tokens_done,
                            st->gathered_bytes,
                            st->reduced_bytes,
                            st->replicate_bytes,
                            st->node_bytes,
                            st->matrix_bytes,
                            rt_memory_high_water_bytes(),
                            st->wait_seconds};
    RankStats all[RT_MAX_RANKS];
    rt_enter(rt, RT_AT_END);
    rt_exchange_begin(rt);
    memcpy(rt_control(rt, rt->rank), &mine, sizeof mine);
    rt_exchange_publish(rt, sizeof mine);
    for (int r = 0; r < t->world_size; r++)
        memcpy(&all[r], rt_control(rt, r), sizeof all[r]);
    rt_exchange_end(rt);
    if (rt->rank != 0)
        return;
    rt_memory_resident(rt, stdout);
    rt_stdout_flush(rt);
    if (st->flags.stats != NULL)
        write_stats(rt, all);
    if (st->log != NULL) {
        FILE *f = st->log;
        st->log = NULL;
        if (fclose(f) != 0)
            rt_output_lost(rt, "log", st->flags.log);
    }
}
