/* SPDX-License-Identifier: Apache-2.0 */
/* plan_json.c: what a run will hold and do, for programs (plan.json, `plan --json`). In:
 * the whole Gen after simulate. Out: one JSON object. */
#include "plan/plan.h"
#include "report/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void set_int(json_t *o, const char *key, int64_t v)
{
    gen_require(json_object_set_new(o, key, json_integer(v)) == 0, "json: %s", key);
}

static void set_text(json_t *o, const char *key, const char *v)
{
    gen_require(json_object_set_new(o, key, json_string(v)) == 0, "json: %s", key);
}

/* For checkpoints: the class that config.json names; null without such a file. */
static json_t *json_config(Gen *g)
{
    const Model *m = &g->model;
    json_t *o = json_object();
    if (m->config_json)
        set_text(o, "class", m->config_names);
    else
        json_object_set_new(o, "class", json_null());
    json_object_set_new(o, "checked", json_boolean(m->config_checked));
    set_text(o, "says", m->config_says);
    return o;
}

static json_t *json_bytes(Gen *g)
{
    PlanBytes b = plan_bytes(g);
    json_t *o = json_object();
    set_int(o, "params", b.params);
    set_int(o, "gradients", b.gradients);
    set_int(o, "optimizer", b.optimizer);
    set_int(o, "activations", b.activations);
    set_int(o, "gather", b.gather);
    set_int(o, "partials", b.partials);
    set_int(o, "workspace", b.workspace);
    set_int(o, "arena", b.arena);
    set_int(o, "library", b.library);
    set_int(o, "total", b.total);
    set_int(o, "snapshot", b.snapshot);
    if (b.resident) {
        set_int(o, "peers", b.peers);
        set_int(o, "peers_least", b.peers_least);
        set_int(o, "resident", b.resident);
    }
    return o;
}

static json_t *json_units(Gen *g)
{
    json_t *list = json_array();
    for (int i = 0; i < g->segments.count; i++) {
        const Segment *s = &g->segments.items[i];
        json_t *o = json_object();
        set_text(o, "name", s->name);
        set_int(o, "params", s->n_params);
        set_int(o, "elems", s->elems);
        set_int(o, "padding_elems", s->elems - s->used_elems);
        set_int(o, "shard_elems", s->shard_elems);
        gen_require(json_array_append_new(list, o) == 0, "json: units");
    }
    return list;
}

static json_t *json_traffic(Gen *g)
{
    Traffic moved = plan_traffic(g);
    json_t *o = json_object();
    set_int(o, "gathered", moved.gathered);
    set_int(o, "reduced", moved.reduced);
    set_int(o, "replicate", moved.replicate);
    if (parts_all_ranks(&g->model) > 1)
        set_int(o, "met", moved.met[PARTS_TENSOR] + moved.met[PARTS_CONTEXT]);
    for (int a = 0; a < N_PARTS_AXES; a++)
        if (parts_ranks(&g->model, a) > 1)
            set_int(o, gen_printf(g, "met_%s", axis_name(parts_mesh(a))), moved.met[a]);
    if (g->batches.count > 0)
        set_int(o, "matrices", moved.matrices);
    return o;
}

/* Along each axis that has ranks. */
static json_t *json_exposed(Gen *g)
{
    const bool endless = isinf(g->prog.step_seconds);
    json_t *o = json_object();

    for (int a = 0; a < N_AXES; a++)
        if (g->model.mesh.axis[a].degree > 1)
            json_object_set_new(
                o, axis_name(a),
                json_finite(endless ? INFINITY : (double)g->prog.exposed.ps[a] * 1e-12));
    return o;
}

/* More of a step, and of a rank's bytes, than with as many parts as ranks. */
static json_t *json_parts_price(Gen *g)
{
    json_t *o = json_object();

    set_text(o, "beside", g->parts_price.fewer);
    json_object_set_new(o, "seconds", json_real(g->parts_price.seconds));
    set_int(o, "bytes_per_rank", g->parts_price.bytes);
    return o;
}

json_t *json_finite(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* A whole number has all its digits; others have those of JSON_REAL_PRECISION. */
static json_t *json_whole(double x)
{
    return x == floor(x) && fabs(x) < 0x1p53 ? json_integer((json_int_t)x) : json_real(x);
}

/* The file of --rates. */
static json_t *json_rates(Gen *g)
{
    const Rates *r = &g->model.rates;
    json_t *o = json_object();

    set_text(o, "file", r->file);
    set_text(o, "platform", r->platform);
    set_text(o, "xxh3", gen_printf(g, "%016" PRIx64, r->digest));
    return o;
}

static json_t *json_network(const Gen *g)
{
    const Network *net = &g->model.net;
    json_t *o = json_object();

    set_text(o, "node", net->node);
    set_text(o, "fabric", net->fabric);
    set_int(o, "nodes", net->nodes);
    set_int(o, "near_ranks", group_ranks(net->near));
    set_int(o, "leaf_ranks", group_ranks(net->leaf));
    json_object_set_new(o, "nic_gbps", json_real(net->nic_per_us / 1e3));
    return o;
}

/* Not in plan.json: what is generated fits. */
static void set_fit(Gen *g, json_t *o)
{
    const int64_t budget = g->model.budget_bytes;

    json_object_set_new(o, "fits",
                        json_boolean(budget == 0 || plan_bytes(g).total <= budget));
    json_object_set_new(o, "budget_bytes", budget ? json_integer(budget) : json_null());
}

void plan_print_json(Gen *g, Text *t)
{
    json_t *o = json_object(), *warnings = json_array(), *run;
    PlanWarnings w = plan_warnings(g);
    char *s;
    set_text(o, "name", g->model.name);
    set_text(o, "numerics_hash", gen_printf(g, "%016" PRIx64, g->numerics_hash));
    json_object_set_new(o, "config", json_config(g));
    set_int(o, "params", plan_params(g));
    json_object_set_new(o, "flops_per_token", json_whole(plan_flops_per_token(g)));
    json_object_set_new(o, "units", json_units(g));
    set_int(o, "ranks", g->model.mesh.world_size);
    if (g->model.gpu)
        set_text(o, "gpu", g->model.gpu);
    if (g->model.net.nodes > 1)
        json_object_set_new(o, "network", json_network(g));
    json_object_set_new(o, "bytes_per_rank", json_bytes(g));
    if (!strcmp(g->opt.command, "plan"))
        set_fit(g, o);
    json_object_set_new(o, "step_bytes_per_rank", json_traffic(g));
    set_int(o, "max_live_bytes", g->prog.max_live_bytes);
    set_int(o, "ideal_live_bytes", g->prog.ideal_live_bytes);
    json_object_set_new(o, "step_seconds", json_finite(g->prog.step_seconds));
    if (g->model.mesh.world_size > 1)
        json_object_set_new(o, "exposed_seconds", json_exposed(g));
    if (g->parts_price.fewer)
        json_object_set_new(o, "parts_price", json_parts_price(g));
    if ((run = plan_run_json(g)))
        json_object_set_new(o, "run", run);
    if (g->model.rates.file)
        json_object_set_new(o, "rates", json_rates(g));
    if (g->opt.kernels)
        json_object_set_new(o, "kernels", plan_kernels_json(g));
    for (int i = 0; i < w.count; i++)
        json_array_append_new(warnings, json_string(w.items[i]));
    json_object_set_new(o, "warnings", warnings);
    s = json_dumps(o, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));
    gen_require(s, "the plan cannot be written as JSON");
    text_printf(t, "%s\n", s);
    free(s);
    json_decref(o);
}
