/* SPDX-License-Identifier: MIT-0 */
/* rt_verify.c: `trainer verify DIR`. In: a checkpoint, or a folder of checkpoints. Out: a
 * line for each one, and for every part that is not as written: which file, which chunk
 * and bytes, which tensors. It starts no rank, needs no data, and works for checkpoints
 * of any model. Threads take chunks as they become free. */
#include "checkpoint/rt_checkpoint.h"
#include "job/rt_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_THREADS = 256, MOST_NAMES = 3 };

/* A defect. */
typedef struct Flaw {
    const char *file;        /* in the checkpoint */
    int64_t chunk, from, to; /* chunk -1: the whole file */
    char why[RT_ERROR_BYTES];
    char tensors[3 * 256 + 64]; /* the tensors with those bytes; empty: unknown */
} Flaw;

typedef struct Check {
    const char *folder;
    RtManifest m;
    bool *bad;      /* of each file: it cannot be read properly */
    int64_t *first; /* number of chunks in files before it; [n_files + 1] */
    uint64_t *hash; /* of each chunk */
    bool *unread;   /* of each chunk: reading it failed */
    _Atomic int64_t next;
    _Atomic int reason; /* errno of such a failure */
    Flaw *flaws;
    int n_flaws, cap_flaws;
} Check;

static void *get(size_t n, size_t bytes)
{
    void *at = calloc(n + 1, bytes);
    if (at == NULL) {
        rt_say("trainer: error: verify: out of memory");
        exit(RT_EXIT_ERROR);
    }
    return at;
}

static Flaw *add_flaw(Check *c, const char *file)
{
    if (c->n_flaws == c->cap_flaws) {
        const int cap = c->cap_flaws > 0 ? 2 * c->cap_flaws : 8;
        Flaw *more = get((size_t)cap, sizeof *more);
        if (c->n_flaws > 0)
            memcpy(more, c->flaws, (size_t)c->n_flaws * sizeof *more);
        free(c->flaws);
        c->flaws = more;
        c->cap_flaws = cap;
    }
    Flaw *f = &c->flaws[c->n_flaws++];
    *f = (Flaw){.file = file, .chunk = -1};
    return f;
}

static void path_of(const Check *c, const char *file, char *path, size_t bytes)
{
    snprintf(path, bytes, "%s/%s", c->folder, file);
}

/* ---- every byte ------------------------------------------------------------------ */

static void *read_chunks(void *ctx)
{
    Check *c = ctx;
    char path[RT_PATH_BYTES + RT_NAME_BYTES], error[RT_ERROR_BYTES];
    char *memory = malloc(RT_CHUNK_BYTES);
    const int64_t all = c->first[c->m.n_files];
    int file = 0, fd = -1, open_file = -1;
    for (int64_t i; (i = atomic_fetch_add(&c->next, 1)) < all;) {
        while (i >= c->first[file + 1])
            file++;
        const RtFile *f = &c->m.files[file];
        if (open_file != file) {
            if (fd >= 0)
                close(fd);
            path_of(c, f->name, path, sizeof path);
            fd = rt_file_open(path, O_RDONLY, error);
            open_file = file;
        }
        const int64_t at = (i - c->first[file]) * RT_CHUNK_BYTES, left = f->bytes - at;
        c->unread[i] =
            fd < 0 || memory == NULL ||
            !rt_chunk_hash(fd, path, at, left < RT_CHUNK_BYTES ? left : RT_CHUNK_BYTES,
                           c->m.version, memory, &c->hash[i], error);
        if (c->unread[i])
            atomic_store(&c->reason, memory == NULL ? ENOMEM : errno);
    }
    if (fd >= 0)
        close(fd);
    free(memory);
    return NULL;
}

static void read_all(Check *c, int threads)
{
    pthread_t thread[MOST_THREADS];
    int n = 0;
    while (n + 1 < threads && n + 1 < c->first[c->m.n_files] &&
           pthread_create(&thread[n], NULL, read_chunks, c) == 0)
        n++;
    read_chunks(c);
    while (n > 0)
        pthread_join(thread[--n], NULL);
}

/* ---- defects of a file ----------------------------------------------------------- */

