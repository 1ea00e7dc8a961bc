/* SPDX-License-Identifier: Apache-2.0 */
/* check: Model (raw) → Model (resolved). Every field is validated by its own rule
 * (check_value.c), then against the others: dims divide, the mesh fits, dtypes go
 * together. All mistakes are told at once. Needs: load. Fills: g->model, from the
 * description alone, so that nothing inside the numerics hash can depend on a budget. */
#include "check.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

enum { CPU_MAX_RANKS = 64 }; /* what one machine's shared memory runtime starts */

/* ---- places ------------------------------------------------------------------------ */

static const Place *find_place(Gen *g, const char *path)
{
    const Place *found = NULL;

    for (int i = 0; i < g->loader->places.count; i++)
        if (!strcmp(g->loader->places.items[i].path, path))
            found = &g->loader->places.items[i];
    return found;
}

Pos model_pos(Gen *g, const char *path)
{
    const Place *p = g->loader ? find_place(g, path) : NULL;

    return p ? p->pos : (Pos){.file = g->model.file};
}

Pos place_of(Gen *g, const char *path)
{
    char *p = gen_strdup(g, path);

    while (*p) {
        const Place *found = find_place(g, p);
        char *dot = strrchr(p, '.');

        if (found)
            return found->pos;
        *(dot ? dot : p) = '\0';
    }
    return g->loader->trainer_pos;
}

/* ---- resolved values, by path: absent when they were wrong ------------------------- */

/* Pushes the value at a path of the resolved table: "mesh.shard", "groups[2].lr". */
static int push_path(Check *c, const char *path)
{
    lua_rawgeti(c->L, LUA_REGISTRYINDEX, c->ld->resolved_ref);
    while (*path && lua_istable(c->L, -1)) {
        size_t n = *path == '[' ? strcspn(path, "]") + 1 : strcspn(path, ".[");

        if (*path == '[')
            lua_rawgeti(c->L, -1, atoi(path + 1));
        else {
            lua_pushlstring(c->L, path, n);
            lua_rawget(c->L, -2);
        }
        lua_remove(c->L, -2);
        path += n + (path[n] == '.');
    }
    if (*path) { /* a part of it is no table */
        lua_pop(c->L, 1);
        lua_pushnil(c->L);
    }
    return lua_type(c->L, -1);
}

static bool get_int(Check *c, const char *path, int64_t *out)
{
    bool has = push_path(c, path) == LUA_TNUMBER;

    *out = has ? (int64_t)lua_tointeger(c->L, -1) : 0;
    lua_pop(c->L, 1);
    return has;
}

static double get_num(Check *c, const char *path)
{
    double v;

    push_path(c, path);
    v = lua_tonumber(c->L, -1);
    lua_pop(c->L, 1);
    return v;
}

static bool get_bool(Check *c, const char *path)
{
    bool v;

    push_path(c, path);
    v = lua_toboolean(c->L, -1);
    lua_pop(c->L, 1);
    return v;
}

static const char *get_str(Check *c, const char *path) /* "" if absent */
{
    const char *s = "";

    if (push_path(c, path) == LUA_TSTRING)
        s = gen_strdup(c->g, lua_tostring(c->L, -1));
    lua_pop(c->L, 1);
    return s;
}

static const char *get_kind(Check *c, const char *path)
{
    Tag *tag;

    push_path(c, path);
    tag = record_tag(c->g, -1);
    lua_pop(c->L, 1);
    return tag ? tag->name : "";
}

#define COMPLAIN(c, path, help, ...)                                                     \
    check_error(c, place_of((c)->g, path), help, __VA_ARGS__)

/* ---- what fields mean to each other ------------------------------------------------ */

