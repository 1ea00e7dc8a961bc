/* SPDX-License-Identifier: MIT-0 */
/* rt_cores.c: which cores a rank runs on. In: the CPUs this process may use, the quota
 * of its control groups, flags, limits of OpenMP. Out: the number of threads of a rank,
 * its affinity. Neither affects bits. */
#define _GNU_SOURCE
#include "job/rt_job.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_CPUS = sizeof((RtCores *)0)->cpu / sizeof((RtCores *)0)->cpu[0] };

static long topology(int cpu, const char *what)
{
    char path[96];
    long value = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, what);
    FILE *f = fopen(path, "re");
    if (f != NULL) {
        if (fscanf(f, "%ld", &value) != 1)
            value = 0;
        fclose(f);
    }
    return value;
}

typedef struct Place {
    long package, core;
    int cpu;
} Place;

static int by_place(const void *a, const void *b)
{
    const Place *x = a, *y = b;
    if (x->package != y->package)
        return x->package < y->package ? -1 : 1;
    if (x->core != y->core)
        return x->core < y->core ? -1 : 1;
    return x->cpu - y->cpu;
}

static bool openmp_binds(void)
{
    const char *bind = getenv("OMP_PROC_BIND");
    return getenv("OMP_PLACES") != NULL || getenv("GOMP_CPU_AFFINITY") != NULL ||
           (bind != NULL && strcmp(bind, "false") != 0);
}

/* If OpenMP binds threads, it has bound the first one to one place before main; its
 * places together are what this process had. Otherwise it is not asked, because LLVM's
 * would start its threads here, before ranks are forked. */
static void add_places(cpu_set_t *set)
{
#ifdef _OPENMP
    int cpu[MAX_CPUS];
    for (int place = 0; place < omp_get_num_places(); place++) {
        const int n = omp_get_place_num_procs(place);
        if (n > MAX_CPUS)
            continue;
        omp_get_place_proc_ids(place, cpu);
        for (int i = 0; i < n; i++)
            CPU_SET((size_t)cpu[i], set); /* beyond the set: ignored */
    }
#else
    (void)set;
#endif
}

void rt_cores_find(RtCores *c)
{
    Place place[MAX_CPUS];
    cpu_set_t set;
    CPU_ZERO(&set);
    c->n_cpus = 0;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        if (openmp_binds())
            add_places(&set);
        for (int cpu = 0; cpu < CPU_SETSIZE && c->n_cpus < MAX_CPUS; cpu++) {
            if (CPU_ISSET(cpu, &set)) {
                place[c->n_cpus++] = (Place){topology(cpu, "physical_package_id"),
                                             topology(cpu, "core_id"), cpu};
            }
        }
    }
    qsort(place, (size_t)c->n_cpus, sizeof *place, by_place);
    for (int i = 0; i < c->n_cpus; i++)
        c->cpu[i] = place[i].cpu;
    const int granted = rt_limits_cpus("");
    c->known = c->n_cpus > 0;
    c->n_cpus = c->known ? c->n_cpus : 1;
    c->quota = granted < c->n_cpus ? granted : c->n_cpus;
}

/* --threads, or the user's OMP_NUM_THREADS, or an equal share. torchrun sets
 * OMP_NUM_THREADS=1 if the user does not. */
int rt_cores_threads(const RtCores *c, const RtFlags *f, int ranks)
{
    if (f->threads > 0)
        return (int)f->threads;
    const char *wish = getenv("OMP_NUM_THREADS");
    const int n = wish != NULL ? atoi(wish) : 0;
    const bool torchrun = rt_join_is_torchrun() && n == 1;
    if (n > 0 && n <= 1024 && !torchrun)
        return n;
    return c->quota / ranks > 0 ? c->quota / ranks : 1;
}

/* Binds to the index-th of `ranks` equal parts of the cores; does not bind if there is
 * none or it is too small. */
void rt_cores_bind(const RtCores *c, int index, int ranks, int threads)
{
    const int share = c->n_cpus / ranks;
    if (share == 0 || threads > share || c->quota < c->n_cpus)
        return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = index * share; i < (index + 1) * share; i++)
        CPU_SET(c->cpu[i], &set);
    sched_setaffinity(0, sizeof set, &set); /* a request: some sandboxes refuse it */
}

