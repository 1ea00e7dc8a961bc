/* SPDX-License-Identifier: Apache-2.0 */
/* plan_page.c: `plan --html`. In: a plan; templates/report/. Out: one page that loads
 * nothing from elsewhere: figures, memory over the last micro-step by class, the streams'
 * calls, and a table of units. The page's script draws from the JSON in it. */
#include "report/html.h"
#include "report/plan_line.h"
#include "report/report.h"
#include "base/show.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static double us(int64_t ps)
{
    return (double)ps * 1e-6;
}

/* ---- figures --------------------------------------------------------------------- */

static void add_figure(Text *t, const char *name, const char *value)
{
    html_add(t, "<div><dt>");
    html_text(t, name);
    html_add(t, "</dt><dd>");
    html_text(t, value);
    html_add(t, "</dd></div>\n");
}

static void add_figures(Gen *g, Text *t, const PlanLine *l)
{
    const Model *m = &g->model;
    const PlanBytes b = plan_bytes(g);
    const double seconds = g->prog.step_seconds;
    const double tokens = (double)(m->global_batch * m->seq_tokens);

    add_figure(t, "a rank takes", show_bytes(g, b.total));
    if (m->budget_bytes)
        add_figure(t,
                   b.total <= m->budget_bytes ? "fits: budget left"
                                              : "does not fit: too many",
                   gen_printf(g, "%s of %s",
                              show_bytes(g, b.total <= m->budget_bytes
                                                ? m->budget_bytes - b.total
                                                : b.total - m->budget_bytes),
                              show_bytes(g, m->budget_bytes)));
    add_figure(t, "ranks", show_grouped(g, m->mesh.world_size));
    add_figure(t, "a step, predicted", show_seconds(g, seconds));
    if (seconds > 0 && isfinite(seconds))
        add_figure(t, "tokens a second",
                   show_rate(g, tokens / seconds < 10 ? tokens / seconds
                                                      : tokens / seconds + 0.5));
    if (seconds > 0 && isfinite(seconds) && m->peak_tflops > 0)
        add_figure(t, "model flops utilization",
                   gen_printf(g, "%.1f %%",
                              100 * plan_flops_per_token(g) * tokens / seconds /
                                  (m->peak_tflops * 1e12 * (double)m->mesh.world_size)));
    if (plan_run_is_asked(g))
        add_figure(t, show_tokens(g, g->opt.tokens), plan_run_text(g));
    if (l->ps > 0)
        add_figure(t, "waits in the last micro-step",
                   gen_printf(g, "%.1f %%", 100 * (double)l->waited / (double)l->ps));
}

static void add_notes(Gen *g, Text *t)
{
    const PlanWarnings w = plan_warnings(g);

    for (int i = 0; i < w.count; i++) {
        html_add(t, i ? "<li>" : "<ul class=\"notes\">\n<li>");
        html_text(t, w.items[i]);
        html_add(t, "</li>\n");
    }
    html_add(t, w.count ? "</ul>" : "");
}

/* ---- units ----------------------------------------------------------------------- */

typedef struct UnitRow {
    int64_t elems, padding, shard_bytes, gathered_bytes, compute, transfer;
} UnitRow;

static void add_units(Gen *g, Text *t, const PlanLine *l)
{
    UnitRow *rows = gen_alloc(g, sizeof *rows * (size_t)(g->units.count + 1));

    for (int i = 0; i < g->segments.count; i++) {
        const Segment *s = &g->segments.items[i];
        UnitRow *row = &rows[s->unit];

        row->elems += s->elems;
        row->padding += s->elems - s->used_elems;
        row->shard_bytes +=
            s->param_elems * (dtype_bytes(s->dtype) +
                              (segment_has_codes(s) ? dtype_bytes(s->gathered) : 0));
        row->gathered_bytes += s->elems * dtype_bytes(s->gathered);
    }
    for (int id = l->first; id < l->first + l->count; id++) {
        const Instr *i = &g->prog.ins.items[id];
        const int unit = i->unit;

        if (unit >= 0 && i->stream == STREAM_COMPUTE)
            rows[unit].compute += l->end[id] - l->start[id];
        else if (unit >= 0)
            rows[unit].transfer += l->end[id] - l->start[id];
    }
    for (int u = 0; u < g->units.count; u++) {
        const UnitRow *row = &rows[u];

        html_add(t, "<tr><th scope=\"row\">");
        html_text(t, g->units.items[u].name);
        text_printf(t, "</th><td>%s</td><td>%.2f %%</td><td>%s</td><td>%s</td>",
                    show_grouped(g, row->elems),
                    row->elems ? 100.0 * (double)row->padding / (double)row->elems : 0,
                    show_bytes(g, row->shard_bytes), show_bytes(g, row->gathered_bytes));
        text_printf(t, "<td>%s</td><td>%s</td><td>%s</td></tr>\n",
                    show_seconds(g, us(row->compute) * 1e-6),
                    show_seconds(g, us(row->transfer) * 1e-6),
                    l->exposed[u] ? show_seconds(g, us(l->exposed[u]) * 1e-6)
                                  : "&ndash;");
    }
}

