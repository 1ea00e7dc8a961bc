/* SPDX-License-Identifier: MIT-0 */
/* rt_digest.c: digests of the data. In: the files of --data and --eval, as mapped. Out: a
 * digest of each file (rt_hash.h), equal on all ranks and known when the first checkpoint
 * is committed; or the run ends with the reason.
 *
 * 1. Ranks that have the same files and share memory, as on one machine, hash them
 *    together: each thread takes the next chunk and adds its hash to that of the file.
 * 2. Up to 1 GiB, and what an earlier run hashed (rt_known.c), is known before the first
 *    step. The rest is hashed during training by a thread per rank, at idle priority for
 *    processor and disk. A save waits for the digests and helps; the last save after a
 *    signal or --stop-after records those that are known, and which ones are not.
 * 3. When all are known, every rank compares its digests with rank 0's. Rank 0 compares
 *    them with what masks say of their tokens, and with the checkpoint that the run
 *    resumed from.
 * 4. Files are read by name, not through their mapping, so that a truncated one gives an
 *    error message and not a SIGBUS. If the data exceed a quarter of the free memory,
 *    chunks are dropped from the page cache after they are hashed; the kernel keeps
 *    mapped pages. */
#define _GNU_SOURCE
#include "data/rt_digest.h"
#include "job/rt_file.h"
#include "rt_target.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    PIECE_BYTES = 512 << 10,       /* stays in a core's cache until it is hashed */
    WORTH_KEEPING_BYTES = 64 << 20 /* smaller files are hashed faster than looked up */
};

/* ---- one chunk ------------------------------------------------------------------- */

static void close_file(RtHasher *h)
{
    if (h->fd >= 0) {
        close(h->fd);
        h->fd = -1;
    }
}

