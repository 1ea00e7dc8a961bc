/* SPDX-License-Identifier: Apache-2.0 */
/* drive.c: the one function that calls every pass in order, and the planning loop. In: a
 * description and the options of a command. Out: the Gen, as far as the command needs it.
 *
 * A pass sees earlier passes only through the Gen, and calls none. Two decisions need
 * plans: what recompute = "auto" keeps, and what would fit if the budget is exceeded. The
 * loop for both is here: a choice is set, the passes from unroll to simulate plan it, its
 * cost is recorded, and the plan is dropped. The number of plans is bounded (search.c)
 * and does not depend on the machine, so the result is the same everywhere. */
#include "drive/drive.h"
#include "base/show.h"
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Pass {
    const char *name;
    void (*run)(Gen *g);
    const char *what; /* from → to */
} Pass;

static const Pass passes[N_PASSES] = {
    {"load", load_description, "Lua file → the raw record, with places"},
    {"check", check_model, "raw record, overrides → model, every field resolved"},
    {"ops", ops_load, "op folders → rules"},
    {"graph", graph_build, "architecture → blocks, classes, forward nodes"},
    {"config", config_make, "architecture's config → config.json, which fits the graph"},
    {"grad", grad_build, "forward → joint forward and backward graph"},
    {"encode", encode_weights, "weights that products read in fp8 → gathered so"},
    {"split", split_graph, "joint graph → the same in parts, with meets"},
    {"fuse", fuse_graph, "joint graph → fused nodes; the numerics hash"},
    {"span", span_build, "nodes → spans, slabs, places of values"},
    {"checkpoint", checkpoint_layout, "parameters → files of a checkpoint"},
    {"shard", shard_params, "parameters → segments, units"},
    {"policy", drive_policy, "choices outside the hash"},
    {"unroll", unroll_step, "units, spans → instructions, buffers"},
    {"schedule", schedule_step, "instructions → waits, happens-before"},
    {"place", place_buffers, "buffers → offsets"},
    {"simulate", simulate_step, "step → predicted seconds"},
    {"emit", emit_files, "everything → files"},
};

const char *drive_pass_name(int i)
{
    return i < N_PASSES ? passes[i].name : NULL;
}

/* ---- the planning loop ----------------------------------------------------------- */

Cost drive_try(Gen *g)
{
    void *mark = gen_mark(g);
    Cost cost;

    policy_settle(g);
    unroll_step(g);
    schedule_step(g);
    place_buffers(g);
    simulate_step(g);
    cost = policy_cost(g);
    memset(&g->prog, 0, sizeof g->prog);
    gen_release(g, mark);
    return cost;
}

void drive_policy(Gen *g)
{
    policy_choose(g);
    if (g->model.recompute != RECOMPUTE_AUTO)
        return;
    search_begin(g);
    while (search_next(g)) {
        Cost cost = drive_try(g);

        search_answer(g, &cost);
    }
}

/* ---- checks of the final plan, not of those tried -------------------------------- */

/* Candidates of tune are many, so those that no placement can make fit end here. */
static void judge_bound(Gen *g)
{
    const Model *m = &g->model;

    if (strcmp(g->opt.command, "tune") != 0 || g->opt.exact || m->budget_bytes == 0 ||
        plan_least_bytes(g) <= m->budget_bytes)
        return;
    diag_add(g, DIAG_ERROR, (Pos){0}, NULL, "the plan needs more than the budget");
    g->base.exit_code = EXIT_FIT;
}

/* Sums of sizes stay far from what 64 bits hold. */
static void judge_sizes(Gen *g)
{
    const int64_t most = INT64_C(1) << 60;
    int64_t total = 0;

    for (int i = 0; i < g->prog.bufs.count; i++) {
        const int64_t bytes = g->prog.bufs.items[i].bytes;

        if (bytes < 0 || bytes > most - total) {
            diag_add(g, DIAG_ERROR, (Pos){0}, "use smaller sizes, or fewer blocks",
                     "a rank needs more than 2^60 bytes, up to %s",
                     g->prog.bufs.items[i].name);
            return;
        }
        total += bytes;
    }
}

/* What each block keeps for its backward. */
static Keep *kept_blocks(Gen *g)
{
    Keep *kept = gen_alloc(g, sizeof *kept * (size_t)(g->blocks.count + 1));

    for (int b = 0; b < g->blocks.count; b++)
        kept[b] = g->blocks.items[b].keep;
    return kept;
}

