/* SPDX-License-Identifier: MIT-0 */
/* rt_blas.c: matrix products by cuBLASLt. In: RtMatmul of kernels.c, row-major; tuned
 * algorithms. Out: enqueued products.
 *
 * 1. The library is column-major, where a row-major matrix appears as its transpose: C =
 *    A op B becomes C' = op B' A', with exchanged operands.
 * 2. Sums are in float, or double, in an order that is the same each time. So the library
 *    is asked for algorithms that do not split k among blocks. kernels.wis may name one
 *    that does, if the library documents the order in which it adds the parts.
 * 3. A product's algorithm is the one in kernels.wis (rt_wisdom.c), or else the first
 *    that the library proposes; its name is printed at start. It depends only on the
 *    shape, the GPU, the library and that file, which are all in the platform's text, so
 *    it is the same on all ranks. */
#define _GNU_SOURCE
#include "cuda/rt_blas.h"

#include <string.h>
#include <unistd.h>

static cublasLtHandle_t handle;
static Rt *this_rank;
enum { MAX_PLANS = 1024 };
static RtProduct plans[MAX_PLANS];
static int n_plans;

void rt_blas_open(Rt *rt)
{
    this_rank = rt;
    RT_BLAS_CALL(rt, cublasLtCreate(&handle));
    rt_wisdom_open(rt);
}

static bool begins_with_one(const char *text, const char *const *list)
{
    while (*list != NULL && strncmp(text, *list, strlen(*list)) != 0)
        list++;
    return *list != NULL;
}

/* Appends the variables that may change bits, without the harmless ones: a single one
 * with its value, several as their number and a hash. */
static void add_environment(char *text, size_t bytes, const char *const *changes,
                            const char *const *harmless)
{
    const size_t at = strlen(text);
    uint64_t sum = 0; /* the environment has no order */
    int n = 0;
    for (char **e = environ; e != NULL && *e != NULL; e++) {
        if (begins_with_one(*e, changes) && !begins_with_one(*e, harmless)) {
            n++;
            sum += rt_hash64(*e, strlen(*e), 2);
            snprintf(text + at, bytes - at, ", %.60s", *e);
        }
    }
    if (n > 1 || (n == 1 && strlen(text + at) >= 60)) {
        snprintf(text + at, bytes - at, ", %d variables %s* %016llx", n, changes[0],
                 (unsigned long long)sum);
    }
}

/* Variables that change how this library, and all of NVIDIA's, multiply. */
static void describe_environment(char *text, size_t bytes)
{
    static const char *const changes[] = {"CUBLAS", "NVIDIA_TF32_OVERRIDE=", NULL};
    static const char *const harmless[] = {"CUBLASLT_LOG_", "CUBLAS_LOG",
                                           "CUBLASLT_NVTX_", NULL};
    add_environment(text, bytes, changes, harmless);
#ifdef RT_NCCL
    /* These change the order of NCCL's sums, if it adds at all. */
    static const char *const sums[] = {"NCCL_", NULL};
    static const char *const no_sums[] = {
        "NCCL_DEBUG",           "NCCL_HOSTID=",
        "NCCL_SOCKET_",         "NCCL_LAUNCH_ORDER_IMPLICIT=",
        "NCCL_LOCAL_REGISTER=", "NCCL_GRAPH_REGISTER=",
        "NCCL_NVLS_ENABLE=",    NULL};
    if (this_rank != NULL && this_rank->trainer->library_order)
        add_environment(text, bytes, sums, no_sums);
#endif
}

