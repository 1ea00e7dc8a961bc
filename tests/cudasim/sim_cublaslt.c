/* SPDX-License-Identifier: Apache-2.0 */
/* sim_cublaslt.c: cuBLASLt's matrix products as trainers ask for them: D = alpha op(A)
 * op(B) + beta C, column-major as described, by plain loops. Sums are float (double for
 * f64): the library's own order and the width of tensor cores it cannot show.
 *
 * It has a few algorithms, which sum k in orders of their own and take times of their
 * own, so that a search has something to find and something to fall for. Each needs all
 * the alignment that the preference stated for which it was proposed. */
#include "sim_cudart.h"

#include <cublasLt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Layout {
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld;
} Layout;

typedef struct Desc {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    int32_t transa, transb;
    uint32_t epilogue;
    const void *bias;
    const float *scale_a, *scale_b; /* of fp8, on the device; NULL: 1 */
    int8_t fast;
} Desc;

typedef struct Preference {
    uint64_t workspace_bytes;
    uint32_t schemes;
    uint32_t align[4]; /* least, of A, B, C and D, in bytes */
} Preference;

/* The opaque structures of the header hold ours. */
_Static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "a layout");
_Static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "a wish");
_Static_assert(sizeof(Desc) <= sizeof(cublasLtMatmulDescOpaque_t), "a description");

/* The first is what the library proposes first, and the slowest. */
typedef enum {
    IN_ORDER,  /* k from 0 on */
    IN_HALVES, /* the sum of two sums */
    BACKWARDS, /* the fastest while the cache is warm, not when it is cold */
    UNSTEADY,  /* begins elsewhere each time: other bits */
    SPLIT,     /* blocks split k, whatever the caller wishes, and round the parts */
    /* If the caller lets it split k: */
    SPLIT_STEPS,    /* parts in the workspace, added in a step of their own */
    SPLIT_IN_PLACE, /* parts added to the output, one after the other */
    SPLIT_RACE,     /* said to be as SPLIT_STEPS; now and then a part is lost */
    ALGORITHMS
} Algorithm;
static const double cold_us[ALGORITHMS] = {100, 70, 90, 60, 50, 55, 45, 40};
static const double warm_us[ALGORITHMS] = {50, 35, 20, 30, 25, 28, 23, 20};

enum { ALGO_MARK = 0x51b1a5, PARTS = 4, RACE_EVERY = 7 };
enum { ALIGN_WORD = 2, ALIGN_BITS = 16, DEFAULT_ALIGN = 256 };

/* How it adds parts of k. CUDASIM_SCHEME: another library, whose SPLIT_STEPS does
 * otherwise. */
