/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_bpe.c: BPE. In: a piece of a text. Out: its ids. A piece begins as its bytes'
 * ids, or as its characters'; the pair of neighbours whose merge ranks first, the
 * leftmost of equals, becomes one id, until no pair has a merge. Short pieces are
 * searched. Long ones, such as a megabyte without a space, go from rank to rank: what a
 * merge makes is part of later ones only, in all vocabularies that were learned, so all
 * pairs of a rank are known when it is reached, and are merged from left to right. Other
 * vocabularies keep their pairs in a heap. Both take n log n steps. Pieces that come
 * again, as words do, are remembered. */
#include "tokenize/tokenize.h"

#define XXH_INLINE_ALL
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { CACHE_SLOTS = 1 << 14, CACHE_BYTES = 24, CACHE_IDS = 8, SEARCH_BYTES = 64 };
#define NO_PAIR UINT64_MAX

typedef struct CacheSlot {
    uint8_t n, ids; /* n 0: empty */
    char s[CACHE_BYTES];
    uint32_t id[CACHE_IDS];
} CacheSlot;

/* A pair that may be merged: of the part at `at` and the next one. */
typedef struct Pair {
    uint32_t rank, at, left, right, id;
} Pair;

/* By ranks: the places of a rank's pairs form a chain through `pair`, from
 * first[rank]. */
typedef struct Ranks {
    uint32_t *first; /* [n_rules]: 1 + the last of the chain; 0: none */
    struct {
        uint32_t at, link;
    } * pair;
    uint32_t *due, *turn; /* a heap of ranks; places of one rank */
    size_t n, cap, n_due, due_cap, turn_cap;
} Ranks;

struct TokBpe {
    CacheSlot *cache;
    uint32_t *id, *prev, *next; /* parts, a linked list */
    size_t id_cap, prev_cap, next_cap;
    Pair *heap;
    size_t heap_n, heap_cap;
    Ranks ranks;
    uint64_t steps;
};

void *tok_grow(void *items, size_t *cap, size_t need, size_t item_bytes)
{
    size_t more = *cap ? *cap : 64;

    if (need <= *cap)
        return items;
    while (more < need)
        more += more / 2 + 1;
    items = more > SIZE_MAX / 2 / item_bytes ? NULL : realloc(items, more * item_bytes);
    if (!items)
        gen_out_of_memory(more * item_bytes);
    *cap = more;
    return items;
}

void tok_push(TokIds *ids, uint32_t id)
{
    if (ids->n == ids->cap)
        ids->id = tok_grow(ids->id, &ids->cap, ids->n + 1, sizeof *ids->id);
    ids->id[ids->n++] = id;
}

void tok_append(TokText *t, const char *s, size_t n)
{
    t->s = tok_grow(t->s, &t->cap, t->n + n + 1, 1);
    if (n)
        memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = '\0';
}

/* ---- tables ---------------------------------------------------------------------- */

static size_t pair_slot(uint64_t pair, size_t slots)
{
    pair *= UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(pair ^ pair >> 32) & (slots - 1);
}

static TokMerge *find_merge(const TokVocab *v, uint32_t left, uint32_t right)
{
    const uint64_t pair = (uint64_t)left << 32 | right;
    size_t at = pair_slot(pair, v->merge_slots);

    while (v->merges[at].pair != NO_PAIR && v->merges[at].pair != pair)
        at = (at + 1) & (v->merge_slots - 1);
    return &v->merges[at];
}

void tok_merge_put(TokVocab *v, uint32_t left, uint32_t right, uint32_t rank, uint32_t id)
{
    *find_merge(v, left, right) = (TokMerge){(uint64_t)left << 32 | right, rank, id};
}

typedef struct Use {
    uint32_t id, rank;
} Use;

static int by_id(const void *a, const void *b)
{
    const Use *x = a, *y = b;

    return x->id != y->id ? (x->id < y->id ? -1 : 1)
                          : (x->rank > y->rank) - (x->rank < y->rank);
}

/* Does the result of each merge occur only in merges of a higher rank? use: the two parts
 * of each merge, [2 n], by id. */
static bool ranks_rise(const TokVocab *v, const Use *use, size_t n)
{
    for (size_t i = 0; i < v->merge_slots; i++) {
        const TokMerge *m = &v->merges[i];
        size_t low = 0, high = 2 * n;

        if (m->pair == NO_PAIR)
            continue;
        while (low < high) { /* the first use of m->id */
            const size_t middle = low + (high - low) / 2;

            if (use[middle].id < m->id)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < 2 * n && use[low].id == m->id && use[low].rank <= m->rank)
            return false;
    }
    return true;
}

