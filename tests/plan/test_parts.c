/* SPDX-License-Identifier: Apache-2.0 */
/* test_parts: real architectures in parts, executed by the interpreter.
 *
 *   test_parts FOLDER [choices] [seed]     FOLDER: where small_*.lua lie
 *
 * For each model in 2, 4 or 8 parts, of heads and features, of tokens, or of both as the
 * seed says:
 * the run on one rank with no bytes shared, then random choices outside the hash, with
 * the parts on 1 to 8 ranks, on up to 16 skewed ranks under random legal orders. All must
 * give the same bits, and the same numerics hash. Then faults: a checker names each, or
 * the bits show it, or both. Prints 'N passed, N failed'. */
#include "test_parts.h"

#include <stdlib.h>
#include <string.h>

typedef struct Case {
    const char *model;
    int parts;
    const char *sets[12];
} Case;

#define LLAMA(heads, kv, dim, ffn, seq)                                                  \
    "model.heads=" #heads, "model.kv_heads=" #kv, "model.head_dim=" #dim,                \
        "model.ffn=" #ffn, "model.vocab=29", "model.layers=2", "seq=" #seq
#define GPT2(heads, seq)                                                                 \
    "model.dim=24", "model.heads=" #heads, "model.vocab=29", "seq=" #seq,                \
        "model.max_positions=" #seq

static const Case cases[] = {
    {"small_llama",
     2,
     {LLAMA(4, 2, 6, 12, 8), "loss={mask=true,z=0.01}", "micro_batch=2", NULL}},
    {"small_gpt2",
     2,
     {GPT2(4, 8), "documents={end_id=1}", "loss.label_smoothing=0.1", NULL}},
    {"small_llama",
     4,
     {LLAMA(4, 4, 2, 8, 4), "dtypes={param=\"bf16\"}", "parts.dtype=\"param\"", NULL}},
    {"small_llama",
     4,
     {LLAMA(4, 4, 2, 8, 4), "target=cuda{}", "dtypes={param=\"bf16\"}", NULL}},
    {"small_gpt2",
     4,
     {GPT2(4, 4), "fuse=false", "dtypes={param=\"f64\"}",
      "groups={{match='*.h.0.*',frozen=true}}", NULL}},
    {"small_llama",
     8,
     {LLAMA(8, 8, 2, 8, 8), "dtypes={param=\"bf16\",master=\"split\",moments=\"bf16\"}",
      "model.qkv_bias=true", "model.tied=true", NULL}},
    {"small_llama", 4, {LLAMA(4, 4, 2, 8, 4), "optimizer=muon{}", NULL}},
    {"small_gpt2",
     2,
     {GPT2(4, 8), "optimizer=muon{}",
      "dtypes={param=\"bf16\",master=\"split\",moments=\"bf16\"}",
      "groups={{match='*.c_fc.weight',optimizer='adamw'},{match='*.h.0.*',frozen=true}}",
      NULL}},
};

/* Beside the ranks that share the parts. */
static const char *const meshes[][2] = {
    {"", ""},
    {"shard=2,", ",2"},
    {"replicate=2,", ""},
    {"shard=2,", ",grad"},
    {"shard=2,", ",state"},
    {"replicate=2,shard=2,", ""},
    {"shard=4,", ",2"},
};

/* In parts along tensor and context. few: as few key and value heads as a llama may have,
 * so that parts of sequences have copies. */
static Gen *open_case(const char *folder, const Case *c, int tensor, int context,
                      bool few)
{
    Gen *g = models_open(folder, c->model, c->sets);
    models_set(g, gen_printf(g, "parts.tensor=%d", tensor));
    models_set(g, gen_printf(g, "parts.context=%d", context));
    if (few && !strcmp(c->model, "small_llama"))
        models_set(g, gen_printf(g, "model.kv_heads=%d", tensor));
    return g;
}

