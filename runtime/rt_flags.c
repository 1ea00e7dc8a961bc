/* SPDX-License-Identifier: MIT-0 */
/* rt_flags.c: the command line of a trainer. In: argv. Out: RtFlags, or a message and an
 * exit code. One table drives parsing, checks and --help. */
#include "rt_private.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef enum { FLAG_BOOL, FLAG_INT, FLAG_REAL, FLAG_TEXT, FLAG_DATA, FLAG_EVAL } FlagKind;
typedef struct Flag {
    const char *name, *value, *help;
    FlagKind kind;
    size_t at;       /* of its field in RtFlags */
    double min, max; /* of a number */
} Flag;

#define AT(field) offsetof(RtFlags, field)
static const Flag flags[] = {
    {"data", "[FORMAT:]GLOB[=W]",
     "text or token files (text, llmc, nanogpt, megatron), with weight W; may be "
     "repeated",
     FLAG_DATA, 0, 0, 0},
    {"steps", "N", "stop after N steps (default: the schedule's)", FLAG_INT, AT(steps), 0,
     9e15},
    {"seed", "S", "of weights and data order (default: the description's)", FLAG_INT,
     AT(seed), 0, 9e15},
    {"log", "FILE", "write a JSON object a step", FLAG_TEXT, AT(log), 0, 0},
    {"stats", "FILE", "write counters of every rank at the end, JSON", FLAG_TEXT,
     AT(stats), 0, 0},
    {"weights-hash", NULL, "print `weights HASH` last", FLAG_BOOL, AT(weights_hash), 0,
     0},
    {"numerics-hash", NULL, "print the numerics and platform hashes and leave", FLAG_BOOL,
     AT(numerics_hash), 0, 0},
    {"platform-hash", NULL, "the same", FLAG_BOOL, AT(numerics_hash), 0, 0},
    {"debug-gradients", "FILE",
     "write norm and projections of every gradient of the first step", FLAG_TEXT,
     AT(debug_gradients), 0, 0},
    {"threads", "T", "of each rank (default: OMP_NUM_THREADS, or cores / ranks)",
     FLAG_INT, AT(threads), 1, 1024},
    {"deadline", "SECONDS", "end the job when a rank stands still for longer", FLAG_REAL,
     AT(deadline_seconds), 0.01, 1e9},
    {"peak-tflops", "X", "peak of one rank's cores, for the MFU", FLAG_REAL,
     AT(peak_tflops), 1e-9, 1e9},
    {"local", NULL, "start the ranks here, whatever launcher this runs under", FLAG_BOOL,
     AT(local), 0, 0},
    {"secret", "FILE",
     "what a launcher's ranks know each other by, in a file that only you can read "
     "(default: FSDPGEN_SECRET)",
     FLAG_TEXT, AT(secret), 0, 0},
    {"guard", NULL, "inaccessible pages around the arena (or RT_GUARD=1)", FLAG_BOOL,
     AT(guard), 0, 0},
#ifdef RT_NCCL
    {"loopback", NULL, "ranks share GPUs and exchange through host memory, slowly",
     FLAG_BOOL, AT(loopback), 0, 0},
    {"meet", "HOST:PORT",
     "where ranks on several machines meet (default: the launcher's MASTER_ADDR, "
     "MASTER_PORT)",
     FLAG_TEXT, AT(meet), 0, 0},
#endif
    {"quiet", NULL, "no line a step", FLAG_BOOL, AT(quiet), 0, 0},
#ifdef RT_CUDA
    {"no-graphs", NULL, "enqueue every step call by call, not as CUDA graphs", FLAG_BOOL,
     AT(no_graphs), 0, 0},
#endif
    {"checkpoint", "DIR", "write checkpoints there, at the last step and on signals too",
     FLAG_TEXT, AT(checkpoint), 0, 0},
    {"checkpoint-every", "N", "write one every N steps", FLAG_INT, AT(checkpoint_every),
     1, 9e15},
    {"keep", "K", "keep only the K newest checkpoints (default: all)", FLAG_INT, AT(keep),
     1, 9e15},
    {"keep-every", "N", "with --keep: and those of every N steps", FLAG_INT,
     AT(keep_every), 1, 9e15},
    {"keep-going", NULL, "train on when a checkpoint cannot be written", FLAG_BOOL,
     AT(keep_going), 0, 0},
    {"wait-for-saves", NULL,
     "training waits while a checkpoint is written (default: it goes on, from a copy)",
     FLAG_BOOL, AT(wait_for_saves), 0, 0},
    {"one-writer", NULL,
     "each file of a checkpoint is written by one rank (default: where a trial fails)",
     FLAG_BOOL, AT(one_writer), 0, 0},
    {"resume", NULL, "go on from the newest sound checkpoint, if there is one", FLAG_BOOL,
     AT(resume), 0, 0},
    {"init", "DIR", "begin with the weights of a Hugging Face folder", FLAG_TEXT,
     AT(init), 0, 0},
    {"eval", "[FORMAT:]GLOB",
     "held-out data: its loss after the last step; may be repeated", FLAG_EVAL, 0, 0, 0},
    {"eval-every", "N", "and after every N steps", FLAG_INT, AT(eval_every), 1, 9e15},
    {"eval-sequences", "N", "only the first N sequences of it (default: all)", FLAG_INT,
     AT(eval_sequences), 1, 9e15},
    {"prompt", "TEXT", "what to go on from: text, or token ids", FLAG_TEXT, AT(prompt), 0,
     0},
    {"tokens", "N", "how many to add (default: 200)", FLAG_INT, AT(sample_tokens), 1,
     1e9},
    {"temperature", "T", "below 1: safer, 0: the likeliest token (default: 1)", FLAG_REAL,
     AT(temperature), 0, 1e6},
    {"top-k", "K", "draw among the K likeliest tokens only", FLAG_INT, AT(top_k), 1, 1e9},
    {"top-p", "P", "draw among the likeliest that together have probability P", FLAG_REAL,
     AT(top_p), 1e-9, 1},
#ifdef RT_CUDA
    {"tune-kernels", NULL, "time algorithms of matrix products, write kernels.wis, leave",
     FLAG_BOOL, AT(tune_kernels), 0, 0},
    {"profile", "FILE",
     "write the time of every kernel and product, JSON; steps are slower", FLAG_TEXT,
     AT(profile), 0, 0},
    {"kernels", "FILE", "those algorithms (default: kernels.wis beside the trainer)",
     FLAG_TEXT, AT(kernels), 0, 0},
#endif
};
enum { N_FLAGS = sizeof flags / sizeof *flags };

