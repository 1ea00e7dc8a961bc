/* SPDX-License-Identifier: MIT-0 */
/* rt_jit.c: with JIT=1, kernels compiled when the trainer starts. In: the sources that
 * make put into it, the device. Out: cubins, from NVRTC or from the last run: they are
 * kept in $XDG_CACHE_HOME/fsdpgen, or ~/.cache/fsdpgen, each under a hash of everything
 * that it is made of.
 *
 * The sources are compiled as a few programs at once, each by a thread of its own: they
 * are the same text, but a kernel that another program has is marked as absent here, so
 * that the compiler reads it and makes nothing of it. Then a start takes as long as the
 * slowest kernel and not as all of them. */
#ifdef RT_JIT
#include "rt_gpu.h"

#include <errno.h>
#include <nvrtc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SOURCES = 16, MAX_KERNELS = 4096 };
/* A kernel begins with the first of these, in a line of its own; they are equally long.
 */
static const char present[] = "\nRT_GLOBAL(", absent[] = "\nRT_ABSENT(";
_Static_assert(sizeof present == sizeof absent, "one takes the other's place");

typedef struct Program {
    const Rt *rt;
    const RtImage *sources;
    int n_sources;
    const char *arch;
    char *text[MAX_SOURCES]; /* of the sources, but for kernels of others */
    char *image;
    size_t bytes;
    bool cached;
    char path[1024]; /* of the cache's file */
    pthread_t thread;
} Program;

#define RT_NVRTC_CALL(rt, call)                                                          \
    do {                                                                                 \
        const nvrtcResult result_ = (call);                                              \
        if (result_ != NVRTC_SUCCESS) {                                                  \
            rt_fail(rt, RT_EXIT_ERROR, "%s: %s", #call, nvrtcGetErrorString(result_));   \
        }                                                                                \
    } while (0)

static char *read_all(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rbe");
    char *text = NULL;
    if (f == NULL) {
        return NULL;
    }
    if (fseek(f, 0, SEEK_END) == 0 && ftell(f) > 0) {
        *bytes = (size_t)ftell(f);
        text = malloc(*bytes);
        rewind(f);
        if (text != NULL && fread(text, 1, *bytes, f) != *bytes) {
            free(text);
            text = NULL;
        }
    }
    fclose(f);
    return text;
}

/* A cache that cannot be written costs the next start its time, no more. */
static void keep(const char *path, const char *image, size_t bytes)
{
    char part[1100];
    snprintf(part, sizeof part, "%s.%ld", path, (long)getpid());
    FILE *f = fopen(part, "wbe");
    if (f == NULL) {
        return;
    }
    const bool written = fwrite(image, 1, bytes, f) == bytes;
    if (fclose(f) != 0 || !written || rename(part, path) != 0) {
        unlink(part);
    }
}

/* Empty when there is no place for a cache. */
static void cache_path(char *path, size_t bytes, uint64_t hash)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool own = base != NULL && base[0] == '/';
    path[0] = '\0';
    if (!own && (home == NULL || home[0] != '/')) {
        return;
    }
    char dir[1000];
    snprintf(dir, sizeof dir, "%s%s", own ? base : home, own ? "" : "/.cache");
    mkdir(dir, 0777);
    const size_t n = strlen(dir);
    snprintf(dir + n, sizeof dir - n, "/fsdpgen");
    if (mkdir(dir, 0777) == 0 || errno == EEXIST) {
        snprintf(path, bytes, "%s/%016llx.cubin", dir, (unsigned long long)hash);
    }
}

/* ---- which program has which kernel -------------------------------------------------
 */

typedef struct Kernel {
    int source;
    size_t at; /* of `present` in it */
    size_t weight;
    int program;
} Kernel;

static int find_kernels(const Rt *rt, const RtImage *sources, int n_sources,
                        Kernel *kernels)
{
    int n = 0;
    for (int s = 0; s < n_sources; s++) {
        const char *from = sources[s].from, *at = from;
        while ((at = strstr(at, present)) != NULL) { /* a 0 follows each source */
            if (n == MAX_KERNELS) {
                rt_fail(rt, RT_EXIT_ERROR, "more than %d kernels", MAX_KERNELS);
            }
            const char *next = strstr(at + 1, present);
            const size_t weight = next != NULL ? (size_t)(next - at) : strlen(at);
            kernels[n++] = (Kernel){s, (size_t)(at - from), weight, -1};
            at++;
        }
    }
    return n;
}

/* The longest goes first, each to the program that has least so far: a guess of what they
 * take, which changes how long a start takes and nothing else. */
static void share_out(Kernel *kernels, int n)
{
    size_t sum[RT_PROGRAMS] = {0};
    for (int round = 0; round < n; round++) {
        Kernel *longest = NULL;
        int least = 0;
        for (int i = 0; i < n; i++) {
            if (kernels[i].program < 0 &&
                (longest == NULL || kernels[i].weight > longest->weight)) {
                longest = &kernels[i];
            }
        }
        for (int p = 1; p < RT_PROGRAMS; p++) {
            least = sum[p] < sum[least] ? p : least;
        }
        longest->program = least;
        sum[least] += longest->weight;
    }
}

