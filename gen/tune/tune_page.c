/* SPDX-License-Identifier: Apache-2.0 */
/* tune_page.c: `tune --html FILE`. In: the candidates, ranked and some of them measured.
 * Out: one page that loads nothing from elsewhere: predicted against measured, speed
 * against memory, and the table. */
#include "tune/tune.h"

#include "base/show.h"
#include "report/html.h"

#include <inttypes.h>
#include <string.h>

static const PageOf page_of = {"<!doctype html>\n<!-- fsdpgen tune ",
                               "a page of `fsdpgen tune`"};

static void add_figure(Text *t, const char *name, const char *value)
{
    html_add(t, "<div><dt>");
    html_text(t, name);
    html_add(t, "</dt><dd>");
    html_text(t, value);
    html_add(t, "</dd></div>\n");
}

static void add_figures(Gen *g, Text *t, const Tune *u)
{
    const Candidate *best = tune_best(u);
    int runs = 0;

    for (int i = 0; i < u->ranked.count; i++)
        runs += u->ranked.items[i]->step_seconds.count;
    add_figure(t, "candidates", gen_printf(g, "%d", u->all.count));
    add_figure(t, "ranked", gen_printf(g, "%d", u->ranked.count));
    add_figure(t, "over the budget", gen_printf(g, "%d", u->large));
    add_figure(t, "runs here", gen_printf(g, "%d", runs));
    add_figure(t, best->median > 0 ? "best, measured" : "best, predicted",
               gen_printf(g, "%s tokens / s",
                          show_amount(g, tune_rate(best, best->median > 0
                                                             ? best->median
                                                             : best->plan.seconds))));
}

/* The last lines of the table in the terminal. */
static void add_verdict(Text *t, const Tune *u)
{
    const Candidate *best = tune_best(u); /* there is one, or there is no page */

    html_add(t, "<p class=\"note\">");
    if (tune_is_kept(u))
        html_add(t, "The description is kept: no candidate is clearly faster.");
    else
        html_text(t, gen_printf(u->g, "To take: %s", tune_sets_of(u, best)));
    html_add(t, "</p>");
}

static void add_rows(Gen *g, Text *t, const Tune *u)
{
    const Candidate *best = tune_best(u);

    for (int i = 0; i < u->ranked.count; i++) {
        const Candidate *c = u->ranked.items[i];
        const double seconds = best->median > 0 ? c->median : c->plan.seconds;

        if (!tune_is_shown(u, i))
            continue;
        html_add(t, c == best ? "<tr class=\"chosen\"><th scope=\"row\">"
                              : "<tr><th scope=\"row\">");
        html_text(t, tune_sets_of(u, c));
        if (c->failed) {
            html_add(t, "<br><small>could not be measured: ");
            html_text(t, c->failed);
            html_add(t, "</small>");
        }
        text_printf(t, "</th><td>%s</td>", show_seconds_to(g, c->plan.seconds, 4));
        html_add(t, c->median > 0
                        ? gen_printf(g, "<td>%s</td>", show_seconds_to(g, c->median, 4))
                        : "<td>&ndash;</td>");
        text_printf(t, "<td>%d</td><td>%s</td><td>%s</td></tr>\n", c->step_seconds.count,
                    seconds > 0 ? show_amount(g, tune_rate(c, seconds)) : "&ndash;",
                    show_bytes(g, c->plan.bytes));
    }
}

static void add_data(Gen *g, Text *t, const Tune *u)
{
    const Candidate *best = tune_best(u);

    html_add(t, "{\"candidates\":[");
    for (int i = 0; i < u->ranked.count; i++) {
        const Candidate *c = u->ranked.items[i];

        text_printf(t, "%s{\"predicted\":%.9g,\"bytes\":%" PRId64 ",\"tokens\":%" PRId64,
                    i ? ",\n" : "\n", c->plan.seconds, c->plan.bytes,
                    c->plan.step_tokens);
        if (c->median > 0)
            text_printf(t, ",\"measured\":%.9g", c->median);
        html_add(t, c == best ? ",\"best\":true" : "");
        html_add(t, c->id == 0 ? ",\"own\":true" : "");
        html_add(t, ",\"sets\":");
        html_json(g, t,
                  tune_is_shown(u, i) ? tune_sets_of(u, c)
                                      : tune_sets_text(g, &c->sets, " "));
        html_add(t, "}");
    }
    html_add(t, "]}");
}

static void fill_in(Gen *g, Text *t, const char *word, const void *with)
{
    const Tune *u = with;

    if (!strcmp(word, "title"))
        html_text(t, u->g->opt.input);
    else if (!strcmp(word, "figures"))
        add_figures(g, t, u);
    else if (!strcmp(word, "verdict"))
        add_verdict(t, u);
    else if (!strcmp(word, "rows"))
        add_rows(g, t, u);
    else if (!strcmp(word, "data"))
        add_data(g, t, u);
    else
        gen_die("templates/report/tune.html: unknown word @%s@", word);
}

int tune_page_check(Gen *g)
{
    return g->opt.html ? page_check(g, g->opt.html, &page_of, g->opt.force) : EXIT_DONE;
}

int tune_page(const Tune *t)
{
    Text page = {.g = t->g};

    html_page(t->g, &page, "tune.html", fill_in, t);
    return page_write(t->g, t->g->opt.html, &page_of, &page, t->g->opt.force);
}
