/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tokenizers SEED FIRST COUNT FOLDER: the tokenizer.json files of tests/tokenize
 * with a few bytes, words or stretches changed. Each is refused with a message that has a
 * place, or taken; then ids of a text are within its vocabulary, have texts themselves,
 * and are the same whether the text is done at once or in stretches, of which some see
 * little of what follows them. Chat templates, in Lua and in Jinja, are changed, too:
 * what comes of a chat is an error, or ids with a mask, and the same ones again. */
#include "batch.h"
#include "gen.h"
#include "tokenize/tokenize.h"

#include <string.h>

enum { MAX_FILES = 6, MAX_TEMPLATES = 5, TEXT_BYTES = 3000 };

static Str original[MAX_FILES], template[MAX_TEMPLATES];
static int files;

static const char *const words[] = {"null",
                                    "true",
                                    "-1",
                                    "0.5",
                                    "1e400",
                                    "99999999999999999999",
                                    "2147483647",
                                    "{}",
                                    "[]",
                                    "\"\"",
                                    "\"\\u0000\"",
                                    "\"\\ud800\"",
                                    "\"NFC\"",
                                    "\"BPE\"",
                                    "[[[[[[",
                                    "\xff",
                                    "\"",
                                    "\\p{L",
                                    "(?:",
                                    "[^",
                                    "{1,",
                                    "\"a b\"",
                                    "[\"a\",\"b\"]",
                                    "\"Sequence\"",
                                    "\"Split\"",
                                    "\"Metaspace\"",
                                    "\"Prepend\"",
                                    "\"Replace\"",
                                    "\"\xe2\x96\x81\"",
                                    NULL};

static size_t random_text(Random *r, char *s)
{
    static const char *const parts[] = {"the ",
                                        "word",
                                        "\n",
                                        " ",
                                        "  \n\n",
                                        "'s",
                                        "123",
                                        "!?",
                                        "\xc3\xa9",
                                        "e\xcc\x81",
                                        "<|im_end|>",
                                        "<left>",
                                        "\xe4\xb8\xad",
                                        "\xf0\x9f\x98\x80",
                                        "\t"};
    size_t n = 0;

    for (uint32_t k = random_below(r, 300); k && n < TEXT_BYTES - 16; k--) {
        const char *part = parts[random_below(r, sizeof parts / sizeof *parts)];

        memcpy(s + n, part, strlen(part));
        n += strlen(part);
    }
    return n;
}

static const char *check_ids(Random *r, const Tokenizer *t)
{
    TokWorker w = {.tok = t, .match = tok_match_open(), .bpe = tok_bpe_open()};
    char s[TEXT_BYTES];
    const size_t n = random_text(r, s), cut = random_below(r, (uint32_t)n + 1);
    TokIds whole = {0}, parts = {0};
    size_t end = 0, at, seen = random_below(r, (uint32_t)n + 1);

    if (!tok_encode(&w, s, n, true, &whole))
        return w.error[0] ? NULL : "a text refused without a message";
    for (size_t i = 0; i < whole.n; i++) {
        if (whole.id[i] > t->max_id)
            return "an id above the largest";
        if (t->vocab.pieces && !t->vocab.pieces[whole.id[i]].s)
            return "an id without a text";
    }
    whole.n = 0;
    if (!tok_encode_stretch(&w, s, n, true, n, &end, &whole))
        return w.error[0] ? NULL : "a stretch refused without a message";
    while (seen < n && ((unsigned char)s[seen] & 0xC0) == 0x80)
        seen++;
    if (!tok_encode_stretch(&w, s, seen, seen == n, cut < seen ? cut : seen, &end,
                            &parts))
        return w.error[0] ? NULL : "a stretch refused without a message";
    at = end;
    if (!tok_encode_stretch(&w, s + at, n - at, true, n - at, &end, &parts))
        return "a stretch refused, but not the whole";
    return whole.n == parts.n &&
                   (whole.n == 0 || !memcmp(whole.id, parts.id, whole.n * 4))
               ? NULL
               : "stretches have other ids";
}

static bool write_file(const char *name, const Str *s)
{
    FILE *f = fopen(name, "we");

    return f && fwrite(s->s, 1, s->n, f) == s->n && fclose(f) == 0;
}

/* ---- chats ----------------------------------------------------------------------- */

static json_t *random_chat(Random *r)
{
    static const char *const roles[] = {"user", "assistant", "system", "critic"};
    json_t *list = json_array();
    char s[TEXT_BYTES];

    for (uint32_t k = 1 + random_below(r, 4); k; k--) {
        const size_t n = random_text(r, s);

        json_array_append_new(
            list,
            json_pack("{s:s, s:s%}", "role", roles[random_below(r, 4)], "content", s, n));
    }
    return json_pack("{s:o}", "messages", list);
}