/* False if leaves cannot be trusted. */
static bool check_batches(Check *c)
{
    Gen *g = c->g;
    int64_t global, micro, leaves, seq, m, p = 1;

    if (!get_int(c, "micro_batch", &micro))
        return false;
    if (get_int(c, "seq", &seq) && micro * seq > INT32_MAX)
        COMPLAIN(c, "micro_batch",
                 gen_printf(g, "use at most %lld", (long long)(INT32_MAX / seq)),
                 "micro_batch: %lld sequences of seq (%lld) are more than 2^31 tokens",
                 (long long)micro, (long long)seq);
    if (!get_int(c, "global_batch", &global))
        return false;
    if (global % micro != 0) {
        int64_t below = global / micro * micro;

        COMPLAIN(c, "global_batch",
                 below ? gen_printf(g, "use %lld or %lld", (long long)below,
                                    (long long)(below + micro))
                       : gen_printf(g, "use %lld", (long long)micro),
                 "global_batch: %lld is not a multiple of micro_batch (%lld)",
                 (long long)global, (long long)micro);
        return false;
    }
    m = global / micro;
    if (!get_int(c, "leaves", &leaves))
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

/* Of the axis that makes the ranks. */
static const char *mesh_path(Check *c)
{
    int64_t shard;

    return get_int(c, "mesh.shard", &shard) && shard > 1 ? "mesh.shard"
                                                         : "mesh.replicate";
}

/* The data ranks must divide leaves: says which would, or what to raise. */
static void check_ranks(Check *c, int64_t world)
{
    Gen *g = c->g;
    int64_t leaves, m, global, micro, most = 1;
    const char *help;

    if (!get_int(c, "leaves", &leaves) || !get_int(c, "global_batch", &global) ||
        !get_int(c, "micro_batch", &micro) || leaves % world == 0)
        return;
    m = global / micro;
    while (most * 2 <= leaves && most * 2 < world)
        most *= 2;
    if ((world & (world - 1)) != 0)
        help = gen_printf(g, "use %lld: leaves is a power of two", (long long)most);
    else if (m % world == 0)
        help = gen_printf(g, "write leaves = %lld", (long long)world);
    else
        help = gen_printf(
            g, "use at most %lld, or a global_batch that is a multiple of %lld",
            (long long)leaves, (long long)(world * micro));
    COMPLAIN(c, mesh_path(c), help, "mesh: %lld ranks do not divide leaves (%lld)",
             (long long)world, (long long)leaves);
}

/* What a strategy asks of the mesh's axes. full_shard over a mesh with copies would be
 * two answers to one question: who means all ranks writes them as mesh.shard. */
static void check_strategy(Check *c, int64_t replicate, int64_t shard)
{
    Gen *g = c->g;
    const char *strategy = get_str(c, "strategy");
    bool whole = !strcmp(strategy, "full_shard") || !strcmp(strategy, "shard_grad_op");

    if (whole && replicate > 1 && shard == 1)
        COMPLAIN(c, "strategy",
                 gen_printf(g,
                            "write mesh = { shard = %lld }, or strategy = "
                            "\"no_shard\"",
                            (long long)replicate),
                 "strategy: \"%s\" shards over mesh.shard, which is 1 beside "
                 "replicate %lld",
                 strategy, (long long)replicate);
    else if (whole && replicate > 1)
        COMPLAIN(c, "strategy",
                 gen_printf(g,
                            "write strategy = \"hybrid_shard\"%s to keep %lld copies, or "
                            "mesh = { shard = %lld } to shard over all ranks",
                            !strcmp(strategy, "full_shard")
                                ? ""
                                : " with reshard_after_forward = false",
                            (long long)replicate, (long long)(replicate * shard)),
                 "strategy: \"%s\" keeps one copy, but mesh.replicate is %lld", strategy,
                 (long long)replicate);
    if (!strcmp(strategy, "hybrid_shard") && (replicate == 1 || shard == 1))
        COMPLAIN(c, "strategy",
                 gen_printf(g,
                            "write strategy = \"%s\", or mesh = { replicate = 2, "
                            "shard = %lld }",
                            replicate == 1 ? "full_shard" : "no_shard",
                            (long long)max_i64(2, replicate * shard / 2)),
                 "strategy: \"hybrid_shard\" copies over mesh.replicate and shards over "
                 "mesh.shard, but %s is 1",
                 replicate == 1 ? "mesh.replicate" : "mesh.shard");
}

/* true is a group of all, false of one. */
static int64_t reshard_ranks(Check *c, int64_t shard)
{
    int64_t ranks = shard;

    if (push_path(c, "reshard_after_forward") == LUA_TNUMBER)
        ranks = lua_tointeger(c->L, -1);
    else if (lua_isboolean(c->L, -1) && !lua_toboolean(c->L, -1))
        ranks = 1;
    lua_pop(c->L, 1);
    return ranks;
}

static void check_reshard(Check *c, int64_t shard)
{
    Gen *g = c->g;
    const char *path = "reshard_after_forward", *strategy = get_str(c, "strategy");
    bool group = push_path(c, path) == LUA_TNUMBER;
    int64_t ranks = reshard_ranks(c, shard), below = 1;

    lua_pop(c->L, 1);
    if (group && !strcmp(strategy, "no_shard")) {
        COMPLAIN(c, path, "leave it out",
                 "%s: with \"no_shard\" there is nothing to free", path);
    } else if (group && shard % ranks != 0) {
        while (shard % (below * 2) == 0 && below * 2 <= ranks)
            below *= 2;
        COMPLAIN(c, path,
                 below > 1 ? gen_printf(g, "use %lld, or true", (long long)below)
                           : "use true or false",
                 "%s: groups of %lld do not divide mesh.shard (%lld)", path,
                 (long long)ranks, (long long)shard);
    } else if (!strcmp(strategy, "shard_grad_op") && ranks != 1) {
        COMPLAIN(c, path, "leave it out, or write strategy = \"full_shard\"",
                 "%s: \"shard_grad_op\" keeps the gathered weights until the backward "
                 "has used them",
                 path);
    }
}

static void check_mesh(Check *c, bool batches_good)
{
    Gen *g = c->g;
    int64_t replicate, shard, world, node;

    if (!get_int(c, "mesh.replicate", &replicate) || !get_int(c, "mesh.shard", &shard))
        return;
    world = replicate * shard;
    if (world > MAX_RANKS) {
        COMPLAIN(c, mesh_path(c), gen_printf(g, "use at most %d ranks", MAX_RANKS),
                 "mesh: %lld ranks (replicate %lld x shard %lld) are more than %d",
                 (long long)world, (long long)replicate, (long long)shard, MAX_RANKS);
        return;
    }
    if (get_int(c, "mesh.node", &node) && world % node)
        COMPLAIN(c, "mesh.node", gen_printf(g, "use a divisor of %lld", (long long)world),
                 "mesh.node: %lld ranks do not make whole nodes of %lld",
                 (long long)world, (long long)node);
    check_strategy(c, replicate, shard);
    check_reshard(c, shard);
    if (world > CPU_MAX_RANKS && !strcmp(get_kind(c, "target"), "cpu"))
        diag_add(
            g, DIAG_WARNING, place_of(g, mesh_path(c)),
            gen_printf(g, "to run it on one machine: --set mesh.shard=%d", CPU_MAX_RANKS),
            "mesh: the cpu target starts at most %d ranks, on one machine; this trainer "
            "of "
            "%lld can be read and compiled, not run",
            CPU_MAX_RANKS, (long long)world);
    if (batches_good)
        check_ranks(c, world);
}

static void check_dtypes(Check *c)
{
    static const char *const others[] = {"reduce", "master", "moments"};
    const char *param = get_str(c, "dtypes.param");

    if (!*param)
        return;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *path = gen_printf(c->g, "dtypes.%s", others[i]);
        const char *dtype = get_str(c, path);
        bool f64 = !strcmp(dtype, "f64");

        if (*dtype && f64 != !strcmp(param, "f64"))
            COMPLAIN(
                c, path,
                gen_printf(c->g, "use \"%s\", or leave it out", f64 ? "f32" : "f64"),
                "%s: \"%s\" does not go with dtypes.param (\"%s\"): f64 is for tests and "
                "needs all four",
                path, dtype, param);
    }
    if ((!strcmp(get_str(c, "dtypes.master"), "split") ||
         !strcmp(get_str(c, "dtypes.master"), "bf16")) &&
        strcmp(param, "bf16") != 0 && strcmp(param, "f64") != 0)
        COMPLAIN(c, "dtypes.master", "use \"f32\", or dtypes.param = \"bf16\"",
                 "dtypes.master: \"%s\" needs bf16 weights, but dtypes.param is \"%s\"",
                 get_str(c, "dtypes.master"), param);
}

