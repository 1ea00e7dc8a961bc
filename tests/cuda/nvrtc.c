/* SPDX-License-Identifier: Apache-2.0 */
/* nvrtc.c: kernels as a trainer built with JIT=1 compiles them when it starts, by its own
 * rt_jit.c. In: an architecture, kernels.cu, the headers it includes. Out: on a first
 * line what the processor was busy, medians of RUNS (environment; 1): seconds of one
 * program with all kernels, of all the programs of a start, and of the longest of them,
 * which is how long a start takes where there is a core for each; then what ptxas says of
 * each kernel. Exit 1 with a message where something does not compile, or a kernel is not
 * in exactly one of the programs.
 *
 *   nvrtc sm_90a DIR/kernels.cu RUNTIME/rt_device.h ... */
#define _GNU_SOURCE
#define RT_JIT
#include "cuda/rt_jit.c"

#include <ctype.h>
#include <stdarg.h>
#include <sys/resource.h>

enum { MAX_RUNS = 15 };
RtGpu rt_gpu;

/* ---- what rt_jit.c asks of the runtime ------------------------------------------- */

void rt_fail(const Rt *rt, int code, const char *fmt, ...)
{
    va_list ap;

    (void)rt, (void)code;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\n");
    _exit(1);
}

/* Nothing is cached here. */
void rt_cache_open(const Rt *rt)
{
    (void)rt;
}

char *rt_cache_find(const char *made_of, size_t *bytes)
{
    (void)made_of, (void)bytes;
    return NULL;
}

void rt_cache_keep(const char *made_of, const void *image, size_t bytes)
{
    (void)made_of, (void)image, (void)bytes;
}

void rt_cache_close(void)
{
}

/* ---- the sources ----------------------------------------------------------------- */

static RtImage read_source(const char *path)
{
    static char names[MAX_SOURCES][32];
    static int n;
    const char *slash = strrchr(path, '/');
    FILE *f = fopen(path, "rb");
    const long bytes = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    char *ended = bytes > 0 ? calloc((size_t)bytes + 1, 1) : NULL;

    if (!ended || n == MAX_SOURCES || fseek(f, 0, SEEK_SET) != 0 ||
        fread(ended, 1, (size_t)bytes, f) != (size_t)bytes)
        rt_fail(NULL, 1, "nvrtc: cannot read %s", path);
    fclose(f);
    snprintf(names[n], sizeof names[n], "%s", slash ? slash + 1 : path);
    for (char *c = names[n]; *c; c++) /* as the Makefile names them */
        if (*c == '.')
            *c = '_';
    return (RtImage){names[n++], ended, ended + bytes};
}

/* ---- time ------------------------------------------------------------------------ */

static double busy(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, compare);
    return x[n / 2];
}

/* ---- one program with all kernels, and those of a start -------------------------- */

static double whole(Program *p, char **log)
{
    const char *const options[] = {p->arch, "--std=c++17", "--fmad=false",
                                   "--ptxas-options=-v"};
    const double start = busy();
    nvrtcProgram program = create(p);
    const nvrtcResult result = nvrtcCompileProgram(program, 4, options);
    const double seconds = busy() - start;
    size_t bytes = 0;

    nvrtcGetProgramLogSize(program, &bytes);
    *log = calloc(bytes + 1, 1);
    if (*log)
        nvrtcGetProgramLog(program, *log);
    if (result != NVRTC_SUCCESS)
        rt_fail(NULL, 1, "nvrtc: %s\n%s", nvrtcGetErrorString(result), *log ? *log : "");
    nvrtcDestroyProgram(&program);
    return seconds;
}

/* One after the other: together they would share what cores there are. */
static void start(Program *programs, const Kernel *kernels, int n, double *sum,
                  double *longest)
{
    *sum = *longest = 0;
    for (int i = 0; i < RT_PROGRAMS; i++) {
        const double from = busy();

        take_texts(&programs[i], i, kernels, n);
        compile(&programs[i]);
        const double seconds = busy() - from;
        *sum += seconds;
        *longest = seconds > *longest ? seconds : *longest;
    }
}

/* The section of its code is named after a kernel. */
static void look_for_all(const Program *programs, const RtImage *sources,
                         const Kernel *kernels, int n)
{
    for (int k = 0; k < n; k++) {
        const char *at = sources[kernels[k].source].from + kernels[k].at;
        char section[256] = ".text.";
        size_t length = 6;
        int found = 0;

        for (at = strchr(strchr(at + 1, '('), ')') + 1; isspace((unsigned char)*at);)
            at++;
        while ((isalnum((unsigned char)*at) || *at == '_') && length < 255)
            section[length++] = *at++;
        section[length] = '\0';
        for (int i = 0; i < RT_PROGRAMS; i++)
            found +=
                memmem(programs[i].image, programs[i].bytes, section, length + 1) != NULL;
        if (found != 1)
            rt_fail(NULL, 1, "nvrtc: %s is in %d programs", section, found);
    }
}

int main(int argc, char **argv)
{
    static Kernel kernels[MAX_KERNELS];
    static Program programs[RT_PROGRAMS], all;
    RtImage sources[MAX_SOURCES];
    double one[MAX_RUNS], sum[MAX_RUNS], longest[MAX_RUNS];
    char arch[64], *log = NULL;
    const char *text = getenv("RUNS");
    const int runs = text && atoi(text) > 0 && atoi(text) <= MAX_RUNS ? atoi(text) : 1;
    const int n_sources = argc - 2;

    if (argc < 3 || n_sources > MAX_SOURCES) {
        fprintf(stderr, "usage: nvrtc ARCH MATH.CU HEADER...\n");
        return 2;
    }
    for (int i = 0; i < n_sources; i++)
        sources[i] = read_source(argv[2 + i]);
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", argv[1]);
    const int n = find_kernels(NULL, sources, n_sources, kernels);
    share_out(kernels, n);
    for (int i = 0; i < RT_PROGRAMS; i++)
        programs[i] = (Program){NULL, sources, n_sources, .arch = arch};
    all = programs[0];
    take_texts(&all, -1, kernels, 0);
    for (int r = 0; r < runs; r++) {
        one[r] = whole(&all, &log);
        start(programs, kernels, n, &sum[r], &longest[r]);
    }
    look_for_all(programs, sources, kernels, n);
    printf("%.2f %.2f %.2f\n%s", median(one, runs), median(sum, runs),
           median(longest, runs), log ? log : "");
    return 0;
}
