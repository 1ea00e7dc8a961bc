/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize.c: the command line of `fsdpgen tokenize`. In: argv. Out: a token file and a
 * line about it on stdout, or a prompt's ids or the text of ids there; an exit code. All
 * that reads what strangers wrote runs in a child under limits; the parent writes. */
#include "tokenize/tokenize.h"

#include "base/child.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Parse {
    Gen *g;
    TokOptions o;
    bool help;
    char error[TOK_ERROR_BYTES]; /* of usage; "": none */
} Parse;

typedef enum { KIND_TEXT, KIND_COUNT, KIND_SWITCH } Kind;

static const struct Option {
    const char *name, *value, *what;
    Kind kind;
    size_t at; /* in TokOptions */
} options[] = {
#define AT(field) offsetof(TokOptions, field)
    {"output", "FILE", "the token file to write, X.bin (-o too)", KIND_TEXT, AT(output)},
    {"tokenizer", "FILE", "a tokenizer.json, its folder, or bytes (default: bytes)",
     KIND_TEXT, AT(tokenizer)},
    {"field", "NAME",
     "of JSON lines: the text (default: text; with --template: messages)", KIND_TEXT,
     AT(field)},
    {"template", "NAME",
     "lines are chats: chatml, llama3 or FILE.lua; writes X.bin.mask, too", KIND_TEXT,
     AT(template)},
    {"end", "TOKEN", "put behind each document: a token's name or an id", KIND_TEXT,
     AT(end)},
    {"no-special", NULL, "leave out what the tokenizer puts around a text", KIND_SWITCH,
     AT(no_special)},
    {"jsonl", NULL, "inputs are JSON lines, whatever their names", KIND_SWITCH,
     AT(jsonl)},
    {"threads", "N", "workers; the output does not depend on them", KIND_COUNT,
     AT(threads)},
    {"force", NULL, "replace the output", KIND_SWITCH, AT(force)},
    {"prompt", "TEXT", "print its ids, for `trainer sample`; no inputs, no output",
     KIND_TEXT, AT(prompt)},
    {"decode", NULL, "print the text of the ids on stdin; no inputs, no output",
     KIND_SWITCH, AT(decode)},
#undef AT
};
enum { N_OPTIONS = sizeof options / sizeof *options };

static void print_help(void)
{
    printf(
        "fsdpgen tokenize: text to a token file of llm.c's, which trainers read.\n\n"
        "usage: fsdpgen tokenize --tokenizer FILE -o X.bin INPUT...\n"
        "       fsdpgen tokenize --tokenizer FILE --prompt TEXT\n"
        "       fsdpgen tokenize --tokenizer FILE --decode <IDS\n\n"
        "An INPUT is a text, one document, or *.jsonl or *.ndjson: a JSON object with a "
        "document\non each line. Ids are those of Hugging Face's tokenizers.\n\n");
    for (int i = 0; i < N_OPTIONS; i++) {
        char left[64];

        snprintf(left, sizeof left, "--%s%s%s", options[i].name,
                 options[i].value ? " " : "", options[i].value ? options[i].value : "");
        printf("  %-20s %s\n", left, options[i].what);
    }
    printf(
        "  %-20s this text\n\n"
        "Exit codes: 0 done, 1 an error: no file was written unless it says so, 2 usage, "
        "70 a bug.\n",
        "--help");
}

__attribute__((format(printf, 2, 3))) static bool usage(Parse *p, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(p->error, sizeof p->error, fmt, ap);
    va_end(ap);
    return false;
}

static const struct Option *find_option(Parse *p, const char *name, size_t n)
{
    const char *names[N_OPTIONS];
    int found;

    for (int i = 0; i < N_OPTIONS; i++)
        names[i] = options[i].name;
    found = diag_option(name, n, names, N_OPTIONS, p->error, sizeof p->error);
    return found < 0 ? NULL : &options[found];
}

static bool set(Parse *p, const struct Option *o, const char *value)
{
    char *field = (char *)&p->o + o->at, *end;
    long long n;

    switch (o->kind) {
    case KIND_SWITCH:
        *(bool *)(void *)field = true;
        return true;
    case KIND_TEXT:
        *(const char **)(void *)field = value;
        return *value ||
               usage(p, "--%s needs a value: --%s %s", o->name, o->name, o->value);
    case KIND_COUNT:
        errno = 0;
        n = strtoll(value, &end, 10);
        if (errno || end == value || *end || n < 1 || n > 256)
            return usage(p, "--%s: `%s` is not between 1 and 256", o->name, value);
        *(int64_t *)(void *)field = n;
        return true;
    }
    return true;
}

