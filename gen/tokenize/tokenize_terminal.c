/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_terminal.c: between people and `trainer sample`, which knows only ids. In: a
 * prompt, or ids as text on stdin. Out: on stdout its ids, or their text, written as it
 * arrives, so that one can watch a model speak. A file or a pipe gets the text unchanged;
 * a terminal gets it made printable (printable.c), because a model may say anything. */
#include "tokenize/tokenize.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a prompt to ids ------------------------------------------------------------- */

static void print_ids(const uint32_t *id, size_t n, bool *first)
{
    for (size_t i = 0; i < n; i++, *first = false)
        printf("%s%u", *first ? "" : " ", (unsigned)id[i]);
}

bool tok_print_prompt(const Tokenizer *t, const TokOptions *o, char *error)
{
    const size_t n = strlen(o->prompt), valid = tok_utf8_valid(o->prompt, n);
    TokWorker w = {.tok = t, .match = tok_match_open(), .bpe = tok_bpe_open()};
    TokIds ids = {0};
    bool first = true;

    if (t->file && valid < n) {
        snprintf(error, TOK_ERROR_BYTES, "--prompt: byte %zu is not UTF-8", valid + 1);
    } else if (!tok_encode(&w, o->prompt, n, true, &ids)) {
        snprintf(error, TOK_ERROR_BYTES, "--prompt: %.400s", w.error);
    } else { /* tokens that end a text do not end a prompt */
        print_ids(t->before, o->no_special ? 0 : (size_t)t->n_before, &first);
        print_ids(ids.id, ids.n, &first);
        putchar('\n');
    }
    free(ids.id);
    tok_match_close(w.match);
    tok_bpe_close(w.bpe);
    return !error[0];
}

/* ---- ids to text ----------------------------------------------------------------- */

typedef struct Decode {
    const Tokenizer *t;
    int64_t id;         /* of the digits so far; -1: none */
    int64_t at;         /* bytes read */
    int64_t unknown;    /* ids without a token */
    bool screen, strip; /* strip: the space that the tokenizer put before the text */
    char part[4];       /* of a character that the next token may complete */
    size_t n_part;
} Decode;

/* Shows its complete characters, or all of it. */
static void show_part(Decode *d, bool all)
{
    static const size_t bytes[16] = {[0xC] = 2, [0xD] = 2, [0xE] = 3, [0xF] = 4};
    const size_t want = bytes[(unsigned char)d->part[0] >> 4];

    if (all || d->n_part >= want) {
        print_printable(stdout, d->part, d->n_part);
        d->n_part = 0;
    }
}

static void put_text(Decode *d, const char *s, size_t n)
{
    const size_t strips = n > 0 && d->strip && *s == d->t->spaces.from;

    d->strip = d->strip && n == 0;
    s += strips;
    n -= strips;
    if (!d->screen)
        fwrite(s, 1, n, stdout);
    for (size_t i = 0; d->screen && i < n; i++) {
        if (((unsigned char)s[i] & 0xC0) != 0x80)
            show_part(d, true);
        if (s[i] == '\n' || s[i] == '\t') {
            putchar(s[i]);
            continue;
        }
        d->part[d->n_part++] = s[i];
        show_part(d, false);
    }
}

static void put_token(Decode *d)
{
    const int64_t id = d->id;

    d->id = -1;
    if (id >= 0 && !d->t->file && id < 256) {
        put_text(d, &(char){(char)id}, 1);
    } else if (id >= 0 && d->t->file && id <= (int64_t)d->t->max_id &&
               d->t->vocab.pieces[id].s) {
        put_text(d, d->t->vocab.pieces[id].s, d->t->vocab.pieces[id].n);
    } else if (id >= 0) { /* like bytes that are not text: U+FFFD */
        put_text(d, "\xef\xbf\xbd", 3);
        d->unknown++;
    }
}

/* Takes a byte of ids, separated by blanks, commas or newlines; a line of ids is a line
 * of text. */
static bool take(Decode *d, char c)
{
    d->at++;
    if (c >= '0' && c <= '9') {
        d->id = (d->id < 0 ? 0 : d->id * 10) + (c - '0');
        return d->id <= INT32_MAX;
    }
    if (c == '\0' || !strchr(" ,\t\r\n", c))
        return false;
    put_token(d);
    if (c == '\n') {
        put_text(d, "\n", 1);
        d->strip = d->t->strips_space;
    }
    return true;
}

/* Reads all of stdin and shows results as soon as they are known; false with error
 * set. */
static bool take_all(Decode *d, char *error)
{
    char s[4096];
    ssize_t n;

    while ((n = read(STDIN_FILENO, s, sizeof s)) != 0 && !ferror(stdout)) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            snprintf(error, TOK_ERROR_BYTES, "--decode: stdin: %s", strerror(errno));
            return false;
        }
        for (ssize_t i = 0; i < n; i++)
            if (!take(d, s[i])) {
                snprintf(
                    error, TOK_ERROR_BYTES,
                    "--decode: stdin: byte %lld: this is not an id; ids are numbers with "
                    "blanks between them, as `trainer sample` prints",
                    (long long)d->at);
                return false;
            }
        fflush(stdout);
    }
    put_token(d); /* the last id may end without a separator */
    show_part(d, true);
    return true;
}

bool tok_decode(const Tokenizer *t, const TokOptions *o, char *error)
{
    Decode d = {.t = t, .id = -1, .screen = o->screen, .strip = t->strips_space};
    const bool good = take_all(&d, error);

    if (d.unknown > 0)
        fprintf(stderr,
                "fsdpgen: warning: --decode: the tokenizer does not have %lld of the "
                "ids: they become U+FFFD\n",
                (long long)d.unknown);
    return good;
}