void tok_merges_done(Gen *g, TokVocab *v, size_t n)
{
    Use *use = gen_calloc(2 * n + 1, sizeof *use);
    size_t uses = 0;

    v->n_rules = n;
    v->rules = gen_alloc(g, (n + 1) * sizeof *v->rules);
    for (size_t i = 0; i < v->merge_slots; i++) {
        const TokMerge *m = &v->merges[i];
        const TokRule rule = {(uint32_t)(m->pair >> 32), (uint32_t)m->pair, m->id};

        if (m->pair == NO_PAIR)
            continue;
        v->rules[m->rank] = rule;
        use[uses++] = (Use){rule.left, m->rank};
        use[uses++] = (Use){rule.right, m->rank};
    }
    qsort(use, uses, sizeof *use, by_id);
    if (!ranks_rise(v, use, uses / 2))
        v->rules = NULL;
    free(use);
}

static TokWord *find_word(const TokVocab *v, const char *s, size_t n)
{
    const uint64_t hash = XXH3_64bits(s, n);
    size_t at = (size_t)hash & (v->word_slots - 1);

    while (v->words[at].s && (v->words[at].hash != hash || v->words[at].n != n ||
                              memcmp(v->words[at].s, s, n) != 0))
        at = (at + 1) & (v->word_slots - 1);
    return &v->words[at];
}

void tok_word_put(TokVocab *v, const char *s, size_t n, uint32_t id)
{
    *find_word(v, s, n) = (TokWord){s, (uint32_t)n, id, XXH3_64bits(s, n)};
}

/* ---- what a piece begins as ------------------------------------------------------ */

static TokChar *find_char(const TokVocab *v, uint32_t bytes)
{
    size_t at = pair_slot(bytes, v->char_slots);

    while (v->chars[at].bytes && v->chars[at].bytes != bytes)
        at = (at + 1) & (v->char_slots - 1);
    return &v->chars[at];
}

void tok_char_put(TokVocab *v, const char *s, size_t n, uint32_t id)
{
    uint32_t bytes = 0;

    memcpy(&bytes, s, n);
    *find_char(v, bytes) = (TokChar){bytes, id};
}

/* The ids, n at most, of its bytes; or of its characters, and of the bytes of those that
 * are not words. */
static size_t begin_ids(const TokVocab *v, const char *s, size_t n, uint32_t *id)
{
    size_t ids = 0;

    for (size_t at = 0, end; at < n; at = end) {
        uint32_t bytes = 0;

        for (end = at + 1; v->chars && end < n && end < at + 4; end++)
            if (((unsigned char)s[end] & 0xC0) != 0x80)
                break;
        memcpy(&bytes, s + at, end - at);
        if (v->chars && bytes && find_char(v, bytes)->bytes) {
            id[ids++] = find_char(v, bytes)->id;
            continue;
        }
        for (size_t k = at; k < end; k++)
            id[ids++] = v->byte_id[(unsigned char)s[k]];
    }
    return ids;
}

/* ---- short pieces ---------------------------------------------------------------- */

static void merge_short(const TokVocab *v, const char *s, size_t n, TokIds *out)
{
    uint32_t id[SEARCH_BYTES];
    const TokMerge *pair[SEARCH_BYTES];

    n = begin_ids(v, s, n, id);
    for (size_t i = 0; i + 1 < n; i++)
        pair[i] = find_merge(v, id[i], id[i + 1]);
    for (;;) {
        size_t best = n;

        for (size_t i = 0; i + 1 < n; i++)
            if (pair[i]->pair != NO_PAIR &&
                (best == n || pair[i]->rank < pair[best]->rank))
                best = i;
        if (best == n)
            break;
        id[best] = pair[best]->id;
        n--;
        memmove(id + best + 1, id + best + 2, (n - best - 1) * sizeof *id);
        if (best + 1 < n)
            memmove(pair + best + 1, pair + best + 2, (n - best - 1) * sizeof *pair);
        if (best > 0)
            pair[best - 1] = find_merge(v, id[best - 1], id[best]);
        if (best + 1 < n)
            pair[best] = find_merge(v, id[best], id[best + 1]);
    }
    for (size_t i = 0; i < n; i++)
        tok_push(out, id[i]);
}

/* ---- long pieces ----------------------------------------------------------------- */

