/* SPDX-License-Identifier: Apache-2.0 */
/* plan_screen.c: what `fsdpgen plan` prints first, on one screen. In: the whole Gen after
 * simulate, whether the plan fits or not. Out: a rank's bytes against its budget, the
 * predicted step and what bounds it, and what a run takes and costs. */
#include "report/plan_line.h"
#include "report/report.h"
#include "base/show.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BAR = 40, MOST_SHARES = N_COSTS + 3 };

/* ---- memory ---------------------------------------------------------------------- */

static const char *bar(Gen *g, int64_t bytes, int64_t of, char with)
{
    int n = of > 0 ? (int)((double)bytes / (double)of * BAR + 0.5) : 0;
    char *s = gen_alloc(g, BAR + 1);

    n = n < 1 && bytes > 0 ? 1 : n > BAR ? BAR : n;
    memset(s, with, (size_t)n);
    return s;
}

static void print_memory(Gen *g, Text *t)
{
    const int64_t budget = g->model.budget_bytes;
    const PlanBytes b = plan_bytes(g);
    const int64_t all = max_i64(budget, b.total);
    const struct {
        const char *what;
        int64_t bytes;
    } rows[] = {
        {"parameters", b.params},         {"gradients", b.gradients},
        {"master, moments", b.optimizer}, {"activations", b.activations},
        {"gathered weights", b.gather},   {"partial sums", b.partials},
        {"workspace, data", b.workspace}, {"outside the arena", b.library},
    };

    if (budget == 0)
        text_printf(t, "memory: %s a rank; the target names no budget\n",
                    show_bytes(g, b.total));
    else
        text_printf(t, "memory: %s: %s a rank of %s\n",
                    b.total <= budget ? "fits" : "DOES NOT FIT", show_bytes(g, b.total),
                    show_bytes(g, budget));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].bytes > 0)
            text_printf(t, "  %-18s %11s  %s\n", rows[i].what,
                        show_bytes(g, rows[i].bytes), bar(g, rows[i].bytes, all, '#'));
    if (budget > 0)
        text_printf(t, "  %-18s %11s  %s\n", b.total <= budget ? "free" : "too many",
                    show_bytes(g, budget > b.total ? budget - b.total : b.total - budget),
                    bar(g, budget > b.total ? budget - b.total : b.total - budget, all,
                        b.total <= budget ? '.' : '!'));
}

/* ---- time ------------------------------------------------------------------------ */

typedef struct Share {
    const char *what;
    int64_t ps; /* of a step */
} Share;

static int by_time(const void *pa, const void *pb)
{
    const Share *a = pa, *b = pb;

    return a->ps != b->ps ? (a->ps < b->ps ? 1 : -1) : strcmp(a->what, b->what);
}

static void add_share(Share *s, int64_t n, int64_t ps)
{
    s->ps = cost_sum(s->ps, cost_times(n, ps));
}

/* What each class of kernels takes alone; what collectives take beside them, and what the
 * compute stream waits for them. Most first. */
static void find_shares(Gen *g, Share shares[MOST_SHARES])
{
    static const char *const names[MOST_SHARES] = {"products",
                                                   "attention",
                                                   "attention backward",
                                                   "elementwise",
                                                   "norms",
                                                   "copies",
                                                   "contention",
                                                   "waits for collectives",
                                                   "collectives, beside nothing"};
    int64_t alone = 0, busy;

    for (int k = 0; k < MOST_SHARES; k++)
        shares[k] = (Share){names[k], 0};
    for (int id = 0; id < g->prog.ins.count; id++) {
        const Instr *i = &g->prog.ins.items[id];
        const int64_t turns = ins_turns(g, i);

        if (i->stream != STREAM_COMPUTE || turns == 0)
            continue;
        alone = cost_sum(alone, cost_times(turns, cost_instr(g, i)));
        for (int k = 0; i->kind == INS_SPAN && k < ins_span(g, i)->n_nodes; k++) {
            const Node *n = ins_span(g, i)->nodes[k];
            const KernelPrice p = cost_node(g, n);

            add_share(&shares[p.by], plan_calls(g, n) * turns, p.ps);
            add_share(&shares[N_COSTS + 2], turns, cost_meet(g, n));
        }
        if (i->kind != INS_SPAN)
            add_share(&shares[ins_is_collective(i)      ? N_COSTS + 2
                              : i->kind == INS_MATRICES ? COST_PRODUCT
                                                        : (int)ins_rule(i->kind)->cost],
                      turns, cost_instr(g, i));
    }
    busy = max_i64(simulate_busy(g), alone);
    shares[N_COSTS].ps = busy - alone;
    shares[N_COSTS + 1].ps =
        max_i64((int64_t)(g->prog.step_seconds * 1e12 + 0.5) - busy, 0);
    qsort(shares, MOST_SHARES, sizeof *shares, by_time);
}

/* To a whole number, unless it is small. */
static double rounded(double x)
{
    return x >= 10 ? floor(x + 0.5) : x;
}

