/* SPDX-License-Identifier: MIT-0 */
/* rt_tune.c: trainer --tune-kernels. In: the products of this trainer, an idle GPU. Out:
 * the fastest of the library's algorithms for each, in kernels.wis.
 *
 * 1. Operands are random, because a product of zeros uses less power and runs faster. The
 *    L2 cache is overwritten before each run, because in a step the operands come from
 *    elsewhere. The median of a few runs counts.
 * 2. Algorithms that add in no fixed order are excluded, and so are those whose bits
 *    vary: runs with a cold and a warm cache, alone and beside other work, are compared.
 * 3. Algorithms that split k are tried where the library's first one keeps less than half
 *    of the GPU busy. More of their runs are compared.
 * 4. What else may vary is checked before: attention by cuDNN (rt_cudnn_steady.c).
 * 5. One rank does it, on its GPU. */
#include "cuda/rt_blas.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_PRODUCTS = 1024,
    PROPOSED = 16,               /* algorithms per product, and as many that split k */
    RUNS = 9,                    /* timed runs of each; odd */
    SAME_RUNS = 4,               /* of the fastest, compared */
    SPLIT_RUNS = 32,             /* the same, if it splits k */
    RANDOM_ELEMS = (1 << 20) + 7 /* the period, which does not match any row length */
};

static RtMatmul products[MAX_PRODUCTS];
static int n_products;

static void (*also)(Rt *rt); /* NULL: nothing */

void rt_tune_also(void (*check)(Rt *rt))
{
    also = check;
}

void rt_tune_add(const RtMatmul *p)
{
    char text[RT_PRODUCT_TEXT], other[RT_PRODUCT_TEXT];
    rt_product_text(p, text);
    for (int i = 0; i < n_products; i++)
        if (strcmp(rt_product_text(&products[i], other), text) == 0)
            return;
    if (n_products < MAX_PRODUCTS)
        products[n_products++] = *p;
}

/* The buffers for measuring a product. */
typedef struct Bench {
    Rt *rt;
    const RtMatmul *p;
    RtProduct q;
    char *a, *b, *c, *workspace, *flush, *numbers; /* numbers: pinned memory */
    char *allocated[3];                            /* where a, b and c are */
    int64_t a_elems, b_elems, c_elems, flush_bytes;
    float *scales; /* of fp8: 1 */
    float beta;    /* gradients of weights add to earlier ones */
    cudaEvent_t from, to;
} Bench;

static char *allocate(const Bench *b, int64_t bytes)
{
    void *at = NULL;
    const cudaError_t error = cudaMalloc(&at, (size_t)bytes);
    if (error != cudaSuccess) {
        char text[RT_PRODUCT_TEXT];
        rt_fail(b->rt, RT_EXIT_ERROR,
                "%lld bytes for the product %s on GPU %d: %s; end what else runs there",
                (long long)bytes, rt_product_text(b->p, text), rt_gpu.index,
                cudaGetErrorString(error));
    }
    return at;
}

/* Memory that is aligned to no more than the product states. */
static char *operand(Bench *b, int i, int64_t bytes, int align)
{
    b->allocated[i] = allocate(b, bytes + RT_BUFFER_ALIGN_BYTES);
    return b->allocated[i] + align % RT_BUFFER_ALIGN_BYTES;
}

static void fill(const Bench *b, char *to, int64_t elems, int dtype, uint64_t seed)
{
    const int64_t size = rt_operand_bytes(dtype);
    const int64_t n = elems < RANDOM_ELEMS ? elems : RANDOM_ELEMS;
    rt_gpu_drain(b->rt);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits = rt_hash64(&i, sizeof i, seed);
        const double x = (double)(bits >> 11) * 0x1p-53;
        if (size == 1) /* both forms of fp8: without the upper half of their exponents */
            b->numbers[i] = (char)(bits & 0xbfu);
        else
            rt_store((RtDtype)dtype, b->numbers, i, 2 * x - 1, false);
    }
    for (int64_t i = 0; i < elems; i += n) {
        const int64_t part = elems - i < n ? elems - i : n;
        RT_CUDA_CALL(b->rt,
                     cudaMemcpyAsync(to + i * size, b->numbers, (size_t)(part * size),
                                     cudaMemcpyHostToDevice, rt_gpu.stream[RT_COMPUTE]));
    }
}

static void fill_result(const Bench *b)
{
    fill(b, b->c, b->c_elems, b->p->out_dtype, 7);
}