const char *rt_gemm_library(void)
{
    static char text[512];
    char environment[192] = "";
    int driver = 0;
    cudaDriverGetVersion(&driver);
    describe_environment(environment, sizeof environment);
    snprintf(text, sizeof text,
             "cuBLASLt %zu%s, algorithms %s; gpu %s, %d multiprocessors, driver %d, "
             "kernels %s",
             cublasLtGetVersion(), environment, rt_wisdom_name(),
             rt_gpu.name[0] ? rt_gpu.name : "none yet", rt_gpu.multiprocessors, driver,
             rt_gpu.image ? rt_gpu.image : "none yet");
#ifdef RT_CUDNN
    strncat(text, ", ", sizeof text - strlen(text) - 1);
    strncat(text, rt_cudnn_name(), sizeof text - strlen(text) - 1);
#endif
#ifdef RT_NCCL
    strncat(text, ", ", sizeof text - strlen(text) - 1);
    strncat(text, rt_transport->name(), sizeof text - strlen(text) - 1);
#endif
    return text;
}

static cudaDataType_t type_of(int dtype)
{
    return dtype == RT_F64    ? CUDA_R_64F
           : dtype == RT_F32  ? CUDA_R_32F
           : dtype == RT_BF16 ? CUDA_R_16BF
           : dtype == RT_E4M3 ? CUDA_R_8F_E4M3
           : dtype == RT_E5M2 ? CUDA_R_8F_E5M2
                              : CUDA_R_16F;
}

static bool is_fp8(int dtype)
{
    return dtype == RT_E4M3 || dtype == RT_E5M2;
}

/* Of the caller's B. */
static int b_dtype(const RtMatmul *p)
{
    return is_fp8(p->in_dtype) ? p->b_dtype : p->in_dtype;
}

int64_t rt_operand_bytes(int dtype)
{
    return is_fp8(dtype) ? 1 : (int64_t)rt_dtype_bytes((RtDtype)dtype);
}

static cublasLtMatrixLayout_t layout(cudaDataType_t type, int64_t rows, int64_t cols,
                                     int64_t ld)
{
    cublasLtMatrixLayout_t l;
    RT_BLAS_CALL(this_rank, cublasLtMatrixLayoutCreate(&l, type, (uint64_t)rows,
                                                       (uint64_t)cols, ld));
    return l;
}

static cublasLtMatmulPreference_t preference(const RtMatmul *p, RtSplit split)
{
    const uint64_t bytes = (uint64_t)this_rank->trainer->library_bytes;
    const uint32_t schemes =
        split == RT_WHOLE_K
            ? CUBLASLT_REDUCTION_SCHEME_NONE
            : CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    /* Of pointers ("minimum buffer alignment"), A and B exchanged. Rows do not count
     * here: what an algorithm needs, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_*, it needs of
     * pointers and of leading dimensions, and the library knows the latter from the
     * layouts. */
    const uint32_t a = (uint32_t)p->b_align_bytes, b = (uint32_t)p->a_align_bytes;
    const uint32_t c = (uint32_t)p->c_align_bytes;
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        const void *value;
        size_t bytes;
    } wishes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c},
    };
    cublasLtMatmulPreference_t pref;
    RT_BLAS_CALL(this_rank, cublasLtMatmulPreferenceCreate(&pref));
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        RT_BLAS_CALL(this_rank, cublasLtMatmulPreferenceSetAttribute(pref, wishes[i].what,
                                                                     wishes[i].value,
                                                                     wishes[i].bytes));
    }
    return pref;
}

static const char *const op_names[] = {[RT_NT] = "NT", [RT_NN] = "NN", [RT_TN] = "TN"};

const char *rt_product_text(const RtMatmul *p, char *text)
{
    static const char *const dtypes[] = {
        [RT_F32] = "f32", [RT_F64] = "f64",   [RT_BF16] = "bf16",
        [RT_F16] = "f16", [RT_E4M3] = "e4m3", [RT_E5M2] = "e5m2"};
    const int a = p->a_align_bytes, b = p->b_align_bytes, c = p->c_align_bytes;
    char aligned[48] = "";
    if (a + b + c < 3 * RT_BUFFER_ALIGN_BYTES)
        snprintf(aligned, sizeof aligned, " aligned %d %d %d", a, b, c);
    snprintf(text, RT_PRODUCT_TEXT,
             "%s %lld x %lld x %lld rows %lld %lld %lld%s %s%s%s%s to %s",
             op_names[p->op], (long long)p->m, (long long)p->n, (long long)p->k,
             (long long)p->lda, (long long)p->ldb, (long long)p->ldc, aligned,
             dtypes[p->in_dtype], is_fp8(p->in_dtype) ? " and " : "",
             is_fp8(p->in_dtype) ? dtypes[p->b_dtype] : "", p->fast ? " fast" : "",
             dtypes[p->out_dtype]);
    return text;
}

