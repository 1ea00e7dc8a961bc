/* SPDX-License-Identifier: Apache-2.0 */
/* split_divide.c: do parts divide what they have to? In: a description, marks of
 * parameters. Out: a message that names the field whose number they do not divide. */
#include "graph/graph.h"

/* cuBLASLt multiplies on fast kernels where rows of logits are multiples of 16 bytes, as
 * many as 8 rows of a vocabulary make in the narrowest dtype, bf16. All dtypes have the
 * same rows, so that shapes do not depend on them. Without parts the loss ops' cuda.cu
 * pad copies instead. */
enum { FAST_ROWS = 8 };

/* Rows that each part has of a padded parameter, the last one with zeros: a multiple of
 * FAST_ROWS if that leaves the last part some of its own; else as few as can be. */
int64_t split_padded_rows(const ClassParam *p, int64_t parts)
{
    const int64_t least = round_up(p->dim[0], parts) / parts;
    const int64_t fast = round_up(least, FAST_ROWS);

    return fast * (parts - 1) < p->dim[0] ? fast : least;
}

/* The largest number of parts, a power of two, that divides n. */
static int64_t most_parts(int64_t n)
{
    return n & -n;
}

/* The number that the fewest parts divide. */
typedef struct Least {
    int64_t most, count;
    const ClassParam *param; /* whose units it counts; NULL: it counts tokens */
    const char *of;          /* the model's field that has it; NULL: not known */
} Least;

/* What parts divide: "rows", or "units of 64 rows". */
static const char *unit_text(Gen *g, const Least *l, int64_t count)
{
    const ClassParam *p = l->param;
    const char *lines = !p ? "tokens" : p->mark[PARTS_TENSOR].dim ? "columns" : "rows";

    return !p || p->mark_unit == 1
               ? lines
               : gen_printf(g, "unit%s of %lld %s", count == 1 ? "" : "s",
                            (long long)p->mark_unit, lines);
}

/* "use 8, 4 or 2"; and what the number would have to be. */
static const char *use_parts(Gen *g, int64_t parts, const Least *l)
{
    const int64_t enough = round_up(l->count, parts);
    const char *all = gen_printf(g, "use %lld", (long long)l->most);

    for (int64_t n = l->most / 2; n > 1; n /= 2)
        all = gen_printf(g, "%s%s %lld", all, n > 2 ? "," : " or", (long long)n);
    if (l->param && l->of && !l->param->mark_pads)
        return gen_printf(g, "%s, or make model.%s a multiple of %lld", all, l->of,
                          (long long)parts);
    if (l->most == 1)
        return gen_printf(
            g, "use 1; %lld parts need a multiple of %lld %s there: %lld, not %lld",
            (long long)parts, (long long)parts, unit_text(g, l, enough),
            (long long)enough, (long long)l->count);
    return all;
}

/* Does the last part have rows of its own? All others are full. */
static bool padding_fits(const ClassParam *p, int64_t parts)
{
    return split_padded_rows(p, parts) * (parts - 1) < p->dim[0];
}

/* Whole numbers of heads and features in each part: how many parts can have them. */
static void least_of_features(const Gen *g, Least *l)
{
    const int64_t parts = g->model.parts[PARTS_TENSOR];

    for (int i = 0; i < g->params.count; i++) {
        const ClassParam *p = g->params.items[i].decl;
        const PartState *mark = &p->mark[PARTS_TENSOR];

        for (int k = 0; mark->kind == PART_CUT && k < mark->sections.n; k++) {
            int64_t units = mark->sections.elems[k] / p->mark_unit;
            int64_t can = p->mark_pads ? parts : most_parts(units);

            while (p->mark_pads && can > most_parts(units) && !padding_fits(p, can))
                can /= 2;
            if (can < l->most)
                *l = (Least){can, units, p, p->mark_of[k]};
        }
    }
}

/* "model.kv_heads, which is 2: units of 16 rows of self_attn.qkv_proj.weight" */
static const char *number_text(Gen *g, const Least *l, int64_t others)
{
    const char *units = unit_text(g, l, l->count);
    const bool sections = l->param && l->param->mark[PARTS_TENSOR].sections.n > 1;

    if (!l->param)
        return gen_printf(g, "micro_batch * seq%s, which is %lld %s",
                          others > 1 ? " / parts.tensor" : "", (long long)l->count,
                          units);
    if (l->of)
        return gen_printf(g, "model.%s, which is %lld: %s of %s", l->of,
                          (long long)l->count, units, l->param->name);
    return gen_printf(g, "%s, %s %lld %s", l->param->name,
                      sections ? "of which a section has" : "which has",
                      (long long)l->count, units);
}

/* Whole numbers of tokens, heads and features in each part; else a message. */
bool split_divides(Gen *g, PartsAxis axis)
{
    const Model *m = &g->model;
    const int64_t parts = m->parts[axis];
    const int64_t others = axis == PARTS_CONTEXT ? m->parts[PARTS_TENSOR] : 1;
    const int64_t tokens = m->micro_batch * m->seq_tokens / others;
    const char *field = parts_field(g, axis);
    const Pos pos = model_pos(g, field);
    Least l = {.most = most_parts(tokens), .count = tokens};

    if (axis == PARTS_TENSOR)
        least_of_features(g, &l);
    if (l.most >= parts)
        return true;
    if (l.param && l.param->mark_pads)
        diag_add(g, DIAG_ERROR, pos, use_parts(g, parts, &l),
                 "%s: %lld parts of %lld rows leave the last none of %s", field,
                 (long long)parts, (long long)((l.count + parts - 1) / parts),
                 number_text(g, &l, others));
    else
        diag_add(g, DIAG_ERROR, pos, use_parts(g, parts, &l),
                 "%s: %lld parts do not divide %s", field, (long long)parts,
                 number_text(g, &l, others));
    return false;
}
