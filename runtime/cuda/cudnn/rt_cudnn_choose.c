/* SPDX-License-Identifier: MIT-0 */
/* rt_cudnn_choose.c: trainer --tune-kernels of a trainer with both kernels of each
 * attention (target.attention = "tune"). In: its sites, an idle GPU. Out: for each op of
 * a site a line with both times; attention.lua, which the next generation reads.
 *
 * 1. As of products (rt_tune.c): operands are random, the L2 cache is overwritten before
 *    each timed run, and the median of a few runs counts.
 * 2. cuDNN is excluded where its bits vary: runs with a cold and a warm cache, alone and
 *    beside other work, are compared.
 * 3. One kernel runs a site's forward and backward, because what passes between them has
 *    a layout of that kernel. So the sum of both times decides. A hundredth is noise, for
 *    which no library is worth having.
 * 4. The choice is an input of the generator. No run ever makes it. */
#include "cuda/rt_blas.h"
#include "cuda/rt_cudnn.h"
#include "job/rt_out.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SITES = 64, RUNS = RT_DNN_RUNS };

typedef void Call(Rt *rt, char *at);

typedef struct Choose {
    Rt *rt;
    const RtSite *site;
    char *at, *flush;
    int64_t flush_bytes;
    cudaEvent_t from, to;
} Choose;

/* The ops of a site together. */
typedef struct Verdict {
    const char *site;
    float library_us, generated_us;
    bool unsteady;
} Verdict;

static void overwrite_cache(const Choose *c, int stream)
{
    RT_CUDA_CALL(c->rt, cudaMemsetAsync(c->flush, 1, (size_t)c->flush_bytes,
                                        rt_gpu.stream[stream]));
}

static float measure(const Choose *c, Call *call)
{
    cudaStream_t compute = rt_gpu.stream[RT_COMPUTE];
    float ms[RUNS + 1];
    for (int i = 0; i <= RUNS; i++) { /* the first run loads the kernel */
        overwrite_cache(c, RT_COMPUTE);
        RT_CUDA_CALL(c->rt, cudaEventRecord(c->from, compute));
        call(c->rt, c->at);
        RT_CUDA_CALL(c->rt, cudaEventRecord(c->to, compute));
        rt_gpu_drain(c->rt);
        RT_CUDA_CALL(c->rt, cudaEventElapsedTime(&ms[i], c->from, c->to));
    }
    return rt_dnn_median(ms + 1, RUNS);
}

/* The run in which the library's bits were others; 0: the same each time. */
static int differs(const Choose *c)
{
    const RtSite *s = c->site;
    uint64_t first = 0;
    for (int i = 0; i < RUNS; i++) {
        RT_CUDA_CALL(c->rt, cudaMemsetAsync(c->at + s->out, 0, (size_t)s->out_bytes,
                                            rt_gpu.stream[RT_COMPUTE]));
        if (i % 2 == 0)
            overwrite_cache(c, i == 0 ? RT_COMPUTE : RT_GATHER);
        s->library(c->rt, c->at);
        rt_gpu_drain(c->rt);
        const uint64_t now = rt_dnn_bits(c->rt, c->at + s->out, s->out_bytes, 0);
        if (i > 0 && now != first)
            return i + 1;
        first = now;
    }
    return 0;
}

static void compare(Choose *c, const RtSite *s, Verdict *v)
{
    c->site = s;
    c->at = rt_dnn_allocate(c->rt, s->bytes);
    rt_dnn_fill(c->rt, c->at, s->bytes, c->rt->trainer->param_dtype, 1);
    const int run = differs(c);
    const float library_us = measure(c, s->library);
    const float generated_us = measure(c, s->generated);
    RT_CUDA_CALL(c->rt, cudaFree(c->at));
    v->library_us += library_us;
    v->generated_us += generated_us;
    v->unsteady |= run > 0;
    printf("%s %s: %s %.1f us, generated %.1f us", s->op, s->site, rt_cudnn_name(),
           (double)library_us, (double)generated_us);
    if (run > 0)
        printf("; its bits were others in run %d", run);
    printf("\n");
    fflush(stdout);
}

