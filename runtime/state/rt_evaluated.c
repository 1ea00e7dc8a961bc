/* SPDX-License-Identifier: MIT-0 */
/* rt_evaluated.c: `trainer eval`: how well weights predict held-out data. In: the
 * weights, the files of --data. Out: one line on stdout, or an object with --json: the
 * loss, with the bits that --eval logs in training, its perplexity, the number of tokens
 * in the mean. */
#include "data/rt_data.h"
#include "job/rt_file.h"
#include "job/rt_out.h"
#include "state/rt_state.h"

#include <stdlib.h>

static void put_number(FILE *f, const char *name, double x)
{
    fprintf(f, ", \"%s\": ", name);
    rt_json_number(f, x);
}

static void put_object(const Rt *rt, FILE *f, double perplexity)
{
    const RtState *st = rt->state;
    const int64_t step = rt_file_step_of(st->weights_from);
    fprintf(f, "{\"weights\": ");
    rt_json_put(f, st->weights_from);
    if (step >= 0)
        fprintf(f, ", \"step\": %lld", (long long)step);
    put_number(f, "loss", st->eval_loss);
    if (rt_is_finite(st->eval_loss))
        fprintf(f, ", \"loss_hex\": \"%a\"", st->eval_loss);
    put_number(f, "perplexity", perplexity);
    fprintf(f,
            ", \"tokens\": %lld, \"sequences\": %lld, \"left_over\": %lld, "
            "\"numerics\": \"%016llx\"}",
            (long long)st->eval_tokens,
            (long long)(st->eval_micro_batches * rt->trainer->micro_batch),
            (long long)st->eval_left_over,
            (unsigned long long)rt->trainer->numerics_hash);
}

static void put_line(const Rt *rt, FILE *f, double perplexity)
{
    const RtState *st = rt->state;
    fprintf(f, "%s: loss %.5f (%a), perplexity %.5g, %lld tokens of %lld sequences",
            st->weights_from, st->eval_loss, st->eval_loss, perplexity,
            (long long)st->eval_tokens,
            (long long)(st->eval_micro_batches * rt->trainer->micro_batch));
}

void rt_evaluated(Rt *rt)
{
    const RtState *st = rt->state;
    RtText out;
    rt_evaluate(rt);
    if (rt->rank != 0)
        return;
    if (st->eval_tokens == 0)
        rt_fail(rt, RT_EXIT_ERROR, "eval: every target is masked: there is no loss");
    const double perplexity = rt_exp(st->eval_loss);
    if (!rt_text_open(&out))
        rt_fail(rt, RT_EXIT_ERROR, "eval: out of memory");
    (st->flags.json ? put_object : put_line)(rt, out.f, perplexity);
    char *text = rt_text_end(&out);
    if (text == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "eval: out of memory");
    rt_stdout_result(rt, text);
    free(text);
}
