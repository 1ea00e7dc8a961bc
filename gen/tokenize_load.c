/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_load.c: a Hugging Face tokenizer.json. Comes in: the file. Goes out: a
 * Tokenizer, or messages that name, with its place, each part that is not supported: a
 * part that is left out silently would be wrong ids. Byte-level BPE as Llama-3, Qwen,
 * GPT-2 and their kin have it: no normalizer or NFC; Split, Digits, ByteLevel; merges in
 * both spellings. */
#include "tokenize.h"

#include "json_place.h"
#include "load.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 256 << 20, MAX_ID = INT32_MAX - 1, MAX_PIECE_ID = 1 << 24 };

typedef struct Load {
    Gen *g;
    Tokenizer *t;
    const char *file, *text;
    size_t bytes;
    json_t *root, *vocab;
    int before;        /* errors there were */
    bool has_template; /* of a post-processor */
} Load;

__attribute__((format(printf, 3, 4))) static void refuse(Load *l, const char *path,
                                                         const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    diag_add(l->g, DIAG_ERROR, json_place(l->file, l->text, l->bytes, path), NULL,
             "%s: %s", *path ? path : "tokenizer", gen_vprintf(l->g, fmt, ap));
    va_end(ap);
}

static const char *type_of(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));

    return type ? type : "(without a type)";
}

