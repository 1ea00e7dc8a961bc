/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: the raw description → the resolved one. In: the fields that load read. Out:
 * g->model, from the description alone, so that nothing inside the numerics hash can
 * depend on a budget. Every field is validated by its own rule (check_value.c), then
 * against the others: dims divide, the mesh fits, dtypes go together. All mistakes are
 * reported at once. */
#include "describe/check.h"
#include "base/sandbox.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

/* ---- fields against each other --------------------------------------------------- */

/* Each of them computes micro-batches of its own; 1 if the mesh is wrong. */
static int64_t data_ranks(Check *c)
{
    int64_t replicate, shard;

    return value_int(c, "mesh.replicate", &replicate) &&
                   value_int(c, "mesh.shard", &shard)
               ? replicate * shard
               : 1;
}

/* False if leaves is wrong, so that later checks must not use it. */
static bool check_batches(Check *c)
{
    Gen *g = c->g;
    int64_t global, micro, leaves, seq, m, p = 1;

    if (!value_int(c, "micro_batch", &micro))
        return false;
    if (value_int(c, "seq", &seq) && micro * seq > INT32_MAX)
        COMPLAIN(c, "micro_batch",
                 gen_printf(g, "use at most %lld", (long long)(INT32_MAX / seq)),
                 "micro_batch: %lld sequences of seq (%lld) are 2^31 tokens or more",
                 (long long)micro, (long long)seq);
    if (!value_int(c, "global_batch", &global))
        return false;
    if (global % micro != 0) {
        const int64_t unit = micro * data_ranks(c), below = global / unit * unit;

        COMPLAIN(c, "global_batch",
                 below ? gen_printf(g, "use %lld or %lld", (long long)below,
                                    (long long)(below + unit))
                       : gen_printf(g, "use %lld", (long long)unit),
                 "global_batch: %lld is not a multiple of micro_batch (%lld)",
                 (long long)global, (long long)micro);
        return false;
    }
    m = global / micro;
    if (!value_int(c, "leaves", &leaves))
        return false;
    if (m % leaves == 0)
        return true;
    while (m % (p * 2) == 0 && p * 2 < leaves)
        p *= 2;
    COMPLAIN(c, "leaves", gen_printf(g, "use %lld", (long long)p),
             "leaves: %lld does not divide the %lld micro-batches of a step "
             "(global_batch %lld / "
             "micro_batch %lld)",
             (long long)leaves, (long long)m, (long long)global, (long long)micro);
    return false;
}

/* The path of the axis that determines the number of ranks. */
static const char *mesh_path(Check *c)
{
    int64_t shard;

    return value_int(c, "mesh.shard", &shard) && shard > 1 ? "mesh.shard"
                                                           : "mesh.replicate";
}

/* The next power of two above `world`, as the end of a help: " or 8" if it divides
 * leaves, ", or 8 with leaves = 8" if it divides the m micro-batches, else "". */
static const char *nearest_above(Gen *g, int64_t world, int64_t leaves, int64_t m)
{
    int64_t above = 1;

    while (above < world)
        above *= 2;
    return leaves % above == 0 ? gen_printf(g, " or %lld", (long long)above)
           : m % above == 0    ? gen_printf(g, ", or %lld with leaves = %lld",
                                            (long long)above, (long long)above)
                               : "";
}

/* The data ranks must divide leaves; the help says which numbers do, or what to raise. */
static void check_ranks(Check *c, int64_t world)
{
    Gen *g = c->g;
    int64_t leaves, m, global, micro, most = 1;
    const char *help;

    if (!value_int(c, "leaves", &leaves) || !value_int(c, "global_batch", &global) ||
        !value_int(c, "micro_batch", &micro) || leaves % world == 0)
        return;
    m = global / micro;
    while (most * 2 <= leaves && most * 2 < world)
        most *= 2;
    if ((world & (world - 1)) != 0)
        help = gen_printf(
            g, "use %lld%s: leaves, and the ranks that divide it, are powers of two",
            (long long)most, nearest_above(g, world, leaves, m));
    else if (m % world == 0)
        help = gen_printf(g, "write leaves = %lld", (long long)world);
    else
        help = gen_printf(
            g, "use at most %lld%s, or a global_batch that is a multiple of %lld",
            (long long)(m & -m),
            leaves < (m & -m) ? gen_printf(g, " with leaves = %lld", (long long)(m & -m))
                              : "",
            (long long)(world * micro));
    COMPLAIN(c, mesh_path(c), help, "mesh: %lld ranks do not divide leaves (%lld)",
             (long long)world, (long long)leaves);
}