static uint32_t scheme_of(Algorithm a)
{
    return a == SPLIT            ? CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE
           : a == SPLIT_IN_PLACE ? CUBLASLT_REDUCTION_SCHEME_INPLACE
           : a == SPLIT_RACE     ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
           : a == SPLIT_STEPS
               ? (uint32_t)sim_setting("CUDASIM_SCHEME",
                                       CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
               : CUBLASLT_REDUCTION_SCHEME_NONE;
}

static bool is_algorithm(const cublasLtMatmulAlgo_t *algo)
{
    return algo->data[0] == ALGO_MARK &&
           algo->data[1] < (uint64_t)sim_setting("CUDASIM_ALGORITHMS", ALGORITHMS);
}

#define BEGIN                                                                            \
    SIM_LOCKED;                                                                          \
    if (sim_planted(__func__))                                                           \
    return CUBLAS_STATUS_EXECUTION_FAILED

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    BEGIN;
    *handle = calloc(1, 8);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion(void)
{
    return CUDART_VERSION;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS"
                                           : "CUBLAS_STATUS_other";
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS         ? "success"
           : status == CUBLAS_STATUS_NOT_SUPPORTED ? "the product is not supported"
           : status == CUBLAS_STATUS_INVALID_VALUE
               ? "a pointer is less aligned than the preference said"
               : "an error of the library";
}

/* ---- descriptions ---------------------------------------------------------------- */

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout,
                                                 size_t size, cudaDataType_t type,
                                                 uint64_t rows, uint64_t cols, int64_t ld)
{
    (void)size;
    *(Layout *)layout = (Layout){type, rows, cols, ld};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType_t type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    *layout = calloc(1, sizeof **layout);
    return cublasLtMatrixLayoutInit_internal(*layout, sizeof **layout, type, rows, cols,
                                             ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t size,
                                               cublasComputeType_t compute,
                                               cudaDataType_t scale)
{
    (void)size;
    *(Desc *)desc = (Desc){.compute = compute, .scale = scale};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                        cublasComputeType_t compute, cudaDataType_t scale)
{
    *desc = calloc(1, sizeof **desc);
    return cublasLtMatmulDescInit_internal(*desc, sizeof **desc, compute, scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attr,
                                              const void *value, size_t bytes)
{
    Desc *d = (Desc *)desc;

    if (attr == CUBLASLT_MATMUL_DESC_TRANSA && bytes == 4)
        memcpy(&d->transa, value, 4);
    else if (attr == CUBLASLT_MATMUL_DESC_TRANSB && bytes == 4)
        memcpy(&d->transb, value, 4);
    else if (attr == CUBLASLT_MATMUL_DESC_EPILOGUE && bytes == 4)
        memcpy(&d->epilogue, value, 4);
    else if (attr == CUBLASLT_MATMUL_DESC_BIAS_POINTER && bytes == sizeof d->bias)
        memcpy(&d->bias, value, sizeof d->bias);
    else if (attr == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER && bytes == sizeof d->scale_a)
        memcpy(&d->scale_a, value, sizeof d->scale_a);
    else if (attr == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER && bytes == sizeof d->scale_b)
        memcpy(&d->scale_b, value, sizeof d->scale_b);
    else if (attr == CUBLASLT_MATMUL_DESC_FAST_ACCUM && bytes == 1)
        memcpy(&d->fast, value, 1);
    else if (attr != CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t p,
                                                     size_t size)
{
    memset(p, 0, size);
    for (int i = 0; i < 4; i++)
        ((Preference *)p)->align[i] = DEFAULT_ALIGN;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *p)
{
    *p = malloc(sizeof **p);
    return cublasLtMatmulPreferenceInit_internal(*p, sizeof **p);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                     cublasLtMatmulPreferenceAttributes_t attr,
                                     const void *value, size_t bytes)
{
    const int which = (int)attr - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;

    if (attr == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == 8)
        memcpy(&((Preference *)p)->workspace_bytes, value, 8);
    if (attr == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && bytes == 4)
        memcpy(&((Preference *)p)->schemes, value, 4);
    if (which >= 0 && which < 4 && bytes == 4)
        memcpy(&((Preference *)p)->align[which], value, 4);
    return CUBLAS_STATUS_SUCCESS;
}

/* The third word of an algorithm: the alignment that it needs of A, B, C and D. */
static uint64_t packed_alignment(const Preference *p)
{
    uint64_t word = 0;

    for (int i = 0; i < 4; i++)
        word |= (uint64_t)p->align[i] << i * ALIGN_BITS;
    return word;
}

/* All that fit the wish, as they come, and SPLIT; none is said to need workspace. */
cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                               cublasLtMatmulPreference_t preference, int wanted,
                               cublasLtMatmulHeuristicResult_t results[], int *found)
{
    BEGIN;
    (void)handle, (void)desc, (void)a, (void)b, (void)c, (void)d;
    *found = 0;
    for (Algorithm i = 0; i < ALGORITHMS && *found < wanted; i++) {
        const uint32_t scheme = scheme_of(i),
                       schemes = ((Preference *)preference)->schemes;
        if (i > SPLIT && !(scheme & schemes))
            continue;
        cublasLtMatmulHeuristicResult_t *result = &results[(*found)++];
        memset(result, 0, sizeof *result);
        result->algo.data[0] = ALGO_MARK;
        result->algo.data[1] = i;
        result->algo.data[ALIGN_WORD] = packed_alignment((Preference *)preference);
        result->state = CUBLAS_STATUS_SUCCESS;
        result->wavesCount = (float)sim_setting("CUDASIM_WAVES_PERCENT", 100) / 100;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    (void)handle, (void)desc, (void)a, (void)b, (void)c, (void)d;
    memset(result, 0, sizeof *result);
    result->algo = *algo;
    result->state =
        is_algorithm(algo) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
    return result->state;
}

/* What may be asked of an algorithm: most answers are zero. */
cublasStatus_t
cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                     cublasLtMatmulAlgoConfigAttributes_t attr,
                                     void *value, size_t bytes, size_t *written)
{
    const uint32_t scheme = scheme_of((Algorithm)algo->data[1]);

    memset(value, 0, bytes);
    if (attr == CUBLASLT_ALGO_CONFIG_SPLITK_NUM && bytes == 4)
        *(int32_t *)value = scheme ? PARTS : 1;
    else if (attr == CUBLASLT_ALGO_CONFIG_ID && bytes == 4)
        *(int32_t *)value = (int32_t)algo->data[1];
    else if (attr == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME && bytes == 4)
        *(uint32_t *)value = scheme;
    if (written)
        *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- the product ----------------------------------------------------------------- */

typedef struct Product {
    Desc desc;
    Layout a, b, c, d;
    double alpha, beta;
    const void *pa, *pb, *pc;
    void *pd, *workspace;
    uint64_t workspace_bytes;
    Algorithm algorithm;
} Product;

static bool is_fp8(cudaDataType_t t)
{
    return t == CUDA_R_8F_E4M3 || t == CUDA_R_8F_E5M2;
}

static int64_t size_of(cudaDataType_t t)
{
    return t == CUDA_R_64F                       ? 8
           : t == CUDA_R_32F                     ? 4
           : t == CUDA_R_16BF || t == CUDA_R_16F ? 2
           : is_fp8(t)                           ? 1
                                                 : 0;
}

/* By its definition: sign, exponent, mantissa. */
static double of_fp8(uint8_t x, int mantissa, int bias)
{
    const int exponent = (x & 0x7f) >> mantissa, low = x & ((1 << mantissa) - 1);
    const double size = ldexp(exponent ? low + (1 << mantissa) : low,
                              (exponent ? exponent : 1) - bias - mantissa);

    if (mantissa == 3 ? (x & 0x7f) == 0x7f : exponent == 31)
        return low || mantissa == 3 ? NAN : x & 0x80 ? -INFINITY : INFINITY;
    return x & 0x80 ? -size : size;
}

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, 4);
    return x;
}

static double load(const void *p, int64_t i, cudaDataType_t t)
{
    if (t == CUDA_R_64F)
        return ((const double *)p)[i];
    if (t == CUDA_R_32F)
        return ((const float *)p)[i];
    if (t == CUDA_R_16BF)
        return float_of((uint32_t)((const uint16_t *)p)[i] << 16);
    if (t == CUDA_R_8F_E4M3)
        return of_fp8(((const uint8_t *)p)[i], 3, 7);
    if (t == CUDA_R_8F_E5M2)
        return of_fp8(((const uint8_t *)p)[i], 2, 15);
    return sim_f32_from_f16(((const uint16_t *)p)[i]);
}

static void store(void *p, int64_t i, cudaDataType_t t, double v)
{
    if (t == CUDA_R_64F)
        ((double *)p)[i] = v;
    else if (t == CUDA_R_32F)
        ((float *)p)[i] = (float)v;
    else if (t == CUDA_R_16BF)
        ((uint16_t *)p)[i] = sim_bf16_from_f32((float)v);
    else
        ((uint16_t *)p)[i] = sim_f16_from_f32((float)v);
}

/* op(X) as rows of k, dense, in the type that sums have. */
static double *rows_of(const void *p, const Layout *l, bool across, int64_t n, int64_t k)
{
    double *rows = malloc((size_t)(n * k) * sizeof *rows);

    if (!rows)
        abort();
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < k; j++)
            rows[i * k + j] = load(p, across ? i * l->ld + j : j * l->ld + i, l->type);
    return rows;
}