static void check_size(Check *c, int i)
{
    const RtFile *f = &c->m.files[i];
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    struct stat s;
    path_of(c, f->name, path, sizeof path);
    const bool there = stat(path, &s) == 0;
    c->bad[i] = !there || !S_ISREG(s.st_mode) || s.st_size != f->bytes;
    if (!c->bad[i])
        return;
    Flaw *flaw = add_flaw(c, f->name);
    if (!there) {
        snprintf(flaw->why, sizeof flaw->why, "%s",
                 errno == ENOENT ? "is missing" : strerror(errno));
    } else if (!S_ISREG(s.st_mode)) {
        snprintf(flaw->why, sizeof flaw->why, "is not a file");
    } else {
        snprintf(flaw->why, sizeof flaw->why, "has %lld bytes, not the %lld of MANIFEST",
                 (long long)s.st_size, (long long)f->bytes);
    }
}

/* Reads the hashes of all chunks, if CHUNKS is intact. */
static void find_chunks(Check *c)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES], error[RT_ERROR_BYTES];
    const int first = c->m.set_files[0], n = c->m.n_files - first;
    for (int i = 0; i < first; i++) {
        const RtFile *f = &c->m.files[i];
        int64_t bytes = 0;
        if (strcmp(f->name, "CHUNKS") != 0 || c->bad[i] || f->sum != f->hash)
            continue;
        path_of(c, f->name, path, sizeof path);
        char *text = rt_chunks_text_bytes(c->m.files + first, n) == f->bytes
                         ? rt_file_load(path, INT32_MAX, &bytes, error)
                         : NULL;
        for (int k = first; k < c->m.n_files && text != NULL; k++) {
            c->m.files[k].chunks =
                get((size_t)rt_chunks_of(&c->m.files[k]), sizeof(uint64_t));
        }
        if (text == NULL || !rt_chunks_read(c->m.files + first, n, text, bytes)) {
            for (int k = first; k < c->m.n_files; k++) {
                free(c->m.files[k].chunks);
                c->m.files[k].chunks = NULL;
            }
        }
        free(text);
    }
}

/* The names of the tensors with bytes [from, to) of a file, from its header. */
static void name_tensors(const Check *c, Flaw *flaw)
{
    RtTensors s = {0};
    char path[RT_PATH_BYTES + RT_NAME_BYTES], error[RT_ERROR_BYTES];
    int n = 0;
    size_t at = 0;
    path_of(c, flaw->file, path, sizeof path);
    const bool known = rt_tensors_add(&s, path, error);
    for (int i = 0; known && i < s.n_tensors; i++) {
        const RtTensor *t = &s.tensors[i];
        if (t->bytes == 0 || t->at >= flaw->to || t->at + t->bytes <= flaw->from)
            continue;
        if (n++ < MOST_NAMES) {
            at += (size_t)snprintf(flaw->tensors + at, sizeof flaw->tensors - at, "%s%s",
                                   n > 1 ? ", " : "", t->name);
        }
    }
    if (n > MOST_NAMES) {
        snprintf(flaw->tensors + at, sizeof flaw->tensors - at, " and %d more",
                 n - MOST_NAMES);
    }
    rt_tensors_close(&s);
}

/* For a file with another hash: compares chunk by chunk, if those hashes are known. */
static void check_chunks(Check *c, int i)
{
    const RtFile *f = &c->m.files[i];
    const int64_t n = rt_chunks_of(f);
    for (int64_t k = 0; k < n; k++) {
        const int64_t at = k * RT_CHUNK_BYTES, left = f->bytes - at;
        const bool unread = c->unread[c->first[i] + k];
        if (!unread && (f->chunks == NULL || f->chunks[k] == c->hash[c->first[i] + k]))
            continue;
        Flaw *flaw = add_flaw(c, f->name);
        flaw->chunk = k;
        flaw->from = at;
        flaw->to = at + (left < RT_CHUNK_BYTES ? left : RT_CHUNK_BYTES);
        snprintf(flaw->why, sizeof flaw->why, unread ? "cannot be read: %s" : "%s",
                 unread ? strerror(atomic_load(&c->reason)) : "not what was written");
        if (i >= c->m.set_files[0])
            name_tensors(c, flaw);
        c->bad[i] = true;
    }
    if (!c->bad[i]) {
        Flaw *flaw = add_flaw(c, f->name);
        flaw->to = f->bytes;
        snprintf(flaw->why, sizeof flaw->why, "is not what was written");
        c->bad[i] = true;
    }
}

static void check_hash(Check *c, int i)
{
    RtFile *f = &c->m.files[i];
    bool unread = false;
    f->sum = 0;
    for (int64_t k = c->first[i]; k < c->first[i + 1] && !c->bad[i]; k++) {
        f->sum += c->hash[k];
        unread = unread || c->unread[k];
    }
    if (!c->bad[i] && (unread || f->sum != f->hash))
        check_chunks(c, i);
}