/* argv[*i] begins with `-`. */
static bool parse_option(Parse *p, int argc, char **argv, int *i)
{
    const char *arg = argv[*i], *equals = strchr(arg, '='), *value = NULL;
    const struct Option *o;

    if (!strcmp(arg, "--help") || !strcmp(arg, "-h")) {
        p->help = true;
        return true;
    }
    if (arg[1] == '-') {
        o = find_option(p, arg + 2,
                        equals ? (size_t)(equals - arg - 2) : strlen(arg + 2));
        value = equals ? equals + 1 : NULL;
    } else if (arg[1] == 'o') {
        o = &options[0];
        value = arg[2] ? arg + 2 : NULL;
    } else {
        return usage(p, "unknown option %s", arg);
    }
    if (!o)
        return false;
    if (!o->value && value)
        return usage(p, "--%s takes no value", o->name);
    if (o->value && !value) {
        if (++*i == argc)
            return usage(p, "--%s needs a value: --%s %s", o->name, o->name, o->value);
        value = argv[*i];
        if (diag_is_option(value))
            return usage(p,
                         "--%s needs a value, %s, but %.100s is an option; if it is "
                         "meant: --%s=%.100s",
                         o->name, o->value, value, o->name, value);
    }
    return set(p, o, value);
}

/* --prompt or --decode: with nothing that is about files. */
static bool check_terminal(Parse *p)
{
    const TokOptions *o = &p->o;
    const char *name = o->prompt ? "prompt" : "decode";

    if (o->prompt && o->decode)
        return usage(p, "--prompt and --decode: one of them at a time");
    if (o->inputs.count > 0)
        return usage(p, "--%s takes no input, but `%s` is given%s", name,
                     o->inputs.items[0], o->decode ? "; ids come on stdin" : "");
    if (o->output || o->field || o->template || o->end || o->jsonl || o->force ||
        o->threads || (o->decode && o->no_special))
        return usage(p, "--%s goes with --tokenizer%s only", name,
                     o->prompt ? " and --no-special" : "");
    return true;
}

static bool parse(Parse *p, int argc, char **argv)
{
    bool words_only = false;

    for (int i = 1; i < argc && !p->help; i++)
        if (!words_only && !strcmp(argv[i], "--"))
            words_only = true;
        else if (words_only || argv[i][0] != '-')
            *gen_push(p->g, &p->o.inputs) = argv[i];
        else if (!parse_option(p, argc, argv, &i))
            return false;
    if (p->help)
        return true;
    if (p->o.prompt || p->o.decode)
        return check_terminal(p);
    if (p->o.inputs.count == 0)
        return usage(p, "no input is given");
    if (!p->o.output)
        return usage(p, "no output is given: -o X.bin");
    if (p->o.template && !strcmp(p->o.tokenizer, "bytes"))
        return usage(
            p, "--template needs --tokenizer: bytes have no tokens that end a turn");
    return true;
}

/* ---- in the child ---------------------------------------------------------------- */

static int told(const char *error)
{
    print_line(stderr, "fsdpgen: error: ", "%s", error);
    return EXIT_DIAG;
}

static bool load_tokenizer(Gen *g, const TokOptions *o, Tokenizer *t)
{
    struct stat s;
    const char *file = o->tokenizer;

    if (!strcmp(file, "bytes")) {
        *t = (Tokenizer){.max_id = 255};
        return true;
    }
    if (stat(file, &s) == 0 && S_ISDIR(s.st_mode))
        file = gen_printf(g, "%s/tokenizer.json", file);
    return tok_load(g, t, file,
                    o->template ? TOK_FOR_CHATS
                    : o->decode ? TOK_FOR_IDS
                                : TOK_FOR_TEXTS);
}

static bool find_end(TokOptions *o, Tokenizer *t, char *error)
{
    char *end;

    o->end_id = -1;
    if (!o->end)
        return true;
    o->end_id = tok_id_of(t, o->end, strlen(o->end));
    if (o->end_id < 0 && o->end[0] >= '0' && o->end[0] <= '9') {
        errno = 0;
        o->end_id = strtoll(o->end, &end, 10);
        if (errno || *end || o->end_id >= INT32_MAX ||
            (t->file && o->end_id > (int64_t)t->max_id))
            o->end_id = -1;
    }
    if (o->end_id < 0) {
        snprintf(error, TOK_ERROR_BYTES,
                 "--end %.100s: is neither an added token of the tokenizer nor an id "
                 "that it has",
                 o->end);
        return false;
    }
    t->max_id = o->end_id > (int64_t)t->max_id ? (uint32_t)o->end_id : t->max_id;
    return true;
}

static int done(void)
{
    return !ferror(stdout) && fflush(stdout) == 0 ? EXIT_DONE
                                                  : told("cannot write to stdout");
}

static int tokenize_files(Gen *g, TokOptions *o, Tokenizer *t)
{
    TokTotals totals;
    TokSink sink = {.take = tok_send_ids};
    char error[TOK_ERROR_BYTES] = "";

    if (!find_end(o, t, error) || !tok_check_files(g, o, t, error))
        return told(error);
    if (!o->field)
        o->field = o->template ? "messages" : "text";
    sink.with = tok_send_open(o->output, t->max_id, o->template != NULL);
    if (!tok_run(t, o, &sink, &totals, error))
        return told(error);
    totals.max_id = t->max_id;
    totals.bare = !o->end && !o->template && t->n_before + t->n_after == 0;
    tok_send_end(sink.with, &totals);
    return EXIT_DONE;
}

