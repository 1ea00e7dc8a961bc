/* SPDX-License-Identifier: MIT-0 */
/* rt_checkpoint.h: what writes and reads checkpoints: what it offers to the rooms above it,
 * at the end, and, before it, what its files share.
 *
 *   rt_layout.c    which files, which tensor where: from the tables
 *   rt_state.c     the small files: train_state.json, the index
 *   rt_due.c       when one is written, and when a run ends before its last step
 *   rt_save.c      writes one, all ranks together
 *   rt_snapshot.c  copies to write from while training goes on
 *   rt_writers.c   may several ranks write one file there?
 *   rt_carry.c     files of the model that training does not need
 *   rt_config.c    config.json: what is kept of the one that weights came with; ids that
 *                  end a text
 *   rt_manifest.c  MANIFEST: hashes of all files, which make it a checkpoint
 *   rt_chunks.c    those hashes
 *   rt_prune.c     which ones stay
 *   rt_tensors.c   reads files of safetensors, ours and others'
 *   rt_import.c    begins with weights that others made
 *   rt_find.c      which weights a folder means
 *   rt_best.c      the best step by evaluation; when a run has waited enough for one
 *   rt_resume.c    goes on from the newest that is sound
 *   rt_accept.c    goes on with other mathematics
 *   rt_load.c      verifies and reads one
 *   rt_verify.c    verifies those of a folder, without ranks
 *   rt_ls.c        lists them
 *   rt_dry.c       --dry-run: what a run would find, but for its checkpoints:
 *   rt_dry_folder.c   those
 *
 * job/rt_file.h has system calls with messages, and JSON, read strictly; data/rt_digest.h
 * what is known of the data. */
#ifndef RT_CHECKPOINT_H
#define RT_CHECKPOINT_H

#include "data/rt_digest.h"
#include "job/rt_file.h"
#include "rt_target.h"
#include "state/rt_state.h"

enum {
    RT_CHUNK_BYTES = 4194304,    /* of a file: what one rank hashes at a time */
    RT_SMALL_FILES = 8,          /* at most, in a checkpoint */
    RT_STAGE_ELEMS = 1 << 17,    /* on their way between arena and file */
    RT_HEADER_ALIGN_BYTES = 4096 /* tensors of a file begin at a multiple of it */
};

/* Kinds of tensors of a parameter; each kind has files of its own. */
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
    char *head;         /* what it begins with: a header; all of it, of small files */
    int64_t head_bytes; /* tensors begin there */
    uint64_t hash;      /* once it is written; or what MANIFEST says */
    uint64_t sum;       /* of the hashes of its chunks so far: this rank's, then all */
    uint64_t *chunks;   /* those hashes, each, of a file with tensors; NULL: not kept */
} RtFile;
/* How many chunks it has. */
static inline int64_t rt_chunks_of(const RtFile *f)
{
    return f->bytes / RT_CHUNK_BYTES + (f->bytes % RT_CHUNK_BYTES != 0);
}

/* A chunk of a file. */
typedef struct RtChunkAt {
    int file;
    int64_t at;     /* bytes before it in the file */
    int64_t number; /* chunks before it, of all files */
    int fd;         /* of the file; -1: it is not open */
} RtChunkAt;

/* Files that all ranks hash together, once, from the first to the last. */
typedef struct RtChunks {
    const char *folder;
    RtFile *files; /* NULL: there are none */
    int n_files, version;
    RtChunkAt next;  /* the next to hash */
    RtChunkAt ahead; /* the next to ask the disk for */
} RtChunks;

/* What the manifest of a checkpoint lists: small files first, then set after set. */
typedef struct RtManifest {
    int64_t step;
    int version;
    RtFile *files;
    int n_files;
    int set_files[RT_SETS + 1]; /* those of a set begin there */
    RtChunks chunks;
} RtManifest;

/* A hash, of a platform or of the mathematics, and the first step that ran with it. */
enum { RT_MAX_PLATFORMS = 16 };
typedef struct RtSince {
    int64_t from_step;
    uint64_t hash;
} RtSince;

