/* SPDX-License-Identifier: MIT-0 */
/* rt_gpu.h: what the files of this folder share: the rank's device, its streams, and what
 * every call of a library goes through. One process is one rank and has one device. */
#ifndef RT_GPU_H
#define RT_GPU_H

#include "job/rt_job.h"
#include "rt_target.h"
#include "state/rt_state.h"
#include "cuda/rt_control.h"
#include "cuda/rt_cuda.h"

#include <cuda_runtime_api.h>

/* Ends the rank with the call and the library's reason, unless it succeeded. */
#define RT_CUDA_CALL(rt, call)                                                           \
    do {                                                                                 \
        const cudaError_t error_ = (call);                                               \
        if (error_ != cudaSuccess) {                                                     \
            rt_cuda_failed(rt, #call, error_);                                           \
        }                                                                                \
    } while (0)
_Noreturn void rt_cuda_failed(const Rt *rt, const char *call, cudaError_t error);

/* Streams of the device: RT_GATHER, RT_REDUCE of rt.h, and these: of the mathematics, and
 * of what tells the host how far that is. */
enum { RT_COMPUTE = 2, RT_PLACES = 3, RT_DEVICE_STREAMS = 4 };

/* Device memory outside of the arena, as it was measured: who took how much. */
typedef enum {
    RT_OUT_CONTEXT,
    RT_OUT_ARENA, /* the arena itself, as the allocator rounds it */
    RT_OUT_KERNELS,
    RT_OUT_BLAS,
    RT_OUT_NCCL,
    RT_OUT_LATER,  /* what libraries load when first used */
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
    int64_t free_bytes; /* when last measured */
    int64_t outside[RT_OUT_KINDS];
    const char *image; /* "sm_90a", or "compiled at start" */
    char during[192];  /* for messages: " while layers.1 forward was captured", or "" */
} RtGpu;
extern RtGpu rt_gpu;

/* ---- rt_gpu.c -------------------------------------------------------------------- */

/* Takes the rank's device, or ends with what is wrong and what to do. */
void rt_gpu_open(Rt *rt);
/* The arena must fit what is free. */
void rt_gpu_expect(Rt *rt, int64_t bytes);
/* What became used since the last measurement belongs to `kind`. */
void rt_gpu_measure(RtOutside kind);
/* Until the device has come to the event; until all that was enqueued is complete. Both
 * leave when the job is aborted meanwhile. */
void rt_gpu_reach(Rt *rt, cudaEvent_t event);
void rt_gpu_drain(Rt *rt);

/* ---- rt_cache.c: only where kernels are compiled at start ------------------------ */

/* What is kept is found by what it was made of, a text of at most so many letters. */
enum { RT_MADE_OF_BYTES = 1024 };
void rt_cache_open(const Rt *rt);
/* NULL: it is not there. The caller frees it. */
char *rt_cache_find(const char *made_of, size_t *bytes);
void rt_cache_keep(const char *made_of, const void *image, size_t bytes);
void rt_cache_close(void);

/* ---- rt_image.c, rt_jit.c -------------------------------------------------------- */

typedef struct RtImage {
    const char *name; /* "sm_90a"; of a source: "rt_device_h" */
    const char *from, *to;
} RtImage;
extern const RtImage rt_images[];
extern const int rt_n_images;
void rt_image_load(Rt *rt);
/* Cubins for the device that have all kernels together, compiled now or earlier; the
 * caller frees nothing. */
enum { RT_PROGRAMS = 6 };
void rt_jit(Rt *rt, const RtImage *sources, int n_sources,
            const void *images[RT_PROGRAMS]);

/* ---- rt_arena.c ------------------------------------------------------------------ */

/* Gives the arena's memory back; nothing of the rank is left but its libraries. */
void rt_arena_free(Rt *rt);

/* ---- rt_blas.c ------------------------------------------------------------------- */

void rt_blas_open(Rt *rt);

/* ---- rt_cudnn.c: only where target.attention is "cudnn" -------------------------- */

void rt_cudnn_open(Rt *rt);
const char *rt_cudnn_name(void); /* and version: for the platform hash */

/* ---- rt_comm.c ------------------------------------------------------------------- */

void rt_comm_open(Rt *rt);
/* Tells the watchers how far the device has come. */
void rt_places_passed(Rt *rt);

/* From begin to end what is enqueued becomes a graph, which ends when all streams have
 * joined. */
void rt_capture_begin(Rt *rt);
void rt_capture_end(Rt *rt, cudaGraph_t *graph);

/* ---- rt_graph.c ------------------------------------------------------------------ */

/* After the first step: the parts that it ran become graphs. */
void rt_graphs_capture(Rt *rt);
/* Before any communicator goes that they have captured. */
void rt_graphs_close(Rt *rt);

/* ---- ranks/: only in trainers of several ranks ----------------------------------- */

/* What this rank sends to another one of the group, and has from it. */
typedef struct RtParcel {
    int peer; /* the peer-th of the group */
    const void *send;
    int64_t send_bytes;
    void *receive;
    int64_t receive_bytes;
} RtParcel;

/* What carries bytes between ranks. All ranks make the same calls in the same order. */
typedef struct RtTransport {
    const char *(*name)(void); /* and version: for the platform hash */
    /* The symmetric space; both NULL: any memory of the device will do. */
    char *(*allocate)(Rt *rt, int64_t bytes);
    void (*release)(Rt *rt, char *at);
    void (*open)(Rt *rt);
    /* A gather; on the gather or the reduce stream, as those that follow. */
    void (*gather)(Rt *rt, int stream, const RtOp *op);
    /* n parcels; those to the rank itself are left out. What one rank sends to another
     * comes in the order in which both name it. From no rank to no other do more than
     * most_bytes go, a number that all ranks know. */
    void (*exchange)(Rt *rt, int stream, RtGroup group, const RtParcel *parcel, int n,
                     int64_t most_bytes);
    /* A sum in the library's own order; NULL where there is no library. */
    void (*sum)(Rt *rt, int stream, const RtOp *op);
    /* Sums over all ranks, in place, in the order of the compute stream: the control
     * area's words, losses. */
    void (*control)(Rt *rt, void *words, int64_t n_words, void *losses, int64_t n_losses);
    void (*check)(const Rt *rt); /* ends the rank when a collective has failed */
    void (*close)(Rt *rt);
} RtTransport;
extern const RtTransport rt_nccl, rt_loopback;
bool rt_nccl_keeps_order(void);         /* between its communicators */
extern const RtTransport *rt_transport; /* chosen with the device */

/* rt_tree.c: enqueues what a collective does on its stream. rt_exchange.c: the same of an
 * exchange. */
void rt_execute(Rt *rt, int stream, const RtOp *op);
void rt_exchange(Rt *rt, int stream, const RtOp *op);
/* The loopback's part of the memory that ranks share. */
int64_t rt_loopback_bytes(const RtTrainer *t);
void rt_loopback_map(Rt *rt, int fd, int64_t offset);

/* ---- rt_norm.c ------------------------------------------------------------------- */

void rt_norm_open(Rt *rt);
void rt_norm_results(Rt *rt); /* the step is complete: its results, to RtState */
/* The loss of the micro-batch that is here goes where those of the step are added. */
void rt_loss_put(Rt *rt);
void rt_add_parts(Rt *rt, cudaStream_t stream, const void *own, const void *staging,
                  int64_t stride, int mine, int ranks, int64_t elems, void *out);

/* ---- rt_stage.c ------------------------------------------------------------------ */

void rt_stage_open(Rt *rt);

/* ---- rt_profile.c: with --profile ------------------------------------------------ */

/* Around what is enqueued on the stream; flops of a product, or 0. */
void rt_profile_from(Rt *rt, cudaStream_t stream, const char *name, double flops);
void rt_profile_to(Rt *rt, cudaStream_t stream);
void rt_profile_begin(const Rt *rt); /* of a step */
void rt_profile_step(Rt *rt);        /* the device has done it */
void rt_profile_end(Rt *rt);         /* writes the file */

/* rt_launch on another stream. */
void rt_launch_on(Rt *rt, cudaStream_t stream, const RtKernel *k, int64_t blocks_x,
                  int64_t blocks_y, void **args);

#endif
