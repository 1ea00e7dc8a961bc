/* SPDX-License-Identifier: Apache-2.0 */
/* plan_kernels.c: the kernels of a step, for `fsdpgen plan --kernels`. In: the whole Gen
 * after simulate. Out: a table, or JSON: equal kernels on one row, the longest in all
 * first; the rows add up to the busy time of the compute stream.
 *
 * Tiles are 128 x 256 of a product's result, as cuBLASLt mostly takes on Hopper; a wave
 * is one tile for each of the GPU's multiprocessors; a library may take others. Registers
 * and shared memory are known only to compiled images (plan_image.c). */
#include "plan/plan.h"
#include "base/show.h"
#include "ops/ops.h"
#include "report/report.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TILE_ROWS = 128, TILE_COLS = 256 };

typedef struct Row {
    const char *name, *shape;
    const char *kernel; /* its name in an image, which may go on; NULL: known by `name` */
    double flops, bytes; /* of one call */
    int64_t calls;       /* in a step */
    int64_t tiles;       /* 0: unknown */
    KernelPrice price;
} Row;

typedef struct Rows {
    Row *items;
    int count, cap;
    double busy_ps, beside_ps; /* alone; and what collectives add */
} Rows;

/* ---- rows ------------------------------------------------------------------------ */

static bool same_kernel(const Row *a, const Row *b)
{
    return a->kernel && b->kernel ? !strcmp(a->kernel, b->kernel)
                                  : a->kernel == b->kernel;
}

static void add_row(Gen *g, Rows *rows, const Row *new)
{
    for (int i = 0; i < rows->count; i++) {
        Row *r = &rows->items[i];

        if (!strcmp(r->name, new->name) && !strcmp(r->shape, new->shape) &&
            r->price.ps == new->price.ps && (!g->image || same_kernel(r, new))) {
            r->calls += new->calls;
            return;
        }
    }
    *gen_push(g, rows) = *new;
}

static int64_t tiles_of(const Gen *g, const Node *n)
{
    int64_t tiles = 0;

    for (int i = 0; g->model.rates.processors > 0 && i < n->cost.n_products; i++) {
        const Product *p = &n->cost.products[i];

        tiles += p->times * ((p->m + TILE_ROWS - 1) / TILE_ROWS) *
                 ((p->n + TILE_COLS - 1) / TILE_COLS);
    }
    return tiles;
}

static const char *node_shape(Gen *g, const Node *n)
{
    Text t = {.g = g};

    for (int i = 0; i < n->cost.n_products; i++) {
        const Product *p = &n->cost.products[i];

        text_printf(&t, "%s%s %lldx%lldx%lld", i ? ", " : "", product_form_name(p->form),
                    (long long)p->m, (long long)p->n, (long long)p->k);
        if (p->times > 1)
            text_printf(&t, " x%lld", (long long)p->times);
    }
    return t.len ? t.s : n->n_out > 0 ? shape_text(g, n->out[0]) : "";
}

static void add_node(Gen *g, Rows *rows, const Node *n, int64_t calls)
{
    const Row r = {.name = n->op->name,
                   .shape = node_shape(g, n),
                   .kernel = n->kernel,
                   .flops = n->flops,
                   .bytes = (double)(n->cost.moved_bytes + n->cost.pass_bytes),
                   .calls = calls * plan_calls(g, n),
                   .tiles = tiles_of(g, n),
                   .price = cost_node(g, n)};
    const Row met = {.name = "parts of others",
                     .shape = r.shape,
                     .bytes = (double)plan_met_bytes(g, n),
                     .calls = calls,
                     .price = {.ps = cost_meet(g, n), .by = COST_COPY}};

    add_row(g, rows, &r);
    if (met.price.ps > 0)
        add_row(g, rows, &met);
}

/* "[4096]": the elements that it takes of its segment */
static const char *instr_shape(Gen *g, const Instr *i)
{
    const InsRule *rule = ins_rule(i->kind);

    return i->segment < 0
               ? ""
               : gen_printf(g, "[%lld]",
                            (long long)(rule->elems
                                            ? rule->elems(g, i)
                                            : g->segments.items[i->segment].shard_elems));
}

static void add_instr(Gen *g, Rows *rows, const Instr *i, int64_t calls)
{
    const InsRule *rule = ins_rule(i->kind);
    Row r = {.name = rule->name,
             .shape = instr_shape(g, i),
             .kernel = i->kind == INS_MATRICES && g->shapes.count > 0
                           ? g->shapes.items[0].node->op->name
                           : NULL,
             .flops = i->flops,
             .bytes = rule->collective      ? (double)i->moved_bytes
                      : rule->traffic_bytes ? rule->traffic_bytes(g, i)
                                            : 0,
             .calls = calls,
             .price = rule->collective ? (KernelPrice){.ps = cost_instr(g, i)}
                                       : cost_kernel(g, i)};

    if (r.price.ps > 0)
        add_row(g, rows, &r);
}

