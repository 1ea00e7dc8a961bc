/* SPDX-License-Identifier: Apache-2.0 */
/* emit_macros.c: distinct C names for buffers, segments, batches and places of the
 * schedule. In: their names in the plan. Out: their macros. */
#include "emit/emit.h"

#include <ctype.h>
#include <string.h>

typedef struct Names {
    Gen *g;
    const char **slot; /* a hash table */
    size_t cap;
    struct {
        const char ***items; /* the field that holds each name */
        int count, cap;
    } kept;
} Names;

static const char **find_slot(const Names *n, const char *name)
{
    size_t at = (size_t)hash_bytes(name, strlen(name));

    while (n->slot[at % n->cap] && strcmp(n->slot[at % n->cap], name) != 0)
        at++;
    return &n->slot[at % n->cap];
}

static void add_macro(Names *n, const char **kept, const char *prefix, const char *ident)
{
    char *s = gen_printf(n->g, "%s%s", prefix, ident);

    for (char *c = s; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    *kept = s;
    *gen_push(n->g, &n->kept) = kept;
}

/* grad_shard of "x" and grad of "shard_x" give the same word: the later one gets a number
 * that no other name has. */
static void keep_apart(Names *n)
{
    n->cap = (size_t)n->kept.count * 4 + 1;
    n->slot = gen_alloc(n->g, sizeof *n->slot * n->cap);
    for (int i = 0; i < n->kept.count; i++) {
        const char **slot = find_slot(n, *n->kept.items[i]);

        if (!*slot)
            *slot = *n->kept.items[i];
    }
    for (int i = 0; i < n->kept.count; i++) {
        const char **kept = n->kept.items[i], *name = *kept;

        for (int k = 2; *find_slot(n, *kept) && *find_slot(n, *kept) != *kept; k++)
            *kept = gen_printf(n->g, "%s_%d", name, k);
        *find_slot(n, *kept) = *kept;
    }
}

void emit_macros(Gen *g)
{
    Names n = {.g = g};

    for (int i = 0; i < g->prog.bufs.count; i++)
        add_macro(&n, &g->prog.bufs.items[i].macro, "", g->prog.bufs.items[i].name);
    for (int i = 0; i < g->segments.count; i++)
        add_macro(&n, &g->segments.items[i].macro, "SEG_", g->segments.items[i].ident);
    for (int i = 0; i < g->batches.count; i++)
        add_macro(&n, &g->batches.items[i].macro, "MATRICES_", g->batches.items[i].ident);
    for (int i = 0; i < g->blocks.count; i++) {
        Block *b = &g->blocks.items[i];
        const int pieces = b->cls->pieces.count;

        b->at = gen_alloc(g, sizeof *b->at * (size_t)(pieces + 1));
        add_macro(&n, &b->at[0], "AT_", b->ident);
        for (int k = 0; k < pieces && b->cls->pieces.items[k].name; k++)
            add_macro(&n, &b->at[1 + k], "AT_",
                      gen_printf(g, "%s_%s", b->ident, b->cls->pieces.items[k].name));
    }
    keep_apart(&n);
}
