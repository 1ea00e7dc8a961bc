/* SPDX-License-Identifier: Apache-2.0 */
/* models.c: small descriptions, planned with random choices outside the hash and run by
 * the interpreter; for the programs beside it. */
#include "test_models.h"

#include "base/sandbox.h"
#include "describe/load.h"
#include "drive/drive.h"
#include "prove/verify.h"

#include <math.h>
#include <string.h>

int models_passed, models_failed;

void models_check(bool ok, const char *fmt, ...)
{
    va_list ap;
    models_passed += ok;
    models_failed += !ok;
    if (!ok) {
        printf("FAIL ");
        va_start(ap, fmt);
        vprintf(fmt, ap);
        va_end(ap);
        printf("\n");
    }
}

void models_set(Gen *g, const char *set)
{
    *gen_push(g, &g->opt.sets) = set;
}

int64_t models_pick(uint64_t *r, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(synth_random(r) % (uint64_t)(hi - lo + 1));
}

/* Of each block and unit any legal choice, not only those that policy makes. */
static void shuffle_policy(Gen *g, uint64_t *r)
{
    for (int b = 0; b < g->blocks.count; b++) {
        Block *k = &g->blocks.items[b];
        Keep keep = (Keep)models_pick(r, KEEP_ALL, KEEP_INPUT);
        k->keep = keep == KEEP_INPUT && policy_may_recompute(g, k)  ? KEEP_INPUT
                  : keep == KEEP_SOME && policy_may_drop_some(g, k) ? KEEP_SOME
                                                                    : KEEP_ALL;
    }
    for (int u = 0; u < g->units.count; u++)
        g->units.items[u].keep_gathered = models_pick(r, 0, 1);
    policy_settle(g);
}

/* after: called at the end of each pass and its check. */
void models_plan_case(Gen *g, uint64_t *r, ModelsAfter *after)
{
    static const struct {
        const char *name;
        void (*run)(Gen *g);
    } passes[] = {
        {"load", load_description},  {"check", check_model},
        {"ops", ops_load},           {"graph", graph_build},
        {"grad", grad_build},        {"encode", encode_weights},
        {"split", split_graph},      {"fuse", fuse_graph},
        {"span", span_build},        {"shard", shard_params},
        {"policy", drive_policy},    {"unroll", unroll_step},
        {"schedule", schedule_step}, {"place", place_buffers},
        {"simulate", simulate_step},
    };
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        passes[i].run(g);
        if (i > 0) {
            diag_stop_on_errors(g);
            verify_after(g, passes[i].name);
        }
        if (after)
            after(g, passes[i].name);
        if (r && !strcmp(passes[i].name, "policy"))
            shuffle_policy(g, r);
    }
}

void models_plan(Gen *g, uint64_t *r)
{
    models_plan_case(g, r, NULL);
}

Gen *models_open(const char *folder, const char *name, const char *const *sets)
{
    Gen *g = synth_new();
    g->opt.command = "check";
    g->opt.input = gen_printf(g, "%s/%s.lua", folder, name);
    for (; *sets; sets++)
        models_set(g, *sets);
    return g;
}

Interpretation models_run(Gen *g, uint64_t order)
{
    Interpretation run = {
        .seed = order, .steps = 2, .span = interpret_span, .setup = interpret_setup};
    /* references of two steps on 16 ranks run longer than any description may */
    sandbox_budget(g->L, INT64_MAX / 4, (size_t)1 << 30);
    interpret_steps(g, &run);
    return run;
}

/* Units of blocks, of pieces, across blocks, of pieces that are no neighbours. */
const char *const models_wraps[MODELS_WRAPS] = {
    "wrap=1",
    "wrap=per_block{2,embed='join'}",
    "wrap=per_block{3,head='join',embed='join'}",
    "wrap=root_only",
    "wrap=by_size(150)",
    "wrap=by_size{450,embed='join'}",
    "wrap=by_size{1200,head='join'}",
    "wrap=by_name{'layers.*.mlp_*'}",
    "wrap=by_name{{'embed','head'},'layers.*.qkv'}",
    "wrap=by_name{{'layers.*.attention',name='attention'},'layers.*'}",
    "wrap=by_name{{'layers.0.*','head'},{'layers.?.mlp_up'}}",
    "wrap=function(b) return b.index % 2 == 0 end",
    "wrap=function(b) return b.pieces[1] and { qkv = true, mlp_down = b.name } or 'ends' "
    "end",
};

const char *models_choose(Gen *g, uint64_t *r, const char *mesh)
{
    static const char *const recomputes[] = {
        "recompute=none",
        "recompute=block",
        "recompute=every(2)",
        "recompute=cheap",
        "recompute=ops{'linear', 'swiglu', 'gelu', 'rmsnorm', 'layernorm', "
        "'add_rmsnorm'}",
        "recompute=ops{'attention', 'rope', 'add', 'linear', 'bias'}",
    };
    static const char *const orders[] = {"pre", "post", "none"};
    const char *choice = strchr(mesh, '}') + 1;
    Text t = {.g = g};
    models_set(g, gen_printf(g, "mesh=%.*s", (int)(choice - mesh), mesh));
    if (!strcmp(choice, ",grad")) {
        models_set(g, "strategy=\"shard_grad_op\"");
    } else if (!strcmp(choice, ",state")) {
        models_set(g, "strategy=\"shard_optimizer\"");
    } else if (*choice) {
        models_set(g, gen_printf(g, "reshard_after_forward=%s", choice + 1));
    } else {
        models_set(g, models_pick(r, 0, 1) ? "reshard_after_forward=true"
                                           : "reshard_after_forward=false");
    }
    models_set(g, models_wraps[models_pick(r, 0, MODELS_WRAPS - 1)]);
    models_set(
        g, gen_printf(g, "prefetch={forward=%d,backward=%d,in_flight=%d,order=\"%s\"}",
                      (int)models_pick(r, 0, 2), (int)models_pick(r, 0, 2),
                      (int)models_pick(r, 1, 3), orders[models_pick(r, 0, 2)]));
    models_set(g, models_pick(r, 0, 1) ? "accumulate=\"sharded\""
                                       : "accumulate=\"unsharded\"");
    models_set(g,
               recomputes[models_pick(r, 0, sizeof recomputes / sizeof *recomputes - 1)]);
    for (int i = 0; i < g->opt.sets.count; i++)
        text_printf(&t, " %s", g->opt.sets.items[i]);
    return t.s;
}

bool models_finite(const Gen *g, const Interpretation *run)
{
    size_t n = (size_t)g->model.micro_batches;
    for (size_t i = 0; !run->fault && i < n; i++) {
        double loss;
        memcpy(&loss, run->state + run->state_bytes - (n - i) * sizeof loss, sizeof loss);
        if (!isfinite(loss) || loss <= 0)
            return false;
    }
    return true;
}

bool same_state(const Interpretation *a, const Interpretation *b)
{
    return !a->fault && !b->fault && a->state_bytes == b->state_bytes &&
           !memcmp(a->state, b->state, a->state_bytes);
}
