/* SPDX-License-Identifier: Apache-2.0 */
/* test_again: faults planted where values are not kept but computed again. A checker
 * names each, and those that can be executed show other bits. */
#include "test_models.h"

#include "prove/verify.h"

#include <string.h>

static Gen *plan(const char *folder, const char *wrap, const char *recompute)
{
    const char *const sets[] = {"mesh={shard=2}", recompute, wrap, NULL};
    Gen *g = models_open(folder, "small_llama", sets);

    models_plan(g, NULL);
    return g;
}

/* ---- calls ----------------------------------------------------------------------- */

static void damage_calls(const char *folder, const char *wrap)
{
    Gen *g = plan(folder, wrap, "recompute=cheap");
    Interpretation want, got;
    Instr *i = NULL;
    Span *s = NULL;
    int again, n;
    want = models_run(g, 1);
    for (int id = 0; id < g->prog.ins.count && !i; id++) {
        bool back = g->prog.ins.items[id].phase == PHASE_RECOMPUTE;
        i = back && g->prog.ins.items[id].dropped >= 0 ? &g->prog.ins.items[id] : NULL;
    }
    models_check(i, "recompute=cheap, %s: nothing is computed again", wrap);
    if (!i)
        return;
    models_check((i->piece >= 0) == g->blocks.items[i->block].cut, "%s: of which piece?",
                 wrap);
    s = (Span *)ins_span(g, i);
    n = s->n_nodes;
    s->n_nodes = n - 1; /* one kernel is forgotten */
    models_check(verify_unroll(g), "%s: a value that is not made again is not noticed",
                 wrap);
    got = models_run(g, 1);
    models_check(!same_state(&want, &got), "%s: and no bit shows it", wrap);
    s->n_nodes = n;
    models_check(!verify_unroll(g), "%s: and back", wrap);
    again = i->dropped;
    for (int id = 0; id < i->id; id++) { /* what it makes goes where the forward's went */
        const Instr *first = &g->prog.ins.items[id];
        bool it = first->kind == INS_SPAN && first->block == i->block &&
                  first->variant == i->variant;
        i->dropped = it ? first->dropped : i->dropped;
    }
    for (int a = 0; a < i->n_access; a++) {
        i->access[a].buffer =
            i->access[a].buffer == again ? i->dropped : i->access[a].buffer;
    }
    models_check(verify_unroll(g),
                 "values computed again into the wrong slab are not noticed");
    got = models_run(g, 1);
    models_check(!same_state(&want, &got), "and no bit shows it");
}

/* ---- slabs and nodes ------------------------------------------------------------- */

/* The class of a block that drops some of its values. */
static Class *class_of(const Gen *g)
{
    for (int b = 0; b < g->blocks.count; b++)
        if (g->blocks.items[b].keep == KEEP_SOME)
            return g->blocks.items[b].cls;
    gen_die("no block drops anything");
}

/* Two values, dropped or kept, in one place. */
static void lies_on(Class *c, bool dropped)
{
    const Saved *first = NULL;

    for (int i = 0; i < c->saved.count; i++) {
        Saved *s = &c->saved.items[i];

        if (s->dropped == dropped && first) {
            s->some_offset_bytes = first->some_offset_bytes;
            return;
        }
        first = s->dropped == dropped ? s : first;
    }
    gen_die("%s has no two such values", c->name);
}

static void kept_on_kept(Class *c)
{
    lies_on(c, false);
}

static void dropped_on_dropped(Class *c)
{
    lies_on(c, true);
}

static void less_dropped(Class *c)
{
    c->kept_bytes += ARENA_ALIGN_BYTES;
    c->dropped_bytes -= ARENA_ALIGN_BYTES;
}

static void more_kept(Class *c)
{
    c->kept_bytes += ARENA_ALIGN_BYTES;
}

/* One of them is said to stay, at the end of what stays; but its node runs again. */
static void said_to_stay(Class *c)
{
    for (int i = c->saved.count - 1; i >= 0; i--) {
        Saved *s = &c->saved.items[i];

        if (s->dropped) {
            s->dropped = false;
            s->some_offset_bytes = c->kept_bytes;
            c->kept_bytes += round_up(s->value->bytes, ARENA_ALIGN_BYTES);
            c->dropped_bytes -= round_up(s->value->bytes, ARENA_ALIGN_BYTES);
            return;
        }
    }
}

/* One is said to be dropped, and no node makes it. */
static void said_to_be_dropped(Class *c)
{
    for (int i = c->saved.count - 1; i >= 0; i--) {
        Saved *s = &c->saved.items[i];

        if (!s->dropped) {
            s->dropped = true;
            s->some_offset_bytes = c->dropped_bytes;
            c->kept_bytes -= round_up(s->value->bytes, ARENA_ALIGN_BYTES);
            c->dropped_bytes += round_up(s->value->bytes, ARENA_ALIGN_BYTES);
            return;
        }
    }
}

static void other_order(Class *c)
{
    Node **n = c->again.nodes, *first = n[0];

    gen_require(c->again.n_nodes > 1, "%s runs one node again", c->name);
    n[0] = n[1];
    n[1] = first;
}

static void lost_node(Class *c)
{
    c->again.n_nodes--;
}

/* The first piece runs the first node of another one, too. */
static void node_twice(Class *c)
{
    Span *s = &c->pieces.items[0].again;

    for (int k = 1; k < c->pieces.count; k++) {
        const Span *other = &c->pieces.items[k].again;

        if (other->n_nodes) {
            s->nodes[s->n_nodes++] = other->nodes[0];
            return;
        }
    }
    gen_die("%s runs nodes of one piece again", c->name);
}

static const struct {
    const char *name;
    void (*plant)(Class *c);
    const char *says;
} faults[] = {
    {"two kept values in one place", kept_on_kept, " lies on "},
    {"two dropped values in one place", dropped_on_dropped, " lies on "},
    {"less room for dropped values", less_dropped, "has no place"},
    {"more kept than there is", more_kept, " bytes and drops "},
    {"a value that stays, and is made again", said_to_stay, "over what stays"},
    {"a value that is dropped, and lost", said_to_be_dropped, "is dropped"},
    {"nodes in another order", other_order, "out of order"},
    {"a node that only a piece runs", lost_node, "the block runs"},
    {"a node in two pieces", node_twice, "the block runs"},
};

/* The checker of policy names each before any call is made of it. */
static void damage_classes(const char *folder)
{
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
        Gen *g = plan(folder, "wrap=by_size(1)",
                      "recompute=ops{'swiglu', 'rmsnorm', 'add_rmsnorm', 'linear'}");
        const char *bad;

        models_check(!verify_policy(g), "%s: named before", faults[k].name);
        faults[k].plant(class_of(g));
        bad = verify_policy(g);
        models_check(bad && strstr(bad, faults[k].says), "%s: %s", faults[k].name,
                     bad ? bad : "not noticed");
    }
}

void test_again(const char *folder)
{
    damage_calls(folder, "wrap=1");
    damage_calls(folder, "wrap=by_size(1)");
    damage_classes(folder);
}
