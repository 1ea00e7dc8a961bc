/* SPDX-License-Identifier: MIT-0 */
/* rt_blas.c: matrix products by cuBLASLt. In: RtMatmul of math.c, row-major. Out:
 * enqueued products.
 *
 * The library is column-major, where a row-major matrix is its transpose: C = A op B
 * becomes C' = op B' A', with operands exchanged. Sums are kept in float, or double, and
 * no algorithm may split k among blocks: their sum would have an order of its own. The
 * first that the library proposes is taken and named at start; it depends on the shape,
 * the GPU and the library alone, so it is the same on all ranks. */
#include "rt_gpu.h"

#include <cublasLt.h>
#include <string.h>

static cublasLtHandle_t handle;
static Rt *this_rank;

#define RT_BLAS_CALL(rt, call)                                                           \
    do {                                                                                 \
        const cublasStatus_t status_ = (call);                                           \
        if (status_ != CUBLAS_STATUS_SUCCESS) {                                          \
            rt_fail(rt, RT_EXIT_ERROR, "%s on GPU %d: %s", #call, rt_gpu.index,          \
                    cublasLtGetStatusString(status_));                                   \
        }                                                                                \
    } while (0)

typedef struct Plan {
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c; /* as the library sees them: b is the caller's A */
    cublasLtMatmulAlgo_t algorithm;
} Plan;
enum { MAX_PLANS = 1024 };
static Plan plans[MAX_PLANS];
static int n_plans;

void rt_blas_open(Rt *rt)
{
    this_rank = rt;
    RT_BLAS_CALL(rt, cublasLtCreate(&handle));
}

const char *rt_gemm_library(void)
{
    static char text[256];
    int driver = 0;
    cudaDriverGetVersion(&driver);
    snprintf(text, sizeof text,
             "cuBLASLt %zu; gpu %s, %d multiprocessors, driver %d, kernels %s",
             cublasLtGetVersion(), rt_gpu.name[0] ? rt_gpu.name : "none yet",
             rt_gpu.multiprocessors, driver, rt_gpu.image ? rt_gpu.image : "none yet");
#ifdef RT_NCCL
    const size_t n = strlen(text);
    snprintf(text + n, sizeof text - n, ", %s", rt_transport->name());
#endif
    return text;
}

static cudaDataType_t type_of(int dtype)
{
    return dtype == RT_F64    ? CUDA_R_64F
           : dtype == RT_F32  ? CUDA_R_32F
           : dtype == RT_BF16 ? CUDA_R_16BF
                              : CUDA_R_16F;
}

/* What rows begin at: buffers begin at more. */
static uint32_t alignment(int64_t ld, int dtype)
{
    const uint64_t bytes = (uint64_t)ld * rt_dtype_bytes((RtDtype)dtype);
    uint32_t most = 16;
    while (bytes % most != 0) {
        most /= 2;
    }
    return most;
}

static cublasLtMatrixLayout_t layout(cudaDataType_t type, int64_t rows, int64_t cols,
                                     int64_t ld)
{
    cublasLtMatrixLayout_t l;
    RT_BLAS_CALL(this_rank, cublasLtMatrixLayoutCreate(&l, type, (uint64_t)rows,
                                                       (uint64_t)cols, ld));
    return l;
}

static cublasLtMatmulPreference_t preference(const RtMatmul *p)
{
    const uint64_t bytes = (uint64_t)this_rank->trainer->library_bytes;
    const uint32_t no_split = CUBLASLT_REDUCTION_SCHEME_NONE;
    const uint32_t a = alignment(p->ldb, p->in_dtype), b = alignment(p->lda, p->in_dtype);
    const uint32_t c = alignment(p->ldc, p->out_dtype);
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        const void *value;
        size_t bytes;
    } wishes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_split, sizeof no_split},
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

