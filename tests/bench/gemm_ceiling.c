/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_ceiling.c: what the matrix products of one training step of GPT-2 124M cost. In:
 * dtype (f32 or bf16), sequences, tokens of a sequence. Out: for each product the rate of
 * oneDNN on whole matrices with its own threads, and of rt_gemm's fixed tiles; then
 * tokens per second of a step that did nothing else, counting attention's causal flops at
 * the same rate: the ceiling that a trainer is held against. Both ways are timed in turn,
 * and medians are compared, so that a busy machine hurts both. A product that oneDNN does
 * not have here (bf16 without the hardware; every one where it is not built with) has
 * tiles only, of the library under rt_gemm, and they count. */
#include "cpu/rt_gemm_tile.h"

#include <omp.h>
#ifdef RT_GEMM_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 5, LAYERS = 12, DIM = 768, VOCAB = 50257 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static void *matrix(int64_t elems, int dtype)
{
    void *p = aligned_alloc(4096, (size_t)(elems * 4 + 4095) / 4096 * 4096);
    if (p == NULL) {
        fprintf(stderr, "gemm_ceiling: out of memory\n");
        exit(1);
    }
    uint32_t r = 1;
    for (int64_t i = 0; i < elems; i++) {
        r = r * 1664525u + 1013904223u;
        const float x = (float)(int32_t)r / 2147483648.0f;
        if (dtype == RT_F32)
            ((float *)p)[i] = x;
        else
            ((rt_bf16 *)p)[i] = rt_bf16_from_f32(x);
    }
    return p;
}

/* The template's choice (gen/lua/template.lua, gemm_tiles). */
static void tiles(RtGemm *g)
{
    static const int64_t widths[] = {768, 384, 192, 128, 64};
    const int64_t wanted = g->m * g->n >= 1 << 20 ? 16 : 8;
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        const int64_t across = (g->n + widths[i] - 1) / widths[i];
        int64_t tn = ((g->n + across - 1) / across + 31) / 32 * 32;
        int64_t down = (wanted + across - 1) / across;
        down = down < (g->m + 511) / 512 ? (g->m + 511) / 512 : down;
        int64_t tm = ((g->m + down - 1) / down + 11) / 12 * 12;
        tm = tm < 24 ? 24 : tm;
        tm = tm < g->m ? tm : g->m;
        tn = tn < g->n ? tn : g->n;
        const double cost = 1.0 / (double)tm + 1.0 / (double)tn;
        if (cost < best) {
            best = cost;
            g->tile_m = tm;
            g->tile_n = tn;
        }
    }
}

typedef struct Product {
    const char *name;
    int count; /* in one step */
    RtGemmOp op;
    int64_t m, n, k;
    bool gradient; /* into f32 */
} Product;

static RtGemm product_gemm(const Product *p, int dtype)
{
    RtGemm g = {.op = p->op,
                .m = p->m,
                .n = p->n,
                .k = p->k,
                .ldc = p->n,
                .in_dtype = dtype,
                .out_dtype = p->gradient ? RT_F32 : dtype};
    g.lda = p->op == RT_TN ? p->m : p->k;
    g.ldb = p->op == RT_NT ? p->k : p->n;
    return g;
}

/* One call of the library on the whole matrix, either of its two ways. */
typedef struct Whole {
    RtGemm g;
    void *primitive; /* NULL: the library has none */
    RtTile tile;
    bool sgemm;
} Whole;

#ifdef RT_GEMM_ONEDNN

static double whole_once(const Whole *w)
{
    const RtGemm *g = &w->g;
    const double t0 = now();
    if (w->sgemm) {
        dnnl_sgemm(g->op == RT_TN ? 'T' : 'N', g->op == RT_NT ? 'T' : 'N', g->m, g->n,
                   g->k, 1, w->tile.a, g->lda, w->tile.b, g->ldb, 0, w->tile.c, g->ldc);
    } else {
        rt_onednn_tile(w->primitive, g, &w->tile);
    }
    return now() - t0;
}

static Whole whole_make(const RtGemm *g, const void *a, const void *b, void *c)
{
    Whole w = {.g = *g, .tile = {.rows = g->m, .cols = g->n, .a = a, .b = b, .c = c}};
    w.g.tile_m = g->m;
    w.g.tile_n = g->n;
    w.primitive = rt_onednn_prepare(&w.g, 1, omp_get_max_threads());
    if (w.primitive == NULL)
        return w;
    w.tile.scratch = matrix(rt_onednn_scratch_bytes(w.primitive) / 4 + 1, RT_F32);
    whole_once(&w); /* warms up */
    const double primitive = whole_once(&w);
    if (g->in_dtype == RT_F32) {
        w.sgemm = true;
        whole_once(&w);
        w.sgemm = whole_once(&w) < primitive;
    }
    return w;
}

static void whole_free(Whole *w)
{
    rt_onednn_free(w->primitive);
    free(w->tile.scratch);
}

#else

static double whole_once(const Whole *w)
{
    (void)w;
    return 0;
}

