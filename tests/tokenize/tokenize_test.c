/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_test: what run.sh cannot see from outside. Merges of long pieces are those of
 * a search for the best pair, in n log n steps; a whole text of one letter, too, however
 * many jobs it is cut into; a file that changes between two reads is an error at its end.
 */
#include "gen.h"
#include "tokenize/tokenize.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static Gen gen;
static Tokenizer tokenizers[3];

static int load(void **unused)
{
    static const char *const names[] = {"gpt2", "llama3", "qwen"};

    (void)unused;
    for (int i = 0; i < 3; i++)
        if (!tok_load(
                &gen, &tokenizers[i],
                gen_printf(&gen, SOURCE_DIR "/tests/tokenize/data/%s.json", names[i]),
                TOK_FOR_TEXTS)) {
            diag_print(&gen);
            return 1;
        }
    return 0;
}

/* ---- merges ---------------------------------------------------------------------- */

enum { MAX_IDS = 2048 };

/* The rank of a pair, or UINT32_MAX, by a table of all. */
static uint32_t *ranks_of(const TokVocab *v)
{
    uint32_t *rank = malloc(sizeof *rank * MAX_IDS * MAX_IDS);

    memset(rank, -1, sizeof *rank * MAX_IDS * MAX_IDS);
    for (size_t r = 0; r < v->n_rules; r++)
        rank[v->rules[r].left * MAX_IDS + v->rules[r].right] = (uint32_t)r;
    return rank;
}

/* The best pair first, the leftmost of equals, until there is none. */
static size_t merge_by_search(const TokVocab *v, const uint32_t *rank, uint32_t *id,
                              size_t n)
{
    for (;;) {
        uint32_t best = UINT32_MAX;
        size_t at = 0;

        for (size_t i = 0; i + 1 < n; i++)
            if (rank[id[i] * MAX_IDS + id[i + 1]] < best) {
                best = rank[id[i] * MAX_IDS + id[i + 1]];
                at = i;
            }
        if (best == UINT32_MAX)
            return n;
        id[at] = v->rules[best].id;
        memmove(id + at + 1, id + at + 2, (n - at - 2) * sizeof *id);
        n--;
    }
}

static void long_pieces_are_merged_alike(void **unused)
{
    static const char *const letters[] = {
        "a", "ab", "the ", "0123456789", "etaoin shrdlu", "\n \t"};
    unsigned state = 1;

    (void)unused;
    for (int k = 0; k < 3; k++) {
        const TokVocab *v = &tokenizers[k].vocab;
        TokVocab by_heap = *v;
        uint32_t *rank = ranks_of(v), id[400];
        TokBpe *b = tok_bpe_open();

        assert_non_null(v->rules);
        by_heap.rules = NULL;
        for (int i = 0; i < 600; i++) {
            const char *from = letters[i % 6];
            char s[400];
            const size_t n = 65 + (size_t)(state >> 16) % 300;
            TokIds ids = {0}, again = {0};
            size_t left;

            for (size_t j = 0; j < n; j++) {
                state = state * 1103515245 + 12345;
                s[j] = from[(state >> 16) % strlen(from)];
                id[j] = v->byte_id[(unsigned char)s[j]];
            }
            left = merge_by_search(v, rank, id, n);
            tok_bpe_piece(v, b, s, n, &ids);
            tok_bpe_piece(&by_heap, b, s, n, &again);
            if (!v->words) { /* else a word may be one id */
                assert_int_equal(ids.n, left);
                assert_memory_equal(ids.id, id, left * sizeof *id);
            }
            assert_int_equal(ids.n, again.n);
            assert_memory_equal(ids.id, again.id, ids.n * sizeof *ids.id);
            free(ids.id);
            free(again.id);
        }
        tok_bpe_close(b);
        free(rank);
    }
}

/* Merges in any order, of parts that were or were not yet made. */
static void any_vocabulary(void **unused)
{
    unsigned state = 7;
    int in_order = 0, others = 0;

    (void)unused;
    for (int k = 0; k < 300; k++) {
        enum { LETTERS = 3, MERGES = 12 };
        const uint32_t parts = LETTERS + MERGES;
        TokVocab v = {.merge_slots = 64};
        uint32_t rank[LETTERS + MERGES][LETTERS + MERGES], id[200];
        TokBpe *b = tok_bpe_open();
        TokIds ids = {0};
        char s[200];
        size_t n = sizeof s;

        memset(rank, -1, sizeof rank);
        v.merges = gen_alloc(&gen, v.merge_slots * sizeof *v.merges);
        memset(v.merges, -1, v.merge_slots * sizeof *v.merges);
        for (uint32_t r = 0; r < MERGES; r++) {
            /* of what is made before in half of the vocabularies */
            const uint32_t from = k % 2 ? parts : LETTERS + r;
            const uint32_t left = (state = state * 1103515245 + 12345) / 65536 % from;
            const uint32_t right = (state = state * 1103515245 + 12345) / 65536 % from;

            tok_merge_put(&v, left, right, r, LETTERS + r);
        }
        tok_merges_done(&gen, &v, MERGES);
        v.rules ? in_order++ : others++;
        for (size_t i = 0; i < v.merge_slots; i++)
            if (v.merges[i].pair != UINT64_MAX)
                rank[v.merges[i].pair >> 32][(uint32_t)v.merges[i].pair] =
                    v.merges[i].rank;
        for (size_t i = 0; i < n; i++) {
            s[i] = (char)((state = state * 1103515245 + 12345) / 65536 % LETTERS);
            id[i] = v.byte_id[(int)s[i]] = (uint32_t)s[i];
        }
        tok_bpe_piece(&v, b, s, n, &ids);
        for (;;) {
            size_t best = n;

            for (size_t i = 0; i + 1 < n; i++)
                if (rank[id[i]][id[i + 1]] != UINT32_MAX &&
                    (best == n || rank[id[i]][id[i + 1]] < rank[id[best]][id[best + 1]]))
                    best = i;
            if (best == n)
                break;
            id[best] = LETTERS + rank[id[best]][id[best + 1]];
            memmove(id + best + 1, id + best + 2, (n - best - 2) * sizeof *id);
            n--;
        }
        assert_int_equal(ids.n, n);
        assert_memory_equal(ids.id, id, n * sizeof *id);
        free(ids.id);
        tok_bpe_close(b);
    }
    assert_true(in_order >= 100 && others >= 100);
}

