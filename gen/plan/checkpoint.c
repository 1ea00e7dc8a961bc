/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c: the layout of a checkpoint's files: which parameter is where.
 *
 * In: checkpoint.file_size (check), the parameters (graph). Out: Param.file, file_elems;
 * Model.n_files. Breaks: nothing.
 *
 * The layout depends only on the model: whole parameters in the model's order, with a new
 * file whenever the next one would exceed file_size. So files are equal byte for byte
 * whatever the ranks, strategy and wrap. */
#include "plan/plan.h"

/* ---- files ----------------------------------------------------------------------- */

static void place_params(Gen *g)
{
    Model *m = &g->model;
    int64_t bytes = 0, elems = 0; /* in the current file so far */

    m->n_files = 1;
    for (int i = 0; i < g->params.count; i++) {
        Param *p = &g->params.items[i];
        const int64_t more = p->elems * dtype_bytes(p->decl->dtype);

        if (bytes > 0 && bytes + more > m->file_bytes) {
            m->n_files++;
            bytes = elems = 0;
        }
        p->file = m->n_files - 1;
        p->file_elems = elems;
        elems += p->elems;
        bytes += more;
    }
}

/* Checks that parameters follow each other without gaps, and that no file exceeds the
 * limit unless it holds a single tensor. */
const char *verify_checkpoint(Gen *g)
{
    const Model *m = &g->model;
    int64_t bytes = 0, elems = 0;
    int file = 0;

    for (int i = 0; i < g->params.count; i++) {
        const Param *p = &g->params.items[i];

        if (p->file == file + 1 && elems > 0) {
            file++;
            bytes = elems = 0;
        }
        if (p->file != file || p->file_elems != elems)
            return gen_printf(g, "parameter %s: file %d at %lld, not %d at %lld", p->name,
                              p->file, (long long)p->file_elems, file, (long long)elems);
        elems += p->elems;
        bytes += p->elems * dtype_bytes(p->decl->dtype);
        if (bytes > m->file_bytes && elems > p->elems)
            return gen_printf(g, "file %d is larger than checkpoint.file_size", file);
    }
    if (file != m->n_files - 1)
        return gen_printf(g, "%d files, not %d", file + 1, m->n_files);
    return NULL;
}

/* ---- the copy of what a rank writes ---------------------------------------------- */

/* Bytes in files per element of the segment; matrices have no second moment. */
static void file_bytes(const Gen *g, const Segment *s, int64_t *item, int64_t *moment2)
{
    const Model *m = &g->model;
    bool split = m->master_dtype == DT_SPLIT;

    *item = dtype_bytes(s->dtype);
    *moment2 = 0;
    for (int i = 0; i < g->prog.bufs.count; i++) {
        const Buffer *b = &g->prog.bufs.items[i];

        if (b->segment != s->id)
            continue;
        if (b->kind == BUF_MASTER)
            *item += dtype_bytes(split ? DT_F32 : m->master_dtype);
        if (b->kind == BUF_MOMENT1)
            *item += dtype_bytes(m->moments_dtype);
        if (b->kind == BUF_MOMENT2)
            *moment2 = dtype_bytes(m->moments_dtype);
    }
}

/* Bytes of a stretch of a segment, on the ranks with this number along its axes. */
static int64_t range_bytes(const Gen *g, const Segment *s, int along, Stretch at,
                           int64_t item, int64_t moment2)
{
    int64_t bytes = 0;

    for (int i = 0; i < s->n_params; i++) {
        const Param *p = &g->params.items[s->params[i]];

        bytes += layout_between(g, p, along, at.lo, at.hi) *
                 (item + (p->matrix ? 0 : moment2));
    }
    return bytes;
}

/* Bytes of the host copy on the rank that writes most. A rank writes its shard, or its
 * share in grains where several ranks hold the same; the copy has no pads. */
int64_t checkpoint_snapshot_bytes(Gen *g)
{
    int world = g->model.mesh.world_size;
    int64_t *bytes = gen_alloc(g, (size_t)world * sizeof *bytes), most = 0;

    for (int i = 0; i < g->segments.count; i++) {
        const Segment *s = &g->segments.items[i];
        int64_t item, moment2;

        file_bytes(g, s, &item, &moment2);
        for (int r = 0; r < world; r++) {
            bytes[r] += range_bytes(g, s, layout_of(s, r).along, layout_share(g, s, r),
                                    item, moment2);
        }
    }
    for (int r = 0; r < world; r++)
        most = max_i64(most, bytes[r]);
    return most;
}

/* ---- the pass -------------------------------------------------------------------- */

void checkpoint_layout(Gen *g)
{
    place_params(g);
}

void checkpoint_dump(Gen *g, Text *t)
{
    for (int i = 0; i < g->params.count; i++) {
        const Param *p = &g->params.items[i];

        if (p->file_elems == 0)
            text_printf(t, "file %d of %d\n", p->file + 1, g->model.n_files);
        text_printf(t, "  %14lld %12lld %s", (long long)p->file_elems,
                    (long long)p->elems, p->name);
        for (int k = 0; k < p->decl->n_parts; k++)
            text_printf(t, "%s %s", k ? "," : ":", p->decl->part_name[k]);
        text_printf(t, "\n");
    }
    text_printf(t, "config.json\n%s",
                g->model.config_json ? g->model.config_json : "none\n");
}
