/* SPDX-License-Identifier: MIT-0 */
/* rt_memory.c: the memory of a rank, planned and measured. In: the plan's table, the
 * kernel's account of this process. Out: a table at start, a table at the end. Memory
 * outside the arena (data files, code, libraries and what they allocate) is listed
 * separately. */
#include "checkpoint/rt_checkpoint.h"
#include "data/rt_data.h"
#include "job/rt_job.h"
#include "rt_gemm.h"
#include "rt_target.h"

#include <string.h>
#include <sys/resource.h>

int64_t rt_memory_high_water_bytes(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_maxrss * 1024 : 0;
}

static double mib(int64_t bytes)
{
    return (double)bytes / 1048576.0;
}

void rt_memory_planned(const Rt *rt, FILE *out)
{
    const RtTrainer *t = rt->trainer;
    fprintf(out, "memory of each rank, planned:\n");
    for (int i = 0; i < t->n_memory; i++)
        fprintf(out, "  %-28s %12.2f MiB\n", t->memory[i].what, mib(t->memory[i].bytes));
    fprintf(out, "  %-28s %12.2f MiB (%lld bytes, mapped exactly)\n", "arena",
            mib(t->symmetric_bytes + t->local_bytes),
            (long long)(t->symmetric_bytes + t->local_bytes));
    if (rt_snapshot_bytes(rt) > 0) {
        fprintf(out, "  %-28s %12.2f MiB beside it\n", "copy for saves",
                mib(rt_snapshot_bytes(rt)));
    }
}

/* Before the kernel kills a rank, or a run takes four times as long. */
void rt_start_warn(const RtTrainer *t)
{
    const char *slow = rt_gemm_slow_kernels();
    if (slow != NULL) {
        rt_say(
            "trainer: warning: OpenBLAS does not know this processor and takes its slow "
            "kernels for %s: OPENBLAS_CORETYPE=Haswell chooses those for AVX2, make "
            "GEMM=builtin needs no library",
            slow);
    }
    const int64_t need = t->world_size * (t->symmetric_bytes + t->local_bytes);
    const int64_t free_bytes = rt_host_free_bytes();
    if (need > free_bytes) {
        rt_say(
            "trainer: warning: the arenas of %d rank%s take %.2f MiB, but only %.2f MiB "
            "of memory are available",
            t->world_size, t->world_size == 1 ? "" : "s", mib(need), mib(free_bytes));
    }
}

typedef enum { ARENA, PEERS, DATA, COPIES, CODE, OTHER, N_CLASSES } Class;
static const char *const class_names[N_CLASSES] = {
    [ARENA] = "arena",
    [PEERS] = "peers' symmetric spaces",
    [DATA] = "data files, mapped",
    [COPIES] = "copies for saves",
    [CODE] = "code and libraries",
    [OTHER] = "heap, stacks, libraries'",
};

static bool inside(const char *space, int64_t bytes, uintptr_t from)
{
    const uintptr_t page = (uintptr_t)rt_pages(1);
    return from >= (uintptr_t)space / page * page &&
           from < (uintptr_t)space + (uintptr_t)bytes;
}

static Class class_of(const Rt *rt, uintptr_t from, const char *path)
{
    const RtTrainer *t = rt->trainer;
    if (inside(rt->symmetric, t->symmetric_bytes, from) ||
        inside(rt->local, t->local_bytes, from))
        return ARENA;
    for (int r = 0; r < rt->world_size; r++)
        if (inside(rt->peer[r], t->symmetric_bytes, from))
            return PEERS;
    if ((rt->state->tokens != NULL &&
         rt_tokens_holding(rt->state->tokens, from) != NULL) ||
        (rt->state->held_out != NULL &&
         rt_tokens_holding(rt->state->held_out, from) != NULL))
        return DATA;
    if (rt_snapshot_holds(rt, from))
        return COPIES;
    return path[0] == '/' && strncmp(path, "/memfd:", 7) != 0 ? CODE : OTHER;
}

/* Resident bytes of every mapping, by class, and those of the local space, which is part
 * of the arena; false if the kernel does not report them. */
static bool resident(const Rt *rt, int64_t *bytes, int64_t *local)
{
    FILE *f = fopen("/proc/self/smaps", "re");
    if (f == NULL)
        return false;
    char line[4608];
    Class class = OTHER;
    bool is_local = false;
    while (fgets(line, sizeof line, f) != NULL) {
        unsigned long long from, to;
        int path_at = 0;
        long long kib;
        if (sscanf(line, "%llx-%llx %*s %*s %*s %*s %n", &from, &to, &path_at) == 2) {
            line[strcspn(line, "\n")] = '\0';
            class = class_of(rt, (uintptr_t)from, path_at > 0 ? line + path_at : "");
            is_local = inside(rt->local, rt->trainer->local_bytes, (uintptr_t)from);
        } else if (sscanf(line, "Rss: %lld kB", &kib) == 1) {
            bytes[class] += kib * 1024;
            *local += is_local ? kib * 1024 : 0;
        }
    }
    fclose(f);
    return true;
}

/* Shared memory is reserved at start. Of private memory the kernel has given what was
 * touched: nothing in a new run, optimizer states and more in a resumed one. */
int64_t rt_arena_awaits_bytes(const Rt *rt)
{
    int64_t bytes[N_CLASSES] = {0}, local = 0;
    const bool told = resident(rt, bytes, &local);
    const int64_t rest = rt->trainer->local_bytes - (told ? local : 0);
    return rest > 0 ? rest : 0;
}

void rt_memory_resident(const Rt *rt, FILE *out)
{
    const RtTrainer *t = rt->trainer;
    int64_t bytes[N_CLASSES] = {0}, sum = 0, local = 0;
    if (!resident(rt, bytes, &local))
        return;
    fprintf(out, "memory of rank %d, resident at the end:\n", rt->rank);
    for (int c = 0; c < N_CLASSES; c++) {
        sum += bytes[c];
        fprintf(out, "  %-28s %12.2f MiB", class_names[c], mib(bytes[c]));
        if (c == ARENA)
            fprintf(out, " of %.2f planned", mib(t->symmetric_bytes + t->local_bytes));
        fprintf(out, "\n");
    }
    fprintf(out, "  %-28s %12.2f MiB; high-water mark %.2f MiB\n", "sum", mib(sum),
            mib(rt_memory_high_water_bytes()));
}