typedef struct Work {
    TokOptions *o;
    TokReceiver received;
} Work;

static int run_child(Gen *g, void *with)
{
    TokOptions *o = ((Work *)with)->o;
    Tokenizer t;
    char error[TOK_ERROR_BYTES] = "";
    const bool loaded = load_tokenizer(g, o, &t);

    diag_print(g);
    if (!loaded)
        return EXIT_DIAG;
    if (o->prompt)
        return tok_print_prompt(&t, o, error) ? done() : told(error);
    if (o->decode)
        return tok_decode(&t, o, error) ? done() : told(error);
    return tokenize_files(g, o, &t);
}

/* ---- in the parent --------------------------------------------------------------- */

/* What a run may take. Its memory: of the vocabulary, of what threads hold, of the
 * longest piece and chat. Its time: of the tokenizer's file, and twenty microseconds for
 * each byte of the inputs, some hundred times what they take; chats have a budget each,
 * and ids come as a model speaks. */
static Limits limits_of(const TokOptions *o)
{
    Limits l = {.memory_bytes = (INT64_C(6) << 30) + o->threads * (INT64_C(1) << 28)};
    int64_t bytes = 0;

    for (int i = 0; i < o->inputs.count; i++) {
        struct stat s;

        bytes += stat(o->inputs.items[i], &s) == 0 ? s.st_size : 0;
    }
    if (!o->decode && !o->template)
        l.cpu_seconds = 120 + bytes / 50000;
    return l;
}

static bool take(void *with, const char *s, size_t n)
{
    TokReceiver *r = &((Work *)with)->received;

    return tok_receive(r, s, n) || (told(r->error), false);
}

static void tell(const TokOptions *o, const TokTotals *n)
{
    const bool mask = o->template != NULL;

    print_line(stdout, "", "%s: %lld tokens of %d bits, %lld document%s", o->output,
               (long long)n->tokens, n->max_id < 65536 ? 16 : 32, (long long)n->documents,
               n->documents == 1 ? "" : "s");
    if (mask)
        print_line(stdout, "", "%s.mask: %lld of them are targets", o->output,
                   (long long)n->targets);
    if (mask && n->targets == 0)
        print_line(stderr, "fsdpgen: warning: ",
                   "%s.mask: no token is a target: is no message of the role "
                   "`assistant`?",
                   o->output);
    if (n->documents > 1 && n->bare)
        print_line(stderr, "fsdpgen: warning: ",
                   "%s: documents follow each other without a token between them; --end "
                   "TOKEN puts one",
                   o->output);
    if (n->empty_lines > 0)
        print_line(stderr, "fsdpgen: warning: ", "%lld empty lines were passed over",
                   (long long)n->empty_lines);
}

/* The files get their names when the child has done all of it. */
static int finish(Work *w, int code)
{
    TokReceiver *r = &w->received;

    if (code == EXIT_DONE && !r->ended) {
        fprintf(stderr, "fsdpgen: bug: the tokenizer ended without its results\n");
        code = EXIT_BUG;
    }
    if (code == EXIT_DONE && !tok_writer_commit(r->writer, r->totals.tokens, r->error))
        code = told(r->error);
    else if (code == EXIT_DONE)
        r->writer = NULL;
    if (r->writer)
        tok_writer_abandon(r->writer);
    if (code != EXIT_DONE)
        return code;
    tell(w->o, &r->totals);
    code = done();
    if (code != EXIT_DONE)
        print_line(stderr, "", "%s is written", w->o->output);
    return code;
}

static int run(Gen *g, TokOptions *o)
{
    Work w = {.o = o,
              .received = {
                  .output = o->output, .mask = o->template != NULL, .force = o->force}};
    const ChildWork work = {.what = "the tokenizer",
                            .cause = "is one of its patterns slow?",
                            .with = &w,
                            .work = run_child,
                            .take = take};
    Limits limits;
    int code;

    o->progress = isatty(STDERR_FILENO);
    o->screen = isatty(STDOUT_FILENO);
    if (o->threads == 0)
        o->threads = max_i64(1, sysconf(_SC_NPROCESSORS_ONLN));
    limits = limits_of(o);
    code = child_stream(g, &limits, &work);
    if (ferror(stdout))
        return told("cannot write to stdout");
    return o->prompt || o->decode ? code : finish(&w, code);
}

int tokenize_main(Gen *g, int argc, char **argv)
{
    Parse p = {.g = g, .o = {.tokenizer = "bytes"}};

    if (!parse(&p, argc, argv)) {
        print_line(stderr, "fsdpgen: tokenize: ", "%s", p.error);
        fprintf(stderr, "  help: fsdpgen tokenize --help\n");
        return EXIT_USAGE;
    }
    if (p.help) {
        print_help();
        return done();
    }
    return run(g, &p.o);
}
