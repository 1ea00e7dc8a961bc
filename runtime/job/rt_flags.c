/* SPDX-License-Identifier: MIT-0 */
/* rt_flags.c: the command line of a trainer. In: argv. Out: RtFlags, or a message and an
 * exit code. The table of rt_flags_table.c drives parsing, checks and --help. */
#include "job/rt_flags_table.h"
#include "job/rt_job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What this trainer was built for. */
#if defined RT_NCCL
enum { BUILT_FOR = RT_FOR_NCCL };
#elif defined RT_CUDA
enum { BUILT_FOR = RT_FOR_CUDA };
#else
enum { BUILT_FOR = RT_FOR_ALL };
#endif

static bool built(const RtFlag *flag)
{
    return (int)rt_flag_headings[flag->group].target <= BUILT_FOR;
}

/* Does the command take this row of the table, in this trainer? */
static bool takes(RtCommand command, const RtFlag *flag)
{
    return built(flag) && (flag->commands >> command & 1) != 0;
}

/* ---- --help ---------------------------------------------------------------------- */

static void print_group(RtCommand command, RtFlagGroup group)
{
    bool titled = false;
    for (int i = 0; i < rt_flag_count; i++) {
        const RtFlag *flag = &rt_flag_table[i];
        char left[64];
        if (flag->group != group || !takes(command, flag))
            continue;
        if (!titled)
            printf("\n%s:\n", rt_flag_headings[group].title);
        titled = true;
        snprintf(left, sizeof left, "--%s%s%s", flag->name,
                 flag->value != NULL && flag->kind != RT_FLAG_MUST ? " " : "",
                 flag->value != NULL ? flag->value : "");
        printf("  %-25s %s\n", left, flag->help);
    }
}

static void print_line(const RtCommandInfo *c)
{
    printf("  trainer%s%s %s\n", c->name != NULL ? " " : "",
           c->name != NULL ? c->name : "", c->line);
}

static void print_help(const RtTrainer *t, RtCommand command)
{
    const RtCommandInfo *c = &rt_command_table[command];
    const char *plural = t->world_size == 1 ? "" : "s";
    if (command == RT_TRAIN) {
        printf("trainer: trains %s on %d rank%s, which it starts itself on this machine\n"
               "\n",
               t->name, t->world_size, plural);
        for (int i = 0; i < RT_COMMANDS; i++)
            print_line(&rt_command_table[i]);
        printf("  trainer COMMAND --help\n");
    } else {
        printf("trainer %s: %s\n\n", c->name, c->what);
        print_line(c);
    }
    for (int group = 0; group < RT_GROUPS; group++)
        print_group(command, (RtFlagGroup)group);
    printf("\n  %-25s this text\n\n", "--help");
    if (!c->folder)
        printf("Under torchrun --no_python, mpirun or srun each process is one rank.\n");
    printf("Exit codes: %s\n", c->exits);
}

/* ---- values ---------------------------------------------------------------------- */

/* The command whose flags are read, with a blank before it; training has no name. */
static char of_command[16];

__attribute__((format(printf, 1, 2))) static int usage(const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    rt_say("trainer: error: %s; see trainer%s --help", text, of_command);
    return RT_EXIT_USAGE;
}