static bool flag(Load *l, const json_t *part, const char *path, const char *key,
                 bool otherwise)
{
    const json_t *v = json_object_get(part, key);

    if (v && !json_is_boolean(v) && !json_is_null(v))
        refuse(l, gen_printf(l->g, "%s.%s", path, key), "is true or false");
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

/* A member that must be missing, null, false, or empty. */
static void must_lack(Load *l, const json_t *part, const char *path, const char *key)
{
    const json_t *v = json_object_get(part, key);

    if (v && !json_is_null(v) && !json_is_false(v) &&
        !(json_is_string(v) && json_string_length(v) == 0))
        refuse(l, gen_printf(l->g, *path ? "%s.%s" : "%s%s", path, key),
               "is not supported");
}

/* What files saved after training often carry, and does nothing to a vocabulary. */
static void warn_unused(Load *l, const char *key)
{
    const json_t *v = json_object_get(l->root, key);

    if (v && !json_is_null(v))
        diag_add(l->g, DIAG_WARNING, json_place(l->file, l->text, l->bytes, key), NULL,
                 "%s: is ignored: whole documents are tokenized", key);
}

/* Whether WORD is one of WORDS, which single spaces separate. */
static bool is_among(const char *words, const char *word)
{
    const size_t n = strlen(word);

    for (const char *w = words; *w; w += *w == ' ') {
        const size_t k = strcspn(w, " ");

        if (k == n && !memcmp(w, word, n))
            return true;
        w += k;
    }
    return false;
}

/* Members that nobody here knows might matter. */
static void check_keys(Load *l, json_t *part, const char *path, const char *known)
{
    const char *key;
    json_t *v;

    json_object_foreach(part, key, v)
    {
        if (!is_among(known, key))
            refuse(l, gen_printf(l->g, *path ? "%s.%s" : "%s%s", path, key),
                   "is not a part that is known here");
    }
}

/* ---- what is done before a text is cut ----------------------------------------------
 */

static void read_normalizer(Load *l, const json_t *part, const char *path)
{
    const json_t *list = json_object_get(part, "normalizers");

    if (!part || json_is_null(part))
        return;
    if (!strcmp(type_of(part), "NFC")) {
        l->t->nfc = true;
#ifndef FSDPGEN_UTF8PROC
        refuse(l, path,
               "needs utf8proc (libutf8proc-dev), which this fsdpgen was built "
               "without");
#endif
    } else if (!strcmp(type_of(part), "Sequence") && json_is_array(list)) {
        for (size_t i = 0; i < json_array_size(list) && i < TOK_MAX_STEPS; i++)
            read_normalizer(l, json_array_get(list, i),
                            gen_printf(l->g, "%s.normalizers.%zu", path, i));
        if (json_array_size(list) > TOK_MAX_STEPS)
            refuse(l, path, "has more than %d steps", TOK_MAX_STEPS);
    } else {
        refuse(l, path, "the normalizer %s is not supported; NFC is, or none",
               type_of(part));
    }
}

/* ---- what cuts it -------------------------------------------------------------------
 */

static void add_step(Load *l, const char *path, const char *pattern, size_t n,
                     bool literal)
{
    char error[TOK_ERROR_BYTES] = "";

    if (l->t->steps == TOK_MAX_STEPS) {
        refuse(l, path, "has more than %d steps", TOK_MAX_STEPS);
        return;
    }
    l->t->step[l->t->steps] = tok_regex_open(pattern, n, literal, error);
    if (l->t->step[l->t->steps])
        l->t->steps++;
    else
        refuse(l, path, "%s", error);
}

static void read_split(Load *l, json_t *part, const char *path)
{
    const char *behavior = json_string_value(json_object_get(part, "behavior"));
    const json_t *pattern = json_object_get(part, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex");
    const json_t *string = json_object_get(pattern, "String");
    const json_t *p = regex ? regex : string;

    check_keys(l, part, path, "type pattern behavior invert");
    if (!behavior || strcmp(behavior, "Isolated"))
        refuse(l, gen_printf(l->g, "%s.behavior", path),
               "the behavior %s is not supported; Isolated is",
               behavior ? behavior : "(none)");
    if (!json_is_string(p) || json_string_length(p) == 0)
        refuse(l, gen_printf(l->g, "%s.pattern", path), "is a Regex or a String");
    else
        add_step(l, gen_printf(l->g, "%s.pattern.%s", path, regex ? "Regex" : "String"),
                 json_string_value(p), json_string_length(p), !regex);
}

/* Returns whether this, or one of a sequence, is ByteLevel; nothing may follow that. */
static bool read_pre_tokenizer(Load *l, json_t *part, const char *path)
{
    const char *type = type_of(part);
    const json_t *list = json_object_get(part, "pretokenizers");
    bool bytes = false;

    if (!strcmp(type, "ByteLevel")) {
        check_keys(l, part, path, "type add_prefix_space trim_offsets use_regex");
        if (flag(l, part, path, "add_prefix_space", true))
            refuse(l, gen_printf(l->g, "%s.add_prefix_space", path), "is not supported");
        if (flag(l, part, path, "use_regex", true))
            add_step(l, path, tok_gpt2_pattern, strlen(tok_gpt2_pattern), false);
        return true;
    }
    if (!strcmp(type, "Split")) {
        read_split(l, part, path);
    } else if (!strcmp(type, "Digits")) {
        check_keys(l, part, path, "type individual_digits");
        if (flag(l, part, path, "individual_digits", false))
            add_step(l, path, "\\p{N}", 5, false);
        else
            add_step(l, path, "\\p{N}+", 6, false);
    } else if (!strcmp(type, "Sequence") && json_is_array(list)) {
        for (size_t i = 0; i < json_array_size(list) && i <= TOK_MAX_STEPS; i++) {
            const char *at = gen_printf(l->g, "%s.pretokenizers.%zu", path, i);

            if (bytes)
                refuse(l, at, "comes after ByteLevel, where nothing is supported");
            bytes = read_pre_tokenizer(l, json_array_get(list, i), at) || bytes;
        }
    } else {
        refuse(l, path,
               "the pre-tokenizer %s is not supported; Split, Digits, ByteLevel and a "
               "Sequence of them are",
               type);
    }
    return bytes;
}

/* ---- what is put around it ----------------------------------------------------------
 */

static void add_around(Load *l, const json_t *tokens, const char *name, const char *path,
                       bool after)
{
    const json_t *ids = json_object_get(json_object_get(tokens, name), "ids");
    uint32_t *to = after ? l->t->after : l->t->before;
    int *n = after ? &l->t->n_after : &l->t->n_before;

    if (!json_is_array(ids) || json_array_size(ids) == 0)
        refuse(l, path, "the special token `%s` has no ids", name);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);

        if (*n == TOK_MAX_AROUND || !json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) > MAX_ID) {
            refuse(l, path, "the special token `%s`: too many ids, or one that is none",
                   name);
            return;
        }
        to[(*n)++] = (uint32_t)json_integer_value(id);
        if ((uint32_t)json_integer_value(id) > l->t->max_id)
            l->t->max_id = (uint32_t)json_integer_value(id);
    }
}