static void open_file(RtHasher *h, const RtMapped *m)
{
    RtIdentity is;
    h->fd = open(m->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    h->mapped = h->fd < 0 || !rt_identity_of(h->fd, NULL, &is) ||
                is.device != m->is.device || is.inode != m->is.inode;
}

static const void *read_piece(RtHasher *h, const RtMapped *m, int64_t at, int64_t bytes)
{
    const RtDigests *d = h->digests;
    char error[RT_ERROR_BYTES];
    if (atomic_load(&d->rt->state->shared->abort) != 0)
        rt_leave(d->rt);
    if (h->mapped)
        return m->at + at;
    if (!rt_file_read(h->fd, m->name, h->buffer, bytes, at, error)) {
        rt_fail(d->rt, RT_EXIT_ERROR, "%s; it had %lld bytes when the run began", error,
                (long long)m->is.bytes);
    }
    return h->buffer;
}

/* The page cache drops a whole chunk: parts of a large folio would stay. */
static uint64_t hash_chunk(RtHasher *h, const RtMapped *m, int64_t chunk)
{
    const int64_t from = chunk * RT_DIGEST_CHUNK_BYTES, rest = m->bytes - from;
    const int64_t bytes = rest < RT_DIGEST_CHUNK_BYTES ? rest : RT_DIGEST_CHUNK_BYTES;
    int64_t at = from, left = bytes;
    RtLanes lanes;
    rt_digest_begin(&lanes, (size_t)bytes, chunk);
    for (; left > PIECE_BYTES; at += PIECE_BYTES, left -= PIECE_BYTES)
        rt_lanes_more(&lanes, read_piece(h, m, at, PIECE_BYTES), PIECE_BYTES);
    const uint64_t hash = rt_lanes_end(&lanes, read_piece(h, m, at, left), (size_t)left);
    if (h->digests->drops && !h->mapped)
        posix_fadvise(h->fd, (off_t)from, (off_t)bytes, POSIX_FADV_DONTNEED);
    return hash;
}

static int64_t chunks_of(const RtMapped *m)
{
    return m->at == NULL ? 0
                         : (m->bytes + RT_DIGEST_CHUNK_BYTES - 1) / RT_DIGEST_CHUNK_BYTES;
}

/* ---- all of them ----------------------------------------------------------------- */

static void begin_hasher(RtHasher *h, RtDigests *d)
{
    if (h->buffer == NULL)
        *h = (RtHasher){.digests = d, .fd = -1, .buffer = malloc(PIECE_BYTES)};
    if (h->buffer == NULL)
        rt_fail(d->rt, RT_EXIT_ERROR, "out of memory");
}

static void end_hasher(RtHasher *h)
{
    if (h->buffer != NULL) {
        close_file(h);
        free(h->buffer);
        h->buffer = NULL;
    }
}

/* Reports a file that was modified before its digest was known: the run may have read
 * both contents. */
static void check_hashed(const RtHasher *h, const RtDataPart *p)
{
    RtIdentity is;
    if (h->mapped || !rt_identity_of(h->fd, NULL, &is))
        return;
    if (is.bytes < p->map->is.bytes || is.modified_ns != p->map->is.modified_ns) {
        rt_fail(h->digests->rt, RT_EXIT_ERROR,
                "--%s: %s was modified while it was being hashed: start again", p->flag,
                p->map->name);
    }
    if (h->digests->keeps && rt_identity_equal(&is, &p->map->is))
        rt_known_add(p->map, atomic_load(&h->digests->table->entry[h->part].sum));
}

/* Hashes the next chunk that is not taken yet; false: all are taken. */
static bool hash_next(RtHasher *h)
{
    const RtDigests *d = h->digests;
    RtDigestTable *t = d->table;
    int64_t number;
    do {
        if (atomic_load(&t->next) >= d->first[d->n_parts] ||
            (number = atomic_fetch_add(&t->next, 1)) >= d->first[d->n_parts]) {
            close_file(h);
            return false;
        }
        while (number >= d->first[h->part + 1]) {
            h->part++;
            h->mapped = false;
            close_file(h);
        }
    } while (rt_digest_known(d, h->part)); /* from the cache */
    const RtDataPart *p = &d->part[h->part];
    RtDigestEntry *e = &t->entry[h->part];
    if (h->fd < 0 && !h->mapped)
        open_file(h, p->map);
    atomic_fetch_add(&e->sum, hash_chunk(h, p->map, number - d->first[h->part]));
    if (atomic_fetch_sub(&e->left, 1) == 1)
        check_hashed(h, p);
    atomic_fetch_sub(&t->left, 1);
    return true;
}

bool rt_digest_again(RtDigests *d, const RtDataPart *p, uint64_t *digest)
{
    RtHasher h = {.buffer = NULL};
    const int64_t chunks = chunks_of(p->map);
    int64_t i = 0;
    *digest = 0;
    begin_hasher(&h, d);
    open_file(&h, p->map);
    for (; i < chunks && !rt_due_soon(d->rt); i++) {
        rt_save_moves(d->rt);
        *digest += hash_chunk(&h, p->map, i);
    }
    end_hasher(&h);
    return i == chunks;
}

/* ---- during training ------------------------------------------------------------- */

/* Uses only resources that are idle. These are requests that a kernel may refuse. The
 * numbers are those of linux/ioprio.h, which older kernels do not have. */
static void stand_back(void)
{
    enum { OF_A_THREAD = 1, IDLE = 3 << 13 };
    const struct sched_param none = {0};
    sched_setscheduler(0, SCHED_IDLE, &none);
    syscall(SYS_ioprio_set, OF_A_THREAD, 0, IDLE);
}

static void *hash_beside(void *ctx)
{
    RtDigests *d = ctx;
    stand_back();
    while (!atomic_load(&d->stop) && hash_next(&d->idle)) {
    }
    end_hasher(&d->idle);
    return NULL;
}

static void start_thread(RtDigests *d)
{
    begin_hasher(&d->idle, d);
    const int e = pthread_create(&d->thread, NULL, hash_beside, d);
    d->threaded = e == 0;
    if (e != 0) { /* then saves do it */
        rt_say("trainer: warning: [rank %d] no thread to hash data with: %s", d->rt->rank,
               strerror(e));
    }
}

static void end_thread(RtDigests *d)
{
    if (d->threaded) {
        atomic_store(&d->stop, true);
        pthread_join(d->thread, NULL);
        d->threaded = false;
    }
}

/* ---- what is known is compared --------------------------------------------------- */

/* Collective: `sum` is rt_sum_words or rt_save_sum. A rank whose digests differ from rank
 * 0's ends the run. */
static void agree(const RtDigests *d, void (*sum)(Rt *, uint64_t *, int))
{
    for (int from = 0; from < d->n_parts; from += RT_SUM_WORDS) {
        const int left = d->n_parts - from, n = left < RT_SUM_WORDS ? left : RT_SUM_WORDS;
        uint64_t first[RT_SUM_WORDS];
        for (int i = 0; i < n; i++)
            first[i] = d->rt->rank == 0 ? atomic_load(&d->table->entry[from + i].sum) : 0;
        sum(d->rt, first, n);
        for (int i = 0; i < n; i++) {
            const RtDataPart *p = &d->part[from + i];
            if (atomic_load(&d->table->entry[from + i].sum) != first[i]) {
                rt_fail(d->rt, RT_EXIT_ERROR,
                        "--%s: %s differs from rank 0's copy, though it has the same "
                        "size; all ranks need the same data",
                        p->flag, p->map->name);
            }
        }
    }
}

static void check_masks(const RtDigests *d, const RtTokens *tokens, int from)
{
    char error[RT_ERROR_BYTES];
    for (int i = 0; tokens != NULL && i < rt_tokens_files(tokens); i++) {
        const RtDigestEntry *e = &d->table->entry[from + RT_PARTS * i];
        if (!rt_mask_agrees(rt_tokens_file(tokens, i),
                            atomic_load(&e[RT_PART_TOKENS].sum),
                            atomic_load(&e[RT_PART_MASK].sum), error))
            rt_fail(d->rt, RT_EXIT_ERROR, "%s", error);
    }
}

/* With --check-data: reports what the cache had wrong because it relied on a file's
 * times. */
static void check_found(const RtDigests *d)
{
    for (int i = 0; d->found != NULL && i < d->n_parts; i++) {
        if (d->found[i] != 0 && d->found[i] != atomic_load(&d->table->entry[i].sum)) {
            rt_say("trainer: warning: %s has other bytes than when an earlier run "
                   "hashed it, though its size and its times are the same",
                   d->part[i].map->name);
        }
    }
}

static void compare_with_checkpoint(RtDigests *d)
{
    char error[RT_ERROR_BYTES];
    if (rt_record_differs(d->rt, "data", &d->was_data, true, error)) {
        rt_fail(d->rt, RT_EXIT_ERROR,
                "--resume: the data are hashed now, and they differ from those of %s: "
                "%s; restore them, or continue with the new ones by --accept-data",
                d->was_in, error);
    }
    d->other_eval = rt_record_differs(d->rt, "eval", &d->was_eval, true, error);
    if (d->other_eval && !atomic_exchange(&d->warned, true))
        rt_record_warn_eval(error, d->was_in);
}

/* Collective, when all digests are known on all ranks. */
static void conclude(RtDigests *d, void (*sum)(Rt *, uint64_t *, int))
{
    const RtState *st = d->rt->state;
    agree(d, sum);
    check_found(d);
    if (d->rt->rank == 0) {
        check_masks(d, st->tokens, 0);
        check_masks(d, st->held_out, RT_PARTS * rt_tokens_files(st->tokens));
        compare_with_checkpoint(d);
    }
}

/* Collective: is everything known on all ranks? */
static bool is_all_known(const RtDigests *d, void (*sum)(Rt *, uint64_t *, int))
{
    uint64_t known = atomic_load(&d->table->left) == 0;
    sum(d->rt, &known, 1);
    return known == (uint64_t)d->rt->world_size;
}

/* ---- the start ------------------------------------------------------------------- */

static void add_parts(RtDigests *d, const char *flag, const RtTokens *tokens)
{
    for (int i = 0; tokens != NULL && i < rt_tokens_files(tokens); i++) {
        const RtTokenFile *f = rt_tokens_file(tokens, i);
        const RtMapped *const maps[RT_PARTS] = {&f->map, &f->mask, &f->index};
        for (int k = 0; k < RT_PARTS; k++) {
            const int64_t before = d->first[d->n_parts];
            d->part[d->n_parts++] =
                (RtDataPart){.flag = flag, .map = maps[k], .now = maps[k]->is};
            d->first[d->n_parts] = before + chunks_of(maps[k]);
        }
    }
}

RtDigests *rt_digest_list(Rt *rt)
{
    const RtState *st = rt->state;
    const int files = rt_tokens_files(st->tokens) +
                      (st->held_out != NULL ? rt_tokens_files(st->held_out) : 0);
    RtDigests *d = calloc(1, sizeof *d);
    if (d != NULL) {
        d->rt = rt;
        pthread_mutex_init(&d->checks, NULL);
        d->part = calloc((size_t)files * RT_PARTS, sizeof *d->part);
        d->first = calloc((size_t)files * RT_PARTS + 1, sizeof *d->first);
    }
    if (d == NULL || d->part == NULL || d->first == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "out of memory");
    add_parts(d, "data", st->tokens);
    add_parts(d, "eval", st->held_out);
    return d;
}

/* Collective. */
static int find_lead(RtDigests *d)
{
    Rt *rt = d->rt;
    uint64_t mine = 0;
    int lead = rt->rank;
    for (int i = 0; i < d->n_parts; i++)
        mine = rt_hash64(&d->part[i].now, sizeof d->part[i].now, mine + 1);
    for (int from = 0; from < rt->world_size; from += RT_SUM_WORDS) {
        const int left = rt->world_size - from;
        const int n = left < RT_SUM_WORDS ? left : RT_SUM_WORDS;
        uint64_t words[RT_SUM_WORDS] = {0};
        if (rt->rank >= from && rt->rank < from + n)
            words[rt->rank - from] = mine;
        rt_sum_words(rt, words, n);
        for (int i = 0; i < n && from + i < lead; i++)
            if (words[i] == mine && !rt->state->shared->elsewhere[from + i])
                lead = from + i;
    }
    return lead;
}

/* After the copies of rt_snapshot.c, in the memory that ranks of a machine share. */
static void map_table(RtDigests *d)
{
    const Rt *rt = d->rt;
    const RtTrainer *t = rt->trainer;
    const int64_t size = rt_pages((int64_t)sizeof(RtDigestTable) +
                                  d->n_parts * (int64_t)sizeof(RtDigestEntry));
    const int64_t at =
        rt_shared_bytes(t) + t->world_size * rt_pages(t->snapshot_bytes) + d->lead * size;
    int reserved;
    do {
        reserved = d->lead == rt->rank
                       ? fallocate(rt->state->shared_fd, 0, (off_t)at, (off_t)size)
                       : 0;
    } while (reserved != 0 && errno == EINTR);
    void *map = reserved == 0 ? mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
                                     MAP_SHARED, rt->state->shared_fd, (off_t)at)
                              : MAP_FAILED;
    if (map == MAP_FAILED) {
        rt_fail(rt, RT_EXIT_ERROR, "no memory for digests of the data: %s",
                rt_shared_error(at + size));
    }
    d->table = map;
}

