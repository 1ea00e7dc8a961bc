/* SPDX-License-Identifier: Apache-2.0 */
/* html.c: what our pages share. In: texts; a page of templates/report/ with @words@. Out:
 * the page in one text, with its style and scripts in it. Foreign text is escaped for its
 * place. */
#include "report/html.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void html_add(Text *t, const char *s)
{
    text_add(t, s, strlen(s));
}

void html_text(Text *t, const char *s)
{
    for (const char *c = printable_text(t->g, s, strlen(s)); *c; c++) {
        const char *as = *c == '&'   ? "&amp;"
                         : *c == '<' ? "&lt;"
                         : *c == '>' ? "&gt;"
                         : *c == '"' ? "&quot;"
                                     : NULL;

        if (as)
            html_add(t, as);
        else
            text_add(t, c, 1);
    }
}

void html_json(Gen *g, Text *t, const char *s)
{
    json_t *v = json_string(printable_text(g, s, strlen(s)));
    char *quoted;

    quoted = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
    gen_require(quoted, "a text cannot be written as JSON");
    for (const char *c = quoted; *c; c++)
        if (*c == '<' || *c == '>' || *c == '&')
            text_printf(t, "\\u%04x", *c);
        else
            text_add(t, c, 1);
    free(quoted);
    json_decref(v);
}

static void add_part(Gen *g, Text *t, const char *name)
{
    const char *path = gen_printf(g, "templates/report/%s", name);
    const Embedded *e = embed_find(path);

    gen_require(e, "%s is not built in", path);
    text_add(t, (const char *)e->data, e->bytes);
}

/* "style" and "script" are files, joined by +: "script:draw.js+plan.js". */
static void fill_in(Gen *g, Text *t, const char *word, HtmlFill *fill, const void *with)
{
    const char *files = strchr(word, ':');

    if (!strcmp(word, "version")) {
        html_add(t, FSDPGEN_VERSION);
        return;
    }
    if (!files) {
        fill(g, t, word, with);
        return;
    }
    for (files++; *files; files += *files == '+') {
        const size_t n = strcspn(files, "+");

        add_part(g, t, gen_strndup(g, files, n));
        files += n;
    }
}

void html_page(Gen *g, Text *t, const char *name, HtmlFill *fill, const void *with)
{
    Text page = {.g = g};
    const char *s, *end, *at;

    add_part(g, &page, name);
    s = page.s;
    end = s + page.len;
    while ((at = memchr(s, '@', (size_t)(end - s))) != NULL) {
        const char *to = memchr(at + 1, '@', (size_t)(end - at - 1));

        gen_require(to, "templates/report/%s: a @ without its end", name);
        text_add(t, s, (size_t)(at - s));
        fill_in(g, t, gen_strndup(g, at + 1, (size_t)(to - at - 1)), fill, with);
        s = to + 1;
    }
    text_add(t, s, (size_t)(end - s));
}
