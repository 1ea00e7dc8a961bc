/* SPDX-License-Identifier: Apache-2.0 */
/* embed.c: files that the build embeds into the binary. In: a path. Out: the file's
 * bytes, or NULL. `--share DIR` (for people who work on templates) first looks for the
 * same path in a source tree. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static const char *share_dir;
static struct {
    Embedded *items;
    int count, cap;
} shared;

void embed_share(const char *dir)
{
    share_dir = dir;
}

static const Embedded *share_find(const char *path)
{
    char name[1024];
    const char *text;
    size_t bytes;
    Embedded *e;

    for (int i = 0; i < shared.count; i++)
        if (!strcmp(shared.items[i].path, path))
            return &shared.items[i];
    if (snprintf(name, sizeof name, "%s/%s", share_dir, path) >= (int)sizeof name)
        return NULL;
    if (read_whole_file(name, &text, &bytes) != 0)
        return NULL;
    if (shared.count == 0) /* pointers to items are handed out: never move them */
        shared.items = gen_calloc(4096, sizeof *shared.items);
    gen_require(shared.count < 4096, "too many shared files");
    e = &shared.items[shared.count++];
    *e = (Embedded){strcpy(gen_calloc(strlen(path) + 1, 1), path),
                    (const unsigned char *)text, bytes};
    return e;
}

const Embedded *embed_find(const char *path)
{
    int low = 0, high = embedded_count;

    if (share_dir) {
        const Embedded *e = share_find(path);

        if (e)
            return e;
    }
    while (low < high) {
        int middle = low + (high - low) / 2;
        int c = strcmp(path, embedded_files[middle].path);

        if (c == 0)
            return &embedded_files[middle];
        if (c < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
