/* SPDX-License-Identifier: MIT-0 */
/* rt_checkpoint.h: what writes and reads checkpoints: first what its files share, then, at the end,
 * what it offers to the rooms above.
 *
 *    rt_layout.c    which files, and which tensor is where: from the tables
 *    rt_state.c     the small files: train_state.json, the index
 *    rt_due.c       when one is written, and when a run ends before its last step
 *    rt_save.c      writes one, all ranks together
 *    rt_snapshot.c  copies to write from during training
 *    rt_writers.c   may several ranks write one file there?
 *    rt_carry.c     files of the model that training does not need
 *    rt_config.c    config.json: what is kept of the one that weights came with; ids that
 *                   end a text
 *    rt_manifest.c  MANIFEST: hashes of all files, which make it a checkpoint
 *    rt_chunks.c    those hashes
 *    rt_prune.c     which ones are kept
 *    rt_tensors.c   reads safetensors files, ours and others'
 *    rt_import.c    starts from weights made elsewhere
 *    rt_find.c      which weights a folder means
 *    rt_best.c      the best step by evaluation; when patience is exhausted
 *    rt_resume.c    resumes from the newest intact one
 *    rt_lock.c      one run at a time
 *    rt_accept.c    continues with different mathematics
 *    rt_load.c      verifies and reads one
 *    rt_verify.c    verifies those of a folder, without ranks
 *    rt_ls.c        lists them
 *    rt_dry.c       --dry-run: what a run would find, except its checkpoints:
 *    rt_dry_folder.c   these
 *
 * job/rt_file.h has system calls with messages, and a strict JSON reader; data/rt_digest.h has what
 * is known of the data. */
#ifndef RT_CHECKPOINT_H
#define RT_CHECKPOINT_H

#include "data/rt_digest.h"
#include "job/rt_file.h"
#include "job/rt_text.h"
#include "rt_target.h"
#include "state/rt_state.h"

enum {
    RT_CHUNK_BYTES = 4194304,    /* of a file: the unit of hashing */
    RT_SMALL_FILES = 8,          /* at most, in a checkpoint */
    RT_STAGE_ELEMS = 1 << 17,    /* in transfer between arena and file */
    RT_HEADER_ALIGN_BYTES = 4096 /* a file's tensors start at a multiple of this */
};

/* Kinds of tensors of a parameter; each kind has its own files. */
typedef enum {
    RT_SET_WEIGHTS,
    RT_SET_MASTER,
    RT_SET_MOMENT1,
    RT_SET_MOMENT2,
    RT_SETS
} RtSet;

typedef struct RtFile {
    char name[RT_NAME_BYTES]; /* in the checkpoint: "optimizer/moment1.safetensors" */
    int64_t bytes;
    char *head;         /* its start: a header; for small files the whole text */
    int64_t head_bytes; /* where tensors start */
    uint64_t hash;      /* after writing; or as in MANIFEST */
    uint64_t sum;       /* of the hashes of its chunks so far: this rank's, later all */
    uint64_t *chunks;   /* each of these hashes, for a file with tensors; NULL: not kept */
} RtFile;
/* The number of its chunks. */
static inline int64_t rt_chunks_of(const RtFile *f)
{
    return f->bytes / RT_CHUNK_BYTES + (f->bytes % RT_CHUNK_BYTES != 0);
}

/* A chunk of a file. */
typedef struct RtChunkAt {
    int file;
    int64_t at;     /* its offset in the file */
    int64_t number; /* number of chunks before it, in all files */
    int fd;         /* of the file; -1: not open */
} RtChunkAt;

/* Files that all ranks hash together, once, in order. */
typedef struct RtChunks {
    const char *folder;
    RtFile *files; /* NULL: none */
    int n_files, version;
    RtChunkAt next;  /* the next to hash */
    RtChunkAt ahead; /* the next to prefetch from disk */
    bool gives_way;  /* stops early if the run is to end (rt_due_soon) */
} RtChunks;

/* The contents of a checkpoint's manifest: small files first, then set after set. */
typedef struct RtManifest {
    int64_t step;
    int version;
    RtFile *files;
    int n_files;
    int set_files[RT_SETS + 1]; /* where the files of a set start */
    RtChunks chunks;
} RtManifest;

/* A hash, of a platform or of the mathematics, and the first step that ran with it. */
enum { RT_MAX_PLATFORMS = 16 };
typedef struct RtSince {
    int64_t from_step;
    uint64_t hash;
} RtSince;

