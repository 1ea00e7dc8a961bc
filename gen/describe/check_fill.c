/* SPDX-License-Identifier: Apache-2.0 */
/* check_fill.c: copies the resolved fields into the C Model. In: a description without
 * mistakes. Out: g->model, except its name and its Lua references. */
#include "describe/check.h"

#include <string.h>

static void fill_groups(Check *c, Model *m)
{
    Gen *g = c->g;

    if (value_push(c, "groups") == LUA_TTABLE)
        m->n_groups = (int)lua_rawlen(c->L, -1);
    lua_pop(c->L, 1);
    m->groups = gen_alloc(g, sizeof *m->groups * (size_t)(m->n_groups + 1));
    for (int i = 0; i < m->n_groups; i++) {
        ParamGroup *group = &m->groups[i];
        const char *path = gen_printf(g, "groups[%d]", i + 1);

        group->path = path;
        group->frozen = value_bool(c, gen_printf(g, "%s.frozen", path));
        group->lr_ratio = value_num(c, gen_printf(g, "%s.lr", path));
        group->lr_ratio = group->lr_ratio > 0 ? group->lr_ratio : 1;
        group->half = value_str(c, gen_printf(g, "%s.optimizer", path));
        group->has_decay =
            value_push(c, gen_printf(g, "%s.weight_decay", path)) == LUA_TNUMBER;
        group->weight_decay = lua_tonumber(c->L, -1);
        lua_pop(c->L, 1);
        value_push(c, gen_printf(g, "%s.match", path));
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

static void fill_parts(Check *c, Model *m)
{
    for (int a = 0; a < N_PARTS_AXES; a++)
        value_int(c, parts_field(c->g, a), &m->parts[a]);
    m->parts_dtype = dtype_parse(value_str(c, "parts.dtype")); /* "param": none */
}

static void fill_hash_fields(Check *c, Model *m)
{
    value_int(c, "seq", &m->seq_tokens);
    value_int(c, "model.vocab", &m->vocab);
    value_int(c, "micro_batch", &m->micro_batch);
    value_int(c, "global_batch", &m->global_batch);
    m->micro_batches = m->global_batch / m->micro_batch;
    value_int(c, "leaves", &m->leaves);
    m->param_dtype = dtype_parse(value_str(c, "dtypes.param"));
    m->reduce_dtype = dtype_parse(value_str(c, "dtypes.reduce"));
    m->master_dtype = dtype_parse(value_str(c, "dtypes.master"));
    m->moments_dtype = dtype_parse(value_str(c, "dtypes.moments"));
    m->linear_fp8 = !strcmp(value_str(c, "dtypes.linear"), "fp8");
    fill_optimizer(c, m);
    m->schedule_name = value_kind(c, "lr");
    value_int(c, "lr.warmup", &m->warmup_steps);
    value_int(c, "lr.steps", &m->schedule_steps);
    value_int(c, "lr.decay", &m->decay_steps);
    m->min_ratio = value_num(c, "lr.min_ratio");
    fill_groups(c, m);
    value_int(c, "seed", &m->seed);
    value_int(c, "loss.chunk_tokens", &m->loss_chunk_tokens);
    value_int(c, "loss_scale.init", &m->loss_scale_init);
    value_int(c, "loss_scale.min", &m->loss_scale_min);
    value_int(c, "loss_scale.factor", &m->loss_scale_factor);
    value_int(c, "loss_scale.growth_interval", &m->loss_scale_interval);
    m->loss_mask = value_bool(c, "loss.mask");
    m->packed = value_push(c, "documents") == LUA_TTABLE;
    lua_pop(c->L, 1);
    value_int(c, "documents.end_id", &m->document_end);
    m->loss_z = value_num(c, "loss.z");
    m->label_smoothing = value_num(c, "loss.label_smoothing");
    fill_parts(c, m);
    m->fuse = value_bool(c, "fuse");
    m->library_order = !strcmp(value_str(c, "reduction"), "library");
}

static void fill_mesh(Check *c, Model *m)
{
    int64_t degree[N_AXES], node_ranks = 1;

    for (int a = 0; a < N_AXES; a++) {
        degree[a] = 1;
        value_int(c, gen_printf(c->g, "mesh.%s", axis_name((AxisId)a)), &degree[a]);
    }
    value_int(c, "mesh.node", &node_ranks);
    m->mesh = mesh_make(degree, node_ranks);
}

static void fill_free_fields(Check *c, Model *m)
{
    static const char *const orders[] = {"pre", "post", "none"};
    static const char *const uses[] = {"checked", "unchecked", "none"};

    fill_mesh(c, m);
    m->strategy = strategy_named(value_str(c, "strategy"));
    check_wrap(c, &m->wrap);
    m->reshard_ranks = check_reshard_ranks(c, m->mesh.axis[AXIS_SHARD].degree);
    value_int(c, "prefetch.forward", &m->prefetch_forward);
    value_int(c, "prefetch.backward", &m->prefetch_backward);
    value_int(c, "prefetch.in_flight", &m->gathers_in_flight);
    if (value_int(c, "recompute.blocks", &m->recompute_every))
        m->recompute = RECOMPUTE_EVERY;
    else if (!strcmp(value_str(c, "recompute"), "block"))
        m->recompute = RECOMPUTE_BLOCK;
    else if (!strcmp(value_kind(c, "recompute"), "ops"))
        m->recompute = RECOMPUTE_OPS;
    else if (!strcmp(value_str(c, "recompute"), "cheap"))
        m->recompute = RECOMPUTE_CHEAP;
    else if (!strcmp(value_str(c, "recompute"), "auto") && *value_str(c, "target.memory"))
        m->recompute = RECOMPUTE_AUTO; /* without a budget, where everything fits: none */
    for (int i = 0; i < 3; i++)
        if (!strcmp(value_str(c, "prefetch.order"), orders[i]))
            m->prefetch_order = (PrefetchOrder)i;
    m->accumulate_sharded = !strcmp(value_str(c, "accumulate"), "sharded");
    value_int(c, "max_skipped", &m->max_skipped);
    m->file_bytes = size_parse(value_str(c, "checkpoint.file_size"));
    for (int i = 0; i < 3; i++)
        if (!strcmp(value_str(c, "checkpoint.config"), uses[i]))
            m->config_use = (ConfigUse)i;
    if (*value_str(c, "checkpoint.class"))
        m->config_class = gen_strdup(c->g, value_str(c, "checkpoint.class"));
    if (*value_str(c, "target.memory"))
        m->budget_bytes = size_parse(value_str(c, "target.memory"));
    m->target = target_named(value_kind(c, "target"));
    m->rates = m->target->rates;
    m->target->fill(c, m);
    rates_read(c, m);
}

static void fill_recompute_ops(Check *c, Model *m)
{
    lua_State *L = c->L;

    for (lua_Integer i = 1; value_push(c, "recompute.names") == LUA_TTABLE; i++) {
        bool more = lua_rawgeti(L, -1, i) == LUA_TSTRING;

        if (more)
            *gen_push(c->g, &m->recompute_ops) = gen_strdup(c->g, lua_tostring(L, -1));
        lua_pop(L, 2);
        if (!more)
            return;
    }
    lua_pop(L, 1);
}

void check_fill(Check *c, Model *m)
{
    fill_hash_fields(c, m);
    fill_free_fields(c, m);
    fill_recompute_ops(c, m);
}
