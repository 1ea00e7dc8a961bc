/* SPDX-License-Identifier: Apache-2.0 */
/* base.h: what every file of the generator builds on and no pass owns: memory, text, messages, the
 * embedded files. */
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

/* What this room keeps for a run. It is the first member of the Gen of the rooms above, whose other
 * members this room does not know: functions take the Gen, and base_of finds this part. */
typedef struct GenBase {
    struct Arena *arena;
    struct Diags *diags;
    bool color;              /* of messages */
    bool only_errors;        /* warnings and notes are not printed */
    bool silent;             /* no message is printed: a plan is only tried */
    int exit_code;           /* for errors of checks with a code of their own; 0: EXIT_DIAG */
    struct { OutFile *items; int count, cap; } files;
} GenBase;

typedef struct Gen Gen;
static inline GenBase *base_of(const Gen *g) { return (GenBase *)g; }
/* A Gen that is only its first part, for programs that need no more than this room. */
static inline Gen *base_gen(GenBase *b) { return (Gen *)b; }

/* Exit codes of fsdpgen (docs/reference.md lists them). */
enum { EXIT_DONE = 0, EXIT_DIAG = 1, EXIT_USAGE = 2, EXIT_FIT = 3, EXIT_TOOL = 4, EXIT_BUG = 70 };

/* ---- base.c: arena, text, bugs --------------------------------------------------- */