/* A chat twice: the same ids and targets, or an error. */
static const char *run_chat(TokWorker *w, const json_t *record)
{
    const json_t *messages = json_object_get(record, "messages");
    char error[2][TOK_ERROR_BYTES] = {"", ""};
    TokIds ids[2] = {{0}, {0}};
    bool good[2];

    for (int i = 0; i < 2; i++) {
        good[i] = tok_chat_run(w->chat, messages, record, &ids[i], error[i]);
        if (!good[i] && !error[i][0])
            return "a chat refused without a message";
    }
    if (good[0] != good[1] || strcmp(error[0], error[1]) != 0)
        return "a chat is refused once of twice";
    for (size_t k = 0; good[0] && k < ids[0].n; k++)
        if (ids[0].id[k] > w->tok->max_id || ids[0].target[k] > 1)
            return "an id above the largest, or no mask";
    return good[0] && (ids[0].n != ids[1].n ||
                       (ids[0].n && (memcmp(ids[0].id, ids[1].id, ids[0].n * 4) ||
                                     memcmp(ids[0].target, ids[1].target, ids[0].n))))
               ? "a chat has other ids, or another mask, again"
               : NULL;
}

static const char *chat_case(Random *r, int *taken)
{
    TokWorker w = {.match = tok_match_open(), .bpe = tok_bpe_open()};
    char error[TOK_ERROR_BYTES] = "";
    const uint32_t which = random_below(r, MAX_TEMPLATES);
    const char *problem = NULL, *name = which == 0 ? "t.lua" : "t.jinja";
    Str s = {0};
    Gen g = {0};
    Tokenizer t;

    str_add(&s, template[which].s, template[which].n);
    for (uint32_t k = random_below(r, 4); k; k--)
        mutate_text(r, &s);
    if (!write_file("t.json", &original[random_below(r, 2) ? 2 : 4]) ||
        !write_file(name, &s))
        return "a file cannot be written";
    free(s.s);
    if (!tok_load(&g, &t, "t.json", TOK_FOR_CHATS))
        return "the tokenizer is refused";
    w.tok = &t;
    w.chat = tok_chat_open(&w, name, error);
    if (!w.chat)
        return error[0] ? NULL : "a template refused without a message";
    ++*taken;
    for (int k = 0; k < 3 && !problem; k++)
        problem = run_chat(&w, random_chat(r));
    tok_chat_close(w.chat);
    return problem;
}

/* ---- tokenizers ------------------------------------------------------------------ */

static const char *run_case(Random *r, int *taken)
{
    const Str *from = &original[random_below(r, (uint32_t)files)];
    Str s = {0};
    Gen g = {0};
    Tokenizer t;

    if (random_below(r, 4) == 0)
        return chat_case(r, taken);
    str_add(&s, from->s, from->n);
    for (uint32_t k = 1 + random_below(r, 3); k && s.n > 0; k--)
        mutate_json(r, &s, words);
    if (!write_file("t.json", &s))
        return "the file cannot be written";
    free(s.s);
    if (!tok_load(&g, &t, "t.json", (TokUse)random_below(r, 3)))
        return diag_errors(&g) > 0 ? NULL : "refused without a message";
    ++*taken;
    return diag_errors(&g) > 0 ? "taken with an error" : check_ids(r, &t);
}

static bool read_file(const char *name, Str *to)
{
    char path[4096];
    size_t n;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", SOURCE_DIR, name);
    f = fopen(path, "re");
    while (f && (n = fread(path, 1, sizeof path, f)) > 0)
        str_add(to, path, n);
    return f && fclose(f) == 0;
}

static int read_files(void)
{
    static const char *const templates[] = {
        "templates/chat/chatml.lua", "tests/tokenize/templates/qwen3.jinja",
        "tests/tokenize/templates/llama3.jinja", "tests/tokenize/templates/granite.jinja",
        "tests/tokenize/templates/gemma.jinja"};
    static const char *const names[] = {"gpt2",   "llama3", "qwen",
                                        "llama2", "phi3",   "gemma"};

    for (int i = 0; i < MAX_FILES; i++) {
        char name[64];

        snprintf(name, sizeof name, "tests/tokenize/data/%s.json", names[i]);
        if (!read_file(name, &original[i]))
            return 0;
    }
    for (int i = 0; i < MAX_TEMPLATES; i++)
        if (!read_file(templates[i], &template[i]))
            return 0;
    return MAX_FILES;
}

int main(int argc, char **argv)
{
    files = argc == 5 ? read_files() : 0;
    if (files == 0 || chdir(argv[4]) != 0) {
        fprintf(stderr, "usage: fuzz_tokenizers SEED FIRST COUNT FOLDER\n");
        return 2;
    }
    return run_batches(argv, run_case);
}
