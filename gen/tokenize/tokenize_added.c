/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_added.c: the added tokens of a tokenizer.json, and with them the text of each
 * id. In: the file's lists and the vocabulary. Out: both in the Tokenizer. Ids are those
 * that the package `tokenizers` assigns (it numbers added tokens itself, whatever the
 * file says); otherwise the file is refused. */
#include "tokenize/tokenize_load.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PIECE_ID = 1 << 24 };

/* By first byte, then the longest first, so that the leftmost longest one is found. */
static int by_begin(const void *a, const void *b)
{
    const TokAdded *x = a, *y = b;

    if (x->s[0] != y->s[0])
        return (unsigned char)x->s[0] - (unsigned char)y->s[0];
    if (x->n != y->n)
        return x->n > y->n ? -1 : 1;
    return memcmp(x->s, y->s, x->n);
}

/* The id that tokenizers assigns to an added token, whatever the file says: the
 * vocabulary's, or that of an earlier equal token, or the next one. */
static json_int_t id_of_added(const Load *l, const char *content, bool *in_vocab)
{
    const json_t *known = json_object_get(l->vocab, content);
    const json_int_t words = (json_int_t)json_object_size(l->vocab);

    *in_vocab = known != NULL;
    known = known ? known : json_object_get(l->added, content);
    return known ? json_integer_value(known) : l->newest >= words ? l->newest + 1 : words;
}

/* tokenizers has no defaults for them and refuses the file. */
static void check_flags(Load *l, const json_t *part, const char *path)
{
    static const char *const flags[] = {"single_word", "lstrip", "rstrip", "normalized",
                                        "special"};

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (!json_object_get(part, flags[i]))
            tok_refuse(l, path, "has no %s, which tokenizers needs", flags[i]);
}

static void read_added_token(Load *l, json_t *part, size_t i)
{
    const char *path = gen_printf(l->g, "added_tokens.%zu", i);
    const json_t *content = json_object_get(part, "content");
    const json_t *id = json_object_get(part, "id");
    TokAdded *a = &l->t->added[l->t->n_added];
    json_int_t due;
    TokText normal = {0};
    char error[TOK_ERROR_BYTES];

    if (!json_is_string(content) || !json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) > TOK_MAX_ID) {
        tok_refuse(l, path, "has no content, or no id from 0 to %d", TOK_MAX_ID);
        return;
    }
    if (json_string_length(content) == 0 ||
        json_object_get(l->added, json_string_value(content)))
        return; /* never found, and it has no id; or the first one counts */
    if (strlen(json_string_value(content)) < json_string_length(content)) {
        tok_refuse(l, path, "holds a NUL, which is not supported");
        return;
    }
    tok_check_keys(l, part, path,
                   "id content single_word lstrip rstrip normalized special");
    tok_must_lack(l, part, path, "single_word");
    check_flags(l, part, path);
    *a = (TokAdded){.s = json_string_value(content),
                    .n = json_string_length(content),
                    .id = (uint32_t)json_integer_value(id),
                    .lstrip = tok_flag(l, part, path, "lstrip", false),
                    .rstrip = tok_flag(l, part, path, "rstrip", false),
                    .special = tok_flag(l, part, path, "special", false),
                    .normalized = tok_flag(l, part, path, "normalized", true)};
    if (a->normalized && l->metaspace)
        tok_refuse(l, gen_printf(l->g, "%s.normalized", path),
                   "is not supported with a Metaspace; write false");
    a->name = gen_strndup(l->g, a->s, a->n);
    a->n_name = a->n;
    if (a->normalized && !tok_is_normal(l->t, a->s, a->n) &&
        tok_normal(l->t, &normal, a->s, a->n, TOK_BEGINS_TEXT, error)) {
        a->n = normal.n;
        a->s = normal.s;
    }
    a->s = gen_strndup(l->g, a->s, a->n);
    free(normal.s);
    due = id_of_added(l, json_string_value(content), &a->in_vocab);
    if (due != a->id && json_is_object(l->vocab))
        tok_refuse(l, path, "`%s` is %u here, but tokenizers makes it %lld: %s", a->s,
                   a->id, (long long)due,
                   a->in_vocab ? "so it is in the vocabulary"
                               : "others follow the vocabulary in their order");
    json_object_set_new(l->added, json_string_value(content), json_integer(a->id));
    l->newest = a->id > l->newest ? a->id : l->newest;
    l->t->has_added[a->normalized] = true;
    l->t->takes_space[a->normalized] |= a->lstrip || a->rstrip;
    l->t->longest_added = a->n > l->t->longest_added ? a->n : l->t->longest_added;
    l->t->max_id = a->id > l->t->max_id ? a->id : l->t->max_id;
    l->t->n_added++;
}

