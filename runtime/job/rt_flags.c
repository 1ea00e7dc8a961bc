/* SPDX-License-Identifier: MIT-0 */
/* rt_flags.c: the command line of a trainer. In: argv. Out: RtFlags, or a message and an
 * exit code. One table drives parsing, checks and --help. */
#include "job/rt_job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef enum {
    FLAG_BOOL,
    FLAG_INT,
    FLAG_REAL,
    FLAG_TIME, /* 90m */
    FLAG_TEXT,
    FLAG_DATA,
    FLAG_EVAL,
    FLAG_RESUME /* a word may follow, behind = */
} FlagKind;
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
    {"check-data", NULL, "hash all data before the first step, whatever is known of them",
     FLAG_BOOL, AT(check_data), 0, 0},
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
    {"force", NULL, "--log, --stats and their like replace files of other contents, too",
     FLAG_BOOL, AT(force), 0, 0},
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
    {"checkpoint-seconds", "N", "write one N seconds after the last", FLAG_REAL,
     AT(checkpoint_seconds), 1e-3, 1e9},
    {"stop-after", "DURATION",
     "save and exit 75 before so much time is over: 3600, 90m, 11h30m", FLAG_TIME,
     AT(stop_seconds), 1e-3, 1e9},
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
    {"resume", "[=must]",
     "go on from the newest sound checkpoint, if there is one; must: there has to be",
     FLAG_RESUME, AT(resume), 0, 0},
    {"accept-data", NULL, "with --resume: go on with other data than the checkpoint's",
     FLAG_BOOL, AT(accept_data), 0, 0},
    {"accept-numerics", NULL,
     "with --resume: go on with other mathematics: weights and step stay", FLAG_BOOL,
     AT(accept_numerics), 0, 0},
    {"init", "DIR", "begin with the weights of a Hugging Face folder", FLAG_TEXT,
     AT(init), 0, 0},
    {"eval", "[FORMAT:]GLOB",
     "held-out data: its loss after the last step; may be repeated", FLAG_EVAL, 0, 0, 0},
    {"eval-every", "N", "and after every N steps", FLAG_INT, AT(eval_every), 1, 9e15},
    {"eval-sequences", "N", "only the first N sequences of it (default: all)", FLAG_INT,
     AT(eval_sequences), 1, 9e15},
    {"json", NULL, "as JSON", FLAG_BOOL, AT(json), 0, 0},
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

/* ---- commands -------------------------------------------------------------------- */

/* A flag of a command but training; help: NULL as in training. */
typedef struct Taken {
    const char *flag, *help;
    bool only; /* training has no such flag */
} Taken;
enum { MOST_TAKEN = 20 };
static const struct Command {
    const char *name, *line, *what;
    bool folder; /* a word names it */
    Taken takes[MOST_TAKEN];
} commands[RT_COMMANDS] = {
    [RT_TRAIN] = {NULL, "--data FILE [flags]", "trains", false, {{0}}},
    [RT_SAMPLE] = {"sample",
                   "--prompt TEXT --checkpoint DIR [flags]",
                   "goes on from a prompt",
                   false,
                   {{"checkpoint", "weights of the newest sound one there", false},
                    {"init", "weights of a Hugging Face folder", false},
                    {"seed", "of the draws", false},
                    {"threads", NULL, false},
                    {"deadline", NULL, false},
                    {"local", NULL, false},
                    {"guard", NULL, false},
                    {"loopback", NULL, false},
                    {"meet", NULL, false},
                    {"kernels", NULL, false},
                    {"secret", NULL, false},
                    {"prompt", NULL, true},
                    {"tokens", NULL, true},
                    {"temperature", NULL, true},
                    {"top-k", NULL, true},
                    {"top-p", NULL, true}}},
    [RT_VERIFY] = {"verify",
                   "DIR [flags]",
                   "reads every byte of the checkpoints in DIR, or of the one that it is",
                   true,
                   {{"threads", "that read (default: one for each core)", false},
                    {"json", NULL, true}}},
    [RT_LS] = {"ls",
               "DIR [flags]",
               "lists the checkpoints in DIR",
               true,
               {{"json", NULL, true}}},
};

