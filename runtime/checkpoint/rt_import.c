/* SPDX-License-Identifier: MIT-0 */
/* rt_import.c: weights made elsewhere. In: --init's folder or a checkpoint's, one
 * safetensors file or several with their index, in F16, BF16, F32 or F64. Out: masters
 * and weights in this rank's shards.
 *
 * Every tensor that the model needs must exist with its shape, and every existing tensor
 * must be one that the model needs, except a head that is tied here and equal there, and
 * buffers that older programs stored with the weights. A base model's folder lacks the
 * first word of each name. Each rank reads only what its shards hold.
 *
 * With --new-rows an embedding, a head and its bias may have fewer rows than the model's
 * vocabulary. Each new row is the mean of the old ones: of each column the sum in f64,
 * row after row, divided by their number, and rounded as a weight that is read. So ranks
 * and shards do not matter. */
#include "checkpoint/rt_checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Import {
    Rt *rt;
    const char *flag, *dir; /* the flag that names dir */
    RtTensors tensors;
    const RtSegment *segment;
    const RtTensor *tensor; /* a parameter, or rows of one: */
    int64_t first;          /* from this element of it on */
    char *raw, *stage;      /* RT_STAGE_ELEMS doubles each */
    double *x;
    int64_t cols; /* elements of a row of tensor */
    double *mean; /* [cols] of its rows; NULL: not yet known */
} Import;

/* The first rank to find it reports it. */
#define FAIL(i, fmt, ...)                                                                \
    rt_fail((i)->rt, RT_EXIT_ERROR, "%s: " fmt, (i)->flag, __VA_ARGS__)

/* ---- the folder ------------------------------------------------------------------ */

/* The files that the index names, each once; false with the error. */
static bool add_indexed(Import *im, const char *path, char *error)
{
    char key[512], file[RT_NAME_BYTES * 2], full[RT_PATH_BYTES * 2];
    int64_t bytes;
    char *text = rt_file_load(path, INT64_C(1) << 28, &bytes, error);
    if (text == NULL)
        return false;
    RtJson j = {text, text + bytes, false};
    bool first = true, inner = true, ok = rt_json_open(&j, '{');
    while (ok && rt_json_item(&j, '}', &first)) {
        ok = rt_json_key(&j, key, sizeof key);
        if (!ok || strcmp(key, "weight_map") != 0) {
            ok = ok && rt_json_skip(&j);
            continue;
        }
        ok = inner && rt_json_open(&j, '{');
        while (ok && rt_json_item(&j, '}', &inner)) {
            ok = rt_json_key(&j, key, sizeof key) && rt_json_text(&j, file, sizeof file);
            if (ok && (file[0] == '\0' || file[0] == '.' || strchr(file, '/') != NULL))
                FAIL(im, "%s: \"%s\" is not a name of a file beside it", path, file);
            snprintf(full, sizeof full, "%s/%s", im->dir, file);
            bool known = false;
            for (int i = 0; ok && i < im->tensors.n_files; i++)
                known = known || strcmp(im->tensors.files[i].path, full) == 0;
            if (ok && !known && !rt_tensors_add(&im->tensors, full, error)) {
                free(text);
                return false;
            }
        }
        inner = false; /* one is enough */
    }
    if (!ok || !rt_json_done(&j) || im->tensors.n_files == 0)
        FAIL(im, "%s is not an index of safetensors", path);
    free(text);
    return true;
}

void rt_import_missing(const char *dir, char *error)
{
    if (access(dir, F_OK) != 0)
        snprintf(error, RT_ERROR_BYTES, "%s: %s", dir, strerror(errno));
    else
        snprintf(error, RT_ERROR_BYTES,
                 "%s has neither model.safetensors nor model.safetensors.index.json, nor "
                 "checkpoints step-...",
                 dir);
}

static bool open_folder(Import *im, char *error)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    if (strlen(im->dir) >= RT_PATH_BYTES)
        FAIL(im, "%s", "the folder's name is too long");
    /* If both exist, the index is old: transformers takes the file, too. */
    snprintf(path, sizeof path, "%s/model.safetensors", im->dir);
    if (access(path, F_OK) == 0)
        return rt_tensors_add(&im->tensors, path, error);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", im->dir);
    if (access(path, F_OK) == 0)
        return add_indexed(im, path, error);
    rt_import_missing(im->dir, error);
    return false;
}

/* Collective. Of a run's checkpoints, one that was listed and verified may be removed
 * since; false: it was. What is open can be read nevertheless. */