static Whole whole_make(const RtGemm *g, const void *a, const void *b, void *c)
{
    (void)a;
    (void)b;
    (void)c;
    return (Whole){.g = *g};
}

static void whole_free(Whole *w)
{
    (void)w;
}

#endif

/* Seconds of one product: the library's better way with the whole matrix (0: it has
 * none), and rt_gemm. */
static void measure(const Product *p, int dtype, double *whole, double *tiled)
{
    RtGemm g = product_gemm(p, dtype);
    void *a = matrix(g.m * g.k, dtype), *b = matrix(g.n * g.k, dtype);
    void *c = matrix(g.m * g.n, g.out_dtype);
    Whole w = whole_make(&g, a, b, c);
    tiles(&g);
    rt_gemm_prepare(&g);
    rt_gemm(&g, a, b, c, 0);
    const double gflops = 2e-9 * (double)g.m * (double)g.n * (double)g.k;
    const int rounds = gflops > 50 ? 3 : ROUNDS;
    double by_library[ROUNDS], by_tiles[ROUNDS];
    for (int i = 0; i < rounds; i++) {
        by_library[i] = w.primitive != NULL ? whole_once(&w) : 0;
        const double t0 = now();
        rt_gemm(&g, a, b, c, 0);
        by_tiles[i] = now() - t0;
    }
    *whole = median(by_library, rounds);
    *tiled = median(by_tiles, rounds);
    char rate[16] = "  none";
    if (*whole > 0)
        snprintf(rate, sizeof rate, "%6.1f", gflops / *whole);
    printf("%-12s %2d x %6ld x %6ld x %6ld  whole %s  tiles %6.1f GFLOP/s  (%ld x %ld)\n",
           p->name, p->count, (long)g.m, (long)g.n, (long)g.k, rate, gflops / *tiled,
           (long)g.tile_m, (long)g.tile_n);
    whole_free(&w);
    free(a);
    free(b);
    free(c);
}

int main(int argc, char **argv)
{
    if (argc != 4 || (strcmp(argv[1], "f32") != 0 && strcmp(argv[1], "bf16") != 0)) {
        fprintf(stderr, "usage: gemm_ceiling f32|bf16 SEQUENCES TOKENS\n");
        return 2;
    }
    const int dtype = strcmp(argv[1], "f32") == 0 ? RT_F32 : RT_BF16;
    const int64_t seq = atoll(argv[3]), t = atoll(argv[2]) * seq;
    if (t < 1 || seq < 1) {
        fprintf(stderr, "gemm_ceiling: sequences and tokens must be positive\n");
        return 2;
    }
    const Product products[] = {
        {"qkv", LAYERS, RT_NN, t, 3 * DIM, DIM, false},
        {"qkv dx", LAYERS, RT_NT, t, DIM, 3 * DIM, false},
        {"qkv dw", LAYERS, RT_TN, DIM, 3 * DIM, t, true},
        {"proj", LAYERS, RT_NN, t, DIM, DIM, false},
        {"proj dx", LAYERS, RT_NT, t, DIM, DIM, false},
        {"proj dw", LAYERS, RT_TN, DIM, DIM, t, true},
        {"fc", LAYERS, RT_NN, t, 4 * DIM, DIM, false},
        {"fc dx", LAYERS, RT_NT, t, DIM, 4 * DIM, false},
        {"fc dw", LAYERS, RT_TN, DIM, 4 * DIM, t, true},
        {"mlp", LAYERS, RT_NN, t, DIM, 4 * DIM, false},
        {"mlp dx", LAYERS, RT_NT, t, 4 * DIM, DIM, false},
        {"mlp dw", LAYERS, RT_TN, 4 * DIM, DIM, t, true},
        {"head", 1, RT_NT, t, VOCAB, DIM, false},
        {"head dx", 1, RT_NN, t, DIM, VOCAB, false},
        {"head dw", 1, RT_TN, VOCAB, DIM, t, true},
    };
    printf("%s, %d threads, %s, %ld tokens\n", rt_gemm_library(), omp_get_max_threads(),
           argv[1], (long)t);
    double whole = 0, tiled = 0, flops = 0;
    int without = 0;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        const Product *p = &products[i];
        double w, s;
        measure(p, dtype, &w, &s);
        without += w == 0;
        whole += p->count * (w > 0 ? w : s);
        tiled += p->count * s;
        flops += 2.0 * p->count * (double)p->m * (double)p->n * (double)p->k;
    }
    const double attention = 6.0 * LAYERS * DIM * (double)seq * (double)t; /* causal */
    const double ceiling = (double)t / (whole + attention * whole / flops);
    if (without > 0) {
        printf("%d products are not oneDNN's here: their tiles count for the whole\n",
               without);
    }
    printf("whole matrices %.1f GFLOP/s, tiles %.1f (%.3f of it)\n", flops / whole * 1e-9,
           flops / tiled * 1e-9, whole / tiled);
    printf("ceiling %s %ldx%ld: %.1f tokens/s; 0.70 of it: %.1f\n", argv[1],
           (long)(t / seq), (long)seq, ceiling, 0.70 * ceiling);
    return 0;
}
