/* SPDX-License-Identifier: MIT-0 */
/* rt_matrix.c: matrices that an optimizer treats whole, on their way to the ranks that
 * own them and back.
 *
 * In: tables of matrices and batches, directions in the ranks' shards. Out: in the same
 * place, what the matrix kernel made of each whole matrix; counted bytes.
 *
 * The owner reads a matrix from the ranks of its own copy of the model, which hold it all
 * among them; then every rank, of all copies, reads its part of the result from the
 * owner. So the work is divided among all ranks, also where each of them holds
 * everything: what that costs is a part of what a sum over copies costs, and what it
 * saves is the time of the longest products of the step. A matrix is computed by one rank
 * on fixed tiles: bits know neither mesh nor owners. */
#include "cpu/rt_cpu.h"
#include "state/rt_matrix.h"

#include <string.h>

static void copy(char *to, const char *from, int64_t bytes)
{
    enum { PIECE = 256 * 1024 };
    if (bytes <= PIECE) { /* a team of one would cost an allocation */
        memcpy(to, from, (size_t)bytes);
        return;
    }
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < bytes; at += PIECE)
        memcpy(to + at, from + at, (size_t)(bytes - at < PIECE ? bytes - at : PIECE));
}

void rt_pull_to_owners(Rt *rt, int batch)
{
    const RtTrainer *t = rt->trainer;
    const RtBatch *b = &t->batches[batch];
    for (int i = 0; i < b->n_matrices; i++) {
        const RtPlace p = rt_place_of(t, b, i);
        const RtGroup mates = p.segment->within;
        if (p.matrix->owner != rt->rank)
            continue;
        for (int k = 0; k < rt_group_ranks(mates); k++) {
            const int peer = rt_group_rank(mates, rt->rank, k);
            int64_t from, to;
            if (rt_part_of(&p, k, &from, &to)) {
                const int64_t bytes = (to - from) * rt_sum_bytes(t);
                copy(rt_symmetric(rt, rt_owned_at(t, b, &p, from)),
                     rt->peer[peer] + rt_held_at(t, &p, k, from), bytes);
                rt_count_bytes(rt, peer, bytes, &rt->state->matrix_bytes);
            }
        }
    }
}

void rt_pull_from_owners(Rt *rt, int batch)
{
    const RtTrainer *t = rt->trainer;
    const RtBatch *b = &t->batches[batch];
    for (int i = 0; i < b->n_matrices; i++) {
        const RtPlace p = rt_place_of(t, b, i);
        const int64_t k = rt_group_index(p.segment->within, rt->rank);
        int64_t from, to;
        if (rt_part_of(&p, k, &from, &to)) {
            const int64_t bytes = (to - from) * rt_sum_bytes(t);
            copy(rt_symmetric(rt, rt_held_at(t, &p, k, from)),
                 rt->peer[p.matrix->owner] + rt_owned_at(t, b, &p, from), bytes);
            rt_count_bytes(rt, p.matrix->owner, bytes, &rt->state->matrix_bytes);
        }
    }
}

/* What a batch of matrices waits for is told as that of its first segment. */
static int first_segment(const RtTrainer *t, int batch)
{
    return t->params[t->matrices[t->batches[batch].first_matrix].param].segment;
}

void rt_to_owners_start(Rt *rt, int batch)
{
    const int segment = first_segment(rt->trainer, batch);
    rt_comm_start(rt, RT_GATHER,
                  (RtOp){.kind = RT_OP_TO_OWNERS,
                         .group = rt->trainer->segments[segment].within,
                         .from = batch,
                         .segment = segment});
}

void rt_from_owners_start(Rt *rt, int batch)
{
    rt_comm_start(rt, RT_REDUCE,
                  (RtOp){.kind = RT_OP_FROM_OWNERS,
                         .group = (RtGroup)rt->world_size - 1,
                         .from = batch,
                         .segment = first_segment(rt->trainer, batch)});
}

/* From where the matrix lies whole: at its owner, who has gathered it, or, where each
 * rank holds all of its segment, among the directions. */
void rt_compute_matrices(Rt *rt, int batch)
{
    const RtTrainer *t = rt->trainer;
    const RtBatch *b = &t->batches[batch];
    for (int i = 0; i < b->n_matrices && !rt->state->skip; i++) {
        const RtPlace p = rt_place_of(t, b, i);
        char *direction = rt_symmetric(rt, rt_held_at(t, &p, 0, 0));
        char *owned = rt_symmetric(rt, rt_owned_at(t, b, &p, 0));
        if (p.matrix->owner == rt->rank) {
            p.matrix->kernel(p.segment->shards > 1 ? owned : direction,
                             rt->world_size > 1 ? owned : direction,
                             rt_local(rt, b->workspace));
        }
    }
}
