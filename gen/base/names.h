/* SPDX-License-Identifier: Apache-2.0 */
/* names.h: how names of a model become identifiers of C (names.c). */
#ifndef NAMES_H
#define NAMES_H

#include "base/base.h"

bool ident_ok(const char *s); /* a C identifier, not a keyword */
/* "layers.7.norm" as layers_7_norm, "0.weight" as p0_weight. */
const char *name_ident(Gen *g, const char *name);

/* Each of them is the identifier itself, unless C or what is emitted around it has that
 * name: then it begins with m_, of the model. Distinct names stay distinct. */
const char *name_functions(Gen *g, const char *ident); /* of a class: begins theirs */
const char *name_param(Gen *g, const char *ident);     /* field of a class's parameters */
const char *name_saved(Gen *g, const char *ident);     /* field of its saved values */
const char *name_local(Gen *g, const char *ident);     /* variable of a span */

#endif
