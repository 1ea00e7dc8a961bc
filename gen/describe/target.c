/* SPDX-License-Identifier: Apache-2.0 */
/* target.c: the targets: their properties, the checks of their fields, and how they fill
 * the Model. In: the resolved description. Out: m->target, m->rates and the model's
 * fields under "platform". */
#include "describe/check.h"

#include <stdlib.h>
#include <string.h>

/* ---- cpu ------------------------------------------------------------------------- */

enum { MACHINE_MAX_RANKS = 64 }; /* that the runtime starts, on one machine */

/* Code, C library, OpenMP, a GEMM library with its packing buffers, the runtime's own
 * tables. This is an upper bound, tested against the process's high-water mark. Mapped
 * data files are page cache and not counted. */
#define CPU_LIBRARY_BYTES (INT64_C(128) << 20)

/* What these usually take: 3 to 21 MiB, by library and threads (docs/measured.md). */
#define CPU_PROCESS_BYTES (INT64_C(14) << 20)

#define US_PS INT64_C(1000000)

static void check_cpu(Check *c)
{
    (void)c;
}

static void fill_cpu(Check *c, Model *m)
{
    m->cpu_arch = value_str(c, "target.arch");
    m->comm_thread = value_bool(c, "target.comm_thread");
    m->library_bytes = CPU_LIBRARY_BYTES;
}

/* ---- cuda ------------------------------------------------------------------------ */

static const KernelLibrary cudnn = {
    .name = "cuDNN",
    .field = "target.attention",
    .folder = "cudnn",
    .file = "cudnn.cu",
    .workspace = "workspace_cudnn",
    .check = "check_cudnn",
    .slow = "slow_cudnn",
    .site = "site_cudnn",
    .choices = "target.attention_choices",
};

typedef struct Lack {
    const char *problem, *help; /* NULL: none */
} Lack;

/* What cuDNN lacks of an architecture; NULL: of the rest of the description. Its
 * deterministic backward is Hopper's; on other GPUs it has other forms. */
static Lack cudnn_lacks(Check *c, const char *arch)
{
    const char *param = value_str(c, "dtypes.param");
    int64_t end;

    if (arch && strcmp(arch, "sm_90") != 0 && strcmp(arch, "sm_90a") != 0)
        return (Lack){gen_printf(c->g,
                                 "cuDNN's has the same bits every time on sm_90 only, "
                                 "and target.arch has %s",
                                 arch),
                      "leave it out"};
    if (!arch && *param && strcmp(param, "bf16") != 0 && strcmp(param, "f16") != 0)
        return (Lack){gen_printf(c->g, "cuDNN has none of %s", param),
                      "use dtypes.param = \"bf16\", or leave it out"};
    if (!arch && value_int(c, "documents.end_id", &end))
        return (Lack){"cuDNN's attention does not support documents", "leave it out"};
    return (Lack){0};
}

static void check_cudnn(Check *c, const char *arch)
{
    const Lack lack = cudnn_lacks(c, arch);

    const char *by = value_str(c, "target.attention");

    if (lack.problem && (!strcmp(by, "cudnn") || !strcmp(by, "tune")))
        COMPLAIN(c, "target.attention", lack.help, "target.attention: %s", lack.problem);
}

static const char *site_path(Check *c, int i)
{
    return gen_printf(c->g, "%s.sites[%d]", cudnn.choices, i + 1);
}

static const char *site_at(Check *c, int i)
{
    return value_str(c, gen_printf(c->g, "%s.site", site_path(c, i)));
}

static int count_choices(Check *c)
{
    const bool given =
        value_push(c, gen_printf(c->g, "%s.sites", cudnn.choices)) == LUA_TTABLE;
    const int n = given ? (int)lua_rawlen(c->L, -1) : 0;

    lua_pop(c->L, 1);
    return n;
}

/* An architecture's features ("sm_90a") are those of kernels, not of GPUs. */
static bool same_arch(const char *a, const char *b)
{
    return atoi(a + strlen("sm_")) == atoi(b + strlen("sm_"));
}

static void check_choices_arch(Check *c, const char *arch)
{
    const char *measured = value_str(c, "target.attention_choices.arch");

    if (*measured && !same_arch(measured, arch))
        COMPLAIN(c, "target.attention_choices.arch",
                 "measure on such a GPU (trainer --tune-kernels), or leave "
                 "attention_choices out",
                 "target.attention_choices: measured on %s (%s), and target.arch has %s",
                 value_str(c, "target.attention_choices.gpu"), measured, arch);
}

/* Measured choices: for a description that leaves some to choose, each site once. */
static void check_choices(Check *c)
{
    const char *by = value_str(c, "target.attention");
    const bool given = value_push(c, cudnn.choices) == LUA_TTABLE;
    const int n = count_choices(c);

    lua_pop(c->L, 1);
    if (given && (!strcmp(by, "generated") || !strcmp(by, "cudnn")))
        COMPLAIN(c, cudnn.choices, "write attention = \"auto\", or leave them out",
                 "target.attention_choices: target.attention = \"%s\" leaves no choice",
                 by);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (*site_at(c, i) && !strcmp(site_at(c, i), site_at(c, k)))
                COMPLAIN(c, site_path(c, i), "remove one",
                         "target.attention_choices: the site \"%s\" is there twice",
                         site_at(c, i));
}

