/* SPDX-License-Identifier: Apache-2.0 */
/* attr.c: attributes of ops and shapes of values. In: one or two of them. Out: their
 * text, or whether they are equal. */
#include "base/show.h"
#include "ops/ops.h"

#include <string.h>

bool attr_equal(const Attr *a, const Attr *b)
{
    if (a->type != b->type || strcmp(a->key, b->key) != 0)
        return false;
    if (a->type == ATTR_NUM)
        return !memcmp(&a->num, &b->num, sizeof a->num);
    if (a->type == ATTR_STR)
        return !strcmp(a->s, b->s);
    return a->i == b->i;
}

const char *attr_text(Gen *g, const Attr *a)
{
    switch (a->type) {
    case ATTR_INT:
        return gen_printf(g, "%s=%lld", a->key, (long long)a->i);
    case ATTR_NUM:
        return gen_printf(g, "%s=%.17g", a->key, a->num);
    case ATTR_STR:
        return gen_printf(g, "%s=\"%s\"", a->key, a->s);
    case ATTR_BOOL:
        return gen_printf(g, "%s=%s", a->key, a->i ? "true" : "false");
    }
    gen_die("unknown attribute type");
}

bool attr_silent(const OpRule *op, const Attr *a)
{
    for (int i = 0; i < op->info->n_attrs; i++) {
        const AttrSpec *spec = &op->info->attrs[i];

        if (!strcmp(spec->key, a->key))
            return spec->quiet && attr_equal(a, &spec->dflt);
    }
    return false;
}

bool attr_from_model(const Gen *g, const char *name, Attr *a)
{
    const Model *m = &g->model;
    const Attr fields[] = {
        {.key = "seq", .type = ATTR_INT, .i = m->seq_tokens},
        {.key = "micro_batch", .type = ATTR_INT, .i = m->micro_batch},
        {.key = "loss_chunk_tokens", .type = ATTR_INT, .i = m->loss_chunk_tokens},
        {.key = "loss_masked", .type = ATTR_BOOL, .i = m->loss_mask || m->packed},
        {.key = "loss_z", .type = ATTR_NUM, .num = m->loss_z},
        {.key = "label_smoothing", .type = ATTR_NUM, .num = m->label_smoothing},
    };

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!strcmp(name, fields[i].key)) {
            *a = fields[i];
            return true;
        }
    return false;
}

const char *attr_type_name(int type)
{
    return type == ATTR_INT   ? "int"
           : type == ATTR_NUM ? "number"
           : type == ATTR_STR ? "string"
                              : "bool";
}

const char *shape_text(Gen *g, const Value *v)
{
    return show_shape(g, v->dim, v->n_dims);
}

bool same_shape(const Value *a, const Value *b)
{
    return a->n_dims == b->n_dims &&
           !memcmp(a->dim, b->dim, sizeof *a->dim * (size_t)a->n_dims);
}
