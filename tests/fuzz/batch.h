/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h: the loop of the fuzzers of the generator's readers. In: SEED FIRST COUNT, and
 * a function that runs a case: NULL, or what is wrong; it counts in *taken what was not
 * refused. Out: a line FAIL for each wrong case, counts last. Batches run in processes of
 * their own, so that their memory ends with them. */
#include "mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 100 };
typedef const char *(*RunCase)(Random *r, int *taken);

static void run_batch(uint64_t seed, uint64_t first, int count, RunCase run_case)
{
    int taken = 0, wrong = 0;

    for (int i = 0; i < count; i++) {
        Random r;
        const char *problem;

        random_start(&r, seed, first + (uint64_t)i);
        problem = run_case(&r, &taken);
        if (problem) {
            wrong++;
            printf("FAIL case %llu: %s\n", (unsigned long long)first + (unsigned)i,
                   problem);
        }
    }
    fflush(stdout);
    _exit(wrong ? 101 : taken);
}

/* Returns the exit status: also when all is refused, which tests nothing. */
static int run_batches(char **argv, RunCase run_case)
{
    const int count = atoi(argv[3]);
    int wrong = 0, taken = 0;

    for (int at = 0; at < count; at += BATCH) {
        const int n = count - at < BATCH ? count - at : BATCH;
        const uint64_t first = strtoull(argv[2], NULL, 10) + (uint64_t)at;
        pid_t child = fork();
        int status = 0;

        if (child == 0)
            run_batch(strtoull(argv[1], NULL, 10), first, n, run_case);
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) > BATCH) {
            wrong++;
            printf("FAIL cases %llu to %llu: status %x\n", (unsigned long long)first,
                   (unsigned long long)first + (unsigned)n - 1, (unsigned)status);
        } else {
            taken += WEXITSTATUS(status);
        }
    }
    printf("%d refused, %d taken\n", count - taken, taken);
    printf("%d passed, %d failed\n", count - wrong, wrong);
    return wrong || (count >= 300 && (taken < count / 50));
}