void tok_read_added(Load *l, const json_t *list)
{
    Tokenizer *t = l->t;
    const size_t n = json_array_size(list);

    if (list && !json_is_array(list) && !json_is_null(list))
        tok_refuse(l, "added_tokens", "is a list");
    t->added = gen_alloc(l->g, (n + 1) * sizeof *t->added);
    for (size_t i = 0; i < n; i++)
        read_added_token(l, json_array_get(list, i), i);
    qsort(t->added, (size_t)t->n_added, sizeof *t->added, by_begin);
    for (int k = t->n_added; k-- > 0;)
        t->added_from[(unsigned char)t->added[k].s[0]] = k;
    for (int c = 256, at = t->n_added; c >= 0; c--) {
        const bool begins = c < 256 && t->n_added > 0 &&
                            (unsigned char)t->added[t->added_from[c]].s[0] == c;

        at = begins ? t->added_from[c] : at;
        t->added_from[c] = at;
    }
}

/* False: the id has another text. */
static bool put_piece(Load *l, uint32_t id, TokPiece piece)
{
    TokPiece *to = &l->t->vocab.pieces[id];

    if (to->s && (to->n != piece.n || memcmp(to->s, piece.s, piece.n))) {
        tok_refuse(l, "",
                   "`%.*s` and `%.*s` have one id, %u: not supported in chats and "
                   "--decode",
                   (int)min_i64((int64_t)to->n, 40), to->s,
                   (int)min_i64((int64_t)piece.n, 40), piece.s, id);
        return false;
    }
    *to = piece;
    return true;
}

/* In chats the text of a word in normal form; for ids what people read. */
static TokPiece piece_of_word(const Load *l, const char *word, size_t n, TokUse use)
{
    const TokSpaces *p = &l->t->spaces;
    const int byte = l->characters ? tok_byte_word(word, n) : -1;
    char *text = gen_strndup(l->g, word, n);
    TokPiece piece = {text, 0};

    if (byte >= 0)
        text[piece.n++] = (char)byte;
    for (size_t at = 0; byte < 0 && at < n;) {
        const bool is_space = use == TOK_FOR_IDS && p->to && n - at >= p->n_to &&
                              !memcmp(word + at, p->to, p->n_to);

        text[piece.n++] = is_space ? p->from : word[at];
        at += is_space ? p->n_to : 1;
    }
    return piece;
}

/* Found in chats it is as long as what was looked for. */
static TokPiece piece_of_added(const Load *l, const TokAdded *a, TokUse use)
{
    return use == TOK_FOR_CHATS ? (TokPiece){a->s, a->n}
                                : piece_of_word(l, a->name, a->n_name, use);
}

void tok_read_pieces(Load *l, TokUse use)
{
    Tokenizer *t = l->t;
    const char *key;
    json_t *value;

    if (t->max_id > MAX_PIECE_ID) {
        tok_refuse(l, "", "has an id above %d: not supported in chats and --decode",
                   MAX_PIECE_ID);
        return;
    }
    t->vocab.pieces = gen_alloc(l->g, (t->max_id + (size_t)1) * sizeof *t->vocab.pieces);
    json_object_foreach(l->vocab, key, value)
    {
        char *raw = gen_strndup(l->g, key, strlen(key));
        TokPiece piece = {.s = raw};

        if (l->characters)
            piece = piece_of_word(l, key, strlen(key), use);
        else if (!tok_raw_bytes(key, strlen(key), raw, &piece.n)) /* no text */
            piece = (TokPiece){gen_strndup(l->g, key, strlen(key)), strlen(key)};
        if (!put_piece(l, (uint32_t)json_integer_value(value), piece))
            return;
    }
    for (int k = 0; k < t->n_added; k++) {
        const TokAdded *a = &t->added[k];

        if (a->in_vocab) /* its words are plain text, not ByteLevel's */
            t->vocab.pieces[a->id] = (TokPiece){0};
        if (!put_piece(l, a->id, piece_of_added(l, a, use)))
            return;
    }
}

void tok_check_chats(Load *l)
{
    for (int k = 0; k < l->t->n_added; k++) {
        const TokAdded *a = &l->t->added[k];

        if (a->normalized && !a->special &&
            (a->lstrip || a->rstrip || l->t->spaces.before))
            tok_refuse(l, "added_tokens",
                       "%.*s takes white space with it: not supported in chats",
                       (int)min_i64((int64_t)a->n, 64), a->s);
    }
}
