/* SPDX-License-Identifier: MIT-0 */
/* rt_state.c: the small files of a checkpoint. In: the run's state, or the text written
 * from it. Out: train_state.json, which together with weights, masters and moments is the
 * whole state of a run, and the index of weights in several files. Numbers that must be
 * restored exactly are C99 hex floats; nothing in these files depends on ranks, hosts or
 * time, but for the numbers of files whose content is not verified (rt_record.c). */
#include "checkpoint/rt_checkpoint.h"

#include <stdlib.h>
#include <string.h>

void rt_state_take(const Rt *rt, int64_t step, RtTrainState *s)
{
    const RtState *st = rt->state;
    *s = (RtTrainState){.step = step,
                        .skipped = st->skipped,
                        .skipped_in_a_row = st->skipped_in_a_row,
                        .scaled_updates = st->scaled_updates,
                        .beta1_power = st->beta1_power,
                        .beta2_power = st->beta2_power,
                        .loss_scale = st->loss_scale,
                        .best = st->best};
}

/* For a run that evaluates. */
static void write_best(FILE *f, const RtBest *b)
{
    if (b->step == 0 && b->waited == 0)
        return;
    fprintf(f,
            ",\n  \"best_step\": %lld,\n  \"best_loss\": \"%a\",\n"
            "  \"best_tokens\": %lld,\n  \"best_waited\": %lld",
            (long long)b->step, b->loss, (long long)b->tokens, (long long)b->waited);
}

static void write_since(FILE *f, const char *key, const RtSince *s, int n)
{
    fprintf(f, ",\n  \"%s\": [", key);
    for (int i = 0; i < n; i++) {
        fprintf(f, "%s{\"from_step\": %lld, \"hash\": \"%016llx\"}", i > 0 ? ", " : "",
                (long long)s[i].from_step, (unsigned long long)s[i].hash);
    }
    fprintf(f, "]");
}

char *rt_state_text(const Rt *rt, const RtTrainState *s)
{
    const RtTrainer *t = rt->trainer;
    const RtState *st = rt->state;
    const RtCheckpoint *c = st->checkpoint;
    const int64_t samples = st->order_samples + (s->step - st->order_step) *
                                                    t->micro_batches * t->micro_batch;
    RtText text;
    if (!rt_text_open(&text))
        return NULL;
    fprintf(text.f,
            "{\n  \"format\": \"fsdpgen train state 2\",\n  \"trainer\": \"%s\",\n"
            "  \"generator\": \"%s\",\n  \"step\": %lld,\n  \"samples\": %lld,\n"
            "  \"data_samples\": %lld,\n  \"data_mix\": \"%016llx\",\n"
            "  \"data_hash\": \"%016llx\",\n  \"seed\": %lld,\n  \"skipped\": %lld,\n"
            "  \"skipped_in_a_row\": %lld,\n  \"beta1_power\": \"%a\",\n"
            "  \"beta2_power\": \"%a\",\n  \"loss_scale\": \"%a\",\n"
            "  \"scaled_updates\": %lld,\n  \"tokens\": %lld,\n"
            "  \"order_step\": %lld,\n  \"order_samples\": %lld,\n"
            "  \"order_tokens\": %lld,\n  \"numerics\": \"%016llx\"",
            t->name, t->generator, (long long)s->step, (long long)samples,
            (long long)rt_tokens_samples(st->tokens),
            (unsigned long long)rt_tokens_mix(st->tokens),
            (unsigned long long)rt_tokens_hash(st->tokens), (long long)st->flags.seed,
            (long long)s->skipped, (long long)s->skipped_in_a_row, s->beta1_power,
            s->beta2_power, s->loss_scale, (long long)s->scaled_updates,
            (long long)(st->order_tokens + (samples - st->order_samples) * t->seq_tokens),
            (long long)st->order_step, (long long)st->order_samples,
            (long long)st->order_tokens, (unsigned long long)t->numerics_hash);
    write_since(text.f, "platforms", c->platform, c->n_platforms);
    write_since(text.f, "lineage", c->lineage, c->n_lineage);
    write_best(text.f, &s->best);
    rt_record_write(rt, text.f);
    fprintf(text.f, "\n}\n");
    return rt_text_end(&text);
}

char *rt_state_index(const RtCheckpoint *c, const RtTrainer *t)
{
    int64_t total = 0;
    const char *before = "";
    RtText text;
    if (!rt_text_open(&text))
        return NULL;
    for (int i = 0; i < t->n_params; i++) {
        const RtParam *p = &t->params[i];
        total += p->elems * (int64_t)rt_dtype_bytes(t->segments[p->segment].dtype);
    }
    fprintf(text.f, "{\n  \"metadata\": {\"total_size\": %lld},\n  \"weight_map\": {\n",
            (long long)total);
    for (int i = 0; i < t->n_params; i++) {
        const RtParam *p = &t->params[i];
        const char *file = c->files[c->file_of[RT_SET_WEIGHTS][i]].name;
        for (int k = 0; k == 0 || k < p->n_parts; k++, before = ",\n") {
            fprintf(text.f, "%s    \"%s\": \"%s\"", before,
                    p->n_parts > 0 ? p->parts[k].name : p->name, file);
        }
    }
    fprintf(text.f, "\n  }\n}\n");
    return rt_text_end(&text);
}