static void print_time(Gen *g, Text *t)
{
    const Model *m = &g->model;
    const double seconds = g->prog.step_seconds;
    const double tokens = (double)(m->global_batch * m->seq_tokens);
    Share shares[MOST_SHARES];

    text_printf(t, "\na step of %s token%s, predicted: %s (%s)\n",
                show_grouped(g, m->global_batch * m->seq_tokens), tokens == 1 ? "" : "s",
                show_seconds(g, seconds), cost_source(g));
    if (seconds <= 0 || isinf(seconds))
        return;
    text_printf(t, "  %s tokens/s", show_rate(g, tokens / seconds));
    if (m->mesh.world_size > 1)
        text_printf(t, ", %s a rank",
                    show_rate(g, rounded(tokens / seconds / (double)m->mesh.world_size)));
    if (m->peak_tflops > 0)
        text_printf(t, "; model flops utilization %.1f %%",
                    100 * plan_flops_per_token(g) * tokens / seconds /
                        (m->peak_tflops * 1e12 * (double)m->mesh.world_size));
    text_printf(t, "\n  bounded by");
    find_shares(g, shares);
    for (int k = 0, first = 1; k < MOST_SHARES; k++) {
        const double percent = 1e-10 * (double)shares[k].ps / seconds;

        if (percent < 1.5)
            continue;
        text_printf(t, "%s %s %.0f %%", first ? "" : ",", shares[k].what, percent);
        first = 0;
    }
    text_printf(t, "\n");
    plan_print_parts_price(g, t);
}

/* Fewer parts are sometimes slower, by the plan. */
void plan_print_parts_price(Gen *g, Text *t)
{
    const double seconds = g->parts_price.seconds;
    const int64_t bytes = g->parts_price.bytes;

    if (!g->parts_price.fewer)
        return;
    text_printf(
        t,
        "  more parts than ranks: a step takes %s %s, a rank %s %s, than with %s;\n"
        "    have as many parts as the most ranks that you will want\n",
        show_seconds(g, fabs(seconds)), seconds < 0 ? "less" : "more",
        show_bytes_short(g, bytes < 0 ? -bytes : bytes), bytes < 0 ? "less" : "more",
        g->parts_price.fewer);
}

/* ---- a run ----------------------------------------------------------------------- */

static RunCost run_of(const Gen *g)
{
    const Model *m = &g->model;

    return plan_run_cost(g->opt.tokens, m->global_batch * m->seq_tokens,
                         g->prog.step_seconds, m->mesh.world_size);
}

/* Dollars for an hour of one GPU: --price, or the datasheet's of the node; negative: not
 * known. */
static double price_of(const Gen *g)
{
    return g->opt.price.given     ? g->opt.price.usd
           : g->model.net.usd > 0 ? g->model.net.usd
                                  : -1;
}

const char *plan_run_text(Gen *g)
{
    const RunCost c = run_of(g);
    const double usd = price_of(g);
    const char *unit = g->model.gpu ? "GPU" : "rank";
    const char *hours = gen_printf(g, "%s; %s %s hours", show_seconds(g, c.hours * 3600),
                                   show_amount(g, c.gpu_hours), unit);

    if (isinf(c.hours))
        return "too long for a prediction";
    return usd < 0
               ? hours
               : gen_printf(
                     g, "%s, %s USD at %.2f an hour%s", hours,
                     show_amount(g, c.gpu_hours * usd), usd,
                     g->opt.price.given ? "" : gen_printf(g, " (%s)", g->model.net.node));
}

bool plan_run_is_asked(const Gen *g)
{
    return g->opt.tokens != 0 || g->opt.price.given;
}

void plan_print_run(Gen *g, Text *t)
{
    const double steps = ceil(run_of(g).steps);

    text_printf(t, "\n%s: %s step%s, %s\n", show_tokens(g, g->opt.tokens),
                show_many(g, steps), steps == 1 ? "" : "s", plan_run_text(g));
}

json_t *plan_run_json(Gen *g)
{
    const RunCost c = run_of(g);
    const double usd = price_of(g);
    json_t *o;

    if (!plan_run_is_asked(g))
        return NULL;
    o = json_object();
    json_object_set_new(o, "tokens", json_integer((json_int_t)c.tokens));
    json_object_set_new(o, "steps", json_real(c.steps));
    json_object_set_new(o, "hours", json_finite(c.hours));
    json_object_set_new(o, "gpu_hours", json_finite(c.gpu_hours));
    if (usd >= 0) {
        json_object_set_new(
            o, "price_of",
            json_string(g->opt.price.given ? "--price" : g->model.net.node));
        json_object_set_new(o, "usd_per_gpu_hour", json_real(usd));
        json_object_set_new(o, "usd", json_finite(c.gpu_hours * usd));
    }
    return o;
}

/* ---- the screen ------------------------------------------------------------------ */

static void print_model(Gen *g, Text *t)
{
    const Model *m = &g->model;

    text_printf(t, "%s, %s parameters on %" PRId64 " %s%s", m->arch,
                show_many(g, (double)plan_params(g)), m->mesh.world_size,
                m->gpu ? m->gpu : "CPU rank",
                m->gpu || m->mesh.world_size == 1 ? "" : "s");
    if (m->mesh.world_size > 1)
        text_printf(t, " (%s), %s", plan_mesh_text(g), strategy_name(m->strategy));
    if (m->net.nodes > 1)
        text_printf(t, ", %" PRId64 " nodes (%s, fabric %s)", m->net.nodes, m->net.node,
                    m->net.fabric);
}

void plan_print_checked(Gen *g)
{
    Text t = {.g = g};

    print_model(g, &t);
    print_line(stdout, "", "%s: ok, %s", g->opt.input, t.s);
}

void plan_print_screen(Gen *g, Text *t)
{
    const PlanWarnings w = plan_warnings(g);

    text_printf(t, "%s: ", g->model.name);
    print_model(g, t);
    text_printf(t, "\n\n");
    print_memory(g, t);
    print_time(g, t);
    plan_print_run(g, t);
    for (int i = 0; i < w.count; i++)
        text_printf(t, "%swarning: %s\n", i == 0 ? "\n" : "", w.items[i]);
    text_printf(t, "\nmore: --all, --kernels, --json, --html FILE, --trace FILE\n");
}