static void take_texts(Program *p, int number, const Kernel *kernels, int n)
{
    for (int s = 0; s < p->n_sources; s++) {
        p->text[s] = strdup(p->sources[s].from);
        if (p->text[s] == NULL) {
            rt_fail(p->rt, RT_EXIT_ERROR, "out of memory");
        }
    }
    for (int i = 0; i < n; i++) {
        if (kernels[i].program != number) {
            memcpy(p->text[kernels[i].source] + kernels[i].at, absent, strlen(absent));
        }
    }
}

/* ---- one program ------------------------------------------------------------------- */

static void find_cached(Program *p, int version)
{
    uint64_t hash = rt_hash64(p->arch, strlen(p->arch), (uint64_t)version);
    for (int s = 0; s < p->n_sources; s++) {
        hash = rt_hash64(p->text[s], strlen(p->text[s]), hash);
    }
    cache_path(p->path, sizeof p->path, hash);
    p->image = read_all(p->path, &p->bytes);
    p->cached = p->image != NULL;
}

static nvrtcProgram create(const Program *p)
{
    char name[MAX_SOURCES][32];
    const char *names[MAX_SOURCES], *texts[MAX_SOURCES], *source = NULL;
    nvrtcProgram program;
    int n = 0;
    for (int s = 0; s < p->n_sources; s++) { /* rt_device_h: of rt_device.h */
        const int last = (int)strlen(p->sources[s].name) - 2;
        if (last > 0 && strcmp(p->sources[s].name + last, "_h") == 0) {
            snprintf(name[n], sizeof name[n], "%.*s.h", last, p->sources[s].name);
            names[n] = name[n];
            texts[n++] = p->text[s];
        } else {
            source = p->text[s];
        }
    }
    if (source == NULL) {
        rt_fail(p->rt, RT_EXIT_ERROR, "the trainer was built without math.cu");
    }
    RT_NVRTC_CALL(p->rt,
                  nvrtcCreateProgram(&program, source, "math.cu", n, texts, names));
    return program;
}

static void *compile(void *context)
{
    Program *p = context;
    const char *const options[] = {p->arch, "--std=c++17", "--fmad=false"};
    nvrtcProgram program = create(p);
    const nvrtcResult result =
        nvrtcCompileProgram(program, sizeof options / sizeof *options, options);
    if (result != NVRTC_SUCCESS) {
        size_t log_bytes = 0;
        nvrtcGetProgramLogSize(program, &log_bytes);
        char *log = calloc(log_bytes + 1, 1);
        if (log != NULL) {
            nvrtcGetProgramLog(program, log);
        }
        rt_fail(p->rt, RT_EXIT_ERROR, "math.cu for %s: %s\n%s", p->arch,
                nvrtcGetErrorString(result), log != NULL ? log : "");
    }
    RT_NVRTC_CALL(p->rt, nvrtcGetCUBINSize(program, &p->bytes));
    p->image = malloc(p->bytes);
    if (p->image == NULL) {
        rt_fail(p->rt, RT_EXIT_ERROR, "out of memory");
    }
    RT_NVRTC_CALL(p->rt, nvrtcGetCUBIN(program, p->image));
    nvrtcDestroyProgram(&program);
    if (p->path[0] != '\0') {
        keep(p->path, p->image, p->bytes);
    }
    return NULL;
}

static void compile_all(const Rt *rt, Program *programs)
{
    for (int i = 0; i < RT_PROGRAMS; i++) {
        if (!programs[i].cached &&
            pthread_create(&programs[i].thread, NULL, compile, &programs[i]) != 0) {
            rt_fail(rt, RT_EXIT_ERROR, "no thread to compile kernels with");
        }
    }
    for (int i = 0; i < RT_PROGRAMS; i++) {
        if (!programs[i].cached) {
            pthread_join(programs[i].thread, NULL);
        }
    }
}

void rt_jit(Rt *rt, const RtImage *sources, int n_sources,
            const void *images[RT_PROGRAMS])
{
    static Kernel kernels[MAX_KERNELS];
    static Program programs[RT_PROGRAMS];
    char arch[64];
    int major = 0, minor = 0;
    /* from 9.0 on there are instructions of that architecture alone */
    snprintf(arch, sizeof arch, "--gpu-architecture=%s%s", rt_gpu.arch,
             strcmp(rt_gpu.arch, "sm_90") >= 0 || strlen(rt_gpu.arch) > 5 ? "a" : "");
    RT_NVRTC_CALL(rt, nvrtcVersion(&major, &minor));
    if (n_sources > MAX_SOURCES) {
        rt_fail(rt, RT_EXIT_ERROR, "more than %d sources of kernels", MAX_SOURCES);
    }
    const int n = find_kernels(rt, sources, n_sources, kernels);
    share_out(kernels, n);
    for (int i = 0; i < RT_PROGRAMS; i++) {
        programs[i] = (Program){rt, sources, n_sources, .arch = arch};
        take_texts(&programs[i], i, kernels, n);
        find_cached(&programs[i], major * 1000 + minor);
    }
    compile_all(rt, programs);
    for (int i = 0; i < RT_PROGRAMS; i++) {
        images[i] = programs[i].image;
        for (int s = 0; s < n_sources; s++) {
            free(programs[i].text[s]);
        }
    }
}
#else
typedef int RtNoJit; /* a file of nothing is no C */
#endif
