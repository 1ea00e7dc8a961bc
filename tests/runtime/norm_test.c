/* SPDX-License-Identifier: Apache-2.0 */
/* norm_test.c: the superaccumulator against exact sums, Philox against its published
 * vectors, initial weights' moments, the learning rate at its corners, tree sums against
 * a naive tree. Includes the files it tests to reach their statics. */
#include "../../runtime/cpu/rt_norm.c"
#include "../../runtime/state/rt_map.c"
#include "../../runtime/state/rt_schedule.c"
#include "../../runtime/state/rt_update.c"

#include "../../runtime/rt_philox.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static uint64_t seed = 7;
static double random_unit(void)
{
    const RtWords r = rt_philox(seed++, 99, 0, 0);
    return ((double)(r.w[0] >> 5) * 67108864.0 + (double)(r.w[1] >> 6)) /
           9007199254740992.0;
}

static double sum_of(const double *x, int n)
{
    uint64_t acc[RT_SUPERACC_WORDS] = {0};
    for (int i = 0; i < n; i++)
        rt_superacc_add(acc, x[i]);
    return rt_superacc_round(acc);
}

static void superacc_is_exact(void **state)
{
    (void)state;
    const double cases[][4] = {
        {0x1p53, 1, 0, 0x1p53},             /* tie to even */
        {0x1p53, 1, 0x1p-1000, 0x1p53 + 2}, /* just above the tie */
        {0x1p53 + 2, 1, 0, 0x1p53 + 4},     /* tie to even, upwards */
        {0x1p1000, 0x1p-1000, 0, 0x1p1000},
        {0x1p-1074, 0x1p-1074, 0, 0x1p-1073}, /* subnormals */
        {0x1p-1022, 0x1p-1074, 0x1p-1074, 0x1p-1022 + 0x1p-1073},
        {0x1.fffffffffffffp+1022, 0x1p969, 0, 0x1p1023},
        {0.1, 0.2, 0.3, 0.6},
        {0, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(sum_of(cases[i], 3) == cases[i][3]);
}

static void superacc_order_is_free(void **state)
{
    (void)state;
    enum { N = 4000 };
    static double x[N];
    long double reference = 0;
    for (int i = 0; i < N; i++) {
        x[i] = ldexp(random_unit(), (int)(random_unit() * 20));
        reference += x[i];
    }
    const double first = sum_of(x, N);
    assert_true(fabs(first - (double)reference) <= 1e-15 * first);
    for (int round = 0; round < 20; round++) {
        for (int i = N - 1; i > 0; i--) {
            const int j = (int)(random_unit() * (i + 1));
            const double t = x[i];
            x[i] = x[j];
            x[j] = t;
        }
        assert_true(sum_of(x, N) == first);
    }
}

static void superacc_sees_non_finite(void **state)
{
    (void)state;
    const double bad[2][2] = {{1, NAN}, {INFINITY, 1}};
    assert_true(isnan(sum_of(bad[0], 2)) && isnan(sum_of(bad[1], 2)));
}

static void philox_vectors(void **state)
{
    (void)state;
    const RtWords zero = rt_philox(0, 0, 0, 0);
    const uint32_t want0[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    assert_memory_equal(zero.w, want0, sizeof want0);
    const RtWords pi =
        rt_philox(0x03707344a4093822, 0x299f31d0, 0x85a308d3243f6a88, 0x13198a2e);
    const uint32_t want1[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    assert_memory_equal(pi.w, want1, sizeof want1);
}

static void normal_moments(void **state)
{
    (void)state;
    enum { N = 200000 };
    double sum = 0, squares = 0, fourth = 0, top = 0;
    for (int i = 0; i < N; i++) {
        const double x =
            rt_normal(rt_philox(1, RT_SITE_INIT, (uint64_t)i, 5), RT_NORMAL_SCALE);
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
        top = fabs(x) > top ? fabs(x) : top;
    }
    assert_true(fabs(sum / N) < 0.01);
    assert_true(fabs(squares / N - 1) < 0.01);
    assert_true(fabs(fourth / N - 2.85) < 0.1); /* 3 - 1.2 / 8 */
    assert_true(top > 3.5 && top < 4.9);
}

/* Steps around the corners of each schedule, against closed forms. */
static void learning_rate_corners(void **state)
{
    (void)state;
    const struct {
        RtSchedule s;
        int64_t step;
        double ratio;
    } at[] = {
        /* W = 4: step 0 has 1/4, step 3 all of it */
        {{rt_lr_constant, 4, 0, 0, 0}, 0, 1.0 / 4},
        {{rt_lr_constant, 4, 0, 0, 0}, 3, 1.0},
        {{rt_lr_constant, 4, 0, 0, 0}, 4, 1.0},
        {{rt_lr_constant, 4, 0, 0, 0}, 1 << 30, 1.0},
        {{rt_lr_constant, 0, 0, 0, 0}, 0, 1.0},
        {{rt_lr_inverse_sqrt, 4, 0, 0, 0}, 2, 3.0 / 4},
        {{rt_lr_inverse_sqrt, 4, 0, 0, 0}, 3, 1.0},
        {{rt_lr_inverse_sqrt, 4, 0, 0, 0}, 4, sqrt(4.0 / 5)},
        {{rt_lr_inverse_sqrt, 4, 0, 0, 0}, 15, 1.0 / 2},
        {{rt_lr_inverse_sqrt, 4, 0, 0, 0}, 399, 1.0 / 10},
        {{rt_lr_inverse_sqrt, 0, 0, 0, 0}, 0, 1.0},
        {{rt_lr_inverse_sqrt, 0, 0, 0, 0}, 3, 1.0 / 2},
        /* W = 4, S = 104, r = 0.1 */
        {{rt_lr_cosine, 4, 104, 0, 0.1}, 0, 1.0 / 4},
        {{rt_lr_cosine, 4, 104, 0, 0.1}, 3, 1.0},
        {{rt_lr_cosine, 4, 104, 0, 0.1}, 4, 1.0},
        {{rt_lr_cosine, 4, 104, 0, 0.1}, 54, 0.55},
        {{rt_lr_cosine, 4, 104, 0, 0.1}, 103, 0.55 + 0.45 * cos(M_PI * 0.99)},
        {{rt_lr_cosine, 4, 104, 0, 0.1}, 104, 0.1},
        {{rt_lr_cosine, 4, 104, 0, 0.1}, 9999, 0.1},
        {{rt_lr_linear, 4, 104, 0, 0.1}, 2, 3.0 / 4},
        {{rt_lr_linear, 4, 104, 0, 0.1}, 3, 1.0},
        {{rt_lr_linear, 4, 104, 0, 0.1}, 4, 1.0},
        {{rt_lr_linear, 4, 104, 0, 0.1}, 5, 1.0 - 0.009},
        {{rt_lr_linear, 4, 104, 0, 0.1}, 103, 0.1 + 0.009},
        {{rt_lr_linear, 4, 104, 0, 0.1}, 104, 0.1},
        {{rt_lr_linear, 4, 104, 0, 0.1}, 9999, 0.1},
        /* the decay's 20 steps begin at S - 20 = 84 */
        {{rt_lr_wsd, 4, 104, 20, 0.1}, 3, 1.0},
        {{rt_lr_wsd, 4, 104, 20, 0.1}, 4, 1.0},
        {{rt_lr_wsd, 4, 104, 20, 0.1}, 83, 1.0},
        {{rt_lr_wsd, 4, 104, 20, 0.1}, 84, 1.0},
        {{rt_lr_wsd, 4, 104, 20, 0.1}, 85, 1.0 - 0.9 / 20},
        {{rt_lr_wsd, 4, 104, 20, 0.1}, 94, 0.55},
        {{rt_lr_wsd, 4, 104, 20, 0.1}, 103, 0.1 + 0.9 / 20},
        {{rt_lr_wsd, 4, 104, 20, 0.1}, 104, 0.1},
        {{rt_lr_wsd, 4, 104, 100, 0}, 4, 1.0}, /* nothing stays: as linear */
        {{rt_lr_wsd, 4, 104, 100, 0}, 54, 0.5},
        {{rt_lr_wsd, 0, 1, 1, 0.5}, 0, 1.0},
        {{rt_lr_wsd, 0, 1, 1, 0.5}, 1, 0.5},
    };
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        const RtTrainer t = {.optimizer = {.lr = 0.5}, .schedule = at[i].s};
        const double rate = rt_learning_rate(&t, at[i].step), want = 0.5 * at[i].ratio;
        if (fabs(rate - want) > 1e-15) {
            fail_msg("row %zu, step %lld: %.17g, not %.17g", i, (long long)at[i].step,
                     rate, want);
        }
    }
}

/* A skipped step advances the learning rate, not the bias corrections. */
static void skipped_steps(void **state)
{
    (void)state;
    static const RtTrainer t = {
        .micro_batches = 1,
        .micro_batch = 1,
        .seq_tokens = 1,
        .optimizer = {.lr = 1.0, .beta1 = 0.5, .beta2 = 0.75},
        .schedule = {.ratio = rt_lr_linear, .steps = 4},
    };
    static const bool skip[] = {true, false, true, true, false};
    RtState st = {.beta1_power = 1.0, .beta2_power = 1.0, .valid_tokens = 1};
    Rt rt = {.trainer = &t, .state = &st};
    int updates = 0;
    for (st.step = 0; st.step < 5; st.step++) {
        const RtUpdate u = rt_update(&rt);
        assert_true(u.bias1_64 == 1.0 - ldexp(1.0, -(updates + 1)));
        assert_true(u.bias2_64 == 1.0 - pow(0.75, updates + 1));
        assert_true(u.lr64 == 1.0 - (double)st.step / 4);
        st.skip = skip[st.step];
        rt_update_end(&rt);
        updates += !st.skip;
    }
    assert_true(st.skipped == 3 && st.skipped_in_a_row == 0 && updates == 2);
}

typedef struct Seen {
    int n;
    RtRun run[8];
} Seen;
static void remember(void *ctx, const RtRun *run)
{
    Seen *s = ctx;
    s->run[s->n++] = *run;
}

/* Pads are never visited, and the shards' runs cover every element once. */
static void runs_cover(void **state)
{
    (void)state;
    const RtParam params[3] = {
        {.name = "a", .offset_elems = 0, .elems = 1500, .n_dims = 1, .dim = {1500}},
        {.name = "b", .offset_elems = 2048, .elems = 10, .n_dims = 1, .dim = {10}},
        {.name = "c", .offset_elems = 3072, .elems = 2000, .n_dims = 1, .dim = {2000}},
    };
    const int ids[3] = {0, 1, 2};
    const RtSegment segment = {
        .elems = 8192, .shard_elems = 1024, .shards = 8, .within = 7, .n_params = 3};
    const RtTrainer t = {.n_params = 3,
                         .params = params,
                         .segments = &segment,
                         .segment_params = ids,
                         .world_size = 8};
    int64_t seen_elems[3] = {0}, next[3] = {0};
    for (int rank = 0; rank < 8; rank++) {
        const Rt rt = {.rank = rank, .world_size = 8, .trainer = &t};
        Seen s = {0};
        rt_shard_runs(&rt, 0, remember, &s);
        for (int i = 0; i < s.n; i++) {
            assert_int_equal(s.run[i].element, next[s.run[i].param_id]);
            assert_int_equal(s.run[i].element % RT_GRAIN_ELEMS, 0);
            next[s.run[i].param_id] += s.run[i].elems;
            seen_elems[s.run[i].param_id] += s.run[i].elems;
        }
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(seen_elems[i], params[i].elems);
}

/* A parameter in boxes along a dim, which the ranks of bit 2 share; its segment is cut
 * over those of bits 0 and 1. */
typedef struct Lies {
    const RtParam *param;
    const RtSegment *segment;
    RtCoordinate at;
    int64_t boxes;
    char *left; /* elements that no run had yet */
} Lies;

/* By division: where the rank's first box of the parameter starts and the next ones,
 * which box an element is in, and where in that box. */
static int64_t box_start(const Lies *l, int64_t box)
{
    const int64_t grains =
        (l->param->elems / l->boxes + RT_GRAIN_ELEMS - 1) / RT_GRAIN_ELEMS;
    return l->param->offset_elems + box % (l->boxes / 2) * grains * RT_GRAIN_ELEMS;
}

static int64_t find_box(const Lies *l, int64_t e, int64_t *held)
{
    const RtParam *p = l->param;
    const int64_t n = p->dim[p->cut_dim];
    int64_t inner = 1, before = 0, size = n;
    for (int d = p->cut_dim + 1; d < p->n_dims; d++)
        inner *= p->dim[d];
    int64_t index = e / inner % n;
    for (int k = 0; k < p->n_sections; k++) {
        size = p->sections[k];
        if (index < size)
            break;
        index -= size;
        before += size / l->boxes;
    }
    const int64_t own = size / l->boxes;
    *held = (e / inner / n * (n / l->boxes) + before + index % own) * inner + e % inner;
    return index / own;
}

static void lies_there(void *ctx, const RtRun *run)
{
    const Lies *l = ctx;
    for (int64_t k = 0; k < run->elems; k++) {
        const int64_t e = run->element + k;
        int64_t held, box = find_box(l, e, &held);
        assert_true(l->left[e]);
        assert_int_equal(box / (l->boxes / 2), l->at.along);
        assert_int_equal(box_start(l, box) + held, l->at.part * l->segment->shard_elems +
                                                       run->shard_offset_elems + k);
        l->left[e] = 0;
    }
}

/* The same, of elements numbered box after box: a run starts a chunk of its box. */
static void stored_there(void *ctx, const RtRun *run)
{
    const Lies *l = ctx;
    const int64_t elems = l->param->elems / l->boxes;
    assert_int_equal(run->element % elems % RT_GRAIN_ELEMS, 0);
    assert_in_range(run->elems, 1, elems - run->element % elems);
    for (int64_t k = 0; k < run->elems; k++) {
        const int64_t e = run->element + k, box = e / elems;
        assert_true(l->left[e]);
        assert_int_equal(box / (l->boxes / 2), l->at.along);
        assert_int_equal(box_start(l, box) + e % elems,
                         l->at.part * l->segment->shard_elems + run->shard_offset_elems +
                             k);
        l->left[e] = 0;
    }
}

enum { LIES_ELEMS = 24 * 16 * 40 };

static void all_there(const Lies *l)
{
    for (int e = 0; e < LIES_ELEMS; e++)
        assert_false(l->left[e]);
}

/* Each chunk is in the shard of one of 8 ranks. Those of bit 3 hold the same, so it is in
 * the share of one of 16. */
static void stored_lie(const RtTrainer *t, Lies l)
{
    for (int share = 0; share < 2; share++) {
        memset(l.left, 1, LIES_ELEMS);
        for (int rank = 0; rank < (share ? 16 : 8); rank++) {
            const Rt rt = {.rank = rank, .world_size = 16, .trainer = t};
            l.at = rt_coordinate(l.segment, rank);
            if (share)
                rt_share_stored(&rt, 0, stored_there, &l);
            else
                rt_shard_stored(&rt, 0, stored_there, &l);
        }
        all_there(&l);
    }
}

/* Whatever the box of indices, the cut and the boxes stored, all coordinates together
 * have each element once, where it lies. */
static void boxes_lie(void **state)
{
    /* of 24, 16 and 40 indices: equal halves, four boxes a rank, sections */
    static const int64_t sections[3][2] = {{16, 8}, {8, 8}, {32, 8}};
    static const int boxes[] = {0, 2, 4, 8};
    const int ids[1] = {0};
    (void)state;
    RtParam p = {.name = "a",
                 .offset_elems = 1024,
                 .elems = LIES_ELEMS,
                 .n_dims = 3,
                 .dim = {24, 16, 40}};
    const RtSegment s = {.axes = 4,
                         .within = 3,
                         .same = 8,
                         .shards = 4,
                         .shard_elems = 3072,
                         .elems = 12288,
                         .n_params = 1};
    const RtTrainer t = {.params = &p,
                         .segments = &s,
                         .segment_params = ids,
                         .n_params = 1,
                         .world_size = 16};
    uint32_t r = 1;
    for (int i = 0; i < 96; i++) {
        char left[LIES_ELEMS];
        RtBox box = rt_box_rows(&p, 0, p.dim[0]);
        Lies l = {.param = &p, .segment = &s, .left = left};
        p.cut_dim = i % 3;
        p.boxes = boxes[i / 3 % 4];
        p.n_sections = i / 12 % 2 ? 2 : 0;
        p.sections = sections[p.cut_dim];
        l.boxes = p.boxes ? p.boxes : 2;
        for (int d = 0; d < 3 && i % 4; d++) {
            box.to[d] = (int64_t)((r = r * 1664525u + 1013904223u) >> 8) % p.dim[d] + 1;
            box.from[d] = (int64_t)((r = r * 1664525u + 1013904223u) >> 8) % box.to[d];
        }
        for (int e = 0; e < LIES_ELEMS; e++) {
            const int64_t at[3] = {e / 640, e / 40 % 16, e % 40};
            left[e] = 1;
            for (int d = 0; d < 3; d++)
                left[e] = left[e] && at[d] >= box.from[d] && at[d] < box.to[d];
        }
        for (int rank = 0; rank < 8; rank++) {
            l.at = rt_coordinate(&s, rank);
            rt_box_runs(&t, 0, &box, l.at, lies_there, &l);
        }
        all_there(&l);
        stored_lie(&t, l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(superacc_is_exact),
        cmocka_unit_test(superacc_order_is_free),
        cmocka_unit_test(superacc_sees_non_finite),
        cmocka_unit_test(philox_vectors),
        cmocka_unit_test(normal_moments),
        cmocka_unit_test(learning_rate_corners),
        cmocka_unit_test(skipped_steps),
        cmocka_unit_test(runs_cover),
        cmocka_unit_test(boxes_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