/* The description with some fields changed: "NAME = VALUE, ...". */
static Gen gen_with(Gen *g, const char *fields)
{
    Gen own = {.opt = g->opt, .base.silent = true};

    own.opt.command = "tune"; /* it ends as soon as nothing fits */
    own.opt.image = NULL;
    own.opt.sets = (OptionList){0};
    for (int i = 0; i < g->opt.sets.count; i++)
        *gen_push(g, &own.opt.sets) = g->opt.sets.items[i];
    for (const char *s = fields, *end; *s; s = *end ? end + 2 : end) {
        const char *value = strstr(s, " = ");

        end = strstr(s, ", ");
        end = end ? end : s + strlen(s);
        *gen_push(g, &own.opt.sets) = gen_printf(g, "%.*s=%.*s", (int)(value - s), s,
                                                 (int)(end - value - 3), value + 3);
    }
    return own;
}

/* Plans it again so. Out: an exit code and the cost, if it fits. */
static int plan_with(Gen *g, const char *fields, Cost *cost)
{
    Gen own = gen_with(g, fields);
    int code = drive_passes(&own, "load", "place");

    if (code == EXIT_DONE)
        *cost = policy_cost(&own);
    return code;
}

/* What a step costs because it has more parts than ranks: compares with the plan that has
 * as many parts as ranks. If that one does not fit, there is no price. */
static void price_parts(Gen *g)
{
    Text fewer = {.g = g};
    Gen own;
    Cost cost;

    for (int a = 0; a < N_PARTS_AXES; a++)
        if (plan_parts_along(g, a) > 1)
            text_printf(&fewer, "%sparts.%s = %lld", fewer.len > 0 ? ", " : "",
                        axis_name(parts_mesh(a)), (long long)parts_ranks(&g->model, a));
    if (fewer.len == 0)
        return;
    own = gen_with(g, fewer.s);
    if (drive_passes(&own, "load", "simulate") != EXIT_DONE)
        return;
    cost = policy_cost(&own);
    if (isinf(g->prog.step_seconds) || isinf(cost.seconds))
        return;
    g->parts_price.fewer = fewer.s;
    g->parts_price.seconds = g->prog.step_seconds - cost.seconds;
    g->parts_price.bytes = policy_cost(g).bytes - cost.bytes;
}

/* After an error, that ranks have no parts to share: what a step costs with them, if it
 * fits. */
static void price_needed_parts(Gen *g)
{
    Text parts = {.g = g};
    const char *mesh = NULL;
    int errors = 0;
    Gen own;
    Cost cost;

    for (int a = 0; a < N_PARTS_AXES; a++) {
        if (g->needed_parts[a] == 0)
            continue;
        text_printf(&parts, "%sparts.%s = %lld", errors++ ? ", " : "",
                    axis_name(parts_mesh(a)), (long long)g->needed_parts[a]);
        mesh = mesh ? mesh : gen_printf(g, "mesh.%s", axis_name(parts_mesh(a)));
    }
    if (!mesh || diag_errors(g) != errors || g->base.silent)
        return;
    own = gen_with(g, parts.s);
    if (drive_passes(&own, "load", "simulate") != EXIT_DONE)
        return;
    cost = policy_cost(&own);
    diag_add(g, DIAG_NOTE, model_pos(g, mesh), NULL,
             "with %s a step takes about %s, and a rank needs %s (%s)", parts.s,
             show_seconds(g, cost.seconds), show_bytes(g, cost.bytes), cost_source(&own));
}

/* May parts along the axis save memory? Those of heads and features only where the
 * architecture marks parameters for them. Where a description has parts, more along
 * another axis are not proposed. */
static bool parts_may_help(const Gen *g, PartsAxis axis)
{
    const Model *m = &g->model;
    bool marked = axis == PARTS_CONTEXT;

    for (int i = 0; i < g->params.count; i++)
        marked = marked || g->params.items[i].decl->mark[PARTS_TENSOR].kind == PART_CUT;
    return marked && (parts_all(m) == 1 || m->parts[axis] > 1);
}