/* What a strategy requires of the mesh's axes. full_shard over a mesh with copies would
 * be ambiguous: to shard over all ranks, write them as mesh.shard. */
static void check_strategy(Check *c, int64_t replicate, int64_t shard)
{
    Gen *g = c->g;
    const char *strategy = value_str(c, "strategy");
    const StrategyRule *rule = strategy_rule(strategy_named(strategy));

    if (rule->cut[HELD_OPTIMIZER] && !rule->copies && replicate > 1 && shard == 1)
        COMPLAIN(c, "strategy",
                 gen_printf(g, "write mesh = { shard = %lld }, or strategy = \"%s\"",
                            (long long)replicate, strategy_name(NO_SHARD)),
                 "strategy: \"%s\" shards over mesh.shard, which is 1 beside "
                 "replicate %lld",
                 strategy, (long long)replicate);
    else if (rule->one_copy && replicate > 1)
        COMPLAIN(c, "strategy",
                 gen_printf(
                     g,
                     "write strategy = \"%s\"%s to keep %lld copies, or "
                     "mesh = { shard = %lld } to shard over all ranks",
                     strategy_name(HYBRID_SHARD),
                     rule->cut[HELD_BETWEEN] ? "" : " with reshard_after_forward = false",
                     (long long)replicate, (long long)(replicate * shard)),
                 "strategy: \"%s\" keeps one copy, but mesh.replicate is %lld", strategy,
                 (long long)replicate);
    if (rule->copies && (replicate == 1 || shard == 1))
        COMPLAIN(c, "strategy",
                 gen_printf(g,
                            "write strategy = \"%s\", or mesh = { replicate = 2, "
                            "shard = %lld }",
                            strategy_name(replicate == 1 ? FULL_SHARD : NO_SHARD),
                            (long long)max_i64(2, replicate * shard / 2)),
                 "strategy: \"%s\" copies over mesh.replicate and shards over "
                 "mesh.shard, but %s is 1",
                 strategy, replicate == 1 ? "mesh.replicate" : "mesh.shard");
}

/* true means a group of all ranks, false a group of one. */
int64_t check_reshard_ranks(Check *c, int64_t shard)
{
    int64_t ranks = shard;

    if (value_push(c, "reshard_after_forward") == LUA_TNUMBER)
        ranks = lua_tointeger(c->L, -1);
    else if (lua_isboolean(c->L, -1) && !lua_toboolean(c->L, -1))
        ranks = 1;
    lua_pop(c->L, 1);
    return ranks;
}

static void check_reshard(Check *c, int64_t shard)
{
    Gen *g = c->g;
    const char *path = "reshard_after_forward", *strategy = value_str(c, "strategy");
    const StrategyRule *rule = strategy_rule(strategy_named(strategy));
    bool group = value_push(c, path) == LUA_TNUMBER;
    int64_t ranks = check_reshard_ranks(c, shard), below = 1;

    lua_pop(c->L, 1);
    if (group && !rule->cut[HELD_PARAMS]) {
        COMPLAIN(c, path, "leave it out", "%s: with \"%s\" there is nothing to free",
                 path, strategy);
    } else if (group && shard % ranks != 0) {
        while (shard % (below * 2) == 0 && below * 2 <= ranks)
            below *= 2;
        COMPLAIN(c, path,
                 below > 1 ? gen_printf(g, "use %lld, or true", (long long)below)
                           : "use true or false",
                 "%s: groups of %lld do not divide mesh.shard (%lld)", path,
                 (long long)ranks, (long long)shard);
    } else if (rule->cut[HELD_PARAMS] && !rule->cut[HELD_BETWEEN] && ranks != 1) {
        COMPLAIN(c, path,
                 gen_printf(g, "leave it out, or write strategy = \"%s\"",
                            strategy_name(FULL_SHARD)),
                 "%s: \"%s\" keeps the gathered weights until the backward has used them",
                 path, strategy);
    }
}

