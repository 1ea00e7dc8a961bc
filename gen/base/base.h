/* SPDX-License-Identifier: Apache-2.0 */
/* base.h: what every file of the generator stands on and no pass owns: memory, text,
 * messages, the embedded files. */
#ifndef BASE_H
#define BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define FSDPGEN_VERSION "0.1.0"

/* ---- the context ----------------------------------------------------------------- */

/* An output file; a child process makes them (child.c), and its parent writes them. */
typedef struct OutFile { const char *path; const char *data; size_t bytes; } OutFile;

/* What this room keeps for a run. It begins the Gen of the rooms above, of which this one
 * knows nothing else: functions take the Gen, and base_of finds what is theirs. */
typedef struct GenBase {
    struct Arena *arena;
    struct Diags *diags;
    bool color;              /* of messages */
    int exit_code;           /* of errors, where a check has one of its own; 0: EXIT_DIAG */
    struct { OutFile *items; int count, cap; } files;
} GenBase;

typedef struct Gen Gen;
static inline GenBase *base_of(const Gen *g) { return (GenBase *)g; }
/* For who needs no more than this room: a Gen that is nothing but its beginning. */
static inline Gen *base_gen(GenBase *b) { return (Gen *)b; }

/* Exit codes of fsdpgen (docs/reference.md lists them). */
enum { EXIT_DONE = 0, EXIT_DIAG = 1, EXIT_USAGE = 2, EXIT_FIT = 3, EXIT_TOOL = 4, EXIT_BUG = 70 };

/* ---- base.c: arena, text, bugs --------------------------------------------------- */

void *gen_alloc(Gen *g, size_t bytes);               /* zeroed, 16-byte aligned; dies when out */
char *gen_printf(Gen *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *gen_vprintf(Gen *g, const char *fmt, va_list ap);
/* What is allocated between a mark and its release is gone then. */
void *gen_mark(Gen *g);
void gen_release(Gen *g, void *mark);
char *gen_strdup(Gen *g, const char *s);
char *gen_strndup(Gen *g, const char *s, size_t n);
/* Grow an array held as {ptr, count, cap}; returns the new zeroed element. */
void *gen_push_(Gen *g, void **items, int *count, int *cap, size_t item_bytes);
#define gen_push(g, list) \
    ((__typeof__((list)->items))gen_push_((g), (void **)&(list)->items, &(list)->count, \
                                          &(list)->cap, sizeof *(list)->items))
/* Ends the program: the machine, or a limit, has no more memory; exit 1. */
_Noreturn void gen_out_of_memory(size_t bytes);
void *gen_calloc(size_t n, size_t bytes); /* to be freed; ends the program when out */
/* A bug of ours: prints file, line and text to stderr, exit 70. */
_Noreturn void gen_die_(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define gen_die(...) gen_die_(__FILE__, __LINE__, __VA_ARGS__)
#define gen_require(cond, ...) ((cond) ? (void)0 : gen_die_(__FILE__, __LINE__, __VA_ARGS__))

static inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

/* Growing text, arena-owned. */
typedef struct Text { char *s; size_t len, cap; Gen *g; } Text;
void text_add(Text *t, const char *s, size_t n);
void text_printf(Text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

uint64_t hash_bytes(const void *p, size_t n); /* XXH3 64 */

/* ---- printable.c: text of strangers for a terminal ------------------------------- */

enum { PRINTABLE_BYTES = 8 };
/* The printable form of what s begins with; returns how many bytes of s that is. */
size_t printable_step(const char *s, size_t n, char to[PRINTABLE_BYTES], size_t *bytes);
void text_printable(Text *t, const char *s, size_t n, bool lines); /* lines: keeps their ends */
void print_printable(FILE *f, const char *s, size_t n);
/* A line: the prefix as it is, the rest printable. */
void print_line(FILE *f, const char *prefix, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void vprint_line(FILE *f, const char *prefix, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

/* ---- read.c: files of strangers -------------------------------------------------- */

/* Reads a regular file whole, into memory of its own with a NUL behind it, which malloc made;
 * 0 or an errno: EFBIG: longer than `most`; ESTALE: another program changed it meanwhile. */
int file_read(const char *path, size_t most, const char **text, size_t *bytes);
/* The same of a file of Lua, C or JSON, for which 8 MiB are enough. */
enum { MAX_SOURCE_BYTES = 8 << 20 };
int read_whole_file(const char *path, const char **text, size_t *bytes);
const char *file_problem(int e); /* for messages */
/* What is known of an open file, to see at its end whether it is still that file: its length,
 * the times when its contents and its status changed. */
typedef struct FileMark { int64_t bytes, changed[2], status[2]; } FileMark;
/* Opens a regular file to read it; -1 with errno set. A large file of this very moment is waited
 * for until its clock has gone on, and another change would show; a small one is read at once. */
int file_open(const char *path, FileMark *mark);
bool file_changed(int fd, const FileMark *mark);

/* ---- diag.c: messages for users -------------------------------------------------- */

typedef struct Pos { const char *file; int line, col, len; } Pos; /* line 0: no place */

typedef enum { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE } DiagKind;

/* Records `file:line:col: error: object: problem`; the source line, a caret and `help:` follow
 * when printed. help may be NULL. Errors are collected; passes go on as far as they can. */
void diag_add(Gen *g, DiagKind kind, Pos pos, const char *help, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Prints all collected messages in order of file, line, col, once; returns the exit code that they
 * ask for, EXIT_DONE if none is an error. */
int diag_finish(Gen *g);
void diag_stop_on_errors(Gen *g);     /* the same, but exits on an error */
void diag_print(Gen *g);              /* the same without a code */
int diag_errors(const Gen *g);        /* errors collected so far */
const char *diag_warning(const Gen *g, int k); /* text of the k-th so far; NULL: no more */
const char *diag_first_error(const Gen *g);    /* text of it; NULL: there is no error */
/* Registers the text of a file (or of "<--set>"), so that messages can show its lines. */
void diag_source(Gen *g, const char *file, const char *text, size_t bytes);
/* Nearest of candidates by Damerau-Levenshtein within max(1, len/3), or NULL. */
const char *diag_nearest(const char *word, const char *const *candidates, int count);
/* The number of the command-line option --NAME, whose name has n bytes; -1: there is none,
 * and text says so, with the nearest. */
int diag_option(const char *name, size_t n, const char *const *names, int count, char *text,
                size_t bytes);
/* Is the next word of a command line an option, and so no value of the one before? */
bool diag_is_option(const char *word);

/* ---- embedded files -------------------------------------------------------------- */

/* Of gen/lua, templates, runtime and models; built by gen/base/embed_tool.c. */

typedef struct Embedded { const char *path; const unsigned char *data; size_t bytes; } Embedded;
extern const Embedded embedded_files[];   /* sorted by path: "templates/ops/add/op.lua" */
extern const int embedded_count;
const Embedded *embed_find(const char *path);
/* From now on files of a source tree, at the same paths, come first. */
void embed_share(const char *dir);

/* Can an edit of this file of runtime/ change a bit of a result? (arithmetic.c) */
bool runtime_computes(const char *path);

#endif