/* What train_state.json says, apart from what describes the trainer. */
typedef struct RtTrainState {
    int64_t step, seed, samples, data_samples;
    int64_t skipped, skipped_in_a_row, scaled_updates;
    double beta1_power, beta2_power, loss_scale;
    uint64_t numerics_hash, data_mix; /* rt_tokens_mix */
    uint64_t data_hash;               /* rt_tokens_hash; 0: unknown */
    RtRecords data, eval;             /* empty: an earlier version, or no --eval */
    RtSince platform[RT_MAX_PLATFORMS];
    int n_platforms;
    RtSince lineage[RT_MAX_PLATFORMS]; /* numerics hashes; empty: an earlier version */
    int n_lineage;
    /* the order of data started at this step, after this much data */
    int64_t order_step, order_samples, order_tokens;
    int64_t tokens; /* seen so far; -1: an earlier version */
    RtBest best;
} RtTrainState;

/* On rank 0: its clock, in seconds, and how long saves and steps took, for rt_due.c. */
typedef struct RtDue {
    double saved;                    /* when the last save, or training, started */
    double ended;                    /* end of the last step, including its save */
    double longest_step;             /* with its evaluation, without its save */
    double left, reserved;           /* of --stop-after, at the last check */
    _Atomic int64_t longest_save_ns; /* 0: none so far; a thread may write it */
    _Atomic int64_t began_ns;        /* the save that writes now; 0: none */
} RtDue;

/* About a checkpoint on disk: did it verify completely, or did this run write it? */
typedef struct RtVerdict {
    int64_t step;
    bool intact;
} RtVerdict;

typedef struct RtCheckpoint {
    const char *dir;
    int folder;    /* its descriptor, rank 0: DIR may become another one */
    int lock;      /* that one, or .lock's: one run at a time */
    RtFile *files; /* those with tensors, set after set; carried ones; and, while a checkpoint is
                    * written, the small ones */
    int n_files, n_tensor_files, n_lasting_files;
    int set_files[RT_SETS + 1]; /* where the files of a set start */
    int *file_of[RT_SETS];      /* [n_params] index in files; -1: not in the set */
    int64_t *bytes_at[RT_SETS]; /* [n_params] offset of its tensor in that file */
    char *stage, *convert;      /* RT_STAGE_ELEMS doubles each */
    char *chunk;                /* RT_CHUNK_BYTES */
    char *config;               /* rank 0: with carried members; NULL: the trainer's */
    char error[RT_ERROR_BYTES]; /* of this rank, in the current operation; empty: none */
    int64_t saved;              /* the newest step on disk; -1: none */
    RtBest best;                /* with --keep-best: the best step on disk */
    RtTrainState state;         /* of the step being written */
    /* copies to write from (rt_snapshot.c) */
    bool one_writer;              /* of each file */
    bool apart;                   /* a thread writes during training */
    bool snapshots;               /* there is memory for them: */
    char *snapshot[RT_MAX_RANKS]; /* this rank's; others' if files have one writer */
    pthread_t writer;
    int64_t writing;                    /* the step that the thread saves; -1: none */
    _Atomic bool written;               /* it has finished */
    RtDue due;
    RtVerdict *verdicts; /* what this run knows of steps on disk */
    int n_verdicts;
    uint64_t here; /* hash of this run's platform */
    RtSince platform[RT_MAX_PLATFORMS], lineage[RT_MAX_PLATFORMS];
    int n_platforms, n_lineage;
} RtCheckpoint;

/* ---- rt_layout.c ----------------------------------------------------------------- */

/* Fills files, file_of, bytes_at; false when out of memory. */
bool rt_layout_fill(RtCheckpoint *c, const RtTrainer *t);
/* The dtype, in files, of a set of a segment. */
RtDtype rt_layout_dtype(const RtTrainer *t, const RtSegment *s, RtSet set);
const char *rt_dtype_safetensors(RtDtype d);
const char *rt_layout_name(RtSet set); /* the start of its files' names */
/* The set of a file with that name; RT_SETS: none. */
RtSet rt_layout_set_of(const char *name);
/* Where a set keeps the segment's part, as a byte offset in an arena space; -1: nowhere. */
int64_t rt_layout_offset(const RtSegment *s, RtSet set);
/* Elements of the set that this rank has of the segment: no second moment of matrices. */
int64_t rt_layout_held_elems(const Rt *rt, RtSet set, const RtSegment *s);
/* Copies elements of this rank, [n] of a set's dtype, between the arena and a file. */
void rt_layout_take(const Rt *rt, RtSet set, const RtSegment *s, int64_t at, int64_t n,
                    void *out, void *spare);
