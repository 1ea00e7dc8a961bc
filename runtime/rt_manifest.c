/* SPDX-License-Identifier: MIT-0 */
/* rt_manifest.c: MANIFEST, the last file of a checkpoint: the sizes and hashes of all the
 * others. A folder without a sound one is no checkpoint. In: the files. Out: its text;
 * or, when one is read, what is wrong with the folder.
 *
 *   fsdpgen checkpoint 2
 *   step 20
 *   file model.safetensors 123456 0123456789abcdef
 *   ...
 *   end 0123456789abcdef         the hash of every byte before this line
 *
 * The hash of a file is the sum modulo 2^64 of the hashes of its chunks of 4 MiB, each
 * seeded by its place: any rank may hash any chunk, and the manifest knows nothing of
 * ranks. */
#include "rt_checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char first_line[] = "fsdpgen checkpoint 2\n";
/* Files were hashed in one lane: read, not written any more. */
static const char first_line_before[] = "fsdpgen checkpoint 1\n";
enum { VERSION = 2 };

char *rt_manifest_text(const RtFile *files, int n_files, int64_t step)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    if (f == NULL) {
        return NULL;
    }
    fprintf(f, "%sstep %lld\n", first_line, (long long)step);
    for (int i = 0; i < n_files; i++) {
        fprintf(f, "file %s %lld %016llx\n", files[i].name, (long long)files[i].bytes,
                (unsigned long long)files[i].hash);
    }
    if (fflush(f) == 0) {
        fprintf(f, "end %016llx\n", (unsigned long long)rt_hash64(text, bytes, 2));
    }
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- reading ----------------------------------------------------------------------- */

/* Names as we write them: they are opened below the checkpoint's folder. */
static bool good_name(const char *name)
{
    const char *rest = strncmp(name, "optimizer/", 10) == 0 ? name + 10 : name;
    return *rest != '\0' && *rest != '.' &&
           strspn(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                        "_-.") == strlen(rest);
}

/* `file NAME BYTES HASH`, written as we write it. */
static bool read_file_line(const char *line, size_t bytes, RtFile *f)
{
    char again[RT_NAME_BYTES + 64];
    long long size;
    unsigned long long hash;
    *f = (RtFile){0};
    if (sscanf(line, "file %63s %lld %llx", f->name, &size, &hash) != 3 ||
        !good_name(f->name) || size < 0) {
        return false;
    }
    f->bytes = size;
    f->hash = hash;
    snprintf(again, sizeof again, "file %s %lld %016llx", f->name, size, hash);
    return strlen(again) == bytes && memcmp(again, line, bytes) == 0;
}

static bool read_lines(RtManifest *m, const char *text, const char *end)
{
    char again[64];
    long long step;
    const size_t head = sizeof first_line - 1;
    if ((size_t)(end - text) < head) {
        return false;
    }
    m->version = memcmp(text, first_line, head) == 0          ? VERSION
                 : memcmp(text, first_line_before, head) == 0 ? 1
                                                              : 0;
    if (m->version == 0 || sscanf(text + head, "step %lld", &step) != 1) {
        return false;
    }
    const char *at = text + head;
    const int n = snprintf(again, sizeof again, "step %lld\n", step);
    if (strncmp(at, again, (size_t)n) != 0) {
        return false;
    }
    m->step = step;
    int lines = 0;
    for (const char *p = at + n; p < end; p++) {
        lines += *p == '\n';
    }
    m->files = calloc((size_t)lines + 1, sizeof *m->files);
    at += n;
    for (; m->files != NULL && at < end; m->n_files++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL ||
            !read_file_line(at, (size_t)(stop - at), &m->files[m->n_files])) {
            return false;
        }
        at = stop + 1;
    }
    return m->n_files > 0;
}

bool rt_manifest_read(RtManifest *m, const char *folder, char *error)
{
    enum { TAIL = 21 }; /* "end 0123456789abcdef\n" */
    char path[RT_PATH_BYTES + RT_NAME_BYTES], tail[TAIL + 1];
    int64_t bytes = 0;
    *m = (RtManifest){0};
    snprintf(path, sizeof path, "%s/MANIFEST", folder);
    char *text = rt_file_load(path, 16 << 20, &bytes, error);
    if (text == NULL) {
        return false;
    }
    const int64_t body = bytes - TAIL;
    bool ok = body > 0;
    if (ok) {
        snprintf(tail, sizeof tail, "end %016llx\n",
                 (unsigned long long)rt_hash64(text, (size_t)body, 2));
        errno = 0;
        ok = memcmp(tail, text + body, TAIL) == 0 && read_lines(m, text, text + body);
    }
    free(text);
    if (!ok && body > 0 && m->n_files == 0 && errno == ENOMEM) {
        return rt_file_error(error, "allocate memory for", path);
    }
    if (!ok) {
        rt_manifest_free(m);
        snprintf(error, RT_ERROR_BYTES, "%s is not what was written", path);
    }
    return ok;
}

void rt_manifest_free(RtManifest *m)
{
    free(m->files);
    *m = (RtManifest){0};
}

