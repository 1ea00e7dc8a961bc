/* SPDX-License-Identifier: MIT-0 */
/* rt_jit.c: with JIT=1, kernels are compiled when the trainer starts. In: the sources
 * that make embeds into it, the device. Out: cubins, from NVRTC or from an earlier start,
 * cached (rt_cache.c) with a text of everything they are made from.
 *
 * The sources are compiled as a few programs at once, each on a thread of its own. They
 * all have the same text, but kernels of other programs are marked as absent, so that the
 * compiler parses them and generates nothing. So a start takes as long as the slowest
 * program, not as all kernels together. */
#ifdef RT_JIT
#include "job/rt_door.h"
#include "cuda/rt_gpu.h"

#include <nvrtc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SOURCES = 16, MAX_KERNELS = 4096 };
/* A kernel starts with the first of these, on a line of its own; both have equal
 * length. */
static const char present[] = "\nRT_GLOBAL(", absent[] = "\nRT_ABSENT(";
_Static_assert(sizeof present == sizeof absent, "one takes the other's place");

#define OPTIONS "--std=c++17", "--fmad=false"
#define OPTIONS_TEXT "--std=c++17 --fmad=false"

typedef struct Program {
    const Rt *rt;
    const RtImage *sources;
    int n_sources;
    const char *arch;
    char *text[MAX_SOURCES]; /* the sources, without kernels of other programs */
    char *image;
    size_t bytes;
    bool cached;
    char made_of[RT_MADE_OF_BYTES];
    pthread_t thread;
} Program;

#define RT_NVRTC_CALL(rt, call)                                                          \
    do {                                                                                 \
        const nvrtcResult result_ = (call);                                              \
        if (result_ != NVRTC_SUCCESS)                                                    \
            rt_fail(rt, RT_EXIT_ERROR, "%s: %s", #call, nvrtcGetErrorString(result_));   \
    } while (0)

/* ---- distribution of kernels over programs --------------------------------------- */

typedef struct Kernel {
    int source;
    size_t at; /* offset of `present` in it */
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
            if (n == MAX_KERNELS)
                rt_fail(rt, RT_EXIT_ERROR, "more than %d kernels", MAX_KERNELS);
            const char *next = strstr(at + 1, present);
            const size_t weight = next != NULL ? (size_t)(next - at) : strlen(at);
            kernels[n++] = (Kernel){s, (size_t)(at - from), weight, -1};
            at++;
        }
    }
    return n;
}

/* The longest goes first, each to the program with the least so far. This guesses compile
 * times, and affects nothing but the time of a start. */
static void share_out(Kernel *kernels, int n)
{
    size_t sum[RT_PROGRAMS] = {0};
    for (int round = 0; round < n; round++) {
        Kernel *longest = NULL;
        int least = 0;
        for (int i = 0; i < n; i++)
            if (kernels[i].program < 0 &&
                (longest == NULL || kernels[i].weight > longest->weight))
                longest = &kernels[i];
        for (int p = 1; p < RT_PROGRAMS; p++)
            least = sum[p] < sum[least] ? p : least;
        longest->program = least;
        sum[least] += longest->weight;
    }
}

static void take_texts(Program *p, int number, const Kernel *kernels, int n)
{
    for (int s = 0; s < p->n_sources; s++) {
        p->text[s] = strdup(p->sources[s].from);
        if (p->text[s] == NULL)
            rt_fail(p->rt, RT_EXIT_ERROR, "out of memory");
    }
    for (int i = 0; i < n; i++)
        if (kernels[i].program != number)
            memcpy(p->text[kernels[i].source] + kernels[i].at, absent, strlen(absent));
}

/* ---- one program ----------------------------------------------------------------- */

/* The library's file, whose name contains its full version, and its size: "" if it has
 * another name. */
static void library_of(char *text, size_t bytes)
{
    char line[1024];
    struct stat s;
    FILE *f = fopen("/proc/self/maps", "re");
    text[0] = '\0';
    while (f != NULL && text[0] == '\0' && fgets(line, sizeof line, f) != NULL) {
        const char *path = strchr(line, '/'), *name = strstr(line, "/libnvrtc.so");
        line[strcspn(line, "\n")] = '\0';
        if (name != NULL && stat(path, &s) == 0)
            snprintf(text, bytes, "%.100s, %lld bytes", name + 1, (long long)s.st_size);
    }
    if (f != NULL)
        fclose(f);
}