static void read_template(Load *l, json_t *part, const char *path)
{
    const json_t *single = json_object_get(part, "single");
    bool seen = false;

    check_keys(l, part, path, "type single pair special_tokens");
    if (l->has_template)
        refuse(l, path, "a second TemplateProcessing is not supported");
    l->has_template = true;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *item = json_array_get(single, i);
        const json_t *token = json_object_get(item, "SpecialToken");
        const char *name = json_string_value(json_object_get(token, "id"));
        const char *text =
            json_string_value(json_object_get(json_object_get(item, "Sequence"), "id"));
        const char *at = gen_printf(l->g, "%s.single.%zu", path, i);

        if (name)
            add_around(l, json_object_get(part, "special_tokens"), name, at, seen);
        else if (text && !strcmp(text, "A") && !seen)
            seen = true;
        else
            refuse(l, at, "is neither a SpecialToken nor the one Sequence A");
    }
    if (!seen)
        refuse(l, gen_printf(l->g, "%s.single", path), "has no Sequence A");
}

static void read_post_processor(Load *l, json_t *part, const char *path)
{
    const json_t *list = json_object_get(part, "processors");

    if (!part || json_is_null(part) || !strcmp(type_of(part), "ByteLevel"))
        return; /* offsets only */
    if (!strcmp(type_of(part), "TemplateProcessing")) {
        read_template(l, part, path);
    } else if (!strcmp(type_of(part), "Sequence") && json_is_array(list) &&
               json_array_size(list) <= TOK_MAX_STEPS) {
        for (size_t i = 0; i < json_array_size(list); i++)
            read_post_processor(l, json_array_get(list, i),
                                gen_printf(l->g, "%s.processors.%zu", path, i));
    } else {
        refuse(
            l, path,
            "the post-processor %s is not supported; ByteLevel, TemplateProcessing and "
            "a Sequence of them are",
            type_of(part));
    }
}

/* ---- the vocabulary -----------------------------------------------------------------
 */

static size_t slots_for(size_t items)
{
    size_t slots = 64;

    while (slots < items * 2)
        slots *= 2;
    return slots;
}

static void read_vocab(Load *l, bool words)
{
    TokVocab *v = &l->t->vocab;
    bool have[256] = {false};
    const char *key;
    json_t *value;
    size_t n = json_object_size(l->vocab);

    if (words) {
        v->word_slots = slots_for(n);
        v->words = gen_alloc(l->g, v->word_slots * sizeof *v->words);
    }
    json_object_foreach(l->vocab, key, value)
    {
        const size_t len = strlen(key);
        const json_int_t id = json_integer_value(value);
        char *raw = gen_alloc(l->g, len + 1);

        if (!json_is_integer(value) || id < 0 || id > MAX_ID) {
            refuse(l, "model.vocab", "`%.40s` has no id from 0 to %d", key, MAX_ID);
            return;
        }
        l->t->max_id = (uint32_t)id > l->t->max_id ? (uint32_t)id : l->t->max_id;
        if (!tok_raw_bytes(key, len, raw, &n) || n == 0)
            continue;
        if (n == 1) {
            v->byte_id[(unsigned char)raw[0]] = (uint32_t)id;
            have[(unsigned char)raw[0]] = true;
        }
        if (words)
            tok_word_put(v, raw, n, (uint32_t)id);
    }
    for (int b = 0; b < 256; b++)
        if (!have[b]) {
            refuse(l, "model.vocab", "has no token for byte %d, so it is not byte-level",
                   b);
            return;
        }
}

static bool id_of_part(const Load *l, const char *s, uint32_t *id)
{
    const json_t *v = json_object_get(l->vocab, s);

    *id = (uint32_t)json_integer_value(v);
    return v != NULL;
}

/* One merge: "a b" or ["a", "b"]. */
static bool read_merge(Load *l, const json_t *merge, uint32_t rank)
{
    const json_t *one = json_is_array(merge) ? json_array_get(merge, 0) : merge;
    const char *a = json_is_string(one) ? json_string_value(one) : "";
    const char *b = json_string_value(json_array_get(merge, 1));
    const char *space = json_is_array(merge) ? NULL : strchr(a, ' ');
    uint32_t left, right, id;

    if (space) {
        a = gen_strndup(l->g, a, (size_t)(space - a));
        b = space + 1;
    }
    if (!*a || !b || !*b || (json_is_array(merge) && json_array_size(merge) != 2)) {
        refuse(l, gen_printf(l->g, "model.merges.%u", rank), "is not two parts");
        return false;
    }
    if (!id_of_part(l, a, &left) || !id_of_part(l, b, &right) ||
        !id_of_part(l, gen_printf(l->g, "%s%s", a, b), &id)) {
        refuse(l, gen_printf(l->g, "model.merges.%u", rank),
               "`%.40s` and `%.40s`: they or what they make is not in the vocabulary", a,
               b);
        return false;
    }
    tok_merge_put(&l->t->vocab, left, right, rank, id);
    return true;
}

