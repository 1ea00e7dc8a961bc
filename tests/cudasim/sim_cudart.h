/* SPDX-License-Identifier: Apache-2.0 */
/* sim_cudart.h: what the stand-ins for the CUDA runtime, cuBLASLt, NCCL and NVRTC share.
 * The environment plants what may go wrong, and says what the device is:
 *
 *   CUDASIM_SEED=N: another order of threads, blocks and streams
 *
 *   CUDASIM_DROP_WAIT=N: the N-th wait of a stream for an event, from 0, does nothing
 *
 *   CUDASIM_FAIL=NAME:N: the N-th call of that function, from 0, fails
 *
 *   CUDASIM_LOST=RANK:N: the process of that NCCL rank dies at its N-th collective, from
 * 0
 *
 *   CUDASIM_DEVICES=N: of the machine (8); CUDASIM_DRIVER=NNNNN: the driver (13000)
 *
 *   CUDASIM_MEMORY=BYTES: of a device (80 GiB); CUDASIM_L2=BYTES: its cache (50 MiB)
 *
 *   CUDASIM_KERNEL_US=N, CUDASIM_CUDNN_US=N: what a kernel and a graph of cuDNN take on the
 * simulated clock (0)
 *
 *   CUDASIM_ARCH=NN: its architecture (90); CUDASIM_MULTIPROCESSORS=N: how many (132)
 *
 *   CUDASIM_CTAS=FILE: gets what communicators may take (sim_nccl.h)
 *   CUDASIM_ORDER=FILE: gets the calls of collectives in their order (sim_nccl.h)
 *
 *   CUDASIM_ALGORITHMS=N: that cuBLASLt has for a product (5; see sim_cublaslt.c) */
#ifndef SIM_CUDART_H
#define SIM_CUDART_H

#include "sim_stream.h"

int64_t sim_setting(const char *name, int64_t otherwise);
size_t sim_memory_bytes(void); /* of the device */
/* True when this call of the function is to fail. */
bool sim_planted(const char *function);
/* True once the device has met a problem; shows it the first time. */
bool sim_broken(void);

/* Takes the lock for the rest of the block. */
static inline int sim_enter(void)
{
    sim_lock();
    return 0;
}
static inline void sim_leave(int *held)
{
    (void)held;
    sim_unlock();
}
#define SIM_LOCKED int held __attribute__((cleanup(sim_leave), unused)) = sim_enter()

/* Instead of its file's BEGIN, in a function of the CUDA runtime that a thread must not
 * call while it captures. */
#define BEGIN_UNCAPTURED                                                                 \
    BEGIN;                                                                               \
    if (sim_capture_spoilt())                                                            \
    return sim_result(cudaErrorStreamCaptureUnsupported)

#endif