static double part_of(const double *a, const double *b, int64_t from, int64_t to,
                      bool wide)
{
    double sum = 0;
    float narrow = 0;

    if (!wide) {
        for (int64_t i = from; i < to; i++)
            narrow += (float)a[i] * (float)b[i];
        return narrow;
    }
    for (int64_t i = from; i < to; i++)
        sum += a[i] * b[i];
    return sum;
}

static double added(double a, double b, bool wide)
{
    return wide ? a + b : (float)a + (float)b;
}

/* A sum over k that begins at `at`, and comes to what is before it last. */
static double dot(const double *a, const double *b, int64_t k, int64_t at, bool wide)
{
    if (at == 0)
        return part_of(a, b, 0, k, wide);
    return added(part_of(a, b, at, k, wide), part_of(a, b, 0, at, wide), wide);
}

static double dot_backwards(const double *a, const double *b, int64_t k, bool wide)
{
    double sum = 0;

    for (int64_t i = k; i-- > 0;)
        sum = added(sum, part_of(a, b, i, i + 1, wide), wide);
    return sum;
}

/* The sums of PARTS parts of k, added from the first, or a later one, on. */
static double dot_parts(const double *a, const double *b, int64_t k, int64_t first,
                        bool wide)
{
    double sum = 0;

    for (int64_t part = first; part < PARTS; part++) {
        sum = added(sum, part_of(a, b, k * part / PARTS, k * (part + 1) / PARTS, wide),
                    wide);
    }
    return sum;
}

