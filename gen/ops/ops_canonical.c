/* SPDX-License-Identifier: Apache-2.0 */
/* ops_canonical.c: the names of ops in the numerics hash. In: the rules with their forms.
 * Out: a canonical name for every built-in op, which stands for one arithmetic even if
 * several ops share it. Ops of --ops have none, because they are hashed by their text. */
#include "ops/ops.h"

#include <string.h>

const char *ops_file(int i)
{
    if (i == 0)
        return "op.lua";
    for (int k = 0; target_at(k); k++) {
        const KernelLibrary *library = target_at(k)->kernel_library;

        if (--i == 0)
            return target_at(k)->kernel_file;
        if (library && --i == 0)
            return library->file;
    }
    return NULL;
}

bool ops_foreign(Gen *g, const OpRule *op)
{
    const char *folder = strrchr(op->folder, '/');

    if (!op->info->from_disk || g->opt.ops_shared)
        return false;
    for (int i = 0; ops_file(i); i++) {
        const Embedded *e =
            embed_find(gen_printf(g, "templates/ops%s/%s", folder, ops_file(i)));
        size_t bytes;
        const char *text = ops_folder_file(g, op, ops_file(i), &bytes);

        if (!text != !e || (e && (e->bytes != bytes || memcmp(e->data, text, bytes))))
            return true;
    }
    return false;
}

/* One name means one arithmetic, and no foreign op has the name of a built-in one. */
static void check_pair(Gen *g, const OpRule *op, bool foreign, const OpRule *built_in)
{
    const OpInfo *a = op->info, *b = built_in->info;

    if (op == built_in || strcmp(a->canonical, b->canonical) != 0)
        return;
    if (foreign)
        diag_add(g, DIAG_ERROR, ops_place(g, op, NULL, NULL),
                 "give the folder another name",
                 "op %s: the hash has the built-in op %s by this name", op->name,
                 built_in->name);
    else
        gen_require(
            a->arithmetic == b->arithmetic,
            "ops %s and %s are both hashed as %s, but their arithmetic is %d and %d",
            op->name, built_in->name, a->canonical, a->arithmetic, b->arithmetic);
}

void ops_check_canonical(Gen *g)
{
    bool *foreign = gen_alloc(g, sizeof *foreign * (size_t)(g->ops.count + 1));

    for (int i = 0; i < g->ops.count; i++) {
        const OpRule *op = &g->ops.items[i];

        foreign[i] = ops_foreign(g, op);
        if (foreign[i] && op->info->states_canonical && !op->info->form_of)
            diag_add(g, DIAG_ERROR, ops_place(g, op, "canonical", NULL),
                     "leave it out: an op of --ops is hashed by its text",
                     "op %s: canonical names are for built-in ops", op->name);
    }
    for (int i = 0; i < g->ops.count && !diag_errors(g); i++)
        for (int k = 0; k < g->ops.count; k++)
            if (!foreign[k])
                check_pair(g, &g->ops.items[i], foreign[i], &g->ops.items[k]);
}