static void test_case(const char *folder, const Case *c, int choices, uint64_t seed)
{
    const int half = (int)max_i64(2, c->parts / 2);
    const int kinds[][2] = {{c->parts, 1}, {2, half}, {1, c->parts}, {half, 2}};
    const int tensor = kinds[seed % 4][PARTS_TENSOR];
    const int context = kinds[seed % 4][PARTS_CONTEXT];
    const bool few = seed / 4 % 2 == 0;
    const int first =
        choices > 1 ? 0 : (int)(seed / 8 % 3); /* a single one is any of them */
    Gen *plain = open_case(folder, c, tensor, context, few);
    Interpretation want;
    models_set(plain, "mesh={shard=1}");
    models_plan(plain, NULL);
    interpret_spread(plain);
    want = models_run(plain, 0);
    models_check(!want.fault, "%s in %d parts: plain run: %s", c->model, c->parts,
                 want.fault);
    models_check(models_finite(plain, &want), "%s: plain run: a loss is not finite",
                 c->model);
    models_check(plain->prog.count[VARIANT_EVAL] > 0, "%s: no evaluation", c->model);
    for (int k = first; k < first + choices; k++) {
        uint64_t r = seed * 100 + (uint64_t)k;
        Gen *g = open_case(folder, c, tensor, context, few);
        int along = 1 << models_pick(&r, 0, 3), across = 1 << models_pick(&r, 0, 2);
        int kind;
        const char *text;
        Interpretation got;
        along = k < 2 ? tensor >> (k && tensor > 1) : (int)min_i64(along, tensor);
        across = k < 2 ? context >> (k && tensor == 1) : (int)min_i64(across, context);
        kind = (int)models_pick(&r, 0, along * across == 8 ? 4 : 6); /* up to 16 ranks */
        text = gen_printf(g, "{%stensor=%d,context=%d}%s", meshes[kind][0], along, across,
                          meshes[kind][1]);
        text = models_choose(g, &r, text);
        models_plan(g, k & 1 ? &r : NULL);
        models_check(g->numerics_hash == plain->numerics_hash,
                     "%s%s: another numerics hash", c->model, text);
        got = models_run(g, (uint64_t)k);
        models_check(same_state(&want, &got), "%s%s: %s", c->model, text,
                     got.fault ? got.fault : "other bits");
    }
}

static const Case faulty = {"small_llama", 4, {LLAMA(4, 4, 2, 8, 4), NULL}};

static Gen *open_planned(const char *folder, int tensor, int context, const char *mesh)
{
    Gen *g = open_case(folder, &faulty, tensor, context, false);
    models_set(g, gen_printf(g, "mesh=%s", mesh));
    models_plan(g, NULL);
    return g;
}

static Gen *open_tensor(const char *folder, const char *mesh)
{
    return open_planned(folder, 4, 1, mesh);
}

static Gen *open_both(const char *folder, const char *mesh)
{
    return open_planned(folder, 2, 2, mesh);
}

/* One of the plans, as the seed says; with many choices all. */
static void damage_plans(const char *folder, int choices, uint64_t seed)
{
    static const PartsFaulty plans[] = {
        {open_tensor, "{tensor=2}", "{shard=2,tensor=2}", {true, false}},
        {open_both, "{tensor=2}", "{shard=2,context=2}", {true, true}},
    };
    for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
        Interpretation want;
        if (choices <= 10 && k != seed % 2)
            continue;
        want = models_run(plans[k].open(folder, plans[k].two), 3);
        models_check(!want.fault, "without a fault: %s", want.fault);
        test_parts_faults(&plans[k], folder, &want);
    }
}

/* On a device, what other ranks' parts have does not fit its buffer. A rank that has two
 * parts along the other axis has two meets side by side. */
static void damage_meeting(const char *folder, int tensor, int context, const char *mesh)
{
    Gen *g = open_case(folder, &faulty, tensor, context, false);
    const char *bad = NULL;
    models_set(g, "target=cuda{}");
    models_set(g, gen_printf(g, "mesh=%s", mesh));
    models_plan(g, NULL);
    models_check(!verify_unroll(g), "%s on a device, without a fault", mesh);
    for (int b = 0; b < g->prog.bufs.count; b++)
        if (g->prog.bufs.items[b].kind == BUF_MEETING) {
            g->prog.bufs.items[b].bytes--;
            bad = verify_unroll(g);
        }
    models_check(bad && strstr(bad, "no room"), "%s: a meeting too small: %s", mesh,
                 bad ? bad : "not noticed");
}

int main(int argc, char **argv)
{
    int choices = argc > 2 ? atoi(argv[2]) : 4;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    if (argc < 2) {
        fprintf(stderr, "usage: test_parts FOLDER [choices] [seed]\n");
        return 2;
    }
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        test_case(argv[1], &cases[c], choices, seed + c);
    damage_plans(argv[1], choices, seed);
    damage_meeting(argv[1], 4, 1, "{tensor=2}");
    damage_meeting(argv[1], 1, 4, "{context=2}");
    damage_meeting(argv[1], 2, 2, "{tensor=2}");
    damage_meeting(argv[1], 2, 2, "{context=2}");
    damage_meeting(argv[1], 2, 2, "{tensor=2,context=2}");
    printf("%d passed, %d failed\n", models_passed, models_failed);
    return models_failed ? 1 : 0;
}