static void touch(const void *p, const Layout *l, bool write)
{
    const int64_t bytes = size_of(l->type);

    sim_touch_rows(p, (int64_t)l->cols, (int64_t)l->rows * bytes, l->ld * bytes, write);
}

static SimResult run_product(SimOp *op)
{
    const Product *p = op->work.payload;
    const int64_t m = (int64_t)p->d.rows, n = (int64_t)p->d.cols;
    const int64_t k = (int64_t)(p->desc.transa == CUBLAS_OP_N ? p->a.cols : p->a.rows);
    const bool wide = p->d.type == CUDA_R_64F;
    /* enough of the workspace to see who else uses it at the same time */
    const int64_t used = p->workspace_bytes < 4096 ? (int64_t)p->workspace_bytes : 4096;
    static int64_t runs, races;
    const int64_t at = p->algorithm == IN_HALVES                           ? k / 2
                       : p->algorithm == UNSTEADY || p->algorithm == SPLIT ? runs++ % k
                                                                           : 0;
    const int64_t part = p->algorithm == SPLIT_RACE && ++races % RACE_EVERY == 0;
    double *a, *b, alpha = p->alpha;

    touch(p->pa, &p->a, false);
    touch(p->pb, &p->b, false);
    if (p->beta != 0)
        touch(p->pc, &p->c, false);
    touch(p->pd, &p->d, true);
    if (used > 0)
        sim_touch(p->workspace, used, true, NULL);
    if (p->desc.scale_a)
        sim_touch(p->desc.scale_a, sizeof *p->desc.scale_a, false, NULL);
    if (p->desc.scale_b)
        sim_touch(p->desc.scale_b, sizeof *p->desc.scale_b, false, NULL);
    if (sim_problem())
        return SIM_OP_DONE;
    if (p->desc.scale_a)
        alpha *= (double)*p->desc.scale_a;
    if (p->desc.scale_b)
        alpha *= (double)*p->desc.scale_b;
    a = rows_of(p->pa, &p->a, p->desc.transa != CUBLAS_OP_N, m, k);
    b = rows_of(p->pb, &p->b, p->desc.transb == CUBLAS_OP_N, n, k);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            const double *row = a + i * k, *column = b + j * k;
            double v =
                alpha * (p->algorithm == BACKWARDS ? dot_backwards(row, column, k, wide)
                         : p->algorithm > SPLIT    ? dot_parts(row, column, k, part, wide)
                                                   : dot(row, column, k, at, wide));

            if (p->beta != 0)
                v += p->beta * load(p->pc, j * p->c.ld + i, p->c.type);
            store(p->pd, j * p->d.ld + i, p->d.type, v);
        }
    free(a);
    free(b);
    if (used > 0) /* holds anything afterwards */
        memset(p->workspace, 0xff, (size_t)used);
    sim_clock_us += sim_cache_cold ? cold_us[p->algorithm] : warm_us[p->algorithm];
    sim_cache_cold = false;
    return SIM_OP_DONE;
}

