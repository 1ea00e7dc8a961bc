/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tokenizers SEED FIRST COUNT FOLDER: the tokenizer.json files of tests/tokenize
 * with a few bytes, words or stretches changed. Each is refused with a message that has a
 * place, or taken; then ids of a text are within its vocabulary, have texts themselves,
 * and are the same whether the text is done at once or in stretches. */
#include "batch.h"
#include "tokenize.h"

#include <string.h>

enum { MAX_FILES = 3, TEXT_BYTES = 3000 };

static Str original[MAX_FILES];
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
    size_t end = 0;

    if (!tok_encode(&w, s, n, &whole))
        return w.error[0] ? NULL : "a text refused without a word";
    for (size_t i = 0; i < whole.n; i++) {
        if (whole.id[i] > t->max_id)
            return "an id above the largest";
        if (t->vocab.pieces && !t->vocab.pieces[whole.id[i]].s)
            return "an id without a text";
    }
    whole.n = 0;
    if (!tok_encode_stretch(&w, s, n, 0, n, &end, &whole))
        return w.error[0] ? NULL : "a stretch refused without a word";
    if (!tok_encode_stretch(&w, s, n, 0, cut, &end, &parts) ||
        !tok_encode_stretch(&w, s, n, end, n, &end, &parts))
        return "a stretch refused, but not the whole";
    return whole.n == parts.n &&
                   (whole.n == 0 || !memcmp(whole.id, parts.id, whole.n * 4))
               ? NULL
               : "stretches have other ids";
}

static const char *run_case(Random *r, int *taken)
{
    const Str *from = &original[random_below(r, (uint32_t)files)];
    Str s = {0};
    Gen g = {0};
    Tokenizer t;
    FILE *f = fopen("t.json", "we");

    str_add(&s, from->s, from->n);
    for (uint32_t k = 1 + random_below(r, 3); k && s.n > 0; k--)
        mutate_json(r, &s, words);
    if (!f || fwrite(s.s, 1, s.n, f) != s.n || fclose(f) != 0)
        return "the file cannot be written";
    free(s.s);
    if (!tok_load(&g, &t, "t.json", (TokUse)random_below(r, 3)))
        return diag_errors(&g) > 0 ? NULL : "refused without a word";
    ++*taken;
    return diag_errors(&g) > 0 ? "taken with an error" : check_ids(r, &t);
}

static int read_files(void)
{
    static const char *const names[] = {"gpt2", "llama3", "qwen"};

    for (int i = 0; i < 3; i++) {
        char path[4096];
        size_t n;
        FILE *f;

        snprintf(path, sizeof path, "%s/tests/tokenize/data/%s.json", SOURCE_DIR,
                 names[i]);
        f = fopen(path, "re");
        if (!f)
            return 0;
        while ((n = fread(path, 1, sizeof path, f)) > 0)
            str_add(&original[i], path, n);
        fclose(f);
    }
    return 3;
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
