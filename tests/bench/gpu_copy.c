/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_copy.c: a ceiling of tests/bench/gpu.sh: how fast the device copies its own memory,
 * the median of many copies of a buffer many times its cache. Out: "copy: X GB/s", bytes
 * read and written. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#define CALL(call)                                                                       \
    do {                                                                                 \
        const cudaError_t error_ = (call);                                               \
        if (error_ != cudaSuccess) {                                                     \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));              \
            return 1;                                                                    \
        }                                                                                \
    } while (0)

enum { RUNS = 31 };

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    const size_t bytes = (size_t)(argc > 1 ? atoll(argv[1]) : 4LL << 30);
    float ms[RUNS];
    char *from, *to;
    cudaEvent_t begun, done;

    CALL(cudaMalloc((void **)&from, bytes));
    CALL(cudaMalloc((void **)&to, bytes));
    CALL(cudaMemset(from, 0x5a, bytes));
    CALL(cudaEventCreate(&begun));
    CALL(cudaEventCreate(&done));
    for (int i = -3; i < RUNS; i++) {
        CALL(cudaEventRecord(begun, NULL));
        CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, NULL));
        CALL(cudaEventRecord(done, NULL));
        CALL(cudaEventSynchronize(done));
        if (i >= 0)
            CALL(cudaEventElapsedTime(&ms[i], begun, done));
    }
    qsort(ms, RUNS, sizeof *ms, compare);
    printf("copy: %.1f GB/s\n", 2e-6 * (double)bytes / (double)ms[RUNS / 2]);
    return 0;
}