/* What train_state.json says beyond what this trainer is. */
typedef struct RtTrainState {
    int64_t step, seed, samples, data_samples;
    int64_t skipped, skipped_in_a_row, scaled_updates;
    double beta1_power, beta2_power, loss_scale;
    uint64_t numerics_hash, data_mix; /* rt_tokens_mix */
    uint64_t data_hash;               /* rt_tokens_hash; 0: not known */
    RtRecords data, eval;             /* none: of an earlier version, or without --eval */
    RtSince platform[RT_MAX_PLATFORMS];
    int n_platforms;
    RtSince lineage[RT_MAX_PLATFORMS]; /* numerics hashes; none: of an earlier version */
    int n_lineage;
    /* the order of data began before this step, when so much had been seen */
    int64_t order_step, order_samples, order_tokens;
    int64_t tokens; /* seen; -1: of an earlier version */
    RtBest best;
} RtTrainState;

/* On rank 0: its clock, in seconds, and what saves and steps took, for rt_due.c. */
typedef struct RtDue {
    double saved;                    /* when the last save was begun, or training */
    double ended;                    /* the last step, with its save */
    double longest_step;             /* with its evaluation, without its save */
    double left, reserved;           /* of --stop-after, when that was looked at last */
    _Atomic int64_t longest_save_ns; /* 0: there was none; a thread may write it */
} RtDue;

/* Of a checkpoint on disk: did all of it verify, or was it written by this run? */
typedef struct RtVerdict {
    int64_t step;
    bool sound;
} RtVerdict;

typedef struct RtCheckpoint {
    const char *dir;
    int lock;      /* descriptor of the folder, rank 0: one run at a time */
    RtFile *files; /* those with tensors, set after set, those that are carried, and,
                      while one is written, the small ones */
    int n_files, n_tensor_files, n_lasting_files;
    int set_files[RT_SETS + 1]; /* those of a set begin there */
    int *file_of[RT_SETS];      /* [n_params] index in files; -1: the set lacks it */
    int64_t *bytes_at[RT_SETS]; /* [n_params] bytes of tensors before it in that file */
    char *stage, *convert;      /* RT_STAGE_ELEMS doubles each */
    char *chunk;                /* RT_CHUNK_BYTES */
    char *config;               /* rank 0: with what is carried; NULL: the trainer's */
    char error[RT_ERROR_BYTES]; /* of this rank, in what is going on; empty: none */
    int64_t saved;              /* the newest step on disk; -1: none */
    RtTrainState state;         /* of the step that is written */
    /* copies to write from (rt_snapshot.c) */
    bool one_writer;              /* of each file */
    bool apart;                   /* a thread writes, training goes on */
    bool snapshots;               /* there is memory for them: */
    char *snapshot[RT_MAX_RANKS]; /* this rank's; of others where there is one writer */
    pthread_t writer;
    int64_t writing;                    /* what the thread saves; -1: there is none */
    _Atomic bool written;               /* it is done */
    RtDue due;
    RtVerdict *verdicts; /* what this run knows of steps on disk */
    int n_verdicts;
    uint64_t here; /* hash of this run's platform */
    RtSince platform[RT_MAX_PLATFORMS], lineage[RT_MAX_PLATFORMS];
    int n_platforms, n_lineage;
} RtCheckpoint;

/* ---- rt_layout.c ----------------------------------------------------------------- */

/* Fills files, file_of, bytes_at; false when memory is out. */
bool rt_layout_fill(RtCheckpoint *c, const RtTrainer *t);
/* Of what a segment has of a set, in files. */
RtDtype rt_layout_dtype(const RtTrainer *t, const RtSegment *s, RtSet set);
const char *rt_dtype_safetensors(RtDtype d);
const char *rt_layout_name(RtSet set); /* what names of its files begin with */
/* The set that a file of that name is of; RT_SETS: of none. */
RtSet rt_layout_set_of(const char *name);
/* Where a set keeps the segment's part of it, in bytes of an arena space; -1: nowhere. */
int64_t rt_layout_offset(const RtSegment *s, RtSet set);
/* Elements of this rank, [n] of a set's dtype, between the arena and a file. */
void rt_layout_take(const Rt *rt, RtSet set, const RtSegment *s, int64_t at, int64_t n,
                    void *out, void *spare);
