/* SPDX-License-Identifier: MIT-0 */
/* rt_log.c: what programs read of a run. In: the step's results. Out: on rank 0 in --log
 * a JSON object that describes the run, then one per step; in --stats the counters of
 * every rank. rt_screen.c prints what people read. */
#include "job/rt_file.h"
#include "job/rt_out.h"
#include "job/rt_text.h"
#include "rt_target.h"
#include "state/rt_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the file -------------------------------------------------------------------- */

static void log_failed(const Rt *rt)
{
    rt_fail(rt, RT_EXIT_ERROR, "--log %s: %s", rt->state->flags.log, strerror(errno));
}

/* Returns how many lines a pipe's reader did not accept; -1 with errno. */
static int64_t close_log(RtState *st)
{
    const bool closed = fclose(st->log) == 0;
    const int reason = errno;
    const int64_t left_out = st->log_lines != NULL ? rt_lines_end(st->log_lines) : 0;
    st->log = NULL;
    st->log_lines = NULL;
    errno = reason;
    return closed ? left_out : -1;
}

/* Reports a lost line. With checkpoints that costs no step: the run saves the current one
 * and ends (rt_due.c), or, with --keep-going, continues without its log. */
static void line_lost(Rt *rt)
{
    RtState *st = rt->state;
    if (st->checkpoint == NULL)
        log_failed(rt);
    rt_output_lost(rt, "log", st->flags.log);
    if (st->flags.keep_going) {
        rt_say("trainer: warning: %s: training goes on without a log", st->lost);
        st->lost[0] = '\0';
    }
    close_log(st);
}

/* ---- the log of a resumed run ---------------------------------------------------- */

typedef struct Lines {
    FILE *f;
    char *at; /* the last one */
    size_t room;
    ssize_t bytes;
} Lines;

/* An incomplete last line, left by a crash, does not count. */
static bool next_line(Lines *l)
{
    l->bytes = getline(&l->at, &l->room, l->f);
    return l->bytes > 0 && l->at[l->bytes - 1] == '\n';
}

static bool is_record(const char *line)
{
    static const char record[] = "{\"run\": {\"model\": ";
    return strncmp(line, record, sizeof record - 1) == 0;
}

/* -1: it is not the line of a step. */
static int64_t step_of(const char *line)
{
    long long step;
    return sscanf(line, "{\"step\": %lld,", &step) == 1 ? step : -1;
}

/* Where the last line of a step up to this one ends. */
static long steps_end(Lines *l, int64_t step)
{
    long end = 0;
    while (next_line(l))
        if (step_of(l->at) >= 0 && step_of(l->at) <= step)
            end = ftell(l->f);
    return end;
}

/* Lines of steps after `step` go, because they will be written again, and so do records
 * behind the last step that stays. All others stay; those behind a line that goes are
 * put in `moved`. Returns where the ones before it end. A foreign file, which --force
 * replaces, goes as a whole. -1 with errno: it cannot be read. */
static long lines_end(Lines *l, int64_t step, FILE *moved)
{
    const long steps = steps_end(l, step);
    long end = 0;
    bool gone = false, others = false;
    rewind(l->f);
    for (long at = 0, next; next_line(l); at = next) {
        const bool of_run = is_record(l->at);
        const bool stays = of_run ? at < steps || at == 0 : step_of(l->at) <= step;
        next = ftell(l->f);
        if (at == 0 && !of_run && step_of(l->at) < 0)
            break;
        others = others || (stays && !of_run);
        if (!stays)
            gone = true;
        else if (!gone)
            end = next;
        else
            fwrite(l->at, 1, (size_t)l->bytes, moved);
    }
    if (l->bytes < 0 && !feof(l->f)) /* memory has ended, or the disk fails */
        return -1;
    return others ? end : 0; /* a record alone describes nothing */
}

