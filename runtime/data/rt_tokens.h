/* SPDX-License-Identifier: MIT-0 */
/* rt_tokens.h: what the reader of token files (rt_tokens.c) provides for the order of samples
 * (rt_data.c). */
#ifndef RT_TOKENS_H
#define RT_TOKENS_H

#include "data/rt_mask.h"
#include "data/rt_data.h"
#include "job/rt_job.h"
#include "rt_target.h"

/* The identity of a file when it was checked: another file there, or another time, may mean another
 * content. */
typedef struct RtIdentity {
    uint64_t device, inode;
    int64_t bytes, modified_ns, changed_ns; /* mtime; ctime, which programs cannot set */
} RtIdentity;

typedef struct RtMapped {
    char *name;
    const unsigned char *at; /* NULL: not mapped */
    int64_t bytes;           /* without what a mask says of itself */
    RtIdentity is;
    int64_t opened_ns; /* wall clock */
    bool clean;        /* none of its pages was waiting to be written: any later change gives the
                        * file another time */
} RtMapped;

typedef enum {
    RT_FILE_BY_NAME,
    RT_FILE_TEXT,
    RT_FILE_LLMC,
    RT_FILE_NANOGPT,
    RT_FILE_MEGATRON,
    RT_FILE_FORMATS
} RtFileFormat;
extern const char *const rt_file_formats[RT_FILE_FORMATS]; /* as spelled in --data */

typedef struct RtTokenFile {
    char *name;
    RtMapped map, mask, index;
    RtMaskTrailer mask_of;   /* version 0: the mask is only bits */
    const unsigned char *at; /* first token */
    int width;               /* bytes of a token: 1, 2, 4, 8 */
    bool is_signed;
    bool taken_for_text; /* its format was neither given nor recognisable from its name */
    int64_t tokens, first_sample, samples;
    /* Megatron: i64 [sequences], bytes before each in the file; i64 [bounds], sequences before each
     * document, then all. NULL: documents are unknown. */
    const unsigned char *pointers, *bounds;
    int64_t sequences, n_bounds;
} RtTokenFile;

/* Maps a file and checks what it contains; close it even after a failure. masked: X.mask must be
 * beside X. False with error set. */
bool rt_token_file_open(RtTokenFile *f, const char *name, RtFileFormat format,
                        bool masked, char *error);
void rt_token_file_close(RtTokenFile *f);
/* Is it the name of another file's mask? Does the file have a mask beside it? */
bool rt_token_file_is_mask(const char *name);
bool rt_token_file_has_mask(const char *name);
/* The file in which an address is mapped; NULL: none of these. */
const RtMapped *rt_token_file_holding(const RtTokenFile *f, uintptr_t address);
/* The token file of an index X.idx: X.bin; NULL: it is not an index. To be freed. */
char *rt_token_file_of_index(const char *name, RtFileFormat format);

int64_t rt_token_at(const RtTokenFile *f, int64_t i);
/* Is token i to be predicted? */
bool rt_token_is_target(const RtTokenFile *f, int64_t i);
/* The first token after token i that starts a document, according to the file's index; the number
 * of tokens if there is none. */
int64_t rt_token_next_bound(const RtTokenFile *f, int64_t i);

/* Sets error, returns false. */
bool rt_tokens_wrong(char *error, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Maps a whole regular file that is not empty. False with error set. */
bool rt_mapped_open(RtMapped *m, const char *name, char *error);
void rt_mapped_close(RtMapped *m);
bool rt_identity_of(int fd, const char *name, RtIdentity *is); /* fd -1: by name */
bool rt_identity_equal(const RtIdentity *a, const RtIdentity *b);

/* ---- rt_mask.c ------------------------------------------------------------------- */

/* Maps X.mask, which has a bit for each token of X; or says why it is not valid. */
bool rt_mask_map(RtTokenFile *f, const char *name, char *error);
/* Does it belong to these tokens, and is it undamaged? digest: of both files. False with error
 * set. */
bool rt_mask_agrees(const RtTokenFile *f, uint64_t tokens_digest, uint64_t bits_digest,
                    char *error);

/* ---- rt_data.c ------------------------------------------------------------------- */

/* Puts a sample into sequence b of a micro-batch, with the starts of its documents. */
void rt_tokens_fill(Rt *rt, const RtTokens *d, int64_t sample, RtStage to, int64_t b);
/* Its files, for hashing. */
int rt_tokens_files(const RtTokens *d);
const RtTokenFile *rt_tokens_file(const RtTokens *d, int i);

#endif