/* ---- the content of intact files ------------------------------------------------- */

static const char *wrong_json(const RtManifest *m, const char *name, const char *text,
                              int64_t bytes)
{
    RtTrainState s;
    RtJson j = {text, text + bytes, false};
    if (strcmp(name, "train_state.json") == 0) {
        return !rt_state_read(&s, text, bytes) ? "cannot be understood"
               : s.step != m->step             ? "is of another step than MANIFEST"
                                               : NULL;
    }
    return rt_json_skip(&j) && rt_json_done(&j) ? NULL : "is not JSON";
}

/* Checks texts that trainers write; files that came with --init are foreign. */
static void check_text(Check *c, const char *name)
{
    static const char *const ours[] = {"train_state.json", "config.json",
                                       "model.safetensors.index.json"};
    char path[RT_PATH_BYTES + RT_NAME_BYTES], error[RT_ERROR_BYTES];
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        int64_t bytes = 0;
        if (strcmp(name, ours[i]) != 0)
            continue;
        path_of(c, name, path, sizeof path);
        char *text = rt_file_load(path, 1 << 24, &bytes, error);
        const char *wrong =
            text != NULL ? wrong_json(&c->m, name, text, bytes) : "cannot be read";
        if (wrong != NULL)
            snprintf(add_flaw(c, name)->why, RT_ERROR_BYTES, "%s", wrong);
        free(text);
    }
}

static void check_tensors(Check *c, const char *name)
{
    RtTensors s = {0};
    char path[RT_PATH_BYTES + RT_NAME_BYTES], error[RT_ERROR_BYTES];
    path_of(c, name, path, sizeof path);
    if (!rt_tensors_add(&s, path, error) || !rt_tensors_sort(&s, error))
        snprintf(add_flaw(c, name)->why, RT_ERROR_BYTES, "%s", error);
    rt_tensors_close(&s);
}

/* ---- one checkpoint -------------------------------------------------------------- */

static void check_files(Check *c, int threads)
{
    const int n = c->m.n_files;
    c->bad = get((size_t)n, sizeof *c->bad);
    c->first = get((size_t)n + 1, sizeof *c->first);
    for (int i = 0; i < n; i++) {
        check_size(c, i);
        c->first[i + 1] = c->first[i] + (c->bad[i] ? 0 : rt_chunks_of(&c->m.files[i]));
    }
    c->hash = get((size_t)c->first[n], sizeof *c->hash);
    c->unread = get((size_t)c->first[n], sizeof *c->unread);
    read_all(c, threads);
    for (int i = 0; i < n; i++) {
        if (i == c->m.set_files[0])
            find_chunks(c); /* small files come first, so they are checked by now */
        check_hash(c, i);
        if (!c->bad[i] && i < c->m.set_files[0])
            check_text(c, c->m.files[i].name);
        else if (!c->bad[i])
            check_tensors(c, c->m.files[i].name);
    }
}

static void print_text(const Check *c)
{
    for (int i = 0; i < c->n_flaws; i++) {
        const Flaw *f = &c->flaws[i];
        printf("%s: %s: ", c->folder, f->file);
        if (f->chunk >= 0) {
            printf("chunk %lld, bytes %lld to %lld: ", (long long)f->chunk,
                   (long long)f->from, (long long)f->to);
        }
        printf("%s", f->why);
        printf(f->tensors[0] != '\0' ? " (%s)\n" : "%s\n", f->tensors);
    }
    if (c->m.n_files == 0) {
        printf("%s: damaged: nothing in it can be verified\n", c->folder);
        return;
    }
    printf("%s: %s: step %lld, %d files, %lld bytes\n", c->folder,
           c->n_flaws == 0 ? "as it was written" : "damaged", (long long)c->m.step,
           c->m.n_files, (long long)rt_manifest_bytes(&c->m));
}

static void print_json(const Check *c)
{
    static bool one_is_printed;
    printf("%s  {\"folder\": ", one_is_printed ? ",\n" : "");
    one_is_printed = true;
    rt_json_put(stdout, c->folder);
    printf(", \"whole\": %s, \"step\": ", c->n_flaws == 0 ? "true" : "false");
    printf(c->m.n_files > 0 ? "%lld" : "null", (long long)c->m.step);
    printf(", \"files\": %d, \"bytes\": %lld, \"damage\": [", c->m.n_files,
           (long long)rt_manifest_bytes(&c->m));
    for (int i = 0; i < c->n_flaws; i++) {
        const Flaw *f = &c->flaws[i];
        printf("%s\n    {\"file\": ", i > 0 ? "," : "");
        rt_json_put(stdout, f->file);
        if (f->chunk >= 0) {
            printf(", \"chunk\": %lld, \"from\": %lld, \"to\": %lld", (long long)f->chunk,
                   (long long)f->from, (long long)f->to);
        }
        printf(", \"why\": ");
        rt_json_put(stdout, f->why);
        printf(", \"tensors\": ");
        rt_json_put(stdout, f->tensors);
        printf("}");
    }
    printf("]}");
}

