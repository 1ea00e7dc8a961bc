/* SPDX-License-Identifier: Apache-2.0 */
/* size.c: `fsdpgen size MODEL.lua...`. In: descriptions. Out: for each one and each
 * GPU, with the ranks of its mesh: whether it fits, a rank's bytes, predicted tokens a
 * second, the hours of all GPUs for a billion tokens or those of --tokens, and what they
 * cost at the prices that are given.
 *
 * Ranks on several nodes are planned again with mesh.node, unless the description sets
 * it; a description that does not fit, with recompute = "auto": both change no bit. A
 * description's own target = cuda { ... } stays; fields of it that describe machines with
 * its GPU (of_gpu in gen/lua/describe.lua) count for that GPU alone. Without --gpu, a GPU
 * that cannot run the description is a row that says why. Rates
 * and memories of GPUs are those of gen/lua/describe.lua, nodes and fabrics those of
 * gen/lua/machines.lua. Prices are given by the user, or by a node's datasheet. */
#include "tune/tune.h"

#include "base/child.h"
#include "base/show.h"
#include "describe/load.h"
#include "plan/plan.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Price {
    const char *gpu;
    double usd; /* an hour of one */
} Price;

typedef struct Size {
    Gen *g;
    Text names; /* of GPUs, each followed by a NUL */
    struct {
        Price *items;
        int count, cap;
    } prices;
    json_t *rows; /* of --json */
    int sized;    /* descriptions */
} Size;

static int wrong(Gen *g, const char *help, const char *text)
{
    diag_add(g, DIAG_ERROR, (Pos){0}, help, "size: %s", text);
    g->base.exit_code = EXIT_USAGE;
    return diag_finish(g);
}

/* ---- GPUs and prices ------------------------------------------------------------- */

/* In a child: the values that the field target.gpu of cuda takes. */
static int put_gpus(Gen *g, void *with)
{
    const Kind *cuda;
    const Field *gpu;

    (void)with;
    loader_open(g);
    diag_stop_on_errors(g);
    cuda = kinds_find(&g->loader->kinds, "cuda");
    gpu = cuda ? fields_find(cuda->fields, "gpu") : NULL;
    gen_require(gpu, "describe.lua has no target.gpu");
    for (int i = 0; i < gpu->values.count; i++)
        child_put(gpu->values.items[i], strlen(gpu->values.items[i]) + 1);
    return EXIT_DONE;
}

static bool take_gpus(void *with, const char *s, size_t n)
{
    text_add(&((Size *)with)->names, s, n);
    return true;
}

static const char *next_gpu(const Size *z, const char *at)
{
    at = at ? at + strlen(at) + 1 : z->names.s;
    return at && at < z->names.s + z->names.len ? at : NULL;
}

static bool is_gpu(const Size *z, const char *name)
{
    for (const char *at = next_gpu(z, NULL); at; at = next_gpu(z, at))
        if (!strcmp(at, name))
            return true;
    return false;
}

static const char *gpus_text(const Size *z)
{
    Text t = {.g = z->g};

    for (const char *at = next_gpu(z, NULL); at; at = next_gpu(z, at))
        text_printf(&t, "%s%s", t.len ? ", " : "", at);
    return t.s;
}

/* Are all names of GPUs known? --price GPU=USD as well. */
static int read_gpus(Size *z)
{
    Gen *g = z->g;

    for (int i = 0; i < g->opt.gpus.count; i++)
        if (!is_gpu(z, g->opt.gpus.items[i]))
            return wrong(g, gen_printf(g, "use one of %s", gpus_text(z)),
                         gen_printf(g, "--gpu %s: no such GPU", g->opt.gpus.items[i]));
    for (int i = 0; i < g->opt.prices.count; i++) {
        const char *s = g->opt.prices.items[i], *eq = strchr(s, '=');
        const char *name = eq ? gen_strndup(g, s, (size_t)(eq - s)) : s;
        double usd;

        if (!eq || !options_dollars(eq + 1, &usd))
            return wrong(g, "write --price h100=2.50: dollars for an hour of one GPU",
                         gen_printf(g, "--price %s is not GPU=USD", s));
        if (!is_gpu(z, name))
            return wrong(g, gen_printf(g, "use one of %s", gpus_text(z)),
                         gen_printf(g, "--price %s: no such GPU", name));
        *gen_push(g, &z->prices) = (Price){name, usd};
    }
    return EXIT_DONE;
}