static const Taken *taken_by(RtCommand command, const Flag *flag)
{
    for (int i = 0; i < MOST_TAKEN && commands[command].takes[i].flag != NULL; i++)
        if (strcmp(commands[command].takes[i].flag, flag->name) == 0)
            return &commands[command].takes[i];
    return NULL;
}

/* The first command that alone has the flag; RT_TRAIN: training has it. */
static RtCommand owner_of(const Flag *flag)
{
    RtCommand c = RT_COMMANDS - 1;
    for (; c > RT_TRAIN; c--) {
        const Taken *t = taken_by(c, flag);
        if (t != NULL && t->only)
            break;
    }
    return c;
}

static bool fits(const Flag *flag, RtCommand command)
{
    return command == RT_TRAIN ? owner_of(flag) == RT_TRAIN
                               : taken_by(command, flag) != NULL;
}

static void print_flags(RtCommand command)
{
    for (int i = 0; i < N_FLAGS; i++) {
        char left[64];
        if (!fits(&flags[i], command))
            continue;
        const Taken *t = taken_by(command, &flags[i]);
        snprintf(left, sizeof left, "--%s%s%s", flags[i].name,
                 flags[i].value != NULL && flags[i].kind != FLAG_RESUME ? " " : "",
                 flags[i].value != NULL ? flags[i].value : "");
        printf("  %-25s %s\n", left,
               t != NULL && t->help != NULL ? t->help : flags[i].help);
    }
}

static void print_line(const struct Command *c)
{
    printf("  trainer%s%s %s\n", c->name != NULL ? " " : "",
           c->name != NULL ? c->name : "", c->line);
}

static void print_help(const RtTrainer *t, RtCommand command)
{
    const struct Command *c = &commands[command];
    const char *plural = t->world_size == 1 ? "" : "s";
    if (command == RT_TRAIN) {
        printf("trainer: trains %s on %d rank%s, which it starts itself on this machine\n"
               "\n",
               t->name, t->world_size, plural);
        for (int i = 0; i < RT_COMMANDS; i++)
            print_line(&commands[i]);
        printf("  trainer COMMAND --help\n");
    } else {
        printf("trainer %s: %s\n\n", c->name, c->what);
        print_line(c);
    }
    printf("\n");
    print_flags(command);
    printf("  %-25s this text\n\n", "--help");
    if (command == RT_VERIFY) {
        printf("Exit codes: 0 all is what was written, 1 it is not, 2 usage.\n");
    } else if (command == RT_LS) {
        printf("Exit codes: 0 done, 1 error, 2 usage.\n");
    } else {
        printf("Under torchrun --no_python, mpirun or srun each process is one rank.\n"
               "Exit codes: 0 done, 1 error, 2 usage, 5 a gate failed, 75 saved, after a "
               "signal or for\n--stop-after: run it again with --resume, 128+n ended by "
               "signal n.\n");
    }
}

/* ---- values ---------------------------------------------------------------------- */

__attribute__((format(printf, 1, 2))) static int usage(const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    rt_say("trainer: error: %s; see trainer --help", text);
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
    if (whole)
        *(int64_t *)field = n;
    else
        *(double *)field = x;
    return -1;
}

/* Digits with a point, maybe; behind them. */
static const char *read_digits(const char *text, double *x)
{
    const size_t n = strspn(text, "0123456789.");
    char number[32], *end;
    if (n == 0 || n >= sizeof number)
        return NULL;
    memcpy(number, text, n);
    number[n] = '\0';
    *x = strtod(number, &end);
    return *end == '\0' ? text + n : NULL;
}

