/* SPDX-License-Identifier: MIT-0 */
/* rt_manifest.c: MANIFEST, the last file of a checkpoint: the sizes and hashes of all the
 * others. A folder without a valid one is not a checkpoint. In: the files. Out: its text;
 * or, when one is read, what is wrong with the folder.
 *
 *    fsdpgen checkpoint 2
 *    step 20
 *    file model.safetensors 123456 0123456789abcdef
 *    ...
 *    end 0123456789abcdef         the hash of every byte before this line
 *
 * The last line has this form in every format, also in later ones: where its hash fails,
 * the first line is damaged like any other, and names no newer format. rt_chunks.c
 * defines the hash of a file, which does not depend on ranks. */
#include "checkpoint/rt_checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char first_line[] = "fsdpgen checkpoint 2\n";
/* An earlier format hashed files in one lane: still read, no longer written. */
static const char first_line_before[] = "fsdpgen checkpoint 1\n";
enum { VERSION = 2 };

char *rt_manifest_text(const RtFile *files, int n_files, int64_t step)
{
    RtText t;
    if (!rt_text_open(&t))
        return NULL;
    fprintf(t.f, "%sstep %lld\n", first_line, (long long)step);
    for (int i = 0; i < n_files; i++) {
        fprintf(t.f, "file %s %lld %016llx\n", files[i].name, (long long)files[i].bytes,
                (unsigned long long)files[i].hash);
    }
    if (rt_text_flush(&t))
        fprintf(t.f, "end %016llx\n", (unsigned long long)rt_hash64(t.at, t.bytes, 2));
    return rt_text_end(&t);
}

/* ---- its text -------------------------------------------------------------------- */

/* Only names as we write them, because they are opened below the checkpoint's folder. */
static bool good_name(const char *name)
{
    const char *rest = strncmp(name, "optimizer/", 10) == 0 ? name + 10 : name;
    return *rest != '\0' && *rest != '.' &&
           strspn(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                        "_-.") == strlen(rest);
}

/* `file NAME BYTES HASH`, exactly as we write it. */
static bool read_file_line(const char *line, size_t bytes, RtFile *f)
{
    char again[RT_NAME_BYTES + 64];
    long long size;
    unsigned long long hash;
    *f = (RtFile){0};
    if (sscanf(line, "file %63s %lld %llx", f->name, &size, &hash) != 3 ||
        !good_name(f->name) || size < 0)
        return false;
    f->bytes = size;
    f->hash = hash;
    snprintf(again, sizeof again, "file %s %lld %016llx", f->name, size, hash);
    return strlen(again) == bytes && memcmp(again, line, bytes) == 0;
}

/* In reading order: the small ones, then set after set. */
static bool sort_files(RtManifest *m)
{
    static const RtSet order[] = {RT_SETS, RT_SET_WEIGHTS, RT_SET_MASTER, RT_SET_MOMENT1,
                                  RT_SET_MOMENT2};
    RtFile *sorted = malloc((size_t)m->n_files * sizeof *sorted);
    int n = 0;
    for (int k = 0; sorted != NULL && k <= RT_SETS; k++) {
        for (int i = 0; i < m->n_files; i++)
            if (rt_layout_set_of(m->files[i].name) == order[k])
                sorted[n++] = m->files[i];
        m->set_files[k] = n;
    }
    free(m->files);
    m->files = sorted;
    m->n_files = n;
    return n > 0;
}

static bool read_lines(RtManifest *m, const char *text, const char *end)
{
    char again[64];
    long long step;
    const size_t head = sizeof first_line - 1;
    if ((size_t)(end - text) < head)
        return false;
    m->version = memcmp(text, first_line, head) == 0          ? VERSION
                 : memcmp(text, first_line_before, head) == 0 ? 1
                                                              : 0;
    if (m->version == 0 || sscanf(text + head, "step %lld", &step) != 1)
        return false;
    const char *at = text + head;
    const int n = snprintf(again, sizeof again, "step %lld\n", step);
    if (strncmp(at, again, (size_t)n) != 0)
        return false;
    m->step = step;
    int lines = 0;
    for (const char *p = at + n; p < end; p++)
        lines += *p == '\n';
    m->files = calloc((size_t)lines + 1, sizeof *m->files);
    at += n;
    for (; m->files != NULL && at < end; m->n_files++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL ||
            !read_file_line(at, (size_t)(stop - at), &m->files[m->n_files]))
            return false;
        at = stop + 1;
    }
    return m->n_files > 0 && sort_files(m);
}

/* Did a newer trainer write it? That is not damage. */
static bool is_newer(const char *text, const char *path, char *error)
{
    long long version;
    if (sscanf(text, "fsdpgen checkpoint %lld\n", &version) != 1 || version <= VERSION)
        return false;
    snprintf(
        error, RT_ERROR_BYTES,
        "%s is of format %lld, and this trainer reads formats 1 to %d: use the "
        "trainer that wrote it, or start from its weights by --init of a copy without "
        "MANIFEST",
        path, version, VERSION);
    rt_file_error_here();
    return true;
}