/* The log at the place where it goes on; NULL with errno. */
static FILE *open_again(const RtState *st)
{
    Lines l = {.f = fopen(st->flags.log, "r+e")};
    RtText moved;
    if (l.f == NULL || !rt_text_open(&moved))
        return NULL;
    const long end = lines_end(&l, st->first_step, moved.f);
    int reason = errno;
    char *text = rt_text_end(&moved);
    const bool good = end >= 0 && text != NULL && fseek(l.f, end, SEEK_SET) == 0 &&
                      fwrite(text, 1, moved.bytes, l.f) == moved.bytes &&
                      fflush(l.f) == 0 && ftruncate(fileno(l.f), ftell(l.f)) == 0;
    reason = end >= 0 ? errno : reason;
    free(text);
    free(l.at);
    if (good)
        return l.f;
    fclose(l.f);
    errno = reason;
    return NULL;
}

/* The seed and the numerics hash of a record. */
static bool read_record(const Lines *l, int64_t *seed, uint64_t *numerics)
{
    RtJson j = {l->at, l->at + l->bytes, false};
    char key[64];
    int found = 0;
    bool first = true;
    rt_json_open(&j, '{');
    rt_json_key(&j, key, sizeof key); /* "run" */
    rt_json_open(&j, '{');
    while (rt_json_item(&j, '}', &first) && rt_json_key(&j, key, sizeof key)) {
        const bool is_seed = strcmp(key, "seed") == 0;
        const bool is_numerics = strcmp(key, "numerics") == 0;
        found += is_seed || is_numerics;
        if (!(is_seed       ? rt_json_int(&j, seed)
              : is_numerics ? rt_json_hash(&j, numerics)
                            : rt_json_skip(&j)))
            return false;
    }
    return found == 2 && !j.failed;
}

bool rt_log_whose(const char *path, int64_t *seed, uint64_t *numerics)
{
    struct stat s;
    Lines l = {.f = stat(path, &s) == 0 && S_ISREG(s.st_mode) ? fopen(path, "re") : NULL};
    const bool known = l.f != NULL && next_line(&l) && is_record(l.at) &&
                       read_record(&l, seed, numerics);
    if (l.f != NULL)
        fclose(l.f);
    free(l.at);
    return known;
}

/* A resumed run appends to its log, if that is a file. One that cannot be opened now is
 * not emptied: it may have the lines of weeks. */
static void open_log(Rt *rt)
{
    RtState *st = rt->state;
    struct stat s;
    const bool there = stat(st->flags.log, &s) == 0, unknown = !there && errno != ENOENT;
    st->log =
        unknown                        ? NULL
        : there && !S_ISREG(s.st_mode) ? rt_lines_open(rt, st->flags.log, &st->log_lines)
        : there && st->first_step > 0 && !st->replaces_log ? open_again(st)
                                                           : fopen(st->flags.log, "we");
    if (st->log == NULL)
        log_failed(rt);
    else if (st->log_lines == NULL) /* who copies and empties it leaves no hole */
        fcntl(fileno(st->log), F_SETFL, O_APPEND);
}

/* ---- lines ----------------------------------------------------------------------- */

static double epoch_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* JSON cannot express numbers that are not finite: null. */
static void json_result(FILE *f, const char *name, double x)
{
    fprintf(f, "\"%s\": ", name);
    rt_json_number(f, x);
    if (rt_is_finite(x))
        fprintf(f, ", \"%s_hex\": \"%a\", ", name, x);
    else
        fprintf(f, ", \"%s_hex\": null, ", name);
}

static void line_ends(Rt *rt)
{
    FILE *f = rt->state->log;
    fprintf(f, ", \"time\": %.3f}\n", epoch_seconds());
    if (fflush(f) != 0 || ferror(f))
        line_lost(rt);
}

static void put_flags(const RtFlags *flags, FILE *f)
{
    fprintf(f, ", \"flags\": [");
    for (int i = 1; i < flags->argc; i++) {
        fprintf(f, i > 1 ? ", " : "");
        rt_json_put(f, flags->argv[i]);
    }
    fprintf(f, "]");
}