/* 3600, 90m, 11h30m, 1d12h: units from the largest on, each once. */
static bool read_duration(const char *text, double *seconds)
{
    static const char units[] = "dhms";
    static const double of[] = {86400, 3600, 60, 1};
    double x;
    const char *at = read_digits(text, seconds), *unit = units;
    if (at != NULL && *at == '\0')
        return true;
    for (*seconds = 0; *text != '\0'; text = at + 1, unit++) {
        at = read_digits(text, &x);
        unit = at != NULL && *at != '\0' ? strchr(unit, *at) : NULL;
        if (unit == NULL || *unit == '\0')
            return false;
        *seconds += x * of[unit - units];
    }
    return unit != units;
}

static int set_time(RtFlags *f, const Flag *flag, const char *value)
{
    double *seconds = (double *)(void *)((char *)f + flag->at);
    if (!read_duration(value, seconds)) {
        return usage("--%s: `%s` is no duration: write seconds, or 90m, 11h30m, 1d12h",
                     flag->name, value);
    }
    if (!(*seconds >= flag->min && *seconds <= flag->max)) {
        return usage("--%s: %s is not between %g and %g seconds", flag->name, value,
                     flag->min, flag->max);
    }
    return -1;
}

static int set_resume(RtFlags *f, const char *value)
{
    f->resume = true;
    f->must_resume = value != NULL;
    return value == NULL || strcmp(value, "must") == 0
               ? -1
               : usage("--resume takes no value but `must`: --resume=must");
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
        return value[0] != '\0' || flag->at == AT(prompt)
                   ? -1
                   : usage("--%s needs a value: %s", flag->name, flag->value);
    case FLAG_TIME:
        return set_time(f, flag, value);
    case FLAG_RESUME:
        return set_resume(f, value);
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
    for (int i = 0; i < N_FLAGS; i++)
        if (strlen(flags[i].name) == bytes && strncmp(flags[i].name, name, bytes) == 0)
            return &flags[i];
    return NULL;
}

/* The flag that begins like it, or NULL. */
static const char *similar(const char *name, size_t bytes)
{
    const char *best = NULL;
    size_t most = 1; /* one letter is no likeness */
    for (int i = 0; i < N_FLAGS; i++) {
        size_t same = 0;
        while (same < bytes && flags[i].name[same] == name[same])
            same++;
        if (same > most) {
            most = same;
            best = flags[i].name;
        }
    }
    return best;
}

/* ---- all of them ----------------------------------------------------------------- */

static int check_sample(const RtFlags *f)
{
    if (f->prompt == NULL)
        return usage("sample: --prompt TEXT is needed: what to go on from");
    if ((f->checkpoint == NULL) == (f->init == NULL)) {
        return usage("sample: give --checkpoint DIR or --init DIR, one of them: whose "
                     "weights");
    }
    return -1;
}

/* A flag that is about checkpoints; NULL: none is given. */
static const char *about_checkpoints(const RtFlags *f)
{
    return f->checkpoint_every > 0     ? "checkpoint-every"
           : f->checkpoint_seconds > 0 ? "checkpoint-seconds"
           : f->stop_seconds > 0       ? "stop-after"
           : f->keep > 0               ? "keep"
           : f->must_resume            ? "resume=must"
           : f->resume                 ? "resume"
           : f->wait_for_saves         ? "wait-for-saves"
           : f->one_writer             ? "one-writer"
           : f->keep_going             ? "keep-going"
                                       : NULL;
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
        if (f->steps <= 0 && !f->numerics_hash && !f->tune_kernels)
            return usage("--steps N is needed: the description's schedule has no end");
    }
    f->seed_given = f->seed >= 0;
    f->seed = f->seed_given ? f->seed : t->seed;
    if (f->checkpoint != NULL && t->n_files == 0)
        return usage("--checkpoint: the tables of this trainer name no files");
    if (f->checkpoint == NULL && about_checkpoints(f) != NULL)
        return usage("--%s needs --checkpoint DIR", about_checkpoints(f));
    if (f->accept_data && !f->resume)
        return usage("--accept-data needs --resume");
    if (f->accept_numerics && !f->resume)
        return usage("--accept-numerics needs --resume");
    f->no_graphs = f->no_graphs || f->profile != NULL; /* each launch is timed */
    if (f->keep_every > 0 && f->keep == 0)
        return usage("--keep-every needs --keep K: without it all are kept");
    return -1;
}

