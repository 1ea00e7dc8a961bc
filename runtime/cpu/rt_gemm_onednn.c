/* SPDX-License-Identifier: MIT-0 */
/* rt_gemm_onednn.c: tiles through oneDNN, generations 2 and 3. In: one output tile. Out:
 * C. Every tile is a matmul primitive, made at start for one thread, for each tile shape
 * (inner and edge tiles) and for beta 0 and 1 (a sum after the product). Memory objects
 * belong to a thread, so that threads may run the same primitive at once. oneDNN has no
 * f64, and f16 on CPUs only with hardware for it: the built-in kernel computes these. */
#if defined(RT_GEMM_ONEDNN)

#include "cpu/rt_gemm_tile.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARG_A, ARG_B, ARG_C, ARG_SCRATCH, N_ARGS };

/* One tile shape and one beta. */
typedef struct Shape {
    dnnl_primitive_t primitive; /* NULL: no tile has this shape */
    dnnl_memory_t *memory;      /* [threads][N_ARGS] */
} Shape;

typedef struct Prepared {
    Shape shape[2][2][2]; /* [edge in m][edge in n][beta] */
    int64_t scratch_bytes;
    int threads;
    dnnl_stream_t *stream; /* [threads] */
} Prepared;

static dnnl_engine_t engine;

#define CHECK(call) dnn_check((call), #call)
static void dnn_check(dnnl_status_t status, const char *what)
{
    if (status != dnnl_success) {
        fprintf(stderr, "rt_gemm: oneDNN: %s: status %d\n", what, (int)status);
        abort();
    }
}

static void *dnn_alloc(size_t count, size_t bytes)
{
    void *p = calloc(count, bytes);
    if (p == NULL) {
        fprintf(stderr, "rt_gemm: out of memory\n");
        abort();
    }
    return p;
}

static dnnl_data_type_t dnn_type(int dtype)
{
    return dtype == RT_F32 ? dnnl_f32 : dnnl_bf16;
}

/* Descriptors differ between the generations: values in 2, handles in 3. */
#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t Desc;
typedef const_dnnl_memory_desc_t DescArg;
#define DESC_ARG(d) (d)
#else
typedef dnnl_memory_desc_t Desc;
typedef const dnnl_memory_desc_t *DescArg;
#define DESC_ARG(d) (&(d))
#endif

static Desc dnn_matrix(int dtype, int64_t rows, int64_t cols, int64_t row_stride,
                       int64_t col_stride)
{
    const dnnl_dims_t dims = {rows, cols}, strides = {row_stride, col_stride};
    Desc d;
#if DNNL_VERSION_MAJOR >= 3
    CHECK(dnnl_memory_desc_create_with_strides(&d, 2, dims, dnn_type(dtype), strides));
#else
    CHECK(dnnl_memory_desc_init_by_strides(&d, 2, dims, dnn_type(dtype), strides));
#endif
    return d;
}

static dnnl_primitive_desc_t dnn_matmul(DescArg a, DescArg b, DescArg c, bool add)
{
    dnnl_primitive_attr_t attr;
    CHECK(dnnl_primitive_attr_create(&attr));
    CHECK(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
#if DNNL_VERSION_MAJOR >= 3 || DNNL_VERSION_MINOR >= 5
    /* f32 stays f32, whatever ONEDNN_DEFAULT_FPMATH_MODE says. */
    CHECK(dnnl_primitive_attr_set_fpmath_mode(attr, dnnl_fpmath_mode_strict));
#endif
    dnnl_post_ops_t ops = NULL;
    if (add) {
        CHECK(dnnl_post_ops_create(&ops));
#if DNNL_VERSION_MAJOR >= 3
        CHECK(dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef));
#else
        CHECK(dnnl_post_ops_append_sum(ops, 1.0f));
#endif
        CHECK(dnnl_primitive_attr_set_post_ops(attr, ops));
    }
    dnnl_primitive_desc_t pd = NULL;
#if DNNL_VERSION_MAJOR >= 3
    const dnnl_status_t status =
        dnnl_matmul_primitive_desc_create(&pd, engine, a, b, NULL, c, attr);
#else
    dnnl_matmul_desc_t matmul;
    CHECK(dnnl_matmul_desc_init(&matmul, a, b, NULL, c));
    const dnnl_status_t status =
        dnnl_primitive_desc_create(&pd, &matmul, attr, engine, NULL);
#endif
    if (ops != NULL)
        CHECK(dnnl_post_ops_destroy(ops));
    CHECK(dnnl_primitive_attr_destroy(attr));
    return status == dnnl_success ? pd : NULL;
}

