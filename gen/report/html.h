/* SPDX-License-Identifier: Apache-2.0 */
/* html.h: pages that load nothing from elsewhere (html.c), for report, plan and tune. */
#ifndef HTML_H
#define HTML_H

#include "gen.h"

void html_add(Text *t, const char *s);
void html_text(Text *t, const char *s); /* escaped */
/* As JSON in which no byte can end the surrounding element. */
void html_json(Gen *g, Text *t, const char *s);

/* Writes what stands for a word of a page. */
typedef void HtmlFill(Gen *g, Text *t, const char *word, const void *with);
/* A page of templates/report/, whose @words@ fill writes, but for @version@ and the page's own files
 * (@style:page.css@, @script:draw.js+plan.js@). */
void html_page(Gen *g, Text *t, const char *name, HtmlFill *fill, const void *with);

/* ---- page_write.c ---------------------------------------------------------------- */

typedef struct PageOf {
    const char *begins; /* what all files of that kind begin with */
    const char *what;   /* "a page of `fsdpgen report`" */
} PageOf;
/* Both run in the parent and return an exit code. May the file be written? */
int page_check(Gen *g, const char *path, const PageOf *of, bool force);
int page_write(Gen *g, const char *path, const PageOf *of, const Text *text, bool force);

#endif
