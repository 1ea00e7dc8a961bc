/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_plans.c: the attentions of an emitted trainer, planned by cuDNN without a GPU.
 * In: PLANS, its RtAttention structures as kernels.c has them; LIST, ENTRY(name) of each.
 * Out: a line each with engine and workspace; exit code 1 where the library has no plan
 * within the workspace that the trainer has planned. The device is described, not there:
 * an H100. */
#include "rt_cudnn.h"

#include <stdio.h>
#include <string.h>

#include PLANS

static const struct {
    const char *name;
    const RtAttention *attention;
} all[] = {
#define ENTRY(name) {#name, &name},
#include LIST
};

static const char h100[] =
    "{\"deviceName\": \"NVIDIA H100 80GB HBM3\", \"deviceVer\": 900, \"driverVer\": "
    "13000, "
    "\"cudaDeviceId\": 0, \"pciDeviceId\": 0, \"isTccDriver\": 0, \"supportCoopLaunch\": "
    "1, "
    "\"multiProcessorCount\": 132, \"totalGlobalMem\": 84942979072, "
    "\"l2CacheSize\": 52428800, \"smClockRateKHz\": 1980000, \"memClockRateKHz\": "
    "2619000, "
    "\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], "
    "\"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, \"maxCtasPerSM\": 32, "
    "\"warpSize\": 32, \"regsPerBlock\": 65536, \"maxRegistersPerSM\": 65536, "
    "\"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": 232448, "
    "\"reservedSharedMemoryPerBlock\": 1024}";

int main(void)
{
    cudnnBackendDescriptor_t device = NULL;
    int bad = 0;

    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device) != 0 ||
        cudnnBackendSetAttribute(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                 CUDNN_TYPE_CHAR, (int64_t)strlen(h100), h100) != 0 ||
        cudnnBackendFinalize(device) != 0) {
        printf("cuDNN %zu takes no described device\n", cudnnGetVersion());
        return 1;
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const RtAttention *a = all[i].attention;
        const int64_t most = a->workspace_bytes - rt_dnn_delta_bytes(a);
        char why[512] = "";
        RtDnnPlan plan;

        if (rt_dnn_plan(a, NULL, device, most, &plan, why, sizeof why)) {
            printf("%s: engine %lld, workspace %lld of %lld bytes\n", all[i].name,
                   (long long)plan.engine, (long long)plan.workspace_bytes,
                   (long long)most);
        } else {
            printf("%s: %s\n", all[i].name, why);
            bad = 1;
        }
    }
    return bad;
}
