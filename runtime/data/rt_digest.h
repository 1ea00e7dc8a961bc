/* SPDX-License-Identifier: MIT-0 */
/* rt_digest.h: what these files share, which know the content of the data:
 *
 *    rt_digest.c  hashes the files of --data and --eval, all ranks together
 *    rt_known.c   digests of earlier runs, by the files' identities
 *    rt_changed.c files that change during a run
 *    rt_record.c  what a checkpoint records of its data, and comparisons with it */
#ifndef RT_DIGEST_H
#define RT_DIGEST_H

#include "data/rt_tokens.h"
#include "job/rt_file.h"

#ifndef RT_AT_ONCE_BYTES /* tests use less */
#define RT_AT_ONCE_BYTES (1 << 30) /* hashed before the first step */
#endif

/* The parts of one file of --data. */
typedef enum { RT_PART_TOKENS, RT_PART_MASK, RT_PART_INDEX, RT_PARTS } RtPartKind;

/* A part, in memory shared by the ranks that have the same files. */
typedef struct RtDigestEntry {
    _Atomic uint64_t sum; /* of its chunks' hashes so far */
    _Atomic int64_t left; /* chunks not hashed yet; 0: the sum is its digest */
} RtDigestEntry;

typedef struct RtDigestTable {
    int64_t bytes;        /* to be hashed */
    _Atomic int64_t next; /* the first chunk that is not taken yet */
    _Atomic int64_t left; /* chunks not hashed yet, in all parts */
    RtDigestEntry entry[];
} RtDigestTable;

/* A part of a file, in this process. */
typedef struct RtDataPart {
    const char *flag;    /* "data", "eval" */
    const RtMapped *map; /* not mapped: the file has no such part */
    RtIdentity now; /* of the file, when its content was last known to be the run's */
    bool replaced;  /* the name leads elsewhere, and this was reported */
    _Atomic bool unsure; /* it was touched, and there was no time to hash it again */
} RtDataPart;

/* A hashing thread: a rank's main thread, the thread that saves, or one in the background. */
typedef struct RtHasher {
    struct RtDigests *digests;
    int part, fd; /* the one it has open; -1: none */
    bool mapped;  /* the name leads to another file now, so this one is read as mapped */
    char *buffer;
} RtHasher;

/* A record of a file, as in train_state.json. */
enum { RT_RECORD_NAME_BYTES = 128 };
typedef struct RtRecord {
    char name[RT_RECORD_NAME_BYTES]; /* for messages: the content decides */
    int64_t tokens, width;
    int64_t bytes[RT_PARTS]; /* 0: it has no such part */
    uint64_t digest[RT_PARTS];
    bool known[RT_PARTS]; /* is the digest known? */
    /* A number for the file that was read, if its content was not verified; 0: it was */
    uint64_t unverified[RT_PARTS];
} RtRecord;
typedef struct RtRecords {
    RtRecord *file;
    int n; /* 0: nothing is known */
} RtRecords;

typedef struct RtDigests {
    Rt *rt;
    RtDigestTable *table;
    RtDataPart *part; /* RT_PARTS for each file of --data, then of --eval */
    int n_parts;
    int64_t *first;  /* [n_parts + 1] number of chunks before each part */
    int lead;        /* the first rank that has the same files and shares memory */
    bool drops;      /* hashing drops what it reads from the page cache */
    bool keeps;      /* digests are worth caching */
    uint64_t *found; /* the lead's, with --check-data: the cache's digests; 0: none */
    RtHasher main, saver, idle;
    pthread_mutex_t checks; /* of changed files: by a step, or concurrently by a save */
    pthread_t thread;
    bool threaded;
    _Atomic bool stop;
    /* Not all digests are known on all ranks, or compared: for the steps, and for saves, which may
     * run on other threads. */
    bool pending, save_pending;
    _Atomic bool other_eval, warned; /* rank 0: about held-out data */
    double began_seconds;
    int64_t epoch;
    /* rank 0: what the checkpoint that the run resumes from records, until it is compared */
    RtRecords was_data, was_eval;
    char was_in[64]; /* "step N" */
} RtDigests;

/* ---- rt_digest.c ----------------------------------------------------------------- */

/* The files of --data and --eval that rt->state has opened, without digests. */
RtDigests *rt_digest_list(Rt *rt);
/* How much of them a run has to hash, because no earlier run has cached its digest. */
int64_t rt_digest_unknown_bytes(const RtDigests *d);
/* The digest of a part now; false: the run ends first. */
bool rt_digest_again(RtDigests *d, const RtDataPart *p, uint64_t *digest);
static inline bool rt_digest_known(const RtDigests *d, int part)
{
    return atomic_load(&d->table->entry[part].left) == 0;
}

/* ---- rt_known.c ------------------------------------------------------------------ */

typedef struct RtKnown {
    const RtMapped *of;
    uint64_t digest;
    bool found;
} RtKnown;
/* Fills digest and found. Warns if something is wrong with the cache. */
void rt_known_find(RtKnown *files, int n);
/* If the cache cannot be written, a later start takes longer, nothing else. */
void rt_known_add(const RtMapped *m, uint64_t digest);

/* ---- rt_record.c ----------------------------------------------------------------- */

/* Members "data" and "eval" of a JSON object, each after a comma. */
void rt_record_write(const Rt *rt, FILE *f);
bool rt_record_read(RtJson *j, RtRecords *out); /* free the result in any case */
void rt_record_free(RtRecords *r);
/* Does what is open now differ from the record? Then error says how. content: digests are compared
 * as far as they are known now; otherwise only sizes are. */
bool rt_record_differs(const Rt *rt, const char *flag, const RtRecords *was, bool content,
                       char *error);
void rt_record_warn_eval(const char *error, const char *folder);
/* A file whose content was not verified when it was recorded, and which is not the one that was read
 * then, or has changed since; NULL: none of them. */
const char *rt_record_doubts(const Rt *rt, const char *flag, const RtRecords *was);
/* Does it lack the digest of a file, though it does not say that this was not verified? */
bool rt_record_lacks(const RtRecords *was);

#endif