void rt_layout_put(Rt *rt, RtSet set, const RtSegment *s, int64_t at, int64_t n,
                   const void *from, void *spare);

/* ---- rt_state.c ------------------------------------------------------------------ */

/* The part of a run's state that changes from step to step, now. */
void rt_state_take(const Rt *rt, int64_t step, RtTrainState *s);
/* Both return texts that the caller frees; NULL when out of memory. */
char *rt_state_text(const Rt *rt, const RtTrainState *s);
char *rt_state_index(const RtCheckpoint *c, const RtTrainer *t);
/* Free s->data and s->eval in any case. */
bool rt_state_read(RtTrainState *s, const char *text, int64_t bytes);

/* ---- rt_manifest.c --------------------------------------------------------------- */

char *rt_manifest_text(const RtFile *files, int n_files, int64_t step);
bool rt_manifest_read(RtManifest *m, const char *folder, char *error);
void rt_manifest_free(RtManifest *m);
int64_t rt_manifest_bytes(const RtManifest *m); /* of all files; -1: overflow */
/* Do all of its files exist with its sizes? */
bool rt_manifest_sizes(const RtManifest *m, const char *folder, char *error);
/* Hashes this rank's chunks of the written files, each once. */
void rt_manifest_hash_own(Rt *rt, const char *folder, RtFile *files, int n_files);
/* Collective, after all ranks have done that: the hash of each file, and of each chunk if those are
 * kept. */
bool rt_manifest_hash(Rt *rt, RtFile *files, int n_files);
/* Collective, the first part of a verification: MANIFEST and the sizes of its files are right.
 * False: error has the reason, on one rank at least. Free m in any case; the folder's name must
 * live as long. */
bool rt_manifest_open(Rt *rt, const char *folder, RtManifest *m);
/* Collective, the last part: do the hashes of files [first, end), which all ranks have passed by
 * rt_chunks_until, equal MANIFEST's? False: error has the reason, as above. */
bool rt_manifest_agree(Rt *rt, RtManifest *m, int first, int end);
/* Collective: both parts, for all files. */
bool rt_manifest_verify(Rt *rt, const char *folder, RtManifest *m);

/* ---- rt_chunks.c ----------------------------------------------------------------- */

void rt_chunks_begin(RtChunks *h, const char *folder, RtFile *files, int n_files,
                     int version);
/* The hash of a chunk, read through RT_CHUNK_BYTES of memory. */
bool rt_chunk_hash(int fd, const char *path, int64_t at, int64_t bytes, int version,
                   char *memory, uint64_t *hash, char *error);
/* CHUNKS: the hashes of all chunks of files with tensors; its length follows from theirs. Returns a
 * text that the caller frees, NULL when out of memory; or reads hashes from a text into files,
 * false if it is not of these files. */
int64_t rt_chunks_text_bytes(const RtFile *files, int n_files);
char *rt_chunks_text(const RtFile *files, int n_files);
bool rt_chunks_read(RtFile *files, int n_files, const char *text, int64_t bytes);
/* Hashes this rank's chunks up to byte `at` of that file; with n_files, all of them. */
void rt_chunks_until(Rt *rt, RtChunks *h, int file, int64_t at);
void rt_chunks_end(RtChunks *h);

/* ---- rt_carry.c ------------------------------------------------------------------ */

enum { RT_MOST_CARRIED = 16 };
/* Collective: reads the files beside the weights that the model needs but training does not, such
 * as its tokenizer's, from the model's folder; each checkpoint gets them. False: one cannot be
 * read. */
bool rt_carry_read(Rt *rt, const char *folder);

/* ---- rt_config.c ----------------------------------------------------------------- */

/* For the first rank: members of config.json there go into each checkpoint's. The error of a call
 * is in c->error; an invalid config.json is reported and ignored. */
void rt_config_carry(Rt *rt, const char *folder);

/* ---- rt_best.c ------------------------------------------------------------------- */

void rt_best_forget(Rt *rt);  /* the held-out data are different now: rank 0 says so */
/* Before a save, with --keep-best: is the best step so far on disk, or the one to be saved? If its
 * save failed, the best one on disk counts again. */
void rt_best_saves(Rt *rt, int64_t step);
void rt_best_resumed(Rt *rt); /* does --patience let the run continue? */

/* ---- rt_prune.c ------------------------------------------------------------------ */

