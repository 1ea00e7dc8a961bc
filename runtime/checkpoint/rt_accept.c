/* SPDX-License-Identifier: MIT-0 */
/* rt_accept.c: --accept-numerics: a run that continues with different mathematics. In: a
 * checkpoint with another numerics hash. Out: its weights and its step, and of the rest
 * what still has the same meaning:
 *
 *    masters       if they fit; otherwise weights are read as by --init
 *    moments       if names, shapes and dtypes are equal and the optimizer is the same;
 *                  otherwise they start at zero, and the powers of its betas at one.
 *                  Powers are products of the betas that each update had, so that
 *                  1 - power is the weight that a moment really holds, also after
 *                  other betas
 *    order of data if data, sequences and batch are the same; otherwise it starts over,
 *                  at sample 0
 *    best step     if the loss and its sequences are the same; otherwise it is unknown
 *    lineage       every numerics hash, and the first step that ran with it
 *
 * Rank 0 compares, and tells all others. */
#include "checkpoint/rt_checkpoint.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The length of the value in the line `field = value` of numerics.txt, which may be
 * missing. */
static const char *value_of(const char *text, const char *field, size_t *bytes)
{
    const size_t n = strlen(field);
    *bytes = 0;
    for (const char *p = text; *p != '\0'; p += strcspn(p, "\n"), p += *p == '\n') {
        if (strncmp(p, field, n) == 0 && strncmp(p + n, " = ", 3) == 0) {
            *bytes = strcspn(p + n + 3, "\n");
            return p + n + 3;
        }
    }
    return "";
}

/* A number that stands alone: no part of a name or of a hash. */
static bool number_at(const char *p, const char *begin, const char *end, double *x,
                      const char **next)
{
    char *after;
    if (!isdigit((unsigned char)*p) ||
        (p > begin && (isalnum((unsigned char)p[-1]) || strchr("_.", p[-1]) != NULL)))
        return false;
    *x = strtod(p, &after);
    *next = after;
    return after <= end && (after == end || !(isalnum((unsigned char)*after)));
}

bool rt_text_same(const char *a, size_t n, const char *b, size_t m)
{
    const char *p = a, *q = b;
    double x, y;
    while (p < a + n && q < b + m) {
        const char *p_next, *q_next;
        if (number_at(p, a, a + n, &x, &p_next) && number_at(q, b, b + m, &y, &q_next) &&
            x == y) {
            p = p_next;
            q = q_next;
        } else if (*p++ != *q++) {
            return false;
        }
    }
    return p == a + n && q == b + m;
}

static bool differs(const char *a, const char *b, const char *field)
{
    size_t n, m;
    const char *x = value_of(a, field, &n), *y = value_of(b, field, &m);
    return !rt_text_same(x, n, y, m);
}

enum { ORDER, LOSS, OPTIMIZER, QUESTIONS };

/* What differs from the checkpoint, as rank 0 finds it. */
static void compare(Rt *rt, const char *theirs, bool other_data, uint64_t *other)
{
    static const char *const order[] = {"seq", "global_batch", "documents",
                                        "documents.end_id"};
    static const char *const loss[] = {"seq",    "documents", "documents.end_id",
                                       "loss.z", "loss.mask", "loss.label_smoothing"};
    const char *ours = rt->trainer->numerics;
    memset(other, 0, QUESTIONS * sizeof *other);
    if (rt->rank == 0) {
        other[ORDER] = other_data;
        for (size_t i = 0; i < sizeof order / sizeof *order; i++)
            other[ORDER] = other[ORDER] || differs(theirs, ours, order[i]);
        for (size_t i = 0; i < sizeof loss / sizeof *loss; i++)
            other[LOSS] = other[LOSS] || differs(theirs, ours, loss[i]);
        other[OPTIMIZER] = differs(theirs, ours, "optimizer");
    }
    rt_save_sum(rt, other, QUESTIONS);
}

static void note(const Rt *rt, const char *what)
{
    if (rt->rank == 0)
        rt_say("trainer: note: --accept-numerics: %s", what);
}

/* Collective: loads the set; verifies it only, if it does not fit or is not wanted. */
static bool take_set(Rt *rt, RtSet set, bool wanted, const char *folder, RtManifest *m)
{
    if (wanted)
        return rt_load_set(rt, set, folder, m);
    rt_chunks_until(rt, &m->chunks, m->set_files[set + 1], 0);
    return rt_manifest_agree(rt, m, m->set_files[set], m->set_files[set + 1]);
}

/* What an attempt with another checkpoint left there. */
static void clear_moments(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    const int64_t most = RT_STAGE_ELEMS * (int64_t)sizeof(double);
    char *zeros = rt->state->checkpoint->stage;
    memset(zeros, 0, (size_t)most);
    for (int i = 0; i < t->n_segments; i++) {
        const RtSegment *s = &t->segments[i];
        const int64_t item = (int64_t)rt_dtype_bytes(t->moments_dtype);
        for (RtSet set = RT_SET_MOMENT1; set <= RT_SET_MOMENT2; set++) {
            const int64_t to = rt_layout_offset(s, set);
            const int64_t bytes = item * rt_layout_held_elems(rt, set, s);
            for (int64_t at = 0; to >= 0 && at < bytes; at += most) {
                rt_arena_write(rt, RT_SPACE_LOCAL, to + at, zeros,
                               bytes - at < most ? bytes - at : most);
            }
        }
    }
}

static void begin_order(const Rt *rt, RtTrainState *s)
{
    note(rt, "the data order restarts at sample 0");
    s->order_step = s->step;
    s->order_samples = s->samples;
    s->order_tokens = s->tokens >= 0 ? s->tokens : 0; /* unknown to an earlier version */
}

static void set_scale(const Rt *rt, RtTrainState *s)
{
    const double init = rt->trainer->loss_scale.init;
    if (s->loss_scale == 0 || init == 0) {
        s->loss_scale = init;
        s->scaled_updates = 0;
    }
}

bool rt_accept(Rt *rt, const char *folder, RtManifest *m, bool other_data,
               const char *theirs, RtTrainState *s)
{
    uint64_t other[QUESTIONS];
    bool fits[RT_SETS], ok = true;
    compare(rt, theirs, other_data, other);
    for (RtSet set = 0; set < RT_SETS; set++)
        if (!rt_set_fits(rt, set, folder, m, &fits[set]))
            return false;
    const bool weights = fits[RT_SET_WEIGHTS] && fits[RT_SET_MASTER];
    const bool moments =
        fits[RT_SET_MOMENT1] && fits[RT_SET_MOMENT2] && other[OPTIMIZER] == 0;
    for (RtSet set = 0; set < RT_SETS && ok; set++)
        ok = take_set(rt, set, set <= RT_SET_MASTER ? weights : moments, folder, m);
    if (!ok)
        return false;
    if (!weights) {
        note(rt, "masters are made of the weights");
        rt_import_weights(rt, "--accept-numerics", folder);
    }
    if (!moments) {
        note(rt, "moments begin at zero");
        clear_moments(rt);
        s->beta1_power = 1;
        s->beta2_power = 1;
    }
    set_scale(rt, s);
    if (other[LOSS] != 0 && s->best.step > 0) {
        note(rt, "the loss is another, and the search for the best step restarts");
        s->best = (RtBest){0};
    }
    if (other[ORDER] != 0)
        begin_order(rt, s);
    return true;
}
