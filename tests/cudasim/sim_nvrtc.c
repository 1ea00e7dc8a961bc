/* SPDX-License-Identifier: Apache-2.0 */
/* sim_nvrtc.c: NVRTC by its own names: a program and its headers are written into a
 * folder and compiled by tests/cudasim/nvcc. CUDASIM_NVCC, or where this file was built,
 * says where that is; CUDASIM_NVRTC: the version that it says it has, 12080 for 12.8. */
#include "sim_cudart.h"

#include <cuda_runtime_api.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct _nvrtcProgram {
    char folder[256];
    char *log, *image;
    size_t image_bytes;
};

static bool write_text(const char *folder, const char *name, const char *text)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "w");
    return f && fputs(text, f) >= 0 && fclose(f) == 0;
}

static char *read_file(const char *folder, const char *name, size_t *bytes)
{
    char path[512], *text;
    FILE *f;
    long n;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END))
        return NULL;
    n = ftell(f);
    rewind(f);
    text = calloc(1, (size_t)n + 1);
    *bytes = text ? fread(text, 1, (size_t)n, f) : 0;
    fclose(f);
    return text;
}

nvrtcResult nvrtcVersion(int *major, int *minor)
{
    const int version = (int)sim_setting("CUDASIM_NVRTC", CUDART_VERSION);

    *major = version / 1000;
    *minor = version % 1000 / 10;
    return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult result)
{
    return result == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION";
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source,
                               const char *name, int n_headers,
                               const char *const *headers, const char *const *names)
{
    nvrtcProgram p = calloc(1, sizeof *p);
    const char *tmp = getenv("TMPDIR");
    bool ok;

    (void)name;
    if (!p)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    snprintf(p->folder, sizeof p->folder, "%s/cudasim-nvrtc-XXXXXX", tmp ? tmp : "/tmp");
    ok = mkdtemp(p->folder) && write_text(p->folder, "program.cu", source);
    for (int i = 0; i < n_headers; i++)
        ok = ok && write_text(p->folder, names[i], headers[i]);
    *program = p;
    return ok ? NVRTC_SUCCESS : NVRTC_ERROR_PROGRAM_CREATION_FAILURE;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int n_options, const char *const *options)
{
    const char *nvcc = getenv("CUDASIM_NVCC");
    char command[1024];
    size_t bytes;
    int status;

    (void)n_options, (void)options;
    if (sim_planted(__func__))
        return NVRTC_ERROR_COMPILATION;
    snprintf(command, sizeof command,
             "cd '%s' && '%s' -cubin -I. -o program.cubin program.cu >log 2>&1",
             p->folder, nvcc ? nvcc : SIM_NVCC);
    status = system(command);
    p->log = read_file(p->folder, "log", &bytes);
    p->image = read_file(p->folder, "program.cubin", &p->image_bytes);
    return status == 0 && p->image ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *bytes)
{
    *bytes = p->log ? strlen(p->log) + 1 : 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *text)
{
    strcpy(text, p->log ? p->log : "");
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *bytes)
{
    *bytes = p->image_bytes;
    return p->image ? NVRTC_SUCCESS : NVRTC_ERROR_INVALID_PROGRAM;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *image)
{
    memcpy(image, p->image, p->image_bytes);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    nvrtcProgram p = *program;
    char command[sizeof p->folder + 16];

    snprintf(command, sizeof command, "rm -rf '%s'", p->folder);
    if (system(command) != 0)
        fprintf(stderr, "simulated device: %s is left over\n", p->folder);
    free(p->log);
    free(p->image);
    free(p);
    return NVRTC_SUCCESS;
}
