/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize.h: `fsdpgen tokenize`, from text to token files. tokenize.c has the command
 * line. All that strangers wrote is read by a child (child.h): tokenize_load.c,
 * tokenize_load_spaces.c and tokenize_added.c read a tokenizer.json, tokenize_spaces.c, tokenize_split.c and tokenize_bpe.c are what it
 * does to a text; tokenize_read.c reads files, tokenize_input.c cuts them into jobs,
 * tokenize_lines.c does them, tokenize_jobs.c by threads and in order, tokenize_send.c
 * hands the parent what tokenize_write.c writes. tokenize_terminal.c is for prompts and
 * what models say. Memory that workers share is malloc's. */
#ifndef TOKENIZE_H
#define TOKENIZE_H

#include "base/options.h"

#include <jansson.h>
#include <sys/types.h>

enum { TOK_ERROR_BYTES = 512, TOK_MAX_STEPS = 8, TOK_MAX_AROUND = 16 };

/* ---- growing memory -------------------------------------------------------------- */

/* Ends the program when out of memory (gen_out_of_memory). */

void *tok_grow(void *items, size_t *cap, size_t need, size_t item_bytes);

typedef struct TokIds {
    uint32_t *id;
    size_t n, cap;
    unsigned char *target; /* [n], for chats: is it a target? NULL: no mask */
    size_t target_cap;
} TokIds;
void tok_push(TokIds *ids, uint32_t id);

typedef struct TokText {
    char *s;
    size_t n, cap;
} TokText;
void tok_append(TokText *t, const char *s, size_t n);

/* ---- tokenize_utf8.c ------------------------------------------------------------- */

/* The number of leading bytes of s that are UTF-8; n: all of them. */
size_t tok_utf8_valid(const char *s, size_t n);
/* Bytes of white space (Unicode's White_Space) at the start, or the end, of s. */
size_t tok_space_begin(const char *s, size_t n);
size_t tok_space_end(const char *s, size_t n);
/* A text, of which *n bytes are left, without the white space around it, as Python's
 * strip. */
const char *tok_strip(const char *s, size_t *n);
/* Is this text certainly in normal form C? */
bool tok_is_nfc(const char *s, size_t n);
/* Appends the normal form C of a text; false with error set. */
bool tok_nfc(TokText *out, const char *s, size_t n, char *error);
/* The last place before n at which s can be cut so that both parts normalise separately; 0:
 * none. */
size_t tok_nfc_cut(const char *s, size_t n);
/* Whether a text between added tokens begins where a stretch does, and the whole text. */
typedef enum { TOK_GOES_ON, TOK_BEGINS, TOK_BEGINS_TEXT } TokBegins;
/* How long is the normal form of s[0, at)? For places `at` that never decrease, in time linear in n
 * for all of them together, as long as few of them separate a letter from its marks. Starts as {.s,
 * .n}; free scratch.s afterwards. */
typedef struct TokPlace {
    const char *s;
    size_t n, at, normal; /* s[0, at) is `normal` bytes long, and a unit starts at `at` */
    TokText scratch;
    TokBegins begins;
} TokPlace;
bool tok_nfc_place(TokPlace *p, size_t at, size_t *place, char *error);

/* ---- tokenize_split.c: a text to pieces ------------------------------------------ */

typedef struct TokRegex TokRegex;
/* The pattern of a tokenizer.json (literal: a plain text), or NULL with error set if some part may
 * have another meaning here. */
TokRegex *tok_regex_open(const char *pattern, size_t n, bool literal, char *error);
extern const char tok_gpt2_pattern[];
/* What a thread needs for matching. */
typedef struct TokMatch TokMatch;
TokMatch *tok_match_open(void);
void tok_match_close(TokMatch *m);
/* The next match in s[0, n) at or after `from`; its place is n if there is none. MORE: the text
 * after n may matter, so s must be longer, unless it is the last of its text. FAILED: error is
 * set. */
typedef enum { TOK_FOUND, TOK_NONE, TOK_MORE, TOK_FAILED } TokFound;
TokFound tok_regex_next(const TokRegex *r, TokMatch *m, const char *s, size_t n,
                        size_t from, bool last, size_t *begin, size_t *end, char *error);

/* ---- tokenize_bpe.c: a piece to ids ---------------------------------------------- */