static void read_model(Load *l, json_t *model)
{
    const json_t *merges = json_object_get(model, "merges");
    TokVocab *v = &l->t->vocab;
    void *mark;
    bool good = true;

    if (!json_is_object(model) || strcmp(type_of(model), "BPE")) {
        refuse(l, "model", "the model %s is not supported; BPE is", type_of(model));
        return;
    }
    check_keys(
        l, model, "model",
        "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk "
        "byte_fallback ignore_merges vocab merges");
    must_lack(l, model, "model", "dropout");
    must_lack(l, model, "model", "continuing_subword_prefix");
    must_lack(l, model, "model", "end_of_word_suffix");
    must_lack(l, model, "model", "byte_fallback");
    if (!json_is_object(l->vocab) || !json_is_array(merges)) {
        refuse(l, "model", "has no vocab or no merges");
        return;
    }
    read_vocab(l, flag(l, model, "model", "ignore_merges", false));
    if (diag_errors(l->g) > l->before)
        return;
    v->merge_slots = slots_for(json_array_size(merges));
    v->merges = gen_alloc(l->g, v->merge_slots * sizeof *v->merges);
    memset(v->merges, -1, v->merge_slots * sizeof *v->merges);
    mark = gen_mark(l->g);
    for (size_t i = 0; i < json_array_size(merges) && good; i++)
        good = read_merge(l, json_array_get(merges, i), (uint32_t)i);
    if (good)
        gen_release(l->g, mark);
}

/* ---- added tokens -------------------------------------------------------------------
 */

/* By first byte, then the longest first: the leftmost longest is the one that is found.
 */
static int by_begin(const void *a, const void *b)
{
    const TokAdded *x = a, *y = b;

    if (x->s[0] != y->s[0])
        return (unsigned char)x->s[0] - (unsigned char)y->s[0];
    if (x->n != y->n)
        return x->n > y->n ? -1 : 1;
    return memcmp(x->s, y->s, x->n);
}

static void read_added_token(Load *l, json_t *part, size_t i)
{
    const char *path = gen_printf(l->g, "added_tokens.%zu", i);
    const json_t *content = json_object_get(part, "content");
    const json_t *id = json_object_get(part, "id");
    TokAdded *a = &l->t->added[l->t->n_added];
    const json_t *known;
    TokText normal = {0};
    char error[TOK_ERROR_BYTES];

    if (!json_is_string(content) || !json_is_integer(id) || json_integer_value(id) < 0 ||
        json_integer_value(id) > MAX_ID) {
        refuse(l, path, "has no content, or no id from 0 to %d", MAX_ID);
        return;
    }
    if (json_string_length(content) == 0)
        return; /* found nowhere */
    check_keys(l, part, path, "id content single_word lstrip rstrip normalized special");
    must_lack(l, part, path, "single_word");
    *a = (TokAdded){.s = json_string_value(content),
                    .n = json_string_length(content),
                    .id = (uint32_t)json_integer_value(id),
                    .lstrip = flag(l, part, path, "lstrip", false),
                    .rstrip = flag(l, part, path, "rstrip", false),
                    .special = flag(l, part, path, "special", false),
                    .normalized = flag(l, part, path, "normalized", true)};
    if (a->normalized && l->t->nfc && !tok_is_nfc(a->s, a->n) &&
        tok_nfc(&normal, a->s, a->n, error)) {
        a->n = normal.n;
        a->s = normal.s;
    }
    a->s = gen_strndup(l->g, a->s, a->n);
    free(normal.s);
    known = json_object_get(l->vocab, json_string_value(content));
    if (known && json_integer_value(known) != json_integer_value(id))
        refuse(l, path, "`%s` is %lld here and %lld in the vocabulary", a->s,
               (long long)json_integer_value(id), (long long)json_integer_value(known));
    l->t->any_normalized = l->t->any_normalized || a->normalized;
    l->t->max_id = a->id > l->t->max_id ? a->id : l->t->max_id;
    l->t->n_added++;
}

