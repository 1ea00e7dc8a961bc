/* SPDX-License-Identifier: Apache-2.0 */
/* test_models: real architectures, executed by the interpreter with the ops' references.
 *
 *   test_models FOLDER [choices] [seed]     FOLDER: where small_*.lua lie
 *
 * For each model and each set of numerics: the run on one rank with no bytes shared, then
 * random choices outside the hash on 1, 2 and 4 skewed ranks under random legal orders.
 * All must give the same bits, and the same numerics hash. Prints 'N passed, N failed'.
 */
#include "test_models.h"

#include "prove/verify.h"

#include <stdlib.h>
#include <string.h>

typedef struct Case {
    const char *model, *sets[6];
} Case;

static const Case cases[] = {
    {"small_llama", {NULL}},
    {"small_llama", {"model.tied=true", "dtypes={param=\"f64\"}", NULL}},
    {"small_llama", {"model.qkv_bias=true", "model.qk_norm=true", "leaves=4", NULL}},
    {"small_llama", {"dtypes={param=\"bf16\"}", "model.window=2", NULL}},
    {"small_llama", {"fuse=false", "model.tied=true", NULL}},
    {"small_llama", {"documents={end_id=1}", "loss={mask=true,z=0.01}", NULL}},
    {"small_gpt2", {NULL}},
    {"small_gpt2", {"documents={end_id=1}", "loss.label_smoothing=0.1", NULL}},
    {"small_gpt2", {"dtypes={param=\"bf16\"}", "fuse=false", NULL}},
    {"small_llama",
     {"dtypes={param=\"bf16\", reduce=\"bf16\", master=\"split\", moments=\"bf16\"}",
      NULL}},
    {"small_gpt2", {"dtypes={param=\"f16\"}", "fuse=false", NULL}},
    {"small_llama", {"optimizer=muon{}", "model.ffn=110", "seq=3", NULL}},
    {"small_llama",
     {"optimizer=muon{}", "dtypes={param=\"f64\"}", "model.ffn=90", "seq=3",
      "model.layers=2", NULL}},
    {"small_gpt2",
     {"optimizer=muon{}", "model.dim=34", "seq=3",
      "dtypes={param=\"bf16\", master=\"split\", moments=\"bf16\"}",
      "groups={{match='*.wpe.weight',optimizer='muon'},"
      "{match='*.c_fc.weight',optimizer='adamw'},{match='*.h.0.*',frozen=true}}",
      NULL}},
};

/* Vectors are f32, beside weights of bf16. */
static const Case two_dtypes[] = {
    {"small_llama", {"dtypes={param=\"bf16\"}", NULL}},
    {"small_gpt2",
     {"dtypes={param=\"bf16\", master=\"split\", moments=\"bf16\"}", "fuse=false",
      "groups={{match='*.h.0.*',frozen=true}}", NULL}},
};

/* Vectors in f32: no description says so yet, but every pass after graph can. */
static void widen_vectors(Gen *g, const char *pass)
{
    for (int c = 0; !strcmp(pass, "graph") && c < g->classes.count; c++) {
        Class *cls = g->classes.items[c];
        for (int v = 0; v < cls->values.count; v++) {
            Value *value = cls->values.items[v];
            if (value->kind == VAL_PARAM && value->n_dims == 1) {
                cls->params.items[value->index].dtype = value->dtype = DT_F32;
                cls->params.items[value->index].gathered = DT_F32;
                value->bytes = value->elems * dtype_bytes(DT_F32);
            }
        }
    }
}

static const char *const meshes[] = {
    "{}",
    "{shard=2}",
    "{shard=4}",
    "{replicate=2}",
    "{replicate=4}",
    "{shard=4},2",
    "{shard=4},grad",
    "{replicate=2,shard=2}",
    "{shard=2},state",
    "{shard=4},state",
    "{replicate=2,shard=2},state",
};

