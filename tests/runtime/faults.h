/* SPDX-License-Identifier: Apache-2.0 */
/* faults.h: what goes wrong in the middle of a step, of a trainer written by hand
 * (toy_trainer.c) or an emitted one (faulty.c). In: TOY_FAULT=KIND:RANK:STEP[-LAST]. */
#ifndef TEST_FAULTS_H
#define TEST_FAULTS_H

#include "rt.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool fault(const Rt *rt, const char *kind, int step_now)
{
    const char *plan = getenv("TOY_FAULT");
    const size_t n = strlen(kind);
    int rank, step, last = 0;
    const int given = plan != NULL && strncmp(plan, kind, n) == 0
                          ? sscanf(plan + n, ":%d:%d-%d", &rank, &step, &last)
                          : 0;
    return given >= 2 && rank == rt->rank && step <= step_now &&
           step_now <= (given == 3 ? last : step);
}

/* Those that know nothing of the model. */
static void plant_any_fault(Rt *rt, int step)
{
    volatile char *at;
    if (fault(rt, "abort", step)) {
        abort();
    } else if (fault(rt, "exit", step)) {
        _exit(7);
    } else if (fault(rt, "leave", step)) {
        exit(0);
    } else if (fault(rt, "stop", step)) {
        raise(SIGSTOP);
    } else if (fault(rt, "sleep", step)) {
        sleep(1000);
    } else if (fault(rt, "term", step)) {
        kill(getpid(), SIGTERM); /* as others send it; raise() means this thread alone */
    } else if (fault(rt, "over", step)) {
        at = rt->local + (rt->trainer->local_bytes + 4095) / 4096 * 4096;
        *at = 1;
    } else if (fault(rt, "under", step)) {
        at = rt->symmetric - 4096;
        *at = 1;
    } else if (fault(rt, "near", step)) {
        at = rt->symmetric - 1;
        *at = 1;
    } else if (fault(rt, "malloc", step)) {
        free(malloc(100));
    }
}

#endif
