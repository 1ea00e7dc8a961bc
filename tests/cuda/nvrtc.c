/* SPDX-License-Identifier: Apache-2.0 */
/* nvrtc.c: compiles kernels as a trainer built with JIT=1 does when it starts (rt_jit.c).
 * In: an architecture, math.cu, the headers it includes. Out: seconds on stdout, then
 * what ptxas says of each kernel; exit 1 with the compiler's message where it does not
 * compile.
 *
 *   nvrtc sm_90a DIR/math.cu RUNTIME/rt_device.h ... */
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_HEADERS = 64 };

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    long bytes;

    if (f && fseek(f, 0, SEEK_END) == 0 && (bytes = ftell(f)) >= 0 &&
        (text = calloc((size_t)bytes + 1, 1)) != NULL) {
        rewind(f);
        if (fread(text, 1, (size_t)bytes, f) != (size_t)bytes) {
            free(text);
            text = NULL;
        }
    }
    if (f)
        fclose(f);
    if (!text) {
        fprintf(stderr, "nvrtc: cannot read %s\n", path);
        exit(1);
    }
    return text;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    const char *names[MAX_HEADERS], *texts[MAX_HEADERS];
    int n = 0;
    char arch[64];
    nvrtcProgram program;

    if (argc < 3 || argc - 3 > MAX_HEADERS) {
        fprintf(stderr, "usage: nvrtc ARCH MATH.CU HEADER...\n");
        return 2;
    }
    for (int i = 3; i < argc; i++, n++) {
        const char *slash = strrchr(argv[i], '/');

        names[n] = slash ? slash + 1 : argv[i];
        texts[n] = read_text(argv[i]);
    }
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", argv[1]);
    const char *const options[] = {arch, "--std=c++17", "--fmad=false",
                                   "--ptxas-options=-v"};
    const char *text = read_text(argv[2]);
    double start = now();

    if (nvrtcCreateProgram(&program, text, "math.cu", n, texts, names) != NVRTC_SUCCESS) {
        fprintf(stderr, "nvrtc: no program\n");
        return 1;
    }
    nvrtcResult result = nvrtcCompileProgram(program, 4, options);
    double seconds = now() - start;
    size_t bytes = 0;

    nvrtcGetProgramLogSize(program, &bytes);
    char *log = calloc(bytes + 1, 1);

    if (log)
        nvrtcGetProgramLog(program, log);
    if (result != NVRTC_SUCCESS) {
        fprintf(stderr, "nvrtc: %s\n%s", nvrtcGetErrorString(result), log ? log : "");
        return 1;
    }
    printf("%.2f\n%s", seconds, log ? log : "");
    return 0;
}
