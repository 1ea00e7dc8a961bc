/* SPDX-License-Identifier: MIT-0 */
/* rt_launch.c: starts all ranks of the job on this machine. In: the trainer, the flags.
 * Out: the exit code of the job. One process a rank, each on its share of the cores; they
 * inherit the shared memory's descriptor, so there is no door that others could come to,
 * and no secret to know each other by. rt_join.c is the other way to start. */
#include "rt_private.h"

#include <errno.h>
#include <string.h>

int64_t rt_shared_most_bytes(const RtTrainer *t)
{
    enum { OF_DIGESTS = 16 << 10 };
    return rt_shared_bytes(t) + t->world_size * (t->snapshot_bytes + OF_DIGESTS);
}

/* It is of no disk, but it counts as a file. */
const char *rt_shared_error(int64_t bytes)
{
    static char text[160];
    const int reason = errno;
    snprintf(text, sizeof text, "%s", strerror(reason));
    if (reason == EFBIG) {
        snprintf(text, sizeof text,
                 "%s: `ulimit -f` counts the %lld bytes that ranks share as a file",
                 strerror(reason), (long long)bytes);
    }
    return text;
}

int rt_launch_ranks(const RtTrainer *t, const RtFlags *f)
{
    rt_memory_warn(t);
    const int fd = rt_shared_create(t);
    RtShared *shared = fd >= 0 ? rt_shared_map(fd) : NULL;
    if (shared == NULL) {
        fprintf(stderr, "trainer: error: no shared memory: %s\n",
                rt_shared_error(rt_shared_most_bytes(t)));
        return RT_EXIT_ERROR;
    }
    static RtJob job;
    RtCores cores;
    rt_cores_find(&cores);
    rt_job_init(&job, t, f, shared, fd);
    job.judges = true;
    for (int r = 0; r < t->world_size; r++) {
        atomic_store(&shared->rank[r].moved_ns, rt_clock_ns());
    }
    for (int r = 0; r < t->world_size; r++) {
        if (!rt_job_start(&job, r, &cores, r, t->world_size)) {
            break;
        }
    }
    return rt_watch(&job);
}
