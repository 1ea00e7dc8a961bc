/* SPDX-License-Identifier: MIT-0 */
/* rt_writers.c: may several ranks write into one file there? In: the folder of
 * checkpoints. Out: yes or no.
 *
 * A local disk and any POSIX filesystem keep bytes that different processes write at
 * different places. Some network filesystems, if mounted carelessly, write back whole
 * pages as each process last saw them, and other processes' bytes are lost without an
 * error. So before the first checkpoint all ranks write a file together, in interleaved
 * slices that share pages, and read it back. If a byte is wrong, each file of a
 * checkpoint gets one writer, which takes the others' slices from their copies. A rank
 * that does not see the file is on a machine with a folder of its own of that name: the
 * run ends. */
#include "checkpoint/rt_checkpoint.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_BYTES = 1021, SLICES = 12 }; /* per rank; a page is not a multiple of it */

static unsigned char pattern(int64_t at)
{
    return (unsigned char)(1 + at % 251); /* never zero, which holes read as */
}

/* Rank 0 creates the file with its full length. */
static void make_file(RtCheckpoint *c, const char *path, int64_t bytes)
{
    const int fd = rt_file_open(path, O_RDWR | O_CREAT | O_EXCL, c->error);
    if (fd < 0)
        return;
    rt_file_extend(fd, path, bytes, c->error);
    close(fd);
}

/* What a network filesystem remembers of names that were not there is asked for again
 * when the folders around them are opened. */
static int open_trial(Rt *rt, const char *path)
{
    enum { TRIES = 20 };
    const struct timespec nap = {0, 100000000};
    RtCheckpoint *c = rt->state->checkpoint;
    char above[RT_PATH_BYTES + 4], ignored[RT_ERROR_BYTES];
    int fd = rt_file_open(path, O_WRONLY, c->error);
    snprintf(above, sizeof above, "%s/..", c->dir);
    for (int i = 0; fd < 0 && rt_file_error_is_missing() && i < TRIES; i++) {
        const char *const folders[] = {above, c->dir};
        for (int k = 0; k < 2; k++) {
            const int folder = rt_file_open(folders[k], O_RDONLY | O_DIRECTORY, ignored);
            if (folder >= 0)
                close(folder);
        }
        nanosleep(&nap, NULL);
        c->error[0] = '\0';
        fd = rt_file_open(path, O_WRONLY, c->error);
    }
    if (fd >= 0)
        rt_file_forget_error();
    return fd;
}

/* All have it open before the first one writes, and have written before the first one
 * closes it, so that no rank sees what another one has already flushed. */
static void write_slices(Rt *rt, const char *path)
{
    RtCheckpoint *c = rt->state->checkpoint;
    unsigned char slice[SLICE_BYTES];
    const int fd = open_trial(rt, path);
    bool ok = rt_first_error(rt) < 0;
    for (int k = 0; ok && k < SLICES; k++) {
        const int64_t at = ((int64_t)k * rt->world_size + rt->rank) * SLICE_BYTES;
        for (int i = 0; i < SLICE_BYTES; i++)
            slice[i] = pattern(at + i);
        ok = rt_file_write(fd, path, slice, SLICE_BYTES, at, c->error);
    }
    ok = rt_first_error(rt) < 0 && ok;
    if (fd >= 0 && ok)
        rt_file_finish(fd, path, c->error);
    else if (fd >= 0)
        close(fd);
}

/* Is every byte as some rank wrote it? */
static bool read_slices(Rt *rt, const char *path)
{
    RtCheckpoint *c = rt->state->checkpoint;
    unsigned char slice[SLICE_BYTES];
    bool same = true;
    const int fd = rt_file_open(path, O_RDONLY, c->error);
    for (int k = 0; fd >= 0 && k < SLICES * rt->world_size && c->error[0] == '\0'; k++) {
        const int64_t at = (int64_t)k * SLICE_BYTES;
        if (!rt_file_read(fd, path, slice, SLICE_BYTES, at, c->error))
            break;
        for (int i = 0; i < SLICE_BYTES; i++)
            same = same && slice[i] == pattern(at + i);
    }
    if (fd >= 0)
        close(fd);
    return same;
}

/* Collective. If the folder is not writable or not shared, the run ends before it
 * computes anything. If the trial fails otherwise, the first save will report the cause.
 */
static bool judge(Rt *rt, bool same)
{
    RtCheckpoint *c = rt->state->checkpoint;
    const int who = rt_first_error(rt);
    if (who == rt->rank && who > 0 && rt_file_error_is_missing()) {
        rt_fail(rt, RT_EXIT_ERROR,
                "--checkpoint: what rank 0 writes in %s is not there for rank %d: all "
                "machines must share the folder (%s)",
                c->dir, rt->rank, c->error);
    }
    if (who == rt->rank && rt_file_error_is_denied() && !rt->state->flags.keep_going) {
        rt_fail(rt, RT_EXIT_ERROR, "--checkpoint: no checkpoint could be written: %s",
                c->error);
    }
    if (who == rt->rank) {
        rt_say(
            "trainer: warning: [rank %d] whether a checkpoint can be written in %s, by "
            "several ranks into one file, could not be tried: %s",
            who, c->dir, c->error);
    }
    c->error[0] = '\0';
    uint64_t losers = !same;
    rt_save_sum(rt, &losers, 1);
    const bool lost = who < 0 && losers > 0;
    if (lost && rt->rank == 0) {
        rt_say("trainer: warning: in %s bytes are lost when several ranks write into one "
               "file: each file of a checkpoint is written by one rank (--one-writer)",
               c->dir);
    }
    return lost;
}

static bool one_writer_needed(Rt *rt)
{
    RtCheckpoint *c = rt->state->checkpoint;
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    bool same = true;
    const bool alone = rt->world_size == 1 || rt->state->flags.one_writer;
    rt_file_forget_error();
    snprintf(path, sizeof path, "%s/.tmp-step-trial", c->dir);
    if (rt->rank == 0)
        make_file(c, path, (int64_t)SLICES * rt->world_size * SLICE_BYTES);
    if (!alone && rt_first_error(rt) < 0) {
        write_slices(rt, path);
        if (rt_first_error(rt) < 0)
            same = read_slices(rt, path);
    }
    const bool one = judge(rt, same);
    if (rt->rank == 0)
        remove(path); /* if that fails, the next start removes it */
    return one || rt->state->flags.one_writer;
}

/* Copies are in the memory of one machine. */
bool rt_writers_try(Rt *rt)
{
    const bool one = one_writer_needed(rt);
    if (one && rt_ranks_here(rt->state->shared, rt->world_size) < rt->world_size) {
        rt_fail(rt, RT_EXIT_ERROR,
                "the ranks are on several machines, where none can write a file for the "
                "others: %s must be on a filesystem where they may write into one "
                "together",
                rt->state->checkpoint->dir);
    }
    return one;
}