static int by_time(const void *a, const void *b)
{
    const Row *x = a, *y = b;
    const double p = (double)x->price.ps * (double)x->calls,
                 q = (double)y->price.ps * (double)y->calls;

    return p != q                     ? (p < q ? 1 : -1)
           : strcmp(x->name, y->name) ? strcmp(x->name, y->name)
                                      : strcmp(x->shape, y->shape);
}

static Rows step_rows(Gen *g)
{
    Rows rows = {0};

    for (int id = 0; id < g->prog.ins.count; id++) {
        const Instr *i = &g->prog.ins.items[id];
        const int64_t turns = ins_turns(g, i);

        if (i->stream != STREAM_COMPUTE || turns == 0)
            continue;
        if (i->kind != INS_SPAN) {
            add_instr(g, &rows, i, turns);
            continue;
        }
        for (int k = 0; k < ins_span(g, i)->n_nodes; k++)
            add_node(g, &rows, ins_span(g, i)->nodes[k], turns);
    }
    for (int i = 0; i < rows.count; i++)
        rows.busy_ps += (double)rows.items[i].calls * (double)rows.items[i].price.ps;
    rows.beside_ps = fmax((double)simulate_busy(g) - rows.busy_ps, 0);
    if (rows.count > 0)
        qsort(rows.items, (size_t)rows.count, sizeof *rows.items, by_time);
    return rows;
}

/* ---- compiled kernels ------------------------------------------------------------ */

/* The kernels of an image that a row calls: of "a" and "a_b", "a_b_c" is of the longer.
 */
static bool calls_kernel(const Rows *rows, const Row *r, const ImageKernel *k)
{
    if (!image_kernel_is_of(k, r->kernel, r->name))
        return false;
    for (int i = 0; r->kernel && i < rows->count; i++) {
        const Row *o = &rows->items[i];

        if (o->kernel && strlen(o->kernel) > strlen(r->kernel) &&
            image_kernel_is_of(k, o->kernel, o->name))
            return false;
    }
    return true;
}

/* The most that one of a row's kernels takes; no registers: the image has none. */
static ImageKernel most_of(const Gen *g, const Rows *rows, const Row *r)
{
    ImageKernel most = {0};

    for (int i = 0; g->image && i < g->image->count; i++) {
        const ImageKernel *k = &g->image->items[i];

        if (!calls_kernel(rows, r, k))
            continue;
        most.registers = max_i64(most.registers, k->registers);
        most.shared_bytes = max_i64(most.shared_bytes, k->shared_bytes);
    }
    return most;
}

static void print_stacks(const Gen *g, Text *t)
{
    for (int i = 0; i < g->image->count; i++) {
        const ImageKernel *k = &g->image->items[i];

        if (k->stack_bytes > 0)
            text_printf(t, "  %s keeps %lld bytes of each thread in memory\n", k->name,
                        (long long)k->stack_bytes);
    }
}

static json_t *json_compiled(const Gen *g, const Rows *rows, const Row *r)
{
    json_t *list = json_array();

    for (int i = 0; i < g->image->count; i++) {
        const ImageKernel *k = &g->image->items[i];
        json_t *o;

        if (!calls_kernel(rows, r, k))
            continue;
        o = json_pack("{s:s, s:I, s:I, s:I}", "name", k->name, "registers",
                      (json_int_t)k->registers, "shared_bytes",
                      (json_int_t)k->shared_bytes, "stack_bytes",
                      (json_int_t)k->stack_bytes);
        if (k->threads > 0)
            json_object_set_new(o, "threads", json_integer((json_int_t)k->threads));
        json_array_append_new(list, o);
    }
    return list;
}

/* ---- text ------------------------------------------------------------------------ */

static const char *rate_text(Gen *g, const KernelPrice *p)
{
    const char *source = p->measured ? "measured" : "assumed";

    if (p->rate == 0)
        return p->measured                  ? "this shape, measured"
               : g->model.rates.n_moves > 0 ? "link, measured"
                                            : "link, assumed";
    if (cost_by_flops(p->by) && p->rate >= 1e12)
        return gen_printf(g, "%s %.4g TFLOP/s, %s", cost_class_name(p->by),
                          p->rate * 1e-12, source);
    return gen_printf(g, "%s %.4g %s/s, %s", cost_class_name(p->by), p->rate * 1e-9,
                      cost_by_flops(p->by) ? "GFLOP" : "GB", source);
}

static void print_row(Gen *g, Text *t, const Rows *rows, const Row *r, int names,
                      int shapes, double all_ps)
{
    const double ps = (double)r->price.ps;
    const ImageKernel most = most_of(g, rows, r);

    text_printf(t, "  %-*s %-*s %7lld %9.3g %9.3g", names, r->name, shapes, r->shape,
                (long long)r->calls, r->flops * 1e-9, r->bytes * 1e-6);
    if (g->model.rates.processors > 0 && r->tiles > 0)
        text_printf(t, " %7lld %6.2f", (long long)r->tiles,
                    (double)r->tiles / (double)g->model.rates.processors);
    else if (g->model.rates.processors > 0)
        text_printf(t, " %7s %6s", "-", "-");
    if (most.registers > 0)
        text_printf(t, " %5lld %7lld", (long long)most.registers,
                    (long long)most.shared_bytes);
    else if (g->image)
        text_printf(t, " %5s %7s", "-", "-");
    text_printf(t, " %10.4g %10.4g %5.1f %%  %s\n", ps * 1e-9,
                ps * (double)r->calls * 1e-9, 100.0 * ps * (double)r->calls / all_ps,
                rate_text(g, &r->price));
}

