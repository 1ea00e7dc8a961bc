/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize.c: the command line of `fsdpgen tokenize`. In: argv. Out: a token file and a
 * line about it on stdout; or a prompt's ids, or the text of ids, on stdout; an exit
 * code. Everything that reads foreign input runs in a child under limits; the parent
 * writes. */
#include "tokenize/tokenize.h"

#include "base/child.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --prompt or --decode exclude all options about files. */
static OptionsFound check_terminal(OptionReader *r, const TokOptions *o)
{
    const char *name = o->prompt ? "prompt" : "decode";

    if (o->prompt && o->decode)
        return options_wrong(r, "--prompt and --decode: one of them at a time");
    if (o->inputs.count > 0)
        return options_wrong(r, "--%s takes no input, but `%s` is given%s", name,
                             o->inputs.items[0], o->decode ? "; ids come on stdin" : "");
    if (o->output || o->field || o->template || o->end || o->jsonl || o->force ||
        o->threads || o->held_out || o->only_held_out || (o->decode && o->no_special))
        return options_wrong(r, "--%s goes with --tokenizer%s only", name,
                             o->prompt ? " and --no-special" : "");
    return OPTIONS_GO;
}

/* Which options require or exclude each other. */
static OptionsFound check_options(OptionReader *r, TokOptions *o)
{
    if (o->prompt || o->decode)
        return check_terminal(r, o);
    if (o->inputs.count == 0)
        return options_wrong(
            r, "no text is given; write: fsdpgen tokenize TEXT... -o X.bin");
    if (o->held_out && !tok_read_share(o->held_out, &o->held_below))
        return options_wrong(
            r, "--held-out %s: is not a share between 0 and 1: 1%% or 0.01", o->held_out);
    if (o->only_held_out && !o->held_out)
        return options_wrong(r, "--only-held-out needs --held-out SHARE");
    if (!o->output)
        return options_wrong(r, "no output is given: -o X.bin");
    if (o->template && !strcmp(o->tokenizer, "bytes"))
        return options_wrong(
            r, "--template needs --tokenizer: bytes have no tokens that end a turn");
    return OPTIONS_GO;
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

    if (!find_end(o, t, error) || !tok_check_files(g, o, error))
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

/* The limits of a run. Memory: for the vocabulary, the threads, the longest piece and
 * chat. Time: for the tokenizer's file, and twenty microseconds per byte of input, about
 * a hundred times what it takes. Chats have a budget of their own, and ids arrive as fast
 * as a model speaks. */
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
                   "%s.mask: no token is a target: has no message the role "
                   "`assistant`?",
                   o->output);
    if (n->documents > 1 && n->bare)
        print_line(stderr, "fsdpgen: warning: ",
                   "%s: documents follow each other without a token between them; --end "
                   "TOKEN puts one",
                   o->output);
    if (o->held_out)
        print_line(stdout, "", "%s: %lld document%s left out, which %s held out",
                   o->output, (long long)n->left_out, n->left_out == 1 ? "" : "s",
                   o->only_held_out ? "are not" : "are");
    if (n->empty_lines > 0)
        print_line(stderr, "fsdpgen: warning: ", "%lld empty lines were skipped",
                   (long long)n->empty_lines);
}

/* The files get their names when the child has finished everything. */
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

int tokenize_run(Gen *g, TokOptions *o)
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

OptionsFound tokenize_read(OptionReader *r, TokOptions *o)
{
    OptionsFound found;

    *o = (TokOptions){.tokenizer = "bytes"};
    found = options_read(r, o, &o->inputs);
    return found == OPTIONS_GO ? check_options(r, o) : found;
}