/* Training, unless the first word is a command. */
static RtCommand command_of(const char *word)
{
    RtCommand c = RT_COMMANDS - 1;
    while (c > RT_TRAIN && (word == NULL || strcmp(word, commands[c].name) != 0))
        c--;
    return c;
}

/* A word that is no flag, nor a flag's value. */
static int take_word(RtFlags *f, const char *word)
{
    if (commands[f->command].folder && f->folder == NULL) {
        f->folder = word;
        return -1;
    }
    return strcmp(word, "must") == 0 && f->resume
               ? usage("unexpected `%s`; did you mean --resume=must?", word)
           : command_of(word) != RT_TRAIN
               ? usage("unexpected `%s`: a command is the first word", word)
               : usage("unexpected `%s`", word);
}

/* Where the value is the next word: a flag is none. */
static int check_value(const Flag *flag, const char *value)
{
    if (value == NULL)
        return usage("--%s needs a value: %s", flag->name, flag->value);
    if (strncmp(value, "--", 2) == 0 || strcmp(value, "-h") == 0) {
        return usage(
            "--%s needs a value, %s, but `%s` is a flag; if it is meant: --%s=%s",
            flag->name, flag->value, value, flag->name, value);
    }
    return -1;
}

/* argv[*i] begins with --, and argv[argc] is NULL. */
static int take_flag(RtFlags *f, char **argv, int *i)
{
    const char *word = argv[*i], *equals = strchr(word, '=');
    const size_t bytes = equals != NULL ? (size_t)(equals - word - 2) : strlen(word + 2);
    const Flag *flag = find(word + 2, bytes);
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (flag == NULL) {
        const char *like = similar(word + 2, bytes);
        return like != NULL ? usage("no flag `%s`; did you mean --%s?", word, like)
                            : usage("no flag `%s`", word);
    }
    if (!fits(flag, f->command)) {
        const RtCommand owner = owner_of(flag);
        return owner == RT_TRAIN
                   ? usage("--%s is for training, not for `trainer %s`", flag->name,
                           commands[f->command].name)
                   : usage("--%s is for `trainer %s`", flag->name, commands[owner].name);
    }
    if (flag->value == NULL && value != NULL)
        return usage("--%s takes no value, but got `%s`", flag->name, value);
    if (flag->value != NULL && flag->kind != FLAG_RESUME && value == NULL) {
        value = argv[++*i];
        const int rc = check_value(flag, value);
        if (rc >= 0)
            return rc;
    }
    return set(f, flag, value);
}

int rt_flags_parse(RtFlags *f, const RtTrainer *t, int argc, char **argv)
{
    const char *guard = getenv("RT_GUARD");
    *f = (RtFlags){.command = command_of(argc > 1 ? argv[1] : NULL),
                   .steps = -1,
                   .seed = -1,
                   .sample_tokens = 200,
                   .temperature = 1,
                   .top_p = 1,
                   .started_ns = rt_clock_ns(),
                   .guard = guard != NULL && strcmp(guard, "1") == 0};
    for (int i = f->command == RT_TRAIN ? 1 : 2; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(t, f->command);
            return RT_EXIT_OK;
        }
        const int rc = strncmp(argv[i], "--", 2) == 0 ? take_flag(f, argv, &i)
                                                      : take_word(f, argv[i]);
        if (rc >= 0)
            return rc;
    }
    if (f->command == RT_TRAIN)
        return check_flags(f, t);
    f->seed = f->seed >= 0 ? f->seed : t->seed;
    if (commands[f->command].folder && f->folder == NULL) {
        return usage("%s: name the folder: trainer %s DIR", commands[f->command].name,
                     commands[f->command].name);
    }
    return f->command == RT_SAMPLE ? check_sample(f) : -1;
}