/* Is a folder to be written? Passes can be shown without one. */
static bool writes_trainer(const Gen *g)
{
    return g->opt.output && !g->opt.dump && g->opt.command &&
           !strcmp(g->opt.command, "generate");
}

/* The mesh of a trainer that one machine starts: fewer ranks along shard, if that is
 * enough. */
static const char *one_machine(Gen *g, int64_t world, int64_t shard, int64_t most)
{
    const int64_t fit = most / (world / shard);

    return fit ? gen_printf(g, "to run it on one machine: --set mesh.shard=%lld",
                            (long long)fit)
               : gen_printf(g, "to run it on one machine: at most %lld ranks in all",
                            (long long)most);
}

/* Ranks fill whole nodes. Those along tensor exchange values in every layer, with nothing
 * to hide it behind, so a node has all of a group. */
static void check_node(Check *c, int64_t world, int64_t tensor)
{
    int64_t node;

    if (!value_int(c, "mesh.node", &node))
        return;
    if (world % node)
        COMPLAIN(c, "mesh.node",
                 gen_printf(c->g, "use a divisor of %lld", (long long)world),
                 "mesh.node: %lld ranks do not make whole nodes of %lld",
                 (long long)world, (long long)node);
    else if (tensor > node)
        COMPLAIN(c, "mesh.tensor",
                 gen_printf(c->g,
                            "use tensor = %lld, and mesh.context or mesh.shard for ranks "
                            "of other nodes",
                            (long long)node),
                 "mesh.tensor: %lld ranks do not fit in a node of %lld (mesh.node)",
                 (long long)tensor, (long long)node);
}

static void check_mesh(Check *c, bool batches_good)
{
    Gen *g = c->g;
    int64_t replicate, shard, context, tensor, world;
    const Target *target;

    if (!value_int(c, "mesh.replicate", &replicate) ||
        !value_int(c, "mesh.shard", &shard) || !value_int(c, "mesh.context", &context) ||
        !value_int(c, "mesh.tensor", &tensor))
        return;
    world = replicate * shard * context * tensor;
    if (world > MAX_RANKS) {
        COMPLAIN(c, mesh_path(c), gen_printf(g, "use at most %d ranks", MAX_RANKS),
                 "mesh: %lld ranks (replicate %lld x shard %lld%s%s) are more than %d",
                 (long long)world, (long long)replicate, (long long)shard,
                 context > 1 ? gen_printf(g, " x context %lld", (long long)context) : "",
                 tensor > 1 ? gen_printf(g, " x tensor %lld", (long long)tensor) : "",
                 MAX_RANKS);
        return;
    }
    if (world > STARTED_RANKS && writes_trainer(g))
        COMPLAIN(c, mesh_path(c),
                 gen_printf(g, "use at most %d ranks, or `fsdpgen plan`, which takes %d",
                            STARTED_RANKS, MAX_RANKS),
                 "mesh: %lld ranks can be planned, but a trainer starts at most %d",
                 (long long)world, STARTED_RANKS);
    check_node(c, world, tensor);
    if (strategy_named(value_str(c, "strategy")) != N_STRATEGIES) {
        check_strategy(c, replicate, shard);
        check_reshard(c, shard);
    }
    target = target_named(value_kind(c, "target"));
    if (target->most_ranks && world > target->most_ranks)
        diag_add(g, DIAG_WARNING, place_of(g, mesh_path(c)),
                 one_machine(g, world, shard, target->most_ranks),
                 "mesh: the %s target starts at most %lld ranks, on one machine; this "
                 "trainer of %lld can be read and compiled, not run",
                 target->name, (long long)target->most_ranks, (long long)world);
    if (batches_good)
        check_ranks(c, replicate * shard);
}