static void put_resumed(const Rt *rt, FILE *f)
{
    const RtState *st = rt->state;
    char folder[RT_PATH_BYTES];
    fprintf(f, ", \"first_step\": %lld, \"resumed_from\": ", (long long)st->first_step);
    if (st->first_step > 0 &&
        rt_file_step_path(folder, st->flags.checkpoint, "", st->first_step))
        rt_json_put(f, folder);
    else
        fprintf(f, "null");
}

/* Describes the run from here on: the first line, and another one after each resume. */
static void record(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    const RtFlags *flags = &rt->state->flags;
    FILE *f = rt->state->log;
    char text[1024];
    const uint64_t platform = rt_platform_hash(t, text, sizeof text);
    const double ran = 1e-9 * (double)(rt_clock_ns() - flags->started_ns);
    fprintf(f, "{\"run\": {\"model\": ");
    rt_json_put(f, t->name);
    fprintf(f,
            ", \"generator\": \"%s\", \"trainer\": \"%016llx\", "
            "\"numerics\": \"%016llx\", \"platform\": \"%016llx\", "
            "\"platform_text\": ",
            t->generator, (unsigned long long)t->identity,
            (unsigned long long)t->numerics_hash, (unsigned long long)platform);
    rt_json_put(f, text);
    fprintf(f,
            ", \"mesh\": %s, \"world_size\": %d, \"threads\": %d, \"params\": %lld, "
            "\"tokens_per_step\": %lld, \"steps\": %lld, \"seed\": %lld, "
            "\"arena_bytes\": %lld",
            t->mesh != NULL ? t->mesh : "null", t->world_size, rt->threads,
            (long long)t->params_elems, (long long)rt_step_tokens(t),
            (long long)flags->steps, (long long)flags->seed,
            (long long)(t->symmetric_bytes + t->local_bytes));
    put_resumed(rt, f);
    put_flags(flags, f);
    fprintf(f, ", \"start_time\": %.3f}", epoch_seconds() - ran);
    line_ends(rt);
}

/* One object per line; its first key is the step, by which lines_end finds it. */
static void json_line(Rt *rt, double seconds)
{
    const RtState *st = rt->state;
    const double mfu = rt_mfu(rt, seconds);
    const int64_t tokens = rt_step_tokens(rt->trainer);
    FILE *f = st->log;
    fprintf(f, "{\"step\": %lld, ", (long long)(st->step + 1));
    json_result(f, "loss", st->loss);
    json_result(f, "grad_norm", st->grad_norm);
    fprintf(f, "\"lr\": ");
    rt_json_number(f, rt_learning_rate(rt->trainer, st->step));
    fprintf(f, ", \"skipped\": %lld, \"tokens\": %lld, ", (long long)st->skipped,
            (long long)((st->step + 1) * tokens));
    if (rt->trainer->loss_scale.init != 0) {
        fprintf(f, "\"loss_scale\": ");
        rt_json_number(f, st->loss_scale);
        fprintf(f, ", ");
    }
    if (rt->trainer->masked || rt->trainer->packed)
        fprintf(f, "\"valid_tokens\": %lld, ", (long long)st->valid_tokens);
    if (st->evaluated) {
        json_result(f, "eval_loss", st->eval_loss);
        fprintf(f, "\"eval_tokens\": %lld, ", (long long)st->eval_tokens);
    }
    fprintf(f, "\"step_seconds\": %.6f, \"tokens_per_second\": %.3f, \"mfu\": ", seconds,
            (double)tokens / seconds);
    if (mfu > 0)
        fprintf(f, "%.6f", mfu);
    else
        fprintf(f, "null");
    fprintf(f, ", \"memory_bytes\": %lld", (long long)rt_memory_high_water_bytes());
    line_ends(rt);
}

double rt_mfu(const Rt *rt, double seconds)
{
    const RtTrainer *t = rt->trainer;
    const RtFlags *f = &rt->state->flags;
    const double tflops = f->peak_tflops > 0 ? f->peak_tflops : t->peak_tflops;
    const double flops = (double)rt_step_tokens(t) * t->flops_per_token;
    return tflops > 0 ? flops / (seconds * tflops * 1e12 * t->world_size) : 0;
}

