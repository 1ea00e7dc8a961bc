/* SPDX-License-Identifier: MIT-0 */
/* rt_wisdom.c: algorithms of matrix products found by `trainer --tune-kernels`. In and
 * out: kernels.wis, a text:
 *
 *      fsdpgen kernels 2
 *      for NVIDIA H200 (sm_90, 132 multiprocessors), cuBLASLt 130001, CUDA 13000, ...
 *      NT 8192 x 6144 x 4096 rows ... bf16 to bf16 = EIGHT HEXADECIMAL WORDS # measured
 *      end HASH OF ALL THAT IS BEFORE
 *
 * 1. An algorithm is the library's own 64 bytes, which only that version of it
 *    understands. So there is a section per GPU and library, and only the matching one is
 *    used.
 * 2. The contents are part of the platform. A damaged file, or one that names something
 *    that the library does not have, ends the run, because its bits would not be the
 *    requested ones.
 * 3. If no section matches, this is reported, and the library chooses.
 * 4. Form 1 named products without the alignment of their operands: what was found then
 *    is not known to be the choice for one of today's. So such a file ends the run, and
 *    --tune-kernels replaces it. */
#define _GNU_SOURCE
#include "cuda/rt_blas.h"
#include "job/rt_file.h"
#include "job/rt_out.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_LINE "fsdpgen kernels 2\n"
#define OLDER_LINE "fsdpgen kernels 1\n"
enum { KEY_BYTES = 320, MAX_CHOICES = 1024, WORDS = 8, LINE_BYTES = 512 };
static const long max_bytes = 4 << 20;

static struct {
    char path[PATH_MAX];
    RtChoice *choices;
    int n;
    char name[64];
} wisdom = {.name = "the library's"};

_Static_assert(sizeof(cublasLtMatmulAlgo_t) == WORDS * sizeof(uint64_t), "words of one");

/* ---- the file -------------------------------------------------------------------- */

/* The key of a section: GPU and library. */
static void key_of(const Rt *rt, char *key)
{
    int runtime = 0;
    cudaRuntimeGetVersion(&runtime);
    snprintf(key, KEY_BYTES,
             "%s (%s, %d multiprocessors), cuBLASLt %zu, CUDA %d, workspace %lld bytes",
             rt_gpu.name, rt_gpu.arch, rt_gpu.multiprocessors, cublasLtGetVersion(),
             runtime, (long long)rt->trainer->library_bytes);
}

/* NULL: the file does not exist. */
static char *read_text(const Rt *rt)
{
    struct stat s;
    char error[RT_ERROR_BYTES];
    int64_t bytes = 0;
    if (stat(wisdom.path, &s) != 0 && errno == ENOENT)
        return NULL;
    char *text = rt_file_load(wisdom.path, max_bytes, &bytes, error);
    if (text == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "%s", error);
    if (memchr(text, '\0', (size_t)bytes) != NULL)
        rt_fail(rt, RT_EXIT_ERROR, "%.500s: this is not text", wisdom.path);
    return text;
}

static _Noreturn void damaged(const Rt *rt, const char *why)
{
    rt_fail(
        rt, RT_EXIT_ERROR,
        "%.500s is damaged: %s; run trainer --tune-kernels again with the file removed, "
        "or continue without it",
        wisdom.path, why);
}

static bool is_older(const char *text)
{
    return strncmp(text, OLDER_LINE, strlen(OLDER_LINE)) == 0;
}

/* Cuts off the last line, after checking its hash of the rest. */
static void check_text(const Rt *rt, char *text)
{
    uint64_t hash = 0;
    char again[32];
    if (is_older(text)) {
        rt_fail(
            rt, RT_EXIT_ERROR,
            "%.500s was written by an older trainer, whose products did not state their "
            "alignment (\"%.17s\"); run trainer --tune-kernels again, or continue "
            "without the file",
            wisdom.path, OLDER_LINE);
    }
    if (strncmp(text, FIRST_LINE, strlen(FIRST_LINE)) != 0) {
        rt_fail(rt, RT_EXIT_ERROR,
                "%.500s does not begin as a file of this trainer's algorithms does "
                "(\"%.17s\")",
                wisdom.path, FIRST_LINE);
    }
    char *end = strstr(text, "\nend ");
    if (end == NULL || sscanf(end + 5, "%16" SCNx64, &hash) != 1)
        damaged(rt, "its end is missing");
    end++;
    snprintf(again, sizeof again, "end %016" PRIx64 "\n", hash);
    if (strcmp(end, again) != 0 || rt_hash64(text, (size_t)(end - text), 3) != hash)
        damaged(rt, "its last line is not the hash of those before");
    *end = '\0';
}