static void check_loss_scale(Check *c)
{
    int64_t init = 0, least = 0;
    bool f16 = !strcmp(get_str(c, "dtypes.param"), "f16");

    if (!*get_str(c, "dtypes.param") || !get_int(c, "loss_scale.init", &init))
        return;
    if (f16 && init == 0)
        COMPLAIN(c, "loss_scale.init", "leave loss_scale out, or write init = 65536",
                 "loss_scale: f16 gradients need a scale: below 3e-8 they become 0, and "
                 "most of a model's are smaller");
    else if (!f16 && init != 0)
        COMPLAIN(c, "loss_scale.init",
                 "leave loss_scale out, or use dtypes.param = \"f16\"",
                 "loss_scale: %lld for %s: only f16 gradients need a scale",
                 (long long)init, get_str(c, "dtypes.param"));
    else if ((init & (init - 1)) != 0)
        COMPLAIN(c, "loss_scale.init", "use 32768 or 65536",
                 "loss_scale.init: %lld is not a power of two", (long long)init);
    else if (init > 0 && get_int(c, "loss_scale.min", &least) && least > init)
        COMPLAIN(c, "loss_scale.min",
                 gen_printf(c->g, "use at most %lld", (long long)init),
                 "loss_scale.min: %lld is more than loss_scale.init (%lld)",
                 (long long)least, (long long)init);
}

