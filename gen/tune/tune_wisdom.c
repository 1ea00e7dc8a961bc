/* SPDX-License-Identifier: Apache-2.0 */
/* tune_wisdom.c: what was measured, for a later run on the same machine. In and out: a
 * file of JSON lines: the first says which machine and generator, each other is one run
 * of one candidate, found again by the hash of all its resolved fields. A line is on the
 * disk before the next run begins; a line that was cut short is skipped. */
#include "tune/tune.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WISDOM_BYTES = 16 << 20 };

static int complain(Tune *t, int line, const char *help, const char *text)
{
    diag_add(t->g, DIAG_ERROR, (Pos){t->wisdom, line, line ? 1 : 0, 0}, help, "%s", text);
    return diag_finish(t->g);
}

/* "2 cores, AMD EPYC": seconds of others say nothing here. */
static const char *machine(Gen *g)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    const char *name = "unknown";

    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            line[strcspn(line, "\n")] = '\0';
            name = gen_strdup(g, strchr(line, ':') + 2);
            break;
        }
    if (f)
        fclose(f);
    return gen_printf(g, "%ld cores, %s", sysconf(_SC_NPROCESSORS_ONLN), name);
}

static const char *data_name(const Tune *t)
{
    const char *slash = strrchr(t->data, '/');

    return slash ? slash + 1 : t->data;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

static bool is_of_here(Tune *t, const json_t *o)
{
    return json_integer_value(json_object_get(o, "fsdpgen_wisdom")) == 1 &&
           !strcmp(text_of(o, "machine"), machine(t->g)) &&
           !strcmp(text_of(o, "generator"), FSDPGEN_VERSION);
}

static void take(Tune *t, const json_t *o)
{
    const uint64_t resolved = strtoull(text_of(o, "description"), NULL, 16);
    const double seconds = json_number_value(json_object_get(o, "step_seconds"));

    if (json_integer_value(json_object_get(o, "steps")) != t->steps || !(seconds > 0))
        return;
    for (int i = 0; i < t->ranked.count; i++) {
        Candidate *c = t->ranked.items[i];

        if (c->plan.resolved != resolved)
            continue;
        *gen_push(t->g, &c->step_seconds) = seconds;
        tune_settle(t, c);
    }
}

int tune_wisdom_read(Tune *t)
{
    const char *text = NULL, *at, *end;
    size_t bytes;
    int line = 0;
    const int e = file_read(t->wisdom, MAX_WISDOM_BYTES, &text, &bytes);

    if (e == ENOENT)
        return EXIT_DONE;
    if (e)
        return complain(t, 0, NULL,
                        gen_printf(t->g, "cannot be read: %s", file_problem(e)));
    for (at = text; (end = memchr(at, '\n', bytes - (size_t)(at - text))) != NULL;
         at = end + 1) {
        json_t *o = json_loadb(at, (size_t)(end - at), JSON_REJECT_DUPLICATES, NULL);
        const bool here = ++line > 1 || is_of_here(t, o);

        if (here && o)
            take(t, o);
        json_decref(o);
        if (!here)
            return complain(t, 1, "take another --wisdom FILE",
                            "is of another machine or generator, or no wisdom");
    }
    free((char *)text);
    return EXIT_DONE;
}

static bool put(int fd, json_t *o)
{
    char *s = json_dumps(o, JSON_PRESERVE_ORDER | JSON_COMPACT | JSON_REAL_PRECISION(9));
    const size_t n = s ? strlen(s) : 0;
    bool good = s != NULL;

    if (good)
        s[n] = '\n'; /* in place of the NUL: a line is one write */
    good = good && file_write_all(fd, s, n + 1);
    free(s);
    json_decref(o);
    return good;
}

int tune_wisdom_add(Tune *t, const Candidate *c, double step_seconds)
{
    const int fd = open(t->wisdom, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    off_t bytes = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    bool good = bytes >= 0;
    char last = '\n';

    if (good && bytes == 0)
        good = put(fd, json_pack("{s:i, s:s, s:s}", "fsdpgen_wisdom", 1, "generator",
                                 FSDPGEN_VERSION, "machine", machine(t->g)));
    else if (good && pread(fd, &last, 1, bytes - 1) == 1 && last != '\n')
        good = file_write_all(fd, "\n", 1); /* ends a line that was cut short */
    good =
        good && put(fd, json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:f}", "description",
                                  gen_printf(t->g, "%016" PRIx64, c->plan.resolved),
                                  "sets", tune_sets_text(t->g, &c->sets, " "), "numerics",
                                  gen_printf(t->g, "%016" PRIx64, c->plan.numerics),
                                  "weights", c->weights, "data", data_name(t), "steps",
                                  (json_int_t)t->steps, "step_seconds", step_seconds));
    good = good && fsync(fd) == 0;
    if (fd >= 0)
        good = close(fd) == 0 && good;
    return good ? EXIT_DONE
                : complain(t, 0, "take another --wisdom FILE",
                           gen_printf(t->g, "cannot be written: %s", strerror(errno)));
}