void rt_layout_put(Rt *rt, RtSet set, const RtSegment *s, int64_t at, int64_t n,
                   const void *from, void *spare);

/* ---- rt_state.c ------------------------------------------------------------------ */

/* What of a run changes from step to step, as it is now. */
void rt_state_take(const Rt *rt, int64_t step, RtTrainState *s);
/* Both return texts that the caller frees, NULL when memory is out. */
char *rt_state_text(const Rt *rt, const RtTrainState *s);
char *rt_state_index(const RtCheckpoint *c, const RtTrainer *t);
/* In any case free s->data and s->eval. */
bool rt_state_read(RtTrainState *s, const char *text, int64_t bytes);

/* ---- rt_manifest.c --------------------------------------------------------------- */

char *rt_manifest_text(const RtFile *files, int n_files, int64_t step);
bool rt_manifest_read(RtManifest *m, const char *folder, char *error);
void rt_manifest_free(RtManifest *m);
int64_t rt_manifest_bytes(const RtManifest *m); /* of all files; -1: no such number */
/* Are all of its files there, with its sizes? */
bool rt_manifest_sizes(const RtManifest *m, const char *folder, char *error);
/* This rank's chunks of files that are written, each of them once. */
void rt_manifest_hash_own(Rt *rt, const char *folder, RtFile *files, int n_files);
/* Collective, when all ranks have done that: the hash of each file, and of each chunk
 * where those are kept. */
bool rt_manifest_hash(Rt *rt, RtFile *files, int n_files);
/* Collective, the first part of a verification: MANIFEST is sound, and so are the sizes
 * of its files. False: error says why, on one rank at least. Free m in any case; the
 * folder's name must last as long. */
bool rt_manifest_open(Rt *rt, const char *folder, RtManifest *m);
/* Collective, the last part: are the hashes of files [first, end), which all ranks have
 * passed by rt_chunks_until, MANIFEST's? False: error says why, as above. */
bool rt_manifest_agree(Rt *rt, RtManifest *m, int first, int end);
/* Collective: both parts, of all files. */
bool rt_manifest_verify(Rt *rt, const char *folder, RtManifest *m);

/* ---- rt_chunks.c ----------------------------------------------------------------- */

void rt_chunks_begin(RtChunks *h, const char *folder, RtFile *files, int n_files,
                     int version);
/* The hash of a chunk, read through RT_CHUNK_BYTES of memory. */
bool rt_chunk_hash(int fd, const char *path, int64_t at, int64_t bytes, int version,
                   char *memory, uint64_t *hash, char *error);
/* CHUNKS: the hashes of all chunks of files with tensors. Its length follows from theirs.
 * A text that the caller frees, NULL when memory is out; or hashes go from one into
 * files, false when it is none of theirs. */
int64_t rt_chunks_text_bytes(const RtFile *files, int n_files);
char *rt_chunks_text(const RtFile *files, int n_files);
bool rt_chunks_read(RtFile *files, int n_files, const char *text, int64_t bytes);
/* This rank's chunks up to byte `at` of that file, or, with n_files, all of them. */
void rt_chunks_until(Rt *rt, RtChunks *h, int file, int64_t at);
void rt_chunks_end(RtChunks *h);

/* ---- rt_carry.c ------------------------------------------------------------------ */

enum { RT_MOST_CARRIED = 16 };
/* Collective: files beside the weights that the model needs but training does not, such
 * as its tokenizer's, of the folder that it comes from: they go into each checkpoint.
 * False: one cannot be read. */
bool rt_carry_read(Rt *rt, const char *folder);

