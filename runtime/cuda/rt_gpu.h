/* SPDX-License-Identifier: MIT-0 */
/* rt_gpu.h: what the files of this folder share: the rank's device, its streams, and the wrapper of
 * library calls. One process is one rank with one device. */
#ifndef RT_GPU_H
#define RT_GPU_H

#include "job/rt_job.h"
#include "rt_target.h"
#include "state/rt_state.h"
#include "cuda/rt_control.h"
#include "cuda/rt_cuda.h"

#include <cuda_runtime_api.h>

/* Ends the rank with the call and the library's reason if it fails. */
#define RT_CUDA_CALL(rt, call)                                                           \
    do {                                                                                 \
        const cudaError_t error_ = (call);                                               \
        if (error_ != cudaSuccess) {                                                     \
            rt_cuda_failed(rt, #call, error_);                                           \
        }                                                                                \
    } while (0)
_Noreturn void rt_cuda_failed(const Rt *rt, const char *call, cudaError_t error);

/* Streams of the device: RT_GATHER and RT_REDUCE of rt.h, which are one, and these: of the
 * mathematics, of progress reports to the host, and of sums that are added slice by slice. */
enum { RT_COMPUTE = 2, RT_PLACES = 3, RT_ADDS = 4, RT_DEVICE_STREAMS = 5 };

/* Device memory outside the arena, as measured, by owner. */
typedef enum {
    RT_OUT_CONTEXT,
    RT_OUT_ARENA, /* the arena itself, rounded up by the allocator */
    RT_OUT_KERNELS,
    RT_OUT_BLAS,
    RT_OUT_NCCL,
    RT_OUT_LATER,  /* what libraries load at first use */
    RT_OUT_GRAPHS, /* CUDA graphs */
    RT_OUT_KINDS
} RtOutside;

typedef struct RtGpu {
    int index;
    char name[128];
    char arch[16]; /* "sm_90" */
    int multiprocessors;
    int64_t total_bytes;
    cudaStream_t stream[RT_DEVICE_STREAMS];
    int64_t free_bytes; /* at the last measurement */
    int64_t outside[RT_OUT_KINDS];
    const char *image; /* "sm_90a", or "compiled at start" */
    char during[192];  /* for messages: " while layers.1 forward was captured", or "" */
} RtGpu;
extern RtGpu rt_gpu;

/* ---- rt_gpu.c -------------------------------------------------------------------- */

/* Takes the rank's device, or ends with the problem and what to do. */
void rt_gpu_open(Rt *rt);
/* Checks that the arena fits the free memory. */
void rt_gpu_expect(Rt *rt, int64_t bytes);
/* Attributes what became used since the last measurement to `kind`. */
void rt_gpu_measure(RtOutside kind);
/* Waits until the device has reached the event; or until everything enqueued is complete. Both
 * leave if the job is aborted meanwhile. */
void rt_gpu_reach(Rt *rt, cudaEvent_t event);
void rt_gpu_drain(Rt *rt);

/* ---- rt_cache.c: only if kernels are compiled at start --------------------------- */

/* Entries are found by what they were made from, a text of at most this length. */
enum { RT_MADE_OF_BYTES = 1024 };
void rt_cache_open(const Rt *rt);
/* NULL: not found. The caller frees it. */
char *rt_cache_find(const char *made_of, size_t *bytes);
void rt_cache_keep(const char *made_of, const void *image, size_t bytes);
void rt_cache_close(void);

/* ---- rt_image.c, rt_jit.c -------------------------------------------------------- */

typedef struct RtImage {
    const char *name; /* "sm_90a"; for a source: "rt_device_h" */
    const char *from, *to;
} RtImage;
extern const RtImage rt_images[];
extern const int rt_n_images;
void rt_image_load(Rt *rt);
/* Cubins for the device that together have all kernels, compiled now or earlier; the caller frees
 * nothing. */
enum { RT_PROGRAMS = 6 };
void rt_jit(Rt *rt, const RtImage *sources, int n_sources,
            const void *images[RT_PROGRAMS]);

/* ---- rt_arena.c ------------------------------------------------------------------ */

/* Frees the arena's memory; the rank keeps only its libraries. */
void rt_arena_free(Rt *rt);

/* ---- rt_blas.c ------------------------------------------------------------------- */

void rt_blas_open(Rt *rt);

/* ---- rt_cudnn.c: only if target.attention is "cudnn" ----------------------------- */

void rt_cudnn_open(Rt *rt);
const char *rt_cudnn_name(void); /* and version: for the platform hash */

/* ---- rt_comm.c ------------------------------------------------------------------- */

void rt_comm_open(Rt *rt);
/* Reports the device's progress to the watchers. */
void rt_places_passed(Rt *rt);

/* The compute stream takes its turn on the stream of collectives: what is enqueued there between
 * begin and end comes after what the compute stream has, and before what it gets then. */
void rt_detour_begin(Rt *rt);
void rt_detour_end(Rt *rt);
/* Starts that were held begin. */
void rt_held_begin(Rt *rt);
/* Between begin and end, enqueued work becomes a graph, which ends when all streams have joined. */
void rt_capture_begin(Rt *rt);
void rt_capture_end(Rt *rt, cudaGraph_t *graph);

/* ---- rt_graph.c ------------------------------------------------------------------ */

/* After the first step: captures the parts that it ran as graphs. */
void rt_graphs_capture(Rt *rt);
/* Before the communicators that they have captured are closed. */
void rt_graphs_close(Rt *rt);

/* ---- ranks/: only in trainers with several ranks --------------------------------- */

/* What this rank sends to another one of the group, and receives from it. */
typedef struct RtParcel {
    int peer; /* its number in the group */
    const void *send;
    int64_t send_bytes;
    void *receive;
    int64_t receive_bytes;
} RtParcel;

/* Carries bytes between ranks. All ranks make the same calls in the same order. */
typedef struct RtTransport {
    const char *(*name)(void); /* and version: for the platform hash */
    /* The symmetric space; both NULL: any device memory will do. */
    char *(*allocate)(Rt *rt, int64_t bytes);
    void (*release)(Rt *rt, char *at);
    void (*open)(Rt *rt);
    /* A gather. stream: RT_GATHER or RT_REDUCE, by which a library may choose how it moves bytes. */
    void (*gather)(Rt *rt, int stream, const RtOp *op);
    /* n parcels; those to the rank itself are omitted. What one rank sends to another arrives in
     * the order in which both name it. No pair of ranks exchanges more than most_bytes, a number
     * that all ranks know. ctas: RtOp's. */
    void (*exchange)(Rt *rt, int stream, RtGroup group, int ctas, const RtParcel *parcel,
                     int n, int64_t most_bytes);
    /* A sum in the library's own order; NULL without a library. */
    void (*sum)(Rt *rt, int stream, const RtOp *op);
    /* Sums over all ranks, in place, on the gather stream: the control area's words, losses. */
    void (*control)(Rt *rt, void *words, int64_t n_words, void *losses, int64_t n_losses);
    /* The largest of all ranks, likewise. */
    void (*largest)(Rt *rt, int32_t *words, int64_t n_words);
    void (*check)(const Rt *rt); /* ends the rank if a collective has failed */
    void (*close)(Rt *rt);
} RtTransport;
extern const RtTransport rt_nccl, rt_loopback;
extern const RtTransport *rt_transport; /* chosen with the device */

/* rt_tree.c: enqueues the work of a collective on its stream. rt_exchange.c: the same for an
 * exchange. */
void rt_execute(Rt *rt, int stream, const RtOp *op);
void rt_tree_open(Rt *rt); /* before that */
void rt_exchange(Rt *rt, int stream, const RtOp *op);
/* The loopback's part of the memory shared by ranks. */
int64_t rt_loopback_bytes(const RtTrainer *t);
void rt_loopback_map(Rt *rt, int fd, int64_t offset);

/* ---- rt_norm.c ------------------------------------------------------------------- */

void rt_norm_open(Rt *rt);
void rt_norm_results(Rt *rt); /* the step is complete: copies its results to RtState */
/* Moves the loss of the current micro-batch to where the step's are added. */
void rt_loss_put(Rt *rt);
/* to = the tree over parts, each of `elems` elements, which are whole grains. At most `ctas`
 * multiprocessors add; 0: as many as memory keeps busy. */
void rt_add_parts(Rt *rt, cudaStream_t stream, const RtRankParts *parts, int64_t elems, void *to,
                  int ctas);

/* ---- rt_stage.c ------------------------------------------------------------------ */

void rt_stage_open(Rt *rt);

/* ---- rt_parts.c ------------------------------------------------------------------ */

void rt_parts_open(Rt *rt); /* of a step that is computed in parts */

/* ---- rt_profile.c: with --profile ------------------------------------------------ */

/* Around work enqueued on the stream; flops of a product, or 0. */
void rt_profile_from(Rt *rt, cudaStream_t stream, const char *name, double flops);
void rt_profile_to(Rt *rt, cudaStream_t stream);
void rt_profile_begin(const Rt *rt); /* of a step */
void rt_profile_step(Rt *rt);        /* after the device has finished it */
void rt_profile_end(Rt *rt);         /* writes the file */

/* rt_launch on another stream. */
void rt_launch_on(Rt *rt, cudaStream_t stream, const RtKernel *k, int64_t blocks_x,
                  int64_t blocks_y, void **args);

#endif