typedef struct TokMerge {
    uint64_t pair; /* left << 32 | right; all ones: an empty slot */
    uint32_t rank, id;
} TokMerge;
/* The merge of a rank. */
typedef struct TokRule {
    uint32_t left, right, id;
} TokRule;
typedef struct TokWord {
    const char *s;
    uint32_t n, id;
    uint64_t hash;
} TokWord;
/* The text of an id; s is NULL if no token has it. */
typedef struct TokPiece {
    const char *s;
    size_t n;
} TokPiece;
/* A character that is a word, by its bytes; 0: an empty slot. */
typedef struct TokChar {
    uint32_t bytes, id;
} TokChar;
typedef struct TokVocab {
    uint32_t byte_id[256];
    TokChar *chars; /* open addressing; NULL: pieces begin as bytes, not as characters */
    size_t char_slots;
    TokMerge *merges; /* open addressing; a power of two of slots */
    size_t merge_slots;
    TokRule *rules; /* by rank; NULL: the result of a merge may be part of an earlier merge */
    size_t n_rules;
    TokWord *words; /* raw bytes to id: only if merges may be ignored */
    size_t word_slots;
    TokPiece *pieces; /* [max_id + 1]; NULL: only texts become ids */
} TokVocab;
typedef struct TokBpe TokBpe; /* a thread's cache and scratch */
TokBpe *tok_bpe_open(void);
void tok_bpe_close(TokBpe *b);
uint64_t tok_bpe_steps(const TokBpe *b); /* pairs examined in long pieces so far */
void tok_merge_put(TokVocab *v, uint32_t left, uint32_t right, uint32_t rank,
                   uint32_t id);
void tok_char_put(TokVocab *v, const char *s, size_t n, uint32_t id);
void tok_word_put(TokVocab *v, const char *s, size_t n, uint32_t id);
/* After the last of n merges: fills rules. */
void tok_merges_done(Gen *g, TokVocab *v, size_t n);
/* The bytes that a word of a vocabulary stands for, in ByteLevel's alphabet. false: it has a
 * character outside the alphabet, so no text can become this word. to: as long as the word. */
bool tok_raw_bytes(const char *s, size_t n, char *to, size_t *bytes);
void tok_bpe_piece(const TokVocab *v, TokBpe *b, const char *s, size_t n, TokIds *out);

/* ---- tokenize_encode.c: a text to ids -------------------------------------------- */

typedef struct TokAdded {
    const char *s; /* what is looked for: in normal form, if that is where */
    const char *name;
    size_t n, n_name;
    uint32_t id;
    bool lstrip, rstrip, normalized, special, in_vocab;
} TokAdded;
/* Which added tokens a text may contain: messages of a chat cannot contain special ones. */
typedef enum { TOK_FIND_PLAIN, TOK_FIND_ALL } TokFind;

/* SentencePiece's normal form: `from` is written as `to`, and `before` is put before a
 * text: any, one that does not begin with `to`, or such a one at the whole text's
 * beginning. */
typedef enum {
    TOK_BEFORE_NONE,
    TOK_BEFORE_ALL,
    TOK_BEFORE_MISSING,
    TOK_BEFORE_FIRST
} TokBefore;
typedef struct TokSpaces {
    char from;
    const char *to, *before; /* to NULL: the tokenizer has no such form */
    size_t n_to, n_before;
    TokBefore when;
} TokSpaces;

typedef struct Tokenizer {
    const char *file; /* NULL: ids are bytes */
    uint32_t max_id;
    bool nfc;
    TokSpaces spaces;
    bool strips_space; /* from the beginning of what ids say */
    TokRegex *step[TOK_MAX_STEPS]; /* each one cuts the pieces of the previous one */
    int steps;
    TokVocab vocab;
    TokAdded *added; /* by first byte, the longest first */
    int n_added, added_from[257];
    /* for those searched in the raw text, and in the normal form: */
    bool has_added[2], takes_space[2]; /* are there any; does one take white space */
    size_t longest_added;
    uint32_t before[TOK_MAX_AROUND],
        after[TOK_MAX_AROUND]; /* what a post-processor adds */
    int n_before, n_after;
} Tokenizer;

typedef struct TokChat TokChat;
/* What a thread needs. */
typedef struct TokWorker {
    const Tokenizer *tok;
    TokMatch *match;
    TokBpe *bpe;
    TokText scratch;
    TokChat *chat; /* NULL: no templates */
    char error[TOK_ERROR_BYTES];
} TokWorker;

/* The id of an added token by its name, or -1. */
int64_t tok_id_of(const Tokenizer *t, const char *name, size_t n);
/* Finds the first added token of one of the two kinds that starts in s[first, limit),
 * including the white space it takes, but nothing before `from`. Returns its id, or -1.
 * theirs: not 0 where no special token may lie; NULL: nowhere. */
int64_t tok_added_next(const Tokenizer *t, bool normalized, TokFind find,
                       const char *theirs, const char *s, size_t n, size_t from,
                       size_t first, size_t limit, size_t *begin, size_t *end);
/* Appends the ids of a text, which begins after an added token or as the whole does
 * (first); of one that has no added token before it is normalised; of one that is
 * normalised. */
bool tok_encode(TokWorker *w, const char *s, size_t n, bool first, TokIds *out);
bool tok_encode_between(TokWorker *w, const char *s, size_t n, bool first, TokFind find,
                        TokIds *out);