/* Negative: unknown. node: by the datasheet of the node, 0 if it has none. */
static double price_of(const Size *z, const char *gpu, double node)
{
    double usd = node > 0 ? node : -1;

    for (int i = 0; i < z->prices.count; i++)
        usd = strcmp(z->prices.items[i].gpu, gpu) ? usd : z->prices.items[i].usd;
    return usd;
}

/* ---- one description ------------------------------------------------------------- */

/* Refused (plan.code): plan.why; this GPU cannot run the description. */
typedef struct SizeRow {
    const char *gpu;
    OptionList described, recomputed; /* what both plans set */
    TunePlan plan, again;
    bool taken;   /* the second one */
    int64_t node; /* mesh.node, if we set it; or 0 */
} SizeRow;

typedef struct SizeRows {
    SizeRow *items;
    int count, cap;
} SizeRows;

/* How many ranks links join, if not all, and the description says nothing of it. Ranks
 * along tensor that are more cannot be on one node. */
static int64_t silent_node(const TunePlan *p)
{
    return p->near_ranks < p->world_size && p->node_ranks == p->world_size &&
                   p->tensor_ranks <= p->near_ranks
               ? p->near_ranks
               : 0;
}

static int plan_rows(Gen *own, SizeRows *rows)
{
    TuneJob *jobs = gen_alloc(own, sizeof *jobs * (size_t)(rows->count + 1));
    int n = 0, code;

    for (int i = 0; i < rows->count; i++)
        jobs[n++] = (TuneJob){&rows->items[i].described, &rows->items[i].plan};
    code = tune_plan(own, jobs, n, false, NULL, NULL);
    n = 0;
    for (int i = 0; i < rows->count && code == EXIT_DONE; i++) {
        SizeRow *r = &rows->items[i];
        const char *set = gen_printf(own, "mesh.node=%" PRId64, silent_node(&r->plan));

        r->node = silent_node(&r->plan);
        if (r->node) {
            *gen_push(own, &r->described) = set;
            *gen_push(own, &r->recomputed) = set;
            jobs[n++] = (TuneJob){&r->described, &r->plan};
        }
    }
    if (n)
        code = tune_plan(own, jobs, n, false, NULL, NULL);
    n = 0;
    for (int i = 0; i < rows->count; i++)
        if (rows->items[i].plan.code == EXIT_FIT && !rows->items[i].plan.auto_recompute)
            jobs[n++] = (TuneJob){&rows->items[i].recomputed, &rows->items[i].again};
    if (code == EXIT_DONE && n)
        code = tune_plan(own, jobs, n, false, NULL, NULL);
    for (int i = 0; i < rows->count; i++) {
        SizeRow *r = &rows->items[i];

        r->taken = r->plan.code == EXIT_FIT && r->again.step_tokens > 0;
        r->plan = r->taken ? r->again : r->plan;
    }
    return code;
}

static SizeRows make_rows(Size *z, Gen *own)
{
    SizeRows rows = {0};

    for (const char *at = next_gpu(z, NULL); at; at = next_gpu(z, at)) {
        bool wanted = z->g->opt.gpus.count == 0;
        SizeRow *r;

        for (int i = 0; i < z->g->opt.gpus.count; i++)
            wanted = wanted || !strcmp(z->g->opt.gpus.items[i], at);
        if (!wanted)
            continue;
        r = gen_push(own, &rows);
        r->gpu = at;
        *gen_push(own, &r->described) = gen_printf(own, "target.gpu=\"%s\"", at);
        *gen_push(own, &r->recomputed) = r->described.items[0];
        *gen_push(own, &r->recomputed) = "recompute=auto";
    }
    return rows;
}

