/* SPDX-License-Identifier: Apache-2.0 */
/* test_op_tools.c: what `fsdpgen test-op` needs of a machine. In: the sources that
 * fsdpgen carries; CC, CFLAGS, SIM_CXX, CUDA_HOME. Out: a folder with them, the
 * compilers' command lines, the runtime's products as a shared object, the device for
 * kernels of CUDA; or a message that says what is missing. */
#include "op_test/op_test.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* As in the Makefiles of emitted trainers. */
static const char numeric_flags[] =
    "-std=gnu11 -Wall -Wextra -Wno-psabi -Wno-pass-failed -ffp-contract=off "
    "-fno-fast-math -fno-math-errno "
    "-fopenmp";

static const char *from_environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value && *value ? value : otherwise;
}

/* ---- the folder ------------------------------------------------------------------ */

static bool make_folders(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return false;
        *p = '/';
    }
    return true;
}

static bool write_one(const char *path, const Embedded *e)
{
    FILE *f = fopen(path, "wb");
    const bool written = f && fwrite(e->data, 1, e->bytes, f) == e->bytes;

    return f && fclose(f) == 0 && written;
}

bool test_op_sources(Gen *g, const char *folder)
{
    static const char *const wanted[] = {
        "runtime/", "tests/cudasim/", "gen/op_test/op_test_gpu.h",
        "tests/ops/op_test_gpu.c", "tests/ops/op_test_nvrtc.c"};

    for (int i = 0; i < embedded_count; i++) {
        bool take = false;
        char *path;

        for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++)
            take = take || !strncmp(embedded_files[i].path, wanted[k], strlen(wanted[k]));
        if (!take)
            continue;
        path = gen_printf(g, "%s/%s", folder, embedded_files[i].path);
        if (!make_folders(path) ||
            !write_one(path, emit_embedded(embedded_files[i].path))) {
            print_line(stderr, "fsdpgen: error: ", "%s: %s", path, strerror(errno));
            return false;
        }
    }
    return true;
}

/* ---- compilers ------------------------------------------------------------------- */

/* Runs a command line; what it prints goes to the log. */
static bool command_works(const char *command, const char *log)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        const int to = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666);

        if (to < 0 || dup2(to, STDOUT_FILENO) < 0 || dup2(to, STDERR_FILENO) < 0)
            _exit(127);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The first lines of what a command printed. */
static void show_log(const char *log)
{
    FILE *f = fopen(log, "r");
    char line[400];

    for (int i = 0; f && i < 6 && fgets(line, sizeof line, f); i++) {
        line[strcspn(line, "\n")] = '\0';
        print_line(stderr, "  ", "%s", line);
    }
    if (f)
        fclose(f);
}

static int missing(const char *log, const char *what, const char *help)
{
    print_line(stderr, "fsdpgen: error: ", "test-op: %s", what);
    show_log(log);
    print_line(stderr, "  help: ", "%s", help);
    return EXIT_TOOL;
}

/* Compiles what every test needs of the runtime and of OpenMP, and prepares the products
 * by our own tiles, which take longer. */
static int build_runtime(Gen *g, OpTestOptions *o)
{
    const char *tree = op_test_word(g, o->root);
    const char *so = gen_printf(g, "%s/runtime.so", o->work);
    const char *log = gen_printf(g, "%s/runtime.log", o->work);
    const char *make = gen_printf(
        g, "%s %s -O2 -shared -fPIC -Wl,-z,lazy -DRT_GEMM_BUILTIN -I%s/runtime", o->cc,
        o->flags, tree);

    if (!command_works(
            gen_printf(g, "%s %s/runtime/state/rt_update.c -Wl,--no-as-needed -o %s",
                       make, tree, op_test_word(g, so)),
            log))
        return missing(log, gen_printf(g, "`%s` does not compile C with OpenMP", o->cc),
                       "install gcc or clang with OpenMP, or name a compiler: CC=gcc-13");
    if (!dlopen(so, RTLD_LAZY | RTLD_GLOBAL))
        return missing(log, gen_printf(g, "%s", dlerror()),
                       "is this compiler for another machine? CC names another one");
    o->products = gen_printf(g, "%s/products.so", o->work);
    o->make_products = gen_printf(
        g, "%s %s/runtime/cpu/rt_gemm.c %s/runtime/cpu/rt_gemm_builtin.c -o %s", make,
        tree, tree, op_test_word(g, o->products));
    return EXIT_DONE;
}

/* ---- CUDA ------------------------------------------------------------------------ */

/* Does the shared object open a GPU? Asked in a process of its own, which writes the
 * log. */
