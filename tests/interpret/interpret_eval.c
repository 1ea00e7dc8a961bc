/* SPDX-License-Identifier: Apache-2.0 */
/* interpret_eval: what an evaluation must give on simulated ranks. In: a span that ran.
 * Out: a fault of the run when its loss is not the training's. */
#include "interpret_machine.h"

#include <math.h>

/* An evaluation makes the loss that the step makes of the same micro-batch after it; its
 * logits are numbers. */
void interp_check_evaluation(Machine *m, int rank, const Instr *i, const Turn *t,
                             const SpanCall *c)
{
    const Span *s = ins_span(m->g, i);
    Rank *r = &m->rank[rank];
    for (int a = 0; a < s->n_args; a++) {
        const SpanArg *arg = &s->args[a];
        if (arg->kind == ARG_LOSS && t->variant == VARIANT_EVAL) {
            r->eval_loss = *c->loss;
        } else if (arg->kind == ARG_LOSS && t->round == 0 && t->micro == 0 &&
                   m->p->count[VARIANT_EVAL] && *c->loss != r->eval_loss) {
            m->run->fault = gen_printf(m->g, "rank %d: evaluated loss %g, trained %g",
                                       rank, r->eval_loss, *c->loss);
        }
        for (int64_t k = 0; arg->kind == ARG_LOGITS && k < arg->value->elems; k++)
            if (isnan(interp_load(arg->value->dtype, c->logits, k)))
                m->run->fault = gen_printf(m->g, "rank %d: a logit is NaN", rank);
    }
}
