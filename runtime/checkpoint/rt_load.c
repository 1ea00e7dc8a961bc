/* SPDX-License-Identifier: MIT-0 */
/* rt_load.c: one set of a checkpoint. In: its files. Out: in the arena this rank's part
 * of it, whatever mesh wrote it; and the train state.
 *
 * Files are verified and read in one pass, window by window: a rank hashes its chunks of
 * a window, then reads its slices of it from the page cache. So a set may be larger than
 * that cache, and the disk reads the next window meanwhile. If the set turns out to be
 * damaged at the end, the arena already contains it: the caller overwrites it or ends the
 * run. */
#include "checkpoint/rt_checkpoint.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW_CHUNKS = 16 }; /* per rank */

/* State of reading one set's tensors. */
typedef struct Reading {
    Rt *rt;
    RtSet set;
    RtTensors tensors;
    const RtSegment *segment;
    const RtTensor *tensor; /* a parameter, or rows of one: */
    int64_t first;          /* from this element of it on */
    int file;               /* bytes [from, to) are read */
    int64_t from, to;
    const RtTensor *alien; /* a master that does not match its weights */
} Reading;

static bool open_set(Reading *r, const char *folder, const RtManifest *m)
{
    char *error = r->rt->state->checkpoint->error;
    for (int i = m->set_files[r->set]; i < m->set_files[r->set + 1]; i++) {
        char path[RT_PATH_BYTES + RT_NAME_BYTES];
        snprintf(path, sizeof path, "%s/%s", folder, m->files[i].name);
        if (!rt_tensors_add(&r->tensors, path, error))
            return false;
    }
    return rt_tensors_sort(&r->tensors, error);
}

/* Checks that exactly the tensors that parameters need exist. */
static bool check_set(Reading *r)
{
    const RtTrainer *t = r->rt->trainer;
    RtCheckpoint *c = r->rt->state->checkpoint;
    int needed = 0;
    for (int i = 0; i < t->n_params; i++) {
        const RtParam *p = &t->params[i];
        const RtDtype dtype = rt_layout_dtype(t, &t->segments[p->segment], r->set);
        for (int k = 0; c->file_of[r->set][i] >= 0 && (k == 0 || k < p->n_parts); k++) {
            const char *name = p->n_parts > 0 ? p->parts[k].name : p->name;
            const int64_t rows = p->n_parts > 0 ? p->parts[k].rows : p->dim[0];
            const RtTensor *x = rt_tensors_find(&r->tensors, name);
            bool same = x != NULL && !x->other && x->dtype == dtype &&
                        x->n_dims == p->n_dims && x->dim[0] == rows;
            for (int d = 1; same && d < p->n_dims; d++)
                same = x->dim[d] == p->dim[d];
            needed++;
            if (!same) {
                snprintf(c->error, sizeof c->error, "%s: tensor %s %s",
                         rt_layout_name(r->set), name,
                         x == NULL ? "is missing" : "has another shape or dtype");
                return false;
            }
        }
    }
    if (needed != r->tensors.n_tensors) {
        snprintf(c->error, sizeof c->error, "%s: has %d tensors, not %d",
                 rt_layout_name(r->set), r->tensors.n_tensors, needed);
    }
    return needed == r->tensors.n_tensors;
}

/* Are the weights their rounded masters, as after an update? */
static bool is_rounded(RtDtype param, RtDtype master, const void *weights,
                       const void *masters, int64_t n)
{
    if (master != RT_F32 || (param != RT_BF16 && param != RT_F16))
        return true;
    const uint16_t *w = weights;
    const float *x = masters;
    bool same = true;
    for (int64_t i = 0; i < n; i++) {
        const uint16_t r =
            param == RT_BF16 ? rt_bf16_from_master(x[i]) : rt_f16_from_f32(x[i]);
        same = same && (r == w[i] || x[i] != x[i]);
    }
    return same;
}

/* Number of elements whose first byte is before `byte` in the file. */
static int64_t elems_before(const RtTensor *x, int64_t byte)
{
    const int64_t item = (int64_t)rt_dtype_bytes(x->dtype);
    return byte <= x->at ? 0 : (byte - x->at + item - 1) / item;
}

/* Reads elements [from, to) of one tensor, as far as the window has them; at: the place
 * of the first one in this rank's shard. */