static double hours_of(const Size *z, const TunePlan *p)
{
    return plan_run_cost(z->g->opt.tokens, p->step_tokens, p->seconds, p->world_size)
        .gpu_hours;
}

static const char *printable(const Size *z, const char *s)
{
    return printable_text(z->g, s, strlen(s));
}

/* Does a row have a price? */
static bool is_priced(const Size *z, const SizeRows *rows)
{
    for (int i = 0; i < rows->count; i++)
        if (price_of(z, rows->items[i].gpu, rows->items[i].plan.usd) >= 0)
            return true;
    return false;
}

/* The first one that has a plan; NULL: all are refused. */
static const TunePlan *first_plan(const SizeRows *rows)
{
    for (int i = 0; i < rows->count; i++)
        if (rows->items[i].plan.code != EXIT_DIAG)
            return &rows->items[i].plan;
    return NULL;
}

static void print_title(const Size *z, const SizeRows *rows)
{
    const bool priced = is_priced(z, rows);

    printf("GPU hours%s of %s, at assumed rates\n", priced ? " and dollars" : "",
           show_tokens(z->g, z->g->opt.tokens));
}

/* What joins the ranks is shown where they lie on several nodes. */
static void print_row(const Size *z, const SizeRow *r)
{
    const TunePlan *p = &r->plan;
    const double usd = price_of(z, r->gpu, p->usd);
    Gen *g = z->g;

    if (p->code == EXIT_DIAG) {
        printf("  %-10s  refused: %s\n", r->gpu, printable(z, p->why));
        return;
    }
    printf("  %-10s  %10s of %10s  ", r->gpu, show_bytes(g, p->bytes),
           show_bytes(g, p->budget_bytes));
    if (p->code != EXIT_DONE) {
        printf("does not fit%s\n", r->taken ? ", nor with recompute = \"auto\"" : "");
        return;
    }
    if (isinf(p->seconds)) {
        printf("a step takes %s\n", show_seconds(g, p->seconds));
        return;
    }
    printf("%12s tokens/s  %8s GPU hours",
           show_rate(g, (double)p->step_tokens / p->seconds),
           show_amount(g, hours_of(z, p)));
    if (usd >= 0)
        printf("  %8s USD", show_amount(g, usd * hours_of(z, p)));
    if (p->nodes > 1)
        printf("  %" PRId64 " x %s, %s", p->nodes, p->node, p->fabric);
    if (r->node)
        printf("  mesh.node = %" PRId64, r->node);
    printf("%s\n", r->taken ? "  recompute = \"auto\"" : "");
}

static void print_rows(const Size *z, const SizeRows *rows, const char *file)
{
    const TunePlan *p = first_plan(rows);
    Gen *g = z->g;

    if (z->sized == 0)
        print_title(z, rows);
    printf("%s: %s parameters, %" PRId64 " rank%s, %s token%s a step\n",
           printable(z, file), show_many(g, (double)p->params), p->world_size,
           p->world_size == 1 ? "" : "s", show_grouped(g, p->step_tokens),
           p->step_tokens == 1 ? "" : "s");
    for (int i = 0; i < rows->count; i++)
        print_row(z, &rows->items[i]);
}