static bool asks_fp8(Check *c)
{
    return !strcmp(value_str(c, "dtypes.linear"), "fp8");
}

/* What cuBLASLt has no product for: bf16 gradients of weights with another dtype, and f64
 * from fp8. */
static void check_cuda_dtypes(Check *c)
{
    const char *param = value_str(c, "dtypes.param");

    if (*param && strcmp(param, "bf16") != 0 &&
        !strcmp(value_str(c, "dtypes.reduce"), "bf16"))
        COMPLAIN(c, "dtypes.reduce", "use \"f32\", or dtypes.param = \"bf16\"",
                 "dtypes.reduce: \"bf16\" needs bf16 weights on the cuda target, but "
                 "dtypes.param is \"%s\": cuBLASLt writes no bf16 from %s",
                 param, param);
    if (asks_fp8(c) && !strcmp(param, "f64"))
        COMPLAIN(c, "dtypes.linear", "use dtypes.param = \"bf16\", or leave it out",
                 "dtypes.linear: \"fp8\" does not go with dtypes.param (\"f64\") on the "
                 "cuda target: cuBLASLt writes no f64 from fp8");
}

static void check_fp8(Check *c, const char *arch)
{
    if (asks_fp8(c) && atoi(arch + strlen("sm_")) < 89)
        COMPLAIN(
            c, "dtypes.linear", "leave it out, or use a GPU from sm_89 on",
            "dtypes.linear: \"fp8\" needs GPUs from sm_89 on, and target.arch has %s",
            arch);
}

static void check_cuda(Check *c)
{
    const char *seen[16] = {0};
    int n = 0;

    check_cuda_dtypes(c);
    check_network(c);
    if (*value_str(c, "target.memory") && *value_str(c, "target.reserve") &&
        size_parse(value_str(c, "target.reserve")) >=
            size_parse(value_str(c, "target.memory")))
        COMPLAIN(c, "target.reserve",
                 gen_printf(c->g, "reserve less than the memory: reserve = \"%lldMiB\"",
                            (long long)(size_parse(value_str(c, "target.memory")) >> 23)),
                 "target.reserve: %s of the gpu's %s leaves nothing to the arena",
                 value_str(c, "target.reserve"), value_str(c, "target.memory"));
    if (value_push(c, "target.arch") == LUA_TTABLE) {
        n = (int)lua_rawlen(c->L, -1);
        if (n == 0)
            COMPLAIN(c, "target.arch", "leave it out", "target.arch: the list is empty");
    }
    check_cudnn(c, NULL);
    check_choices(c);
    for (int i = 0; i < n && i < 16; i++) {
        lua_rawgeti(c->L, -1, i + 1);
        seen[i] = lua_tostring(c->L, -1);
        lua_pop(c->L, 1);
        if (seen[i]) {
            check_cudnn(c, seen[i]);
            check_choices_arch(c, seen[i]);
            check_fp8(c, seen[i]);
        }
        for (int k = 0; k < i; k++)
            if (seen[i] && seen[k] && !strcmp(seen[i], seen[k]))
                COMPLAIN(c, gen_printf(c->g, "target.arch[%d]", i + 1), "remove one",
                         "target.arch: %s is there twice", seen[i]);
    }
    lua_pop(c->L, 1);
}