static bool open_together(Import *im)
{
    Rt *rt = im->rt;
    char error[RT_ERROR_BYTES];
    const bool opened = open_folder(im, error);
    uint64_t gone = !opened && rt->state->weights_listed && rt_folder_is_removed(im->dir);
    if (!opened && gone == 0)
        FAIL(im, "%s", error);
    rt_sum_words(rt, &gone, 1);
    if (gone == 0 && !rt_tensors_sort(&im->tensors, error))
        FAIL(im, "%s", error);
    return gone == 0;
}

/* ---- names and shapes ------------------------------------------------------------ */

/* The name of part k of a parameter. */
static const char *part_name(const RtParam *p, int k)
{
    return p->n_parts > 0 ? p->parts[k].name : p->name;
}

static RtTensor *find(Import *im, const char *name)
{
    RtTensor *x = rt_tensors_find(&im->tensors, name);
    const char *dot = strchr(name, '.');
    return x != NULL || dot == NULL ? x : rt_tensors_find(&im->tensors, dot + 1);
}

static void shape_text(char *text, size_t bytes, const int64_t *dim, int n_dims)
{
    size_t used = (size_t)snprintf(text, bytes, "[");
    for (int i = 0; i < n_dims; i++) {
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)dim[i]);
    }
    snprintf(text + used, bytes - used, "]");
}

/* Does the tensor lack rows that --new-rows adds? */
static bool lacks_rows(const Import *im, const RtParam *p, const RtTensor *x)
{
    return im->rt->state->flags.command == RT_TRAIN && p->n_parts == 0 &&
           p->dim[0] == im->rt->trainer->vocab && x->n_dims == p->n_dims &&
           x->dim[0] > 0 && x->dim[0] < p->dim[0] &&
           memcmp(x->dim + 1, p->dim + 1, (size_t)(p->n_dims - 1) * sizeof *p->dim) == 0;
}

static void check_part(Import *im, const RtParam *p, int k)
{
    char theirs[128], ours[128];
    int64_t dim[RT_MAX_DIMS];
    RtTensor *x = find(im, part_name(p, k));
    memcpy(dim, p->dim, sizeof dim);
    dim[0] = p->n_parts > 0 ? p->parts[k].rows : p->dim[0];
    if (x == NULL)
        FAIL(im, "%s: tensor %s is missing", im->dir, part_name(p, k));
    const bool lacks = lacks_rows(im, p, x);
    if (!(lacks && im->rt->state->flags.new_rows) &&
        (x->n_dims != p->n_dims ||
         memcmp(x->dim, dim, (size_t)p->n_dims * sizeof *dim) != 0)) {
        shape_text(theirs, sizeof theirs, x->dim, x->n_dims);
        shape_text(ours, sizeof ours, dim, p->n_dims);
        FAIL(im, "%s: tensor %s is %s, the model's is %s%s", im->dir, x->name, theirs,
             ours, lacks ? ": --new-rows makes the missing rows the mean of these" : "");
    }
    if (x->other) {
        FAIL(im,
             "%s: tensor %s has a dtype that weights cannot have here: use F16, "
             "BF16, F32 or F64",
             im->dir, x->name);
    }
    x->used = true;
}

/* Buffers of attention and of rotary positions, which older programs saved. */
static bool is_buffer(const char *name)
{
    static const char *const ends[] = {".attn.bias", ".attn.masked_bias",
                                       ".rotary_emb.inv_freq"};
    const size_t n = strlen(name);
    for (int i = 0; i < 3; i++) {
        const size_t m = strlen(ends[i]);
        if (n > m && strcmp(name + n - m, ends[i]) == 0)
            return true;
    }
    return false;
}

/* A head tied to the embedding may also be stored under its own name. */
static bool is_copy(Import *im, const RtTensor *x)
{
    if (x->other || strcmp(x->name, "lm_head.weight") != 0)
        return false;
    for (int i = 0; i < im->tensors.n_tensors; i++) {
        const RtTensor *y = &im->tensors.tensors[i];
        const int64_t most = RT_STAGE_ELEMS * (int64_t)sizeof(double);
        bool same = y->used && y->dtype == x->dtype && y->n_dims == x->n_dims &&
                    memcmp(y->dim, x->dim, sizeof x->dim) == 0;
        for (int64_t at = 0; same && at < x->bytes; at += most) {
            const int64_t n = x->bytes - at < most ? x->bytes - at : most;
            char error[RT_ERROR_BYTES];
            const struct RtTensorFile *fx = &im->tensors.files[x->fd_index];
            const struct RtTensorFile *fy = &im->tensors.files[y->fd_index];
            rt_enter(im->rt, RT_AT_LOAD);
            same = rt_file_read(fx->fd, fx->path, im->raw, n, x->at + at, error) &&
                   rt_file_read(fy->fd, fy->path, im->stage, n, y->at + at, error) &&
                   memcmp(im->raw, im->stage, (size_t)n) == 0;
        }
        if (same)
            return true;
    }
    return false;
}