/* Ranks along an axis share its parts, each an equal number of them. */
static void check_axis_parts(Check *c, PartsAxis axis)
{
    const char *name = axis_name(parts_mesh(axis));
    const char *other =
        axis_name(parts_mesh(axis == PARTS_TENSOR ? PARTS_CONTEXT : PARTS_TENSOR));
    const char *parts_of = gen_printf(c->g, "parts.%s", name);
    const char *ranks_of = gen_printf(c->g, "mesh.%s", name), *help;
    int64_t parts, ranks, others = 1;

    if (!value_int(c, parts_of, &parts) || !value_int(c, ranks_of, &ranks) ||
        parts % ranks == 0)
        return;
    value_int(c, gen_printf(c->g, "parts.%s", other), &others);
    if (parts == 1 && others > 1) {
        help = gen_printf(c->g,
                          "leave it out: ranks along mesh.%s share the parts, which are "
                          "those of parts.%s",
                          other, other);
    } else {
        c->g->needed_parts[axis] = ranks;
        help = gen_printf(c->g,
                          "write parts = { %s = %lld }: it changes rounding and the "
                          "numerics hash; the number of ranks does not",
                          name, (long long)ranks);
    }
    COMPLAIN(c, ranks_of, help, "%s: %lld ranks do not share %lld part%s (%s) equally",
             ranks_of, (long long)ranks, (long long)parts, parts > 1 ? "s" : "",
             parts_of);
}

/* Of both axes together: RT_MAX_PARTS of runtime/rt.h. */
enum { MOST_PARTS = 64 };

static void check_parts(Check *c)
{
    int64_t context, tensor;

    check_axis_parts(c, PARTS_TENSOR);
    check_axis_parts(c, PARTS_CONTEXT);
    if (value_int(c, "parts.context", &context) &&
        value_int(c, "parts.tensor", &tensor) && context * tensor > MOST_PARTS)
        COMPLAIN(c, "parts.context",
                 gen_printf(c->g, "use %lld", (long long)(MOST_PARTS / tensor)),
                 "parts.context: %lld parts of each sequence and %lld of heads and "
                 "features (parts.tensor) are more than %d together",
                 (long long)context, (long long)tensor, MOST_PARTS);
}

static void check_dtypes(Check *c)
{
    static const char *const others[] = {"reduce", "master", "moments"};
    const char *param = value_str(c, "dtypes.param");

    if (!*param)
        return;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *path = gen_printf(c->g, "dtypes.%s", others[i]);
        const char *dtype = value_str(c, path);
        bool f64 = !strcmp(dtype, "f64");

        if (*dtype && f64 != !strcmp(param, "f64"))
            COMPLAIN(
                c, path,
                gen_printf(c->g, "use \"%s\", or leave it out", f64 ? "f32" : "f64"),
                "%s: \"%s\" does not go with dtypes.param (\"%s\"): f64 is for tests and "
                "needs all four",
                path, dtype, param);
    }
    if ((!strcmp(value_str(c, "dtypes.master"), "split") ||
         !strcmp(value_str(c, "dtypes.master"), "bf16")) &&
        strcmp(param, "bf16") != 0 && strcmp(param, "f64") != 0)
        COMPLAIN(c, "dtypes.master", "use \"f32\", or dtypes.param = \"bf16\"",
                 "dtypes.master: \"%s\" needs bf16 weights, but dtypes.param is \"%s\"",
                 value_str(c, "dtypes.master"), param);
}

static void check_loss_scale(Check *c)
{
    int64_t init = 0, least = 0;
    bool f16 = !strcmp(value_str(c, "dtypes.param"), "f16");

    if (!*value_str(c, "dtypes.param") || !value_int(c, "loss_scale.init", &init))
        return;
    if (f16 && init == 0)
        COMPLAIN(c, "loss_scale.init", "leave loss_scale out, or write init = 65536",
                 "loss_scale: f16 gradients need a scale: below 3e-8 they become 0, and "
                 "most of a model's are smaller");
    else if (!f16 && init != 0)
        COMPLAIN(c, "loss_scale.init",
                 "leave loss_scale out, or use dtypes.param = \"f16\"",
                 "loss_scale: %lld for %s: only f16 gradients need a scale",
                 (long long)init, value_str(c, "dtypes.param"));
    else if ((init & (init - 1)) != 0)
        COMPLAIN(c, "loss_scale.init", "use 32768 or 65536",
                 "loss_scale.init: %lld is not a power of two", (long long)init);
    else if (init > 0 && value_int(c, "loss_scale.min", &least) && least > init)
        COMPLAIN(c, "loss_scale.min",
                 gen_printf(c->g, "use at most %lld", (long long)init),
                 "loss_scale.min: %lld is more than loss_scale.init (%lld)",
                 (long long)least, (long long)init);
}