/* The fewest ranks along the axis of parts that make the plan fit. */
static bool find_parts(Gen *g, PartsAxis along, Change *c)
{
    const Model *m = &g->model;
    const char *axis = axis_name(parts_mesh(along));
    const int64_t now = parts_ranks(m, along);
    const int64_t most = now * STARTED_RANKS / m->mesh.world_size;

    if (!parts_may_help(g, along))
        return false;
    for (int64_t n = 2 * now; n <= most; n *= 2) {
        const int64_t parts = max_i64(n, m->parts[along]);
        const int code = plan_with(g,
                                   gen_printf(g, "parts.%s = %lld, mesh.%s = %lld", axis,
                                              (long long)parts, axis, (long long)n),
                                   &c->cost);

        if (code == EXIT_FIT)
            continue;
        c->with = gen_printf(g, "mesh.%s = %lld", axis, (long long)n);
        if (parts != m->parts[along])
            c->with = gen_printf(g, "parts.%s = %lld with %s, another numerics hash,",
                                 axis, (long long)parts, c->with);
        c->ranks = m->mesh.world_size / now * n;
        return code == EXIT_DONE; /* what n parts do not divide, 2 n do not; nor are 2 n
                                   * allowed where n are not */
    }
    return false;
}

/* A plan that is too large is planned again with fewer bytes of activations and of
 * gradients, to find a change that fits; then it is the plan again. */
static void judge_budget(Gen *g)
{
    Model *m = &g->model;
    const Program program = g->prog;
    const Keep *kept = kept_blocks(g);
    int64_t leaves[2] = {m->leaves, policy_most_leaves(g)};
    bool searched = m->recompute == RECOMPUTE_AUTO; /* it has tried that already */
    Change changes[4] = {{"", 0, m->leaves, policy_cost(g), 0}}, parts[2];
    int n = 1, n_parts = 0;

    if (m->budget_bytes == 0 || changes[0].cost.bytes <= m->budget_bytes)
        return;
    if (!strcmp(g->opt.command, "tune")) {
        policy_over_budget(g, changes, 1, NULL, 0, NULL);
        return;
    }
    for (int recompute = 0; recompute < (searched ? 1 : 2); recompute++) {
        if (recompute)
            policy_recompute_all(g);
        for (int most = recompute ? 0 : 1; most < (leaves[1] > leaves[0] ? 2 : 1);
             most++) {
            Change *c = &changes[n++];
            Text with = {.g = g};

            m->leaves = leaves[most];
            text_printf(&with, "%s", recompute ? "recompute = \"block\"" : "");
            if (most)
                text_printf(&with, "%sleaves = %lld", recompute ? ", " : "",
                            (long long)m->leaves);
            *c = (Change){with.s, recompute + most, m->leaves, drive_try(g), 0};
        }
    }
    m->leaves = leaves[0];
    for (int b = 0; b < g->blocks.count; b++)
        g->blocks.items[b].keep = kept[b];
    policy_settle(g);
    g->prog = program;
    n_parts += find_parts(g, PARTS_TENSOR, &parts[n_parts]);
    n_parts += find_parts(g, PARTS_CONTEXT, &parts[n_parts]);
    policy_over_budget(g, changes, n, parts, n_parts, plan_with);
}

/* May a warning take another plan? */
static bool shows_warnings(const Gen *g)
{
    return !strcmp(g->opt.command, "plan") || !strcmp(g->opt.command, "check") ||
           !strcmp(g->opt.command, "generate");
}

/* Does fp8 make a step longer? */
static void judge_fp8(Gen *g)
{
    Gen own;
    Cost without;

    if (!g->model.linear_fp8 || !g->model.target->device || !shows_warnings(g))
        return;
    own = gen_with(g, "dtypes.linear = \"param\"");
    if (drive_passes(&own, "load", "simulate") != EXIT_DONE)
        return;
    without = policy_cost(&own);
    warn_fp8(g, &without);
}

/* Are bytes for sums of gradients worth a warning? The other choice is planned, too. */
static void judge_sums(Gen *g)
{
    Model *m = &g->model;
    const SumChoice now = {m->leaves, m->accumulate_sharded};
    const Program program = g->prog;
    SumChoice other;
    Cost cost;

    if (!shows_warnings(g) || !warn_sums_find(g, &other))
        return;
    m->leaves = other.leaves;
    m->accumulate_sharded = other.sharded;
    cost = drive_try(g);
    m->leaves = now.leaves;
    m->accumulate_sharded = now.sharded;
    policy_settle(g);
    g->prog = program;
    warn_sums(g, &other, &cost);
}

/* --image: the kernels that this description has, as generate writes them, against those
 * of the file. Also for plans over the budget, so before that is judged. */
