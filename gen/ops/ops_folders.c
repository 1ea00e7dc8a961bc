/* SPDX-License-Identifier: Apache-2.0 */
/* ops_folders.c: the op folders of --ops DIR. In: a folder. Out: its subfolders that hold
 * an op.lua, sorted by name, with their text; a message where one cannot be read, has a
 * name that no op may have, or lacks only its rule. */
#include "ops/ops.h"
#include "base/names.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool op_name_ok(const char *name)
{
    static const char *const taken[] = {"param", "cut", "tokens", "targets", "starts"};

    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (!strcmp(name, taken[i]))
            return false;
    for (const char *p = name; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || *p == '_' ||
              (*p >= '0' && *p <= '9' && p > name)))
            return false;
    return ident_ok(name) && strlen(name) < 64;
}

static int name_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Subfolders of dir, sorted; NULL with a message if dir cannot be read. */
static char **list_folders(Gen *g, const char *dir, int *count)
{
    struct {
        char **items;
        int count, cap;
    } names = {0};
    DIR *d = opendir(dir);
    struct dirent *entry;

    if (!d) {
        diag_add(g, DIAG_ERROR, (Pos){0}, "--ops names a folder of op folders",
                 "--ops %s: %s", dir, strerror(errno));
        return NULL;
    }
    while ((entry = readdir(d))) {
        struct stat st;

        if (entry->d_name[0] == '.' ||
            stat(gen_printf(g, "%s/%s", dir, entry->d_name), &st) != 0 ||
            !S_ISDIR(st.st_mode))
            continue;
        *gen_push(g, &names) = gen_strdup(g, entry->d_name);
    }
    closedir(d);
    if (names.count)
        qsort(names.items, (size_t)names.count, sizeof *names.items, name_order);
    *count = names.count;
    return names.items;
}

/* A folder with kernels was meant to be an op; others may hold anything. */
static void need_no_rule(Gen *g, const char *folder)
{
    static const char *const kernels[] = {"cpu.c", "cuda.cu"};

    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (access(gen_printf(g, "%s/%s", folder, kernels[i]), F_OK) == 0) {
            diag_add(g, DIAG_ERROR, (Pos){.file = folder},
                     "write its rule, op.lua: return op { ... }",
                     "there is a %s, but no op.lua", kernels[i]);
            return;
        }
}

const OpFolder *ops_folders(Gen *g, const char *dir, int *count)
{
    int n = 0;
    char **names = list_folders(g, dir, &n);
    OpFolder *list = gen_alloc(g, sizeof *list * (size_t)(n + 1));

    *count = 0;
    for (int i = 0; i < n; i++) {
        OpFolder f = {.name = names[i], .path = gen_printf(g, "%s/%s", dir, names[i])};
        const char *rule = gen_printf(g, "%s/op.lua", f.path);
        int error = read_whole_file(rule, &f.text, &f.bytes);

        if (error == ENOENT)
            need_no_rule(g, f.path);
        else if (error)
            diag_add(g, DIAG_ERROR, (Pos){.file = rule}, NULL, "%s", file_problem(error));
        else if (!op_name_ok(names[i]))
            diag_add(g, DIAG_ERROR, (Pos){.file = rule},
                     "op names match [a-z_][a-z0-9_]*; param, cut, tokens, targets "
                     "and starts are taken",
                     "%s cannot be the name of an op", names[i]);
        else
            list[(*count)++] = f;
    }
    return list;
}