/* 0: a product that states none. */
static bool states_alignment(int bytes)
{
    return bytes > 0 && bytes <= RT_BUFFER_ALIGN_BYTES && (bytes & (bytes - 1)) == 0;
}

static void check_stated(const RtMatmul *p)
{
    char text[RT_PRODUCT_TEXT];
    if (!states_alignment(p->a_align_bytes) || !states_alignment(p->b_align_bytes) ||
        !states_alignment(p->c_align_bytes)) {
        rt_fail(
            this_rank, RT_EXIT_ERROR,
            "product %s states alignments of %d, %d and %d bytes: they must be powers "
            "of two, at most %d",
            rt_product_text(p, text), p->a_align_bytes, p->b_align_bytes,
            p->c_align_bytes, RT_BUFFER_ALIGN_BYTES);
    }
}

RtProduct rt_product_describe(const RtMatmul *p)
{
    const bool f64 = p->in_dtype == RT_F64;
    const cublasOperation_t b_op = p->op == RT_NT ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t a_op = p->op == RT_TN ? CUBLAS_OP_T : CUBLAS_OP_N;
    /* Columns of the library's matrices are rows of ours. */
    const bool b_rows_n = p->op == RT_NT, a_rows_k = p->op == RT_TN;
    RtProduct q = {
        .a = layout(type_of(b_dtype(p)), b_rows_n ? p->k : p->n, b_rows_n ? p->n : p->k,
                    p->ldb),
        .b = layout(type_of(p->in_dtype), a_rows_k ? p->m : p->k, a_rows_k ? p->k : p->m,
                    p->lda),
        .c = layout(type_of(p->out_dtype), p->n, p->m, p->ldc),
    };
    RT_BLAS_CALL(this_rank, cublasLtMatmulDescCreate(
                                &q.desc, f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                f64 ? CUDA_R_64F : CUDA_R_32F));
    RT_BLAS_CALL(this_rank, cublasLtMatmulDescSetAttribute(
                                q.desc, CUBLASLT_MATMUL_DESC_TRANSA, &b_op, sizeof b_op));
    RT_BLAS_CALL(this_rank, cublasLtMatmulDescSetAttribute(
                                q.desc, CUBLASLT_MATMUL_DESC_TRANSB, &a_op, sizeof a_op));
    if (p->fast) {
        const int8_t fast = 1;
        RT_BLAS_CALL(this_rank,
                     cublasLtMatmulDescSetAttribute(
                         q.desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast));
    }
    return q;
}

int rt_product_propose(const RtMatmul *p, const RtProduct *q, RtSplit split,
                       cublasLtMatmulHeuristicResult_t *results, int most)
{
    char text[RT_PRODUCT_TEXT];
    int found = 0, usable = 0;
    cublasLtMatmulPreference_t pref = preference(p, split);
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, q->desc, q->a, q->b, q->c, q->c, pref, most, results, &found);
    cublasLtMatmulPreferenceDestroy(pref);
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < found; i++)
        if (results[i].state == CUBLAS_STATUS_SUCCESS)
            results[usable++] = results[i];
    if (usable == 0 && split == RT_WHOLE_K) {
        rt_fail(this_rank, RT_EXIT_ERROR,
                "cuBLASLt has no algorithm for the product %s on %s: %s",
                rt_product_text(p, text), rt_gpu.name, cublasLtGetStatusString(status));
    }
    return usable;
}