static void test_case(const char *folder, const Case *c, int choices, uint64_t seed,
                      bool two)
{
    const int first = choices > 1 ? 0 : (int)(seed / 8 % 2); /* a single one is either */
    Gen *plain = models_open(folder, c->model, c->sets);
    Interpretation want;
    models_set(plain, "mesh={shard=1}");
    models_plan_case(plain, NULL, two ? widen_vectors : NULL);
    interpret_spread(plain);
    want = models_run(plain, 0);
    models_check(!want.fault, "%s: plain run: %s", c->model, want.fault);
    models_check(models_finite(plain, &want), "%s: plain run: a loss is not finite",
                 c->model);
    for (int k = first; k < first + choices; k++) {
        uint64_t r = seed * 100 + (uint64_t)k;
        Gen *g = models_open(folder, c->model, c->sets);
        const char *text = models_choose(
            g, &r, meshes[models_pick(&r, 0, sizeof meshes / sizeof *meshes - 1)]);
        Interpretation got;
        models_plan_case(g, k & 1 ? &r : NULL, two ? widen_vectors : NULL);
        models_check(g->numerics_hash == plain->numerics_hash,
                     "%s%s: another numerics hash", c->model, text);
        got = models_run(g, (uint64_t)k);
        models_check(same_state(&want, &got), "%s%s: %s", c->model, text,
                     got.fault ? got.fault : "other bits");
    }
}

/* reduction = "library": other sums than the tree's, the same for every choice that is
 * still outside the hash. */
static void test_library(const char *folder)
{
    static const char *const extra[] = {"reduction=\"tree\"", "reduction=\"library\"",
                                        "reduction=\"library\""};
    Interpretation run[3];
    uint64_t hash[3];
    for (int k = 0; k < 3; k++) {
        Gen *g = models_open(folder, "small_llama", (const char *const[]){NULL});
        models_set(g, "mesh={shard=4}");
        models_set(g, extra[k]);
        models_set(g, k < 2 ? "wrap=1" : "wrap=3");
        models_set(g, k < 2 ? "prefetch=1"
                            : "prefetch={forward=2,backward=2,order=\"post\"}");
        models_plan(g, NULL);
        run[k] = models_run(g, (uint64_t)k);
        hash[k] = g->numerics_hash;
        models_check(!run[k].fault, "%s: %s", extra[k], run[k].fault);
    }
    models_check(hash[0] != hash[1] && hash[1] == hash[2], "library: the hash");
    models_check(!same_state(&run[0], &run[1]), "library: the tree's bits");
    models_check(same_state(&run[1], &run[2]), "library: other bits with another wrap");
}

/* ---- what a wrap costs in memory ------------------------------------------------- */

/* The most bytes of gathered weights and gradients at once, in host order. */
static int64_t weights_peak(const Gen *g)
{
    const Program *p = &g->prog;
    int64_t peak = 0;
    for (int at = p->first[VARIANT_LAST]; at < p->first[VARIANT_END]; at++) {
        int64_t live = 0;
        for (int b = 0; b < p->bufs.count; b++) {
            const Buffer *buf = &p->bufs.items[b];
            bool before = false, after = false;
            for (int i = p->first[VARIANT_LAST]; i < p->first[VARIANT_END]; i++) {
                const Instr *ins = &p->ins.items[i];
                for (int a = 0; a < ins->n_access; a++) {
                    bool touches = ins->access[a].buffer == b;
                    before = before || (touches && i <= at);
                    after = after || (touches && i >= at);
                }
            }
            if ((buf->kind == BUF_GATHERED || buf->kind == BUF_GRAD) && before && after)
                live += buf->bytes;
        }
        peak = max_i64(peak, live);
    }
    return peak;
}

/* Elements of a unit on two ranks: each parameter at a multiple of the grain. */
static int64_t unit_elems(int n, const int64_t *elems)
{
    int64_t end = 0;
    for (int i = 0; i < n; i++)
        end = round_up(end, GRAIN_ELEMS) + elems[i];
    return 2 * round_up((end + 1) / 2, GRAIN_ELEMS);
}

/* A llama whose feed-forward is nearly all of it, one unit gathered at a time: the peak
 * is the largest unit's weights and gradients, f32 both. */