bool rt_folder_is_removed(const char *folder)
{
    struct stat s;
    return lstat(folder, &s) != 0 && errno == ENOENT;
}

static void check(Check *c, int threads)
{
    char error[RT_ERROR_BYTES];
    if (rt_manifest_read(&c->m, c->folder, error))
        check_files(c, threads);
    else
        snprintf(add_flaw(c, "MANIFEST")->why, RT_ERROR_BYTES, "%s", error);
}

static void end_check(Check *c)
{
    rt_manifest_free(&c->m);
    free(c->bad);
    free(c->first);
    free(c->hash);
    free(c->unread);
    free(c->flaws);
}

/* Is it as written? */
static bool verify(const RtFlags *f, const char *folder, int threads)
{
    Check c = {.folder = folder};
    check(&c, threads);
    const bool removed = c.n_flaws > 0 && rt_folder_is_removed(folder);
    const bool whole = c.n_flaws == 0 || removed;
    if (removed)
        rt_say("trainer: %s was removed meanwhile", folder);
    else if (f->json)
        print_json(&c);
    else
        print_text(&c);
    fflush(stdout);
    end_check(&c);
    return whole;
}

static int threads_of(const RtFlags *f)
{
    RtCores cores;
    rt_cores_find(&cores);
    const int threads = f->threads > 0 ? (int)f->threads : cores.quota;
    return threads < MOST_THREADS ? threads : MOST_THREADS;
}

bool rt_folder_is_intact(const RtFlags *f, const char *folder, char *why)
{
    Check c = {.folder = folder};
    check(&c, threads_of(f));
    const bool intact = c.n_flaws == 0;
    if (!intact)
        snprintf(why, RT_ERROR_BYTES, "%s: %.600s", c.flaws[0].file, c.flaws[0].why);
    end_check(&c);
    return intact;
}

/* ---- all of them ----------------------------------------------------------------- */

static int refuse(const char *text)
{
    rt_say("trainer: error: %s", text);
    return RT_EXIT_ERROR;
}

static void refuse_folder(const char *error)
{
    rt_say("trainer: error: %s%s", error,
           strstr(error, "; name ") != NULL ? "" : "; name the folder of --checkpoint");
}

int rt_folder_steps(const char *dir, int64_t **steps, bool *is_one)
{
    char path[RT_PATH_BYTES], error[RT_ERROR_BYTES];
    struct stat s;
    *steps = NULL;
    *is_one = false;
    if (!rt_file_step_path(path, dir, ".trash-", INT64_MAX / 2)) {
        refuse("the folder's name is too long");
        return -1;
    }
    if (stat(dir, &s) == 0 && !S_ISDIR(s.st_mode)) {
        errno = ENOTDIR;
        rt_file_error(error, "open", dir);
        refuse_folder(error);
        return -1;
    }
    snprintf(path, sizeof path, "%s/MANIFEST", dir);
    *is_one = access(path, F_OK) == 0;
    const int n = *is_one ? 0 : rt_file_steps(dir, steps, error);
    if (n < 0)
        refuse_folder(error);
    return n;
}

int rt_verify(const RtFlags *f)
{
    int64_t *steps;
    bool is_one, whole = true;
    char path[RT_PATH_BYTES];
    const int n = rt_folder_steps(f->folder, &steps, &is_one);
    if (n < 0 || (n == 0 && !is_one)) {
        return n < 0 ? RT_EXIT_ERROR
                     : refuse("there is no checkpoint: neither a folder step-... nor a "
                              "MANIFEST; weights that others made have no hashes");
    }
    const int threads = threads_of(f);
    if (f->json)
        printf("[\n");
    if (is_one)
        whole = verify(f, f->folder, threads);
    for (int i = 0; i < n; i++) {
        rt_file_step_path(path, f->folder, "", steps[i]);
        whole = verify(f, path, threads) && whole;
    }
    if (f->json)
        printf("\n]\n");
    free(steps);
    return rt_stdout_close(whole ? RT_EXIT_OK : RT_EXIT_ERROR);
}
