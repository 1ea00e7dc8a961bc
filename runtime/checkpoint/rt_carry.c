/* SPDX-License-Identifier: MIT-0 */
/* rt_carry.c: files that a model needs but training does not: those of its tokenizer,
 * and its settings for generation. In: the folder of the run's weights, --init's or
 * the checkpoint's. Out: the same bytes in each checkpoint of the run, hashed in its
 * MANIFEST. So a checkpoint of a Hugging Face model is again a complete Hugging Face
 * model.
 *
 * Rank 0 keeps them in memory, because their source may be gone by the next
 * checkpoint. */
#include "checkpoint/rt_checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
};
enum { N_NAMES = sizeof names / sizeof *names };
_Static_assert((int)N_NAMES <= (int)RT_MOST_CARRIED, "the table of files has room");

bool rt_carry_read(Rt *rt, const char *folder)
{
    const int64_t most_bytes = INT64_C(256) << 20; /* the largest known have 34 MB */
    RtCheckpoint *c = rt->state->checkpoint;
    uint64_t there[N_NAMES] = {0}; /* bytes + 1; 0: it does not exist */
    char *text[N_NAMES] = {NULL};
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    for (int i = 0; rt->rank == 0 && i < N_NAMES && c->error[0] == '\0'; i++) {
        int64_t bytes;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (access(path, F_OK) == 0 &&
            (text[i] = rt_file_load(path, most_bytes, &bytes, c->error)) != NULL)
            there[i] = (uint64_t)bytes + 1;
    }
    if (rt->rank == 0 && c->error[0] == '\0')
        rt_config_carry(rt, folder);
    if (rt_first_error(rt) >= 0)
        return false;
    rt_save_sum(rt, there, N_NAMES);
    for (int i = 0; i < N_NAMES; i++) {
        if (there[i] == 0)
            continue;
        RtFile *f = &c->files[c->n_files++];
        *f = (RtFile){.bytes = (int64_t)there[i] - 1, .head = text[i]};
        f->head_bytes = text[i] != NULL ? f->bytes : 0;
        snprintf(f->name, sizeof f->name, "%s", names[i]);
    }
    c->n_lasting_files = c->n_files;
    return true;
}
