/* SPDX-License-Identifier: Apache-2.0 */
/* op_test_kernels.c: kernels as machine code. In: op folders' cpu.c or cuda.cu, rendered
 * by the generator's own template engine. Out: functions in memory, of a few C files and
 * shared objects compiled with the flags of emitted trainers, which find the runtime's
 * products in this program, or in a shared object beside it. The kernels
 * of a cuda.cu become files of their own, compiled for the device. */
#include "op_test/op_test.h"

#include "base/sandbox.h"
#include "rt_fp8.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void (*CallKernel)(char **operands, float beta, char *workspace);

typedef struct Kernel {
    char *name;
    int unit; /* which C file */
    bool of_platform, of_products;
    CallKernel call;
} Kernel;

typedef struct SourceUnit { /* one C file, one shared object */
    char *name;
    Text text;
    Text device; /* CUDA: kernels */
    Text prepare;
    bool compiled, failed;
    pid_t pid; /* of its compiler */
} SourceUnit;

struct Kernels {
    Gen *g;
    Emit emit;
    const OpTestOptions *o;
    const char *flags;
    const char *nvcc; /* of a real device; NULL: the simulated one */
    bool cuda, has_products;
    struct {
        Kernel *items;
        int count, cap;
    } list;
    struct {
        SourceUnit *items;
        int count, cap;
    } units;
};

/* ---- buffers --------------------------------------------------------------------- */

int buf_guard_bytes = GUARD_BYTES;

Buf buf_new(Dtype dtype, int64_t elems)
{
    Buf b = {.dtype = dtype, .elems = elems};
    const size_t guard = (size_t)buf_guard_bytes;
    const size_t bytes = (size_t)elems * (size_t)dtype_bytes(dtype) + guard;
    void *data = NULL;

    gen_require(posix_memalign(&data, ARENA_ALIGN_BYTES, bytes ? bytes : 1) == 0,
                "out of memory");
    b.data = data;
    /* NaN in every float dtype, so that elements never written are noticed. */
    memset(b.data, 0xff, bytes);
    memset(b.data + bytes - guard, GUARD, guard);
    return b;
}

void buf_free(Buf *b)
{
    free(b->data);
    b->data = NULL;
}

bool buf_guard_ok(const Buf *b)
{
    const char *end = b->data + b->elems * dtype_bytes(b->dtype);

    for (int i = 0; i < buf_guard_bytes; i++)
        if (end[i] != GUARD)
            return false;
    return true;
}

void buf_put(Buf *b, int64_t i, double v)
{
    switch (b->dtype) {
    case DT_F64:
        ((double *)b->data)[i] = v;
        break;
    case DT_F32:
        ((float *)b->data)[i] = (float)v;
        break;
    case DT_BF16:
        ((rt_bf16 *)b->data)[i] = rt_bf16_from_f32((float)v);
        break;
    case DT_F16:
        ((rt_f16 *)b->data)[i] = rt_f16_from_f32((float)v);
        break;
    case DT_E4M3:
        ((uint8_t *)b->data)[i] = rt_e4m3_from_f32((float)v);
        break;
    case DT_E5M2:
        ((uint8_t *)b->data)[i] = rt_e5m2_from_f32((float)v);
        break;
    case DT_SPLIT:
        ((uint16_t *)b->data)[i] = (uint16_t)v;
        break;
    case DT_I32:
        ((int32_t *)b->data)[i] = (int32_t)v;
        break;
    default:
        gen_die("no buffer of %s", dtype_name(b->dtype));
    }
}

double buf_get(const Buf *b, int64_t i)
{
    switch (b->dtype) {
    case DT_F64:
        return ((const double *)b->data)[i];
    case DT_F32:
        return ((const float *)b->data)[i];
    case DT_BF16:
        return rt_f32_from_bf16(((const rt_bf16 *)b->data)[i]);
    case DT_F16:
        return rt_f32_from_f16(((const rt_f16 *)b->data)[i]);
    case DT_E4M3:
        return rt_f32_from_e4m3(((const uint8_t *)b->data)[i]);
    case DT_E5M2:
        return rt_f32_from_e5m2(((const uint8_t *)b->data)[i]);
    case DT_SPLIT:
        return ((const uint16_t *)b->data)[i];
    case DT_I32:
        return ((const int32_t *)b->data)[i];
    default:
        gen_die("no buffer of %s", dtype_name(b->dtype));
    }
}

