/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_load.c: a Hugging Face tokenizer.json. In: the file. Out: a Tokenizer, or
 * messages that name, with its place, each part that is not supported: a part that is
 * left out silently would be wrong ids. Byte-level BPE as Llama-3, Qwen, GPT-2 and
 * their kin have it: no normalizer or NFC; Split, Digits, ByteLevel; merges in both
 * spellings. What SentencePiece's kin have, tokenize_load_spaces.c reads. */
#include "tokenize/tokenize_load.h"

#include "base/json_place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 256 << 20 };

void tok_refuse(Load *l, const char *path, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    diag_add(l->g, DIAG_ERROR, json_place(l->file, l->text, l->bytes, path), NULL,
             "%s: %s", *path ? path : "tokenizer", gen_vprintf(l->g, fmt, ap));
    va_end(ap);
}

const char *tok_type_of(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));

    return type ? type : "(without a type)";
}

bool tok_flag(Load *l, const json_t *part, const char *path, const char *key,
              bool otherwise)
{
    const json_t *v = json_object_get(part, key);

    if (v && !json_is_boolean(v) && !json_is_null(v))
        tok_refuse(l, gen_printf(l->g, "%s.%s", path, key), "is true or false");
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

void tok_must_lack(Load *l, const json_t *part, const char *path, const char *key)
{
    const json_t *v = json_object_get(part, key);

    if (v && !json_is_null(v) && !json_is_false(v) &&
        !(json_is_string(v) && json_string_length(v) == 0))
        tok_refuse(l, gen_printf(l->g, *path ? "%s.%s" : "%s%s", path, key),
                   "is not supported");
}

/* Members that files saved after training often have, and that do not affect the ids. */
static void warn_unused(Load *l, const char *key)
{
    const json_t *v = json_object_get(l->root, key);

    if (v && !json_is_null(v))
        diag_add(l->g, DIAG_WARNING, json_place(l->file, l->text, l->bytes, key), NULL,
                 "%s: is ignored: whole documents are tokenized", key);
}

/* Is WORD one of WORDS, which are separated by single spaces? */
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

void tok_check_keys(Load *l, json_t *part, const char *path, const char *known)
{
    const char *key;
    json_t *v;

    json_object_foreach(part, key, v)
    {
        if (!is_among(known, key))
            tok_refuse(l, gen_printf(l->g, *path ? "%s.%s" : "%s%s", path, key),
                       "is not a part that is known here");
    }
}

/* ---- cutting --------------------------------------------------------------------- */

static void add_regex(Load *l, const char *path, const char *pattern, size_t n,
                      bool literal)
{
    char error[TOK_ERROR_BYTES] = "";

    if (l->t->steps == TOK_MAX_STEPS) {
        tok_refuse(l, path, "has more than %d steps", TOK_MAX_STEPS);
        return;
    }
    l->t->step[l->t->steps] = tok_regex_open(pattern, n, literal, error);
    if (l->t->step[l->t->steps])
        l->t->steps++;
    else
        tok_refuse(l, path, "%s", error);
}

void tok_add_step(Load *l, const char *path, const char *pattern)
{
    add_regex(l, path, pattern, strlen(pattern), false);
}

static void read_split(Load *l, json_t *part, const char *path)
{
    const char *behavior = json_string_value(json_object_get(part, "behavior"));
    const json_t *pattern = json_object_get(part, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex");
    const json_t *string = json_object_get(pattern, "String");
    const json_t *p = regex ? regex : string;

    tok_check_keys(l, part, path, "type pattern behavior invert");
    if (behavior && !strcmp(behavior, "MergedWithPrevious") && l->t->spaces.to &&
        json_is_string(string) && !strcmp(json_string_value(string), " "))
        return; /* no space is left */
    if (!behavior || strcmp(behavior, "Isolated"))
        tok_refuse(l, gen_printf(l->g, "%s.behavior", path),
                   "the behavior %s is not supported; Isolated is",
                   behavior ? behavior : "(none)");
    if (!json_is_string(p) || json_string_length(p) == 0)
        tok_refuse(l, gen_printf(l->g, "%s.pattern", path), "is a Regex or a String");
    else
        add_regex(l, gen_printf(l->g, "%s.pattern.%s", path, regex ? "Regex" : "String"),
                  json_string_value(p), json_string_length(p), !regex);
}

/* Returns whether this part, or one in a sequence, is ByteLevel; nothing may follow
 * that. */
static bool read_pre_tokenizer(Load *l, json_t *part, const char *path)
{
    const char *type = tok_type_of(part);
    const json_t *list = json_object_get(part, "pretokenizers");
    bool bytes = false;

    if (!strcmp(type, "ByteLevel")) {
        tok_check_keys(l, part, path, "type add_prefix_space trim_offsets use_regex");
        if (tok_flag(l, part, path, "add_prefix_space", true))
            tok_refuse(l, gen_printf(l->g, "%s.add_prefix_space", path),
                       "is not supported");
        if (tok_flag(l, part, path, "use_regex", true))
            tok_add_step(l, path, tok_gpt2_pattern);
        return true;
    }
    if (!strcmp(type, "Split")) {
        read_split(l, part, path);
    } else if (!strcmp(type, "Digits")) {
        tok_check_keys(l, part, path, "type individual_digits");
        if (tok_flag(l, part, path, "individual_digits", false))
            tok_add_step(l, path, "\\p{N}");
        else
            tok_add_step(l, path, "\\p{N}+");
    } else if (!strcmp(type, "Metaspace")) {
        tok_read_metaspace(l, part, path);
    } else if (!strcmp(type, "Sequence") && json_is_array(list)) {
        for (size_t i = 0; i < json_array_size(list) && i <= TOK_MAX_STEPS; i++) {
            const char *at = gen_printf(l->g, "%s.pretokenizers.%zu", path, i);

            if (bytes)
                tok_refuse(l, at, "comes after ByteLevel, where nothing is supported");
            bytes = read_pre_tokenizer(l, json_array_get(list, i), at) || bytes;
        }
    } else {
        tok_refuse(
            l, path,
            "the pre-tokenizer %s is not supported; Split, Digits, ByteLevel, Metaspace "
            "and a Sequence of them are",
            type);
    }
    return bytes;
}

/* Words of bytes, or of characters with bytes for the others: what a text begins as. */
static void read_pre_tokenizers(Load *l, json_t *part)
{
    const bool none = !part || json_is_null(part),
               bytes = !(none && l->characters) &&
                       read_pre_tokenizer(l, part, "pre_tokenizer");

    if (diag_errors(l->g) > l->before)
        return;
    if (!l->characters && !bytes)
        tok_refuse(l, "pre_tokenizer",
                   "is not byte-level: it has no ByteLevel, and the model has no "
                   "byte_fallback");
    else if (l->characters && bytes)
        tok_refuse(l, "model.byte_fallback", "after ByteLevel is not supported");
    else if (!l->characters && l->t->spaces.to)
        tok_refuse(l, "model.byte_fallback",
                   "must be true where spaces are written as `%s`", l->t->spaces.to);
}

/* ---- tokens around a text -------------------------------------------------------- */

static void add_around(Load *l, const json_t *tokens, const char *name, const char *path,
                       bool after)
{
    const json_t *ids = json_object_get(json_object_get(tokens, name), "ids");
    uint32_t *to = after ? l->t->after : l->t->before;
    int *n = after ? &l->t->n_after : &l->t->n_before;

    if (!json_is_array(ids) || json_array_size(ids) == 0)
        tok_refuse(l, path, "the special token `%s` has no ids", name);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);

        if (*n == TOK_MAX_AROUND || !json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) > TOK_MAX_ID) {
            tok_refuse(l, path, "the special token `%s`: too many ids, or an invalid one",
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

    tok_check_keys(l, part, path, "type single pair special_tokens");
    if (l->has_template)
        tok_refuse(l, path, "a second TemplateProcessing is not supported");
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
            tok_refuse(l, at, "is neither a SpecialToken nor the one Sequence A");
    }
    if (!seen)
        tok_refuse(l, gen_printf(l->g, "%s.single", path), "has no Sequence A");
}

static void read_post_processor(Load *l, json_t *part, const char *path)
{
    const json_t *list = json_object_get(part, "processors");

    if (!part || json_is_null(part) || !strcmp(tok_type_of(part), "ByteLevel"))
        return; /* offsets only */
    if (!strcmp(tok_type_of(part), "TemplateProcessing")) {
        read_template(l, part, path);
    } else if (!strcmp(tok_type_of(part), "Sequence") && json_is_array(list) &&
               json_array_size(list) <= TOK_MAX_STEPS) {
        for (size_t i = 0; i < json_array_size(list); i++)
            read_post_processor(l, json_array_get(list, i),
                                gen_printf(l->g, "%s.processors.%zu", path, i));
    } else {
        tok_refuse(
            l, path,
            "the post-processor %s is not supported; ByteLevel, TemplateProcessing and "
            "a Sequence of them are",
            tok_type_of(part));
    }
}

/* ---- the vocabulary -------------------------------------------------------------- */

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
        char *raw;

        if (!json_is_integer(value) || id < 0 || id > TOK_MAX_ID) {
            tok_refuse(l, "model.vocab", "`%.40s` has no id from 0 to %d", key,
                       TOK_MAX_ID);
            return;
        }
        l->t->max_id = (uint32_t)id > l->t->max_id ? (uint32_t)id : l->t->max_id;
        if (l->characters)
            continue;
        raw = gen_alloc(l->g, len + 1);
        if (!tok_raw_bytes(key, len, raw, &n) || n == 0)
            continue;
        if (n == 1) {
            v->byte_id[(unsigned char)raw[0]] = (uint32_t)id;
            have[(unsigned char)raw[0]] = true;
        }
        if (words)
            tok_word_put(v, raw, n, (uint32_t)id);
    }
    if (l->characters) {
        tok_read_characters(l, slots_for(json_object_size(l->vocab)));
        return;
    }
    for (int b = 0; b < 256; b++)
        if (!have[b]) {
            tok_refuse(l, "model.vocab",
                       "has no token for byte %d, so it is not byte-level", b);
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
        tok_refuse(l, gen_printf(l->g, "model.merges.%u", rank), "is not two parts");
        return false;
    }
    if (!id_of_part(l, a, &left) || !id_of_part(l, b, &right) ||
        !id_of_part(l, gen_printf(l->g, "%s%s", a, b), &id)) {
        tok_refuse(l, gen_printf(l->g, "model.merges.%u", rank),
                   "`%.40s` and `%.40s`: they or what they make is not in the vocabulary",
                   a, b);
        return false;
    }
    if (l->characters &&
        tok_byte_word(gen_printf(l->g, "%s%s", a, b), strlen(a) + strlen(b)) >= 0) {
        tok_refuse(l, gen_printf(l->g, "model.merges.%u", rank),
                   "makes the token of a byte, which is not supported");
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

    if (!json_is_object(model) || strcmp(tok_type_of(model), "BPE")) {
        tok_refuse(l, "model", "the model %s is not supported; BPE is",
                   tok_type_of(model));
        return;
    }
    tok_check_keys(
        l, model, "model",
        "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk "
        "byte_fallback ignore_merges vocab merges");
    tok_must_lack(l, model, "model", "dropout");
    tok_must_lack(l, model, "model", "continuing_subword_prefix");
    tok_must_lack(l, model, "model", "end_of_word_suffix");
    if (l->characters)
        tok_must_lack(l, model, "model", "ignore_merges");
    if (!json_is_object(l->vocab) || !json_is_array(merges)) {
        tok_refuse(l, "model", "has no vocab or no merges");
        return;
    }
    read_vocab(l, tok_flag(l, model, "model", "ignore_merges", false));
    if (diag_errors(l->g) > l->before)
        return;
    v->merge_slots = slots_for(json_array_size(merges));
    v->merges = gen_alloc(l->g, v->merge_slots * sizeof *v->merges);
    memset(v->merges, -1, v->merge_slots * sizeof *v->merges);
    mark = gen_mark(l->g);
    for (size_t i = 0; i < json_array_size(merges) && good; i++)
        good = read_merge(l, json_array_get(merges, i), (uint32_t)i);
    if (good) {
        gen_release(l->g, mark);
        tok_merges_done(l->g, v, json_array_size(merges));
    }
}

