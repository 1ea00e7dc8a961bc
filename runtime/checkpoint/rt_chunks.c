/* SPDX-License-Identifier: MIT-0 */
/* rt_chunks.c: hashes of the files of a checkpoint. In: files on disk. Out: a hash of
 * each, computed by all ranks together.
 *
 * A file is cut into chunks of 4 MiB. Its hash is the sum modulo 2^64 of theirs, each
 * seeded by its position, so any rank may hash any chunk: ranks take them in turn, file
 * after file. A rank prefetches chunks from the disk well before it hashes them, so work
 * between two chunks, such as copying what was read, does not slow down the disk.
 *
 * MANIFEST has the sums. CHUNKS, a file of the checkpoint like others, has each hash of
 * the files with tensors, so that `trainer verify` can locate damage:
 *
 *    fsdpgen chunks 1
 *    file model.safetensors
 *    0123456789abcdef             a line for each 4 MiB
 *    ... */
#include "checkpoint/rt_checkpoint.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    AHEAD_CHUNKS = 16,      /* of this rank, being read from disk */
    PIECE_BYTES = 256 << 10 /* stays in a core's cache until it is hashed */
};

void rt_chunks_begin(RtChunks *h, const char *folder, RtFile *files, int n_files,
                     int version)
{
    *h = (RtChunks){.folder = folder,
                    .files = files,
                    .n_files = n_files,
                    .version = version,
                    .next.fd = -1,
                    .ahead.fd = -1};
    for (int i = 0; i < n_files; i++) {
        files[i].sum = 0;
        if (files[i].chunks != NULL) {
            memset(files[i].chunks, 0,
                   (size_t)rt_chunks_of(&files[i]) * sizeof *files[i].chunks);
        }
    }
}

/* ---- a place in the files -------------------------------------------------------- */

static void close_file(RtChunkAt *c)
{
    if (c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
    }
}

static void step(RtChunkAt *c)
{
    c->at += RT_CHUNK_BYTES;
    c->number++;
}

/* Moves on to this rank's next chunk; false: there is none. */
static bool find_own(const Rt *rt, const RtChunks *h, RtChunkAt *c)
{
    while (c->file < h->n_files) {
        if (c->at >= h->files[c->file].bytes) {
            close_file(c);
            c->file++;
            c->at = 0;
        } else if (c->number % rt->world_size == rt->rank) {
            return true;
        } else {
            step(c);
        }
    }
    return false;
}

static void path_of(const RtChunks *h, const RtChunkAt *c, char *path, size_t bytes)
{
    snprintf(path, bytes, "%s/%s", h->folder, h->files[c->file].name);
}

/* ---- prefetching from disk ------------------------------------------------------- */

/* These are hints: errors are reported when reading. In pieces, because the kernel limits
 * each hint to the size of a disk request. */
static void read_ahead(const Rt *rt, RtChunks *h)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    RtChunkAt *c = &h->ahead;
    while (find_own(rt, h, c) &&
           c->number <= h->next.number + (int64_t)AHEAD_CHUNKS * rt->world_size) {
        if (c->fd < 0) {
            path_of(h, c, path, sizeof path);
            c->fd = open(path, O_RDONLY | O_CLOEXEC);
        }
        for (int64_t at = 0; at < RT_CHUNK_BYTES; at += PIECE_BYTES)
            posix_fadvise(c->fd, (off_t)(c->at + at), PIECE_BYTES, POSIX_FADV_WILLNEED);
        step(c);
    }
}

/* ---- hashes ---------------------------------------------------------------------- */