/* ---- reading --------------------------------------------------------------------- */

static bool read_real(RtJson *j, double *x)
{
    char text[40], *end;
    if (!rt_json_text(j, text, sizeof text))
        return false;
    *x = strtod(text, &end);
    return end != text && *end == '\0' && rt_is_finite(*x);
}

static bool read_since(RtJson *j, RtSince *list, int *n)
{
    char key[32];
    bool first = true, ok = rt_json_open(j, '[');
    while (ok && rt_json_item(j, ']', &first)) {
        RtSince p = {0, 0};
        bool one = true;
        ok = rt_json_open(j, '{');
        while (ok && rt_json_item(j, '}', &one)) {
            ok = rt_json_key(j, key, sizeof key) &&
                 (strcmp(key, "hash") == 0 ? rt_json_hash(j, &p.hash)
                                           : rt_json_int(j, &p.from_step));
        }
        ok = ok && *n < RT_MAX_PLATFORMS;
        if (ok)
            list[(*n)++] = p;
    }
    return ok && !j->failed;
}

static bool read_member(RtJson *j, const char *key, RtTrainState *s)
{
    const struct {
        const char *key;
        int64_t *n;
    } numbers[] = {
        {"step", &s->step},
        {"samples", &s->samples},
        {"data_samples", &s->data_samples},
        {"seed", &s->seed},
        {"skipped", &s->skipped},
        {"skipped_in_a_row", &s->skipped_in_a_row},
        {"scaled_updates", &s->scaled_updates},
        {"tokens", &s->tokens},
        {"order_step", &s->order_step},
        {"order_samples", &s->order_samples},
        {"order_tokens", &s->order_tokens},
        {"best_step", &s->best.step},
        {"best_tokens", &s->best.tokens},
        {"best_waited", &s->best.waited},
    };
    const struct {
        const char *key;
        double *x;
    } reals[] = {
        {"beta1_power", &s->beta1_power},
        {"beta2_power", &s->beta2_power},
        {"loss_scale", &s->loss_scale},
        {"best_loss", &s->best.loss},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(key, numbers[i].key) == 0)
            return rt_json_int(j, numbers[i].n) && *numbers[i].n >= 0;
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        if (strcmp(key, reals[i].key) == 0)
            return read_real(j, reals[i].x);
    if (strcmp(key, "numerics") == 0)
        return rt_json_hash(j, &s->numerics_hash);
    if (strcmp(key, "data_mix") == 0)
        return rt_json_hash(j, &s->data_mix);
    if (strcmp(key, "data_hash") == 0)
        return rt_json_hash(j, &s->data_hash);
    if (strcmp(key, "data") == 0 || strcmp(key, "eval") == 0)
        return rt_record_read(j, key[0] == 'd' ? &s->data : &s->eval);
    return strcmp(key, "platforms") == 0 ? read_since(j, s->platform, &s->n_platforms)
           : strcmp(key, "lineage") == 0 ? read_since(j, s->lineage, &s->n_lineage)
                                         : rt_json_skip(j);
}

/* Is every entry in the past, and does each start after the previous one? */
static bool in_turn(const RtSince *list, int n, int64_t step)
{
    for (int i = 0; i < n; i++)
        if (list[i].from_step < (i > 0 ? list[i - 1].from_step : 0) ||
            list[i].from_step > step)
            return false;
    return true;
}

/* Is this a possible state of a run? Powers of a beta start at 1 and fall. */
static bool makes_sense(const RtTrainState *s)
{
    return s->step >= 0 && s->seed >= 0 && s->skipped <= s->step &&
           s->skipped_in_a_row <= s->skipped && s->scaled_updates <= s->step &&
           s->beta1_power >= 0 && s->beta1_power <= 1 && s->beta2_power >= 0 &&
           s->beta2_power <= 1 && s->loss_scale >= 0 && s->n_platforms > 0 &&
           s->best.step <= s->step && s->order_step <= s->step &&
           s->order_samples <= s->samples &&
           in_turn(s->platform, s->n_platforms, s->step) &&
           in_turn(s->lineage, s->n_lineage, s->step);
}

/* Its bytes are as written, which the manifest's hash proves. Missing members mean
 * another version. */
bool rt_state_read(RtTrainState *s, const char *text, int64_t bytes)
{
    RtJson j = {text, text + bytes, false};
    char key[64];
    bool first = true;
    *s = (RtTrainState){.step = -1,
                        .seed = -1,
                        .tokens = -1,
                        .beta1_power = -1,
                        .beta2_power = -1,
                        .loss_scale = -1};
    if (!rt_json_open(&j, '{'))
        return false;
    while (rt_json_item(&j, '}', &first))
        if (!rt_json_key(&j, key, sizeof key) || !read_member(&j, key, s))
            return false;
    return rt_json_done(&j) && makes_sense(s);
}