/* An attribute that the library does not know stays 0. */
static int config(const cublasLtMatmulAlgo_t *algorithm,
                  cublasLtMatmulAlgoConfigAttributes_t what)
{
    int value = 0;
    size_t written = 0;
    cublasLtMatmulAlgoConfigGetAttribute(algorithm, what, &value, sizeof value, &written);
    return value;
}

int rt_algorithm_parts(const cublasLtMatmulAlgo_t *algorithm)
{
    const int parts = config(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
    return parts > 1 ? parts : 1;
}

/* The library's documentation of cublasLtReductionScheme_t: COMPUTE_TYPE keeps the parts
 * in the workspace and adds them in a separate step; INPLACE adds them to the output one
 * after the other, by counters, and rounds each sum to the output's type. */
bool rt_algorithm_in_order(const RtMatmul *p, const cublasLtMatmulAlgo_t *algorithm)
{
    switch (config(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)) {
    case CUBLASLT_REDUCTION_SCHEME_NONE:
        return rt_algorithm_parts(algorithm) == 1;
    case CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE:
        return true;
    case CUBLASLT_REDUCTION_SCHEME_INPLACE:
        return p->out_dtype == RT_F32 || p->out_dtype == RT_F64;
    default:
        return false;
    }
}

const char *rt_algorithm_name(const cublasLtMatmulAlgo_t *algorithm, char *text,
                              size_t bytes)
{
    const int parts = rt_algorithm_parts(algorithm);
    const int n = snprintf(text, bytes, "algorithm %d, tile %d",
                           config(algorithm, CUBLASLT_ALGO_CONFIG_ID),
                           config(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID));
    if (parts > 1 && n > 0 && (size_t)n < bytes)
        snprintf(text + n, bytes - (size_t)n, ", k in %d parts", parts);
    return text;
}

/* What the file names must still exist in the library. */
static void check_tuned(const RtMatmul *p, RtProduct *q)
{
    cublasLtMatmulHeuristicResult_t result;
    char text[RT_PRODUCT_TEXT];
    const size_t most = (size_t)this_rank->trainer->library_bytes;
    const cublasStatus_t status = cublasLtMatmulAlgoCheck(
        handle, q->desc, q->a, q->b, q->c, q->c, &q->algorithm, &result);
    if (status != CUBLAS_STATUS_SUCCESS || result.state != CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > most || !rt_algorithm_in_order(p, &q->algorithm)) {
        rt_fail(this_rank, RT_EXIT_ERROR,
                "%s names an algorithm for the product %s that %s; run trainer "
                "--tune-kernels again, or remove the file",
                rt_wisdom_path(), rt_product_text(p, text),
                status != CUBLAS_STATUS_SUCCESS || result.state != CUBLAS_STATUS_SUCCESS
                    ? "cuBLASLt refuses"
                : result.workspaceSize > most ? "needs more workspace than is planned"
                                              : "adds parts of k in no fixed order");
    }
}

static void choose(const RtMatmul *p, RtProduct *q)
{
    char text[RT_PRODUCT_TEXT], name[64];
    const cublasLtMatmulAlgo_t *tuned = rt_wisdom_find(rt_product_text(p, text));
    if (tuned != NULL) {
        q->algorithm = *tuned;
        check_tuned(p, q);
    } else {
        cublasLtMatmulHeuristicResult_t first;
        rt_product_propose(p, q, RT_WHOLE_K, &first, 1);
        q->algorithm = first.algo;
    }
    if (this_rank->rank == 0 && this_rank->state->flags.verbose) {
        fprintf(rt_words(this_rank), "product %s %lld x %lld x %lld: %s, %s\n",
                op_names[p->op], (long long)p->m, (long long)p->n, (long long)p->k,
                rt_algorithm_name(&q->algorithm, name, sizeof name),
                tuned != NULL         ? "tuned"
                : rt_wisdom_is_open() ? "the library's first: it was not tuned"
                                      : "the library's first");
    }
}

void rt_matmul_prepare(RtMatmul *p)
{
    check_stated(p);
    if (this_rank->state->flags.tune_kernels) {
        rt_tune_add(p);
        return;
    }
    if (n_plans == MAX_PLANS)
        rt_fail(this_rank, RT_EXIT_ERROR, "more than %d distinct products", MAX_PLANS);
    RtProduct *plan = &plans[n_plans++];
    *plan = rt_product_describe(p);
    choose(p, plan);
    p->plan = plan;
}

/* The algorithm was chosen for pointers aligned so. */
static void check_pointer(const Rt *rt, const RtMatmul *p, char which, const void *at,
                          int align)
{
    char text[RT_PRODUCT_TEXT];
    if (((uintptr_t)at & (uintptr_t)(align - 1)) != 0) {
        rt_fail(rt, RT_EXIT_ERROR,
                "product %s on GPU %d%s: %c begins at %p, not at a multiple of the %d "
                "bytes that the product states",
                rt_product_text(p, text), rt_gpu.index, rt_gpu.during, which, at, align);
    }
}

cublasStatus_t rt_product_run(const Rt *rt, const RtMatmul *p, const RtProduct *q,
                              const void *a, const void *b, void *c, float beta,
                              void *workspace)
{
    const float one = 1.0f;
    const double one64 = 1.0, beta64 = beta;
    const bool f64 = p->in_dtype == RT_F64;
    check_pointer(rt, p, 'A', a, p->a_align_bytes);
    check_pointer(rt, p, 'B', b, p->b_align_bytes);
    check_pointer(rt, p, 'C', c, p->c_align_bytes);
    return cublasLtMatmul(handle, q->desc, f64 ? (const void *)&one64 : &one, b, q->a, a,
                          q->b, f64 ? (const void *)&beta64 : &beta, c, q->c, c, q->c,
                          &q->algorithm, workspace, (size_t)rt->trainer->library_bytes,
                          rt_gpu.stream[RT_COMPUTE]);
}

void rt_product_scales(const RtProduct *q, const float *sa, const float *sb)
{
    RT_BLAS_CALL(this_rank,
                 cublasLtMatmulDescSetAttribute(
                     q->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &sb, sizeof sb));
    RT_BLAS_CALL(this_rank,
                 cublasLtMatmulDescSetAttribute(
                     q->desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &sa, sizeof sa));
}

/* The description is read when the product is enqueued, or captured into a graph. */
void rt_matmul_fp8(Rt *rt, const RtMatmul *p, const void *a, const float *sa,
                   const void *b, const float *sb, void *c, float beta)
{
    rt_product_scales(p->plan, sa, sb);
    rt_matmul(rt, p, a, b, c, beta);
}

void rt_matmul(Rt *rt, const RtMatmul *p, const void *a, const void *b, void *c,
               float beta)
{
    const bool profiled = rt->state->flags.profile != NULL;
    char text[RT_PRODUCT_TEXT];
    if (profiled) {
        rt_profile_from(rt, rt_gpu.stream[RT_COMPUTE], rt_product_text(p, text),
                        2.0 * (double)p->m * (double)p->n * (double)p->k);
    }
    const cublasStatus_t status = rt_product_run(
        rt, p, p->plan, a, b, c, beta, rt_local(rt, rt->trainer->library_offset));
    if (profiled)
        rt_profile_to(rt, rt_gpu.stream[RT_COMPUTE]);
    if (status != CUBLAS_STATUS_SUCCESS) {
        rt_fail(rt, RT_EXIT_ERROR, "product %s on GPU %d%s: %s", rt_product_text(p, text),
                rt_gpu.index, rt_gpu.during, cublasLtGetStatusString(status));
    }
}