static void bench_open(Bench *b, const RtMatmul *p)
{
    const int64_t in = rt_operand_bytes(p->in_dtype);
    b->p = p;
    b->q = rt_product_describe(p);
    if (in == 1)
        rt_product_scales(&b->q, b->scales, b->scales);
    b->a_elems = (p->op == RT_TN ? p->k : p->m) * p->lda;
    b->b_elems = (p->op == RT_NT ? p->n : p->k) * p->ldb;
    b->c_elems = p->m * p->ldc;
    b->beta = p->op == RT_TN ? 1.0f : 0.0f;
    b->a = operand(b, 0, b->a_elems * in, p->a_align_bytes);
    b->b = operand(b, 1, b->b_elems * in, p->b_align_bytes);
    b->c = operand(b, 2, b->c_elems * (int64_t)rt_dtype_bytes((RtDtype)p->out_dtype),
                   p->c_align_bytes);
    fill(b, b->a, b->a_elems, p->in_dtype, 5);
    fill(b, b->b, b->b_elems, p->in_dtype, 6);
    fill_result(b);
}

static void bench_close(const Bench *b)
{
    rt_gpu_drain(b->rt);
    for (int i = 0; i < 3; i++)
        RT_CUDA_CALL(b->rt, cudaFree(b->allocated[i]));
}

static cublasStatus_t run(const Bench *b)
{
    return rt_product_run(b->rt, b->p, &b->q, b->a, b->b, b->c, b->beta, b->workspace);
}

static void overwrite_cache(const Bench *b, int stream)
{
    RT_CUDA_CALL(b->rt, cudaMemsetAsync(b->flush, 1, (size_t)b->flush_bytes,
                                        rt_gpu.stream[stream]));
}

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Microseconds; negative: the library cannot run it after all. */
static float measure(const Bench *b)
{
    float ms[RUNS + 1];
    cudaStream_t compute = rt_gpu.stream[RT_COMPUTE];
    for (int i = 0; i <= RUNS; i++) { /* the first run loads the kernel */
        overwrite_cache(b, RT_COMPUTE);
        RT_CUDA_CALL(b->rt, cudaEventRecord(b->from, compute));
        if (run(b) != CUBLAS_STATUS_SUCCESS)
            return -1;
        RT_CUDA_CALL(b->rt, cudaEventRecord(b->to, compute));
        rt_gpu_drain(b->rt);
        RT_CUDA_CALL(b->rt, cudaEventElapsedTime(&ms[i], b->from, b->to));
    }
    qsort(ms + 1, RUNS, sizeof *ms, compare_floats);
    return 1e3f * ms[1 + RUNS / 2];
}

/* A hash of the whole result. */
static uint64_t bits(const Bench *b)
{
    const int64_t bytes = b->c_elems * (int64_t)rt_dtype_bytes((RtDtype)b->p->out_dtype);
    uint64_t hash = 0;
    for (int64_t i = 0; i < bytes; i += RT_WINDOW_BYTES) {
        const int64_t n = bytes - i < RT_WINDOW_BYTES ? bytes - i : RT_WINDOW_BYTES;
        hash = rt_hash64(rt_window(b->rt, 0, b->c + i, n, RT_READ), (size_t)n, hash);
        rt_window_close(b->rt, 0);
    }
    return hash;
}

static bool same_each_time(const Bench *b)
{
    const bool splits = rt_algorithm_parts(&b->q.algorithm) > 1;
    uint64_t first = 0;
    for (int i = 0; i < (splits ? SPLIT_RUNS : SAME_RUNS); i++) {
        fill_result(b);
        if (i % 2 == 0)
            overwrite_cache(b, i == 0 ? RT_COMPUTE : RT_GATHER);
        run(b);
        rt_gpu_drain(b->rt);
        const uint64_t now = bits(b);
        if (i > 0 && now != first)
            return false;
        first = now;
    }
    return true;
}

/* Differences of a hundredth are noise: among those the library's order decides. -1: all
 * are excluded. */
static int fastest(const float *us, int n)
{
    int best = -1;
    for (int i = 0; i < n; i++)
        if (us[i] >= 0 && (best < 0 || us[i] < 0.99f * us[best]))
            best = i;
    return best;
}

/* What the library proposes; those that split k come last. */
static int propose(const Bench *b, cublasLtMatmulHeuristicResult_t *proposed)
{
    int n = rt_product_propose(b->p, &b->q, RT_WHOLE_K, proposed, PROPOSED);
    if (proposed[0].wavesCount >= 0.5f)
        return n;
    cublasLtMatmulHeuristicResult_t split[PROPOSED];
    const int more = rt_product_propose(b->p, &b->q, RT_SPLIT_K, split, PROPOSED);
    for (int i = 0; i < more; i++)
        if (rt_algorithm_parts(&split[i].algo) > 1)
            proposed[n++] = split[i];
    return n;
}

