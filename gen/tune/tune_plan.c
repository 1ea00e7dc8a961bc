/* SPDX-License-Identifier: Apache-2.0 */
/* tune_plan.c: the plans of candidates, or a trainer. In: the options of the command, and
 * the fields that each candidate sets. Out: what the passes say of it, or a folder.
 *
 * Candidates mostly differ in fields that no pass before `checkpoint` reads. So a child
 * makes what they share, up to the pass span, and a copy of it (fork) plans each: it
 * reads the fields again, and if the resolved descriptions differ in other fields too,
 * starts from the beginning. The child's limits bound what a description does, and
 * nothing of one candidate is left when the next is planned. Messages of the passes are
 * not shown: a refused candidate is a row of a table. */
#include "tune/tune.h"

#include "base/child.h"
#include "drive/drive.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* The first line of a message. */
static void keep_reason(TunePlan *p, const char *text)
{
    const size_t n = strcspn(text, "\n");

    snprintf(p->why, sizeof p->why, "%.*s", (int)min_i64((int64_t)n, 230), text);
}

/* Two plans of one hash do the same in the same order. */
static uint64_t program_hash(const Gen *g)
{
    uint64_t h = 0;

    for (int i = 0; i < g->prog.ins.count; i++) {
        const Instr *ins = &g->prog.ins.items[i];
        const double row[] = {
            (double)h,           (double)(h >> 32),    (double)ins->kind,
            (double)ins->stream, (double)ins->n_waits, (double)ins->moved_bytes,
            ins->flops};

        h = hash_bytes(row, sizeof row);
    }
    return h;
}

static uint64_t hash_text(const char *s)
{
    return hash_bytes(s, strlen(s));
}

/* Of the field target in a resolved description: what no instruction shows, like its
 * arch. */
static uint64_t target_hash(const char *resolved)
{
    const char *at = strstr(resolved, "\n    target = "), *end = at;

    if (!at)
        return 0;
    do
        end = strchr(end + 1, '\n');
    while (end && (!strncmp(end + 1, "     ", 5) || !strncmp(end + 1, "    }", 5)));
    return end ? hash_bytes(at, (size_t)(end - at)) : hash_text(at);
}

static void fill(Gen *g, TunePlan *p)
{
    const Model *m = &g->model;
    const PlanBytes b = plan_bytes(g);

    p->numerics = g->numerics_hash;
    p->resolved = hash_text(m->resolved_lua);
    p->program = program_hash(g);
    p->target = target_hash(m->resolved_lua);
    p->params = plan_params(g);
    p->bytes = b.total;
    p->budget_bytes = m->budget_bytes;
    p->seconds = g->prog.step_seconds;
    p->usd = m->net.usd;
    p->nodes = m->net.nodes;
    p->near_ranks = m->net.node ? group_ranks(m->net.near) : m->mesh.world_size;
    snprintf(p->node, sizeof p->node, "%s", m->net.node ? m->net.node : "");
    snprintf(p->fabric, sizeof p->fabric, "%s", m->net.fabric ? m->net.fabric : "");
    p->seq_tokens = m->seq_tokens;
    p->global_batch = m->global_batch;
    p->step_tokens = m->global_batch * m->seq_tokens;
    p->vocab = m->vocab;
    p->world_size = m->mesh.world_size;
    p->node_ranks = m->mesh.node_ranks;
    p->tensor_ranks = m->mesh.axis[AXIS_TENSOR].degree;
    memcpy(p->parts, m->parts, sizeof p->parts);
    p->blocks = g->blocks.count;
    p->rounds = m->micro_batches / m->mesh.data_ranks;
    p->document_end = m->packed ? m->document_end : -1;
    p->cpu = !strcmp(m->target->name, "cpu");
    p->masked = m->loss_mask;
    p->auto_recompute = m->recompute == RECOMPUTE_AUTO;
}

