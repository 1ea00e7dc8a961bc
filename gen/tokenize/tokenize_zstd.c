/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_zstd.c: reads a zstd file as what it unpacks to. In: a file, compressed, of
 * one frame or several. Out: its bytes in stretches; memory is the window of a frame, 128
 * MiB at most. A file that is cut off, or has other bytes behind its frames, is an error.
 */
#include "tokenize/tokenize.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef FSDPGEN_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif

#ifdef FSDPGEN_ZSTD
const char tok_without_zstd[] = "";
#else
const char tok_without_zstd[] =
    "is zstd, and this fsdpgen was built without libzstd (libzstd-dev): unpack it first";
#endif

bool tok_is_zstd(const char *name, const char *s, size_t n)
{
    const size_t bytes = strlen(name);

    return (bytes >= 4 && !strcmp(name + bytes - 4, ".zst")) ||
           (n >= 4 && !memcmp(s, "\x28\xb5\x2f\xfd", 4));
}

#ifdef FSDPGEN_ZSTD

enum { WINDOW_LOG = 27, PACKED_BYTES = 1 << 17 };

struct TokZstd {
    ZSTD_DCtx *context;
    char packed[PACKED_BYTES];
    ZSTD_inBuffer in;
    size_t frame; /* 0: a frame has ended; else it goes on */
    bool full;    /* the last output was; more of it may come without input */
};

TokZstd *tok_zstd_open(void)
{
    TokZstd *z = gen_calloc(1, sizeof *z);

    z->context = ZSTD_createDCtx();
    if (!z->context)
        gen_out_of_memory(sizeof *z);
    ZSTD_DCtx_setParameter(z->context, ZSTD_d_windowLogMax, WINDOW_LOG);
    z->in.src = z->packed;
    z->frame = 1; /* no file is without one */
    return z;
}

void tok_zstd_close(TokZstd *z)
{
    if (z)
        ZSTD_freeDCtx(z->context);
    free(z);
}

static ssize_t fails(const TokFile *f, const char *why, char *error)
{
    const TokZstd *z = f->zstd;

    snprintf(error, TOK_ERROR_BYTES, "%.200s: byte %lld of the zstd file: %s", f->name,
             (long long)f->bytes - (long long)(z->in.size - z->in.pos) + 1, why);
    return -1;
}

static const char *problem(size_t code, bool begins)
{
    switch (ZSTD_getErrorCode(code)) {
    case ZSTD_error_prefix_unknown:
        return begins ? "is not zstd" : "what follows the last frame is not zstd";
    case ZSTD_error_frameParameter_windowTooLarge:
        return "needs a window of more than 128 MiB: pack it without --long, or unpack "
               "it";
    case ZSTD_error_dictionary_wrong:
        return "needs a dictionary, which is not supported: unpack it";
    default:
        return ZSTD_getErrorName(code);
    }
}

/* More of the file, which is empty; false: it has ended, or error is set. */
static bool refill(TokFile *f, char *error)
{
    TokZstd *z = f->zstd;
    ssize_t got;

    do
        got = read(f->fd, z->packed, sizeof z->packed);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        snprintf(error, TOK_ERROR_BYTES, "%.300s: %.150s", f->name, file_problem(errno));
    f->bytes += got > 0 ? got : 0;
    z->in.size = got > 0 ? (size_t)got : 0;
    z->in.pos = 0;
    return got > 0;
}

ssize_t tok_zstd_read(TokFile *f, char *to, size_t n, char *error)
{
    TokZstd *z = f->zstd;
    ZSTD_outBuffer out = {to, n, 0};

    error[0] = '\0';
    while (out.pos == 0) {
        const bool begins = f->bytes == (int64_t)z->in.size && z->in.pos == 0;
        size_t before;

        /* behind a full output more of a frame may come without input */
        if (z->in.pos == z->in.size && !(z->full && z->frame > 0) && !refill(f, error)) {
            if (error[0])
                return -1;
            return z->frame == 0 ? 0 : fails(f, "is cut off here", error);
        }
        before = z->in.pos;
        z->frame = ZSTD_decompressStream(z->context, &out, &z->in);
        if (ZSTD_isError(z->frame)) {
            z->in.pos = before;
            return fails(f, problem(z->frame, begins), error);
        }
        z->full = out.pos == out.size;
    }
    return (ssize_t)out.pos;
}

#else

TokZstd *tok_zstd_open(void)
{
    return NULL;
}

void tok_zstd_close(TokZstd *z)
{
    (void)z;
}

ssize_t tok_zstd_read(TokFile *f, char *to, size_t n, char *error)
{
    (void)to, (void)n;
    snprintf(error, TOK_ERROR_BYTES, "%.200s: %s", f->name, tok_without_zstd);
    return -1;
}

#endif