static void judge_image(Gen *g)
{
    const int before = base_of(g)->files.count;
    const char *launches = NULL;

    if (!g->opt.image)
        return;
    if (strcmp(g->model.target->name, "cuda") != 0) {
        diag_add(g, DIAG_ERROR, (Pos){.file = g->opt.image}, "--target cuda",
                 "--image: kernels are compiled to images for cuda, and the target is %s",
                 g->model.target->name);
        return;
    }
    simulate_step(g);
    emit_files(g);
    for (int i = before; i < base_of(g)->files.count; i++) {
        const OutFile *f = &base_of(g)->files.items[i];

        if (!strcmp(f->path, "kernels.c"))
            launches = gen_strndup(g, f->data, f->bytes);
    }
    base_of(g)->files.count = before; /* nothing is written */
    if (!diag_errors(g)) {
        gen_require(launches, "no kernels.c");
        plan_image_read(g, launches);
    }
}

static const struct {
    const char *pass; /* the checks after it */
    void (*judge)(Gen *g);
} judges[] = {{"graph", dims_check_read}, {"unroll", judge_sizes},
              {"unroll", judge_bound},    {"place", judge_image},
              {"place", judge_budget},    {"simulate", judge_sums},
              {"simulate", judge_fp8},    {"simulate", warn_plan}};

/* ---- the passes ------------------------------------------------------------------ */

void drive_print(Gen *g, void (*print)(Gen *g, Text *t))
{
    Text t = {.g = g};

    print(g, &t);
    fwrite(t.s, 1, t.len, stdout);
}

static void print_dump(Gen *g, Text *t)
{
    if (!strcmp(g->opt.dump, "emit"))
        emit_dump(g, t);
    else
        dump_pass(g, g->opt.dump, t);
}

static int run_pass(Gen *g, const Pass *p)
{
    int code;

    p->run(g);
    if (!strcmp(p->name, "check"))
        price_needed_parts(g);
    code = diag_finish(g);
    if (code == EXIT_DONE) {
        verify_after(g, p->name);
        code = diag_finish(g);
    }
    for (size_t i = 0; code == EXIT_DONE && i < sizeof judges / sizeof *judges; i++) {
        if (!strcmp(judges[i].pass, p->name)) {
            judges[i].judge(g);
            code = diag_finish(g);
        }
    }
    return code;
}

static int pass_named(const char *name)
{
    for (int i = 0; i < N_PASSES; i++)
        if (!strcmp(passes[i].name, name))
            return i;
    gen_die("no pass %s", name);
}

int drive_passes(Gen *g, const char *first, const char *last)
{
    const int end = pass_named(last);
    int code = EXIT_DONE;

    for (int i = pass_named(first); i <= end && code == EXIT_DONE; i++)
        code = run_pass(g, &passes[i]);
    return code;
}

static void print_kernels(Gen *g, Text *t)
{
    plan_print_kernels(g, t);
    if (plan_run_is_asked(g))
        plan_print_run(g, t);
}

static void show_plan(Gen *g)
{
    if (!g->opt.kernels || g->opt.json)
        price_parts(g);
    drive_print(g, g->opt.json      ? plan_print_json
                   : g->opt.kernels ? print_kernels
                   : g->opt.all     ? plan_print
                                    : plan_print_screen);
    plan_make_files(g);
}

static bool dumps(const Gen *g, const char *pass)
{
    return g->opt.dump && !strcmp(g->opt.dump, pass);
}

/* A plan over the budget is shown, too: its error says that it does not fit. Its buffers
 * have offsets, so it can be simulated; nothing is emitted of it. */
static int show_misfit(Gen *g, int code)
{
    if (!dumps(g, "place"))
        simulate_step(g);
    if (!g->opt.dump)
        show_plan(g);
    else if (!dumps(g, "emit"))
        drive_print(g, print_dump);
    return code;
}

int drive(Gen *g)
{
    const bool plan = !strcmp(g->opt.command, "plan");

    for (int i = 0; i < N_PASSES; i++) {
        int code;

        if (plan && !strcmp(passes[i].name, "emit") && !dumps(g, "emit"))
            break;
        code = run_pass(g, &passes[i]);
        if (code != EXIT_DONE)
            return (plan || g->opt.dump) && code == EXIT_FIT ? show_misfit(g, code)
                                                             : code;
        if (dumps(g, passes[i].name)) {
            drive_print(g, print_dump);
            return EXIT_DONE;
        }
    }
    if (plan)
        show_plan(g);
    if (!strcmp(g->opt.command, "check"))
        plan_print_checked(g);
    return EXIT_DONE;
}