/* The next line, with its end cut off; NULL at the end. */
static char *next_line(char **at)
{
    char *line = *at, *end = line != NULL ? strchr(line, '\n') : NULL;
    if (end == NULL)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return line;
}

static bool read_choice(const char *line, RtChoice *c)
{
    const char *equals = strstr(line, " = "), *comment = strstr(line, " # ");
    uint64_t word[WORDS];
    if (equals == NULL || (size_t)(equals - line) >= sizeof c->product)
        return false;
    snprintf(c->product, sizeof c->product, "%.*s", (int)(equals - line), line);
    const char *at = equals + 2;
    for (int i = 0; i < WORDS; i++) {
        int used = 0;
        if (sscanf(at, " %16" SCNx64 "%n", &word[i], &used) != 1)
            return false;
        at += used;
    }
    memcpy(&c->algorithm, word, sizeof word);
    snprintf(c->measured, sizeof c->measured, "%.*s", (int)sizeof c->measured - 1,
             comment != NULL ? comment + 3 : "");
    return true;
}

/* ---- reading --------------------------------------------------------------------- */

static void add_choice(const Rt *rt, const char *line)
{
    RtChoice c;
    if (wisdom.n == MAX_CHOICES || !read_choice(line, &c)) {
        damaged(rt, wisdom.n == MAX_CHOICES ? "it has too many products"
                                            : "it has a line that names no algorithm");
    }
    wisdom.choices = realloc(wisdom.choices, sizeof c * (size_t)(wisdom.n + 1));
    if (wisdom.choices == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "out of memory");
    wisdom.choices[wisdom.n++] = c;
}

/* Measured times do not change bits, so they are not hashed. */
static uint64_t hash_choices(void)
{
    uint64_t hash = 3;
    for (int i = 0; i < wisdom.n; i++) {
        const RtChoice *c = &wisdom.choices[i];
        hash = rt_hash64(c->product, strlen(c->product), hash);
        hash = rt_hash64(&c->algorithm, sizeof c->algorithm, hash);
    }
    return hash;
}

/* The matching section; `other`: one that does not match. */
static bool read_section(const Rt *rt, char *text, char *other)
{
    char key[KEY_BYTES], *at = text + strlen(FIRST_LINE);
    bool mine = false, found = false;
    key_of(rt, key);
    for (char *line; (line = next_line(&at)) != NULL;) {
        if (strncmp(line, "for ", 4) == 0) {
            mine = strcmp(line + 4, key) == 0;
            found |= mine;
            snprintf(other, KEY_BYTES, "%.*s", KEY_BYTES - 1, line + 4);
        } else if (mine) {
            add_choice(rt, line);
        }
    }
    return found;
}

void rt_wisdom_open(Rt *rt)
{
    const RtFlags *f = &rt->state->flags;
    char other[KEY_BYTES] = "none", key[KEY_BYTES];
    if (!rt_kernels_path(f, NULL, wisdom.path)) {
        rt_fail(rt, RT_EXIT_ERROR, "--kernels %.200s...: %s: name it by a shorter path",
                f->kernels, strerror(ENAMETOOLONG));
    }
    if (f->tune_kernels) /* its contents do not matter */
        return;
    char *text = read_text(rt);
    if (text == NULL) {
        if (f->kernels != NULL)
            rt_fail(rt, RT_EXIT_ERROR, "--kernels %.500s: there is no such file",
                    f->kernels);
        return;
    }
    check_text(rt, text);
    if (read_section(rt, text, other)) {
        snprintf(wisdom.name, sizeof wisdom.name, "tuned %016" PRIx64, hash_choices());
    } else if (rt->rank == 0) {
        key_of(rt, key);
        rt_say(
            "trainer: warning: %.500s was made for %s, this is %s: the library's first "
            "algorithms are taken; --tune-kernels adds what is missing",
            wisdom.path, other, key);
    }
    free(text);
}

const cublasLtMatmulAlgo_t *rt_wisdom_find(const char *product)
{
    for (int i = 0; i < wisdom.n; i++)
        if (strcmp(wisdom.choices[i].product, product) == 0)
            return &wisdom.choices[i].algorithm;
    return NULL;
}

