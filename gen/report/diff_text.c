/* SPDX-License-Identifier: Apache-2.0 */
/* diff_text.c: the comparison of two trainers for people. In: the JSON object of diff.c,
 * whose texts are printable. Out: six sections, each with only what differs, and the
 * verdict as the last line. Long lists are cut; --json has all of them. */
#include "report/diff.h"

#include "base/show.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_LINES = 12, MAX_NAMES = 24, WIDTH = 90 };

static json_t *get(const json_t *o, const char *key)
{
    return json_object_get(o, key);
}

static const char *word(const json_t *o, const char *key)
{
    const char *s = json_string_value(get(o, key));

    return s ? s : "absent";
}

static int64_t number(const json_t *o, const char *key)
{
    return json_integer_value(get(o, key));
}

static void print_more(Text *t, size_t all, size_t shown)
{
    if (all > shown)
        text_printf(t, "    ... and %zu more: --json lists them\n", all - shown);
}

/* "  label: a, b, c", in lines of WIDTH columns. */
static void print_names(Text *t, const char *label, const json_t *names)
{
    const size_t n = json_array_size(names);
    size_t column;

    if (!n)
        return;
    text_printf(t, "    %s:", label);
    column = 5 + strlen(label);
    for (size_t i = 0; i < n && i < MAX_NAMES; i++) {
        const char *s = json_string_value(json_array_get(names, i));

        if (column + strlen(s) + 2 > WIDTH) {
            text_printf(t, "\n     ");
            column = 5;
        }
        text_printf(t, " %s%s", s, i + 1 < n ? "," : "");
        column += strlen(s) + 2;
    }
    if (n > MAX_NAMES)
        text_printf(t, " and %zu more", n - MAX_NAMES);
    text_printf(t, "\n");
}

/* Writes a section's heading; returns where its lines start. */
static size_t begin(Text *t, const char *title)
{
    text_printf(t, "\n%s\n", title);
    return t->len;
}

static void end(Text *t, size_t from)
{
    if (t->len == from)
        text_printf(t, "  no difference\n");
}

/* ---- the sections ---------------------------------------------------------------- */

static void print_side(Text *t, const char *letter, const json_t *s)
{
    const json_t *edited = get(s, "edited");

    text_printf(t, "%s  %s: %s on %" PRId64 " rank%s, by fsdpgen %s\n", letter,
                word(s, "path"), word(s, "name"), number(s, "ranks"),
                number(s, "ranks") == 1 ? "" : "s", word(s, "generator"));
    print_names(t, "edited by hand, compared as it is", edited);
}

static const char *hash_words(const char *side)
{
    return !strcmp(side, "in")         ? "in the numerics hash"
           : !strcmp(side, "out")      ? "outside the hashes"
           : !strcmp(side, "platform") ? "of the platform"
           : !strcmp(side, "none")     ? "in no hash"
                                       : "unknown to this fsdpgen";
}

static void print_description(Text *t, const json_t *fields)
{
    const size_t from = begin(t, "description");
    size_t i;
    const json_t *o;

    json_array_foreach(fields, i, o)
    {
        text_printf(t, "  %s: %s -> %s  (%s)\n", word(o, "field"), word(o, "old"),
                    word(o, "new"), hash_words(word(o, "hash")));
    }
    end(t, from);
}

static void print_hashes(Text *t, const json_t *hashes)
{
    const json_t *n = get(hashes, "numerics"), *p = get(hashes, "platform");
    const json_t *fields = get(p, "fields"), *files = get(p, "runtime_files");

    begin(t, "hashes");
    if (json_is_true(get(n, "equal"))) {
        text_printf(t, "  numerics: equal, %s\n", word(n, "old"));
    } else {
        text_printf(t, "  numerics: %s -> %s\n", word(n, "old"), word(n, "new"));
        if (json_array_size(get(n, "fields")) > 0)
            print_names(t, "inputs that differ", get(n, "fields"));
        else
            text_printf(t, "    no field of it differs: the graph, or the arithmetic "
                           "of an op\n");
    }
    text_printf(t,
                "  platform, what is known before it is built: target %s; runtime %s\n",
                json_array_size(fields) ? "differs" : "equal",
                strcmp(word(p, "runtime"), "compared") != 0 ? word(p, "runtime")
                : json_array_size(files)                    ? "differs"
                                                            : "equal");
    print_names(t, "target", fields);
    print_names(t, "runtime", files);
}

static void print_code(Text *t, const char *name, const json_t *o)
{
    static const char *const lists[] = {"appeared", "vanished", "changed"};

    if (!strcmp(word(o, "same"), "bytes")) {
        text_printf(t, "  %s: byte-identical\n", name);
        return;
    }
    if (!strcmp(word(o, "same"), "code")) {
        text_printf(t, "  %s: identical but for comments and identities\n", name);
        return;
    }
    text_printf(t, "  %s: %zu appeared, %zu vanished, %zu changed\n", name,
                json_array_size(get(o, "appeared")), json_array_size(get(o, "vanished")),
                json_array_size(get(o, "changed")));
    for (int k = 0; k < 3; k++)
        print_names(t, lists[k], get(o, lists[k]));
}

