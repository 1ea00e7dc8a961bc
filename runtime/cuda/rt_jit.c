/* SPDX-License-Identifier: MIT-0 */
/* rt_jit.c: with JIT=1, kernels compiled when the trainer starts. In: the sources that
 * make put into it, the device. Out: a cubin, from NVRTC or from the last run: it is kept
 * in $XDG_CACHE_HOME/fsdpgen, or ~/.cache/fsdpgen, under a hash of everything it is made
 * of. */
#ifdef RT_JIT
#include "rt_gpu.h"

#include <errno.h>
#include <nvrtc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RT_NVRTC_CALL(rt, call)                                                          \
    do {                                                                                 \
        const nvrtcResult result_ = (call);                                              \
        if (result_ != NVRTC_SUCCESS) {                                                  \
            rt_fail(rt, RT_EXIT_ERROR, "%s: %s", #call, nvrtcGetErrorString(result_));   \
        }                                                                                \
    } while (0)

static const char *source(const Rt *rt, const char *name)
{
    for (int i = 0; i < rt_n_images; i++) {
        if (strcmp(rt_images[i].name, name) == 0) {
            return rt_images[i].from;
        }
    }
    rt_fail(rt, RT_EXIT_ERROR, "the trainer was built without the source of %s", name);
}

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

static char *compile(const Rt *rt, const char *arch, size_t *bytes)
{
    static char header[16][32];
    const char *names[16], *texts[16];
    const char *const options[] = {arch, "--std=c++17", "--fmad=false"};
    int n = 0;
    for (int i = 0; i < rt_n_images && n < 16; i++) { /* rt_device_h: of rt_device.h */
        const int last = (int)strlen(rt_images[i].name) - 2;
        if (last > 0 && strcmp(rt_images[i].name + last, "_h") == 0) {
            snprintf(header[n], sizeof header[n], "%.*s.h", last, rt_images[i].name);
            names[n] = header[n];
            texts[n++] = rt_images[i].from; /* a 0 follows each */
        }
    }
    nvrtcProgram program;
    RT_NVRTC_CALL(rt, nvrtcCreateProgram(&program, source(rt, "math_cu"), "math.cu", n,
                                         texts, names));
    const nvrtcResult result =
        nvrtcCompileProgram(program, sizeof options / sizeof *options, options);
    if (result != NVRTC_SUCCESS) {
        size_t log_bytes = 0;
        nvrtcGetProgramLogSize(program, &log_bytes);
        char *log = calloc(log_bytes + 1, 1);
        if (log != NULL) {
            nvrtcGetProgramLog(program, log);
        }
        rt_fail(rt, RT_EXIT_ERROR, "math.cu for %s: %s\n%s", arch,
                nvrtcGetErrorString(result), log != NULL ? log : "");
    }
    RT_NVRTC_CALL(rt, nvrtcGetCUBINSize(program, bytes));
    char *image = malloc(*bytes);
    if (image == NULL) {
        rt_fail(rt, RT_EXIT_ERROR, "out of memory");
    }
    RT_NVRTC_CALL(rt, nvrtcGetCUBIN(program, image));
    nvrtcDestroyProgram(&program);
    return image;
}

const void *rt_jit(Rt *rt)
{
    char arch[64], path[1024];
    int major = 0, minor = 0;
    size_t bytes = 0;
    uint64_t hash;
    /* from 9.0 on there are instructions of that architecture alone */
    snprintf(arch, sizeof arch, "--gpu-architecture=%s%s", rt_gpu.arch,
             strcmp(rt_gpu.arch, "sm_90") >= 0 || strlen(rt_gpu.arch) > 5 ? "a" : "");
    RT_NVRTC_CALL(rt, nvrtcVersion(&major, &minor));
    hash = rt_hash64(arch, strlen(arch), (uint64_t)(major * 1000 + minor));
    for (int i = 0; i < rt_n_images; i++) {
        hash = rt_hash64(rt_images[i].from, (size_t)(rt_images[i].to - rt_images[i].from),
                         hash);
    }
    cache_path(path, sizeof path, hash);
    char *image = read_all(path, &bytes);
    if (image == NULL) {
        image = compile(rt, arch, &bytes);
        keep(path, image, bytes);
    }
    return image;
}
#else
typedef int RtNoJit; /* a file of nothing is no C */
#endif