/* Of `trainer sample`: its own, and those that training has, too. */
static const char *const of_sample[] = {"prompt", "tokens", "temperature", "top-k",
                                        "top-p"};
static const char *const of_both[] = {"checkpoint", "init",   "seed",  "threads",
                                      "deadline",   "local",  "guard", "loopback",
                                      "meet",       "kernels", "secret"};

static bool is_one_of(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(name, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool fits(const Flag *flag, bool sample)
{
    return is_one_of(flag->name, of_both, sizeof of_both / sizeof *of_both) ||
           is_one_of(flag->name, of_sample, sizeof of_sample / sizeof *of_sample) ==
               sample;
}

/* What a flag that training has, too, is to `trainer sample`. */
static const char *help_of(const Flag *flag, bool sample)
{
    return !sample ? flag->help
           : strcmp(flag->name, "checkpoint") == 0
               ? "weights of the newest sound one there"
           : strcmp(flag->name, "init") == 0 ? "weights of a Hugging Face folder"
           : strcmp(flag->name, "seed") == 0 ? "of the draws"
                                             : flag->help;
}

static void print_flags(bool sample)
{
    for (int i = 0; i < N_FLAGS; i++) {
        char left[64];
        if (!fits(&flags[i], sample)) {
            continue;
        }
        snprintf(left, sizeof left, "--%s%s%s", flags[i].name,
                 flags[i].value != NULL ? " " : "",
                 flags[i].value != NULL ? flags[i].value : "");
        printf("  %-25s %s\n", left, help_of(&flags[i], sample));
    }
}

static void print_help(const RtTrainer *t, bool sample)
{
    const char *plural = t->world_size == 1 ? "" : "s";
    if (sample) {
        printf("trainer sample: %s goes on from a prompt, on %d rank%s\n\n"
               "  trainer sample --prompt TEXT --checkpoint DIR [flags]\n\n",
               t->name, t->world_size, plural);
    } else {
        printf("trainer: trains %s on %d rank%s, which it starts itself on this machine\n"
               "\n  trainer --data FILE [flags]\n"
               "  trainer sample --prompt TEXT --checkpoint DIR [flags]; its --help\n\n",
               t->name, t->world_size, plural);
    }
    print_flags(sample);
    printf("  %-25s this text\n\n"
           "Under torchrun --no_python, mpirun or srun each process is one rank.\n"
           "Exit codes: 0 done, 1 error, 2 usage, 5 a gate failed, 75 saved after a "
           "signal: run it\nagain with --resume, 128+n ended by signal n.\n",
           "--help");
}

__attribute__((format(printf, 1, 2))) static int usage(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "trainer: error: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "; see trainer --help\n");
    va_end(ap);
    return RT_EXIT_USAGE;
}

static int set_number(RtFlags *f, const Flag *flag, const char *value)
{
    char *field = (char *)f + flag->at, *end;
    errno = 0;
    const bool whole = flag->kind == FLAG_INT;
    const long long n = whole ? strtoll(value, &end, 10) : 0;
    const double x = whole ? (double)n : strtod(value, &end);
    if (errno != 0 || end == value || *end != '\0') {
        return usage("--%s: `%s` is no %s", flag->name, value,
                     whole ? "whole number" : "number");
    }
    if (!(x >= flag->min && x <= flag->max)) {
        return usage("--%s: %s is not between %g and %g", flag->name, value, flag->min,
                     flag->max);
    }
    if (whole) {
        *(int64_t *)field = n;
    } else {
        *(double *)field = x;
    }
    return -1;
}

static int add_files(const Flag *flag, const char **list, int *n, const char *value)
{
    if (*n == RT_MAX_DATA) {
        return usage("--%s was given more than %d times; a pattern names many files",
                     flag->name, RT_MAX_DATA);
    }
    list[(*n)++] = value;
    return -1;
}

static int set(RtFlags *f, const Flag *flag, const char *value)
{
    switch (flag->kind) {
    case FLAG_BOOL:
        *(bool *)((char *)f + flag->at) = true;
        return -1;
    case FLAG_TEXT:
        *(const char **)((char *)f + flag->at) = value;
        return -1;
    case FLAG_DATA:
        return add_files(flag, f->data, &f->n_data, value);
    case FLAG_EVAL:
        return add_files(flag, f->eval, &f->n_eval, value);
    case FLAG_INT:
    case FLAG_REAL:
        return set_number(f, flag, value);
    }
    return -1;
}

static const Flag *find(const char *name, size_t bytes)
{
    for (int i = 0; i < N_FLAGS; i++) {
        if (strlen(flags[i].name) == bytes && strncmp(flags[i].name, name, bytes) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

/* The flag that begins like it, or NULL. */
static const char *similar(const char *name, size_t bytes)
{
    const char *best = NULL;
    size_t most = 1; /* one letter is no likeness */
    for (int i = 0; i < N_FLAGS; i++) {
        size_t same = 0;
        while (same < bytes && flags[i].name[same] == name[same]) {
            same++;
        }
        if (same > most) {
            most = same;
            best = flags[i].name;
        }
    }
    return best;
}

static int check_sample(const RtFlags *f)
{
    if (f->prompt == NULL) {
        return usage("sample: --prompt TEXT is needed: what to go on from");
    }
    if ((f->checkpoint == NULL) == (f->init == NULL)) {
        return usage("sample: give --checkpoint DIR or --init DIR, one of them: whose "
                     "weights");
    }
    return -1;
}

/* Flags that need others. */
static int check_flags(RtFlags *f, const RtTrainer *t)
{
    if (f->n_eval == 0 && (f->eval_every > 0 || f->eval_sequences > 0)) {
        return usage("--%s needs --eval FILE",
                     f->eval_every > 0 ? "eval-every" : "eval-sequences");
    }
    if (f->steps < 0) { /* not given */
        f->steps = t->schedule.steps;
        if (f->steps <= 0 && !f->numerics_hash && !f->tune_kernels) {
            return usage("--steps N is needed: the description's schedule has no end");
        }
    }
    f->seed_given = f->seed >= 0;
    f->seed = f->seed_given ? f->seed : t->seed;
    if (f->checkpoint != NULL && t->n_files == 0) {
        return usage("--checkpoint: the tables of this trainer name no files");
    }
    if (f->checkpoint != NULL && f->checkpoint[0] == '\0') {
        return usage("--checkpoint needs the name of a folder");
    }
    if (f->checkpoint == NULL && (f->checkpoint_every > 0 || f->keep > 0 || f->resume ||
                                  f->keep_going || f->wait_for_saves || f->one_writer)) {
        return usage("--%s needs --checkpoint DIR", f->checkpoint_every > 0
                                                        ? "checkpoint-every"
                                                    : f->keep > 0       ? "keep"
                                                    : f->resume         ? "resume"
                                                    : f->wait_for_saves ? "wait-for-saves"
                                                    : f->one_writer     ? "one-writer"
                                                                        : "keep-going");
    }
    f->no_graphs = f->no_graphs || f->profile != NULL; /* each launch is timed */
    if (f->keep_every > 0 && f->keep == 0) {
        return usage("--keep-every needs --keep K: without it all are kept");
    }
    return -1;
}

int rt_flags_parse(RtFlags *f, const RtTrainer *t, int argc, char **argv)
{
    const char *guard = getenv("RT_GUARD");
    *f = (RtFlags){.steps = -1,
                   .seed = -1,
                   .sample_tokens = 200,
                   .temperature = 1,
                   .top_p = 1,
                   .sample = argc > 1 && strcmp(argv[1], "sample") == 0,
                   .guard = guard != NULL && strcmp(guard, "1") == 0};
    for (int i = f->sample ? 2 : 1; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            print_help(t, f->sample);
            return RT_EXIT_OK;
        }
        if (strncmp(word, "--", 2) != 0) {
            return usage("unexpected `%s`", word);
        }
        const char *equals = strchr(word, '=');
        const size_t bytes =
            equals != NULL ? (size_t)(equals - word - 2) : strlen(word + 2);
        const Flag *flag = find(word + 2, bytes);
        if (flag == NULL) {
            const char *like = similar(word + 2, bytes);
            return like != NULL ? usage("no flag `%s`; did you mean --%s?", word, like)
                                : usage("no flag `%s`", word);
        }
        if (!fits(flag, f->sample)) {
            return usage(f->sample ? "--%s is for training, not for `trainer sample`"
                                   : "--%s is for `trainer sample`",
                         flag->name);
        }
        const char *value = equals != NULL ? equals + 1 : NULL;
        if (flag->value != NULL && value == NULL && ++i < argc) {
            value = argv[i];
        }
        if (flag->value != NULL && value == NULL) {
            return usage("--%s needs a value: %s", flag->name, flag->value);
        }
        if (flag->value == NULL && value != NULL) {
            return usage("--%s takes no value, but got `%s`", flag->name, value);
        }
        const int rc = set(f, flag, value);
        if (rc >= 0) {
            return rc;
        }
    }
    if (f->sample) {
        f->seed = f->seed >= 0 ? f->seed : t->seed;
        return check_sample(f);
    }
    return check_flags(f, t);
}
