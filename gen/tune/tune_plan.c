/* SPDX-License-Identifier: Apache-2.0 */
/* tune_plan.c: one candidate's plan, or its trainer. In: the options of the command, and
 * the fields that the candidate sets. Out: what the passes say of it, or a folder.
 *
 * Each is made in a child of its own: what a description does is bounded by the child's
 * limits, and nothing of one candidate is left when the next is planned. What the passes
 * print is not shown: a candidate that is refused is a row of a table. */
#include "tune/tune.h"

#include "base/child.h"
#include "drive/drive.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

typedef struct Planned {
    TunePlan *plan;
    size_t got;  /* bytes */
    int nowhere; /* /dev/null, which the child itself must not open to write */
} Planned;

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

static void fill(Gen *g, TunePlan *p)
{
    const Model *m = &g->model;
    const PlanBytes b = plan_bytes(g);

    p->numerics = g->numerics_hash;
    p->resolved = hash_bytes(m->resolved_lua, strlen(m->resolved_lua));
    p->program = program_hash(g);
    p->bytes = b.total;
    p->budget_bytes = m->budget_bytes;
    p->seconds = g->prog.step_seconds;
    p->seq_tokens = m->seq_tokens;
    p->global_batch = m->global_batch;
    p->step_tokens = m->global_batch * m->seq_tokens;
    p->vocab = m->vocab;
    p->world_size = m->mesh.world_size;
    p->node_ranks = m->mesh.node_ranks;
    p->blocks = g->blocks.count;
    p->rounds = m->micro_batches / m->mesh.data_ranks;
    p->document_end = m->packed ? m->document_end : -1;
    p->cpu = !strcmp(m->target->name, "cpu");
    p->masked = m->loss_mask;
    p->auto_recompute = m->recompute == RECOMPUTE_AUTO;
}

static int plan_in_child(Gen *g, void *with)
{
    TunePlan plan = {0};

    if (dup2(((Planned *)with)->nowhere, STDERR_FILENO) < 0)
        return EXIT_BUG;
    plan.code = drive(g);
    if (plan.code == EXIT_DONE || plan.code == EXIT_FIT)
        fill(g, &plan);
    if (diag_first_error(g))
        keep_reason(&plan, diag_first_error(g));
    child_put(&plan, sizeof plan);
    return EXIT_DONE;
}

static bool take_plan(void *with, const char *s, size_t n)
{
    Planned *p = with;

    if (n > sizeof *p->plan - p->got)
        return false;
    memcpy((char *)p->plan + p->got, s, n);
    p->got += n;
    return true;
}

/* A Gen of its own for a candidate: the options, and its fields behind those of the
 * command line. */
static Gen candidate_gen(Gen *g, const OptionList *sets, const char *command)
{
    Gen own = {.opt = g->opt};
    OptionList all = {0};

    for (int i = 0; i < g->opt.sets.count; i++)
        *gen_push(g, &all) = g->opt.sets.items[i];
    for (int i = 0; sets && i < sets->count; i++)
        *gen_push(g, &all) = sets->items[i];
    own.opt.sets = all;
    own.opt.command = command;
    own.opt.json = false;
    own.base.color = g->base.color;
    return own;
}

int tune_plan(Gen *g, const OptionList *sets, TunePlan *plan)
{
    Gen own = candidate_gen(g, sets, "tune");
    Planned p = {plan, 0, open("/dev/null", O_WRONLY | O_CLOEXEC)};
    const ChildWork work = {.what = "a candidate",
                            .cause = "is there a loop in the description?",
                            .with = &p,
                            .work = plan_in_child,
                            .take = take_plan};
    int code;

    gen_require(p.nowhere >= 0, "/dev/null cannot be opened");
    code = child_stream(&own, &default_limits, &work);
    close(p.nowhere);
    gen_require(code != EXIT_DONE || p.got == sizeof *plan, "a plan of %zu bytes", p.got);
    return code;
}

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
    own.opt.force = false;
    code = child_run(&own, &default_limits, drive);
    return code == EXIT_DONE ? files_write(&own) : code;
}