static json_t *row_json(const Size *z, const SizeRow *r, const char *file)
{
    const TunePlan *p = &r->plan;
    const bool fits = p->code == EXIT_DONE, known = fits && isfinite(p->seconds);
    const double usd = price_of(z, r->gpu, p->usd);

    return json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:b, s:n, s:I, s:I, s:b, s:o, s:o, "
        "s:o}",
        "model", printable(z, file), "gpu", r->gpu, "params", (json_int_t)p->params,
        "ranks", (json_int_t)p->world_size, "mesh_node", (json_int_t)r->node, "nodes",
        (json_int_t)p->nodes, "node", p->node, "fabric", p->fabric, "fits", fits,
        "refused", "rank_bytes", (json_int_t)p->bytes, "budget_bytes",
        (json_int_t)p->budget_bytes, "recompute_auto", r->taken, "tokens_per_second",
        known ? json_real((double)p->step_tokens / p->seconds) : json_null(), "gpu_hours",
        known ? json_real(hours_of(z, p)) : json_null(), "usd",
        known && usd >= 0 ? json_real(usd * hours_of(z, p)) : json_null());
}

/* The same keys; what has no value without a plan is null. */
static json_t *refused_json(const Size *z, const SizeRow *r, const char *file)
{
    return json_pack("{s:s, s:s, s:n, s:n, s:n, s:n, s:n, s:n, s:b, s:s, s:n, s:n, s:b, "
                     "s:n, s:n, s:n}",
                     "model", printable(z, file), "gpu", r->gpu, "params", "ranks",
                     "mesh_node", "nodes", "node", "fabric", "fits", 0, "refused",
                     printable(z, r->plan.why), "rank_bytes", "budget_bytes",
                     "recompute_auto", 0, "tokens_per_second", "gpu_hours", "usd");
}

static void add_json(Size *z, const SizeRows *rows, const char *file)
{
    for (int i = 0; i < rows->count; i++) {
        const SizeRow *r = &rows->items[i];
        json_t *o =
            r->plan.code == EXIT_DIAG ? refused_json(z, r, file) : row_json(z, r, file);

        gen_require(o, "size: a row of JSON");
        json_array_append_new(z->rows, o);
    }
}

/* Does the row stand in the table? A GPU that is asked for must have a plan. */
static bool is_row(const Size *z, const SizeRows *rows, const TunePlan *p)
{
    return p->code == EXIT_DONE || p->code == EXIT_FIT ||
           (p->code == EXIT_DIAG && z->g->opt.gpus.count == 0 && first_plan(rows));
}

static int size_one(Size *z, const char *file)
{
    Gen own = {.opt = z->g->opt};
    SizeRows rows;
    int code;

    own.opt.input = file;
    own.opt.target = "cuda";
    own.opt.keeps_target = true;
    own.opt.exact = true;
    own.base.color = z->g->base.color;
    rows = make_rows(z, &own);
    code = plan_rows(&own, &rows);
    for (int i = 0; i < rows.count && code == EXIT_DONE; i++)
        if (!is_row(z, &rows, &rows.items[i].plan))
            code = tune_check(&own, &rows.items[i].described); /* its messages */
    if (code != EXIT_DONE)
        return code;
    if (z->g->opt.json)
        add_json(z, &rows, file);
    else
        print_rows(z, &rows, file);
    z->sized++;
    return EXIT_DONE;
}

/* ---- the command ----------------------------------------------------------------- */

int size_command(Gen *g)
{
    Size z = {.g = g, .names = {.g = g}, .rows = json_array()};
    Gen own = {.opt = g->opt};
    const ChildWork work = {.what = "the list of GPUs",
                            .cause = "is there a loop in a rule of --ops?",
                            .with = &z,
                            .work = put_gpus,
                            .take = take_gpus};
    int code = child_stream(&own, &default_limits, &work);
    char *s;

    if (code == EXIT_DONE)
        code = read_gpus(&z);
    for (int i = 0; i < g->opt.words.count && code == EXIT_DONE; i++)
        code = size_one(&z, g->opt.words.items[i]);
    if (code == EXIT_DONE && g->opt.json) {
        s = json_dumps(z.rows,
                       JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
        gen_require(s, "size: JSON");
        printf("%s\n", s);
        free(s);
    }
    json_decref(z.rows);
    return code;
}