/* Steps from which on a run is long: what bf16 loses in one is lost in all of them. */
enum { LONG_RUN_STEPS = 1000 };

/* Every micro-batch of a leaf and every level of the tree is a sum that is rounded. */
static void warn_reduce(Check *c)
{
    int64_t steps = 0, global = 0, micro = 0, leaves = 0, sums;

    if (strcmp(get_str(c, "dtypes.reduce"), "bf16") != 0 ||
        !get_int(c, "global_batch", &global) || !get_int(c, "micro_batch", &micro) ||
        !get_int(c, "leaves", &leaves))
        return;
    if (get_int(c, "lr.steps", &steps) && steps < LONG_RUN_STEPS)
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

    if (!get_int(c, "lr.warmup", &warmup) || !get_int(c, "lr.steps", &steps))
        return;
    if (warmup >= steps) {
        COMPLAIN(c, "lr.warmup", gen_printf(c->g, "use less than %lld", (long long)steps),
                 "lr.warmup: %lld is not less than lr.steps (%lld)", (long long)warmup,
                 (long long)steps);
        return;
    }
    if (get_int(c, "lr.decay", &decay) && decay > steps - warmup)
        COMPLAIN(c, "lr.decay",
                 gen_printf(c->g, "use at most %lld", (long long)(steps - warmup)),
                 "lr.decay: %lld steps of decay after %lld of warmup are more than "
                 "lr.steps (%lld)",
                 (long long)decay, (long long)warmup, (long long)steps);
}

/* What a frozen group cannot use, and groups without any group. */
static void check_groups(Check *c)
{
    static const char *const unused[] = {"lr", "weight_decay"};

    if (push_path(c, "groups") == LUA_TTABLE) {
        int n = (int)lua_rawlen(c->L, -1);

        if (n == 0)
            COMPLAIN(c, "groups", "leave it out", "groups: the list is empty");
        for (int i = 1; i <= n; i++) {
            const char *path = gen_printf(c->g, "groups[%d]", i);

            if (!get_bool(c, gen_printf(c->g, "%s.frozen", path)))
                continue;
            for (int k = 0; k < 2; k++) {
                const char *field = gen_printf(c->g, "%s.%s", path, unused[k]);

                if (push_path(c, field) != LUA_TNIL)
                    COMPLAIN(c, field, "leave it out, or do not freeze the group",
                             "%s: it means nothing to frozen parameters", field);
                lua_pop(c->L, 1);
            }
        }
    }
    lua_pop(c->L, 1);
}