/* ---- rt_config.c ----------------------------------------------------------------- */

/* Of the first rank: what config.json there knows goes into that of each checkpoint. An
 * error of a call is in c->error; what is no config.json is told and ignored. */
void rt_config_carry(Rt *rt, const char *folder);

/* ---- rt_best.c ------------------------------------------------------------------- */

void rt_best_forget(Rt *rt);  /* the held-out data are others now: rank 0 says so */
void rt_best_resumed(Rt *rt); /* does the run go on, by --patience? */

/* ---- rt_prune.c ------------------------------------------------------------------ */

/* Collective: DIR's steps, largest first, as rank 0 finds them; the caller frees them.
 * -1: rank 0 has an error. */
int rt_share_steps(Rt *rt, int64_t **steps);
void rt_prune_note(const Rt *rt, int64_t step, bool sound);
void rt_prune(Rt *rt); /* collective */

/* ---- rt_snapshot.c, rt_writers.c ------------------------------------------------- */

void rt_snapshot_open(Rt *rt); /* collective: takes the memory, or decides to wait */
void rt_snapshot_take(Rt *rt); /* this rank's copy is that of now */
/* A thread writes this step's. False: it cannot be started; rt_save_write does it. */
bool rt_snapshot_start(Rt *rt, int64_t step);
/* Collective: must each file have one writer? As --one-writer says, or a trial shows. */
bool rt_writers_try(Rt *rt);

/* ---- rt_save.c, rt_tensors.c, rt_load.c ------------------------------------------ */

/* Collective: has no rank an error? The first that has, as `rank`; -1: none. */
int rt_first_error(Rt *rt);
/* The same of errors that say nothing about a checkpoint (rt_file_error_is_here). */
int rt_first_error_here(Rt *rt);
/* Collective: the state of now, written now or, apart, by a thread while training goes
 * on. */
bool rt_save(Rt *rt, int64_t step, bool apart);
void rt_due_begin(Rt *rt);                 /* its files are known: how long a save may take */
void rt_due_saved(Rt *rt, double seconds); /* a save took so long */
/* Collective: the checkpoint of a step, from the copies or from the arena; false: it
 * failed, and the run goes on. */
bool rt_save_write(Rt *rt, int64_t step);
/* Collective: this rank's part of a set goes into the arena while all of it is hashed.
 * False: it cannot be read or is not what was written; the arena may have some of it. */
bool rt_load_set(Rt *rt, RtSet set, const char *folder, RtManifest *m);
/* Collective: has it the tensors that this trainer needs, and no others? False: its files
 * cannot be read. */
bool rt_set_fits(Rt *rt, RtSet set, const char *folder, const RtManifest *m, bool *fits);

/* ---- rt_find.c ------------------------------------------------------------------- */

/* What a folder is read with; memory for the files of its checkpoints. */
RtCheckpoint *rt_checkpoint_open(Rt *rt, const char *dir);
/* Collective: if a rank has an error, the first of them tells that the checkpoint is
 * damaged, and its number is returned; else -1. */