static void choose(const RtMatmul *p, Plan *plan)
{
    cublasLtMatmulHeuristicResult_t first;
    int found = 0, id = -1, tile = -1;
    size_t written = 0;
    cublasLtMatmulPreference_t pref = preference(p);
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, plan->product, plan->a, plan->b, plan->c,
                                       plan->c, pref, 1, &first, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0 ||
        first.state != CUBLAS_STATUS_SUCCESS) {
        rt_fail(
            this_rank, RT_EXIT_ERROR,
            "cuBLASLt has no algorithm for the product %s %lld x %lld x %lld on %s: %s",
            op_names[p->op], (long long)p->m, (long long)p->n, (long long)p->k,
            rt_gpu.name, cublasLtGetStatusString(status));
    }
    plan->algorithm = first.algo;
    cublasLtMatmulPreferenceDestroy(pref);
    if (this_rank->rank == 0 && !this_rank->state->flags.quiet) {
        cublasLtMatmulAlgoConfigGetAttribute(&first.algo, CUBLASLT_ALGO_CONFIG_ID, &id,
                                             sizeof id, &written);
        cublasLtMatmulAlgoConfigGetAttribute(&first.algo, CUBLASLT_ALGO_CONFIG_TILE_ID,
                                             &tile, sizeof tile, &written);
        printf("product %s %lld x %lld x %lld: algorithm %d, tile %d, workspace %zu "
               "bytes, the "
               "library's first\n",
               op_names[p->op], (long long)p->m, (long long)p->n, (long long)p->k, id,
               tile, first.workspaceSize);
    }
}

void rt_matmul_prepare(RtMatmul *p)
{
    const bool f64 = p->in_dtype == RT_F64;
    const cublasOperation_t b_op = p->op == RT_NT ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t a_op = p->op == RT_TN ? CUBLAS_OP_T : CUBLAS_OP_N;
    if (n_plans == MAX_PLANS) {
        rt_fail(this_rank, RT_EXIT_ERROR, "more than %d distinct products", MAX_PLANS);
    }
    Plan *plan = &plans[n_plans++];
    RT_BLAS_CALL(this_rank,
                 cublasLtMatmulDescCreate(&plan->product,
                                          f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                          f64 ? CUDA_R_64F : CUDA_R_32F));
    RT_BLAS_CALL(this_rank, cublasLtMatmulDescSetAttribute(plan->product,
                                                           CUBLASLT_MATMUL_DESC_TRANSA,
                                                           &b_op, sizeof b_op));
    RT_BLAS_CALL(this_rank, cublasLtMatmulDescSetAttribute(plan->product,
                                                           CUBLASLT_MATMUL_DESC_TRANSB,
                                                           &a_op, sizeof a_op));
    /* columns of the library's matrices are rows of ours */
    const bool b_rows_n = p->op == RT_NT, a_rows_k = p->op == RT_TN;
    plan->a = layout(type_of(p->in_dtype), b_rows_n ? p->k : p->n, b_rows_n ? p->n : p->k,
                     p->ldb);
    plan->b = layout(type_of(p->in_dtype), a_rows_k ? p->m : p->k, a_rows_k ? p->k : p->m,
                     p->lda);
    plan->c = layout(type_of(p->out_dtype), p->n, p->m, p->ldc);
    choose(p, plan);
    p->plan = plan;
}

void rt_matmul(Rt *rt, const RtMatmul *p, const void *a, const void *b, void *c,
               float beta)
{
    const Plan *plan = p->plan;
    const float one = 1.0f;
    const double one64 = 1.0, beta64 = beta;
    const bool f64 = p->in_dtype == RT_F64;
    const cublasStatus_t status = cublasLtMatmul(
        handle, plan->product, f64 ? (const void *)&one64 : &one, b, plan->a, a, plan->b,
        f64 ? (const void *)&beta64 : &beta, c, plan->c, c, plan->c, &plan->algorithm,
        rt_local(rt, rt->trainer->library_offset), (size_t)rt->trainer->library_bytes,
        rt_gpu.stream[RT_COMPUTE]);
    if (status != CUBLAS_STATUS_SUCCESS) {
        rt_fail(rt, RT_EXIT_ERROR, "product %s %lld x %lld x %lld on GPU %d: %s",
                op_names[p->op], (long long)p->m, (long long)p->n, (long long)p->k,
                rt_gpu.index, cublasLtGetStatusString(status));
    }
}