/* "auto" spends a budget: there must be one. */
static void check_auto(Check *c)
{
    if (!strcmp(get_str(c, "recompute"), "auto") && *get_kind(c, "target") &&
        !*get_str(c, "target.memory"))
        COMPLAIN(c, "recompute",
                 "write target = cpu { memory = \"8GiB\" } with what a rank may take, or "
                 "recompute = \"none\" or \"block\"",
                 "recompute: \"auto\" needs a budget, and target.memory is not given");
}

static void check_documents(Check *c)
{
    int64_t end, vocab;

    if (get_int(c, "documents.end_id", &end) && get_int(c, "model.vocab", &vocab) &&
        end >= vocab)
        COMPLAIN(c, "documents.end_id", "use the id that ends each document in the data",
                 "documents.end_id: %lld is no token: model.vocab is %lld",
                 (long long)end, (long long)vocab);
}

/* fail(path, problem, help) of an architecture's check; upvalue 1: the Check. */
static int arch_fail(lua_State *L)
{
    Check *c = lua_touserdata(L, lua_upvalueindex(1));
    const char *path = luaL_checkstring(L, 1), *problem = luaL_checkstring(L, 2);
    const char *help = luaL_optstring(L, 3, NULL);
    const char *full = gen_printf(c->g, "model.%s", path);

    COMPLAIN(c, full, help ? gen_strdup(c->g, help) : NULL, "%s: %s", full, problem);
    return 0;
}

/* Copies the resolved model and adds what build needs of the trainer: the m of a check
 * and a build. False if a part of it is wrong. */
static bool push_model(Check *c)
{
    static const char *const extra[][2] = {{"seq", "seq"},
                                           {"micro_batch", "micro_batch"},
                                           {"loss_chunk_tokens", "loss.chunk_tokens"}};
    lua_State *L = c->L;

    if (push_path(c, "model") != LUA_TTABLE) {
        lua_pop(L, 1);
        return false;
    }
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, -3);) {
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, -4);
    }
    lua_remove(L, -2);
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
        if (push_path(c, extra[i][1]) != LUA_TNUMBER) {
            lua_pop(L, 2);
            return false;
        }
        lua_setfield(L, -2, extra[i][0]);
    }
    return true;
}