int rt_pass_over(Rt *rt, const char *folder);
/* Collective: the first rank with an error tells and ends the job. */
void rt_stop_on_error(Rt *rt, const char *what);
/* All ranks found the same: the first one tells. */
_Noreturn void rt_refuse(Rt *rt, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- rt_accept.c ----------------------------------------------------------------- */

/* Are they equal but for how their numbers are written? Earlier generators wrote 0.1 with
 * 17 digits. */
bool rt_text_same(const char *a, size_t n, const char *b, size_t m);

/* Collective: what can be taken of a checkpoint of other mathematics is taken, and s is
 * made to fit. theirs: of rank 0, its numerics.txt. False: it is damaged. */
bool rt_accept(Rt *rt, const char *folder, RtManifest *m, bool other_data,
               const char *theirs, RtTrainState *s);

/* A small file of a checkpoint, for the caller to free; NULL: c->error says why not. */
char *rt_load_small(Rt *rt, const char *folder, const char *name, int64_t *bytes);
/* Collective: what train_state.json says; false: it cannot be read. Small files are
 * verified before. */
bool rt_load_state(Rt *rt, const char *folder, int64_t step, RtManifest *m,
                   RtTrainState *s);

typedef struct RtTensor {
    char *name;
    int fd_index;
    RtDtype dtype;
    bool other; /* of a dtype that is no RtDtype */
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
/* Adds the tensors of a file; every rule of the format is checked. */
bool rt_tensors_add(RtTensors *s, const char *path, char *error);
/* By name; false when one is there twice. */
bool rt_tensors_sort(RtTensors *s, char *error);
RtTensor *rt_tensors_find(RtTensors *s, const char *name);
void rt_tensors_close(RtTensors *s);

/* ---- rt_verify.c ----------------------------------------------------------------- */

/* Of a folder that a command names: its steps, as rt_file_steps has them, or, without
 * them, whether it is a checkpoint itself. -1: it cannot be read, and that was said. */
int rt_folder_steps(const char *dir, int64_t **steps, bool *is_one);
/* Without ranks: is every byte of a checkpoint what was written? If not, why. */
bool rt_folder_is_sound(const RtFlags *f, const char *folder, char *why);

/* ---- rt_resume.c ----------------------------------------------------------------- */

/* Would a run with these flags not go on from it? Then error says why; what differs of
 * the mathematics is told on stderr. */
bool rt_resume_refuses(Rt *rt, const char *folder, const RtTrainState *s, char *error);

/* ---- what the room offers -------------------------------------------------------- */

/* Of a folder of Hugging Face's, or a step's; flag: who names it. */
void rt_import_weights(Rt *rt, const char *flag, const char *dir);
/* Rank 0 warns where config.json there describes another model. */
void rt_config_compare(const Rt *rt, const char *flag, const char *folder);
/* Collective: the folder whose weights --init means; those of a command that reads, by
 * --checkpoint or --init. The run ends where there is none. */
const char *rt_find_init(Rt *rt);
const char *rt_find_weights(Rt *rt);
/* Ids that end a sample, of the model in that folder: unless --stop says others. */
void rt_stop_find(Rt *rt, const char *folder);
/* After a step: is its loss over held-out data the best so far; has the run waited for a
 * better one as long as --patience says? Then it ends with this step. */
void rt_best_step(Rt *rt);
/* Collective. Without --checkpoint they do nothing and return false. */
bool rt_checkpoint_begin(Rt *rt); /* were weights and state read from one? */
/* After a step: saves when it is time. Does the run end here, to be resumed? */
bool rt_checkpoint_step(Rt *rt);
/* Before the first step: the same, of a run whose state is on the disk. */
bool rt_checkpoint_asked(Rt *rt);
/* Ends the run when more updates in a row were skipped than the trainer allows. */
void rt_update_gate(Rt *rt);
/* Of the copies that saves beside training write from: bytes of this rank's, 0: there are
 * none; does the address lie in one? */
int64_t rt_snapshot_bytes(const Rt *rt);
bool rt_snapshot_holds(const Rt *rt, uintptr_t address);
void rt_snapshot_join(Rt *rt); /* it has written, if there is one */
int rt_verify(const RtFlags *f);                 /* an exit code */
int rt_ls(const RtTrainer *t, const RtFlags *f); /* the same */

/* --dry-run. begin: what can be checked without ranks; `alone`: this process starts all of
 * them. It may say that none can be started. end: of the process that started ranks, with
 * their exit code: prints what was checked, if it is to; an exit code. */
struct RtDry;
struct RtDry *rt_dry_begin(const RtTrainer *t, const RtFlags *f, int ranks, bool alone);
bool rt_dry_starts(const struct RtDry *d);
int rt_dry_end(struct RtDry *d, int code, bool prints);
void rt_dry_rank(Rt *rt); /* collective: a rank that has met the others */

#endif
