/* SPDX-License-Identifier: Apache-2.0 */
/* emit_runtime.c: the runtime that a trainer is made for.
 *
 * In: the embedded files of runtime/, the target. Out: which of them the trainer needs,
 * for its Makefile, and which of those compute; and a copy of them, so that the folder
 * stands alone. The copy's rt.h identifies the runtime. */
#include "emit/emit.h"
#include "graph/graph.h"

#include <inttypes.h>
#include <string.h>

/* A trainer uses all of a folder of runtime/ or nothing: its target's folder, and the
 * folders inside it whose feature it has. */
static bool needs_folder(const Gen *g, const char *folder)
{
    const KernelLibrary *library = g->model.target->kernel_library;
    const size_t own = strcspn(folder, "/");
    const char *inner = folder + own + (folder[own] == '/');

    for (int i = 0; target_at(i); i++)
        if (strlen(target_at(i)->name) == own &&
            !strncmp(target_at(i)->name, folder, own) && target_at(i) != g->model.target)
            return false;
    if (library && !strcmp(inner, library->folder))
        return kernel_library_used(g) == library;
    return strcmp(inner, "ranks") != 0 || g->model.mesh.world_size > 1;
}

/* Files that only trainers with products in fp8 have, or only those whose optimizer
 * treats matrices as a whole: the platform of others does not depend on them. */
static bool needs_file(const Gen *g, const char *name)
{
    const bool matrices =
        !strcmp(name, "rt_owners.c") || !strncmp(name, "rt_matrix.", 10);

    return strncmp(name, "rt_fp8", 6) == 0 ? g->model.linear_fp8
           : matrices                      ? g->batches.count > 0
                                           : true;
}

/* Does the trainer need this file of runtime/? */
static bool is_runtime_file(Gen *g, const char *path)
{
    static const char root[] = "runtime/";
    const size_t n = sizeof root - 1;
    const char *name = strrchr(path, '/'), *dot = strrchr(path, '.');

    if (strncmp(path, root, n) != 0 || !dot ||
        (strcmp(dot, ".c") != 0 && strcmp(dot, ".h") != 0 && strcmp(dot, ".awk") != 0))
        return false;
    if (!needs_file(g, name + 1))
        return false;
    return name < path + n ||
           needs_folder(g, gen_strndup(g, path + n, (size_t)(name - path) - n));
}

/* The hash of the runtime's files. */
static uint64_t runtime_identity(Gen *g)
{
    Text t = {.g = g};

    for (int i = 0; i < embedded_count; i++) {
        const char *path = embedded_files[i].path;

        if (is_runtime_file(g, path)) {
            const Embedded *file = emit_embedded(path);

            text_printf(&t, "%s %016" PRIx64 "\n", path,
                        hash_bytes(file->data, file->bytes));
        }
    }
    return hash_bytes(t.s, t.len);
}

/* The copy of rt.h, with the runtime's identity. */
static void add_rt_h(Gen *g, const Embedded *file)
{
    static const char line[] = "#define RT_IDENTITY 0\n";
    const char *text = gen_strndup(g, (const char *)file->data, file->bytes);
    const char *at = strstr(text, line);

    gen_require(at, "%s has no line %s", file->path, line);
    text = gen_printf(g, "%.*s#define RT_IDENTITY 0x%016" PRIx64 "\n%s", (int)(at - text),
                      text, runtime_identity(g), at + sizeof line - 1);
    emit_add_file(g, file->path, text, strlen(text));
}

/* Adds what the Makefile and trainer.c need to the context on top of the stack. */
void emit_runtime_context(Emit *e)
{
    Gen *g = e->g;
    lua_State *L = e->L;
    int n = 0;

    emit_str(L, "link_runtime", g->opt.link_runtime);
    if (!g->opt.link_runtime)
        emit_str(L, "runtime_identity",
                 gen_printf(g, "%016" PRIx64, runtime_identity(g)));
    lua_newtable(L); /* names of the runtime's sources, for the Makefile */
    for (int i = 0; i < embedded_count; i++) {
        const char *path = embedded_files[i].path;

        if (is_runtime_file(g, path) && path[strlen(path) - 1] == 'c') {
            lua_pushlstring(L, path + 8, strlen(path + 8) - 2);
            lua_rawseti(L, -2, ++n);
        }
    }
    lua_setfield(L, -2, "runtime_sources");
    lua_newtable(L); /* the files that compute */
    for (int i = n = 0; i < embedded_count; i++) {
        const char *path = embedded_files[i].path;

        if (is_runtime_file(g, path) && runtime_computes(path + 8)) {
            lua_pushstring(L, path + 8);
            lua_rawseti(L, -2, ++n);
        }
    }
    lua_setfield(L, -2, "arithmetic");
}

/* The copy that makes the folder stand alone; omitted with --link-runtime. */
void emit_runtime(Emit *e)
{
    for (int i = 0; i < embedded_count && !e->g->opt.link_runtime; i++) {
        const char *path = embedded_files[i].path;
        const Embedded *file;

        if (!is_runtime_file(e->g, path))
            continue;
        file = emit_embedded(path);
        if (!strcmp(path, "runtime/rt.h"))
            add_rt_h(e->g, file);
        else
            emit_add_file(e->g, path, (const char *)file->data, file->bytes);
    }
}