/* What is known of a step; NULL: nothing. */
const RtVerdict *rt_prune_verdict(const RtCheckpoint *c, int64_t step);
/* Collective: DIR's steps, largest first, as rank 0 finds them; the caller frees them. -1: rank 0
 * has an error. */
int rt_share_steps(Rt *rt, int64_t **steps);
void rt_prune_note(const Rt *rt, int64_t step, bool intact);
void rt_prune(Rt *rt); /* collective */

/* ---- rt_snapshot.c, rt_writers.c ------------------------------------------------- */

void rt_snapshot_open(Rt *rt); /* collective: allocates the memory, or lets training wait for
                                * saves */
void rt_snapshot_take(Rt *rt); /* copies this rank's current state */
/* Starts a thread that writes this step. False: it could not be started; rt_save_write does it. */
bool rt_snapshot_start(Rt *rt, int64_t step);
/* Collective: must each file have one writer? Decided by --one-writer, or by a trial. */
bool rt_writers_try(Rt *rt);

/* ---- rt_save.c, rt_tensors.c, rt_load.c ------------------------------------------ */

/* Collective: the first rank with an error, as `rank`; -1: none. */
int rt_first_error(Rt *rt);
/* The same for errors that say nothing about a checkpoint (rt_file_error_is_here). */
int rt_first_error_here(Rt *rt);
/* Collective: saves the current state, now or, apart, by a thread during training. */
bool rt_save(Rt *rt, int64_t step, bool apart);
void rt_due_begin(Rt *rt);                 /* its files are known: estimates a save's time */
void rt_due_writes(const Rt *rt);          /* a save starts to write */
void rt_due_saved(Rt *rt);                 /* and has written */
void rt_due_fails(const Rt *rt);           /* or cannot */
/* Collective: writes the checkpoint of a step, from the copies or from the arena. false: it failed,
 * and the run continues. */
bool rt_save_write(Rt *rt, int64_t step);
/* Collective: reads this rank's part of a set into the arena while all of the set is hashed. False:
 * unreadable or damaged; the arena may contain part of it. */
bool rt_load_set(Rt *rt, RtSet set, const char *folder, RtManifest *m);
/* Collective: does it have exactly the tensors that this trainer needs? False: its files cannot be
 * read. */
bool rt_set_fits(Rt *rt, RtSet set, const char *folder, const RtManifest *m, bool *fits);

/* ---- rt_find.c ------------------------------------------------------------------- */

/* State for reading a folder, with memory for the files of its checkpoints. */
RtCheckpoint *rt_checkpoint_open(Rt *rt, const char *dir);
/* Collective: if a rank has an error, the first of them reports that the checkpoint is damaged, and
 * its number is returned; else -1. */