void rt_log_start(Rt *rt)
{
    if (rt->rank != 0 || rt->state->flags.log == NULL)
        return;
    open_log(rt);
    record(rt);
}

void rt_log_step(Rt *rt, double seconds)
{
    if (rt->state->log != NULL)
        json_line(rt, seconds);
}

/* ---- the end --------------------------------------------------------------------- */

typedef struct RankStats {
    int64_t tokens, gathered, reduced, replicate, node, matrix, met, high_water;
    double wait_seconds;
} RankStats;

static void write_stats(Rt *rt, const RankStats *all)
{
    const RtTrainer *t = rt->trainer;
    const char *path = rt->state->flags.stats;
    static RtOutput out;
    if (!rt_output_begin(&out, path, rt_output_begins(rt, "stats"))) {
        rt_output_lost(rt, "stats", path);
        return;
    }
    FILE *f = out.f;
    fprintf(f,
            "{\"world_size\": %d, \"steps\": %lld, \"arena_bytes\": %lld, "
            "\"symmetric_bytes\": %lld, \"local_bytes\": %lld, \"ranks\": [\n",
            t->world_size, (long long)rt->state->flags.steps,
            (long long)(t->symmetric_bytes + t->local_bytes),
            (long long)t->symmetric_bytes, (long long)t->local_bytes);
    for (int r = 0; r < t->world_size; r++) {
        fprintf(f,
                "  {\"rank\": %d, \"tokens\": %lld, \"gathered_bytes\": %lld, "
                "\"reduced_bytes\": %lld, \"replicate_bytes\": %lld, "
                "\"node_bytes\": %lld, \"matrix_bytes\": %lld, \"met_bytes\": %lld, "
                "\"high_water_bytes\": %lld, "
                "\"wait_seconds\": %.6f}%s\n",
                r, (long long)all[r].tokens, (long long)all[r].gathered,
                (long long)all[r].reduced, (long long)all[r].replicate,
                (long long)all[r].node, (long long)all[r].matrix, (long long)all[r].met,
                (long long)all[r].high_water, all[r].wait_seconds,
                r + 1 < t->world_size ? "," : "");
    }
    fprintf(f, "]}\n");
    if (!rt_output_end(rt, &out))
        rt_output_lost(rt, "stats", path);
}

static void end_log(Rt *rt)
{
    RtState *st = rt->state;
    const int64_t left_out = st->log != NULL ? close_log(st) : 0;
    char text[RT_ERROR_BYTES];
    if (left_out < 0)
        rt_output_lost(rt, "log", st->flags.log);
    if (left_out <= 0)
        return;
    snprintf(text, sizeof text,
             "--log %.500s: its reader had stopped reading: %lld line%s left out",
             st->flags.log, (long long)left_out, left_out == 1 ? " is" : "s are");
    if (st->flags.keep_going)
        rt_say("trainer: warning: %s", text);
    else if (st->lost[0] == '\0')
        memcpy(st->lost, text, sizeof st->lost);
}

void rt_log_end(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    RtState *st = rt->state;
    const RankStats mine = {st->tokens_done,   st->gathered_bytes,
                            st->reduced_bytes, st->replicate_bytes,
                            st->node_bytes,    st->matrix_bytes,
                            st->met_bytes,     rt_memory_high_water_bytes(),
                            st->wait_seconds};
    RankStats all[RT_MAX_RANKS];
    rt_enter(rt, RT_AT_END);
    rt_exchange_begin(rt);
    memcpy(rt_control(rt, rt->rank), &mine, sizeof mine);
    rt_exchange_publish(rt, sizeof mine);
    for (int r = 0; r < t->world_size; r++)
        memcpy(&all[r], rt_control(rt, r), sizeof all[r]);
    rt_exchange_end(rt);
    if (rt->rank != 0)
        return;
    for (int r = 0; r < t->world_size; r++)
        if (all[r].high_water > st->peak_bytes)
            st->peak_bytes = all[r].high_water;
    if (st->flags.stats != NULL)
        write_stats(rt, all);
    end_log(rt);
}
