/* SPDX-License-Identifier: Apache-2.0 */
/* fields.c: what --set can name. In: the table of fields that parses descriptions. Out:
 * paths such as "optimizer.lr", in the order of the reference, each once. */
#include "shell/shell.h"

#include "describe/load.h"

#include <lauxlib.h>
#include <string.h>

static void add_path(Gen *g, OptionList *paths, const char *path)
{
    for (int i = 0; i < paths->count; i++)
        if (!strcmp(paths->items[i], path))
            return;
    *gen_push(g, paths) = path;
}

static void add_fields(Gen *g, OptionList *paths, const char *prefix,
                       const Fields *fields, const Kinds *kinds)
{
    for (int i = 0; i < fields->count; i++) {
        const Field *f = &fields->items[i];
        const char *path = gen_printf(g, "%s%s", prefix, f->name);
        const char *below = gen_printf(g, "%s.", path);

        if (f->later || f->only_ref != LUA_NOREF) /* there is no other value to choose */
            continue;
        add_path(g, paths, path);
        if (f->fields)
            add_fields(g, paths, below, f->fields, kinds);
        for (int k = 0; k < f->kinds.count; k++) {
            const Kind *kind = kinds_find(kinds, f->kinds.items[k]);

            if (!kind_takes_list(kind))
                add_fields(g, paths, below, kind->fields, kinds);
        }
    }
}

void shell_fields(Gen *g, OptionList *paths)
{
    const Loader *ld = loader_of(g);

    add_fields(g, paths, "", ld->trainer, &ld->kinds);
}
