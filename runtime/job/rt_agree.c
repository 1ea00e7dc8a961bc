/* SPDX-License-Identifier: MIT-0 */
/* rt_agree.c: what all ranks must agree on before they train, whoever started them and on
 * whatever machine. In: this rank's build, platform and flags. Out: nothing, or the
 * failure of the rank that differs from rank 0. All functions are collective. */
#include "job/rt_job.h"
#include "rt_target.h"

#include <string.h>

void rt_agree_builds(Rt *rt)
{
    char text[1024];
    RtRankShared *ranks = rt->state->shared->rank;
    ranks[rt->rank].numerics_hash = rt->trainer->numerics_hash;
    ranks[rt->rank].platform_hash = rt_platform_hash(rt->trainer, text, sizeof text);
    rt_exchange_begin(rt);
    rt_exchange_publish(rt, 0);
    for (int r = 0; r < rt->world_size; r++) {
        if (ranks[r].numerics_hash != ranks[0].numerics_hash ||
            ranks[r].platform_hash != ranks[0].platform_hash) {
            rt_fail(rt, RT_EXIT_ERROR,
                    "rank %d has another %s hash than rank 0; this rank: %s", r,
                    ranks[r].numerics_hash != ranks[0].numerics_hash ? "numerics"
                                                                     : "platform",
                    text);
        }
    }
    rt_exchange_end(rt);
}

void rt_take_first(Rt *rt, uint64_t *words, int n)
{
    for (int i = 0; i < n; i++)
        words[i] = rt->rank == 0 ? words[i] : 0;
    rt_sum_words(rt, words, n);
}

static uint64_t bits(double x)
{
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

/* Flags that decide what ranks do together. If they differed, some ranks would wait for
 * ever, or train on with numbers of their own. */
void rt_agree_flags(Rt *rt)
{
    const RtFlags *f = &rt->state->flags;
    const char *prompt = f->prompt != NULL ? f->prompt : "";
    const struct {
        const char *name;
        uint64_t value;
    } asked[] = {
        {"--steps", (uint64_t)f->steps},
        {"--epochs", bits(f->epochs)},
        {"--seed", (uint64_t)f->seed},
        {"--eval", f->n_eval > 0},
        {"--eval-every", (uint64_t)f->eval_every},
        {"--eval-sequences", (uint64_t)f->eval_sequences},
        {"--init", f->init != NULL},
        {"--new-rows", f->new_rows},
        {"--checkpoint", f->checkpoint != NULL},
        {"--checkpoint-every", (uint64_t)f->checkpoint_every},
        {"--checkpoint-seconds", bits(f->checkpoint_seconds)},
        {"--stop-after", bits(f->stop_seconds)},
        {"--keep", (uint64_t)f->keep},
        {"--keep-every", (uint64_t)f->keep_every},
        {"--keep-best", f->keep_best},
        {"--patience", (uint64_t)f->patience},
        {"--best", f->best},
        {"--dry-run", f->dry_run},
        {"--keep-going", f->keep_going},
        {"--resume", (uint64_t)f->resume + f->must_resume},
        {"--accept-data", f->accept_data},
        {"--accept-numerics", f->accept_numerics},
        {"--check-data", f->check_data},
        {"--wait-for-saves", f->wait_for_saves},
        {"--one-writer", f->one_writer},
        {"--debug-gradients", f->debug_gradients != NULL},
        {"--weights-hash", f->weights_hash},
        {"--guard", f->guard}, /* places of the symmetric space depend on it */
#ifdef RT_CUDA
        {"--no-graphs", f->no_graphs},
        {"--profile", f->profile != NULL},
#endif
        {"the command", f->command},
        {"--prompt", rt_hash64(prompt, strlen(prompt), 0)},
        {"--tokens", (uint64_t)f->sample_tokens},
        {"--temperature", bits(f->temperature)},
        {"--top-k", (uint64_t)f->top_k},
        {"--top-p", bits(f->top_p)},
        {"--stop", f->stop != NULL ? rt_hash64(f->stop, strlen(f->stop), 1) : 0},
    };
    enum { ASKED = sizeof asked / sizeof *asked };
    uint64_t first[ASKED];
    for (int i = 0; i < ASKED; i++)
        first[i] = asked[i].value;
    rt_take_first(rt, first, ASKED);
    for (int i = 0; i < ASKED; i++) {
        if (first[i] != asked[i].value) {
            rt_fail(rt, RT_EXIT_USAGE,
                    "%s is not what rank 0 was given: start all ranks with the same "
                    "flags",
                    asked[i].name);
        }
    }
}
