/* SPDX-License-Identifier: Apache-2.0 */
/* import_hf.c: the config.json of a Hugging Face model, as a description. In: the folder,
 * or the file. Out: Lua as a person would write it. */
#include "import/import.h"
#include "describe/load.h"
#include "hf/hf.h"

#include <string.h>

/* Makes a trainer's name from the folder's: lower case, other characters become `_`. */
static const char *trainer_name(Gen *g, const char *folder)
{
    size_t n = strlen(folder), from;
    char *name;

    while (n > 1 && folder[n - 1] == '/')
        n--;
    for (from = n; from > 0 && folder[from - 1] != '/'; from--)
        continue;
    name = gen_strndup(g, folder + from, n - from < 64 ? n - from : 64);
    for (char *p = name; *p; p++) {
        const bool after_dot = p == name || p[-1] == '.';

        *p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
        if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') ||
              (*p == '.' && !after_dot)))
            *p = '_';
    }
    return name[0] >= 'a' && name[0] <= 'z' ? name : gen_printf(g, "model_%.58s", name);
}

static void print_description(const Config *c, const char *folder, const char *model,
                              Text *t)
{
    const char *name = trainer_name(c->g, folder), *arch = c->family->arch;
    const char *optimizer;

    loader_open(c->g);
    if (diag_errors(c->g)) /* in rules of --ops */
        return;
    optimizer = loader_default_kind(c->g, "optimizer");
    text_printf(t, "-- From the config.json of a Hugging Face model (%s).\n",
                c->family->model_type);
    text_printf(t, "local %s = require \"arch.%s\"\n\n", arch, arch);
    text_printf(t, "return trainer {\n    name = \"%s\",\n    model = %s,\n", name,
                model);
    text_printf(t, "    seq = %lld, micro_batch = 1, global_batch = 64,\n",
                (long long)hf_sequence(c));
    text_printf(t, "    mesh = { shard = 1 },\n");
    text_printf(t, "    optimizer = %s { lr = 1e-5, weight_decay = 0.1, clip = 1.0 },\n",
                optimizer);
    text_printf(t, "    lr = cosine { warmup = 100, steps = 2000 },\n}\n");
}

void import_hugging_face(Gen *g, Text *t)
{
    Config c = {.g = g};
    const char *model, *folder = g->opt.input;

    if (!hf_read(&c, folder))
        return;
    model = hf_model(&c);
    if (c.file == folder) /* the model has the name of the file's folder */
        folder = strrchr(folder, '/')
                     ? gen_strndup(g, folder, (size_t)(strrchr(folder, '/') - folder))
                     : "model";
    if (model) /* otherwise only messages are printed */
        print_description(&c, folder, model, t);
    json_decref(c.root);
}