static DescArg dnn_query(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(pd, what, 0);
}

/* One shape's primitive and, for every thread, its memory objects. False: oneDNN has no
 * such primitive. */
static bool dnn_shape(Prepared *p, Shape *s, const RtGemm *g, int64_t rows, int64_t cols,
                      bool add)
{
    Desc a = g->op == RT_TN ? dnn_matrix(g->in_dtype, rows, g->k, 1, g->lda)
                            : dnn_matrix(g->in_dtype, rows, g->k, g->lda, 1);
    Desc b = g->op == RT_NT ? dnn_matrix(g->in_dtype, g->k, cols, 1, g->ldb)
                            : dnn_matrix(g->in_dtype, g->k, cols, g->ldb, 1);
    Desc c = dnn_matrix(g->out_dtype, rows, cols, g->ldc, 1);
    dnnl_primitive_desc_t pd = dnn_matmul(DESC_ARG(a), DESC_ARG(b), DESC_ARG(c), add);
    if (pd == NULL)
        return false;
    CHECK(dnnl_primitive_create(&s->primitive, pd));
    DescArg scratch = dnn_query(pd, dnnl_query_scratchpad_md);
    const int64_t bytes = (int64_t)dnnl_memory_desc_get_size(scratch);
    p->scratch_bytes = bytes > p->scratch_bytes ? bytes : p->scratch_bytes;
    s->memory = dnn_alloc((size_t)p->threads * N_ARGS, sizeof *s->memory);
    for (int t = 0; t < p->threads; t++) {
        dnnl_memory_t *m = s->memory + t * N_ARGS;
        CHECK(dnnl_memory_create(&m[ARG_A], DESC_ARG(a), engine, DNNL_MEMORY_NONE));
        CHECK(dnnl_memory_create(&m[ARG_B], DESC_ARG(b), engine, DNNL_MEMORY_NONE));
        CHECK(dnnl_memory_create(&m[ARG_C], DESC_ARG(c), engine, DNNL_MEMORY_NONE));
        CHECK(dnnl_memory_create(&m[ARG_SCRATCH], scratch, engine, DNNL_MEMORY_NONE));
    }
#if DNNL_VERSION_MAJOR >= 3
    CHECK(dnnl_memory_desc_destroy(a));
    CHECK(dnnl_memory_desc_destroy(b));
    CHECK(dnnl_memory_desc_destroy(c));
#endif
    CHECK(dnnl_primitive_desc_destroy(pd));
    return true;
}

static bool dnn_shapes(Prepared *p, const RtGemm *g)
{
    for (int i = 0; i < 8; i++) {
        const bool edge_m = i & 1, edge_n = i & 2, add = i & 4;
        const int64_t rows = edge_m ? g->m % g->tile_m : g->tile_m;
        const int64_t cols = edge_n ? g->n % g->tile_n : g->tile_n;
        if (rows == 0 || cols == 0 || rows > g->m || cols > g->n)
            continue;
        if (!dnn_shape(p, &p->shape[edge_m][edge_n][add], g, rows, cols, add))
            return false;
    }
    return true;
}

