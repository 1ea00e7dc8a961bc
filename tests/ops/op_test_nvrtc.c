/* SPDX-License-Identifier: Apache-2.0 */
/* op_test_nvrtc.c: compiles kernels by NVRTC, where a toolkit has no nvcc. In: options of
 * NVRTC, then -o OUT IN.cu. Out: the cubin in OUT; exit code 1 with the compiler's log.
 */
#include <nvrtc.h>

#include <stdio.h>
#include <stdlib.h>

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    const long bytes = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    char *text = bytes >= 0 ? calloc((size_t)bytes + 1, 1) : NULL;

    if (!text || fseek(f, 0, SEEK_SET) != 0 ||
        fread(text, 1, (size_t)bytes, f) != (size_t)bytes) {
        fprintf(stderr, "nvrtc: cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    return text;
}

static void show_log(nvrtcProgram program)
{
    size_t bytes = 0;
    char *log;

    nvrtcGetProgramLogSize(program, &bytes);
    log = calloc(bytes + 1, 1);
    if (log && nvrtcGetProgramLog(program, log) == NVRTC_SUCCESS)
        fputs(log, stderr);
    free(log);
}

static int write_cubin(nvrtcProgram program, const char *path)
{
    size_t bytes = 0;
    FILE *f = fopen(path, "wb");
    char *cubin;

    nvrtcGetCUBINSize(program, &bytes);
    cubin = malloc(bytes + 1);
    return f && cubin && nvrtcGetCUBIN(program, cubin) == NVRTC_SUCCESS &&
                   fwrite(cubin, 1, bytes, f) == bytes && fclose(f) == 0
               ? 0
               : 1;
}

int main(int argc, char **argv)
{
    nvrtcProgram program;
    nvrtcResult result;

    if (argc < 4) /* options, -o, OUT, IN */
        return 2;
    result = nvrtcCreateProgram(&program, read_text(argv[argc - 1]), argv[argc - 1], 0,
                                NULL, NULL);
    if (result == NVRTC_SUCCESS)
        result = nvrtcCompileProgram(program, argc - 4, (const char *const *)(argv + 1));
    if (result != NVRTC_SUCCESS) {
        show_log(program);
        fprintf(stderr, "nvrtc: %s\n", nvrtcGetErrorString(result));
        return 1;
    }
    return write_cubin(program, argv[argc - 2]);
}