static void answer(Gen *g, int code, TunePlan *plan)
{
    plan->code = code;
    if (code == EXIT_DONE || code == EXIT_FIT)
        fill(g, plan);
    if (diag_first_error(g))
        keep_reason(plan, diag_first_error(g));
}

/* The fields of the command line, then those of a candidate; NULL: none. */
static OptionList with_sets(Gen *g, const OptionList *first, const OptionList *sets)
{
    OptionList all = {0};

    for (int i = 0; i < first->count; i++)
        *gen_push(g, &all) = first->items[i];
    for (int i = 0; sets && i < sets->count; i++)
        *gen_push(g, &all) = sets->items[i];
    return all;
}

/* A Gen of its own for a candidate: the options, and its fields after those of the
 * command line. */
static Gen candidate_gen(Gen *g, const OptionList *sets, const char *command)
{
    Gen own = {.opt = g->opt};

    own.opt.sets = with_sets(g, &g->opt.sets, sets);
    own.opt.command = command;
    own.opt.json = false;
    own.base.color = g->base.color;
    return own;
}

/* ---- in the child ---------------------------------------------------------------- */

enum { GROUP = 256 }; /* candidates of one child, so that its memory is bounded */

typedef struct Answer {
    int job;
    TunePlan plan;
} Answer;
_Static_assert(sizeof(Answer) <= PIPE_BUF, "an answer is one write");

typedef struct Group {
    Gen *g; /* the command's */
    const TuneJob *jobs;
    bool fields_only;
    int job[GROUP], count; /* indices into jobs */
    OptionList common; /* fields that all of them set, and that passes up to span read */
    int nowhere;       /* /dev/null, which the child itself must not open to write */
    bool shared;       /* in the child: its Gen is past span */
    int now;           /* in a copy: which one it plans */
    /* in the parent */
    Answer answer;
    size_t got; /* bytes of it */
    void (*done)(void *with);
    void *with;
} Group;

/* Continues after the shared passes if the candidate has their result, too. */
static void plan_it(Gen *g, const Group *b, TunePlan *plan)
{
    const OptionList *sets = b->jobs[b->job[b->now]].sets;
    Gen own;
    int code;

    if (b->shared) {
        g->opt.sets = with_sets(g, &b->g->opt.sets, sets);
        if (check_again(g)) {
            code = diag_finish(g);
            code = code == EXIT_DONE ? drive_passes(g, "checkpoint", "simulate") : code;
            answer(g, code, plan);
            return;
        }
    }
    own = candidate_gen(b->g, sets, "tune");
    answer(&own, drive_passes(&own, "load", "simulate"), plan);
}

static int plan_in_copy(Gen *g, void *with)
{
    const Group *b = with;
    Answer a;

    memset(&a, 0, sizeof a); /* padding is sent, too */
    a.job = b->job[b->now];
    if (b->fields_only) {
        g->opt.sets = with_sets(g, &b->g->opt.sets, b->jobs[a.job].sets);
        check_model(g);
        a.plan.fields = diag_errors(g) ? 0 : hash_text(g->model.resolved_lua);
    } else {
        plan_it(g, b, &a.plan);
    }
    child_put(&a, sizeof a);
    return EXIT_DONE;
}

static int plan_in_child(Gen *g, void *with)
{
    Group *b = with;
    const int shown = dup(STDERR_FILENO);
    const ChildWork work = {.what = "a candidate",
                            .cause = "is there a loop in the description?",
                            .with = b,
                            .work = plan_in_copy};
    int code = EXIT_DONE;

    if (shown < 0 || dup2(b->nowhere, STDERR_FILENO) < 0)
        return EXIT_BUG;
    if (b->fields_only)
        code = drive_passes(g, "load", "load");
    else if (b->count > 1)
        b->shared = drive_passes(g, "load", "span") == EXIT_DONE;
    if (dup2(shown, STDERR_FILENO) < 0)
        return EXIT_BUG;
    for (b->now = 0; b->now < b->count && code == EXIT_DONE; b->now++)
        code = child_copy(g, &default_limits, &work, b->nowhere);
    return code;
}

