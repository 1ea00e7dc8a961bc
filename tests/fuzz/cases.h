/* SPDX-License-Identifier: Apache-2.0 */
/* cases.h: what the fuzzers of the runtime's readers share: how a failure of the runtime
 * ends a case, and the loop over cases. In: SEED FIRST COUNT FOLDER. Out: a line FAIL for
 * each wrong case, counts last. Included behind the runtime's own files. */
#include "mutate.h"

#include <setjmp.h>
#include <stdarg.h>

static jmp_buf failed;
static char failure[RT_ERROR_BYTES];
static int refused, strange; /* files; messages with control characters */

_Noreturn void rt_fail(const Rt *rt, int code, const char *fmt, ...)
{
    va_list ap;

    (void)rt, (void)code;
    va_start(ap, fmt);
    vsnprintf(failure, sizeof failure, fmt, ap);
    va_end(ap);
    longjmp(failed, 1);
}

/* run_case: NULL, or what is wrong. Returns the exit status. */
static int run_cases(int argc, char **argv, const char *(*run_case)(Random *))
{
    uint64_t seed, first;
    int count, wrong = 0;

    if (argc != 5) {
        fprintf(stderr, "usage: %s SEED FIRST COUNT FOLDER\n", argv[0]);
        return 2;
    }
    seed = strtoull(argv[1], NULL, 10);
    first = strtoull(argv[2], NULL, 10);
    count = atoi(argv[3]);
    if (chdir(argv[4]) != 0)
        return 1;
    for (int i = 0; i < count; i++) {
        Random r;
        const char *problem;

        random_start(&r, seed, first + (uint64_t)i);
        problem = run_case(&r);
        if (problem) {
            wrong++;
            printf("FAIL case %llu: %s\n", (unsigned long long)first + (unsigned)i,
                   problem);
        }
    }
    wrong += strange > 0;
    printf("%d refused, %d read\n", refused, count - refused);
    printf("%d passed, %d failed\n", count - wrong, wrong);
    /* a mutator that makes only bad files, or none, tests nothing */
    return wrong ||
           (count >= 1000 && (refused < count / 20 || refused > count * 19 / 20));
}