/* Sources include only each other, so their texts are everything that is compiled. */
static void say_made_of(Program *p, int major, int minor, const char *library)
{
    unsigned char digest[RT_DIGEST_BYTES];
    char hex[2 * sizeof digest + 1];
    RtSha256 h;
    rt_sha256_begin(&h);
    for (int s = 0; s < p->n_sources; s++) {
        rt_sha256_more(&h, p->sources[s].name, strlen(p->sources[s].name) + 1);
        rt_sha256_more(&h, p->text[s], strlen(p->text[s]) + 1);
    }
    rt_sha256_end(&h, digest);
    rt_hex(digest, sizeof digest, hex);
    snprintf(p->made_of, sizeof p->made_of,
             "NVRTC %d.%d (%s)\noptions %s " OPTIONS_TEXT "\n%d sources %s\n", major,
             minor, library, p->arch, p->n_sources, hex);
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
    if (source == NULL)
        rt_fail(p->rt, RT_EXIT_ERROR, "the trainer was built without kernels.cu");
    RT_NVRTC_CALL(p->rt,
                  nvrtcCreateProgram(&program, source, "kernels.cu", n, texts, names));
    return program;
}

/* Prints NVRTC's log, line by line. */
static void tell_log(nvrtcProgram program)
{
    size_t bytes = 0;
    nvrtcGetProgramLogSize(program, &bytes);
    char *log = calloc(bytes + 1, 1);
    if (log == NULL)
        return;
    nvrtcGetProgramLog(program, log);
    for (const char *line = log; *line != '\0';) {
        const int n = (int)strcspn(line, "\n");
        rt_say("%.*s", n, line);
        line += n + (line[n] == '\n');
    }
    free(log);
}

static void *compile(void *context)
{
    Program *p = context;
    const char *const options[] = {p->arch, OPTIONS};
    nvrtcProgram program = create(p);
    const nvrtcResult result =
        nvrtcCompileProgram(program, sizeof options / sizeof *options, options);
    if (result != NVRTC_SUCCESS) {
        tell_log(program);
        rt_fail(p->rt, RT_EXIT_ERROR, "kernels.cu for %s: %s", p->arch,
                nvrtcGetErrorString(result));
    }
    RT_NVRTC_CALL(p->rt, nvrtcGetCUBINSize(program, &p->bytes));
    p->image = malloc(p->bytes);
    if (p->image == NULL)
        rt_fail(p->rt, RT_EXIT_ERROR, "out of memory");
    RT_NVRTC_CALL(p->rt, nvrtcGetCUBIN(program, p->image));
    nvrtcDestroyProgram(&program);
    return NULL;
}

static void compile_all(const Rt *rt, Program *programs)
{
    for (int i = 0; i < RT_PROGRAMS; i++)
        if (!programs[i].cached &&
            pthread_create(&programs[i].thread, NULL, compile, &programs[i]) != 0)
            rt_fail(rt, RT_EXIT_ERROR, "no thread to compile kernels with");
    for (int i = 0; i < RT_PROGRAMS; i++) {
        if (!programs[i].cached) {
            pthread_join(programs[i].thread, NULL);
            rt_cache_keep(programs[i].made_of, programs[i].image, programs[i].bytes);
        }
    }
}

void rt_jit(Rt *rt, const RtImage *sources, int n_sources,
            const void *images[RT_PROGRAMS])
{
    static Kernel kernels[MAX_KERNELS];
    static Program programs[RT_PROGRAMS];
    char arch[64], library[200];
    int major = 0, minor = 0;
    /* From 9.0 on, some instructions exist only on that architecture. */
    snprintf(arch, sizeof arch, "--gpu-architecture=%s%s", rt_gpu.arch,
             strcmp(rt_gpu.arch, "sm_90") >= 0 || strlen(rt_gpu.arch) > 5 ? "a" : "");
    RT_NVRTC_CALL(rt, nvrtcVersion(&major, &minor));
    if (n_sources > MAX_SOURCES)
        rt_fail(rt, RT_EXIT_ERROR, "more than %d sources of kernels", MAX_SOURCES);
    const int n = find_kernels(rt, sources, n_sources, kernels);
    share_out(kernels, n);
    library_of(library, sizeof library);
    rt_cache_open(rt);
    for (int i = 0; i < RT_PROGRAMS; i++) {
        Program *p = &programs[i];
        *p = (Program){rt, sources, n_sources, .arch = arch};
        take_texts(p, i, kernels, n);
        say_made_of(p, major, minor, library);
        p->image = rt_cache_find(p->made_of, &p->bytes);
        p->cached = p->image != NULL;
    }
    compile_all(rt, programs);
    rt_cache_close();
    for (int i = 0; i < RT_PROGRAMS; i++) {
        images[i] = programs[i].image;
        for (int s = 0; s < n_sources; s++)
            free(programs[i].text[s]);
    }
}
#else
typedef int RtNoJit; /* ISO C forbids an empty file */
#endif
