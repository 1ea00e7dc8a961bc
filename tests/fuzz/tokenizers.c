/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tokenizers SEED FIRST COUNT FOLDER: the tokenizer.json files of tests/tokenize
 * with a few bytes, words or stretches changed. Each is refused with a message that has a
 * place, or taken; then ids of a text are within its vocabulary, and the same whether the
 * text is done at once or in stretches. Batches run in processes of their own, so that
 * their memory ends with them. */
#include "mutate.h"
#include "tokenize.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 100, MAX_FILES = 3, TEXT_BYTES = 3000 };

static Str original[MAX_FILES];

static void change(Random *r, Str *s)
{
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
                                        "\"Split\""};
    const size_t at = random_below(r, (uint32_t)s->n), n = random_below(r, 40);
    const char *word = words[random_below(r, sizeof words / sizeof *words)];
    Str to = {0};

    switch (random_below(r, 8)) {
    case 5:
    case 6:
    case 7: /* another number */
        for (size_t k = at; k < s->n; k++)
            if (s->s[k] >= '0' && s->s[k] <= '9') {
                s->s[k] = (char)('0' + random_below(r, 10));
                break;
            }
        return;
    case 0:
        s->s[at] ^= (char)(1 << random_below(r, 8));
        return;
    case 1:
        s->s[at] = "\"{}[],:\\0123456789 "[random_below(r, 19)];
        return;
    case 2: /* cut out, or off */
        if (random_below(r, 4) == 0)
            s->n = at + 1;
        else if (at + n < s->n)
            memmove(s->s + at, s->s + at + n, s->n - at - n), s->n -= n;
        return;
    case 3: /* a value becomes another */
        str_add(&to, s->s, at);
        str_add(&to, word, strlen(word));
        for (size_t k = at; k < s->n; k++)
            if (strchr(",}]", s->s[k])) {
                str_add(&to, s->s + k, s->n - k);
                break;
            }
        break;
    default:
        str_add(&to, s->s, at);
        str_add(&to, word, strlen(word));
        str_add(&to, s->s + at, s->n - at);
    }
    free(s->s);
    *s = to;
}

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
    for (size_t i = 0; i < whole.n; i++)
        if (whole.id[i] > t->max_id)
            return "an id above the largest";
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

static const char *run_case(Random *r, int files, int *taken)
{
    const Str *from = &original[random_below(r, (uint32_t)files)];
    Str s = {0};
    Gen g = {0};
    Tokenizer t;
    FILE *f = fopen("t.json", "we");

    str_add(&s, from->s, from->n);
    for (uint32_t k = 1 + random_below(r, 3); k && s.n > 0; k--)
        change(r, &s);
    if (!f || fwrite(s.s, 1, s.n, f) != s.n || fclose(f) != 0)
        return "the file cannot be written";
    free(s.s);
    if (!tok_load(&g, &t, "t.json", random_below(r, 2)))
        return diag_errors(&g) > 0 ? NULL : "refused without a word";
    ++*taken;
    return diag_errors(&g) > 0 ? "taken with an error" : check_ids(r, &t);
}

static int run_batch(uint64_t seed, uint64_t first, int count, int files)
{
    int taken = 0, wrong = 0;

    for (int i = 0; i < count; i++) {
        Random r;
        const char *problem;

        random_start(&r, seed, first + (uint64_t)i);
        problem = run_case(&r, files, &taken);
        if (problem) {
            wrong++;
            printf("FAIL case %llu: %s\n", (unsigned long long)first + (unsigned)i,
                   problem);
        }
    }
    fflush(stdout);
    _exit(wrong ? 101 : taken);
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
    const int files = argc == 5 ? read_files() : 0;
    int count, wrong = 0, taken = 0;

    if (files == 0 || chdir(argv[4]) != 0) {
        fprintf(stderr, "usage: fuzz_tokenizers SEED FIRST COUNT FOLDER\n");
        return 2;
    }
    count = atoi(argv[3]);
    for (int at = 0; at < count; at += BATCH) {
        const int n = count - at < BATCH ? count - at : BATCH;
        const uint64_t first = strtoull(argv[2], NULL, 10) + (uint64_t)at;
        pid_t child = fork();
        int status = 0;

        if (child == 0)
            run_batch(strtoull(argv[1], NULL, 10), first, n, files);
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) > BATCH) {
            wrong++;
            printf("FAIL cases %llu to %llu: status %x\n", (unsigned long long)first,
                   (unsigned long long)first + (unsigned)n - 1, (unsigned)status);
        } else {
            taken += WEXITSTATUS(status);
        }
    }
    printf("%d refused, %d taken\n", count - taken, taken);
    printf("%d passed, %d failed\n", count - wrong, wrong);
    return wrong || (count >= 300 && (taken < count / 50));
}