bool rt_manifest_sizes(const RtManifest *m, const char *folder, char *error)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    struct stat s;
    for (int i = 0; i < m->n_files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, m->files[i].name);
        if (stat(path, &s) != 0) {
            return rt_file_error(error, "stat", path);
        }
        if (!S_ISREG(s.st_mode) || s.st_size != m->files[i].bytes) {
            snprintf(error, RT_ERROR_BYTES, "%s has %lld bytes, not the %lld of MANIFEST",
                     path, (long long)s.st_size, (long long)m->files[i].bytes);
            return false;
        }
    }
    return true;
}

/* ---- hashing ----------------------------------------------------------------------- */

/* The disk reads what this rank hashes next while it hashes this. */
static void read_ahead(const Rt *rt, int fd, int64_t at)
{
    posix_fadvise(fd, (off_t)(at + rt->world_size * (int64_t)RT_CHUNK_BYTES),
                  RT_CHUNK_BYTES, POSIX_FADV_WILLNEED);
}

/* In pieces that a core's cache keeps: what is read is hashed before it leaves it. */
static uint64_t hash_chunk(RtCheckpoint *c, int fd, const char *path, int64_t at,
                           int64_t bytes, int version)
{
    enum { PIECE_BYTES = 256 << 10 };
    const uint64_t seed = (uint64_t)(at / RT_CHUNK_BYTES) + 3;
    RtLanes h;
    if (version == 1) {
        return rt_file_read(fd, path, c->chunk, bytes, at, c->error)
                   ? rt_hash64(c->chunk, (size_t)bytes, seed)
                   : 0;
    }
    rt_lanes_begin(&h, (size_t)bytes, seed);
    for (; bytes > PIECE_BYTES; bytes -= PIECE_BYTES, at += PIECE_BYTES) {
        if (!rt_file_read(fd, path, c->chunk, PIECE_BYTES, at, c->error)) {
            return 0;
        }
        rt_lanes_more(&h, c->chunk, PIECE_BYTES);
    }
    return rt_file_read(fd, path, c->chunk, bytes, at, c->error)
               ? rt_lanes_end(&h, c->chunk, (size_t)bytes)
               : 0;
}

/* This rank's chunks of the file; counter: chunks of the files before it. */
static uint64_t hash_file(Rt *rt, const char *folder, const RtFile *file, int version,
                          int64_t *counter)
{
    RtCheckpoint *c = rt->state->checkpoint;
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    uint64_t sum = 0;
    int fd = -1;
    snprintf(path, sizeof path, "%s/%s", folder, file->name);
    for (int64_t at = 0; at < file->bytes; at += RT_CHUNK_BYTES, ++*counter) {
        const int64_t left = file->bytes - at;
        const int64_t n = left < RT_CHUNK_BYTES ? left : RT_CHUNK_BYTES;
        if (*counter % rt->world_size != rt->rank || c->error[0] != '\0') {
            continue;
        }
        rt_save_moves(rt);
        if (fd < 0 && (fd = rt_file_open(path, O_RDONLY, c->error)) < 0) {
            continue;
        }
        read_ahead(rt, fd, at);
        sum += hash_chunk(c, fd, path, at, n, version);
    }
    if (fd >= 0) {
        close(fd);
    }
    return sum;
}

static bool hash_files(Rt *rt, const char *folder, RtFile *files, int n_files,
                       int version)
{
    int64_t counter = 0;
    for (int at = 0; at < n_files; at += RT_SUM_WORDS) {
        uint64_t words[RT_SUM_WORDS];
        const int n = n_files - at < RT_SUM_WORDS ? n_files - at : RT_SUM_WORDS;
        for (int i = 0; i < n; i++) {
            words[i] = hash_file(rt, folder, &files[at + i], version, &counter);
        }
        rt_save_sum(rt, words, n);
        for (int i = 0; i < n; i++) {
            files[at + i].hash = words[i];
        }
    }
    return rt_first_error(rt) < 0;
}

bool rt_manifest_hash(Rt *rt, const char *folder, RtFile *files, int n_files)
{
    return hash_files(rt, folder, files, n_files, VERSION);
}

bool rt_manifest_verify(Rt *rt, const char *folder, RtManifest *m)
{
    RtCheckpoint *c = rt->state->checkpoint;
    *m = (RtManifest){0};
    if (rt_manifest_read(m, folder, c->error)) {
        rt_manifest_sizes(m, folder, c->error);
    }
    if (rt_first_error(rt) >= 0) {
        return false;
    }
    uint64_t *want = malloc((size_t)m->n_files * sizeof *want);
    if (want == NULL) {
        rt_fail(rt, RT_EXIT_ERROR, "out of memory");
    }
    for (int i = 0; i < m->n_files; i++) {
        want[i] = m->files[i].hash;
    }
    if (!hash_files(rt, folder, m->files, m->n_files, m->version)) {
        free(want); /* what a rank could not read is told as that */
        return false;
    }
    for (int i = 0; i < m->n_files && c->error[0] == '\0'; i++) {
        if (m->files[i].hash != want[i]) {
            snprintf(c->error, sizeof c->error, "%s is not what was written",
                     m->files[i].name);
        }
    }
    free(want);
    return rt_first_error(rt) < 0;
}
