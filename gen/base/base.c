/* SPDX-License-Identifier: Apache-2.0 */
/* base.c: what every file of the generator builds on. In: sizes, texts, bytes. Out:
 * memory from one arena, growing lists and texts, hashes, and the exit after a bug of
 * ours. Memory is not freed, because a run is short; so no pointer can dangle. drive.c
 * marks and releases the memory of plans that it only tries. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* gcc 12 with -fsanitize=undefined invents null formats below */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wformat-truncation"
#endif

/* Memory comes from the system in chunks; larger requests get a chunk of their own. */
enum { CHUNK_BYTES = 256 * 1024, ARENA_ALIGN = 16 };

typedef struct Chunk {
    struct Chunk *next;
    size_t used, bytes;
    _Alignas(ARENA_ALIGN) unsigned char data[];
} Chunk;

struct Arena {
    Chunk *chunks; /* the first one is being filled */
    struct Arena *next;
};

static struct Arena *arenas; /* every arena, so that leak checkers can reach the chunks */

static Chunk *chunk_new(size_t bytes)
{
    Chunk *c = gen_calloc(1, sizeof *c + bytes);

    c->bytes = bytes;
    return c;
}

void *gen_alloc(Gen *g, size_t bytes)
{
    struct Arena *a = base_of(g)->arena;
    Chunk *c;
    void *p;

    if (!a) {
        a = base_of(g)->arena = gen_calloc(1, sizeof *a);
        a->next = arenas;
        arenas = a;
    }
    gen_require(bytes <= SIZE_MAX / 2, "an allocation of %zu bytes", bytes);
    bytes = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (bytes > CHUNK_BYTES / 4) { /* a chunk of its own, behind the one being filled */
        c = chunk_new(bytes);
        if (a->chunks) {
            c->next = a->chunks->next;
            a->chunks->next = c;
        } else {
            a->chunks = c;
        }
        c->used = bytes;
        return c->data;
    }
    if (!a->chunks || a->chunks->bytes - a->chunks->used < bytes) {
        c = chunk_new(CHUNK_BYTES);
        c->next = a->chunks;
        a->chunks = c;
    }
    p = a->chunks->data + a->chunks->used;
    a->chunks->used += bytes;
    return p;
}

void *gen_mark(Gen *g)
{
    Chunk *before, *c;

    gen_alloc(g, 1); /* makes sure that there is an arena with a chunk */
    before = base_of(g)->arena->chunks;
    c = chunk_new(CHUNK_BYTES); /* later allocations lie before the old chunks */
    c->next = before;
    base_of(g)->arena->chunks = c;
    return before;
}

void gen_release(Gen *g, void *mark)
{
    while (base_of(g)->arena->chunks != mark) {
        Chunk *c = base_of(g)->arena->chunks;

        gen_require(c, "released twice");
        base_of(g)->arena->chunks = c->next;
        free(c);
    }
}

static char *vprintf_alloc(Gen *g, const char *fmt, va_list ap)
{
    va_list again;
    char *s;
    int n;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    gen_require(n >= 0, "bad format \"%s\"", fmt);
    s = gen_alloc(g, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, fmt, ap);
    return s;
}

char *gen_printf(Gen *g, const char *fmt, ...)
{
    va_list ap;
    char *s;

    va_start(ap, fmt);
    s = vprintf_alloc(g, fmt, ap);
    va_end(ap);
    return s;
}

char *gen_vprintf(Gen *g, const char *fmt, va_list ap)
{
    return vprintf_alloc(g, fmt, ap);
}

char *gen_strndup(Gen *g, const char *s, size_t n)
{
    char *copy = gen_alloc(g, n + 1);

    if (n)
        memcpy(copy, s, n);
    return copy;
}

char *gen_strdup(Gen *g, const char *s)
{
    return gen_strndup(g, s, strlen(s));
}

void *gen_push_(Gen *g, void **items, int *count, int *cap, size_t item_bytes)
{
    if (*count == *cap) {
        int bigger = *cap ? *cap * 2 : 8;
        void *p;

        gen_require(*cap < INT32_MAX / 2, "a list of more than 2^30 items");
        p = gen_alloc(g, (size_t)bigger * item_bytes);
        if (*count)
            memcpy(p, *items, (size_t)*count * item_bytes);
        *items = p;
        *cap = bigger;
    }
    return (char *)*items + (size_t)(*count)++ * item_bytes;
}

/* Any thread may call this, while others use what exit() would close. */
_Noreturn void gen_out_of_memory(size_t bytes)
{
    fflush(stdout);
    print_line(stderr,
               "fsdpgen: error: ", "out of memory: cannot allocate %zu more bytes",
               bytes);
    _exit(EXIT_DIAG);
}

void *gen_calloc(size_t n, size_t bytes)
{
    void *p = calloc(n ? n : 1, bytes ? bytes : 1);

    if (!p)
        gen_out_of_memory(n * bytes);
    return p;
}

_Noreturn void gen_die_(const char *file, int line, const char *fmt, ...)
{
    const char *base = strrchr(file, '/');
    va_list ap;

    fflush(stdout);
    fprintf(stderr, "fsdpgen: bug: %s:%d: ", base ? base + 1 : file, line);
    va_start(ap, fmt);
    vprint_line(stderr, "", fmt, ap);
    va_end(ap);
    fprintf(stderr,
            "  help: this is a mistake in fsdpgen %s, not in your description; "
            "please report it with the description\n",
            FSDPGEN_VERSION);
    exit(EXIT_BUG);
}

/* ---- text ------------------------------------------------------------------------ */

static void text_reserve(Text *t, size_t more)
{
    size_t need = t->len + more + 1;
    size_t cap = t->cap ? t->cap : 256;
    char *s;

    gen_require(t->g, "a Text without its Gen");
    if (need <= t->cap)
        return;
    while (cap < need)
        cap *= 2;
    s = gen_alloc(t->g, cap);
    if (t->len)
        memcpy(s, t->s, t->len);
    t->s = s;
    t->cap = cap;
}

void text_add(Text *t, const char *s, size_t n)
{
    text_reserve(t, n);
    if (n)
        memcpy(t->s + t->len, s, n);
    t->len += n;
    t->s[t->len] = '\0';
}

void text_printf(Text *t, const char *fmt, ...)
{
    va_list ap, again;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    gen_require(n >= 0, "bad format \"%s\"", fmt);
    text_reserve(t, (size_t)n);
    vsnprintf(t->s + t->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    t->len += (size_t)n;
}

uint64_t hash_bytes(const void *p, size_t n)
{
    return XXH3_64bits(p, n);
}