static void print_mathematics(Text *t, const json_t *files)
{
    const size_t from = begin(t, "mathematics");
    size_t i;
    const json_t *o;

    json_array_foreach(files, i, o)
    {
        if (!strcmp(word(o, "in"), "both"))
            print_code(t, word(o, "file"), o);
        else
            text_printf(t, "  %s: only in %s\n", word(o, "file"), word(o, "in"));
    }
    end(t, from);
}

static void print_place(Text *t, const json_t *o)
{
    if (json_is_string(o))
        text_printf(t, "%s", json_string_value(o));
    else if (get(o, "segment"))
        text_printf(t, "%s + %" PRId64, word(o, "segment"), number(o, "offset_elems"));
    else
        text_printf(t, "%" PRId64 " elements, %" PRId64 " a shard", number(o, "elems"),
                    number(o, "shard_elems"));
}

static void print_layout_list(Text *t, const json_t *list, const char *what)
{
    size_t i;
    const json_t *o;

    json_array_foreach(list, i, o)
    {
        if (i == MAX_LINES)
            break;
        text_printf(t, "    %s: %s", what, word(o, "name"));
        if (get(o, "old")) {
            text_printf(t, ": ");
            print_place(t, get(o, "old"));
            text_printf(t, " -> ");
            print_place(t, get(o, "new"));
        } else if (get(o, "shape")) {
            text_printf(t, " %s", word(o, "shape"));
        } else {
            text_printf(t, ", %" PRId64 " elements", number(o, "elems"));
        }
        text_printf(t, "\n");
    }
    print_more(t, json_array_size(list), MAX_LINES);
}

static void print_layout(Text *t, const json_t *layout)
{
    static const char *const lists[] = {"added", "removed", "moved", "resized"};
    const size_t from = begin(t, "layout");
    const char *kind;
    json_t *o;

    json_object_foreach((json_t *)layout, kind, o)
    {
        size_t n = 0;

        for (int k = 0; k < 4; k++)
            n += json_array_size(get(o, lists[k]));
        if (!n)
            continue;
        text_printf(t, "  %s: %" PRId64 " -> %" PRId64, kind, number(o, "old"),
                    number(o, "new"));
        for (int k = 0; k < 4; k++)
            if (json_array_size(get(o, lists[k])))
                text_printf(t, ", %zu %s", json_array_size(get(o, lists[k])), lists[k]);
        text_printf(t, "\n");
        for (int k = 0; k < 4; k++)
            print_layout_list(t, get(o, lists[k]), lists[k]);
    }
    end(t, from);
}

/* Rows that differ: old -> new, difference. */
static void print_rows(Text *t, const json_t *rows, const char *key, const char *title)
{
    size_t i;
    const json_t *o;

    json_array_foreach(rows, i, o)
    {
        if (!number(o, "difference"))
            continue;
        if (title)
            text_printf(t, "  %s\n", title);
        title = NULL;
        text_printf(t, "    %-24s %15" PRId64 " -> %-15" PRId64 " %+" PRId64 "\n",
                    word(o, key), number(o, "old"), number(o, "new"),
                    number(o, "difference"));
    }
}

static const char *amount(Gen *g, const json_t *v)
{
    return json_is_null(v) ? "too many for a prediction"
                           : show_amount(g, json_number_value(v));
}

static void print_pair(Text *t, const json_t *pair, const char *what)
{
    const json_t *old = get(pair, "old"), *now = get(pair, "new");

    if (!json_equal(old, now))
        text_printf(t, "  %s: %s -> %s\n", what, amount(t->g, old), amount(t->g, now));
}

static void print_schedule(Text *t, const json_t *s, const json_t *fields)
{
    static const char *const files[] = {"step.c", "bind.c"};
    const size_t from = begin(t, "schedule");
    size_t i;
    const json_t *o;

    json_array_foreach(fields, i, o)
    {
        if (!strncmp(word(o, "field"), "prefetch", 8))
            text_printf(t, "  %s: %s -> %s\n", word(o, "field"), word(o, "old"),
                        word(o, "new"));
    }
    print_rows(t, get(s, "instructions"), "kind", "instructions of a rank in a step");
    print_rows(t, get(s, "bytes"), "name", "bytes that a rank receives in a step");
    print_pair(t, get(s, "step_seconds"), "predicted seconds of a step");
    print_pair(t, get(s, "flops_per_token"), "flops a token");
    for (int k = 0; k < 2; k++)
        if (!strcmp(word(get(s, files[k]), "same"), "no"))
            print_code(t, files[k], get(s, files[k]));
    end(t, from);
}

void diff_print(Text *t, const json_t *r)
{
    size_t from;

    print_side(t, "A", get(r, "a"));
    print_side(t, "B", get(r, "b"));
    print_description(t, get(r, "description"));
    print_hashes(t, get(r, "hashes"));
    print_mathematics(t, get(r, "mathematics"));
    print_layout(t, get(r, "layout"));
    print_schedule(t, get(r, "schedule"), get(r, "description"));
    from = begin(t, "memory");
    print_rows(t, get(r, "memory"), "name", "bytes of a rank");
    end(t, from);
    text_printf(t, "\n%s\n", word(get(r, "verdict"), "text"));
}
