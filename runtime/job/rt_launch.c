/* SPDX-License-Identifier: MIT-0 */
/* rt_launch.c: starts all ranks of the job on this machine. In: the trainer, the flags.
 * Out: the exit code of the job; in each rank, its seat. There is one process per rank,
 * each on its share of the cores. They inherit the shared memory's descriptor, so they
 * need neither a door that others could reach nor a secret. rt_join.c is the other way
 * to start. */
#include "job/rt_job.h"
#include "rt_target.h"

#include <errno.h>
#include <string.h>

int rt_launch_ranks(const RtTrainer *t, const RtFlags *f, RtSeat *seat)
{
    rt_start_warn(t);
    int fd;
    RtShared *shared = rt_shared_first(t, &fd);
    if (shared == NULL)
        return RT_EXIT_ERROR;
    static RtJob job;
    RtCores cores;
    rt_cores_find(&cores);
    rt_job_init(&job, t, f, shared, fd);
    job.judges = true;
    for (int r = 0; r < t->world_size; r++)
        atomic_store(&shared->rank[r].moved_ns, rt_clock_ns());
    RtStarted started = RT_STARTED;
    for (int r = 0; r < t->world_size && started == RT_STARTED; r++)
        started = rt_job_start(&job, r, &cores, r, t->world_size, seat);
    if (started == RT_IN_RANK)
        return RT_IS_RANK;
    return rt_watch(&job);
}