static bool before(const Pair *a, const Pair *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_put(TokBpe *b, Pair p)
{
    size_t at = b->heap_n++;

    b->heap = tok_grow(b->heap, &b->heap_cap, b->heap_n, sizeof *b->heap);
    for (; at > 0 && before(&p, &b->heap[(at - 1) / 2]); at = (at - 1) / 2)
        b->heap[at] = b->heap[(at - 1) / 2];
    b->heap[at] = p;
}

static Pair heap_take(TokBpe *b)
{
    const Pair top = b->heap[0], p = b->heap[--b->heap_n];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < b->heap_n) {
        child += child + 1 < b->heap_n && before(&b->heap[child + 1], &b->heap[child]);
        if (!before(&b->heap[child], &p))
            break;
        b->heap[at] = b->heap[child];
        at = child;
    }
    b->heap[at] = p;
    return top;
}

/* ---- long pieces, by ranks ------------------------------------------------------- */

static void due_put(Ranks *k, uint32_t rank)
{
    size_t at = k->n_due++;

    k->due = tok_grow(k->due, &k->due_cap, k->n_due, sizeof *k->due);
    for (; at > 0 && rank < k->due[(at - 1) / 2]; at = (at - 1) / 2)
        k->due[at] = k->due[(at - 1) / 2];
    k->due[at] = rank;
}

static uint32_t due_take(Ranks *k)
{
    const uint32_t top = k->due[0], last = k->due[--k->n_due];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < k->n_due) {
        child += child + 1 < k->n_due && k->due[child + 1] < k->due[child];
        if (k->due[child] >= last)
            break;
        k->due[at] = k->due[child];
        at = child;
    }
    k->due[at] = last;
    return top;
}

static void rank_put(Ranks *k, uint32_t rank, uint32_t at)
{
    k->pair = tok_grow(k->pair, &k->cap, k->n + 1, sizeof *k->pair);
    k->pair[k->n].at = at;
    k->pair[k->n++].link = k->first[rank];
    if (k->first[rank] == 0)
        due_put(k, rank);
    k->first[rank] = (uint32_t)k->n;
}

