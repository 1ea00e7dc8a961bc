/* SPDX-License-Identifier: MIT-0 */
/* rt_flags.c: the command line of a trainer. One table drives parsing, checks and --help. */
#include "rt_private.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef enum { FLAG_BOOL, FLAG_INT, FLAG_REAL, FLAG_TEXT, FLAG_DATA, FLAG_LATER } FlagKind;
typedef struct Flag {
    const char *name, *value, *help;
    FlagKind kind;
    size_t at;               /* in RtFlags */
    double min;
} Flag;

#define AT(field) offsetof(RtFlags, field)
static const Flag flags[] = {
    {"data", "GLOB", "text or llm.c .bin files to train on; may be repeated", FLAG_DATA, 0, 0},
    {"steps", "N", "stop before step N (default: the schedule's length)", FLAG_INT, AT(steps), 0},
    {"seed", "S", "of weights and data order (default: the description's)", FLAG_INT, AT(seed), 0},
    {"log", "FILE", "one JSON object a step", FLAG_TEXT, AT(log), 0},
    {"weights-hash", NULL, "print `weights HASH` last", FLAG_BOOL, AT(weights_hash), 0},
    {"numerics-hash", NULL, "print both hashes and leave", FLAG_BOOL, AT(numerics_hash), 0},
    {"debug-gradients", "FILE", "after step 1: norms and projections of every gradient, JSON",
     FLAG_TEXT, AT(debug_gradients), 0},
    {"stats", "FILE", "counters of every rank at the end, JSON", FLAG_TEXT, AT(stats), 0},
    {"threads", "T", "of each rank (default: cores / ranks)", FLAG_INT, AT(threads), 1},
    {"deadline", "SECONDS", "end the job when a rank stands still for so long "
     "(default: from the planned step)", FLAG_REAL, AT(deadline_seconds), 0.001},
    {"peak-tflops", "X", "of one rank, for MFU (default: unknown)", FLAG_REAL,
     AT(peak_tflops), 1e-9},
    {"guard", NULL, "inaccessible pages around the arena", FLAG_BOOL, AT(guard), 0},
    {"quiet", NULL, "no line a step", FLAG_BOOL, AT(quiet), 0},
    {"init", "DIR", NULL, FLAG_LATER, 0, 0},
    {"checkpoint", "DIR", NULL, FLAG_LATER, 0, 0},
    {"checkpoint-every", "N", NULL, FLAG_LATER, 0, 0},
    {"keep", "K", NULL, FLAG_LATER, 0, 0},
    {"resume", NULL, NULL, FLAG_LATER, 0, 0},
};
enum { N_FLAGS = sizeof flags / sizeof *flags };

static void help(const RtTrainer *t)
{
    printf("trainer: trains %s on %d rank%s, which it starts itself\n\n"
           "  trainer --data FILE [flags]\n\n", t->name, t->world_size,
           t->world_size == 1 ? "" : "s");
    for (int i = 0; i < N_FLAGS; i++) {
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", flags[i].name, flags[i].value ? " " : "",
                 flags[i].value ? flags[i].value : "");
        if (flags[i].help)
            printf("  %-24s %s\n", left, flags[i].help);
    }
    printf("  %-24s this text\n\nExit codes: 0 done, 1 error, 2 usage, 128+n ended by "
           "signal n.\n", "--help");
}

static int usage(const char *fmt, const char *a, const char *b)
{
    fprintf(stderr, "trainer: error: ");
    fprintf(stderr, fmt, a, b);
    fprintf(stderr, "; see trainer --help\n");
    return RT_EXIT_USAGE;
}

static int set(RtFlags *f, const Flag *flag, const char *value)
{
    char *field = (char *)f + flag->at, *end;
    errno = 0;
    switch (flag->kind) {
    case FLAG_BOOL:
        *(bool *)field = true;
        return -1;
    case FLAG_TEXT:
        *(const char **)field = value;
        return -1;
    case FLAG_DATA:
        if (f->n_data == RT_MAX_DATA)
            return usage("--%s was given more than 64 times%s", flag->name, "");
        f->data[f->n_data++] = value;
        return -1;
    case FLAG_REAL: {
        const double x = strtod(value, &end);
        if (errno || end == value || *end || !(x >= flag->min) || x - x != 0.0)
            return usage("--%s: `%s` is not a number it can take", flag->name, value);
        *(double *)field = x;
        return -1;
    }
    case FLAG_INT: {
        const long long n = strtoll(value, &end, 10);
        if (errno || end == value || *end || (double)n < flag->min || n > INT32_MAX)
            return usage("--%s: `%s` is not a whole number it can take", flag->name, value);
        if (flag->at == AT(threads))
            *(int *)field = (int)n;
        else
            *(int64_t *)field = n;
        return -1;
    }
    case FLAG_LATER:
        return usage("--%s is not available yet%s", flag->name, "");
    }
    return -1;
}

int rt_flags_parse(RtFlags *f, const RtTrainer *t, int argc, char **argv)
{
    *f = (RtFlags){.steps = t->schedule.steps, .seed = t->seed};
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            help(t);
            return RT_EXIT_OK;
        }
        if (strncmp(word, "--", 2) != 0)
            return usage("unexpected `%s`%s", word, "");
        const char *equals = strchr(word, '=');
        const size_t n = equals ? (size_t)(equals - word - 2) : strlen(word + 2);
        const Flag *flag = NULL;
        for (int k = 0; k < N_FLAGS; k++)
            if (strlen(flags[k].name) == n && strncmp(flags[k].name, word + 2, n) == 0)
                flag = &flags[k];
        if (!flag)
            return usage("no flag `%s`%s", word, "");
        const char *value = equals ? equals + 1 : NULL;
        if (flag->value && !value && ++i < argc)
            value = argv[i];
        if (flag->value && !value)
            return usage("--%s needs a value: %s", flag->name, flag->value);
        if (!flag->value && value)
            return usage("--%s takes no value, got `%s`", flag->name, value);
        const int rc = set(f, flag, value);
        if (rc >= 0)
            return rc;
    }
    return -1;
}