static void fill_cuda_rates(Check *c, Rates *r)
{
    const struct {
        CostClass cls;
        const char *field;
        double unit; /* in one microsecond */
    } rows[] = {
        {COST_PRODUCT, "target.rates.tflops", 1e6},
        {COST_ATTENTION, "target.rates.attention", 1e6},
        {COST_ATTENTION_BWD, "target.rates.attention_bwd", 1e6},
        {COST_ELEMENTWISE, "target.rates.memory", 1e3},
        {COST_NORM, "target.rates.norm", 1e3},
        {COST_COPY, "target.rates.memory", 1e3},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        r->per_us[rows[i].cls] = (int64_t)(value_num(c, rows[i].field) * rows[i].unit);
    r->library_per_us[COST_ATTENTION] =
        (int64_t)(value_num(c, "target.rates.cudnn.attention") * 1e6);
    r->library_per_us[COST_ATTENTION_BWD] =
        (int64_t)(value_num(c, "target.rates.cudnn.attention_bwd") * 1e6);
    r->link_per_us = (int64_t)(value_num(c, "target.rates.link") * 1e3);
    value_int(c, "target.rates.sms", &r->processors);
}

static void fill_choices(Check *c, Model *m)
{
    m->n_kernel_choices = count_choices(c);
    m->kernel_choices =
        gen_alloc(c->g, sizeof *m->kernel_choices * (size_t)(m->n_kernel_choices + 1));
    for (int i = 0; i < m->n_kernel_choices; i++) {
        const char *path = site_path(c, i);
        const char *by = value_str(c, gen_printf(c->g, "%s.kernels", path));

        m->kernel_choices[i] = (KernelChoice){path, gen_strdup(c->g, site_at(c, i)),
                                              !strcmp(by, cudnn.folder)};
    }
}

/* "auto" and "tune": of a description that lacks nothing, measured choices and each op's
 * rule say more (infer_library.c). */
static void fill_kernel_library(Check *c, Model *m)
{
    const char *by = value_str(c, "target.attention");
    const bool tune = !strcmp(by, "tune"), choose = tune || !strcmp(by, "auto");
    Lack lack = {0};

    if (choose)
        lack = cudnn_lacks(c, NULL);
    for (int i = 0; choose && i < m->n_archs && !lack.problem; i++)
        lack = cudnn_lacks(c, m->archs[i]);
    if (lack.problem)
        diag_add(c->g, DIAG_NOTE, place_of(c->g, "target.attention"), NULL,
                 "target.attention: generated kernels run all of it: %s", lack.problem);
    m->library_where_able = choose;
    m->library_measured = tune;
    fill_choices(c, m);
    m->kernel_library = !strcmp(by, "cudnn") || (choose && !lack.problem) ? &cudnn : NULL;
}

static void fill_cuda(Check *c, Model *m)
{
    m->gpu = value_str(c, "target.gpu");
    m->jit = value_bool(c, "target.jit");
    m->library_bytes = size_parse(value_str(c, "target.reserve"));
    if (m->param_dtype == DT_BF16 || m->param_dtype == DT_F16)
        m->peak_tflops = value_num(c, "target.rates.peak");
    fill_cuda_rates(c, &m->rates);
    fill_network(c, m);
    value_push(c, "target.arch");
    m->n_archs = (int)lua_rawlen(c->L, -1);
    m->archs = gen_alloc(c->g, sizeof *m->archs * (size_t)(m->n_archs + 1));
    for (int i = 0; i < m->n_archs; i++) {
        lua_rawgeti(c->L, -1, i + 1);
        m->archs[i] = gen_strdup(c->g, lua_tostring(c->L, -1));
        lua_pop(c->L, 1);
    }
    lua_pop(c->L, 1);
    fill_kernel_library(c, m);
}

/* ---- the table ------------------------------------------------------------------- */

static const Target targets[] = {
    {
        .name = "cpu",
        .kernel_file = "cpu.c",
        .workspace = "workspace",
        .budget_field = "target.memory",
        .outside = "outside: code, libraries (bound)",
        .process_bytes = CPU_PROCESS_BYTES,
        .most_ranks = MACHINE_MAX_RANKS,
        /* One or two server cores: products at 40 GFLOP/s, attention at half of that,
         * 8 GB/s from memory, 4 GB/s between processes; a collective costs its ranks two
         * passes through the scheduler. */
        .rates = {.per_us = {40000, 20000, 20000, 8000, 8000, 8000},
                  .link_per_us = 4000,
                  .latency_ps = 50 * US_PS,
                  .f32_slower = 1,
                  .fp8_percent = 100,
                  .contention = 1000},
        .check = check_cpu,
        .fill = fill_cpu,
    },
    {
        .name = "cuda",
        .kernel_file = "cuda.cu",
        .workspace = "workspace_cuda",
        .check_op = "check_cuda",
        .kernel_library = &cudnn,
        .budget_field = "target.gpu",
        .outside = "outside: context, libraries (kept)",
        .device = true,
        .peers_write_gathered = true,
        /* The description names the GPU, which has its rates. A collective over NVLink
         * begins within 20 us; in a graph, a kernel begins about 1 us after the one
         * before it. Products in f32 use no tensor cores, those in f64 others: the H100's
         * data sheet states 67 TFLOP/s for both and 989 for bf16, 15 times as many (an
         * A100's 19.5 and 312). All data sheets
         * state twice the rate of bf16 for fp8; a library of kernels for Hopper reached
         * 1,403 on an H100 and 1,453 on an H200, 1.95 times what bf16 attains here; 1.9
         * leaves a little. Kernels beside a collective were 18.9 % slower on average
         * (arXiv 2507.03114). */
        .rates = {.latency_ps = 20 * US_PS,
                  .launch_ps = US_PS,
                  .f32_slower = 15,
                  .fp8_percent = 190,
                  .contention = 1189},
        /* larger slices are not faster over NVLink */
        .staging_bytes = INT64_C(128) << 20,
        /* recommended for cuBLAS on Hopper; it chooses algorithms that fit */
        .library_workspace_bytes = INT64_C(32) << 20,
        .check = check_cuda,
        .fill = fill_cuda,
    },
};
enum { N_TARGETS = sizeof targets / sizeof *targets };

const Target *target_at(int i)
{
    return i < N_TARGETS ? &targets[i] : NULL;
}

const Target *target_named(const char *name)
{
    for (int i = 0; i < N_TARGETS; i++)
        if (!strcmp(targets[i].name, name))
            return &targets[i];
    return &targets[0];
}