static bool opens_gpu(const char *so, const char *log)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        FILE *f = freopen(log, "w", stderr);

        cuda_device(so);
        _exit(f ? 0 : 1);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void find_gpu(Gen *g, const char *home, const char *nvcc, OpTestOptions *o)
{
    const char *tree = op_test_word(g, o->root), *at = op_test_word(g, home);
    const char *so = gen_printf(g, "%s/gpu.so", o->work);
    const char *log = gen_printf(g, "%s/gpu.log", o->work);
    const char *command = gen_printf(
        g,
        "%s -std=gnu11 -O2 -shared -fPIC -fvisibility=hidden -DRT_CUDA -I%s/gen "
        "-I%s/runtime -I%s/runtime/cuda -isystem %s/include "
        "%s/tests/ops/op_test_gpu.c %s/runtime/cuda/rt_blas.c -L%s/lib64 "
        "-Wl,-rpath,%s/lib64 -lcudart -lcublasLt -o %s",
        o->cc, tree, tree, tree, at, tree, tree, at, at, op_test_word(g, so));

    if (command_works(command, log) && opens_gpu(so, log)) {
        o->device = so;
        o->nvcc = nvcc;
    }
}

/* Finds nvcc or NVRTC to compile kernels, where no GPU runs them; its name, or NULL. */
static const char *find_compiler(Gen *g, const char *home, const char *nvcc,
                                 OpTestOptions *o)
{
    const char *tree = op_test_word(g, o->root), *at = op_test_word(g, home);
    const char *program = op_test_word(g, gen_printf(g, "%s/nvrtc", o->work));
    const char *log = gen_printf(g, "%s/nvrtc.log", o->work);

    if (nvcc) {
        o->nvcc_check =
            gen_printf(g,
                       "%s -cubin -std=c++17 --fmad=false "
                       "-gencode=arch=compute_90a,code=sm_90a -I%s/runtime/cuda",
                       nvcc, tree);
        return "nvcc";
    }
    if (!command_works(gen_printf(g,
                                  "%s -O1 -isystem %s/include "
                                  "%s/tests/ops/op_test_nvrtc.c -L%s/lib64 "
                                  "-Wl,-rpath,%s/lib64 -lnvrtc -o %s",
                                  o->cc, at, tree, at, at, program),
                       log))
        return NULL;
    o->nvcc_check = gen_printf(g,
                               "%s --std=c++17 --fmad=false --gpu-architecture=sm_90a "
                               "-I%s/runtime/cuda",
                               program, tree);
    return "NVRTC";
}

static int find_device(Gen *g, OpTestOptions *o)
{
    const char *home = from_environment("CUDA_HOME", "/usr/local/cuda");
    const char *nvcc = op_test_word(g, gen_printf(g, "%s/bin/nvcc", home)), *compiler;
    const char *log = gen_printf(g, "%s/cuda.log", o->work);
    const char *cxx = from_environment("SIM_CXX", "g++");
    const bool has_nvcc = command_works(gen_printf(g, "%s --version", nvcc), log);

    if (has_nvcc)
        find_gpu(g, home, nvcc, o);
    if (o->device)
        return EXIT_DONE;
    if (!command_works(gen_printf(g, "%s --version", cxx), log))
        return missing(log, "no GPU works here, and the simulated one needs g++",
                       "install g++, or on a machine with a GPU set CUDA_HOME");
    compiler = find_compiler(g, home, has_nvcc ? nvcc : NULL, o);
    if (compiler)
        printf("on the simulated device: no GPU here; %s compiles the kernels, too "
               "(sm_90a)\n",
               compiler);
    else
        printf(
            "on the simulated device: no GPU here; not compiled by nvcc or NVRTC, which "
            "CUDA_HOME would name\n");
    return EXIT_DONE;
}

/* ---- all of it ------------------------------------------------------------------- */

static bool sanitizes(const Gen *g, const char *what)
{
    const char *asked = g->opt.sanitize;

    return asked && (!strcmp(asked, what) || !strcmp(asked, "both"));
}

const char *test_op_asan(Gen *g, const char *work)
{
    const char *log = gen_printf(g, "%s/asan.log", work), *text;
    size_t bytes;

    if (!sanitizes(g, "address"))
        return NULL;
    command_works(
        gen_printf(g, "%s -print-file-name=libasan.so", from_environment("CC", "cc")),
        log);
    if (read_whole_file(log, &text, &bytes) != 0)
        return "";
    bytes = strcspn(text, "\n");
    return text[0] == '/' ? gen_strndup(g, text, bytes) : "";
}

int test_op_tools(Gen *g, OpTestOptions *o)
{
    int code;

    o->cc = from_environment("CC", "cc");
    o->flags = gen_printf(
        g, "%s %s%s%s", numeric_flags, from_environment("CFLAGS", "-O2 -march=native"),
        sanitizes(g, "address") ? " -g -fsanitize=address" : "",
        sanitizes(g, "undefined") ? " -g -fsanitize=undefined -fno-sanitize-recover=all"
                                  : "");
    o->exact_ends = sanitizes(g, "address");
    code = build_runtime(g, o);
    if (code == EXIT_DONE && !strcmp(o->target, "cuda"))
        code = find_device(g, o);
    return code;
}
