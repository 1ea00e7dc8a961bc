/* SPDX-License-Identifier: Apache-2.0 */
/* collective_test.c: collectives of a buffer that belongs to no segment, as an activation
 * would be sent. The ranks of worlds of 4 and 8 are threads that share their symmetric
 * spaces; groups are all masks of a rank's bits, in every dtype and order of sums, with
 * and without two hops. What a gather and an exchange bring is compared with what the
 * ranks held, sums with a plain tree, or a plain loop, of their own numbers, bit for bit.
 */
#include "job/rt_job.h"
#include "rt_target.h"
#include "state/rt_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_RANKS = 8,
    PART = 1501, /* elements: a block of sums and a rest */
    BUFFER_BYTES = MOST_RANKS * PART * 8 + 64,
    BUFFER = 192, /* in the symmetric space */
    RESULT = BUFFER + BUFFER_BYTES,
    MIRRORED = RESULT + BUFFER_BYTES,
    SYMMETRIC_BYTES = MIRRORED + BUFFER_BYTES
};

/* One world, one group. */
typedef struct Case {
    RtTrainer trainer;
    RtHops hops;
    RtGroup group;
    RtDtype dtype;
    RtOrder order;
    RtShared *shared;
    RtState state[MOST_RANKS];
    Rt rt[MOST_RANKS];
} Case;

static const char *const values[] = {"hidden"};

/* ---- numbers --------------------------------------------------------------------- */

static double rounded(RtDtype d, double x)
{
    return d == RT_F64   ? x
           : d == RT_F32 ? (float)x
                         : rt_f32_from_bf16(rt_bf16_from_f32((float)x));
}

/* Of a rank in a round of its own: of many sizes and with bits down to the last, so that
 * the order of a sum shows, in f64 too. */
static double number(RtDtype d, int rank, int round, int64_t i)
{
    uint32_t x = (uint32_t)(rank * 7919 + round * 104729 + i) * 2654435761u;
    x = (x ^ x >> 15) * 1664525u + 1013904223u;
    return rounded(d, ((double)(int32_t)x / 2147483648.0 + (x * 2246822519u) * 0x1p-61) *
                          (1 << (x >> 8) % 13));
}

static double get(RtDtype d, const void *at, int64_t i)
{
    return d == RT_F64   ? ((const double *)at)[i]
           : d == RT_F32 ? ((const float *)at)[i]
                         : rt_f32_from_bf16(((const rt_bf16 *)at)[i]);
}

static void fill(const Case *c, Rt *rt, int round)
{
    void *at = rt_symmetric(rt, BUFFER);
    for (int64_t i = 0; i < rt_group_ranks(c->group) * PART; i++) {
        const double x = number(c->dtype, rt->rank, round, i);
        if (c->dtype == RT_F64)
            ((double *)at)[i] = x;
        else if (c->dtype == RT_F32)
            ((float *)at)[i] = (float)x;
        else
            ((rt_bf16 *)at)[i] = rt_bf16_from_f32((float)x);
    }
}

/* The sum of numbers first .. first + n - 1 of the rank's group: the halves' sums, each
 * rounded. */
static double tree(const Case *c, int rank, int round, int64_t i, int first, int n)
{
    if (n == 1)
        return number(c->dtype, rt_group_rank(c->group, rank, first), round, i);
    return rounded(c->dtype, tree(c, rank, round, i, first, n / 2) +
                                 tree(c, rank, round, i, first + n / 2, n / 2));
}

/* What the sum of element i should be. */
static double summed(const Case *c, int rank, int round, int64_t i)
{
    const int n = rt_group_ranks(c->group);
    const RtDtype wide = c->dtype == RT_BF16 ? RT_F32 : c->dtype;
    double sum = 0;
    if (c->order == RT_ORDER_TREE)
        return tree(c, rank, round, i, 0, n);
    for (int k = 0; k < n; k++) {
        const double x = number(c->dtype, rt_group_rank(c->group, rank, k), round, i);
        sum = k == 0 ? x : rounded(wide, sum + x);
    }
    return rounded(c->dtype, sum);
}

/* ---- a rank ---------------------------------------------------------------------- */

/* Every rank's part goes to its counterpart at the other end of the group. */
static void mirror(const Rt *rt, const RtOp *op, RtTransferFn *fn, void *ctx)
{
    const int last = rt_group_ranks(op->group) - 1;
    for (int rank = 0; rank < rt->world_size; rank++) {
        const int k = rt_group_index(op->group, rank);
        const RtTransfer x = {rank, rt_group_rank(op->group, rank, last - k), BUFFER,
                              MIRRORED, PART};
        fn(ctx, &x);
    }
}

static void *rank_main(void *arg)
{
    Rt *rt = arg;
    const Case *c = (const Case *)rt->trainer; /* its first member */
    const int hidden = rt_subject_value(rt->trainer, 0);
    RtOp op = {.group = c->group,
               .dtype = c->dtype,
               .elems = PART,
               .from = BUFFER,
               .order = c->order,
               .subject = hidden};
    omp_set_num_threads(1);
    rt_comm_begin(rt);
    fill(c, rt, 0);
    op.kind = RT_OP_GATHER;
    op.to = rt->local;
    rt_collective_start(rt, RT_GATHER, op);
    op.kind = RT_OP_EXCHANGE;
    op.transfers = mirror;
    rt_collective_start(rt, RT_GATHER, op);
    rt_collective_wait(rt, RT_GATHER, hidden); /* the last; all have read for it */
    op.kind = RT_OP_REDUCE_SCATTER;
    op.to = rt_symmetric(rt, RESULT);
    rt_collective_start(rt, RT_REDUCE, op);
    rt_collective_wait(rt, RT_REDUCE, hidden);
    fill(c, rt, 1);
    op.kind = RT_OP_ALL_REDUCE;
    op.to = rt_symmetric(rt, BUFFER);
    op.elems = rt_group_ranks(c->group) * PART;
    rt_collective_start(rt, RT_REDUCE, op);
    rt_collective_wait(rt, RT_REDUCE, hidden);
    rt_comm_end(rt);
    return NULL;
}

