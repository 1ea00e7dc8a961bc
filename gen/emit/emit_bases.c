/* SPDX-License-Identifier: Apache-2.0 */
/* emit_bases.c: where the parameters of a call are. In: the bindings of its instruction,
 * the flat layouts. Out: base pointers, one for each segment of weights or gradients and
 * one for scales, and the distance of each parameter from its base. Every binding of the
 * plan is checked against the layout on the way. */
#include "emit/emit_step.h"
#include "ops/ops.h"

const Param *bases_param(const Gen *g, const Instr *i, int param)
{
    return &g->params.items[g->blocks.items[i->block].param[param]];
}

/* The bytes of an element: of gathered weights, their scale or the gradient. */
Dtype bases_dtype(const Gen *g, const ClassParam *decl, BindOf of)
{
    return of == BIND_GRAD    ? g->model.reduce_dtype
           : of == BIND_SCALE ? ops_acc_dtype(g)
                              : decl->gathered;
}

/* Where it is in its buffer; -1: it has none. */
static int64_t param_place(const Gen *g, const Param *p, BindOf of)
{
    const int64_t at = of == BIND_SCALE ? p->scale : p->offset_elems;

    return at < 0 ? -1 : at * dtype_bytes(bases_dtype(g, p->decl, of));
}

/* The segment of a base. */
static int base_segment(const Param *p, BindOf of)
{
    return of == BIND_SCALE ? -1 : p->segment;
}

Bases bind_bases(const Steps *s, const Instr *i)
{
    const Class *c = s->g->blocks.items[i->block].cls;
    Bases bases = {0};

    for (BindOf of = BIND_WEIGHT; of < N_BINDS; of++) {
        for (int k = s->first_binding[i->id]; k < s->first_binding[i->id + 1]; k++) {
            const struct Binding *b = &s->p->bindings[k];
            int segment = base_segment(bases_param(s->g, i, b->param), of), at = 0;
            int64_t least = INT64_MAX;

            if (b->of != of)
                continue;
            while (at < bases.count &&
                   (bases.items[at].segment != segment || bases.items[at].of != of))
                at++;
            if (at < bases.count)
                continue;
            for (int p = 0; p < c->params.count; p++) {
                const Param *param = bases_param(s->g, i, p);
                const int64_t place = param_place(s->g, param, of);

                if (base_segment(param, of) == segment && place >= 0)
                    least = min_i64(least, place);
            }
            gen_require(
                b->offset_bytes == param_place(s->g, bases_param(s->g, i, b->param), of),
                "%s: a binding disagrees with the layout", ins_span(s->g, i)->name);
            *gen_push(s->g, &bases) = (Base){segment, b->buffer, least, of};
        }
    }
    return bases;
}

/* The base to which parameter p of the class is relative, or -1; *offset: relative to
 * it. */
int bases_find(const Steps *s, const Instr *i, const Bases *bases, int p, BindOf of,
               int64_t *offset)
{
    const Param *param = bases_param(s->g, i, p);
    const int64_t place = param_place(s->g, param, of);

    for (int k = 0; place >= 0 && k < bases->count; k++) {
        if (bases->items[k].segment == base_segment(param, of) &&
            bases->items[k].of == of) {
            *offset = place - bases->items[k].offset_bytes;
            return k;
        }
    }
    return -1;
}