/* A run of this many steps is long: what bf16 loses in a step adds up. */
enum { LONG_RUN_STEPS = 1000 };

/* Every micro-batch of a leaf and every level of the tree is a rounded sum. */
static void warn_reduce(Check *c)
{
    int64_t steps = 0, global = 0, micro = 0, leaves = 0, sums;

    if (strcmp(value_str(c, "dtypes.reduce"), "bf16") != 0 ||
        !value_int(c, "global_batch", &global) || !value_int(c, "micro_batch", &micro) ||
        !value_int(c, "leaves", &leaves))
        return;
    if (value_int(c, "lr.steps", &steps) && steps < LONG_RUN_STEPS)
        return;
    sums = global / micro / leaves;
    for (; leaves > 1; leaves /= 2)
        sums++;
    diag_add(c->g, DIAG_WARNING, place_of(c->g, "dtypes.reduce"),
             "\"f32\" keeps them, for 2 bytes more of each gradient",
             "dtypes.reduce: \"bf16\" rounds a gradient to 8 bits %lld time%s a step, by "
             "up to 0.2 %% each: in %s what is small beside its sum is lost",
             (long long)sums, sums == 1 ? "" : "s",
             steps ? gen_printf(c->g, "%lld steps", (long long)steps)
                   : "a run without an end");
}

static void check_schedule(Check *c)
{
    int64_t warmup, steps, decay = 0;

    if (!value_int(c, "lr.warmup", &warmup) || !value_int(c, "lr.steps", &steps))
        return;
    if (warmup >= steps) {
        COMPLAIN(c, "lr.warmup", gen_printf(c->g, "use less than %lld", (long long)steps),
                 "lr.warmup: %lld is not less than lr.steps (%lld)", (long long)warmup,
                 (long long)steps);
        return;
    }
    if (value_int(c, "lr.decay", &decay) && decay > steps - warmup)
        COMPLAIN(c, "lr.decay",
                 gen_printf(c->g, "use at most %lld", (long long)(steps - warmup)),
                 "lr.decay: %lld steps of decay after %lld of warmup are more than "
                 "lr.steps (%lld)",
                 (long long)decay, (long long)warmup, (long long)steps);
}

/* Settings that a frozen group cannot use, and groups that set nothing. */
static void check_groups(Check *c)
{
    static const char *const unused[] = {"lr", "weight_decay", "optimizer"};

    if (value_push(c, "groups") == LUA_TTABLE) {
        int n = (int)lua_rawlen(c->L, -1);

        if (n == 0)
            COMPLAIN(c, "groups", "leave it out", "groups: the list is empty");
        for (int i = 1; i <= n; i++) {
            const char *path = gen_printf(c->g, "groups[%d]", i);

            check_half(c, gen_printf(c->g, "%s.optimizer", path));
            if (!value_bool(c, gen_printf(c->g, "%s.frozen", path)))
                continue;
            for (int k = 0; k < 3; k++) {
                const char *field = gen_printf(c->g, "%s.%s", path, unused[k]);

                if (value_push(c, field) != LUA_TNIL)
                    COMPLAIN(c, field, "leave it out, or do not freeze the group",
                             "%s: it means nothing to frozen parameters", field);
                lua_pop(c->L, 1);
            }
        }
    }
    lua_pop(c->L, 1);
}

static void check_documents(Check *c)
{
    int64_t end, vocab;

    if (value_int(c, "documents.end_id", &end) && value_int(c, "model.vocab", &vocab) &&
        end >= vocab)
        COMPLAIN(c, "documents.end_id", "use the id that ends each document in the data",
                 "documents.end_id: %lld is not a token: model.vocab is %lld",
                 (long long)end, (long long)vocab);
}