bool tok_encode_part(TokWorker *w, const char *s, size_t n, TokFind find, TokIds *out);
/* Encodes pieces of a normalised text without added tokens, until one starts at or after `to`: *end
 * is that place. Unless s[0, n) is the last of the text, *end may be less, because what follows
 * decides where the next piece ends. */
bool tok_encode_stretch(TokWorker *w, const char *s, size_t n, bool last, size_t to,
                        size_t *end, TokIds *out);

/* ---- tokenize_spaces.c ----------------------------------------------------------- */

/* Is a text surely in the tokenizer's normal form? */
bool tok_is_normal(const Tokenizer *t, const char *s, size_t n);
/* That form of a text, or of a stretch that tok_normal_cut ended, appended. */
bool tok_normal(const Tokenizer *t, TokText *out, const char *s, size_t n, TokBegins begins,
                char *error);
/* As tok_nfc_cut; all: how long s is. */
size_t tok_normal_cut(const Tokenizer *t, const char *s, size_t n, size_t all);
bool tok_normal_place(const Tokenizer *t, TokPlace *place, size_t at, size_t *normal,
                      char *error);

/* ---- tokenize_load.c, tokenize_added.c ------------------------------------------- */

/* The purpose: pieces are only for chats and texts of ids. */
typedef enum { TOK_FOR_TEXTS, TOK_FOR_CHATS, TOK_FOR_IDS } TokUse;
/* Errors go to diag. */
bool tok_load(Gen *g, Tokenizer *t, const char *file, TokUse use);

/* ---- tokenize_chat.c ------------------------------------------------------------- */

/* One thread opens all of them. NULL with error set. */
TokChat *tok_chat_open(TokWorker *w, const char *template, char *error);
void tok_chat_close(TokChat *c);
bool tok_chat_run(TokChat *c, const json_t *messages, const json_t *record, TokIds *out,
                  char *error);

/* ---- tokenize_read.c ------------------------------------------------------------- */

typedef struct TokZstd TokZstd;
typedef struct TokFile {
    const char *name;
    int fd;
    bool is_zstd;
    TokZstd *zstd;    /* NULL: it is not, or there is no library */
    bool text, ended; /* text: it must be UTF-8 */
    FileMark mark;
    int64_t bytes, checked,
        line;     /* bytes read; bytes known to be text; the line of what comes next */
    char rest[3]; /* of a character that is not yet complete */
    size_t n_rest;
} TokFile;
bool tok_file_open(TokFile *f, const char *name, bool text, char *error);
/* Appends the next bytes; ended: there are no more, and the file did not change. */
bool tok_file_read(TokFile *f, TokText *to, char *error);
void tok_file_close(TokFile *f);

/* ---- tokenize_zstd.c ------------------------------------------------------------- */

extern const char tok_without_zstd[]; /* the message then; "": the library is there */
/* Is a file zstd, by its name or the first n bytes of it? */
bool tok_is_zstd(const char *name, const char *s, size_t n);
TokZstd *tok_zstd_open(void);
void tok_zstd_close(TokZstd *z);
/* Like read() of what the file unpacks to; -1 with error set. f->bytes counts the file's
 * own bytes. */
ssize_t tok_zstd_read(TokFile *f, char *to, size_t n, char *error);

/* ---- tokenize_input.c, tokenize_lines.c, tokenize_jobs.c ------------------------- */

typedef struct TokOptions {
    const char *output, *tokenizer, *template;
    const char *field; /* NULL until files are checked: then its default */
    const char *end;   /* a token or an id */
    const char *held_out; /* a share of the documents; NULL: all are written */
    bool only_held_out;   /* these are written, not the others */
    uint64_t held_below;  /* the share, of 2^32 */
    OptionList inputs;
    int64_t threads;
    const char *prompt; /* its ids are printed; NULL: files are tokenized */
    bool force, jsonl, no_special, decode;
    bool progress, screen; /* stderr is a terminal; stdout is one */
    int64_t end_id;        /* -1: none */
} TokOptions;

typedef enum {
    TOK_JOB_TEXT,    /* of a document, with added tokens */
    TOK_JOB_PART,    /* the same in normal form, without raw-text added tokens */
    TOK_JOB_STRETCH, /* of a long text without added tokens: its start is a guess */
    TOK_JOB_LINES    /* whole lines of JSON */
} TokJobKind;

typedef struct TokJob {
    TokJobKind kind;
    const char *name; /* of the input */
    char *s;          /* [n], the job's own; [to, n) is look-ahead */
    size_t n, to;
    int64_t at;                 /* of a stretch: its position in its text */
    bool last;                  /* s is at the end of its text */
    bool begins, ends, chained; /* a document's start, end; chained: continues a stretch */
    int64_t line;               /* of the first byte, from 1 */
    /* the results */
    TokIds ids;
    size_t end;
    int64_t documents, skipped, left_out;
    bool good, done;
    char error[TOK_ERROR_BYTES];
} TokJob;