/* By the lead: chunks of each part, and what an earlier run knows of it. */
static void fill_table(RtDigests *d)
{
    RtDigestTable *t = d->table;
    RtKnown *known = calloc((size_t)d->n_parts, sizeof *known);
    const bool check = d->rt->state->flags.check_data;
    d->found = check ? calloc((size_t)d->n_parts, sizeof *d->found) : NULL;
    if (known == NULL || (check && d->found == NULL))
        rt_fail(d->rt, RT_EXIT_ERROR, "out of memory");
    for (int i = 0; i < d->n_parts; i++)
        known[i].of = d->part[i].map;
    if (d->keeps)
        rt_known_find(known, d->n_parts);
    for (int i = 0; i < d->n_parts; i++) {
        const bool take = known[i].found && !check;
        const int64_t chunks = take ? 0 : chunks_of(d->part[i].map);
        if (d->found != NULL)
            d->found[i] = known[i].digest;
        t->entry[i].sum = take ? known[i].digest : 0;
        t->entry[i].left = chunks;
        t->left += chunks;
        t->bytes += chunks > 0 ? d->part[i].map->bytes : 0;
    }
    free(known);
}

int64_t rt_digest_unknown_bytes(const RtDigests *d)
{
    RtKnown *known = calloc((size_t)d->n_parts + 1, sizeof *known);
    int64_t bytes = 0, unknown = 0;
    for (int i = 0; i < d->n_parts && known != NULL; i++) {
        known[i].of = d->part[i].map;
        bytes += d->part[i].map->bytes;
    }
    if (known == NULL)
        return 0;
    if (bytes >= WORTH_KEEPING_BYTES && !d->rt->state->flags.check_data)
        rt_known_find(known, d->n_parts);
    for (int i = 0; i < d->n_parts; i++)
        unknown += known[i].found ? 0 : d->part[i].map->bytes;
    free(known);
    return unknown;
}