static void check_arch(Check *c, const Arch *arch)
{
    lua_State *L = c->L;

    if (arch->check_ref == LUA_NOREF || !push_model(c))
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

/* ---- the C model ------------------------------------------------------------------- */

static void fill_groups(Check *c, Model *m)
{
    Gen *g = c->g;

    if (push_path(c, "groups") == LUA_TTABLE)
        m->n_groups = (int)lua_rawlen(c->L, -1);
    lua_pop(c->L, 1);
    m->groups = gen_alloc(g, sizeof *m->groups * (size_t)(m->n_groups + 1));
    for (int i = 0; i < m->n_groups; i++) {
        ParamGroup *group = &m->groups[i];
        const char *path = gen_printf(g, "groups[%d]", i + 1);

        group->path = path;
        group->frozen = get_bool(c, gen_printf(g, "%s.frozen", path));
        group->lr_ratio = get_num(c, gen_printf(g, "%s.lr", path));
        group->lr_ratio = group->lr_ratio > 0 ? group->lr_ratio : 1;
        group->has_decay =
            push_path(c, gen_printf(g, "%s.weight_decay", path)) == LUA_TNUMBER;
        group->weight_decay = lua_tonumber(c->L, -1);
        lua_pop(c->L, 1);
        push_path(c, gen_printf(g, "%s.match", path));
        group->n_match = (int)lua_rawlen(c->L, -1);
        group->match = gen_alloc(g, sizeof *group->match * (size_t)(group->n_match + 1));
        group->matches =
            gen_alloc(g, sizeof *group->matches * (size_t)(group->n_match + 1));
        for (int k = 0; k < group->n_match; k++) {
            lua_rawgeti(c->L, -1, k + 1);
            group->match[k] = gen_strdup(g, lua_tostring(c->L, -1));
            lua_pop(c->L, 1);
        }
        lua_pop(c->L, 1);
    }
}

static void fill_hash_fields(Check *c, Model *m)
{
    static const char *const optimizers[] = {"adamw", "sgd", "lion", "muon"};

    get_int(c, "seq", &m->seq_tokens);
    get_int(c, "model.vocab", &m->vocab);
    get_int(c, "micro_batch", &m->micro_batch);
    get_int(c, "global_batch", &m->global_batch);
    m->micro_batches = m->global_batch / m->micro_batch;
    get_int(c, "leaves", &m->leaves);
    m->param_dtype = dtype_parse(get_str(c, "dtypes.param"));
    m->reduce_dtype = dtype_parse(get_str(c, "dtypes.reduce"));
    m->master_dtype = dtype_parse(get_str(c, "dtypes.master"));
    m->moments_dtype = dtype_parse(get_str(c, "dtypes.moments"));
    for (int i = 0; i < 4; i++)
        if (!strcmp(get_kind(c, "optimizer"), optimizers[i]))
            m->optimizer = (OptKind)i;
    m->optimizer_name = get_kind(c, "optimizer");
    m->lr = get_num(c, "optimizer.lr");
    m->eps = get_num(c, "optimizer.eps");
    m->weight_decay = get_num(c, "optimizer.weight_decay");
    m->clip = get_num(c, "optimizer.clip");
    m->momentum = get_num(c, "optimizer.momentum");
    if (push_path(c, "optimizer.betas") == LUA_TTABLE) {
        lua_rawgeti(c->L, -1, 1);
        lua_rawgeti(c->L, -2, 2);
        m->beta1 = lua_tonumber(c->L, -2);
        m->beta2 = lua_tonumber(c->L, -1);
        lua_pop(c->L, 2);
    }
    lua_pop(c->L, 1);
    m->schedule_name = get_kind(c, "lr");
    get_int(c, "lr.warmup", &m->warmup_steps);
    get_int(c, "lr.steps", &m->schedule_steps);
    get_int(c, "lr.decay", &m->decay_steps);
    m->min_ratio = get_num(c, "lr.min_ratio");
    fill_groups(c, m);
    get_int(c, "seed", &m->seed);
    get_int(c, "loss.chunk_tokens", &m->loss_chunk_tokens);
    get_int(c, "loss_scale.init", &m->loss_scale_init);
    get_int(c, "loss_scale.min", &m->loss_scale_min);
    get_int(c, "loss_scale.factor", &m->loss_scale_factor);
    get_int(c, "loss_scale.growth_interval", &m->loss_scale_interval);
    m->loss_mask = get_bool(c, "loss.mask");
    m->packed = push_path(c, "documents") == LUA_TTABLE;
    lua_pop(c->L, 1);
    get_int(c, "documents.end_id", &m->document_end);
    m->loss_z = get_num(c, "loss.z");
    m->label_smoothing = get_num(c, "loss.label_smoothing");
    m->fuse = get_bool(c, "fuse");
    m->library_order = !strcmp(get_str(c, "reduction"), "library");
}

static void fill_free_fields(Check *c, Model *m)
{
    static const char *const strategies[] = {"full_shard", "shard_grad_op",
                                             "hybrid_shard", "no_shard"};
    static const char *const orders[] = {"pre", "post", "none"};

    get_int(c, "mesh.replicate", &m->replicate);
    get_int(c, "mesh.shard", &m->shard);
    m->world_size = m->replicate * m->shard;
    get_int(c, "mesh.node", &m->node_ranks);
    for (int i = 0; i < 4; i++)
        if (!strcmp(get_str(c, "strategy"), strategies[i]))
            m->strategy = (Strategy)i;
    check_wrap(c, &m->wrap);
    m->reshard_ranks = reshard_ranks(c, m->shard);
    get_int(c, "prefetch.forward", &m->prefetch_forward);
    get_int(c, "prefetch.backward", &m->prefetch_backward);
    get_int(c, "prefetch.in_flight", &m->gathers_in_flight);
    if (get_int(c, "recompute.blocks", &m->recompute_every))
        m->recompute = RECOMPUTE_EVERY;
    else if (!strcmp(get_str(c, "recompute"), "block"))
        m->recompute = RECOMPUTE_BLOCK;
    else if (!strcmp(get_kind(c, "recompute"), "ops"))
        m->recompute = RECOMPUTE_OPS;
    else if (!strcmp(get_str(c, "recompute"), "cheap"))
        m->recompute = RECOMPUTE_CHEAP;
    else if (!strcmp(get_str(c, "recompute"), "auto"))
        m->recompute = RECOMPUTE_AUTO;
    for (int i = 0; i < 3; i++)
        if (!strcmp(get_str(c, "prefetch.order"), orders[i]))
            m->prefetch_order = (PrefetchOrder)i;
    m->accumulate_sharded = !strcmp(get_str(c, "accumulate"), "sharded");
    get_int(c, "max_skipped", &m->max_skipped);
    m->target = !strcmp(get_kind(c, "target"), "cuda") ? TARGET_CUDA : TARGET_CPU;
    m->cpu_arch = get_str(c, "target.arch");
    if (*get_str(c, "target.memory"))
        m->budget_bytes = size_parse(get_str(c, "target.memory"));
    m->comm_thread = get_bool(c, "target.comm_thread");
}

static void fill_recompute_ops(Check *c, Model *m)
{
    lua_State *L = c->L;

    for (lua_Integer i = 1; push_path(c, "recompute.names") == LUA_TTABLE; i++) {
        bool more = lua_rawgeti(L, -1, i) == LUA_TSTRING;

        if (more)
            *gen_push(c->g, &m->recompute_ops) = gen_strdup(c->g, lua_tostring(L, -1));
        lua_pop(L, 2);
        if (!more)
            return;
    }
    lua_pop(L, 1);
}

/* A limit below what the depths ask for is kept, and told: the deeper prefetch never
 * happens. */
static void warn_prefetch(Check *c, const Model *m)
{
    int64_t depth = m->prefetch_order == PREFETCH_NONE
                        ? m->prefetch_forward
                        : max_i64(m->prefetch_forward, m->prefetch_backward);

    if (m->strategy == NO_SHARD || depth < m->gathers_in_flight)
        return;
    diag_add(c->g, DIAG_WARNING, place_of(c->g, "prefetch.in_flight"),
             gen_printf(c->g, "use in_flight = %lld, or gather fewer units ahead",
                        (long long)depth + 1),
             "prefetch.in_flight: %lld lets %lld %s ahead be gathered beside the one at "
             "hand, not %lld",
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
    int errors_before = diag_errors(g), model_errors;

    lua_rawgeti(c.L, LUA_REGISTRYINDEX, ld->raw_ref);
    raw = record_tag(g, -1);
    check_table(
        &c, ld->trainer, "", lua_gettop(c.L),
        (Site){.pos = ld->trainer_pos, .lex = raw->lex, .written = true, .tag = raw});
    ld->resolved_ref = luaL_ref(c.L, LUA_REGISTRYINDEX);
    model_errors = c.errors;
    push_path(&c, "model");
    model = record_tag(g, -1);
    lua_pop(c.L, 2);
    check_mesh(&c, check_batches(&c));
    check_dtypes(&c);
    check_schedule(&c);
    check_groups(&c);
    check_loss_scale(&c);
    check_documents(&c);
    if (!c.errors)
        warn_reduce(&c);
    check_auto(&c);
    if (model && !model_errors)
        check_arch(&c, model->arch);
    gen_require((c.errors > 0) == (diag_errors(g) > errors_before),
                "errors were not counted");
    diag_stop_on_errors(g);
    *m = (Model){.file = file, .name = get_str(&c, "name"), .arch = model->arch->name};
    fill_hash_fields(&c, m);
    fill_free_fields(&c, m);
    fill_recompute_ops(&c, m);
    warn_prefetch(&c, m);
    gen_require(push_model(&c), "the resolved model is incomplete");
    m->model_ref = luaL_ref(c.L, LUA_REGISTRYINDEX);
    m->build_ref = model->arch->build_ref;
    m->resolved_lua = resolve_lua(g);
    m->hash_fields = resolve_hash_fields(g);
}