/* ---- what is drawn --------------------------------------------------------------- */

static void add_names(Gen *g, Text *t, const char *key, const char *const *names, int n)
{
    text_printf(t, "\"%s\":[", key);
    for (int i = 0; i < n; i++) {
        html_add(t, i ? "," : "");
        html_json(g, t, names[i]);
    }
    html_add(t, "],\n");
}

static void add_moments(Text *t, const PlanLine *l)
{
    html_add(t, "\"at\":[");
    for (int i = 0; i < l->moments.count; i++)
        text_printf(t, "%s%.7g", i ? "," : "", us(l->moments.items[i].ps));
    html_add(t, "],\n\"live\":[");
    for (int k = 0; k < N_FOR; k++) {
        html_add(t, k ? ",\n[" : "[");
        for (int i = 0; i < l->moments.count; i++)
            text_printf(t, "%s%" PRId64, i ? "," : "", l->moments.items[i].live[k]);
        html_add(t, "]");
    }
    html_add(t, "],\n");
}

static void add_calls(Gen *g, Text *t, const PlanLine *l)
{
    html_add(t, "\"calls\":[");
    for (int id = l->first; id < l->first + l->count; id++) {
        const Instr *i = &g->prog.ins.items[id];

        text_printf(t, "%s[%d,%d,%.7g,%.7g,", id > l->first ? ",\n" : "", (int)i->stream,
                    (int)plan_call_of(i), us(l->start[id]),
                    us(l->end[id] - l->start[id]));
        html_json(g, t, ins_label(g, i));
        html_add(t, "]");
    }
    html_add(t, "]");
}

static void add_data(Gen *g, Text *t, const PlanLine *l)
{
    const char *streams[N_STREAMS];
    const PlanBytes b = plan_bytes(g);

    for (int s = 0; s < N_STREAMS; s++)
        streams[s] = stream_name((StreamId)s);
    html_add(t, "{");
    add_names(g, t, "classes", plan_for, N_FOR);
    add_names(g, t, "streams", streams, N_STREAMS);
    add_names(g, t, "kinds", plan_call, N_CALLS);
    text_printf(t, "\"us\":%.7g,\n\"arena\":%" PRId64 ",\n\"room\":%" PRId64 ",\n",
                us(l->ps), b.arena,
                g->model.budget_bytes ? g->model.budget_bytes - b.library : 0);
    add_moments(t, l);
    add_calls(g, t, l);
    html_add(t, "}");
}

/* ---- the page -------------------------------------------------------------------- */

static void fill_in(Gen *g, Text *t, const char *word, const void *with)
{
    const PlanLine *l = with;

    if (!strcmp(word, "title"))
        html_text(t, g->model.name);
    else if (!strcmp(word, "figures"))
        add_figures(g, t, l);
    else if (!strcmp(word, "notes"))
        add_notes(g, t);
    else if (!strcmp(word, "units"))
        add_units(g, t, l);
    else if (!strcmp(word, "data"))
        add_data(g, t, l);
    else
        gen_die("templates/report/plan.html: unknown word @%s@", word);
}

void plan_page(Gen *g, Text *t)
{
    const PlanLine l = plan_line(g);

    html_page(g, t, "plan.html", fill_in, &l);
}