static void read_added(Load *l, const json_t *list)
{
    Tokenizer *t = l->t;
    const size_t n = json_array_size(list);

    if (list && !json_is_array(list) && !json_is_null(list))
        refuse(l, "added_tokens", "is a list");
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

/* The text of each id. */
static void read_pieces(Load *l)
{
    Tokenizer *t = l->t;
    const char *key;
    json_t *value;

    if (t->max_id > MAX_PIECE_ID) {
        refuse(l, "model.vocab", "an id above %d is not supported in chats and --decode",
               MAX_PIECE_ID);
        return;
    }
    t->vocab.pieces = gen_alloc(l->g, (t->max_id + (size_t)1) * sizeof *t->vocab.pieces);
    json_object_foreach(l->vocab, key, value)
    {
        TokPiece *piece = &t->vocab.pieces[json_integer_value(value)];
        char *raw = gen_strndup(l->g, key, strlen(key));

        *piece = (TokPiece){.s = raw};
        if (!tok_raw_bytes(key, strlen(key), raw, &piece->n)) /* no text's: as spelt */
            *piece = (TokPiece){gen_strndup(l->g, key, strlen(key)), strlen(key)};
    }
    for (int k = 0; k < t->n_added; k++)
        t->vocab.pieces[t->added[k].id] =
            (TokPiece){.s = t->added[k].s, .n = t->added[k].n};
}

/* What a chat's mask cannot tell the place of. */
static void check_chats(Load *l)
{
    for (int k = 0; k < l->t->n_added; k++) {
        const TokAdded *a = &l->t->added[k];

        if (a->normalized && !a->special && (a->lstrip || a->rstrip))
            refuse(l, "added_tokens",
                   "%.*s takes white space with it: not supported in chats",
                   (int)min_i64((int64_t)a->n, 64), a->s);
    }
}

/* ---- the file -----------------------------------------------------------------------
 */

static bool parse(Load *l)
{
    json_error_t error;
    char why[TOK_ERROR_BYTES];
    const char *problem;

    if (!tok_map(l->file, &l->text, &l->bytes, why) || l->bytes > MAX_FILE_BYTES) {
        diag_add(l->g, DIAG_ERROR, (Pos){.file = l->file},
                 "--tokenizer FILE: a tokenizer.json, or the folder of one", "%s",
                 l->text ? "is larger than 256 MiB: no tokenizer.json" : why);
        return false;
    }
    diag_source(l->g, l->file, l->text, l->bytes);
    problem = tok_no_text(l->text, l->bytes);
    if (problem) {
        diag_add(l->g, DIAG_ERROR, json_offset(l->file, l->text, l->bytes, 0, 1), NULL,
                 "%s", problem);
        return false;
    }
    l->root =
        json_loadb(l->text, l->bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!l->root) {
        const size_t at = error.position > 0 ? (size_t)error.position - 1 : 0;

        diag_add(l->g, DIAG_ERROR, json_offset(l->file, l->text, l->bytes, at, 1), NULL,
                 "%s", error.text);
        return false;
    }
    if (!json_is_object(l->root))
        refuse(l, "", "a tokenizer.json is one object");
    return json_is_object(l->root);
}

bool tok_load(Gen *g, Tokenizer *t, const char *file, TokUse use)
{
    Load l = {.g = g, .t = t, .file = file, .before = diag_errors(g)};
    json_t *pre;

    *t = (Tokenizer){.file = file};
    if (!parse(&l))
        return false;
    check_keys(&l, l.root, "",
               "version truncation padding added_tokens normalizer pre_tokenizer "
               "post_processor decoder model");
    warn_unused(&l, "truncation");
    warn_unused(&l, "padding");
    l.vocab = json_object_get(json_object_get(l.root, "model"), "vocab");
    read_normalizer(&l, json_object_get(l.root, "normalizer"), "normalizer");
    pre = json_object_get(l.root, "pre_tokenizer");
    if (!read_pre_tokenizer(&l, pre, "pre_tokenizer") && diag_errors(g) == l.before)
        refuse(&l, "pre_tokenizer", "is not byte-level: it has no ByteLevel");
    read_post_processor(&l, json_object_get(l.root, "post_processor"), "post_processor");
    read_added(&l, json_object_get(l.root, "added_tokens"));
    read_model(&l, json_object_get(l.root, "model"));
    if (use != TOK_FOR_TEXTS && diag_errors(g) == l.before)
        read_pieces(&l);
    if (use == TOK_FOR_CHATS)
        check_chats(&l);
    json_decref(l.root);
    return diag_errors(g) == l.before;
}