/* OpenMP may start smaller teams than asked for: the threads that they have. Libraries
 * that ask OpenMP for the number get that one, too. */
int rt_cores_team(int threads, bool tells)
{
    int team = threads;
#ifdef _OPENMP
    omp_set_dynamic(0);
    omp_set_num_threads(threads);
#pragma omp parallel if (threads > 1)
#pragma omp single
    team = omp_get_num_threads();
    if (team == threads)
        return team;
    omp_set_num_threads(team);
    if (tells) {
        rt_say(
            "trainer: note: each rank has %d thread%s, not %d: %s allows no more; raise "
            "that limit, or pass --threads %d",
            team, team == 1 ? "" : "s", threads,
            omp_get_max_active_levels() < 1    ? "OMP_MAX_ACTIVE_LEVELS"
            : omp_get_thread_limit() < threads ? "OMP_THREAD_LIMIT"
                                               : "OpenMP",
            team);
    }
#else
    (void)tells;
#endif
    return team;
}

/* Ranks and threads wait for each other often and briefly. If other programs use the
 * cores, too, a thread that others wait for should not have to wait for another program's
 * whole time slice: a task that asks for short slices gets its share in smaller parts,
 * soon after it wakes. Linux supports this from 6.12 on; before that, and in sandboxes
 * that refuse it, nothing changes. */
void rt_cores_short_turns(void)
{
    enum { TURN_NS = 400000 };
    struct { /* sched_setattr(2); C libraries lack it */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } attr = {0};
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) == 0 &&
        attr.policy == SCHED_OTHER) {
        attr.runtime_ns = TURN_NS;
        syscall(SYS_sched_setattr, 0, &attr, 0);
    }
}

/* If the loader was started with this program as its argument, exec would start the
 * loader again: it has no base then. */
static bool can_restart(void)
{
    return getenv("RT_FITTED") == NULL && getauxval(AT_BASE) != 0;
}

/* Once, even if a library ignores the environment. What runs then has all CPUs again. */
static void restart(const RtCores *c, char **argv)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < c->n_cpus && c->known; i++)
        CPU_SET(c->cpu[i], &set);
    if (c->known)
        sched_setaffinity(0, sizeof set, &set);
    setenv("RT_FITTED", "1", 1);
    fflush(NULL);
    rt_signals_hold(true);
    execv("/proc/self/exe", argv); /* without /proc: slower, but correct */
    rt_signals_hold(false);
}

static void unbind(void)
{
    unsetenv("OMP_PLACES");
    unsetenv("GOMP_CPU_AFFINITY");
    setenv("OMP_PROC_BIND", "false", 1);
}

void rt_cores_unbind_openmp(char **argv)
{
    RtCores c;
    if (!openmp_binds() || !can_restart())
        return;
    rt_cores_find(&c);
    unbind();
    restart(&c, argv);
}

/* OpenMP read its environment before main, when this process had all the cores. If it
 * binds threads, all ranks would bind to the same cores; if ranks have more threads than
 * there are cores, they would spin against each other. Otherwise a thread that waits for
 * its team spins for about 20 us and then sleeps. Without other programs this costs
 * nothing, and beside them it does not use up its share by waiting (GOMP_SPINCOUNT; by
 * default it would keep spinning). */
void rt_cores_fit_openmp(const RtCores *c, const RtFlags *f, int ranks, char **argv)
{
    const int threads = rt_cores_threads(c, f, ranks);
    const bool binds = ranks > 1 && openmp_binds();
    const bool crowded = threads > 1 && ranks * threads > c->quota;
    const bool waits = threads > 1 && getenv("OMP_WAIT_POLICY") == NULL &&
                       getenv("GOMP_SPINCOUNT") == NULL;
    if (!can_restart() || (!binds && !waits))
        return;
    if (binds)
        unbind();
    if (waits) {
        setenv(crowded ? "OMP_WAIT_POLICY" : "GOMP_SPINCOUNT",
               crowded ? "passive" : "1000", 1);
    }
    restart(c, argv);
}