double round_to(Dtype dtype, double v)
{
    if (dtype == DT_F32)
        return (float)v;
    if (dtype == DT_BF16)
        return rt_f32_from_bf16(rt_bf16_from_f32((float)v));
    if (dtype == DT_F16)
        return rt_f32_from_f16(rt_f16_from_f32((float)v));
    if (dtype == DT_E4M3)
        return rt_f32_from_e4m3(rt_e4m3_from_f32((float)v));
    if (dtype == DT_E5M2)
        return rt_f32_from_e5m2(rt_e5m2_from_f32((float)v));
    return v;
}

/* ---- sources --------------------------------------------------------------------- */

Kernels *kernels_open(Gen *g, const OpTestOptions *o, const char *flags, bool cuda)
{
    Kernels *k = gen_alloc(g, sizeof *k);

    *k = (Kernels){
        .g = g, .emit = {.g = g, .L = g->L}, .o = o, .flags = flags, .cuda = cuda};
    buf_guard_bytes = o->exact_ends ? 0 : GUARD_BYTES;
    emit_open_engine(&k->emit);
    return k;
}

void kernels_compile_by(Kernels *k, const char *nvcc)
{
    k->nvcc = nvcc;
}

/* The file, not compiled yet, that takes this op's next kernel; -1: a new one. For a
 * person each op has its own file, because messages name it; formulas, of which there may
 * be thousands, share one (formula_unit). Otherwise there are as many files as compilers
 * run at a time: reading headers takes most of the time of small kernels. */
static int unit_for(const Kernels *k, const char *op)
{
    const bool named = k->o->person || k->o->formulas;
    int waiting = 0, best = -1;
    size_t least = SIZE_MAX;

    for (int i = 0; i < k->units.count; i++) {
        const SourceUnit *s = &k->units.items[i];

        if (s->compiled)
            continue;
        if (named && !strcmp(s->name, op))
            return i;
        waiting++;
        if (s->text.len + s->device.len < least) {
            least = s->text.len + s->device.len;
            best = i;
        }
    }
    return named || waiting < k->o->jobs ? -1 : best;
}

static int open_unit(Kernels *k, const char *op)
{
    int open = unit_for(k, op);
    SourceUnit *s;

    if (open >= 0)
        return open;
    s = gen_push(k->g, &k->units);
    s->name = gen_strdup(k->g, op);
    s->text.g = s->device.g = s->prepare.g = k->g;
    if (k->cuda)
        text_printf(&s->text, "#include \"rt_cuda.h\"\n\nextern Rt op_test_rt;\n"
                              "extern float op_test_loss_scale;\n"
                              "char *cuda_at(const void *p);\n\n");
    else
        text_printf(
            &s->text,
            "#include \"rt.h\"\n#include \"rt_simd.h\"\n\n#include <string.h>\n\n");
    return k->units.count - 1;
}

/* Random formulas share files of a size that compiles quickly. */
static const char *formula_unit(Kernels *k, const OpRule *op)
{
    const int of_a_file = 150;

    if (!k->o->formulas || !op->info->map || op->name[0] != 'f')
        return op->name;
    return gen_printf(k->g, "formulas%d", k->list.count / of_a_file);
}

/* A function of one signature around the kernel. */
static void add_wrapper(const Kernels *k, Text *t, const OpRule *op, const char *name,
                        int n_operands, bool beta, bool workspace)
{
    const char *rt = k->cuda ? "&op_test_rt, " : "";

    text_printf(t, "\nvoid call_%s(char **a, float beta, char *workspace);\n", name);
    text_printf(t, "void call_%s(char **a, float beta, char *workspace)\n{\n", name);
    text_printf(t, "    (void)beta;\n    (void)workspace;\n    %s(%s", name, rt);
    if (op->optimizer)
        text_printf(t, "(const RtUpdate *)a[0], (const RtUpdateRun *)a[1]");
    for (int i = 0; i < n_operands && !op->optimizer; i++)
        text_printf(t, "%s(void *)a[%d]", i ? ", " : "", i);
    text_printf(t, "%s%s%s);\n}\n\n", beta ? ", beta" : "",
                workspace ? ", workspace" : "",
                !ops_scaled(k->g, op) ? ""
                : k->cuda ? ", (const float *)(void *)cuda_at(&op_test_loss_scale)"
                          : ", 64.0f"); /* as in op_test.lua */
}