/* The place of the site among those already seen, or the next one. */
static int place_of(const Verdict *v, int n, const char *site)
{
    int i = 0;
    while (i < n && strcmp(v[i].site, site) != 0)
        i++;
    return i;
}

/* ---- the file -------------------------------------------------------------------- */

static const char begins[] =
    "-- Kernels of attention, measured by trainer --tune-kernels.";

/* Beside the algorithms of products. Before anything is measured: a file that says
 * something else stays. */
static void find_path(Rt *rt, char path[PATH_MAX])
{
    if (!rt_kernels_path(&rt->state->flags, "attention.lua", path))
        rt_fail(rt, RT_EXIT_ERROR, "attention.lua beside %.500s: %s", rt_wisdom_path(),
                strerror(ENAMETOOLONG));
    if (!rt_output_may_replace(path, begins)) {
        rt_fail(rt, RT_EXIT_ERROR,
                "%.500s: the file is there and does not begin as what --tune-kernels "
                "writes: move it, or name a file in another folder with --kernels",
                path);
    }
}

static void put(FILE *f, const Verdict *v, int n)
{
    int runtime = 0;
    char gpu[128];
    cudaRuntimeGetVersion(&runtime);
    snprintf(gpu, sizeof gpu, "%s", rt_gpu.name);
    for (char *p = gpu; *p != '\0'; p++)
        if (*p < ' ' || *p > '~' || *p == '"' || *p == '\\')
            *p = '?';
    fprintf(f,
            "%s The next generation reads them:\n"
            "--     attention = \"auto\", attention_choices = require \"attention\"\n"
            "return {\n"
            "    gpu = \"%s\", arch = \"%s\", cudnn = %zu, cuda = %d,\n"
            "    sites = {\n",
            begins, gpu, rt_gpu.arch, cudnnGetVersion(), runtime);
    for (int i = 0; i < n; i++) {
        const bool library =
            !v[i].unsteady && v[i].library_us < 0.99f * v[i].generated_us;
        fprintf(f,
                "        -- cuDNN %.1f us%s, generated %.1f us\n"
                "        { site = \"%s\", kernels = \"%s\" },\n",
                (double)v[i].library_us, v[i].unsteady ? ", but its bits vary" : "",
                (double)v[i].generated_us, v[i].site, library ? "cudnn" : "generated");
    }
    fprintf(f, "    },\n}\n");
}

static void write_choices(Rt *rt, const char *path, const Verdict *v, int n)
{
    static RtOutput out;
    const bool begun = rt_output_begin(&out, path, begins);
    if (begun)
        put(out.f, v, n);
    if (!begun || !rt_output_end(rt, &out))
        rt_fail(rt, RT_EXIT_ERROR, "%.500s cannot be written: %s", path,
                rt_output_reason());
    printf("%d choices of attention are in %s\n", n, path);
}

void rt_cudnn_choose(Rt *rt)
{
    Choose c = {.rt = rt};
    Verdict verdict[MAX_SITES] = {{.site = NULL}};
    int cache_bytes = 0, n = 0;
    char path[PATH_MAX];
    find_path(rt, path);
    RT_CUDA_CALL(
        rt, cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, rt_gpu.index));
    c.flush_bytes = 2 * (int64_t)cache_bytes + 1;
    c.flush = rt_dnn_allocate(rt, c.flush_bytes);
    RT_CUDA_CALL(rt, cudaEventCreate(&c.from));
    RT_CUDA_CALL(rt, cudaEventCreate(&c.to));
    for (const RtSite *s = rt->trainer->sites; s->site != NULL; s++) {
        const int i = place_of(verdict, n, s->site);
        if (i == MAX_SITES)
            rt_fail(rt, RT_EXIT_ERROR, "more than %d sites of attention", MAX_SITES);
        n = i == n ? n + 1 : n;
        verdict[i].site = s->site;
        compare(&c, s, &verdict[i]);
    }
    RT_CUDA_CALL(rt, cudaEventDestroy(c.from));
    RT_CUDA_CALL(rt, cudaEventDestroy(c.to));
    RT_CUDA_CALL(rt, cudaFree(c.flush));
    write_choices(rt, path, verdict, n);
}
