/* SPDX-License-Identifier: Apache-2.0 */
/* bound.c: bytes that no placement can go below. In: instructions and buffers (unroll).
 * Out: a rank's bytes, at least. Breaks: nothing.
 *
 * Instructions of the compute stream run one after another, so buffers that it touches
 * both before and after one of them are live there together. Transfers are left out: when
 * they run is not known before the schedule. */
#include "plan/plan.h"

#include <string.h>

typedef struct Lives {
    int *first,
        *last; /* [buffer][variant]: its first and last touch by the stream, or -1 */
    int64_t *change; /* by instruction: bytes that begin or end to live there */
} Lives;

static void collect(const Program *p, Lives *l, size_t n)
{
    memset(l->first, -1, sizeof(int) * n);
    for (int id = 0; id < p->ins.count; id++) {
        const Instr *i = &p->ins.items[id];

        for (int a = 0; i->stream == STREAM_COMPUTE && a < i->n_access; a++) {
            const size_t k =
                (size_t)i->access[a].buffer * N_VARIANTS + (size_t)i->variant;

            l->first[k] = l->first[k] < 0 ? id : l->first[k];
            l->last[k] = id;
        }
    }
}

static int64_t least_of_space(const Program *p, const Lives *l, Space space)
{
    int64_t kept = 0, live = 0, most = 0;

    memset(l->change, 0, sizeof *l->change * (size_t)(p->ins.count + 2));
    for (int b = 0; b < p->bufs.count; b++) {
        const Buffer *buf = &p->bufs.items[b];
        const int64_t bytes = round_up(buf->bytes, ARENA_ALIGN_BYTES);

        if (buf->space != space)
            continue;
        kept += buf->persistent ? bytes : 0;
        for (int v = 0; !buf->persistent && v < N_VARIANTS; v++) {
            const size_t k = (size_t)b * N_VARIANTS + (size_t)v;

            if (l->first[k] < 0)
                continue;
            l->change[l->first[k]] += bytes;
            l->change[l->last[k] + 1] -= bytes;
        }
    }
    for (int id = 0; id < p->ins.count; id++) {
        live += l->change[id];
        most = max_i64(most, live);
    }
    return kept + most;
}

int64_t plan_least_bytes(Gen *g)
{
    const Program *p = &g->prog;
    const size_t n = (size_t)p->bufs.count * N_VARIANTS + 1;
    Lives l = {gen_alloc(g, sizeof(int) * n), gen_alloc(g, sizeof(int) * n),
               gen_alloc(g, sizeof(int64_t) * (size_t)(p->ins.count + 2))};
    int64_t bytes = g->model.library_bytes;

    collect(p, &l, n);
    for (int space = 0; space < N_SPACES; space++)
        bytes += least_of_space(p, &l, (Space)space);
    return bytes;
}
