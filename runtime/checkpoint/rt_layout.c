/* SPDX-License-Identifier: MIT-0 */
/* rt_layout.c: where each parameter is in the files of a checkpoint. In: the tables of
 * the plan. Out: names, sizes and headers of the files, the same on every rank and for
 * every number of ranks.
 *
 * A file holds whole tensors in the model's order, without gaps, under Hugging Face's
 * names. A fused storage tensor is stored as its parts, which are adjacent in files as in
 * memory. Masters and moments are in optimizer/, where no loader of models looks, divided
 * into files like the weights. Headers are padded with blanks, so that tensors start on a
 * page. */
#include "checkpoint/rt_checkpoint.h"

#include <stdlib.h>
#include <string.h>

static const char *const set_names[RT_SETS] = {
    [RT_SET_WEIGHTS] = "model",
    [RT_SET_MASTER] = "optimizer/master",
    [RT_SET_MOMENT1] = "optimizer/moment1",
    [RT_SET_MOMENT2] = "optimizer/moment2",
};

const char *rt_layout_name(RtSet set)
{
    return set_names[set];
}

RtSet rt_layout_set_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    RtSet set = dot != NULL && strcmp(dot, ".safetensors") == 0 ? 0 : RT_SETS;
    while (set < RT_SETS && strncmp(name, set_names[set], strlen(set_names[set])) != 0)
        set++;
    return set;
}

const char *rt_dtype_safetensors(RtDtype d)
{
    return d == RT_F64 ? "F64" : d == RT_F32 ? "F32" : d == RT_BF16 ? "BF16" : "F16";
}

int64_t rt_layout_offset(const RtSegment *s, RtSet set)
{
    return set == RT_SET_WEIGHTS   ? s->param_shard
           : set == RT_SET_MASTER  ? s->master
           : set == RT_SET_MOMENT1 ? s->moment1
                                   : s->moment2;
}

/* Its dtype in the arena; a split master is a float in files. */
static RtDtype kept_dtype(const RtTrainer *t, const RtSegment *s, RtSet set)
{
    return set == RT_SET_WEIGHTS  ? s->dtype
           : set == RT_SET_MASTER ? t->master_dtype
                                  : t->moments_dtype;
}

RtDtype rt_layout_dtype(const RtTrainer *t, const RtSegment *s, RtSet set)
{
    const RtDtype d = kept_dtype(t, s, set);
    return d == RT_SPLIT ? RT_F32 : d;
}

static bool has_set(const RtTrainer *t, int param, RtSet set)
{
    const RtParam *p = &t->params[param];
    return rt_layout_offset(&t->segments[p->segment], set) >= 0 &&
           (set != RT_SET_MOMENT2 || p->n_matrices == 0);
}

/* ---- headers --------------------------------------------------------------------- */

static void write_entry(FILE *f, const char *name, RtDtype d, const RtParam *p,
                        int64_t rows, int64_t begin, int64_t bytes)
{
    fprintf(f, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%lld", name, rt_dtype_safetensors(d),
            (long long)rows);
    for (int i = 1; i < p->n_dims; i++)
        fprintf(f, ",%lld", (long long)p->dim[i]);
    fprintf(f, "],\"data_offsets\":[%lld,%lld]}", (long long)begin,
            (long long)(begin + bytes));
}

static void write_entries(FILE *f, const RtParam *p, RtDtype d, int64_t at)
{
    const int64_t item = (int64_t)rt_dtype_bytes(d), row = p->elems / p->dim[0];
    if (p->n_parts == 0)
        write_entry(f, p->name, d, p, p->dim[0], at, p->elems * item);
    for (int i = 0; i < p->n_parts; i++) {
        const int64_t bytes = p->parts[i].rows * row * item;
        write_entry(f, p->parts[i].name, d, p, p->parts[i].rows, at, bytes);
        at += bytes;
    }
}

/* The length of the header, the header, blanks; the tensors' bytes follow. */
static bool make_header(const RtCheckpoint *c, const RtTrainer *t, RtSet set, int index)
{
    RtFile *file = &c->files[index];
    RtText text;
    if (!rt_text_open(&text))
        return false;
    fprintf(text.f, "%8s{\"__metadata__\":{\"format\":\"pt\"}", "");
    file->bytes = 0;
    for (int i = 0; i < t->n_params; i++) {
        if (c->file_of[set][i] == index) {
            const RtParam *p = &t->params[i];
            const RtDtype d = rt_layout_dtype(t, &t->segments[p->segment], set);
            write_entries(text.f, p, d, c->bytes_at[set][i]);
            file->bytes += p->elems * (int64_t)rt_dtype_bytes(d);
        }
    }
    fputc('}', text.f);
    rt_text_flush(&text);
    for (size_t i = text.bytes; i % RT_HEADER_ALIGN_BYTES != 0; i++)
        fputc(' ', text.f);
    file->head = rt_text_end(&text);
    if (file->head == NULL)
        return false;
    file->head_bytes = (int64_t)text.bytes;
    file->bytes += file->head_bytes;
    for (int i = 0; i < 8; i++)
        file->head[i] = (char)((uint64_t)(text.bytes - 8) >> 8 * i);
    return true;
}

/* ---- files ----------------------------------------------------------------------- */

