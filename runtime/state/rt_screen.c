/* SPDX-License-Identifier: MIT-0 */
/* rt_screen.c: what people see of a run on stdout. In: the step's results. Out: on rank
 * 0, at the start a few lines, or everything with --verbose; then a line per step, or on
 * a terminal now and then, above the line that is redrawn (job/rt_live.c); at the end the
 * result, and what to type next (rt_next.c). */
#include "data/rt_data.h"
#include "job/rt_out.h"
#include "rt_target.h"
#include "state/rt_state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The median of step times is over at most this many recent steps. */
enum { MOST_SECONDS = 4096 };
/* On a terminal, the pause between lines is a twentieth of the elapsed time, within these
 * limits: an hour of training gives about a hundred lines. */
static const double least_pause = 5, most_pause = 300;

static struct Screen {
    bool terminal;
    double told;                  /* clock of the last line; 0: none */
    double first_ended;           /* clock of the end of the first step */
    double passed;                /* seconds in steps since the last line */
    int64_t steps;                /* steps since then */
    int64_t n_seconds;            /* of all steps */
    double seconds[MOST_SECONDS]; /* a ring */
} screen;

static const char *with_commas(char *out, size_t n, int64_t x)
{
    char digits[32];
    const size_t len = (size_t)snprintf(digits, sizeof digits, "%lld", (long long)x);
    size_t at = 0;
    for (size_t i = 0; i < len && at + 2 < n; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* ---- the start ------------------------------------------------------------------- */

static void print_all(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    char text[1024];
    const uint64_t platform = rt_platform_hash(t, text, sizeof text);
    printf("%s, seed %lld\n", t->generator, (long long)rt->state->flags.seed);
    rt_tokens_print_mix(rt->state->tokens, stdout);
    printf("numerics %016llx platform %016llx (%s)\n",
           (unsigned long long)t->numerics_hash, (unsigned long long)platform, text);
    rt_digest_print(rt, stdout);
    rt_memory_planned(rt, stdout);
}

static void print_checkpoints(const RtFlags *f)
{
    char every[64] = "", seconds[64] = "", text[32];
    if (f->checkpoint == NULL) {
        printf("checkpoints: none; --checkpoint DIR keeps the weights\n");
        return;
    }
    if (f->checkpoint_every > 0)
        snprintf(every, sizeof every, "every %lld steps and ",
                 (long long)f->checkpoint_every);
    if (f->checkpoint_seconds > 0) {
        snprintf(seconds, sizeof seconds, "every %s and ",
                 rt_duration(text, sizeof text, f->checkpoint_seconds));
    }
    printf("checkpoints: %s, %s%safter the last step\n", f->checkpoint, every, seconds);
}

static void print_start(const Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    const RtFlags *f = &rt->state->flags;
    const int64_t samples = rt_tokens_samples(rt->state->tokens);
    const int64_t step_samples = t->micro_batch * t->micro_batches;
    const int64_t steps = f->steps - rt->state->order_step;
    char count[48], bytes[48], epochs[48];
    printf("%s: %s parameters, %d rank%s x %d thread%s, %s planned for each\n", t->name,
           with_commas(count, sizeof count, t->params_elems), t->world_size,
           plural(t->world_size), rt->threads, plural(rt->threads),
           rt_bytes(bytes, sizeof bytes, t->symmetric_bytes + t->local_bytes));
    printf("data: %s sample%s of %lld tokens; %lld step%s of %lld sample%s: %s epochs\n",
           with_commas(count, sizeof count, samples), plural(samples),
           (long long)t->seq_tokens, (long long)f->steps, plural(f->steps),
           (long long)step_samples, plural(step_samples),
           rt_digits(epochs, sizeof epochs,
                     (double)steps * (double)step_samples / (double)samples, 3));
    print_checkpoints(f);
}

static void warn(const RtTrainer *t, const RtTokens *tokens)
{
    if (rt_tokens_unused_mask(tokens)) {
        rt_say("trainer: warning: there are masks beside the data, but this "
               "trainer was generated with loss.mask = false: every token is "
               "a target");
    }
    if (rt_tokens_bare_mask(tokens) != NULL) {
        rt_say("trainer: note: %s does not say which tokens it was made for, so only "
               "their number was checked; masks of fsdpgen tokenize do",
               rt_tokens_bare_mask(tokens));
    }
    if (rt_tokens_bytes_of(tokens) != NULL) {
        rt_say("trainer: warning: the bytes of %s are taken for tokens, 256 of the "
               "model's %lld: `fsdpgen tokenize` makes tokens of it; text:FILE says "
               "that bytes are meant",
               rt_tokens_bytes_of(tokens), (long long)t->vocab);
    }
}

void rt_screen_start(Rt *rt)
{
    RtState *st = rt->state;
    st->started_seconds = rt_clock();
    if (rt->rank != 0)
        return;
    print_start(rt);
    rt_eval_print(rt);
    if (st->flags.verbose)
        print_all(rt);
    rt_stdout_flush(rt);
    warn(rt->trainer, st->tokens);
    screen.terminal = isatty(STDOUT_FILENO);
    if (!st->flags.quiet && st->step < st->flags.steps) {
        rt_live_on(&st->shared->live);
        rt_live_set(&st->shared->live,
                    &(RtLine){.step = st->step, .steps = st->flags.steps});
    }
}

/* ---- a step ---------------------------------------------------------------------- */

static bool is_due(const RtState *st)
{
    const int64_t step = st->step + 1, every = st->flags.log_every;
    if (screen.told == 0 || step >= st->flags.steps || st->evaluated)
        return true;
    if (every > 0 || !screen.terminal)
        return step % (every > 0 ? every : 1) == 0;
    double pause = (rt_clock() - st->started_seconds) / 20;
    pause = pause < least_pause ? least_pause : pause > most_pause ? most_pause : pause;
    return rt_clock() - screen.told >= pause;
}

/* By the pace since the first step, which is slower, including the time between steps. */
static double left_seconds(const RtState *st)
{
    const double now = rt_clock(), done = (double)(st->step + 1 - st->first_step);
    const double pace =
        done > 1 ? (now - screen.first_ended) / (done - 1) : now - st->started_seconds;
    return pace * (double)(st->flags.steps - st->step - 1);
}

static RtLine line_of(const Rt *rt)
{
    const RtState *st = rt->state;
    const double seconds = screen.passed / (double)screen.steps;
    return (RtLine){.step = st->step + 1,
                    .steps = st->flags.steps,
                    .loss = st->loss,
                    .has_loss = st->valid_tokens > 0,
                    .eval_loss = st->eval_loss,
                    .evaluated = st->evaluated,
                    .has_eval = st->eval_tokens > 0,
                    .grad_norm = st->grad_norm,
                    .lr = rt_learning_rate(rt->trainer, st->step),
                    .tokens_per_second = (double)rt_step_tokens(rt->trainer) / seconds,
                    .mfu = rt_mfu(rt, seconds),
                    .left_seconds = left_seconds(st),
                    .memory_bytes = rt_memory_high_water_bytes()};
}

static void print_skip(const RtState *st)
{
    if (st->valid_tokens == 0) {
        printf("step %lld: no update: every target is masked\n", (long long)st->step + 1);
        return;
    }
    printf("step %lld: update skipped: the %s is not finite; %lld so far%s\n",
           (long long)st->step + 1, rt_is_finite(st->loss) ? "gradient norm" : "loss",
           (long long)st->skipped, st->overflowed ? "; the loss scale shrinks" : "");
}

static void print_step(const Rt *rt, const RtLine *line)
{
    char text[RT_LINE_BYTES];
    const int columns = rt_live_columns() - screen.terminal;
    rt_live_text(line, columns, false, rt_colors(rt->state->flags.color, STDOUT_FILENO),
                 text);
    printf("%s\n", text);
    screen.told = rt_clock();
    screen.passed = 0;
    screen.steps = 0;
}

void rt_screen_step(Rt *rt, double seconds)
{
    const RtState *st = rt->state;
    rt_enter(rt, RT_AT_LOG);
    if (rt->rank != 0)
        return;
    screen.seconds[screen.n_seconds++ % MOST_SECONDS] = seconds;
    screen.passed += seconds;
    screen.steps++;
    if (screen.n_seconds == 1)
        screen.first_ended = rt_clock();
    if (st->flags.quiet)
        return;
    const RtLine line = line_of(rt);
    const bool due = is_due(st);
    rt_live_set(&st->shared->live, &line);
    if (due)
        print_step(rt, &line);
    if (st->skip)
        print_skip(st);
    if (due || st->skip)
        rt_stdout_flush(rt);
}

void rt_screen_eval(Rt *rt)
{
    const RtState *st = rt->state;
    if (rt->rank == 0) {
        char text[160];
        if (st->eval_tokens == 0) {
            snprintf(text, sizeof text,
                     "step: %4lld  eval_loss:      n/a  (every target is masked)",
                     (long long)st->step);
        } else {
            const double loss = st->eval_loss;
            snprintf(text, sizeof text,
                     "step: %4lld  eval_loss: %8.5f (%a) of %lld tokens",
                     (long long)st->step, loss == loss ? loss : __builtin_nan(""),
                     loss == loss ? loss : __builtin_nan(""), (long long)st->eval_tokens);
        }
        rt_stdout_result(rt, text);
    }
}

/* ---- the end --------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_seconds(void)
{
    const size_t n =
        screen.n_seconds < MOST_SECONDS ? (size_t)screen.n_seconds : MOST_SECONDS;
    qsort(screen.seconds, n, sizeof *screen.seconds, by_size);
    return n % 2 == 1 ? screen.seconds[n / 2]
                      : (screen.seconds[n / 2 - 1] + screen.seconds[n / 2]) / 2;
}

static void print_result(const Rt *rt, bool stopped)
{
    const RtTrainer *t = rt->trainer;
    const RtState *st = rt->state;
    char a[48], b[48], eval[64] = "";
    if (screen.n_seconds == 0) {
        if (stopped) /* where no step is left to do, the resume has said so */
            printf("stopped: before a step was done\n");
        return;
    }
    if (st->evaluated && st->eval_tokens > 0)
        snprintf(eval, sizeof eval, ", eval loss %s",
                 rt_digits(b, sizeof b, st->eval_loss, 5));
    printf("%s: step %lld of %lld, loss %s%s, after %s\n", stopped ? "stopped" : "done",
           (long long)st->step, (long long)st->flags.steps,
           st->valid_tokens > 0 ? rt_digits(a, sizeof a, st->loss, 5) : "n/a", eval,
           rt_duration(b, sizeof b, rt_clock() - st->started_seconds));
    printf("speed: %s (median)\n",
           rt_rate(a, sizeof a, (double)rt_step_tokens(t) / median_seconds()));
    printf("memory: %s at its peak; the arena has the planned %s\n",
           rt_bytes(a, sizeof a, st->peak_bytes),
           rt_bytes(b, sizeof b, t->symmetric_bytes + t->local_bytes));
}

void rt_screen_end(Rt *rt, bool stopped)
{
    if (rt->rank != 0)
        return;
    rt_live_off(&rt->state->shared->live);
    if (rt->state->flags.verbose)
        rt_memory_resident(rt, stdout);
    if (!rt->state->flags.quiet) {
        print_result(rt, stopped);
        rt_next_print(rt, stopped);
    }
    rt_stdout_flush(rt);
}
