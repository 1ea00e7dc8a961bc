/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_runs SEED FIRST COUNT FOLDER: `fsdpgen report` against logs: some lines as a
 * trainer writes them, of which a few bytes, values or whole lines are changed. Each log
 * is refused with a message that names it, or makes a page: the same a second time,
 * without control characters, whose curves are JSON, with no tag that the log brings. */
#include "batch.h"
#include "gen.h"
#include "report/runs.h"

static const char *const words[] = {"null",
                                    "true",
                                    "-0.0",
                                    "1e308",
                                    "-1e308",
                                    "1e400",
                                    "5e-324",
                                    "99999999999999999999",
                                    "9007199254740992",
                                    "9007199254740993",
                                    "NaN",
                                    "{}",
                                    "[[[[[[[[",
                                    "\"\\u0000\"",
                                    "\"\\ud800\"",
                                    "\"\\u001b[31m\"",
                                    "\"<\\/script><b>\"",
                                    "\"&quot;<b>\\u2028\"",
                                    "\"\\u202e\"",
                                    "\xff",
                                    "\"",
                                    "\n",
                                    "\"step\": 1,",
                                    "\"step\": 3,",
                                    "\"loss\": null,",
                                    "\"<b>\": {\"a\": [1, {\"b\": 2}]},",
                                    "{\"run\": {\"<b>\": \"<b>\"}}\n",
                                    NULL};

/* One in four logs has a value that is missing, or 0, or small and large by turns. */
static void add_line(Random *r, Str *s, int step, uint32_t kind)
{
    const double x = kind == 1   ? 0
                     : kind == 2 ? (step % 2 ? 1e300 : -1e300)
                                 : 5.0 / step + random_below(r, 1000) / 1e4;

    str_printf(s, "{\"step\": %d, \"loss\": ", step);
    if (kind == 3 && step % 3 == 0)
        str_printf(s, "null");
    else
        str_printf(s, "%.17g", x);
    str_printf(s,
               ", \"grad_norm\": %.17g, \"lr\": %.17g, \"skipped\": %d, \"tokens\": %d, "
               "\"step_seconds\": %.6f, \"tokens_per_second\": %.3f, \"mfu\": null, "
               "\"memory_bytes\": %d%s}\n",
               x * x, 1e-3 * step, step / 7, step * 4096, 0.1 + x / 1e300,
               4e4 + random_below(r, 100), 1 << 25,
               step % 4 == 0 ? ", \"eval_loss\": 2.5" : "");
}

static void make_log(Random *r, Str *s)
{
    const int steps = 1 + (int)random_below(r, 12);
    const uint32_t kind = random_below(r, 8);

    if (random_below(r, 2))
        str_printf(s, "{\"run\": {\"model\": \"demo\", \"mesh\": {\"shard\": 2}}}\n");
    for (int i = 1; i <= steps; i++)
        add_line(r, s, i, kind);
    for (uint32_t k = random_below(r, 3); k > 0 && s->n > 0; k--)
        if (random_below(r, 2))
            mutate_json(r, s, words);
        else
            mutate_text(r, s);
}

static bool write_log(const char *name, const Str *s)
{
    FILE *f = fopen(name, "we");

    return f && fwrite(s->s, 1, s->n, f) == s->n && fclose(f) == 0;
}

static const char *check_page(Text *t)
{
    static const char mark[] = "id=\"data\">";
    const char *data, *end;
    json_t *o;

    for (size_t i = 0; i < t->len; i++)
        if (((unsigned char)t->s[i] < 32 && t->s[i] != '\n') || t->s[i] == 127)
            return "a control character is in the page";
    if (strstr(t->s, "<b>") || strlen(t->s) != t->len)
        return "a tag of the log is in the page";
    data = strstr(t->s, mark);
    end = data ? strstr(data, "</script>") : NULL;
    if (!end)
        return "the page has no curves";
    data += sizeof mark - 1;
    o = json_loadb(data, (size_t)(end - data), JSON_REJECT_DUPLICATES, NULL);
    json_decref(o);
    return o ? NULL : "the curves are no JSON";
}

static const char *report_twice(int *taken)
{
    static const char *const logs[] = {"a.jsonl", "b.jsonl"};
    Gen g[2] = {0};
    Text t[2] = {{.g = &g[0]}, {.g = &g[1]}};

    for (int i = 0; i < 2; i++) {
        RunList runs = {0};

        runs_open(&g[i], &runs, logs, 2);
        if (!diag_errors(&g[i])) {
            runs_page(&g[i], &runs, &t[i]);
            json_decref(runs_json(&g[i], &runs));
        }
        for (int k = 0; k < runs.count; k++) {
            free(runs.items[k].rows);
            json_decref(runs.items[k].record);
        }
    }
    if (t[0].len != t[1].len || (t[0].len && memcmp(t[0].s, t[1].s, t[0].len) != 0))
        return "a second time it is another";
    if (t[0].len == 0)
        return diag_errors(&g[0]) ? NULL : "neither a page nor a message";
    ++*taken;
    return check_page(&t[0]);
}

static const char *run_case(Random *r, int *taken)
{
    Str s[2] = {{0}, {0}};
    const char *problem = "cannot write a file";

    for (int i = 0; i < 2; i++)
        make_log(r, &s[i]);
    if (write_log("a.jsonl", &s[0]) && write_log("b.jsonl", &s[1]))
        problem = report_twice(taken);
    for (int i = 0; i < 2; i++) {
        if (problem)
            printf("     | %.*s\n", (int)s[i].n, s[i].s);
        free(s[i].s);
    }
    return problem;
}

int main(int argc, char **argv)
{
    if (argc != 5 || chdir(argv[4]) != 0) {
        fprintf(stderr, "usage: fuzz_runs SEED FIRST COUNT FOLDER\n");
        return 2;
    }
    return run_batches(argv, run_case);
}