/* ---- cases ----------------------------------------------------------------------- */

static void check_rank(const Case *c, const Rt *rt)
{
    const RtDtype d = c->dtype;
    const int ranks = rt_group_ranks(c->group), mine = rt_group_index(c->group, rt->rank);
    const int other = rt_group_rank(c->group, rt->rank, ranks - 1 - mine);
    for (int64_t i = 0; i < ranks * PART; i++) {
        const int from = rt_group_rank(c->group, rt->rank, (int)(i / PART));
        assert_true(get(d, rt->local, i) == number(d, from, 0, i % PART));
        assert_true(get(d, rt->symmetric + BUFFER, i) == summed(c, rt->rank, 1, i));
    }
    for (int64_t i = 0; i < PART; i++) {
        assert_true(get(d, rt->symmetric + MIRRORED, i) == number(d, other, 0, i));
        assert_true(get(d, rt->symmetric + RESULT, i) ==
                    summed(c, rt->rank, 0, mine * PART + i));
    }
}

static void run_case(int world, RtGroup group, RtDtype d, RtOrder order, RtGroup near)
{
    Case *c = calloc(1, sizeof *c);
    pthread_t thread[MOST_RANKS];
    *c = (Case){.trainer = {.world_size = world,
                            .all = (RtGroup)world - 1,
                            .n_segments = 3, /* of which nothing is read */
                            .n_values = 1,
                            .values = values,
                            .n_hops = near != 0,
                            .hops = &c->hops},
                .hops = {group, near, group & ~near},
                .group = group,
                .dtype = d,
                .order = order,
                .shared = aligned_alloc(128, sizeof(RtShared))};
    memset(c->shared, 0, sizeof *c->shared);
    for (int r = 0; r < world; r++) {
        c->state[r].shared = c->shared;
        c->rt[r] = (Rt){.rank = r,
                        .world_size = world,
                        .threads = 1,
                        .trainer = &c->trainer,
                        .state = &c->state[r],
                        .symmetric = calloc(1, SYMMETRIC_BYTES),
                        .local = calloc(1, BUFFER_BYTES)};
    }
    for (int r = 0; r < world; r++)
        for (int k = 0; k < world; k++)
            c->rt[r].peer[k] = c->rt[k].symmetric;
    for (int r = 0; r < world; r++)
        assert_int_equal(pthread_create(&thread[r], NULL, rank_main, &c->rt[r]), 0);
    for (int r = 0; r < world; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < world; r++) {
        check_rank(c, &c->rt[r]);
        free(c->rt[r].symmetric);
        free(c->rt[r].local);
    }
    free(c->shared);
    free(c);
}

static void any_group(void **state)
{
    const RtDtype dtypes[] = {RT_F32, RT_F64, RT_BF16};
    (void)state;
    for (int world = 4; world <= MOST_RANKS; world *= 2)
        for (RtGroup group = 0; group < (RtGroup)world; group++)
            for (int k = 0; k < 3; k++) {
                run_case(world, group, dtypes[k], RT_ORDER_TREE, 0);
                run_case(world, group, dtypes[k], RT_ORDER_LIBRARY, 0);
            }
}

/* Nodes of two and of four ranks. */
static void two_hops(void **state)
{
    (void)state;
    for (RtGroup group = 0; group < MOST_RANKS; group++)
        for (RtGroup node = 1; node <= 3; node += 2) {
            const RtGroup near = group & node;
            if (near == 0 || near == group)
                continue;
            run_case(MOST_RANKS, group, RT_BF16, RT_ORDER_TREE, near);
            run_case(MOST_RANKS, group, RT_F32, RT_ORDER_TREE, near);
            run_case(MOST_RANKS, group, RT_F32, RT_ORDER_LIBRARY, near);
        }
}

static void subjects_have_names(void **state)
{
    const RtSegment segments[] = {{.name = "layers.0"}, {.name = "layers.1"}};
    const RtParam params[] = {{.name = "w", .segment = 1}};
    const RtMatrix matrices[] = {{.param = 0}};
    const RtBatch batches[] = {{.first_matrix = 0, .n_matrices = 1}};
    const RtTrainer t = {.n_segments = 2,
                         .segments = segments,
                         .params = params,
                         .matrices = matrices,
                         .n_batches = 1,
                         .batches = batches,
                         .n_values = 1,
                         .values = values};
    (void)state;
    assert_int_equal(rt_subjects(&t), 4);
    assert_string_equal(rt_subject_name(&t, 0), "layers.0");
    assert_string_equal(rt_subject_name(&t, rt_subject_batch(&t, 0)), "layers.1");
    assert_string_equal(rt_subject_name(&t, rt_subject_value(&t, 0)), "hidden");
    assert_null(rt_subject_name(&t, 4));
    assert_null(rt_subject_name(&t, -1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_group),
                                       cmocka_unit_test(two_hops),
                                       cmocka_unit_test(subjects_have_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