/* ---- steps ----------------------------------------------------------------------- */

static void fill(char *s, size_t n, const char *with)
{
    for (size_t i = 0; i < n; i++)
        s[i] = with[i % strlen(with)];
}

static void long_pieces_take_few_steps(void **unused)
{
    static const char *const with[] = {"a", "ab", " ", "the", "aab", "\n"};
    const size_t most = 1 << 20;
    char *s = malloc(most);

    (void)unused;
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 6; i++)
            for (size_t n = 1 << 12; n <= most; n *= 16) {
                TokBpe *b = tok_bpe_open();
                TokIds ids = {0};

                fill(s, n, with[i]);
                tok_bpe_piece(&tokenizers[k].vocab, b, s, n, &ids);
                assert_true(tok_bpe_steps(b) > 0);
                assert_true(tok_bpe_steps(b) <= 4 * n);
                free(ids.id);
                tok_bpe_close(b);
            }
    free(s);
}

static char path[] = "/tmp/fsdpgen-tokenize-test-XXXXXX";

static void write_text(const char *s, size_t n)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    for (size_t at = 0; at < n;) {
        const ssize_t sent = write(fd, s + at, n - at);

        assert_true(sent > 0);
        at += (size_t)sent;
    }
    close(fd);
}

static TokOptions options(int threads)
{
    TokOptions o = {.threads = threads, .end_id = -1};

    *gen_push(&gen, &o.inputs) = path;
    return o;
}

static bool count_ids(void *with, const TokIds *ids, char *error)
{
    (void)error;
    *(size_t *)with += ids->n;
    return true;
}

static void a_text_of_one_letter(void **unused)
{
    const size_t n = 3 << 20; /* twelve jobs */
    char *s = malloc(n);

    (void)unused;
    for (int k = 0; k < 3; k++)
        for (int threads = 1; threads <= 4; threads += 3) {
            const TokOptions o = options(threads);
            char error[TOK_ERROR_BYTES] = "";
            size_t ids = 0;
            const TokSink sink = {count_ids, &ids};
            TokTotals t;

            fill(s, n, " ");
            write_text(s, n);
            assert_true(tok_run(&tokenizers[k], &o, &sink, &t, error));
            assert_int_equal(t.tokens, ids);
            assert_true(t.steps > 0 && t.steps <= 5 * n);
        }
    free(s);
    unlink(path);
}

/* ---- files that change ----------------------------------------------------------- */

static void overwrite(int fd)
{
    assert_int_equal(pwrite(fd, "\xff\xff\xff\xff", 4, 2 << 20), 4);
}

static void cut_off(int fd)
{
    assert_int_equal(ftruncate(fd, 1 << 20), 0);
}

static void append(int fd)
{
    assert_int_equal(pwrite(fd, "more", 4, 8 << 20), 4);
}

static void write_the_same(int fd)
{
    assert_int_equal(pwrite(fd, "w", 1, 0), 1);
}

static void files_that_change(void **unused)
{
    static void (*const changes[])(int) = {overwrite, cut_off, append, write_the_same};
    const size_t n = 8 << 20;
    char *s = malloc(n);

    (void)unused;
    fill(s, n, "word and another\n");
    for (int lines = 0; lines < 2; lines++)
        for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
            TokOptions o = options(1);
            char error[TOK_ERROR_BYTES] = "";
            TokReader *r;
            TokJob job;
            int fd;

            o.jsonl = lines;
            write_text(s, n);
            r = tok_reader_open(&tokenizers[0], &o);
            assert_true(tok_reader_next(r, &job, error));
            fd = open(path, O_RDWR | O_CLOEXEC);
            assert_true(fd >= 0);
            changes[i](fd);
            close(fd);
            do
                free(job.s);
            while (tok_reader_next(r, &job, error));
            if (!strstr(error, "byte 2097152 is not UTF-8")) /* seen before its end */
                assert_non_null(strstr(error, "another program changed it while it was"));
            assert_non_null(strstr(error, path));
            tok_reader_close(r);
        }
    free(s);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_pieces_are_merged_alike),
        cmocka_unit_test(any_vocabulary),
        cmocka_unit_test(long_pieces_take_few_steps),
        cmocka_unit_test(a_text_of_one_letter),
        cmocka_unit_test(files_that_change),
    };
    const int fd = mkstemp(path);

    if (fd < 0)
        return 1;
    close(fd);
    return cmocka_run_group_tests(tests, load, NULL);
}
