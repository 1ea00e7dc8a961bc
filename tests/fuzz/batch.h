/* SPDX-License-Identifier: Apache-2.0 */
/* batch.h: the loop of the fuzzers of the generator's readers. In: SEED FIRST COUNT, and
 * a function that runs a case: NULL, or what is wrong; it counts in *taken what was not
 * refused. Out: a line FAIL for each wrong case, counts last. Batches run in processes of
 * their own, so that their memory ends with them. */
#include "mutate.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 100 };
typedef const char *(*RunCase)(Random *r, int *taken);

/* What a batch's process says of itself; one that ends early has done less. */
typedef struct Progress {
    int done, wrong, taken;
} Progress;

static void run_batch(Progress *b, uint64_t seed, uint64_t first, int count,
                      RunCase run_case)
{
    for (int i = 0; i < count; i++) {
        Random r;
        const char *problem;

        random_start(&r, seed, first + (uint64_t)i);
        problem = run_case(&r, &b->taken);
        if (problem) {
            b->wrong++;
            printf("FAIL case %llu: %s\n", (unsigned long long)first + (unsigned)i,
                   problem);
        }
        b->done++;
    }
    fflush(stdout);
    _exit(0);
}

/* Returns the exit status: also when all is refused, which tests nothing. */
static int run_batches(char **argv, RunCase run_case)
{
    const int count = atoi(argv[3]);
    int wrong = 0, taken = 0;
    Progress *b =
        mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (b == MAP_FAILED)
        return 1;
    for (int at = 0; at < count; at += BATCH) {
        const int n = count - at < BATCH ? count - at : BATCH;
        const uint64_t first = strtoull(argv[2], NULL, 10) + (uint64_t)at;
        pid_t child;
        int status = 0;

        memset(b, 0, sizeof *b);
        child = fork();
        if (child == 0)
            run_batch(b, strtoull(argv[1], NULL, 10), first, n, run_case);
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0 ||
            b->done != n) {
            printf("FAIL case %llu ends its process: status %x\n",
                   (unsigned long long)first + (unsigned)b->done, (unsigned)status);
            wrong += n - b->done;
        }
        wrong += b->wrong;
        taken += b->taken;
    }
    printf("%d refused, %d taken\n", count - taken, taken);
    printf("%d passed, %d failed\n", count - wrong, wrong);
    return wrong || (count >= 300 && (taken < count / 50));
}