bool rt_wisdom_is_open(void)
{
    return wisdom.n > 0;
}

const char *rt_wisdom_path(void)
{
    return wisdom.path;
}

const char *rt_wisdom_name(void)
{
    return wisdom.name;
}

/* ---- writing --------------------------------------------------------------------- */

typedef struct Out {
    const Rt *rt;
    char *text;
    size_t bytes, room;
} Out;

__attribute__((format(printf, 2, 3))) static void say(Out *o, const char *fmt, ...)
{
    va_list ap;
    if (o->room < o->bytes + LINE_BYTES) {
        o->room = 2 * o->room + LINE_BYTES;
        o->text = realloc(o->text, o->room);
        if (o->text == NULL)
            rt_fail(o->rt, RT_EXIT_ERROR, "out of memory");
    }
    va_start(ap, fmt);
    const int n = vsnprintf(o->text + o->bytes, LINE_BYTES, fmt, ap);
    va_end(ap);
    o->bytes += n < LINE_BYTES ? (size_t)n : LINE_BYTES - 1;
}

static void say_choice(Out *o, const RtChoice *c)
{
    uint64_t word[WORDS];
    memcpy(word, &c->algorithm, sizeof word);
    say(o, "%s =", c->product);
    for (int i = 0; i < WORDS; i++)
        say(o, " %016" PRIx64, word[i]);
    say(o, " # %s\n", c->measured);
}

static bool among(const char *product, const RtChoice *choices, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(choices[i].product, product) == 0)
            return true;
    return false;
}

/* Keeps other GPUs' sections and, in this one's, products that were not measured now;
 * returns how many of the latter. */
static int keep_old(Out *o, char *text, const char *key, const RtChoice *choices, int n)
{
    char *at = text + strlen(FIRST_LINE);
    bool mine = false;
    for (char *line; (line = next_line(&at)) != NULL;) {
        if (strncmp(line, "for ", 4) == 0)
            mine = strcmp(line + 4, key) == 0;
        if (!mine)
            say(o, "%.*s\n", LINE_BYTES - 2, line);
        else if (strncmp(line, "for ", 4) != 0)
            add_choice(o->rt, line);
    }
    say(o, "for %s\n", key);
    int kept = 0;
    for (int i = 0; i < wisdom.n; i++) {
        if (!among(wisdom.choices[i].product, choices, n)) {
            say_choice(o, &wisdom.choices[i]);
            kept++;
        }
    }
    return kept;
}

/* Of the file's folder, as the file is replaced: two trainers that write sections of two
 * GPUs wait for each other. Where that fails, they do not. */
static int lock_folder(void)
{
    char folder[sizeof wisdom.path];
    snprintf(folder, sizeof folder, "%s", wisdom.path);
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder] = '\0';
    const int fd = open(slash != NULL ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && flock(fd, LOCK_EX) != 0 && errno == EINTR) {
    }
    return fd;
}

void rt_wisdom_write(Rt *rt, const RtChoice *choices, int n)
{
    Out o = {.rt = rt};
    int kept = 0;
    const int lock = lock_folder();
    static RtOutput out;
    char key[KEY_BYTES], *old = read_text(rt);
    key_of(rt, key);
    say(&o, "%s", FIRST_LINE);
    if (old != NULL && !is_older(old)) {
        check_text(rt, old);
        kept = keep_old(&o, old, key, choices, n);
    } else {
        say(&o, "for %s\n", key);
    }
    free(old);
    for (int i = 0; i < n; i++)
        say_choice(&o, &choices[i]);
    if (kept + n > MAX_CHOICES) {
        rt_fail(rt, RT_EXIT_ERROR,
                "%.500s: more than %d products of one GPU: give this trainer a file of "
                "its own "
                "with --kernels",
                wisdom.path, MAX_CHOICES);
    }
    say(&o, "end %016" PRIx64 "\n", rt_hash64(o.text, o.bytes, 3));
    const bool begun = rt_output_begin(&out, wisdom.path, NULL);
    if (begun)
        fwrite(o.text, 1, o.bytes, out.f);
    if (!begun || !rt_output_end(rt, &out)) {
        rt_fail(rt, RT_EXIT_ERROR, "%.500s cannot be written: %s", wisdom.path,
                rt_output_reason());
    }
    if (lock >= 0)
        close(lock);
    free(o.text);
}