void *gen_alloc(Gen *g, size_t bytes);               /* zeroed, 16-byte aligned; dies when out */
char *gen_printf(Gen *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *gen_vprintf(Gen *g, const char *fmt, va_list ap);
/* gen_release frees everything that was allocated since the mark. */
void *gen_mark(Gen *g);
void gen_release(Gen *g, void *mark);
char *gen_strdup(Gen *g, const char *s);
char *gen_strndup(Gen *g, const char *s, size_t n);
/* Grow an array held as {ptr, count, cap}; returns the new zeroed element. */
void *gen_push_(Gen *g, void **items, int *count, int *cap, size_t item_bytes);
#define gen_push(g, list) \
    ((__typeof__((list)->items))gen_push_((g), (void **)&(list)->items, &(list)->count, \
                                          &(list)->cap, sizeof *(list)->items))
/* Ends the program with exit code 1 when memory, or a limit on it, is exhausted. */
_Noreturn void gen_out_of_memory(size_t bytes);
void *gen_calloc(size_t n, size_t bytes); /* free() it; ends the program when out of memory */
/* A bug of ours: prints file, line and text to stderr, exit 70. */
_Noreturn void gen_die_(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define gen_die(...) gen_die_(__FILE__, __LINE__, __VA_ARGS__)
#define gen_require(cond, ...) ((cond) ? (void)0 : gen_die_(__FILE__, __LINE__, __VA_ARGS__))

static inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static inline int64_t gcd_i64(int64_t a, int64_t b) { return b ? gcd_i64(b, a % b) : a; }
static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
/* Kernels have their numbers in f32: not what is 0 there, or infinite. */
static inline bool number_fits_f32(double x)
{
    return x == 0 || (x >= 1.2e-38 && x <= 3.4e38) || (x <= -1.2e-38 && x >= -3.4e38);
}

/* Growing text, arena-owned. */
typedef struct Text { char *s; size_t len, cap; Gen *g; } Text;
void text_add(Text *t, const char *s, size_t n);
void text_printf(Text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

uint64_t hash_bytes(const void *p, size_t n); /* XXH3 64 */

/* ---- printable.c: foreign text for a terminal ------------------------------------ */

enum { PRINTABLE_BYTES = 8 };
/* Writes the printable form of the first character of s; returns how many bytes of s it covers. */
size_t printable_step(const char *s, size_t n, char to[PRINTABLE_BYTES], size_t *bytes);
void text_printable(Text *t, const char *s, size_t n, bool lines); /* lines: line ends are kept */
const char *printable_text(Gen *g, const char *s, size_t n); /* of one line */
/* How many bytes of printable text fit into `most` columns of a terminal, and how many they take. */
size_t printable_fit(const char *s, size_t most, size_t *columns);
void print_printable(FILE *f, const char *s, size_t n);
/* Prints a line: the prefix unchanged, the rest made printable. */
void print_line(FILE *f, const char *prefix, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void vprint_line(FILE *f, const char *prefix, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

/* ---- read.c: foreign files ------------------------------------------------------- */

/* Reads a whole regular file into malloc'ed memory with a NUL at the end. Returns 0 or an errno:
 * EFBIG if it is longer than `most`, ESTALE if another program changed it meanwhile. */
int file_read(const char *path, size_t most, const char **text, size_t *bytes);
/* The same for a file of Lua, C or JSON; 8 MiB are enough for those. */
enum { MAX_SOURCE_BYTES = 8 << 20 };
int read_whole_file(const char *path, const char **text, size_t *bytes);
const char *file_problem(int e); /* for messages */
/* False, with errno, when not all bytes could be written. */
bool file_write_all(int fd, const char *p, size_t n);
/* Identifies an open file, to see after reading whether it changed: its length, and the times when
 * its contents and its status last changed. */
typedef struct FileMark { int64_t bytes, changed[2], status[2]; } FileMark;
/* Opens a regular file for reading; -1 with errno set. If a large file was changed within the
 * current tick of the clock of file times, it waits for the next tick, so that another change would
 * show. Small files are read at once. */
int file_open(const char *path, FileMark *mark);
bool file_changed(int fd, const FileMark *mark);

/* ---- inputs.c: which files a command reads --------------------------------------- */

struct stat;
void inputs_share(void);    /* before the first child: what children read is known here */
void inputs_in_child(void); /* this process is a child: what it opens is an input */
void input_opened(const struct stat *s);
void input_note(const char *path); /* of a file that other programs read for us */
/* Is it an input? Then no output may replace it, not even with --force. */
bool input_is(const struct stat *s);
#define INPUT_TEXT "is read here; the output would replace it"

/* ---- diag.c: messages for users -------------------------------------------------- */

typedef struct Pos { const char *file; int line, col, len; } Pos; /* line 0: no place */

typedef enum { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE } DiagKind;

/* Records `file:line:col: error: object: problem`; when printed, the source line, a caret and
 * `help:` follow. help may be NULL. Errors are collected; passes continue as far as they can. */
void diag_add(Gen *g, DiagKind kind, Pos pos, const char *help, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Prints all collected messages once, in order of file, line and column. Returns the exit code for
 * them: EXIT_DONE if there is no error. */
int diag_finish(Gen *g);
void diag_stop_on_errors(Gen *g);     /* the same, but exits on an error */
void diag_print(Gen *g);              /* the same without an exit code */
int diag_errors(const Gen *g);        /* errors collected so far */
const char *diag_warning(const Gen *g, int k); /* the k-th warning so far; NULL: no more */
const char *diag_first_error(const Gen *g);    /* the text of the first error; NULL: none */
/* Registers the text of a file (or of "<--set>"), so that messages can show its lines. */
void diag_source(Gen *g, const char *file, const char *text, size_t bytes);
/* Nearest of candidates by Damerau-Levenshtein within max(1, len/3), or NULL. */
const char *diag_nearest(const char *word, const char *const *candidates, int count);
/* The number of the command-line option --NAME, whose name has n bytes. -1: unknown; text then says
 * so and suggests the nearest name. */
int diag_option(const char *name, size_t n, const char *const *names, int count, char *text,
                size_t bytes);
/* Is the next word of a command line an option, rather than the value of the option before it? */
bool diag_is_option(const char *word);

/* ---- embedded files -------------------------------------------------------------- */

/* The files of gen/lua, templates, runtime and models; made by gen/base/embed_tool.c. */

typedef struct Embedded { const char *path; const unsigned char *data; size_t bytes; } Embedded;
extern const Embedded embedded_files[];   /* sorted by path: "templates/ops/add/op.lua" */
extern const int embedded_count;
const Embedded *embed_find(const char *path);
/* From now on, files in a source tree take precedence over embedded files of the same path. */
void embed_share(const char *dir);

/* Can an edit of this file in runtime/ change a bit of a result? (arithmetic.c) */
bool runtime_computes(const char *path);

#endif
