/* SPDX-License-Identifier: Apache-2.0 */
/* tune_wisdom.c: what was measured, for a later run on the same machine. In and out: a
 * file of JSON lines: the first says which machine and generator, each other is one run
 * of one candidate, found again by the hash of all its resolved fields, and which
 * platform its trainer had: what other platforms ran is not counted. A line is on the
 * disk before the next run begins; a line that was cut short is skipped. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "tune/tune.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <jansson.h>
#ifdef __linux__
#include <sched.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_WISDOM_BYTES = 16 << 20 };

static int complain(Tune *t, int line, const char *help, const char *text)
{
    diag_add(t->g, DIAG_ERROR, (Pos){t->wisdom, line, line ? 1 : 0, 0}, help, "%s", text);
    return diag_finish(t->g);
}

/* The value of the first line "KEY : VALUE" of a file, or "unknown". */
static const char *value_in(Gen *g, const char *path, const char *key)
{
    FILE *f = fopen(path, "r");
    char line[256];
    const char *value = "unknown";

    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');

        if (strncmp(line, key, strlen(key)) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = '\0';
        colon++;
        value = gen_strdup(g, colon + strspn(colon, " \t"));
        break;
    }
    if (f)
        fclose(f);
    return value;
}

/* Those that this process may use. */
static long cores(void)
{
#ifdef __linux__
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
#endif
    return sysconf(_SC_NPROCESSORS_ONLN);
}

/* ", NVIDIA H100 80GB HBM3 x8" for each kind of GPU; "": none. */
static const char *gpus(Gen *g)
{
    glob_t found;
    Text t = {.g = g};
    const char *last = NULL;
    int n = 0;

    text_printf(&t, "%s", "");
    if (glob("/proc/driver/nvidia/gpus/*/information", 0, NULL, &found) != 0)
        return "";
    for (size_t i = 0; i <= found.gl_pathc; i++) {
        const char *name =
            i < found.gl_pathc ? value_in(g, found.gl_pathv[i], "Model") : NULL;

        if (last && (!name || strcmp(last, name) != 0)) {
            text_printf(&t, ", %s x%d", last, n);
            n = 0;
        }
        last = name;
        n++;
    }
    globfree(&found);
    return t.s;
}

/* "2 cores, AMD EPYC": seconds of others say nothing here. */
static const char *machine(Gen *g)
{
    const char *threads = getenv("OMP_NUM_THREADS");

    return gen_printf(g, "%ld cores, %s%s%s%s", cores(),
                      value_in(g, "/proc/cpuinfo", "model name"), gpus(g),
                      threads ? ", OMP_NUM_THREADS=" : "", threads ? threads : "");
}

/* Weights depend on the data: those of ours by its name, a user's file may change. */
static const char *data_name(const Tune *t)
{
    const char *slash = strrchr(t->data, '/'), *name = slash ? slash + 1 : t->data;
    struct stat st;

    if (!t->g->opt.data || stat(t->data, &st) != 0)
        return name;
    return gen_printf(t->g, "%s, %lld bytes, %lld.%09ld", name, (long long)st.st_size,
                      (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
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

/* Other compilers, flags and libraries have other bits and other times. */
static bool is_of_platform(Tune *t, Candidate *c, const char *platform)
{
    const char *here = tune_platform(t, c);

    if (here && !strcmp(platform, here))
        return true;
    t->set_aside += here != NULL; /* else the table says why it cannot be built */
    return false;
}

/* The numerics, too: architectures and ops do not stand in the description. */
static void take(Tune *t, const json_t *o)
{
    const uint64_t resolved = strtoull(text_of(o, "description"), NULL, 16);
    const uint64_t numerics = strtoull(text_of(o, "numerics"), NULL, 16);
    const double seconds = json_number_value(json_object_get(o, "step_seconds"));

    if (json_integer_value(json_object_get(o, "steps")) != t->steps || !(seconds > 0))
        return;
    for (int i = 0; i < t->ranked.count; i++) {
        Candidate *c = t->ranked.items[i];

        if (c->plan.resolved != resolved || c->plan.numerics != numerics)
            continue;
        if (!is_of_platform(t, c, text_of(o, "platform")))
            continue;
        if (!strcmp(text_of(o, "data"), data_name(t)) && *text_of(o, "weights"))
            c->weights = gen_strdup(t->g, text_of(o, "weights"));
        *gen_push(t->g, &c->step_seconds) = seconds;
        tune_settle(t, c);
    }
}

/* Only a head that was cut short: the file starts again. */
static bool begin_anew(const Tune *t, const char *text, size_t bytes)
{
    static const char head[] = "{\"fsdpgen_wisdom\":1,";
    const size_t n = bytes < sizeof head - 1 ? bytes : sizeof head - 1;

    return !memcmp(text, head, n) && truncate(t->wisdom, 0) == 0;
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
    if (bytes && !memchr(text, '\n', bytes) && !begin_anew(t, text, bytes))
        return complain(t, 1, "take another --wisdom FILE",
                        "is not wisdom of fsdpgen tune");
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
    if (t->set_aside)
        diag_add(t->g, DIAG_WARNING, (Pos){.file = t->wisdom}, NULL,
                 "%d run%s of another platform (compiler, flags, library, processor) %s",
                 t->set_aside, t->set_aside == 1 ? "" : "s",
                 t->set_aside == 1 ? "is not counted" : "are not counted");
    return diag_finish(t->g);
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
        good &&
        put(fd, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:f}", "description",
                          gen_printf(t->g, "%016" PRIx64, c->plan.resolved), "sets",
                          tune_sets_text(t->g, &c->sets, " "), "numerics",
                          gen_printf(t->g, "%016" PRIx64, c->plan.numerics), "platform",
                          c->platform, "weights", c->weights, "data", data_name(t),
                          "steps", (json_int_t)t->steps, "step_seconds", step_seconds));
    good = good && fsync(fd) == 0;
    if (fd >= 0)
        good = close(fd) == 0 && good;
    return good ? EXIT_DONE
                : complain(t, 0, "take another --wisdom FILE",
                           gen_printf(t->g, "cannot be written: %s", strerror(errno)));
}