static void wait_for_all(Rt *rt)
{
    uint64_t word = 0;
    rt_sum_words(rt, &word, 1);
}

static void make_table(RtDigests *d)
{
    int64_t bytes = 0;
    for (int i = 0; i < d->n_parts; i++)
        bytes += d->part[i].map->bytes;
    d->keeps = bytes >= WORTH_KEEPING_BYTES;
    d->lead = find_lead(d);
    if (d->lead == d->rt->rank) {
        map_table(d);
        fill_table(d);
    }
    wait_for_all(d->rt);
    if (d->lead != d->rt->rank)
        map_table(d);
    d->drops = d->table->bytes > rt_host_free_bytes() / 4;
}

void rt_digest_open(Rt *rt)
{
    RtDigests *d = rt_digest_list(rt);
    const RtState *st = rt->state;
    rt->state->digests = d;
    d->began_seconds = rt_clock();
    make_table(d);
    if (st->flags.check_data || d->table->bytes <= RT_AT_ONCE_BYTES) {
        begin_hasher(&d->main, d);
        while (!rt_due_soon(rt) && hash_next(&d->main))
            rt_enter(rt, RT_AT_DATA);
        end_hasher(&d->main);
    }
    wait_for_all(rt);
    d->pending = d->save_pending = !is_all_known(d, rt_sum_words);
    if (!d->pending)
        conclude(d, rt_sum_words);
    else if (atomic_load(&d->table->left) > 0)
        start_thread(d);
}