static int by_place(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Puts the places of a rank's pairs into k->turn, from left to right. Most are in order
 * already. */
static size_t take_turn(TokBpe *b, uint32_t rank)
{
    Ranks *k = &b->ranks;
    bool ordered = true;
    size_t n = 0;

    for (uint32_t i = k->first[rank]; i > 0; i = k->pair[i - 1].link)
        n++;
    k->turn = tok_grow(k->turn, &k->turn_cap, n, sizeof *k->turn);
    b->steps += n;
    for (uint32_t i = k->first[rank], to = (uint32_t)n; i > 0; i = k->pair[i - 1].link) {
        k->turn[--to] = k->pair[i - 1].at;
        ordered = ordered && (to + 1 == n || k->turn[to] <= k->turn[to + 1]);
    }
    k->first[rank] = 0;
    if (!ordered) {
        qsort(k->turn, n, sizeof *k->turn, by_place);
        for (size_t i = n; i > 1; i /= 2)
            b->steps += n;
    }
    return n;
}

/* ---- long pieces ----------------------------------------------------------------- */

static void offer(const TokVocab *v, TokBpe *b, size_t at, size_t n)
{
    const size_t next = b->next[at];
    const TokMerge *m = next < n ? find_merge(v, b->id[at], b->id[next]) : NULL;

    b->steps++;
    if (!m || m->pair == NO_PAIR)
        return;
    if (v->rules)
        rank_put(&b->ranks, m->rank, (uint32_t)at);
    else
        heap_put(b, (Pair){m->rank, (uint32_t)at, b->id[at], b->id[next], m->id});
}

/* Merges the part at `at` with the next one, if both still exist. */
static void merge_at(const TokVocab *v, TokBpe *b, size_t at, TokRule rule, size_t n)
{
    const size_t next = b->next[at];

    if (next == 0 || next >= n || b->id[at] != rule.left || b->id[next] != rule.right)
        return; /* one of the two has changed since */
    b->id[at] = rule.id;
    b->next[at] = b->next[next];
    b->prev[b->next[next]] = (uint32_t)at;
    b->next[next] = 0;
    offer(v, b, at, n);
    if (b->prev[at] < n)
        offer(v, b, b->prev[at], n);
}

static void merge_by_ranks(const TokVocab *v, TokBpe *b, size_t n)
{
    Ranks *k = &b->ranks;

    while (k->n_due > 0) {
        const uint32_t rank = due_take(k);
        const size_t turns = take_turn(b, rank);

        for (size_t i = 0; i < turns; i++)
            merge_at(v, b, k->turn[i], v->rules[rank], n);
    }
    k->n = 0;
}

static void merge_by_heap(const TokVocab *v, TokBpe *b, size_t n)
{
    while (b->heap_n > 0) {
        const Pair p = heap_take(b);

        merge_at(v, b, p.at, (TokRule){p.left, p.right, p.id}, n);
    }
}

/* A part that was merged into the previous one has `next` 0. */
static void merge_long(const TokVocab *v, TokBpe *b, const char *s, size_t n, TokIds *out)
{
    b->id = tok_grow(b->id, &b->id_cap, n, sizeof *b->id);
    b->prev = tok_grow(b->prev, &b->prev_cap, n + 1, sizeof *b->prev);
    b->next = tok_grow(b->next, &b->next_cap, n, sizeof *b->next);
    if (v->rules && !b->ranks.first)
        b->ranks.first = gen_calloc(v->n_rules, sizeof *b->ranks.first);
    n = begin_ids(v, s, n, b->id);
    for (size_t i = 0; i < n; i++) {
        b->prev[i] = (uint32_t)(i ? i - 1 : n);
        b->next[i] = (uint32_t)(i + 1);
    }
    for (size_t i = 0; i + 1 < n; i++)
        offer(v, b, i, n);
    if (v->rules)
        merge_by_ranks(v, b, n);
    else
        merge_by_heap(v, b, n);
    for (size_t i = 0; i < n; i = b->next[i])
        tok_push(out, b->id[i]);
}

/* ---- pieces ---------------------------------------------------------------------- */

TokBpe *tok_bpe_open(void)
{
    TokBpe *b = gen_calloc(1, sizeof *b);

    b->cache = gen_calloc(CACHE_SLOTS, sizeof *b->cache);
    return b;
}

void tok_bpe_close(TokBpe *b)
{
    free(b->cache);
    free(b->id);
    free(b->prev);
    free(b->next);
    free(b->heap);
    free(b->ranks.first);
    free(b->ranks.pair);
    free(b->ranks.due);
    free(b->ranks.turn);
    free(b);
}

uint64_t tok_bpe_steps(const TokBpe *b)
{
    return b->steps;
}

static void encode(const TokVocab *v, TokBpe *b, const char *s, size_t n, TokIds *out)
{
    if (v->words) {
        const TokWord *word = find_word(v, s, n);

        if (word->s) {
            tok_push(out, word->id);
            return;
        }
    }
    if (n <= SEARCH_BYTES)
        merge_short(v, s, n, out);
    else
        merge_long(v, b, s, n, out);
}

/* ByteLevel writes bytes as characters: printable ones as themselves, the others in order
 * from U+0100 on. */
static int byte_of(int point)
{
    const int k = point - 0x100;

    if (k < 0)
        return (point >= 33 && point <= 126) || (point >= 161 && point != 173) ? point
                                                                               : -1;
    return k <= 32 ? k : k <= 66 ? 127 + k - 33 : k == 67 ? 173 : -1;
}

bool tok_raw_bytes(const char *s, size_t n, char *to, size_t *bytes)
{
    *bytes = 0;
    for (size_t i = 0; i < n;) {
        const unsigned char c = (unsigned char)s[i];
        const int point = c < 0x80                ? c
                          : c < 0xE0 && i + 1 < n ? (c & 31) << 6 | (s[i + 1] & 63)
                                                  : 0x7FF;

        if (byte_of(point) < 0)
            return false;
        to[(*bytes)++] = (char)byte_of(point);
        i += c < 0x80 ? 1 : 2;
    }
    return true;
}

void tok_bpe_piece(const TokVocab *v, TokBpe *b, const char *s, size_t n, TokIds *out)
{
    const size_t begin = out->n;
    CacheSlot *c;

    if (n == 0)
        return;
    if (n > CACHE_BYTES) {
        encode(v, b, s, n, out);
        return;
    }
    c = &b->cache[XXH3_64bits(s, n) & (CACHE_SLOTS - 1)];
    if (c->n == n && !memcmp(c->s, s, n)) {
        for (int i = 0; i < c->ids; i++)
            tok_push(out, c->id[i]);
        return;
    }
    encode(v, b, s, n, out);
    if (out->n - begin <= CACHE_IDS) {
        c->n = (uint8_t)n;
        c->ids = (uint8_t)(out->n - begin);
        memcpy(c->s, s, n);
        memcpy(c->id, out->id + begin, (out->n - begin) * sizeof *c->id);
    }
}