typedef struct TokReader TokReader;
TokReader *tok_reader_open(const Tokenizer *t, const TokOptions *o);
/* The next job; false at the end, or with error set. */
bool tok_reader_next(TokReader *r, TokJob *job, char *error);
/* The text after a stretch that is not its text's last: at least `need` bytes, or all. */
bool tok_reader_peek(TokReader *r, size_t need, const char **s, size_t *n, bool *last,
                     char *error);
int64_t tok_reader_bytes(const TokReader *r, int64_t *total); /* read so far */
void tok_reader_close(TokReader *r);

/* tokenize_held.c: a share, 1% or 0.01, of 2^32; false: it is not between 0 and 1. */
bool tok_read_share(const char *s, uint64_t *below);
/* Is a document, a text or a list of messages, held out? */
bool tok_is_held_out(const TokOptions *o, const json_t *document);

/* Fills the results; for a stretch without what ends a document. */
void tok_job_run(TokWorker *w, const TokOptions *o, TokJob *job);
void tok_end_document(const TokWorker *w, const TokOptions *o, TokJob *job);
bool tok_job_fails(TokJob *job, const char *why); /* false */

typedef struct TokTotals {
    int64_t tokens, documents, targets, bytes, empty_lines, left_out;
    bool bare; /* documents have no separator */
    uint32_t max_id;
    uint64_t steps; /* tok_bpe_steps of all workers; not sent */
} TokTotals;
enum { TOK_TOTALS = 8 };
/* Takes ids in order; false with error set. */
typedef struct TokSink {
    bool (*take)(void *with, const TokIds *ids, char *error);
    void *with;
} TokSink;
/* Runs everything; false with error set. */
bool tok_run(const Tokenizer *t, const TokOptions *o, const TokSink *out,
             TokTotals *totals, char *error);

/* ---- tokenize_send.c ------------------------------------------------------------- */

typedef struct TokSender TokSender; /* in the child */
TokSender *tok_send_open(const char *output, uint32_t max_id, bool mask);
bool tok_send_ids(void *sender, const TokIds *ids, char *error); /* of a TokSink */
void tok_send_end(TokSender *s, const TokTotals *t);

typedef struct TokWriter TokWriter;
typedef struct TokReceiver { /* in the parent */
    const char *output;
    bool mask, force;
    /* the results */
    TokWriter *writer; /* NULL: nothing yet */
    TokTotals totals;
    bool ended; /* all of it */
    char error[TOK_ERROR_BYTES];
    /* state of the receiver */
    int width;
    int64_t data, masks; /* bytes */
    bool in_frame;
    char kind;
    uint64_t left;
    unsigned char held[8 * TOK_TOTALS];
    size_t n_held;
} TokReceiver;
/* Writes what the child sent; false with error set. */
bool tok_receive(TokReceiver *r, const char *s, size_t n);

/* ---- tokenize_write.c ------------------------------------------------------------ */

/* A token file in llm.c's format, which gets its name when it is complete, or never. width: bytes
 * per token. */
TokWriter *tok_writer_open(const char *path, int width, bool mask, bool force,
                           char *error);
bool tok_writer_add(TokWriter *w, bool mask, const char *s, size_t n, char *error);
bool tok_writer_commit(TokWriter *w, int64_t tokens, char *error);
void tok_writer_abandon(TokWriter *w);

/* ---- tokenize_files.c ------------------------------------------------------------ */

/* Does an input have a JSON object on each line? */
bool tok_is_lines(const TokOptions *o, const char *name);
/* If a file, judged by its first n bytes and its last four, is neither text nor JSON: "is gzip:
 * ..."; else NULL. */
const char *tok_no_text(const char *s, size_t n, const char *end);
/* Checks the inputs and the output; false with error set. */
bool tok_check_files(Gen *g, const TokOptions *o, char *error);

/* ---- tokenize_terminal.c --------------------------------------------------------- */

/* Prints the prompt's ids as one line on stdout; false with error set. */
bool tok_print_prompt(const Tokenizer *t, const TokOptions *o, char *error);
/* Turns ids on stdin into text on stdout; false with error set, after the text so far. */
bool tok_decode(const Tokenizer *t, const TokOptions *o, char *error);

/* ---- tokenize.c, tokenize_options.c ---------------------------------------------- */

enum { TOK_COMMAND = 1 }; /* its bit in the table; no other command's options have it */
extern const Option tok_option_table[];
/* The command line of fsdpgen tokenize. */
OptionsFound tokenize_read(OptionReader *r, TokOptions *o);
int tokenize_run(Gen *g, TokOptions *o); /* returns an exit code */

#endif