/* ---- in the parent --------------------------------------------------------------- */

/* Answers of a child, which runs the description, are not trusted: did we ask for this
 * candidate? */
static bool asked_for(const Group *b, int job)
{
    for (int i = 0; i < b->count; i++)
        if (b->job[i] == job)
            return true;
    return false;
}

static bool take_answers(void *with, const char *s, size_t n)
{
    Group *b = with;

    while (n) {
        const size_t part =
            (size_t)min_i64((int64_t)n, (int64_t)(sizeof b->answer - b->got));

        memcpy((char *)&b->answer + b->got, s, part);
        b->got += part;
        s += part;
        n -= part;
        if (b->got < sizeof b->answer)
            break;
        if (!asked_for(b, b->answer.job))
            return false;
        b->answer.plan.why[sizeof b->answer.plan.why - 1] = '\0';
        *b->jobs[b->answer.job].plan = b->answer.plan;
        b->got = 0;
        if (b->done)
            b->done(b->with);
    }
    return true;
}

/* The fields of a candidate that passes up to span read. */
static OptionList common_sets(Gen *g, const OptionList *sets)
{
    OptionList common = {0};

    for (int i = 0; sets && i < sets->count; i++)
        if (!check_is_schedule(sets->items[i]))
            *gen_push(g, &common) = sets->items[i];
    return common;
}

static bool same_sets(const OptionList *a, const OptionList *b)
{
    bool same = a->count == b->count;

    for (int i = 0; same && i < a->count; i++)
        same = !strcmp(a->items[i], b->items[i]);
    return same;
}

static int run_batch(Gen *g, Group *b)
{
    Gen own = candidate_gen(g, &b->common, "tune");
    const ChildWork work = {.what = "the candidates",
                            .cause = "is there a loop in the description?",
                            .with = b,
                            .work = plan_in_child,
                            .take = take_answers};
    Limits limits = default_limits;
    int code;

    limits.wall_seconds *= b->count + 1; /* what each of them may take */
    limits.output_bytes *= b->count + 1;
    code = child_stream(&own, &limits, &work);
    gen_require(code != EXIT_DONE || b->got == 0, "a plan of %zu bytes", b->got);
    return code;
}

int tune_plan(Gen *g, const TuneJob *jobs, int n, bool fields_only,
              void (*done)(void *with), void *with)
{
    bool *planned = gen_alloc(g, sizeof *planned * (size_t)(n + 1));
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int code = EXIT_DONE;

    gen_require(nowhere >= 0, "/dev/null cannot be opened");
    for (int first = 0; first < n && code == EXIT_DONE; first++) {
        Group b = {.g = g,
                   .jobs = jobs,
                   .fields_only = fields_only,
                   .nowhere = nowhere,
                   .done = done,
                   .with = with};

        if (!fields_only)
            b.common = common_sets(g, jobs[first].sets);
        for (int i = first; i < n && b.count < GROUP; i++) {
            const OptionList common = common_sets(g, jobs[i].sets);

            if (planned[i] || (!fields_only && !same_sets(&common, &b.common)))
                continue;
            planned[i] = true;
            b.job[b.count++] = i;
        }
        if (b.count)
            code = run_batch(g, &b);
    }
    close(nowhere);
    return code;
}

/* ---- one of them ----------------------------------------------------------------- */

int tune_check(Gen *g, const OptionList *sets)
{
    Gen own = candidate_gen(g, sets, "check");

    return child_run(&own, &default_limits, drive);
}

int tune_generate(Gen *g, const OptionList *sets, const char *folder)
{
    Gen own = candidate_gen(g, sets, "generate");
    int code;

    own.opt.output = folder;
    own.opt.quiet = true;
    own.base.only_errors = true; /* the same warnings for each candidate */
    own.opt.force = false;
    code = child_run(&own, &default_limits, drive);
    return code == EXIT_DONE ? files_write(&own) : code;
}
