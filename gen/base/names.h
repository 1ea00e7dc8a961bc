/* SPDX-License-Identifier: Apache-2.0 */
/* names.h: how names of a model become identifiers of C (names.c). */
#ifndef NAMES_H
#define NAMES_H

#include "base/base.h"

enum { IDENT_LETTERS = 63 }; /* C compares at least this many letters of a name */
bool ident_ok(const char *s); /* a C identifier, not a keyword */
/* "layers.7.norm" as layers_7_norm, "0.weight" as p0_weight. */
const char *name_ident(Gen *g, const char *name);

/* Each returns the identifier itself, or, if C or the surrounding emitted code uses that name, the
 * identifier with m_ before it (m for model). Distinct names stay distinct. */
const char *name_functions(Gen *g, const char *ident); /* of a class: starts its functions' names */
const char *name_param(Gen *g, const char *ident);     /* field of a class's parameters */
const char *name_saved(Gen *g, const char *ident);     /* field of its saved values */
const char *name_local(Gen *g, const char *ident);     /* variable of a span */

#endif