static int set_number(RtFlags *f, const RtFlag *flag, const char *value)
{
    char *field = (char *)f + flag->at, *end;
    errno = 0;
    const bool whole = flag->kind == RT_FLAG_COUNT;
    const long long n = whole ? strtoll(value, &end, 10) : 0;
    const double x = whole ? (double)n : strtod(value, &end);
    if (errno != 0 || end == value || *end != '\0') {
        return usage("--%s: `%s` is not a %s", flag->name, value,
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

/* Skips digits, possibly with a point. */
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

/* 3600, 90m, 11h30m, 1d12h: units in decreasing order, each once. */
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

static int set_time(RtFlags *f, const RtFlag *flag, const char *value)
{
    double *seconds = (double *)(void *)((char *)f + flag->at);
    if (!read_duration(value, seconds)) {
        return usage("--%s: `%s` is not a duration: write seconds, or 90m, 11h30m, 1d12h",
                     flag->name, value);
    }
    if (!(*seconds >= flag->min && *seconds <= flag->max)) {
        return usage("--%s: %s is not between %g and %g seconds", flag->name, value,
                     flag->min, flag->max);
    }
    return -1;
}

static int set_when(RtFlags *f, const RtFlag *flag, const char *value)
{
    static const char *const words[] = {"auto", "always", "never"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(value, words[i]) == 0) {
            *(int *)(void *)((char *)f + flag->at) = i;
            return -1;
        }
    }
    return usage("--%s is auto, always or never, not `%s`", flag->name, value);
}

static int set_must(RtFlags *f, const RtFlag *flag, const char *value)
{
    bool *fields = (bool *)((char *)f + flag->at);
    fields[0] = true;
    fields[1] = value != NULL;
    return value == NULL || strcmp(value, "must") == 0
               ? -1
               : usage("--%s takes no value but `must`: --%s=must", flag->name,
                       flag->name);
}

static int add_files(const RtFlag *flag, const char **list, int *n, const char *value)
{
    if (*n == RT_MAX_DATA) {
        return usage("--%s was given more than %d times; a pattern names many files",
                     flag->name, RT_MAX_DATA);
    }
    list[(*n)++] = value;
    return -1;
}

static int set(RtFlags *f, const RtFlag *flag, const char *value)
{
    switch (flag->kind) {
    case RT_FLAG_SWITCH:
        *(bool *)((char *)f + flag->at) = true;
        return -1;
    case RT_FLAG_TEXT:
    case RT_FLAG_NAME:
    case RT_FLAG_FILE:
    case RT_FLAG_DIR:
        *(const char **)((char *)f + flag->at) = value;
        return value[0] != '\0' || flag->kind == RT_FLAG_TEXT
                   ? -1
                   : usage("--%s needs a value: %s", flag->name, flag->value);
    case RT_FLAG_TIME:
        return set_time(f, flag, value);
    case RT_FLAG_WHEN:
        return set_when(f, flag, value);
    case RT_FLAG_MUST:
        return set_must(f, flag, value);
    case RT_FLAG_DATA:
        return add_files(flag, f->data, &f->n_data, value);
    case RT_FLAG_EVAL:
        return add_files(flag, f->eval, &f->n_eval, value);
    case RT_FLAG_COUNT:
    case RT_FLAG_REAL:
        return set_number(f, flag, value);
    }
    return -1;
}

/* ---- names ----------------------------------------------------------------------- */

/* The row of that name for this command; or for another one; or NULL. */
static const RtFlag *find(RtCommand command, const char *name, size_t bytes)
{
    const RtFlag *found = NULL;
    for (int i = 0; i < rt_flag_count; i++) {
        const RtFlag *flag = &rt_flag_table[i];
        if (strlen(flag->name) != bytes || strncmp(flag->name, name, bytes) != 0)
            continue;
        if (takes(command, flag))
            return flag;
        if (found == NULL)
            found = flag;
    }
    return found;
}

/* Flags of other trainers: here they are fields of the description, or other flags. */
static const struct {
    const char *names; /* separated by blanks */
    const char *is;
} flags_of_others[] = {
    {" lr learning-rate base-lr ", "the description's: optimizer.lr"},
    {" weight-decay wd ", "the description's: optimizer.weight_decay"},
    {" max-grad-norm grad-clip clip-grad clip ", "the description's: optimizer.clip"},
    {" warmup warmup-steps lr-scheduler lr-scheduler-type scheduler ",
     "the description's: lr = cosine { warmup = 100, steps = 1000 }"},
    {" batch-size bs micro-batch-size per-device-train-batch-size ",
     "the description's: micro_batch, and global_batch of a step"},
    {" global-batch-size gradient-accumulation-steps grad-accum ",
     "the description's: global_batch"},
    {" seq-len seq-length sequence-length max-seq-len max-seq-length block-size ",
     "the description's: seq"},
    {" dtype bf16 fp16 precision mixed-precision ", "the description's: dtypes.param"},
    {" gradient-checkpointing activation-checkpointing ", "the description's: recompute"},
    {" optimizer optim ", "the description's: optimizer"},
    {" device gpus num-gpus nproc nproc-per-node world-size dp tp ",
     "the description's: mesh.shard is the number of ranks"},
    {" num-epochs num-train-epochs ", "--epochs X"},
    {" max-steps train-iters num-steps iterations ", "--steps N"},
    {" output-dir save-dir save out-dir ", "--checkpoint DIR"},
    {" save-steps save-interval save-every ", "--checkpoint-every N"},
    {" save-total-limit ", "--keep K"},
    {" load resume-from resume-from-checkpoint ", "--checkpoint DIR --resume"},
    {" model model-name-or-path pretrained ", "--init DIR, of a model's weights"},
    {" train-data dataset data-path train-file ", "--data FILE"},
    {" eval-data validation-file val-data ", "--eval FILE"},
    {" eval-steps eval-interval ", "--eval-every N"},
    {" set ", "fsdpgen's: fsdpgen MODEL.lua -o DIR --set FIELD=VALUE, then make"},
    {" wandb report-to logging-dir ", "--log FILE"},
    {" version ", "in manifest.json and in the first line of --log"},
    {" tokenizer tokenizer-name ", "fsdpgen's: fsdpgen tokenize TEXT -o tokens.bin"},
};

static int flag_of_others(const char *word, size_t bytes)
{
    char name[64];
    if (bytes + 3 > sizeof name)
        return -1;
    snprintf(name, sizeof name, " %.*s ", (int)bytes, word + 2);
    for (char *p = name; *p != '\0'; p++)
        *p = *p == '_' ? '-' : *p;
    for (size_t i = 0; i < sizeof flags_of_others / sizeof *flags_of_others; i++)
        if (strstr(flags_of_others[i].names, name) != NULL)
            return usage("no flag `%s`; here it is %s%s", word, flags_of_others[i].is,
                         strncmp(flags_of_others[i].is, "the desc", 8) == 0
                             ? " (fsdpgen MODEL.lua -o DIR --set FIELD=VALUE, then make)"
                             : "");
    return -1;
}

static int unknown_flag(RtCommand command, const char *word, size_t bytes)
{
    const char *names[256], *like;
    int n = 0;
    const int other = flag_of_others(word, bytes);
    if (other >= 0)
        return other;
    for (int i = 0; i < rt_flag_count && n < 256; i++)
        if (takes(command, &rt_flag_table[i]))
            names[n++] = rt_flag_table[i].name;
    like = rt_near(word + 2, bytes, names, n);
    return like != NULL ? usage("no flag `%s`; did you mean --%s?", word, like)
                        : usage("no flag `%s`", word);
}

/* A flag that the command does not take, or that this trainer does not have. */
static int foreign_flag(RtCommand command, const RtFlag *flag)
{
    RtCommand owner = RT_TRAIN;
    if (!built(flag)) {
        return usage("--%s is for trainers on %s", flag->name,
                     rt_flag_headings[flag->group].target == RT_FOR_CUDA
                         ? "GPUs: --target cuda"
                         : "several GPUs: --target cuda, a mesh of more than one");
    }
    if (rt_command_table[command].folder && strcmp(flag->name, "checkpoint") == 0) {
        return usage("%s: name the folder without a flag: trainer %s DIR",
                     rt_command_table[command].name, rt_command_table[command].name);
    }
    while ((flag->commands >> owner & 1) == 0)
        owner++;
    return owner == RT_TRAIN ? usage("--%s is for training, not for `trainer %s`",
                                     flag->name, rt_command_table[command].name)
                             : usage("--%s is for `trainer %s`", flag->name,
                                     rt_command_table[owner].name);
}

/* ---- all of them ----------------------------------------------------------------- */

/* For a command that reads weights. */
static int check_reader(const RtFlags *f)
{
    const char *name = rt_command_table[f->command].name;
    if (f->command == RT_SAMPLE && f->prompt == NULL)
        return usage("sample: --prompt TEXT is needed: the text to continue");
    if (f->command == RT_EVAL && f->n_eval == 0)
        return usage("eval: --data FILE is needed: what to evaluate");
    if ((f->checkpoint == NULL) == (f->init == NULL)) {
        return usage("%s: give --checkpoint DIR or --init DIR, one of them: whose "
                     "weights",
                     name);
    }
    if (f->best && f->checkpoint == NULL)
        return usage("%s: --best needs --checkpoint DIR", name);
    return -1;
}

/* A given flag that is about checkpoints; NULL: none. */
static const char *about_checkpoints(const RtFlags *f)
{
    return f->checkpoint_every > 0     ? "checkpoint-every"
           : f->checkpoint_seconds > 0 ? "checkpoint-seconds"
           : f->stop_seconds > 0       ? "stop-after"
           : f->keep > 0               ? "keep"
           : f->keep_best              ? "keep-best"
           : f->must_resume            ? "resume=must"
           : f->resume                 ? "resume"
           : f->wait_for_saves         ? "wait-for-saves"
           : f->one_writer             ? "one-writer"
           : f->keep_going             ? "keep-going"
                                       : NULL;
}

/* --calibrate measures and exits: the flags that it takes besides. */
static bool calibrate_takes(const char *name)
{
    static const char *const names[] = {
        "calibrate", "threads", "local", "deadline", "secret",   "guard", "force",
        "quiet",     "verbose", "color", "kernels",  "loopback", "meet"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static int check_calibrate(const RtFlags *f)
{
    for (int i = 1; i < f->argc; i++) {
        const char *word = f->argv[i];
        const RtFlag *flag = strncmp(word, "--", 2) == 0
                                 ? find(f->command, word + 2, strcspn(word + 2, "="))
                                 : NULL;
        if (flag != NULL && !calibrate_takes(flag->name)) {
            return usage("--calibrate measures and trains nothing: leave --%s out",
                         flag->name);
        }
    }
    return -1;
}

/* Flags that require others. */
static int check_flags(RtFlags *f, const RtTrainer *t)
{
    if (f->calibrate != NULL && check_calibrate(f) >= 0)
        return RT_EXIT_USAGE;
    if (f->n_eval == 0 && (f->eval_every > 0 || f->eval_sequences > 0)) {
        return usage("--%s needs --eval FILE",
                     f->eval_every > 0 ? "eval-every" : "eval-sequences");
    }
    if (f->n_eval == 0 && f->keep_best)
        return usage("--keep-best needs --eval FILE: whose loss is the lowest");
    if (f->patience > 0 && (f->n_eval == 0 || f->eval_every == 0))
        return usage("--patience needs --eval FILE and --eval-every N");
    if (f->new_rows && f->init == NULL)
        return usage("--new-rows needs --init DIR");
    if (f->steps >= 0 && f->epochs > 0)
        return usage("--steps and --epochs: give one of them");
    if (f->epochs > 0) {
        f->steps = 0;          /* known when the data are (rt_tokens_epochs) */
    } else if (f->steps < 0) { /* not given */
        f->steps = t->schedule.steps;
        if (f->steps <= 0 && !f->numerics_hash && !f->tune_kernels &&
            f->calibrate == NULL)
            return usage("--steps N or --epochs X is needed: the description's schedule "
                         "has no end");
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
    f->no_graphs = f->no_graphs || f->profile != NULL; /* times each launch */
    if (f->keep_every > 0 && f->keep == 0)
        return usage("--keep-every needs --keep K: without it all are kept");
    return -1;
}

/* Training, unless the first word is a command. */
static RtCommand command_of(const char *word)
{
    RtCommand c = RT_COMMANDS - 1;
    while (c > RT_TRAIN && (word == NULL || strcmp(word, rt_command_table[c].name) != 0))
        c--;
    return c;
}

/* The flag that a word was probably meant for; NULL: unknown. */
static const char *flag_of_word(const RtFlags *f, const char *word)
{
    struct stat s;
    const bool there = stat(word, &s) == 0, folder = there && S_ISDIR(s.st_mode);
    if (f->resume && f->checkpoint == NULL)
        return "--resume --checkpoint";
    if (folder && f->command != RT_TRAIN)
        return "--checkpoint";
    if (f->command == RT_SAMPLE && f->prompt == NULL)
        return "--prompt";
    return there && f->command <= RT_EVAL && f->command != RT_SAMPLE ? "--data" : NULL;
}

/* A word that is neither a flag nor a flag's value; first: it is where a command would
 * be. */
static int take_word(RtFlags *f, const char *word, bool first)
{
    const char *names[RT_COMMANDS - 1], *like, *flag;
    if (rt_command_table[f->command].folder && f->folder == NULL) {
        f->folder = word;
        return -1;
    }
    if (strcmp(word, "must") == 0 && f->resume)
        return usage("unexpected `%s`; did you mean --resume=must?", word);
    if (command_of(word) != RT_TRAIN)
        return usage("unexpected `%s`: a command is the first word", word);
    if (first && (strcmp(word, "train") == 0 || strcmp(word, "run") == 0))
        return usage("no command `%s`: without a command it trains: trainer --data FILE",
                     word);
    if (word[0] == '-' && word[1] != '\0' &&
        find(f->command, word + 1, strcspn(word + 1, "=")))
        return usage("unexpected `%s`; did you mean -%s?", word, word);
    if (first && (strcmp(word, "export") == 0 || strcmp(word, "convert") == 0))
        return usage("no command `%s`: every checkpoint, CK/step-..., is a Hugging Face "
                     "folder as it is",
                     word);
    if (first && strcmp(word, "help") == 0)
        return usage("no command `help`: trainer --help, trainer COMMAND --help");
    flag = flag_of_word(f, word);
    if (flag != NULL && strcmp(flag, "--data") == 0 && f->n_data > 0)
        return usage("unexpected `%s`: put a pattern in quotes, or the shell expands it, "
                     "--data 'DIR/*.txt'; or write --data %s",
                     word, word);
    if (flag != NULL)
        return usage("unexpected `%s`; did you mean %s %s?", word, flag, word);
    for (int c = RT_TRAIN + 1; c < RT_COMMANDS; c++)
        names[c - 1] = rt_command_table[c].name;
    like = first ? rt_near(word, strlen(word), names, RT_COMMANDS - 1) : NULL;
    return like != NULL ? usage("no command `%s`; did you mean `trainer %s`?", word, like)
                        : usage("unexpected `%s`", word);
}

/* If the value is the next word: a flag is not a value. */
static int check_value(const RtFlag *flag, const char *value)
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

/* argv[*i] starts with --, and argv[argc] is NULL. */
static int take_flag(RtFlags *f, char **argv, int *i)
{
    const char *word = argv[*i], *equals = strchr(word, '=');
    const size_t bytes = equals != NULL ? (size_t)(equals - word - 2) : strlen(word + 2);
    const RtFlag *flag = find(f->command, word + 2, bytes);
    const char *value = equals != NULL ? equals + 1 : NULL;
    if (flag == NULL)
        return unknown_flag(f->command, word, bytes);
    if (!takes(f->command, flag))
        return foreign_flag(f->command, flag);
    if (flag->value == NULL && value != NULL)
        return usage("--%s takes no value, but got `%s`", flag->name, value);
    if (flag->value != NULL && flag->kind != RT_FLAG_MUST && value == NULL) {
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
                   .argc = argc,
                   .argv = argv,
                   .guard = guard != NULL && strcmp(guard, "1") == 0};
    if (f->command != RT_TRAIN)
        snprintf(of_command, sizeof of_command, " %s", rt_command_table[f->command].name);
    for (int i = f->command == RT_TRAIN ? 1 : 2; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(t, f->command);
            return RT_EXIT_OK;
        }
        const int rc = strncmp(argv[i], "--", 2) == 0 ? take_flag(f, argv, &i)
                                                      : take_word(f, argv[i], i == 1);
        if (rc >= 0)
            return rc;
    }
    if (f->command == RT_TRAIN)
        return check_flags(f, t);
    f->seed = f->seed >= 0 ? f->seed : t->seed;
    if (rt_command_table[f->command].folder && f->folder == NULL) {
        return usage("%s: name the folder: trainer %s DIR",
                     rt_command_table[f->command].name,
                     rt_command_table[f->command].name);
    }
    return f->command == RT_SAMPLE || f->command == RT_EVAL ? check_reader(f) : -1;
}
