/* SPDX-License-Identifier: MIT-0 */
/* rt_eval.c: the loss on held-out data. In: the files of --eval, the current weights.
 * Out: RtState.eval_loss, the mean over all targets, with the same bits on any number of
 * ranks.
 *
 * 1. The set is fixed: sequences in the order of the files, micro_batch of them at a
 *    time; an incomplete last micro-batch is reported and not read.
 * 2. Ranks take micro-batches in turn. If the last turn has none for a rank, the rank
 *    repeats one, because its peers need its weights.
 * 3. Each loss travels as the integer of its bits, added to zeros of the other ranks;
 *    then all ranks add all losses in order.
 * 4. Nothing in the training changes except byte counters. */
#include "data/rt_tokens.h"

#include <string.h>

enum { TURN = 128 }; /* micro-batches between two exchanges: two words each */

/* The flag that names them. */
static const char *flag_of(const RtFlags *f)
{
    return f->command == RT_EVAL ? "data" : "eval";
}

bool rt_eval_check(const RtTrainer *t, const RtFlags *f, char *error)
{
    if (f->n_eval == 0)
        return true;
    if (t->evaluate == NULL) {
        snprintf(error, RT_ERROR_BYTES,
                 "--%s: no op tells how to evaluate the loss of this model: see "
                 "`evaluates` of an op.lua",
                 flag_of(f));
        return false;
    }
    RtTokens *d = rt_tokens_open_for(t, flag_of(f), f->eval, f->n_eval, error);
    if (d == NULL)
        return false;
    const int64_t samples = rt_tokens_samples(d), limit = f->eval_sequences;
    rt_tokens_close(d);
    if (limit > 0 && limit < samples && limit < t->micro_batch) {
        snprintf(error, RT_ERROR_BYTES, "--eval-sequences %lld: a micro-batch takes %lld",
                 (long long)limit, (long long)t->micro_batch);
        return false;
    }
    if (samples < t->micro_batch) {
        snprintf(error, RT_ERROR_BYTES,
                 "--%s: the held-out data has %lld sequence%s of %lld tokens, but a "
                 "micro-batch takes %lld",
                 flag_of(f), (long long)samples, samples == 1 ? "" : "s",
                 (long long)t->seq_tokens, (long long)t->micro_batch);
        return false;
    }
    return true;
}

void rt_eval_open(Rt *rt)
{
    RtState *st = rt->state;
    const RtFlags *f = &st->flags;
    char error[RT_ERROR_BYTES];
    if (f->n_eval == 0)
        return;
    st->held_out =
        rt_eval_check(rt->trainer, f, error)
            ? rt_tokens_open_for(rt->trainer, flag_of(f), f->eval, f->n_eval, error)
            : NULL;
    if (st->held_out == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "%s", error);
    rt_agree_data(rt, flag_of(f), st->held_out);
    int64_t samples = rt_tokens_samples(st->held_out);
    if (f->eval_sequences > 0 && f->eval_sequences < samples)
        samples = f->eval_sequences;
    st->eval_micro_batches = samples / rt->trainer->micro_batch;
    st->eval_left_over = samples % rt->trainer->micro_batch;
}

void rt_eval_print(const Rt *rt)
{
    const RtState *st = rt->state;
    FILE *out = rt_words(rt);
    if (rt->rank != 0 || st->held_out == NULL)
        return;
    const int64_t left = st->eval_left_over;
    fprintf(out, "held-out data: %lld sequences",
            (long long)(st->eval_micro_batches * rt->trainer->micro_batch));
    fprintf(out, left > 0 ? "; %lld more do not fill a micro-batch\n" : "\n",
            (long long)left);
    if (st->flags.command == RT_EVAL && rt_tokens_unused_mask(st->held_out)) {
        rt_say("trainer: warning: there are masks beside the data, but this trainer was "
               "generated with loss.mask = false: every token is a target");
    }
}

/* The sum of the losses of micro-batch index; its targets. */
static double evaluate(Rt *rt, int64_t index, int64_t *targets)
{
    const RtTrainer *t = rt->trainer;
    RtState *st = rt->state;
    const RtStage to = rt_stage(rt);
    for (int64_t b = 0; b < t->micro_batch; b++)
        rt_tokens_fill(rt, st->held_out, index * t->micro_batch + b, to, b);
    *targets = 0;
    for (int64_t i = 0; i < t->micro_batch * t->seq_tokens; i++)
        *targets += to.targets[i] >= 0;
    rt_stage_send(rt);
    st->micro_batch = 0; /* whose slot holds the loss for a moment */
    t->evaluate(rt);
    rt_comm_drain(rt);
    return rt_loss_take(rt);
}

void rt_evaluate(Rt *rt)
{
    RtState *st = rt->state;
    const RtGroup data = rt->trainer->data;
    const int data_ranks = rt_group_ranks(data);
    double sum = 0;
    rt_changed_check(rt);
    st->eval_tokens = 0;
    for (int64_t base = 0; base < st->eval_micro_batches; base += TURN) {
        const int64_t left = st->eval_micro_batches - base, n = left < TURN ? left : TURN;
        uint64_t words[2 * TURN] = {0};
        for (int64_t at = 0; at < n; at += data_ranks) {
            const int64_t mine = at + rt_group_index(data, rt->rank);
            int64_t targets;
            const double loss = evaluate(rt, base + (mine < n ? mine : n - 1), &targets);
            if (mine < n && rt_counts(rt)) {
                memcpy(&words[2 * mine], &loss, sizeof loss);
                words[2 * mine + 1] = (uint64_t)targets;
            }
        }
        rt_sum_words(rt, words, (int)(2 * n));
        for (int64_t i = 0; i < n; i++) {
            double loss;
            memcpy(&loss, &words[2 * i], sizeof loss);
            sum += loss;
            st->eval_tokens += (int64_t)words[2 * i + 1];
        }
    }
    st->eval_loss = sum / (double)st->eval_tokens; /* no target: NaN */
    st->evaluated = true;
}

bool rt_eval_due(const Rt *rt)
{
    const RtState *st = rt->state;
    const int64_t step = st->step + 1, every = st->flags.eval_every;
    return st->held_out != NULL &&
           (step >= st->flags.steps || (every > 0 && step % every == 0));
}