void plan_print_kernels(Gen *g, Text *t)
{
    Rows rows = step_rows(g);
    const double all = fmax(rows.busy_ps + rows.beside_ps, 1);
    int names = 6, shapes = 5;

    for (int i = 0; i < rows.count; i++) {
        names = (int)max_i64(names, (int64_t)strlen(rows.items[i].name));
        shapes = (int)max_i64(shapes, (int64_t)strlen(rows.items[i].shape));
    }
    text_printf(t, "kernels of a step on each rank (%s); equal ones on one row\n",
                cost_source(g));
    text_printf(t, "  %-*s %-*s %7s %9s %9s", names, "kernel", shapes, "shape", "calls",
                "Gflop", "MB");
    if (g->model.rates.processors > 0)
        text_printf(t, " %7s %6s", "tiles", "waves");
    if (g->image)
        text_printf(t, " %5s %7s", "regs", "shared");
    text_printf(t, " %10s %10s %7s  %s\n", "ms a call", "ms", "share", "rate");
    for (int i = 0; i < rows.count; i++)
        print_row(g, t, &rows, &rows.items[i], names, shapes, all);
    text_printf(t, "\n  kernels alone   %12.6g ms\n", rows.busy_ps * 1e-9);
    if (rows.beside_ps > 0)
        text_printf(t, "  collectives add %12.6g ms to what runs beside them\n",
                    rows.beside_ps * 1e-9);
    if (isinf(g->prog.step_seconds))
        text_printf(t, "  the step takes %s\n", show_seconds(g, g->prog.step_seconds));
    else
        text_printf(t,
                    "  compute stream  %12.6g ms busy, %.1f %% of the step's %.6g ms; "
                    "the rest it waits for collectives\n",
                    all * 1e-9, 100.0 * all * 1e-12 / g->prog.step_seconds,
                    g->prog.step_seconds * 1e3);
    if (g->model.rates.processors > 0)
        text_printf(t,
                    "  tiles of %d x %d on %lld multiprocessors; a library may choose "
                    "others\n",
                    TILE_ROWS, TILE_COLS, (long long)g->model.rates.processors);
    if (!g->image)
        return;
    text_printf(t,
                "  registers of a thread, bytes of shared memory of a block: the most "
                "of a row's kernels in %s; those of libraries are not in it\n",
                g->opt.image);
    print_stacks(g, t);
}

/* ---- JSON ------------------------------------------------------------------------ */

static json_t *json_row(const Gen *g, const Rows *rows, const Row *r, double all_ps)
{
    json_t *o = json_object();
    const double ps = (double)r->price.ps;

    json_object_set_new(o, "name", json_string(r->name));
    json_object_set_new(o, "shape", json_string(r->shape));
    json_object_set_new(o, "calls", json_integer((json_int_t)r->calls));
    json_object_set_new(o, "flops", json_real(r->flops));
    json_object_set_new(o, "bytes", json_real(r->bytes));
    if (r->tiles > 0) {
        json_object_set_new(o, "tiles", json_integer((json_int_t)r->tiles));
        json_object_set_new(
            o, "waves", json_real((double)r->tiles / (double)g->model.rates.processors));
    }
    if (g->image)
        json_object_set_new(o, "compiled", json_compiled(g, rows, r));
    if (r->price.rate > 0) {
        json_object_set_new(o, "class", json_string(cost_class_name(r->price.by)));
        json_object_set_new(o, "rate", json_real(r->price.rate));
    }
    json_object_set_new(o, "measured", json_boolean(r->price.measured));
    json_object_set_new(o, "ms", json_real(ps * 1e-9));
    json_object_set_new(o, "total_ms", json_real(ps * (double)r->calls * 1e-9));
    json_object_set_new(o, "share", json_real(ps * (double)r->calls / all_ps));
    return o;
}

json_t *plan_kernels_json(Gen *g)
{
    Rows rows = step_rows(g);
    const double all = fmax(rows.busy_ps + rows.beside_ps, 1);
    json_t *o = json_object(), *list = json_array();

    for (int i = 0; i < rows.count; i++)
        json_array_append_new(list, json_row(g, &rows, &rows.items[i], all));
    json_object_set_new(o, "source", json_string(cost_source(g)));
    json_object_set_new(o, "rows", list);
    json_object_set_new(o, "alone_ms", json_real(rows.busy_ps * 1e-9));
    json_object_set_new(o, "contention_ms", json_real(rows.beside_ps * 1e-9));
    json_object_set_new(o, "compute_ms", json_real(all * 1e-9));
    json_object_set_new(o, "step_ms", json_finite(g->prog.step_seconds * 1e3));
    return o;
}