static void check_tensors(Import *im)
{
    const RtTrainer *t = im->rt->trainer;
    for (int i = 0; i < t->n_params; i++)
        for (int k = 0; k == 0 || k < t->params[i].n_parts; k++)
            check_part(im, &t->params[i], k);
    for (int i = 0; im->rt->rank == 0 && i < im->tensors.n_tensors; i++) {
        const RtTensor *x = &im->tensors.tensors[i];
        if (!x->used && !is_buffer(x->name) && !is_copy(im, x)) {
            FAIL(im,
                 "%s: the model has no tensor %s: the folder has other layers, "
                 "biases or an untied head; see fsdpgen import %s",
                 im->dir, x->name, im->dir);
        }
    }
}

/* A number for names, shapes and places of all tensors and for some bytes of each: other
 * weights of the same model differ there, too. */
static uint64_t identity(Import *im)
{
    enum { SOME_BYTES = 64 };
    char error[RT_ERROR_BYTES], bytes[SOME_BYTES];
    uint64_t sum = 0;
    for (int i = 0; i < im->tensors.n_tensors; i++) {
        const RtTensor *x = &im->tensors.tensors[i];
        const struct RtTensorFile *f = &im->tensors.files[x->fd_index];
        const int64_t n = x->bytes < SOME_BYTES ? x->bytes : SOME_BYTES;
        const int64_t of[] = {x->at, x->bytes, (int64_t)x->dtype};
        rt_enter(im->rt, RT_AT_LOAD);
        if (!rt_file_read(f->fd, f->path, bytes, n, x->at + (x->bytes - n) / 2, error))
            FAIL(im, "%s", error);
        sum = rt_hash64(of, sizeof of, rt_hash64(bytes, (size_t)n, sum));
        sum = rt_hash64(x->dim, sizeof x->dim, rt_hash64(x->name, strlen(x->name), sum));
    }
    return sum;
}

/* Collective: do all machines find the same weights there? */
static void agree(Import *im)
{
    const uint64_t mine = identity(im);
    uint64_t first = mine;
    rt_take_first(im->rt, &first, 1);
    if (first != mine) {
        FAIL(im,
             "%s has other weights for rank %d than for rank 0: all machines must "
             "find the same bytes",
             im->dir, im->rt->rank);
    }
}

/* ---- slices ---------------------------------------------------------------------- */

static void widen(RtDtype d, const char *raw, int64_t n, double *x)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = d == RT_F64    ? ((const double *)(const void *)raw)[i]
               : d == RT_F32  ? ((const float *)(const void *)raw)[i]
               : d == RT_BF16 ? rt_f32_from_bf16(((const uint16_t *)(const void *)raw)[i])
                              : rt_f32_from_f16(((const uint16_t *)(const void *)raw)[i]);
    }
}

/* Puts n weights at element `at` of this rank's shard: the master and its rounding. */
static void put(Import *im, int64_t at, int64_t n)
{
    const RtTrainer *t = im->rt->trainer;
    const RtSegment *s = im->segment;
    const bool f32 = t->master_dtype == RT_F32 || t->master_dtype == RT_SPLIT;
    const int64_t master = (int64_t)rt_dtype_bytes(t->master_dtype);
    const int64_t param = (int64_t)rt_dtype_bytes(s->dtype);
    for (int64_t i = 0; i < n; i++)
        im->x[i] = f32 ? (float)im->x[i] : im->x[i];
    if (s->master >= 0) {
        for (int64_t i = 0; i < n; i++)
            rt_store(t->master_dtype, im->stage, i, im->x[i], false);
        rt_arena_write(im->rt, RT_SPACE_LOCAL, s->master + at * master, im->stage,
                       n * master);
    }
    for (int64_t i = 0; i < n; i++)
        rt_store(s->dtype, im->stage, i, im->x[i], f32);
    rt_arena_write(im->rt, RT_SPACE_SYMMETRIC, rt_param_part(im->rt, s) + at * param,
                   im->stage, n * param);
}

static void read_run(void *ctx, const RtRun *run)
{
    Import *im = ctx;
    const RtTensor *x = im->tensor;
    const struct RtTensorFile *f = &im->tensors.files[x->fd_index];
    const int64_t item = (int64_t)rt_dtype_bytes(x->dtype);
    char error[RT_ERROR_BYTES];
    for (int64_t i = 0, n; i < run->elems; i += n) {
        n = run->elems - i < RT_STAGE_ELEMS ? run->elems - i : RT_STAGE_ELEMS;
        rt_enter(im->rt, RT_AT_LOAD);
        if (!rt_file_read(f->fd, f->path, im->raw, n * item,
                          x->at + (run->element - im->first + i) * item, error))
            FAIL(im, "%s", error);
        widen(x->dtype, im->raw, n, im->x);
        put(im, run->shard_offset_elems + i, n);
    }
}

