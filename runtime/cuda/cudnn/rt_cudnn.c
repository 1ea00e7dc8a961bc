/* SPDX-License-Identifier: MIT-0 */
/* rt_cudnn.c: attention by cuDNN. In: RtAttention of kernels.c. Out: enqueued kernels.
 *
 * When the trainer starts, each gets a plan by the first engine that the library proposes
 * whose bits are the same every time and whose workspace fits the planned one; the
 * engine's name is printed then. The choice depends only on the shape, the GPU and the
 * library, which are all in the platform's text, so it is the same on all ranks. */
#define _GNU_SOURCE
#include "cuda/rt_blas.h"
#include "cuda/rt_cudnn.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define DNN_CALL(rt, call)                                                               \
    do {                                                                                 \
        const cudnnStatus_t status_ = (call);                                            \
        if (status_ != CUDNN_STATUS_SUCCESS) {                                           \
            failed(rt, #call, status_);                                                  \
        }                                                                                \
    } while (0)

_Noreturn static void failed(const Rt *rt, const char *call, cudnnStatus_t status)
{
    char last[256] = "";
    cudnnGetLastErrorString(last, sizeof last);
    rt_fail(rt, RT_EXIT_ERROR, "%.60s on GPU %d%s: %s%s%s", call, rt_gpu.index,
            rt_gpu.during, cudnnGetErrorString(status), last[0] ? ": " : "", last);
}

static cudnnHandle_t handle;
static Rt *this_rank;
enum { MAX_PLANS = 64 };
static RtDnnPlan plans[MAX_PLANS];
static const RtAttention *prepared[MAX_PLANS];
static int n_plans;

void rt_cudnn_open(Rt *rt)
{
    const size_t version = cudnnGetVersion();
    this_rank = rt;
    if (version < RT_DNN_OLDEST) {
        rt_fail(rt, RT_EXIT_ERROR,
                "cuDNN %zu is too old: attention needs %d or later; or generate without "
                "target.attention = \"cudnn\"",
                version, RT_DNN_OLDEST);
    }
    if (strcmp(rt_gpu.arch, "sm_90") != 0) {
        rt_fail(
            rt, RT_EXIT_ERROR,
            "cuDNN's attention has the same bits every time on sm_90 only, and GPU %d "
            "(%s) is an %s; generate without target.attention = \"cudnn\"",
            rt_gpu.index, rt_gpu.name, rt_gpu.arch);
    }
    DNN_CALL(rt, cudnnCreate(&handle));
    DNN_CALL(rt, cudnnSetStream(handle, rt_gpu.stream[RT_COMPUTE]));
    rt_tune_also(rt->trainer->sites != NULL ? rt_cudnn_choose : rt_cudnn_steady);
}

const char *rt_cudnn_name(void)
{
    static char text[32];
    snprintf(text, sizeof text, "cuDNN %zu", cudnnGetVersion());
    return text;
}

const char *rt_cudnn_text(const RtAttention *a, char text[RT_DNN_TEXT])
{
    snprintf(text, RT_DNN_TEXT,
             "attention%s of %lld x %lld tokens, %lld heads of %lld, %lld wide",
             a->backward ? " backward" : "", (long long)a->sequences, (long long)a->seq,
             (long long)a->heads, (long long)a->kv_heads, (long long)a->head_dim);
    return text;
}

const RtAttention *rt_cudnn_attention(int i)
{
    return i < n_plans ? prepared[i] : NULL;
}

void rt_attention_prepare(RtAttention *a)
{
    char text[RT_DNN_TEXT], why[512] = "";
    if (n_plans == MAX_PLANS)
        rt_fail(this_rank, RT_EXIT_ERROR, "more than %d distinct attentions", MAX_PLANS);
    prepared[n_plans] = a;
    RtDnnPlan *plan = &plans[n_plans++];
    if (!rt_dnn_plan(a, handle, NULL, a->workspace_bytes - rt_dnn_delta_bytes(a), plan,
                     why, sizeof why)) {
        rt_fail(this_rank, RT_EXIT_ERROR,
                "cuDNN %zu cannot do %s on %s: %s; generate without target.attention = "
                "\"cudnn\"",
                cudnnGetVersion(), rt_cudnn_text(a, text), rt_gpu.name, why);
    }
    a->plan = plan;
    if (this_rank->rank == 0 && this_rank->state->flags.verbose) {
        fprintf(rt_words(this_rank), "%s: %s, engine %lld, workspace %lld bytes\n",
                rt_cudnn_text(a, text), rt_cudnn_name(), (long long)plan->engine,
                (long long)plan->workspace_bytes);
    }
}

/* Flops of the products over the pairs that the mask leaves: two products, or five in the
 * backward. */
static double flops_of(const RtAttention *a)
{
    const double s = (double)a->seq;
    const double w = a->window > 0 && a->window < a->seq ? (double)a->window : s;
    const double seen = w * (w + 1) / 2 + (s - w) * w;
    return (a->backward ? 10.0 : 4.0) * (double)(a->sequences * a->heads * a->head_dim) *
           seen;
}

/* at: where each tensor is, by its number; NULL: not used. */
static void run(Rt *rt, const RtAttention *a, void *at[RT_DNN_TENSORS], void *workspace)
{
    /* Versions before 9.10 do not accept infinity here. */
    float scale = a->scale, window = (float)a->window, one = 1.0f;
    float hidden = cudnnGetVersion() < 91000 ? -FLT_MAX : -INFINITY;
    const RtDnnPlan *plan = a->plan;
    const bool profiled = rt->state->flags.profile != NULL;
    int64_t number[RT_DNN_TENSORS];
    void *pointer[RT_DNN_TENSORS];
    char text[RT_DNN_TEXT];
    int n = 0;
    at[RT_DNN_SCALE] = &scale;
    at[RT_DNN_HIDDEN] = &hidden;
    at[RT_DNN_WINDOW] = a->window > 0 && a->window < a->seq ? &window : NULL;
    at[RT_DNN_ONE] = a->backward ? &one : NULL;
    for (int64_t i = RT_DNN_Q; i < RT_DNN_TENSORS; i++) {
        if (at[i] != NULL) {
            number[n] = i;
            pointer[n++] = at[i];
        }
    }
    if (profiled) {
        rt_profile_from(rt, rt_gpu.stream[RT_COMPUTE], rt_cudnn_text(a, text),
                        flops_of(a));
    }
    cudnnBackendDescriptor_t pack;
    DNN_CALL(rt,
             cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
    DNN_CALL(rt, cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                          CUDNN_TYPE_INT64, n, number));
    DNN_CALL(rt, cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                          CUDNN_TYPE_VOID_PTR, n, pointer));
    DNN_CALL(rt, cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                          CUDNN_TYPE_VOID_PTR, 1, &workspace));
    DNN_CALL(rt, cudnnBackendFinalize(pack));
    DNN_CALL(rt, cudnnBackendExecute(handle, plan->plan, pack));
    DNN_CALL(rt, cudnnBackendDestroyDescriptor(pack));
    if (profiled)
        rt_profile_to(rt, rt_gpu.stream[RT_COMPUTE]);
}