/* fail(path, problem, help) of an architecture's check. Upvalue 1: the Check. */
static int arch_fail(lua_State *L)
{
    Check *c = lua_touserdata(L, lua_upvalueindex(1));
    const char *path = luaL_checkstring(L, 1), *problem = luaL_checkstring(L, 2);
    const char *help = luaL_optstring(L, 3, NULL);
    const char *full = gen_printf(c->g, "model.%s", path);

    COMPLAIN(c, full, help ? gen_strdup(c->g, help) : NULL, "%s: %s", full, problem);
    return 0;
}

static void check_arch(Check *c, const Arch *arch)
{
    lua_State *L = c->L;

    if (arch->check_ref == LUA_NOREF || !dims_push(c, arch->fields))
        return;
    lua_rawgeti(L, LUA_REGISTRYINDEX, arch->check_ref);
    lua_insert(L, -2);
    lua_pushlightuserdata(L, c);
    lua_pushcclosure(L, arch_fail, 1);
    if (sandbox_status(L, lua_pcall(L, 2, 0, 0)) != LUA_OK) {
        loader_lua_error(c->g, "model", place_of(c->g, "model"));
        c->errors++;
    }
}

/* A limit below the prefetch depths is kept, with a warning: the deeper prefetch never
 * happens. */
static void warn_prefetch(Check *c, const Model *m)
{
    int64_t backward = m->prefetch_order == PREFETCH_NONE   ? 0
                       : m->prefetch_order == PREFETCH_POST ? m->prefetch_backward - 1
                                                            : m->prefetch_backward;
    int64_t depth = max_i64(m->prefetch_forward, backward);

    if (!strategy_rule(m->strategy)->cut[HELD_PARAMS] || depth < m->gathers_in_flight)
        return;
    diag_add(c->g, DIAG_WARNING, place_of(c->g, "prefetch.in_flight"),
             gen_printf(c->g, "use in_flight = %lld, or gather fewer units ahead",
                        (long long)depth + 1),
             "prefetch.in_flight: %lld lets %lld %s ahead be gathered beside the "
             "current one, not %lld",
             (long long)m->gathers_in_flight, (long long)m->gathers_in_flight - 1,
             m->gathers_in_flight == 2 ? "unit" : "units", (long long)depth);
}

void check_model(Gen *g)
{
    Loader *ld = loader_of(g);
    Check c = {.g = g, .L = g->L, .ld = ld};
    Model *m = &g->model;
    const char *file = m->file;
    Tag *raw, *model;
    int errors_before, model_errors;

    set_apply(g);
    errors_before = diag_errors(g);
    lua_rawgeti(c.L, LUA_REGISTRYINDEX, ld->raw_ref);
    raw = record_tag(g, -1);
    check_table(
        &c, ld->trainer, "", lua_gettop(c.L),
        (Site){.pos = ld->trainer_pos, .lex = raw->lex, .written = true, .tag = raw});
    ld->resolved_ref = luaL_ref(c.L, LUA_REGISTRYINDEX);
    model_errors = c.errors;
    value_push(&c, "model");
    model = record_tag(g, -1);
    lua_pop(c.L, 2);
    check_mesh(&c, check_batches(&c));
    check_parts(&c);
    check_dtypes(&c);
    check_schedule(&c);
    check_groups(&c);
    check_loss_scale(&c);
    check_documents(&c);
    if (!c.errors)
        warn_reduce(&c);
    target_named(value_kind(&c, "target"))->check(&c);
    check_optimizer(&c);
    if (model && !model_errors && !sandbox_of(c.L)->expired)
        check_arch(&c, model->arch);
    gen_require((c.errors > 0) == (diag_errors(g) > errors_before),
                "errors were not counted");
    if (diag_errors(g))
        return;
    *m = (Model){.file = file, .name = value_str(&c, "name"), .arch = model->arch->name};
    check_fill(&c, m);
    warn_prefetch(&c, m);
    gen_require(dims_push(&c, model->arch->fields), "the resolved model is incomplete");
    m->model_ref = luaL_ref(c.L, LUA_REGISTRYINDEX);
    m->build_ref = model->arch->build_ref;
    m->config_ref = model->arch->config_ref;
    m->resolved_lua = resolve_lua(g);
    m->outside = g->loader->outside;
    m->hash_fields = resolve_hash_fields(g, false);
    m->canonical_fields = resolve_hash_fields(g, true);
}
