/* SPDX-License-Identifier: Apache-2.0 */
/* inputs.c: which files a command reads, so that none of its outputs replaces one. In:
 * the files that children open (read.c), and those that the command notes. Out: whether
 * a file is one of them. Children share the list with their parent, which writes the
 * outputs. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#endif
#include "base/base.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { MAX_INPUTS = 16384 }; /* untouched pages of the list take no memory */

typedef struct Input {
    uint64_t device, inode;
} Input;

static struct Inputs {
    atomic_int count; /* readers of a child may be threads */
    Input items[MAX_INPUTS];
} * inputs;
static bool in_child;

void inputs_share(void)
{
    if (!inputs)
        inputs = mmap(NULL, sizeof *inputs, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    gen_require(inputs != MAP_FAILED, "no memory for the list of inputs");
}

void inputs_in_child(void)
{
    in_child = true;
}

bool input_is(const struct stat *s)
{
    const int n = inputs ? (int)min_i64(atomic_load(&inputs->count), MAX_INPUTS) : 0;

    for (int i = 0; i < n; i++)
        if (inputs->items[i].inode == s->st_ino && inputs->items[i].device == s->st_dev)
            return true;
    return false;
}

static void note(const struct stat *s)
{
    const int at = input_is(s) ? MAX_INPUTS : atomic_fetch_add(&inputs->count, 1);

    if (at < MAX_INPUTS)
        inputs->items[at] = (Input){s->st_dev, s->st_ino};
}

void input_opened(const struct stat *s)
{
    if (in_child)
        note(s);
}

void input_note(const char *path)
{
    struct stat s;

    inputs_share();
    if (stat(path, &s) == 0)
        note(&s);
}
