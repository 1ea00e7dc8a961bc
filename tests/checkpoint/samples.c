/* SPDX-License-Identifier: Apache-2.0 */
/* samples.c, linked into a trainer (--wrap=rt_load_micro_batch): writes down what each
 * step is trained on. In: token buffers as the step finds them, of data whose sample k
 * begins with the digits of k (samples.sh). Out: to $SAMPLES, which all ranks of all runs
 * append to, a line "RUN STEP GLOBAL SAMPLE" for each sequence: the number of the run,
 * the step, 1-based, the global index of the sequence, and which sample it is. */
#include "rt_private.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DIGITS = 250 };

void __real_rt_load_micro_batch(Rt *rt, int64_t index);
void __wrap_rt_load_micro_batch(Rt *rt, int64_t index);

/* In one call: a rank that is killed leaves no half of a line. */
static void put_down(const char *text)
{
    const int fd =
        open(getenv("SAMPLES"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    const size_t bytes = strlen(text);

    if (fd < 0 || write(fd, text, bytes) != (ssize_t)bytes)
        abort();
    close(fd);
}

void __wrap_rt_load_micro_batch(Rt *rt, int64_t index)
{
    const RtTrainer *t = rt->trainer;
    const int32_t *tokens = rt_local(rt, t->tokens_offset);
    char text[4096];
    size_t n = 0;

    __real_rt_load_micro_batch(rt, index);
    for (int64_t b = 0; b < t->micro_batch; b++) {
        const int32_t *s = tokens + b * t->seq_tokens;
        const int64_t step = rt->state->step;

        n += (size_t)snprintf(
            text + n, sizeof text - n, "%s %lld %lld %lld\n", getenv("RUN"),
            (long long)step + 1,
            (long long)((step * t->micro_batches + index) * t->micro_batch + b),
            (long long)s[0] + DIGITS * (long long)s[1]);
    }
    put_down(text);
}