/* The files of a set: those of the weights whose parameters the set contains. */
static int place_set(RtCheckpoint *c, const RtTrainer *t, RtSet set, int first)
{
    int n = 0;
    for (int k = 0; k < t->n_files; k++) {
        int64_t bytes = 0;
        for (int i = 0; i < t->n_params; i++) {
            const RtParam *p = &t->params[i];
            const RtDtype d = rt_layout_dtype(t, &t->segments[p->segment], set);
            if (p->file == k && has_set(t, i, set)) {
                c->file_of[set][i] = first + n;
                c->bytes_at[set][i] = bytes;
                bytes += p->elems * (int64_t)rt_dtype_bytes(d);
            }
        }
        n += bytes > 0;
    }
    return n;
}

static bool make_set(RtCheckpoint *c, const RtTrainer *t, RtSet set, int first, int n)
{
    for (int i = 0; i < n; i++) {
        char *name = c->files[first + i].name;
        if (n == 1) {
            snprintf(name, RT_NAME_BYTES, "%s.safetensors", set_names[set]);
        } else {
            snprintf(name, RT_NAME_BYTES, "%s-%05d-of-%05d.safetensors", set_names[set],
                     i + 1, n);
        }
        RtFile *f = &c->files[first + i];
        if (!make_header(c, t, set, first + i))
            return false;
        f->chunks = calloc((size_t)rt_chunks_of(f) + 1, sizeof *f->chunks);
        if (f->chunks == NULL)
            return false;
    }
    return true;
}

bool rt_layout_fill(RtCheckpoint *c, const RtTrainer *t)
{
    const size_t params = (size_t)t->n_params;
    c->files = calloc((size_t)(t->n_files * RT_SETS + RT_MOST_CARRIED + RT_SMALL_FILES),
                      sizeof *c->files);
    for (RtSet set = 0; set < RT_SETS; set++) {
        c->file_of[set] = malloc(params * sizeof **c->file_of);
        c->bytes_at[set] = calloc(params, sizeof **c->bytes_at);
        if (c->files == NULL || c->file_of[set] == NULL || c->bytes_at[set] == NULL)
            return false;
        memset(c->file_of[set], -1, params * sizeof **c->file_of);
        const int n = place_set(c, t, set, c->n_files);
        if (!make_set(c, t, set, c->n_files, n))
            return false;
        c->n_files += n;
        c->set_files[set + 1] = c->n_files;
    }
    c->n_tensor_files = c->n_lasting_files = c->n_files;
    return true;
}

/* ---- the arena ------------------------------------------------------------------- */

/* Where this rank's part of the set starts in its space. */
static int64_t part_offset(const Rt *rt, const RtSegment *s, RtSet set)
{
    return set == RT_SET_WEIGHTS ? rt_param_part(rt, s) : rt_layout_offset(s, set);
}

/* The position of element `at` of this rank's shard in its buffer. */
static int64_t buffer_place(const Rt *rt, RtSet set, const RtSegment *s, int64_t at)
{
    return set == RT_SET_MOMENT2
               ? rt_second_moment(rt, (int)(s - rt->trainer->segments), at)
               : at;
}

int64_t rt_layout_held_elems(const Rt *rt, RtSet set, const RtSegment *s)
{
    return buffer_place(rt, set, s, s->shard_elems);
}

void rt_layout_take(const Rt *rt, RtSet set, const RtSegment *s, int64_t at, int64_t n,
                    void *out, void *spare)
{
    const RtTrainer *t = rt->trainer;
    const RtDtype d = kept_dtype(t, s, set);
    const int64_t item = (int64_t)rt_dtype_bytes(d), offset = part_offset(rt, s, set);
    if (set == RT_SET_WEIGHTS) {
        rt_arena_read(rt, RT_SPACE_SYMMETRIC, offset + at * item, out, n * item);
        return;
    }
    if (d != RT_SPLIT) {
        at = buffer_place(rt, set, s, at);
        rt_arena_read(rt, RT_SPACE_LOCAL, offset + at * item, out, n * item);
        return;
    }
    rt_bf16 *weights = spare;
    uint16_t *rest = weights + n;
    float *whole = out;
    rt_arena_read(rt, RT_SPACE_SYMMETRIC, rt_param_part(rt, s) + at * 2, weights, n * 2);
    rt_arena_read(rt, RT_SPACE_LOCAL, offset + at * 2, rest, n * 2);
    for (int64_t i = 0; i < n; i++)
        whole[i] = rt_f32_from_split(weights[i], rest[i]);
}

void rt_layout_put(Rt *rt, RtSet set, const RtSegment *s, int64_t at, int64_t n,
                   const void *from, void *spare)
{
    const RtTrainer *t = rt->trainer;
    const RtDtype d = kept_dtype(t, s, set);
    const int64_t item = (int64_t)rt_dtype_bytes(d);
    if (d == RT_SPLIT) {
        uint16_t *rest = spare;
        for (int64_t i = 0; i < n; i++)
            rest[i] = rt_split_rest(((const float *)from)[i]);
        from = rest;
    }
    at = buffer_place(rt, set, s, at);
    rt_arena_write(rt, set == RT_SET_WEIGHTS ? RT_SPACE_SYMMETRIC : RT_SPACE_LOCAL,
                   part_offset(rt, s, set) + at * item, from, n * item);
}