/* ---- the run --------------------------------------------------------------------- */

bool rt_digest_step(Rt *rt)
{
    RtDigests *d = rt->state->digests;
    if (!d->pending || !is_all_known(d, rt_sum_words))
        return false;
    d->pending = false;
    end_thread(d);
    conclude(d, rt_sum_words);
    uint64_t other_eval = d->other_eval;
    rt_sum_words(rt, &other_eval, 1);
    if (rt->rank == 0 && rt->state->flags.verbose) {
        printf("all data are hashed, after %.0f s:\n", rt_clock() - d->began_seconds);
        rt_digest_print(rt, stdout);
    }
    return other_eval != 0;
}

/* Only progress counts as a move, so that watchers notice a stall. */
static void help_until_known(RtDigests *d)
{
    const Rt *rt = d->rt;
    int64_t left, before = -1;
    begin_hasher(&d->saver, d);
    while ((left = atomic_load(&d->table->left)) > 0 && !rt_due_soon(rt)) {
        if (!hash_next(&d->saver)) {
            const struct timespec nap = {0, 1000000};
            nanosleep(&nap, NULL);
        }
        if (left != before) {
            before = left;
            rt_save_moves(d->rt);
        }
        if (atomic_load(&rt->state->shared->abort) != 0)
            rt_leave(rt);
    }
    end_hasher(&d->saver);
}

void rt_digest_settle(Rt *rt)
{
    RtDigests *d = rt->state->digests;
    rt_changed_check(rt); /* the steps so far had the data that are recorded */
    if (!d->save_pending)
        return;
    help_until_known(d);
    if (is_all_known(d, rt_save_sum)) {
        d->save_pending = false;
        conclude(d, rt_save_sum);
    } else if (rt->rank == 0) {
        compare_with_checkpoint(d); /* what is known: this save takes its place */
    }
}

/* Its thread may be in a read that takes minutes: the end of the process stops it. */
void rt_digest_close(Rt *rt)
{
    RtDigests *d = rt->state->digests;
    atomic_store(&d->stop, true);
    if (d->threaded)
        pthread_detach(d->thread);
}
