/* SPDX-License-Identifier: Apache-2.0 */
/* annotations.h: the parts of annotations.c and annotations_graph.c. */
#ifndef ANNOTATIONS_H
#define ANNOTATIONS_H

#include "describe/fields.h"
#include "shell/shell.h"

/* annotations.c */
void annotate_fields(Gen *g, Text *t, const Fields *fields, const char *name, bool given);
void annotate_class(Gen *g, Text *t, const Fields *fields, const char *name, bool given);

/* annotations_graph.c */
void annotate_graph(Gen *g, Text *t); /* values, ops, g and b */
void annotate_archs(Gen *g, Text *t); /* arch { ... }, and the shipped ones */

#endif