void rt_attention(Rt *rt, const RtAttention *a, const void *q, const void *k,
                  const void *v, void *o, float *lse, void *workspace)
{
    run(rt, a,
        (void *[RT_DNN_TENSORS]){[RT_DNN_Q] = (void *)q,
                                 [RT_DNN_K] = (void *)k,
                                 [RT_DNN_V] = (void *)v,
                                 [RT_DNN_O] = o,
                                 [RT_DNN_LSE] = lse},
        workspace);
}

void rt_attention_backward(Rt *rt, const RtAttention *a, const void *q, const void *k,
                           const void *v, const void *o, const float *lse,
                           const void *d_o, void *dq, void *dk, void *dv, void *workspace)
{
    run(rt, a,
        (void *[RT_DNN_TENSORS]){[RT_DNN_Q] = (void *)q,
                                 [RT_DNN_K] = (void *)k,
                                 [RT_DNN_V] = (void *)v,
                                 [RT_DNN_O] = (void *)o,
                                 [RT_DNN_LSE] = (void *)lse,
                                 [RT_DNN_D_O] = (void *)d_o,
                                 [RT_DNN_DELTA] = workspace,
                                 [RT_DNN_DQ] = dq,
                                 [RT_DNN_DK] = dk,
                                 [RT_DNN_DV] = dv},
        (char *)workspace + rt_dnn_delta_bytes(a));
}