bool rt_manifest_read(RtManifest *m, const char *folder, char *error)
{
    enum { TAIL = 21 }; /* "end 0123456789abcdef\n" */
    char path[RT_PATH_BYTES + RT_NAME_BYTES], tail[TAIL + 1];
    int64_t bytes = 0;
    *m = (RtManifest){0};
    snprintf(path, sizeof path, "%s/MANIFEST", folder);
    char *text = rt_file_load(path, 16 << 20, &bytes, error);
    if (text == NULL)
        return false;
    const int64_t body = bytes - TAIL;
    bool ok = body > 0;
    if (ok) {
        snprintf(tail, sizeof tail, "end %016llx\n",
                 (unsigned long long)rt_hash64(text, (size_t)body, 2));
        ok = memcmp(tail, text + body, TAIL) == 0;
    }
    if (ok && is_newer(text, path, error)) {
        free(text);
        return false;
    }
    errno = 0;
    ok = ok && read_lines(m, text, text + body);
    free(text);
    if (!ok && body > 0 && m->n_files == 0 && errno == ENOMEM)
        return rt_file_error(error, "allocate memory for", path);
    if (!ok) {
        rt_manifest_free(m);
        snprintf(error, RT_ERROR_BYTES, "%s is not what was written", path);
        return false;
    }
    const int64_t named = rt_file_step_of(folder);
    if (named >= 0 && named != m->step) {
        snprintf(error, RT_ERROR_BYTES,
                 "%s is of step %lld: the folder has another's name", path,
                 (long long)m->step);
        rt_manifest_free(m);
        return false;
    }
    return true;
}

void rt_manifest_free(RtManifest *m)
{
    rt_chunks_end(&m->chunks);
    for (int i = 0; i < m->n_files; i++)
        free(m->files[i].chunks);
    free(m->files);
    *m = (RtManifest){0};
}

int64_t rt_manifest_bytes(const RtManifest *m)
{
    int64_t bytes = 0;
    bool too_many = false;
    for (int i = 0; i < m->n_files; i++)
        too_many = __builtin_add_overflow(bytes, m->files[i].bytes, &bytes) || too_many;
    return too_many ? -1 : bytes;
}

bool rt_manifest_sizes(const RtManifest *m, const char *folder, char *error)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    struct stat s;
    for (int i = 0; i < m->n_files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, m->files[i].name);
        if (stat(path, &s) != 0)
            return rt_file_error(error, "stat", path);
        if (!S_ISREG(s.st_mode) || s.st_size != m->files[i].bytes) {
            snprintf(error, RT_ERROR_BYTES, "%s has %lld bytes, not the %lld of MANIFEST",
                     path, (long long)s.st_size, (long long)m->files[i].bytes);
            return false;
        }
    }
    return true;
}

/* ---- its files, by all ranks together -------------------------------------------- */

/* Collective: adds up what all ranks have read of each of n files. */
static void sum_files(Rt *rt, RtFile *files, int n)
{
    for (int at = 0; at < n; at += RT_SUM_WORDS) {
        uint64_t words[RT_SUM_WORDS];
        const int some = n - at < RT_SUM_WORDS ? n - at : RT_SUM_WORDS;
        for (int i = 0; i < some; i++)
            words[i] = files[at + i].sum;
        rt_save_sum(rt, words, some);
        for (int i = 0; i < some; i++)
            files[at + i].sum = words[i];
    }
}

/* The same for each chunk of a file, and the file's sum of them. */
static void sum_chunks(Rt *rt, RtFile *f)
{
    const int64_t n = rt_chunks_of(f);
    f->sum = 0;
    for (int64_t at = 0; at < n; at += RT_SUM_WORDS) {
        const int64_t some = n - at < RT_SUM_WORDS ? n - at : RT_SUM_WORDS;
        rt_save_sum(rt, f->chunks + at, (int)some);
        for (int64_t i = 0; i < some; i++)
            f->sum += f->chunks[at + i];
    }
}

void rt_manifest_hash_own(Rt *rt, const char *folder, RtFile *files, int n_files)
{
    RtChunks h;
    rt_chunks_begin(&h, folder, files, n_files, VERSION);
    rt_chunks_until(rt, &h, n_files, 0);
    rt_chunks_end(&h);
}

bool rt_manifest_hash(Rt *rt, RtFile *files, int n_files)
{
    for (int i = 0; i < n_files; i++) {
        if (files[i].chunks != NULL)
            sum_chunks(rt, &files[i]);
        else
            sum_files(rt, &files[i], 1);
        files[i].hash = files[i].sum;
    }
    return rt_first_error(rt) < 0;
}

bool rt_manifest_open(Rt *rt, const char *folder, RtManifest *m)
{
    RtCheckpoint *c = rt->state->checkpoint;
    if (rt_manifest_read(m, folder, c->error) && rt_manifest_sizes(m, folder, c->error))
        rt_chunks_begin(&m->chunks, folder, m->files, m->n_files, m->version);
    return rt_first_error(rt) < 0;
}

/* If a rank could not read a file, that is reported, rather than the damage that other
 * ranks then see. */
bool rt_manifest_agree(Rt *rt, RtManifest *m, int first, int end)
{
    RtCheckpoint *c = rt->state->checkpoint;
    sum_files(rt, m->files + first, end - first);
    if (rt_first_error(rt) >= 0)
        return false;
    for (int i = first; i < end && c->error[0] == '\0'; i++) {
        if (m->files[i].sum != m->files[i].hash) {
            snprintf(c->error, sizeof c->error, "%s is not what was written",
                     m->files[i].name);
        }
    }
    return rt_first_error(rt) < 0;
}

bool rt_manifest_verify(Rt *rt, const char *folder, RtManifest *m)
{
    if (!rt_manifest_open(rt, folder, m))
        return false;
    rt_chunks_until(rt, &m->chunks, m->n_files, 0);
    return rt_manifest_agree(rt, m, 0, m->n_files);
}