static void search(Bench *b, RtChoice *choice)
{
    cublasLtMatmulHeuristicResult_t proposed[2 * PROPOSED];
    float us[2 * PROPOSED];
    char name[64];
    int unordered = 0, unsteady = 0, best;
    const int n = propose(b, proposed);
    rt_product_text(b->p, choice->product);
    for (int i = 0; i < n; i++) {
        b->q.algorithm = proposed[i].algo;
        us[i] = -1;
        if (!rt_algorithm_in_order(b->p, &b->q.algorithm))
            unordered++;
        else
            us[i] = measure(b);
    }
    const float first_us = us[0];
    while ((best = fastest(us, n)) >= 0) {
        b->q.algorithm = proposed[best].algo;
        if (same_each_time(b))
            break;
        us[best] = -1;
        unsteady++;
    }
    if (best < 0) {
        rt_fail(b->rt, RT_EXIT_ERROR,
                "cuBLASLt has no algorithm for the product %s that gives the same bits "
                "each time: of %d, %d add in no fixed order, %d were unsteady",
                choice->product, n, unordered, unsteady);
    }
    choice->algorithm = b->q.algorithm;
    snprintf(choice->measured, sizeof choice->measured,
             "%s: %.1f us, the first %.1f; of %d %d unordered, %d unsteady",
             rt_algorithm_name(&choice->algorithm, name, sizeof name), (double)us[best],
             (double)first_us, n, unordered, unsteady);
    printf("%s: %s\n", choice->product, choice->measured);
    fflush(stdout);
}

static void search_all(Rt *rt)
{
    static RtChoice choices[MAX_PRODUCTS];
    int cache_bytes = 0;
    Bench b = {.rt = rt};
    if (n_products == 0)
        rt_fail(rt, RT_EXIT_ERROR, "this trainer has no matrix products");
    RT_CUDA_CALL(
        rt, cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, rt_gpu.index));
    const float one = 1;
    b.p = &products[0];
    b.scales = (float *)(void *)allocate(&b, sizeof one);
    RT_CUDA_CALL(rt, cudaMemcpy(b.scales, &one, sizeof one, cudaMemcpyHostToDevice));
    b.flush_bytes = 2 * (int64_t)cache_bytes + 1;
    b.flush = allocate(&b, b.flush_bytes);
    b.workspace = allocate(&b, rt->trainer->library_bytes);
    RT_CUDA_CALL(rt, cudaHostAlloc((void **)&b.numbers, RANDOM_ELEMS * sizeof(double),
                                   cudaHostAllocDefault));
    RT_CUDA_CALL(rt, cudaEventCreate(&b.from));
    RT_CUDA_CALL(rt, cudaEventCreate(&b.to));
    for (int i = 0; i < n_products; i++) {
        bench_open(&b, &products[i]);
        search(&b, &choices[i]);
        bench_close(&b);
    }
    rt_wisdom_write(rt, choices, n_products);
    printf("%d products are in %s\n", n_products, rt_wisdom_path());
}

int rt_tune(const RtTrainer *t, const RtFlags *f)
{
    static RtState state;
    static Rt rt;
    char error[RT_ERROR_BYTES];
    RtJoin join;
    if (rt_join_find(&join, error) && error[0] == '\0' &&
        join.rank != 0) /* a launcher's other processes have nothing to do */
        return RT_EXIT_OK;
    int fd;
    RtShared *shared = rt_shared_first(t, &fd);
    if (shared == NULL)
        return RT_EXIT_ERROR;
    state = (RtState){.flags = *f, .shared = shared};
    state.flags.loopback = false; /* it is the only rank */
    rt = (Rt){.world_size = t->world_size, .threads = 1, .trainer = t, .state = &state};
    if (!rt_arena_map(&rt, fd, false, error))
        rt_fail(&rt, RT_EXIT_ERROR, "%s", error);
    t->setup(&rt); /* registers its products */
    rt_gpu_drain(&rt);
    rt_arena_free(&rt); /* makes room for operands */
    if (also != NULL)
        also(&rt);
    search_all(&rt);
    return fflush(stdout) == 0 ? RT_EXIT_OK : RT_EXIT_ERROR;
}