int rt_pass_over(Rt *rt, const char *folder);
/* Collective: the first rank with an error reports it and ends the job. */
void rt_stop_on_error(Rt *rt, const char *what);
/* All ranks found the same: the first one reports it. */
_Noreturn void rt_refuse(Rt *rt, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- rt_accept.c ----------------------------------------------------------------- */

/* Are they equal but for how their numbers are written? Earlier generators wrote 0.1 with
 * 17 digits. */
bool rt_text_same(const char *a, size_t n, const char *b, size_t m);

/* Collective: takes what is possible from a checkpoint with different mathematics, and adjusts s.
 * theirs: on rank 0, its numerics.txt. False: it is damaged. */
bool rt_accept(Rt *rt, const char *folder, RtManifest *m, bool other_data,
               const char *theirs, RtTrainState *s);

/* A small file of a checkpoint, which the caller frees; NULL: c->error has the reason. */
char *rt_load_small(Rt *rt, const char *folder, const char *name, int64_t *bytes);
/* Collective: reads train_state.json; false: unreadable. The small files have been verified. */
bool rt_load_state(Rt *rt, const char *folder, int64_t step, RtManifest *m,
                   RtTrainState *s);

typedef struct RtTensor {
    char *name;
    int fd_index;
    RtDtype dtype;
    bool other; /* its dtype is not an RtDtype */
    int n_dims;
    int64_t dim[RT_MAX_DIMS];
    int64_t at, bytes; /* in its file */
    bool used;
} RtTensor;
typedef struct RtTensors {
    struct RtTensorFile {
        char *path;
        int fd;
    } * files;
    int n_files;
    RtTensor *tensors;
    int n_tensors, cap_tensors;
} RtTensors;
/* Adds the tensors of a file; checks every rule of the format. */
bool rt_tensors_add(RtTensors *s, const char *path, char *error);
/* By name; false if a name occurs twice. */
bool rt_tensors_sort(RtTensors *s, char *error);
RtTensor *rt_tensors_find(RtTensors *s, const char *name);
void rt_tensors_close(RtTensors *s);

/* ---- rt_verify.c ----------------------------------------------------------------- */

/* For a folder named by a command: its steps, as from rt_file_steps; without steps, whether it is a
 * checkpoint itself. -1: unreadable, and this was reported. */
int rt_folder_steps(const char *dir, int64_t **steps, bool *is_one);
/* Without ranks: is every byte of a checkpoint as written? If not, why. */
bool rt_folder_is_intact(const RtFlags *f, const char *folder, char *why);
/* Has another process removed it, such as a run that prunes? A dangling link still exists, and
 * counts as damaged. */
bool rt_folder_is_removed(const char *folder);

/* ---- rt_resume.c ----------------------------------------------------------------- */

/* Would a run with these flags refuse to resume from it? Then error has the reason, and stderr says
 * how the mathematics differ. */
bool rt_resume_refuses(Rt *rt, const char *folder, const RtTrainState *s, char *error);
/* Is --log a file of another run than this checkpoint's? Then error says how they differ. */
bool rt_resume_other_log(const Rt *rt, const char *folder, const RtTrainState *s, char *error);

/* ---- rt_lock.c ------------------------------------------------------------------- */

/* For rank 0: locks the folder of checkpoints, or waits for its holder: longer if that is on
 * another machine. A signal ends the wait, and the run. */
bool rt_lock_folder(Rt *rt);
/* For rank 0, before it changes the folder: is DIR still the one that it locked? Others' answer is
 * true. */
bool rt_lock_holds(RtCheckpoint *c);
/* For --dry-run: could rt_lock_folder lock it? Waits as that does; creates nothing, keeps no lock. */
bool rt_lock_try(Rt *rt);

/* ---- for the rooms above --------------------------------------------------------- */

/* Collective: from a Hugging Face folder, or a step's; flag: the flag that names it. False: a run that
 * trains there has removed the step since it was found. */
bool rt_import_weights(Rt *rt, const char *flag, const char *dir);
/* Says in RT_ERROR_BYTES what a folder without weights lacks. */
void rt_import_missing(const char *dir, char *error);
/* Rank 0 warns if config.json there describes another model. */
void rt_config_compare(const Rt *rt, const char *flag, const char *folder);
/* Collective: the folder of the weights that --init means, or a reading command's --checkpoint or
 * --init. Ends the run if there is none. */
const char *rt_find_init(Rt *rt);
const char *rt_find_weights(Rt *rt);
/* Ids that end a sample: from the model in that folder, unless --stop gives others. */
void rt_stop_find(Rt *rt, const char *folder);
/* After a step: is its loss on held-out data the best so far; is the patience of --patience
 * exhausted? Then the run ends with this step. */
void rt_best_step(Rt *rt);
/* Collective. Without --checkpoint these do nothing and return false. */
bool rt_checkpoint_begin(Rt *rt); /* were weights and state read from a checkpoint? */
/* After a step: saves if it is time. Returns whether the run ends here, to be resumed. */
bool rt_checkpoint_step(Rt *rt);
/* Before the first step: the same, for a run whose state is on disk. */
bool rt_checkpoint_asked(Rt *rt);
/* Ends the run if more updates in a row were skipped than the trainer allows. */
void rt_update_gate(Rt *rt);
/* The copies from which saves during training write: their size on this rank, 0: none; and whether
 * the address is in one. */
int64_t rt_snapshot_bytes(const Rt *rt);
bool rt_snapshot_holds(const Rt *rt, uintptr_t address);
void rt_snapshot_join(Rt *rt); /* waits until it has written, if there is one */
int rt_verify(const RtFlags *f);                 /* returns an exit code */
int rt_ls(const RtTrainer *t, const RtFlags *f); /* likewise */

/* --dry-run. begin: checks what needs no ranks; `alone`: this process starts all ranks. It may find
 * that none can be started. end: for the process that started ranks, with their exit code: prints
 * the results, if it is to; returns an exit code. */
struct RtDry;
struct RtDry *rt_dry_begin(const RtTrainer *t, const RtFlags *f, int ranks, bool alone);
bool rt_dry_starts(const struct RtDry *d);
int rt_dry_end(struct RtDry *d, int code, bool prints);
void rt_dry_rank(Rt *rt); /* collective: a rank that has met the others */

#endif