void *rt_onednn_prepare(const RtGemm *g, int threads, int inner_threads)
{
    if (g->in_dtype == RT_F64 || g->in_dtype == RT_F16 || g->out_dtype == RT_F16)
        return NULL;
    const int threads_before = omp_get_max_threads();
    omp_set_num_threads(inner_threads);
    if (engine == NULL)
        CHECK(dnnl_engine_create(&engine, dnnl_cpu, 0));
    Prepared *p = dnn_alloc(1, sizeof *p);
    p->threads = threads;
    p->stream = dnn_alloc((size_t)threads, sizeof *p->stream);
    for (int t = 0; t < threads; t++)
        CHECK(dnnl_stream_create(&p->stream[t], engine, dnnl_stream_default_flags));
    const bool all = dnn_shapes(p, g);
    omp_set_num_threads(threads_before);
    if (!all) { /* f32 into bf16, bf16 without hardware: for the built-in kernel */
        rt_onednn_free(p);
        return NULL;
    }
    return p;
}

void rt_onednn_free(void *prepared)
{
    Prepared *p = prepared;
    if (p == NULL)
        return;
    for (int i = 0; i < 8; i++) {
        Shape *s = &p->shape[i & 1][i >> 1 & 1][i >> 2];
        for (int t = 0; s->memory != NULL && t < p->threads * N_ARGS; t++)
            CHECK(dnnl_memory_destroy(s->memory[t]));
        free(s->memory);
        if (s->primitive != NULL)
            CHECK(dnnl_primitive_destroy(s->primitive));
    }
    for (int t = 0; t < p->threads; t++)
        CHECK(dnnl_stream_destroy(p->stream[t]));
    free(p->stream);
    free(p);
}

int64_t rt_onednn_scratch_bytes(const void *prepared)
{
    return ((const Prepared *)prepared)->scratch_bytes;
}

static void dnn_set(dnnl_memory_t memory, const void *data)
{
    CHECK(dnnl_memory_set_data_handle(memory, (void *)(uintptr_t)data));
}

void rt_onednn_tile(const void *prepared, const RtGemm *g, const RtTile *t)
{
    const Prepared *p = prepared;
    const Shape *s = &p->shape[t->rows != g->tile_m][t->cols != g->tile_n][t->beta != 0];
    const dnnl_memory_t *m = s->memory + t->thread * N_ARGS;
    dnn_set(m[ARG_A], t->a);
    dnn_set(m[ARG_B], t->b);
    dnn_set(m[ARG_C], t->c);
    dnn_set(m[ARG_SCRATCH], t->scratch);
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, m[ARG_A]},
        {DNNL_ARG_WEIGHTS, m[ARG_B]},
        {DNNL_ARG_DST, m[ARG_C]},
        {DNNL_ARG_SCRATCHPAD, m[ARG_SCRATCH]},
    };
    CHECK(dnnl_primitive_execute(s->primitive, p->stream[t->thread], N_ARGS, args));
}

/* The instruction set in use, which ONEDNN_MAX_CPU_ISA may have lowered. */
static const char *isa_name(dnnl_cpu_isa_t isa)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } known[] = {
        {dnnl_cpu_isa_sse41, "SSE41"},
        {dnnl_cpu_isa_avx, "AVX"},
        {dnnl_cpu_isa_avx2, "AVX2"},
        {dnnl_cpu_isa_avx512_core, "AVX512_CORE"},
        {dnnl_cpu_isa_avx512_core_vnni, "AVX512_CORE_VNNI"},
        {dnnl_cpu_isa_avx512_core_bf16, "AVX512_CORE_BF16"},
    };
    static char number[24];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].isa == isa)
            return known[i].name;
    snprintf(number, sizeof number, "instruction set 0x%x", (unsigned)isa);
    return number;
}

const char *rt_onednn_name(void)
{
    static char name[96];
    const dnnl_version_t *v = dnnl_version();
    snprintf(name, sizeof name, "oneDNN %d.%d.%d (%s%s)", v->major, v->minor, v->patch,
             isa_name(dnnl_get_effective_cpu_isa()),
             dnnl_get_cpu_isa_hints() == dnnl_cpu_isa_no_hints ? "" : ", prefers ymm");
    return name;
}

#else
typedef int rt_gemm_onednn_unused; /* ISO C requires a declaration in every file */
#endif