static void read_slice(Reading *r, const RtTensor *x, int64_t from, int64_t to,
                       int64_t at)
{
    Rt *rt = r->rt;
    RtCheckpoint *c = rt->state->checkpoint;
    const struct RtTensorFile *f = &r->tensors.files[x->fd_index];
    const int64_t item = (int64_t)rt_dtype_bytes(x->dtype);
    const int64_t first = elems_before(x, r->from), end = elems_before(x, r->to);
    const int64_t begin = first > from ? first : from, stop = end < to ? end : to;
    if (x->fd_index != r->file)
        return;
    for (int64_t i = begin; i < stop && c->error[0] == '\0'; i += RT_STAGE_ELEMS) {
        const int64_t some = stop - i < RT_STAGE_ELEMS ? stop - i : RT_STAGE_ELEMS;
        const int64_t place = at + i - from;
        rt_enter(rt, RT_AT_LOAD);
        if (!rt_file_read(f->fd, f->path, c->stage, some * item, x->at + i * item,
                          c->error))
            return;
        if (r->set == RT_SET_MASTER) {
            rt_layout_take(rt, RT_SET_WEIGHTS, r->segment, place, some, c->chunk, NULL);
            if (!is_rounded(r->segment->dtype, x->dtype, c->chunk, c->stage, some))
                r->alien = x;
        }
        rt_layout_put(rt, r->set, r->segment, place, some, c->stage, c->convert);
    }
}

static void read_run(void *ctx, const RtRun *run)
{
    Reading *r = ctx;
    const int64_t from = run->element - r->first;
    read_slice(r, r->tensor, from, from + run->elems, run->shard_offset_elems);
}

static void read_param(Reading *r, int id)
{
    const RtParam *p = &r->rt->trainer->params[id];
    int64_t row = 0;
    if (r->rt->state->checkpoint->file_of[r->set][id] < 0)
        return; /* matrices have no such moment */
    for (int k = 0; k == 0 || k < p->n_parts; k++) {
        const int64_t rows = p->n_parts > 0 ? p->parts[k].rows : p->dim[0];
        const RtBox box = rt_box_rows(p, row, rows);
        r->tensor =
            rt_tensors_find(&r->tensors, p->n_parts > 0 ? p->parts[k].name : p->name);
        r->first = row * (p->elems / p->dim[0]);
        rt_held_runs(r->rt, id, &box, read_run, r);
        row += rows;
    }
}

static void read_window(Reading *r, int file, int64_t from, int64_t to)
{
    const RtTrainer *t = r->rt->trainer;
    r->file = file;
    r->from = from;
    r->to = to;
    for (int i = 0; i < t->n_segments; i++) {
        r->segment = &t->segments[i];
        if (rt_layout_offset(r->segment, r->set) < 0)
            continue;
        for (int k = 0; k < r->segment->n_params; k++)
            read_param(r, t->segment_params[r->segment->first_param + k]);
    }
}

bool rt_set_fits(Rt *rt, RtSet set, const char *folder, const RtManifest *m, bool *fits)
{
    Reading r = {.rt = rt, .set = set};
    const bool readable = open_set(&r, folder, m);
    *fits = readable && check_set(&r);
    if (readable)
        rt->state->checkpoint->error[0] = '\0';
    rt_tensors_close(&r.tensors);
    return rt_first_error(rt) < 0;
}

bool rt_load_set(Rt *rt, RtSet set, const char *folder, RtManifest *m)
{
    char *error = rt->state->checkpoint->error, why[RT_ERROR_BYTES];
    const int first = m->set_files[set], n = m->set_files[set + 1] - first;
    const int64_t window = (int64_t)WINDOW_CHUNKS * RT_CHUNK_BYTES * rt->world_size;
    Reading r = {.rt = rt, .set = set};
    const bool ok = open_set(&r, folder, m) && check_set(&r);
    memcpy(why, error, sizeof why);
    error[0] = '\0';
    for (int i = 0; i < n && ok; i++) {
        for (int64_t at = 0; at < m->files[first + i].bytes; at += window) {
            rt_chunks_until(rt, &m->chunks, first + i, at + window);
            read_window(&r, i, at, at + window);
        }
    }
    rt_chunks_until(rt, &m->chunks, first + n, 0);
    const bool intact = rt_manifest_agree(rt, m, first, first + n);
    if (intact && !ok) {
        memcpy(error, why, sizeof why); /* this is not damage */
    } else if (intact && r.alien != NULL) {
        snprintf(error, RT_ERROR_BYTES,
                 "weights and masters of %s do not belong together", r.alien->name);
    }
    rt_tensors_close(&r.tensors);
    return rt_first_error(rt) < 0;
}

/* ---- small files ----------------------------------------------------------------- */

char *rt_load_small(Rt *rt, const char *folder, const char *name, int64_t *bytes)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return rt_file_load(path, 1 << 28, bytes, rt->state->checkpoint->error);
}

bool rt_load_state(Rt *rt, const char *folder, int64_t step, RtManifest *m,
                   RtTrainState *s)
{
    RtCheckpoint *c = rt->state->checkpoint;
    const int n_small = m->set_files[0];
    int64_t bytes = 0;
    rt_chunks_until(rt, &m->chunks, n_small, 0);
    if (!rt_manifest_agree(rt, m, 0, n_small))
        return false;
    char *text = rt_load_small(rt, folder, "train_state.json", &bytes);
    if (text != NULL && (!rt_state_read(s, text, bytes) || s->step != step))
        snprintf(c->error, sizeof c->error, "train_state.json cannot be read");
    free(text);
    return rt_first_error(rt) < 0;
}