/* ---- the file -------------------------------------------------------------------- */

static bool parse(Load *l)
{
    json_error_t error;
    const char *problem;
    int e;

    e = file_read(l->file, MAX_FILE_BYTES, &l->text, &l->bytes);
    if (e) {
        diag_add(l->g, DIAG_ERROR, (Pos){.file = l->file},
                 "--tokenizer FILE: a tokenizer.json, or the folder of one", "%s",
                 e == EFBIG ? "is larger than 256 MiB: no tokenizer.json"
                            : file_problem(e));
        return false;
    }
    diag_source(l->g, l->file, l->text, l->bytes);
    problem = tok_no_text(l->text, l->bytes, l->text + (l->bytes < 4 ? 0 : l->bytes - 4));
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
        tok_refuse(l, "", "a tokenizer.json is one object");
    return json_is_object(l->root);
}

bool tok_load(Gen *g, Tokenizer *t, const char *file, TokUse use)
{
    Load l = {.g = g, .t = t, .file = file, .before = diag_errors(g), .newest = -1};

    *t = (Tokenizer){.file = file};
    if (!parse(&l))
        return false;
    l.added = json_object();
    tok_check_keys(&l, l.root, "",
                   "version truncation padding added_tokens normalizer pre_tokenizer "
                   "post_processor decoder model");
    warn_unused(&l, "truncation");
    warn_unused(&l, "padding");
    l.vocab = json_object_get(json_object_get(l.root, "model"), "vocab");
    l.characters =
        json_is_true(json_object_get(json_object_get(l.root, "model"), "byte_fallback"));
    tok_read_normalizer(&l, json_object_get(l.root, "normalizer"), "normalizer");
    read_pre_tokenizers(&l, json_object_get(l.root, "pre_tokenizer"));
    read_post_processor(&l, json_object_get(l.root, "post_processor"), "post_processor");
    tok_read_added(&l, json_object_get(l.root, "added_tokens"));
    read_model(&l, json_object_get(l.root, "model"));
    tok_read_decoder(&l, json_object_get(l.root, "decoder"));
    if (l.characters && diag_errors(g) == l.before)
        tok_cut_words(&l);
    if (use != TOK_FOR_TEXTS && diag_errors(g) == l.before)
        tok_read_pieces(&l, use);
    if (use == TOK_FOR_CHATS)
        tok_check_chats(&l);
    json_decref(l.root);
    json_decref(l.added);
    return diag_errors(g) == l.before;
}
