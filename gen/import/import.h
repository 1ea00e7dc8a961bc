/* SPDX-License-Identifier: Apache-2.0 */
/* import.h: turns other programs' model configurations into descriptions. Each function reads
 * g->opt.input in the child process, records messages for what it refuses, and prints Lua to t. */
#ifndef IMPORT_H
#define IMPORT_H

#include "gen.h"

/* A Hugging Face folder, or its config.json. */
void import_hugging_face(Gen *g, Text *t);
/* The file g->opt.accelerate that `accelerate config` wrote: fields to paste. */
void import_accelerate(Gen *g, Text *t);
/* What each of its keys means here, as a Markdown table. */
void import_accelerate_docs(Gen *g, Text *t);

#endif
