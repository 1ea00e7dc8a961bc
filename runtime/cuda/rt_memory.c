/* SPDX-License-Identifier: MIT-0 */
/* rt_memory.c: the device memory of a rank, planned and measured. In: the plan's table,
 * free bytes measured while the rank started. Out: a table at start, a table at the end.
 * Memory outside the arena (the context, kernels, libraries) is listed by owner. */
#include "checkpoint/rt_checkpoint.h"
#include "cuda/rt_gpu.h"

static double mib(int64_t bytes)
{
    return (double)bytes / 1048576.0;
}

int64_t rt_memory_high_water_bytes(void)
{
    int64_t sum = 0;
    for (int k = 0; k < RT_OUT_KINDS; k++)
        sum += rt_gpu.outside[k];
    return sum;
}

/* The ranks check their devices. */
void rt_start_warn(const RtTrainer *t)
{
    (void)t;
}

/* It is in device memory. */
int64_t rt_arena_awaits_bytes(const Rt *rt)
{
    (void)rt;
    return 0;
}

void rt_memory_planned(const Rt *rt, FILE *out)
{
    const RtTrainer *t = rt->trainer;
    fprintf(out, "GPU memory of each rank, planned:\n");
    for (int i = 0; i < t->n_memory; i++)
        fprintf(out, "  %-28s %12.2f MiB\n", t->memory[i].what, mib(t->memory[i].bytes));
    fprintf(out, "  %-28s %12.2f MiB (%lld bytes, allocated once)\n", "arena",
            mib(t->symmetric_bytes + t->local_bytes),
            (long long)(t->symmetric_bytes + t->local_bytes));
    if (rt_snapshot_bytes(rt) > 0) {
        fprintf(out, "  %-28s %12.2f MiB of host memory\n", "copy for saves",
                mib(rt_snapshot_bytes(rt)));
    }
}

void rt_memory_resident(const Rt *rt, FILE *out)
{
    static const char *const names[RT_OUT_KINDS] = {
        [RT_OUT_CONTEXT] = "context, others' at start",
        [RT_OUT_ARENA] = "arena",
        [RT_OUT_KERNELS] = "kernels",
        [RT_OUT_BLAS] = "cuBLASLt",
        [RT_OUT_NCCL] = "NCCL, pinned memory",
        [RT_OUT_LATER] = "loaded at first use",
        [RT_OUT_GRAPHS] = "CUDA graphs",
    };
    fprintf(out, "memory of GPU %d, measured at the end of rank %d:\n", rt_gpu.index,
            rt->rank);
    for (int k = 0; k < RT_OUT_KINDS; k++)
        fprintf(out, "  %-28s %12.2f MiB\n", names[k], mib(rt_gpu.outside[k]));
    fprintf(out, "  %-28s %12.2f of %.2f MiB\n", "sum", mib(rt_memory_high_water_bytes()),
            mib(rt_gpu.total_bytes));
}