/* Adds what `//@ prepare:` handed over, and, on CUDA, the host's text; pops the table. */
static const char *take_prepared(Kernels *k, SourceUnit *s)
{
    lua_State *L = k->g->L;
    const char *host = NULL;

    for (int i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
        text_printf(&s->prepare, "    %s\n", lua_tostring(L, -1));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    if (lua_getfield(L, -1, "host") == LUA_TSTRING)
        host = gen_strdup(k->g, lua_tostring(L, -1));
    lua_pop(L, 2);
    return host;
}

int kernels_add(Kernels *k, const OpRule *op, const char *name, int n_operands, bool beta,
                bool workspace)
{
    lua_State *L = k->g->L;
    size_t bytes, n;
    const char *file = k->cuda ? "cuda.cu" : "cpu.c", *text, *host;
    const char *source = ops_template(k->g, op, file, &bytes);
    SourceUnit *s;
    Kernel *item;
    int unit;

    if (!source) {
        lua_pop(L, 1);
        return -1;
    }
    emit_bool(L, "cuda", k->cuda);
    lua_rawgeti(L, LUA_REGISTRYINDEX, k->emit.template_ref);
    lua_getfield(L, -1, "kernel_helpers");
    lua_remove(L, -2);
    lua_insert(L, -2);
    lua_call(L, 1, 1);
    text =
        emit_render(&k->emit, source, bytes, ops_template_path(k->g, op, file), true, &n);
    if (!text) {
        diag_stop_on_errors(k->g);
        gen_die("%s: no text", op->name);
    }
    unit = open_unit(k, formula_unit(k, op));
    s = &k->units.items[unit];
    host = take_prepared(k, s);
    gen_require(!k->cuda == !host,
                "%s: //@ host belongs in every cuda.cu, and there only", op->name);
    text_add(host ? &s->device : &s->text, text, n);
    if (host)
        text_add(&s->text, host, strlen(host));
    add_wrapper(k, &s->text, op, name, n_operands, beta, workspace);
    item = gen_push(k->g, &k->list);
    item->name = gen_strdup(k->g, name);
    item->unit = unit;
    item->of_products = strstr(text, "rt_gemm") || (host && strstr(host, "rt_matmul"));
    item->of_platform =
        strstr(text, "rt_gemm") || strstr(text, "rt_vf") || strstr(text, "rt_vd");
    return k->list.count - 1;
}

bool kernels_of_platform(const Kernels *k, int id)
{
    return k->list.items[id].of_platform;
}

bool kernels_of_products(const Kernels *k, int id)
{
    return k->list.items[id].of_products;
}

/* ---- machine code ---------------------------------------------------------------- */

static const char *unit_path(Kernels *k, int unit, const char *suffix)
{
    return gen_printf(k->g, "%s/%s_%d.%s", k->o->work, k->units.items[unit].name, unit,
                      suffix);
}

static void write_file(const char *path, const char *before, const Text *text,
                       const char *after)
{
    FILE *f = fopen(path, "w");

    gen_require(f, "%s: %s", path, strerror(errno));
    fputs(before, f);
    fwrite(text->len ? text->s : "", 1, text->len, f);
    fputs(after, f);
    gen_require(fclose(f) == 0, "%s: %s", path, strerror(errno));
}

static void write_source(Kernels *k, int unit)
{
    SourceUnit *s = &k->units.items[unit];

    write_file(unit_path(k, unit, "c"), "", &s->text,
               gen_printf(k->g, "void prepare(void);\nvoid prepare(void)\n{\n%s}\n",
                          s->prepare.len ? s->prepare.s : ""));
    if (k->cuda)
        write_file(unit_path(k, unit, "cu"), "#include \"rt_device.h\"\n\n", &s->device,
                   "");
}

const char *op_test_word(Gen *g, const char *s)
{
    Text t = {.g = g};

    text_add(&t, "'", 1);
    for (; *s; s++)
        if (*s == '\'')
            text_add(&t, "'\\''", 4);
        else
            text_add(&t, s, 1);
    text_add(&t, "'", 2); /* with its NUL */
    return t.s;
}

static pid_t start_compiler(Kernels *k, int unit)
{
    const bool kernels = k->cuda && k->units.items[unit].device.len > 0;
    const char *root = op_test_word(k->g, k->o->root);
    const char *path[5] = {"c", "cu", "o", "cubin", "so"}, *object = "", *first = "";
    pid_t pid;

    for (int i = 0; i < 5; i++)
        path[i] = op_test_word(k->g, unit_path(k, unit, path[i]));
    if (kernels && (k->nvcc || k->o->nvcc_check))
        first = gen_printf(k->g, "%s -o %s %s && ", k->nvcc ? k->nvcc : k->o->nvcc_check,
                           path[3], path[1]);
    if (kernels && !k->nvcc) {
        object = path[2];
        first = gen_printf(
            k->g, "%ssh %s/tests/cudasim/simcc %s-I%s/runtime/cuda -o %s %s && ", first,
            root, k->o->person ? "-Wno-error " : "", root, object, path[1]);
    }
    first = gen_printf(k->g, "%s%s -shared -fPIC %s %s %s -o %s", first, k->o->cc,
                       k->flags, path[0], object, path[4]);
    pid = fork();
    gen_require(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        if (k->o->person && !freopen(unit_path(k, unit, "log"), "w", stderr))
            _exit(127);
        execl("/bin/sh", "sh", "-c", first, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void load_unit(Kernels *k, int unit)
{
    const char *path = unit_path(k, unit, "so");
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void (*prepare)(void);

    gen_require(so, "%s", dlerror());
    *(void **)&prepare = dlsym(so, "prepare");
    gen_require(prepare, "%s", dlerror());
    cuda_unit(so, k->nvcc && k->units.items[unit].device.len > 0
                      ? unit_path(k, unit, "cubin")
                      : NULL);
    prepare();
    for (int i = 0; i < k->list.count; i++) {
        Kernel *item = &k->list.items[i];

        if (item->unit != unit)
            continue;
        *(void **)&item->call = dlsym(so, gen_printf(k->g, "call_%s", item->name));
        gen_require(item->call, "%s", dlerror());
    }
}

/* The products, once a kernel calls them. */
static void load_products(Kernels *k)
{
    bool wanted = false;

    for (int i = 0; i < k->list.count; i++)
        wanted = wanted || k->list.items[i].of_products;
    if (!wanted || k->cuda || !k->o->make_products || k->has_products)
        return;
    k->has_products = true;
    gen_require(system(k->o->make_products) == 0, "the products do not compile");
    gen_require(dlopen(k->o->products, RTLD_LAZY | RTLD_GLOBAL), "%s", dlerror());
}

/* Shows what a compiler says of a unit from its first error on, because warnings may come
 * before. The beginning is enough: a unit's kernels are alike. */
static void show_log(const char *text, bool failed)
{
    enum { MOST = 8 };
    const char *at = failed ? strstr(text, "error:") : NULL;

    while (at && at > text && at[-1] != '\n')
        at--;
    at = at ? at : text;
    for (int i = 0; *at && i < MOST; i++) {
        const size_t n = strcspn(at, "\n");

        print_line(stderr, "  ", "%.*s", (int)(n < 400 ? n : 400), at);
        at += n + (at[n] == '\n');
    }
}

/* Messages for a person, of a unit's errors or warnings. */
static void show_compiled(Kernels *k, int unit)
{
    const SourceUnit *s = &k->units.items[unit];
    const char *path, *text;
    size_t bytes = 0;

    if (!k->o->person || read_whole_file(unit_path(k, unit, "log"), &text, &bytes) != 0 ||
        !bytes)
        return;
    path =
        ops_template_path(k->g, ops_find(k->g, s->name), k->cuda ? "cuda.cu" : "cpu.c");
    print_line(stderr, "", "%s: %s: %s", path, s->failed ? "error" : "warning",
               s->failed ? "its kernels do not compile"
                         : "the compiler warns about its kernels");
    show_log(text, s->failed);
    print_line(stderr, "  help: ", "--keep DIR keeps what is compiled");
}

static void wait_for_one(Kernels *k)
{
    int status;
    const pid_t pid = wait(&status);

    gen_require(pid > 0, "wait: %s", strerror(errno));
    for (int i = 0; i < k->units.count; i++)
        if (k->units.items[i].pid == pid)
            k->units.items[i].failed = status != 0;
}

bool kernels_compile(Kernels *k, int jobs)
{
    int running = 0, failed = 0, from = k->units.count;

    while (from > 0 && !k->units.items[from - 1].compiled)
        from--;
    load_products(k);
    for (int i = from; i < k->units.count || running > 0;) {
        if (i < k->units.count && running < jobs) {
            write_source(k, i);
            k->units.items[i].pid = start_compiler(k, i);
            k->units.items[i++].compiled = true;
            running++;
            continue;
        }
        wait_for_one(k);
        running--;
    }
    for (int i = from; i < k->units.count; i++) {
        show_compiled(k, i);
        failed += k->units.items[i].failed;
    }
    if (failed && !k->o->person)
        fprintf(stderr, "op_test: %d of the C files in %s do not compile\n", failed,
                k->o->work);
    for (int i = from; i < k->units.count && !failed; i++)
        load_unit(k, i);
    return !failed;
}

void kernels_run(Kernels *k, int id, char **data, float beta, char *workspace)
{
    gen_require(id >= 0 && id < k->list.count && k->list.items[id].call, "kernel %d", id);
    k->list.items[id].call(data, beta, workspace);
}