/* What Hopper asks of fp8: both operands along k, dims of 16, f32 sums; not both e5m2. */
static bool legal_fp8(const Product *p)
{
    return p->desc.transa != CUBLAS_OP_N && p->desc.transb == CUBLAS_OP_N &&
           is_fp8(p->b.type) &&
           !(p->a.type == CUDA_R_8F_E5M2 && p->b.type == CUDA_R_8F_E5M2) &&
           p->a.rows % 16 == 0 && p->a.cols % 16 == 0 && p->b.cols % 16 == 0 &&
           p->a.ld % 16 == 0 && p->b.ld % 16 == 0 && !is_fp8(p->d.type) &&
           p->d.type != CUDA_R_64F;
}

/* Types are such as the library multiplies. */
static bool legal_types(const Product *p)
{
    if (is_fp8(p->a.type))
        return legal_fp8(p);
    return p->a.type == p->b.type && !p->desc.scale_a && !p->desc.scale_b &&
           (p->d.type == p->a.type ||
            (p->d.type == CUDA_R_32F && p->a.type != CUDA_R_64F));
}

/* Dimensions fit. */
static bool legal(const Product *p)
{
    const bool ta = p->desc.transa != CUBLAS_OP_N, tb = p->desc.transb != CUBLAS_OP_N;
    const uint64_t m = ta ? p->a.cols : p->a.rows, ka = ta ? p->a.rows : p->a.cols;
    const uint64_t n = tb ? p->b.rows : p->b.cols, kb = tb ? p->b.cols : p->b.rows;

    return m == p->d.rows && n == p->d.cols && ka == kb && p->c.rows == m &&
           p->c.cols == n && legal_types(p) && p->c.type == p->d.type &&
           size_of(p->a.type) && size_of(p->d.type) && p->a.ld >= (int64_t)p->a.rows &&
           p->b.ld >= (int64_t)p->b.rows && p->d.ld >= (int64_t)m &&
           p->desc.epilogue <= CUBLASLT_EPILOGUE_DEFAULT &&
           (p->desc.compute == CUBLAS_COMPUTE_64F) == (p->d.type == CUDA_R_64F);
}

static bool aligned(const Product *p, const cublasLtMatmulAlgo_t *algo)
{
    const void *at[] = {p->pa, p->pb, p->pc, p->pd};

    for (int i = 0; i < 4; i++) {
        const uint64_t least = algo->data[ALIGN_WORD] >> i * ALIGN_BITS & 0xffff;

        if (least == 0 || (uintptr_t)at[i] % least != 0)
            return false;
    }
    return true;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t la,
                              const void *b, cublasLtMatrixLayout_t lb, const void *beta,
                              const void *c, cublasLtMatrixLayout_t lc, void *d,
                              cublasLtMatrixLayout_t ld, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes,
                              cudaStream_t stream)
{
    Product p = {.desc = *(const Desc *)desc,
                 .a = *(const Layout *)la,
                 .b = *(const Layout *)lb,
                 .c = *(const Layout *)lc,
                 .d = *(const Layout *)ld,
                 .pa = a,
                 .pb = b,
                 .pc = c,
                 .pd = d,
                 .workspace = workspace,
                 .workspace_bytes = workspace ? workspace_bytes : 0};
    const bool wide = p.desc.scale == CUDA_R_64F;
    SimWork work = {.run = run_product, .payload = &p, .payload_bytes = sizeof p};
    BEGIN;

    (void)handle;
    p.alpha = wide ? *(const double *)alpha : *(const float *)alpha;
    p.beta = wide ? *(const double *)beta : *(const float *)beta;
    p.algorithm = algo ? (Algorithm)algo->data[1] : IN_ORDER;
    if (!legal(&p) || (algo && !is_algorithm(algo)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (algo && !aligned(&p, algo))
        return CUBLAS_STATUS_INVALID_VALUE;
    snprintf(work.what, sizeof work.what, "a product [%llu, %llu] in %llu",
             (unsigned long long)p.d.cols, (unsigned long long)p.d.rows,
             (unsigned long long)(p.desc.transa == CUBLAS_OP_N ? p.a.cols : p.a.rows));
    sim_enqueue(sim_stream(stream), &work);
    return sim_broken() ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
