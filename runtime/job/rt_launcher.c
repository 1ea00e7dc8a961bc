/* SPDX-License-Identifier: MIT-0 */
/* rt_launcher.c: what torchrun, mpirun or srun tell the processes they start. In: their
 * environment. Out: rank and number of ranks, and the job's identity. */
#include "job/rt_job.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Launcher {
    /* variables */
    const char *name, *rank, *world_size, *local_rank, *local_size;
    const char *machine;     /* its number, or NULL */
    const char *identity[4]; /* that identify the job */
} Launcher;

/* In this order, because torchrun may run under srun and then has both. Slurm is
 * recognised by its step: a batch script without srun has SLURM_PROCID, but only one
 * process. */
static const Launcher launchers[] = {
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     "GROUP_RANK",
     {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}},
    {"mpirun",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     NULL,
     {"PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri", "OMPI_MCA_ess_base_jobid"}},
    {"srun",
     "SLURM_PROCID",
     "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE",
     "SLURM_NODEID",
     {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    {"mpiexec",
     "PMI_RANK",
     "PMI_SIZE",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     NULL,
     {"PMI_ID", "PMI_KVS"}},
};

/* The number at the start of a text, or -1; and the rest, unless rest is NULL. */
static int number_in(const char *text, const char **rest)
{
    char *end = NULL;
    if (text == NULL || *text < '0' || *text > '9')
        return -1;
    const long n = strtol(text, &end, 10);
    if (rest != NULL)
        *rest = end;
    return n < 1 << 20 ? (int)n : -1;
}

/* The value of a variable that is only a number; -1: it is not. */
static int number_of(const char *variable)
{
    const char *rest = "";
    const int n = variable != NULL ? number_in(getenv(variable), &rest) : -1;
    return *rest == '\0' ? n : -1;
}

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0';
}

/* Slurm's "4(x2),3" means 4 on each of two machines, then 3; others write a number. */
static int number_on(const char *variable, int machine)
{
    const char *text = getenv(variable), *rest = NULL;
    int n = number_in(text, &rest), left = machine > 0 ? machine : 0;
    while (n >= 0) {
        int times = 1;
        if (rest[0] == '(' && rest[1] == 'x') {
            times = number_in(rest + 2, &rest);
            rest += *rest == ')';
        }
        if (times > left || *rest != ',')
            break;
        left -= times;
        n = number_in(rest + 1, &rest);
    }
    return n;
}

bool rt_join_is_torchrun(void)
{
    return is_set("TORCHELASTIC_RUN_ID");
}

bool rt_join_find(RtJoin *j, char *error)
{
    error[0] = '\0';
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const Launcher *l = &launchers[i];
        *j = (RtJoin){.launcher = l->name,
                      .rank = number_of(l->rank),
                      .world_size = number_of(l->world_size),
                      .local_rank = number_of(l->local_rank),
                      .machine = number_of(l->machine)};
        if (!is_set(l->rank) || !is_set(l->world_size))
            continue;
        if (j->rank < 0 || j->world_size < 1) {
            const char *which = j->rank < 0 ? l->rank : l->world_size;
            snprintf(
                error, RT_ERROR_BYTES,
                "%s=%.100s in the environment is not a number of %s, as %s gives it; "
                "unset it, or pass --local: then one process starts all ranks itself",
                which, getenv(which), j->rank < 0 ? "a rank" : "ranks", l->name);
            return true;
        }
        j->local_size = number_on(l->local_size, j->machine);
        size_t at = (size_t)snprintf(j->identity, sizeof j->identity, "%s %u", l->name,
                                     (unsigned)geteuid());
        for (int k = 0; k < 4 && l->identity[k] != NULL; k++) {
            const char *value = getenv(l->identity[k]);
            if (value != NULL && at < sizeof j->identity) {
                j->named = true;
                at += (size_t)snprintf(j->identity + at, sizeof j->identity - at, " %s",
                                       value);
            }
        }
        if (!j->named) /* children of one process on this machine form one job */
            snprintf(j->identity + at, sizeof j->identity - at, " %d", (int)getppid());
        return true;
    }
    j->launcher = NULL;
    return false;
}