static void test_memory(const char *folder)
{
    enum { D = 12, FFN = 600 };
    const int64_t block[] = {D, 24 * D, 12 * D, D, 2 * FFN * D, FFN * D};
    const int64_t up[] = {D, 2 * FFN * D};
    static const char *const sets[] = {
        "model.ffn=600", "mesh={shard=2}", "reshard_after_forward=true",
        "prefetch={forward=0,backward=0,in_flight=1}", NULL};
    const struct {
        const char *wrap;
        int64_t elems;
    } cases_of[] = {
        {"wrap=per_block(1)", unit_elems(6, block)},
        {"wrap=by_size(25000)", unit_elems(6, block)},
        {"wrap=by_size(10000)", unit_elems(2, up)},
        {"wrap=by_name{'layers.*.*'}", unit_elems(2, up)},
        {"wrap=by_name{'layers.*.mlp_down'}", unit_elems(5, block)},
    };
    int64_t arena[2] = {0};
    for (size_t k = 0; k < sizeof cases_of / sizeof *cases_of; k++) {
        Gen *g = models_open(folder, "small_llama", sets);
        int64_t peak;
        models_set(g, cases_of[k].wrap);
        models_plan(g, NULL);
        peak = weights_peak(g);
        models_check(peak == cases_of[k].elems * 8,
                     "%s: %lld bytes of weights and gradients, "
                     "not %lld",
                     cases_of[k].wrap, (long long)peak, (long long)cases_of[k].elems * 8);
        if (k % 2 == 0 && k < 4)
            arena[k / 2] = g->prog.arena_bytes;
    }
    models_check(
        arena[1] < arena[0] - 8 * (unit_elems(6, block) - unit_elems(2, up)) / 2,
        "by_size inside a block: the arena has %lld bytes, with whole blocks %lld",
        (long long)arena[1], (long long)arena[0]);
}

/* A tied embedding has one gradient, written first by the head's backward and last by the
 * embedding's, and one reduction, whatever the wrap. */
static void test_tied(const char *folder)
{
    for (size_t w = 0; w < MODELS_WRAPS; w++) {
        Gen *g = models_open(folder, "small_gpt2", (const char *const[]){NULL});
        int reduced = 0, written = 0, segment = -1, first = -1, last = -1, at = -1;
        const Program *p = &g->prog;
        models_set(g, "mesh={shard=2}");
        models_set(g, models_wraps[w]);
        models_plan(g, NULL);
        for (int i = 0; i < g->params.count; i++)
            if (g->params.items[i].n_uses > 1)
                segment = g->params.items[i].segment;
        for (int i = p->first[VARIANT_LAST]; i < p->first[VARIANT_END]; i++) {
            if (p->ins.items[i].segment == segment &&
                p->ins.items[i].kind == INS_REDUCE_SCATTER) {
                reduced++;
                at = i;
            }
        }
        for (int k = 0; k < p->n_bindings; k++) {
            const struct Binding *b = &p->bindings[k];
            const Instr *i = &p->ins.items[b->ins];
            if (b->of == BIND_GRAD && i->variant == VARIANT_LAST &&
                g->params.items[g->blocks.items[i->block].param[b->param]].n_uses > 1) {
                models_check(b->add == (written > 0),
                             "%s: a tied gradient is overwritten", models_wraps[w]);
                written++;
                first = first < 0 ? i->block : first;
                last = i->block;
            }
        }
        models_check(segment >= 0 && reduced == 1 && written == 2 && last == 0 &&
                         first == g->blocks.count - 1 && at > 0,
                     "%s: the tied gradient: %d reductions of its segment, %d writes",
                     models_wraps[w], reduced, written);
    }
}

int main(int argc, char **argv)
{
    int choices = argc > 2 ? atoi(argv[2]) : 6;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    if (argc < 2) {
        fprintf(stderr, "usage: test_models FOLDER [choices] [seed]\n");
        return 2;
    }
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        test_case(argv[1], &cases[c], choices, seed + c, false);
    for (size_t c = 0; c < sizeof two_dtypes / sizeof *two_dtypes; c++)
        test_case(argv[1], &two_dtypes[c], choices, seed + c, true);
    test_library(argv[1]);
    test_memory(argv[1]);
    test_tied(argv[1]);
    test_again(argv[1]);
    test_matrices(argv[1]);
    test_ctas(argv[1]);
    printf("%d passed, %d failed\n", models_passed, models_failed);
    return models_failed ? 1 : 0;
}
