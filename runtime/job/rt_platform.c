/* SPDX-License-Identifier: MIT-0 */
/* rt_platform.c: what can change bits between machines, and the free memory of this one.
 * In: the build's flags, the code that computes (arithmetic.awk), the library of matrix
 * products, this CPU, which kernels run attention if there is a choice. Out: the platform
 * hash and the text it is made of. Libraries choose kernels by the CPU's model and
 * features, so both are included. */
#include "job/rt_job.h"
#include "rt_simd.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

static void describe_cpu(char *text, size_t bytes)
{
#if defined(__x86_64__)
    /* Arithmetic features only: other bits change with microcode and hypervisors. */
    const unsigned sse_fma = 1u << 12 | 1u << 20 | 1u << 28 | 1u << 29;
    const unsigned avx = 1u << 5 | 1u << 16 | 1u << 17 | 1u << 21 | 1u << 30 | 1u << 31;
    const unsigned vnni = 1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14;
    const unsigned amx = 1u << 2 | 1u << 3 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25;
    const unsigned bf16 = 1u << 4 | 1u << 5;
    unsigned a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, model = 0, basic = 0;
    if (__get_cpuid(1, &a, &b, &c, &d)) {
        model = a & 0x0FFF0FF0u; /* family and model, without stepping */
        basic = c & sse_fma;
    }
    a = b = c = d = 0;
    __get_cpuid_count(7, 0, &a, &b, &c, &d);
    if (a >= 1)
        __get_cpuid_count(7, 1, &e, &f, &g, &h);
    snprintf(text, bytes, "x86_64 %x %x-%x-%x-%x-%x", model, basic, b & avx, c & vnni,
             d & amx, e & bf16);
#elif defined(__aarch64__)
    snprintf(text, bytes, "aarch64 %lx-%lx", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
#else
    snprintf(text, bytes, "other");
#endif
}

uint64_t rt_platform_hash(const RtTrainer *t, char *text, size_t text_bytes)
{
    char cpu[96];
    describe_cpu(cpu, sizeof cpu);
    snprintf(text, text_bytes,
             "compiler %s; flags %s; code %s; vectors of %d bytes; gemm %s; cpu %s%s%s",
             __VERSION__, t->build_flags, t->arithmetic, RT_VEC_BYTES, rt_gemm_library(),
             cpu, t->choices != NULL ? "; attention " : "",
             t->choices != NULL ? t->choices : "");
    return rt_hash64(text, strlen(text), 1);
}

/* ---- memory of the machine ------------------------------------------------------- */

int64_t rt_host_free_bytes(void)
{
    const int64_t kib = rt_limits_number("/proc/meminfo", "MemAvailable:"),
                  left = rt_limits_memory_bytes("");
    return kib >= 0 && kib * 1024 < left ? kib * 1024 : left;
}