bool rt_chunk_hash(int fd, const char *path, int64_t at, int64_t bytes, int version,
                   char *memory, uint64_t *hash, char *error)
{
    const uint64_t seed = (uint64_t)(at / RT_CHUNK_BYTES) + 3;
    RtLanes h;
    if (version == 1) {
        const bool whole = rt_file_read(fd, path, memory, bytes, at, error);
        *hash = whole ? rt_hash64(memory, (size_t)bytes, seed) : 0;
        return whole;
    }
    rt_lanes_begin(&h, (size_t)bytes, seed);
    for (; bytes > PIECE_BYTES; bytes -= PIECE_BYTES, at += PIECE_BYTES) {
        if (!rt_file_read(fd, path, memory, PIECE_BYTES, at, error))
            return false;
        rt_lanes_more(&h, memory, PIECE_BYTES);
    }
    if (!rt_file_read(fd, path, memory, bytes, at, error))
        return false;
    *hash = rt_lanes_end(&h, memory, (size_t)bytes);
    return true;
}

void rt_chunks_until(Rt *rt, RtChunks *h, int file, int64_t at)
{
    RtCheckpoint *c = rt->state->checkpoint;
    RtChunkAt *own = &h->next;
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    while (c->error[0] == '\0' && find_own(rt, h, own) &&
           (own->file < file || (own->file == file && own->at < at)) &&
           !(h->gives_way && rt_due_soon(rt))) {
        RtFile *f = &h->files[own->file];
        const int64_t left = f->bytes - own->at;
        rt_save_moves(rt);
        path_of(h, own, path, sizeof path);
        if (own->fd < 0 && (own->fd = rt_file_open(path, O_RDONLY, c->error)) < 0)
            return;
        read_ahead(rt, h);
        uint64_t hash = 0;
        rt_chunk_hash(own->fd, path, own->at,
                      left < RT_CHUNK_BYTES ? left : RT_CHUNK_BYTES, h->version, c->chunk,
                      &hash, c->error);
        f->sum += hash;
        if (f->chunks != NULL)
            f->chunks[own->at / RT_CHUNK_BYTES] = hash;
        step(own);
    }
}

void rt_chunks_end(RtChunks *h)
{
    if (h->files != NULL) {
        close_file(&h->next);
        close_file(&h->ahead);
    }
}

/* ---- CHUNKS ---------------------------------------------------------------------- */

static const char first_line[] = "fsdpgen chunks 1\n";
enum { LINE_BYTES = 17 };

int64_t rt_chunks_text_bytes(const RtFile *files, int n_files)
{
    int64_t bytes = (int64_t)sizeof first_line - 1;
    for (int i = 0; i < n_files && bytes < INT64_MAX / 4; i++) { /* more than any file */
        bytes += (int64_t)strlen("file \n") + (int64_t)strlen(files[i].name) +
                 LINE_BYTES * rt_chunks_of(&files[i]);
    }
    return bytes;
}

char *rt_chunks_text(const RtFile *files, int n_files)
{
    char *text = malloc((size_t)rt_chunks_text_bytes(files, n_files) + 1), *at = text;
    if (text == NULL)
        return NULL;
    at += sprintf(at, "%s", first_line);
    for (int i = 0; i < n_files; i++) {
        at += sprintf(at, "file %s\n", files[i].name);
        for (int64_t k = 0; k < rt_chunks_of(&files[i]); k++)
            at += sprintf(at, "%016llx\n", (unsigned long long)files[i].chunks[k]);
    }
    return text;
}

bool rt_chunks_read(RtFile *files, int n_files, const char *text, int64_t bytes)
{
    if (rt_chunks_text_bytes(files, n_files) != bytes ||
        strncmp(text, first_line, sizeof first_line - 1) != 0)
        return false;
    text += sizeof first_line - 1;
    for (int i = 0; i < n_files; i++) {
        const size_t name = strlen(files[i].name);
        if (strncmp(text, "file ", 5) != 0 ||
            strncmp(text + 5, files[i].name, name) != 0 || text[5 + name] != '\n')
            return false;
        text += 5 + name + 1;
        for (int64_t k = 0; k < rt_chunks_of(&files[i]); k++, text += LINE_BYTES) {
            char *end;
            files[i].chunks[k] = strtoull(text, &end, 16);
            if (end != text + LINE_BYTES - 1 || *end != '\n')
                return false;
        }
    }
    return true;
}
