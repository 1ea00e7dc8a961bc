/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c: which GPUs are here? Out: "devices sm_XX MiB-free driver runtime name" of the
 * first; exit code 1 and the reason where there is none. */
#include <cuda_runtime_api.h>
#include <stdio.h>

int main(void)
{
    struct cudaDeviceProp p;
    int devices = 0, driver = 0, runtime = 0;
    size_t free_bytes = 0, total_bytes = 0;
    cudaError_t error = cudaGetDeviceCount(&devices);

    if (error == cudaSuccess)
        error = cudaSetDevice(0);
    if (error == cudaSuccess)
        error = cudaMemGetInfo(&free_bytes, &total_bytes);
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(&p, 0);
    if (error != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        return 1;
    }
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    printf("%d sm_%d%d%s %zu %d %d %s\n", devices, p.major, p.minor,
           p.major >= 9 ? "a" : "", free_bytes >> 20, driver, runtime, p.name);
    return 0;
}