static void read_mean(Import *im)
{
    const RtTensor *x = im->tensor;
    const struct RtTensorFile *f = &im->tensors.files[x->fd_index];
    const int64_t item = (int64_t)rt_dtype_bytes(x->dtype);
    const int64_t elems = x->dim[0] * im->cols;
    char error[RT_ERROR_BYTES];
    im->mean = calloc((size_t)im->cols, sizeof *im->mean);
    if (im->mean == NULL)
        rt_fail(im->rt, RT_EXIT_ERROR, "%s: out of memory", im->flag);
    for (int64_t i = 0, n; i < elems; i += n) {
        n = elems - i < RT_STAGE_ELEMS ? elems - i : RT_STAGE_ELEMS;
        rt_enter(im->rt, RT_AT_LOAD);
        if (!rt_file_read(f->fd, f->path, im->raw, n * item, x->at + i * item, error))
            FAIL(im, "%s", error);
        widen(x->dtype, im->raw, n, im->x);
        for (int64_t k = 0; k < n; k++)
            im->mean[(i + k) % im->cols] += im->x[k];
    }
    for (int64_t c = 0; c < im->cols; c++)
        im->mean[c] /= (double)x->dim[0];
}

static void mean_run(void *ctx, const RtRun *run)
{
    Import *im = ctx;
    if (im->mean == NULL)
        read_mean(im);
    for (int64_t i = 0, n; i < run->elems; i += n) {
        n = run->elems - i < RT_STAGE_ELEMS ? run->elems - i : RT_STAGE_ELEMS;
        for (int64_t k = 0; k < n; k++)
            im->x[k] = im->mean[(run->element + i + k) % im->cols];
        put(im, run->shard_offset_elems + i, n);
    }
}

/* The rows of a vocabulary that the tensor does not have. */
static void add_rows(Import *im, int id)
{
    const RtParam *p = &im->rt->trainer->params[id];
    const int64_t rows = im->tensor->dim[0];
    const RtBox box = rt_box_rows(p, rows, p->dim[0] - rows);
    im->cols = p->elems / p->dim[0];
    rt_held_runs(im->rt, id, &box, mean_run, im);
    free(im->mean);
    im->mean = NULL;
}

static void read_param(Import *im, int id)
{
    const RtParam *p = &im->rt->trainer->params[id];
    int64_t row = 0;
    for (int k = 0; k == 0 || k < p->n_parts; k++) {
        im->tensor = find(im, part_name(p, k));
        const int64_t rows = p->n_parts > 0 ? p->parts[k].rows : im->tensor->dim[0];
        const RtBox box = rt_box_rows(p, row, rows);
        im->first = row * (p->elems / p->dim[0]);
        rt_held_runs(im->rt, id, &box, read_run, im);
        row += rows;
    }
    if (row < p->dim[0])
        add_rows(im, id);
}

static void read_all(Import *im)
{
    const RtTrainer *t = im->rt->trainer;
    check_tensors(im);
    agree(im);
    for (int i = 0; i < t->n_segments; i++) {
        im->segment = &t->segments[i];
        for (int k = 0; k < im->segment->n_params; k++)
            read_param(im, t->segment_params[im->segment->first_param + k]);
    }
    if (im->rt->rank == 0) {
        fprintf(rt_words(im->rt), "initial weights: %s, %d tensors in %d file%s\n",
                im->dir, im->tensors.n_tensors, im->tensors.n_files,
                im->tensors.n_files == 1 ? "" : "s");
    }
}

bool rt_import_weights(Rt *rt, const char *flag, const char *dir)
{
    Import im = {.rt = rt, .flag = flag, .dir = dir};
    rt_enter(rt, RT_AT_LOAD);
    im.raw = malloc(RT_STAGE_ELEMS * sizeof(double));
    im.stage = malloc(RT_STAGE_ELEMS * sizeof(double));
    im.x = malloc(RT_STAGE_ELEMS * sizeof(double));
    if (im.raw == NULL || im.stage == NULL || im.x == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "%s: out of memory", flag);
    const bool there = open_together(&im);
    if (there)
        read_all(&im);
    rt_tensors_close(&im.tensors);
    free(im.raw);
    free(im.stage);
    free(im.x);
    return there;
}
