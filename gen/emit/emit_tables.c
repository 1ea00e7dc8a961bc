/* SPDX-License-Identifier: Apache-2.0 */
/* emit_tables.c: the configuration, the memory table, and the layout (units, segments,
 * parameters, buffers) as Lua tables for trainer.c, tables.h and tables.c.
 *
 * In: g->model, g->units, g->segments, g->params, g->prog with offsets. Out: fields of
 * the context. Every number printed later is computed here; the templates only lay them
 * out. */
#include "emit/emit_parts.h"
#include "plan/plan.h"
#include "base/show.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

/* ---- configuration --------------------------------------------------------------- */

static const char *rt_dtype(Dtype d)
{
    switch (d) {
    case DT_F64:
        return "RT_F64";
    case DT_F32:
        return "RT_F32";
    case DT_BF16:
        return "RT_BF16";
    case DT_F16:
        return "RT_F16";
    case DT_SPLIT:
        return "RT_SPLIT";
    default:
        gen_die("no runtime dtype for %s", dtype_name(d));
    }
}

static void push_memory(Emit *e)
{
    const PlanBytes b = plan_bytes(e->g);
    const struct {
        const char *what;
        int64_t bytes;
    } row[] = {
        {"parameters", b.params},   {"gradients", b.gradients},
        {"optimizer", b.optimizer}, {"activations", b.activations},
        {"gathered", b.gather},     {"partial sums", b.partials},
        {"workspace", b.workspace},
    };

    lua_newtable(e->L);
    for (int i = 0; i < (int)(sizeof row / sizeof *row); i++) {
        lua_newtable(e->L);
        emit_str(e->L, "what", row[i].what);
        emit_int(e->L, "bytes", row[i].bytes);
        emit_str(e->L, "human", show_bytes(e->g, row[i].bytes));
        lua_rawseti(e->L, -2, i + 1);
    }
    lua_setfield(e->L, -2, "memory");
}

/* A text as a list of its lines; empty for NULL. */
static void push_lines(lua_State *L, const char *key, const char *text)
{
    if (!text)
        return;
    lua_newtable(L);
    for (int n = 1; *text; n++) {
        size_t bytes = strcspn(text, "\n");

        lua_pushlstring(L, text, bytes);
        lua_rawseti(L, -2, n);
        text += bytes + (text[bytes] == '\n');
    }
    lua_setfield(L, -2, key);
}

static void set_group(Emit *e, const char *key, RankBits group)
{
    emit_str(e->L, key, gen_printf(e->g, "0x%x", (unsigned)group));
}

/* Groups whose sums take two hops. */
static void push_hops(Emit *e)
{
    Hops hops[MAX_GROUPS];
    const int n = mesh_hops(e->g, hops);

    lua_createtable(e->L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_newtable(e->L);
        set_group(e, "group", hops[i].group);
        set_group(e, "near", hops[i].near);
        set_group(e, "far", hops[i].far);
        lua_rawseti(e->L, -2, i + 1);
    }
    lua_setfield(e->L, -2, "hops");
}

/* A JSON object of the axes' degrees. */
static const char *mesh_json(Emit *e)
{
    const Mesh *mesh = &e->g->model.mesh;
    const char *json = "{";

    for (int a = 0; a < N_AXES; a++)
        json = gen_printf(e->g, "%s%s\"%s\": %" PRId64, json, a > 0 ? ", " : "",
                          mesh->axis[a].name, mesh->axis[a].degree);
    return gen_printf(e->g, "%s}", json);
}

static void push_mesh(Emit *e)
{
    const Model *m = &e->g->model;
    const StrategyRule *rule = strategy_rule(m->strategy);
    lua_State *L = e->L;

    emit_int(L, "world_size", m->mesh.world_size);
    emit_str(L, "mesh", mesh_json(e));
    emit_int(L, "shard", m->mesh.axis[AXIS_SHARD].degree);
    set_group(e, "replicate", m->mesh.axis[AXIS_REPLICATE].bits);
    set_group(e, "data", m->mesh.data);
    emit_bool(L, "in_parts", e->g->in_parts);
    parts_push_axes(e);
    set_group(e, "all", m->mesh.all);
    set_group(e, "nodes", m->mesh.nodes);
    set_group(e, "summed_first", mesh_summed_first(m));
    set_group(e, "summed_last", mesh_summed_last(m));
    push_hops(e);
    emit_bool(L, "no_shard", !mesh_cut(m, HELD_OPTIMIZER));
    emit_bool(L, "shares_updates", rule->cut[HELD_OPTIMIZER] && !rule->cut[HELD_PARAMS]);
    emit_int(L, "prefetch_forward", m->prefetch_forward);
    emit_int(L, "prefetch_backward", m->prefetch_backward);
    emit_bool(L, "accumulate_sharded", m->accumulate_sharded);
    emit_bool(L, "behind_meets", e->g->prog.behind_meets);
}

static void push_dtypes(Emit *e)
{
    const Model *m = &e->g->model;
    lua_State *L = e->L;

    emit_str(L, "param_dtype", rt_dtype(m->param_dtype));
    emit_str(L, "reduce_dtype", rt_dtype(m->reduce_dtype));
    emit_str(L, "master_dtype", rt_dtype(m->master_dtype));
    emit_str(L, "moments_dtype", rt_dtype(m->moments_dtype));
    emit_str(L, "param_dtype_name", dtype_name(m->param_dtype));
    emit_str(L, "reduce_dtype_name", dtype_name(m->reduce_dtype));
    emit_str(L, "master_dtype_name", dtype_name(m->master_dtype));
    emit_str(L, "moments_dtype_name", dtype_name(m->moments_dtype));
}

static void push_batch(Emit *e)
{
    const Model *m = &e->g->model;
    lua_State *L = e->L;

    emit_int(L, "seq_tokens", m->seq_tokens);
    emit_int(L, "vocab", m->vocab);
    emit_int(L, "micro_batch", m->micro_batch);
    emit_int(L, "micro_batches", m->micro_batches);
    emit_int(L, "global_batch", m->global_batch);
    emit_int(L, "leaves", m->leaves);
    emit_int(L, "rounds", e->g->prog.rounds);
    emit_bool(L, "loss_mask", m->loss_mask);
    emit_bool(L, "packed", m->packed);
    emit_int(L, "document_end", m->document_end);
    emit_bool(L, "library_order", m->library_order);
}

static void push_optimizer(Emit *e)
{
    const Model *m = &e->g->model;
    lua_State *L = e->L;

    emit_int(L, "seed", m->seed);
    emit_num(L, "lr", m->lr);
    emit_num(L, "beta1", optimizer_number(e->g, "beta1"));
    emit_num(L, "beta2", optimizer_number(e->g, "beta2"));
    emit_num(L, "clip", m->clip);
    emit_str(L, "schedule", m->schedule_name);
    emit_int(L, "warmup_steps", m->warmup_steps);
    emit_int(L, "schedule_steps", m->schedule_steps);
    emit_int(L, "decay_steps", m->decay_steps);
    emit_num(L, "min_ratio", m->min_ratio);
    emit_int(L, "loss_scale_init", m->loss_scale_init);
    emit_int(L, "loss_scale_min", m->loss_scale_min);
    emit_int(L, "loss_scale_factor", m->loss_scale_factor);
    emit_int(L, "loss_scale_interval", m->loss_scale_interval);
    emit_int(L, "max_skipped", m->max_skipped);
}

void emit_target(Emit *e)
{
    const Model *m = &e->g->model;
    const Target *t;

    for (int i = 0; (t = target_at(i)); i++) {
        emit_bool(e->L, t->name, t == m->target);
        if (t->kernel_library)
            emit_bool(e->L, t->kernel_library->folder,
                      t->kernel_library == kernel_library_used(e->g));
    }
}

static void push_target(Emit *e)
{
    const Model *m = &e->g->model;
    lua_State *L = e->L;

    emit_str(L, "cpu_arch", m->cpu_arch ? m->cpu_arch : "native");
    emit_bool(L, "comm_thread", m->comm_thread && m->mesh.world_size > 1);
    emit_target(e);
    emit_bool(L, "jit", m->jit);
    lua_createtable(L, m->n_archs, 0);
    for (int i = 0; i < m->n_archs; i++) {
        lua_pushstring(L, m->archs[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "archs");
}

/* The results of planning. */
static void push_figures(Emit *e)
{
    const Program *p = &e->g->prog;
    lua_State *L = e->L;

    emit_int(L, "n_files", e->g->model.n_files);
    emit_num(L, "flops_per_token", plan_flops_per_token(e->g));
    emit_num(L, "planned_step_seconds", cost_at_least(p->step_seconds));
    emit_num(L, "peak_tflops", e->g->model.peak_tflops);
    emit_int(L, "params_elems", plan_params(e->g));
    emit_int(L, "symmetric_bytes", p->space_bytes[SPACE_SYMMETRIC]);
    emit_int(L, "local_bytes", p->space_bytes[SPACE_LOCAL]);
    emit_int(L, "snapshot_bytes", checkpoint_snapshot_bytes(e->g));
    emit_str(L, "arena_human", show_bytes(e->g, p->arena_bytes));
    push_memory(e);
}

void emit_model_context(Emit *e)
{
    const Model *m = &e->g->model;
    lua_State *L = e->L;

    emit_str(L, "name", m->name);
    emit_str(L, "arch", m->arch);
    push_mesh(e);
    push_dtypes(e);
    push_batch(e);
    push_optimizer(e);
    push_target(e);
    push_figures(e);
    push_lines(L, "config_lines", m->config_json);
    push_lines(L, "numerics_lines", e->g->numerics_lines);
}

/* ---- buffers --------------------------------------------------------------------- */

static void push_buffers(Emit *e)
{
    Gen *g = e->g;
    lua_State *L = e->L;

    lua_createtable(L, g->prog.bufs.count, 0);
    for (int i = 0; i < g->prog.bufs.count; i++) {
        const Buffer *b = &g->prog.bufs.items[i];

        gen_require(b->offset_bytes >= 0 && b->offset_bytes % ARENA_ALIGN_BYTES == 0 &&
                        b->offset_bytes + b->bytes <= g->prog.space_bytes[b->space],
                    "buffer %s lies outside its space", b->name);
        lua_newtable(L);
        emit_str(L, "macro", b->macro);
        emit_int(L, "offset", b->offset_bytes);
        emit_int(L, "bytes", b->bytes);
        emit_str(L, "human", show_bytes(g, b->bytes));
        emit_str(L, "what", b->what ? b->what : "");
        emit_str(L, "space", b->space == SPACE_SYMMETRIC ? "symmetric" : "local");
        emit_bool(L, "persistent", b->persistent);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "buffers");
}

static const Buffer *buffer_of(const Gen *g, BufKind kind, int segment)
{
    for (int i = 0; i < g->prog.bufs.count; i++) {
        const Buffer *b = &g->prog.bufs.items[i];

        if (b->kind == kind && (segment < 0 || b->segment == segment))
            return b;
    }
    return NULL;
}

/* ---- units, segments, parameters ------------------------------------------------- */

/* A place in a table's row: a macro of tables.h, or -1. */
static void set_place(Emit *e, const char *key, const Buffer *b, Space space)
{
    gen_require(!b || b->space == space, "%s lies in the wrong space", b->name);
    emit_str(e->L, key, b ? b->macro : "-1");
}

/* What a merge adds, if that is not the sum in its shard; else NULL. */
static const Buffer *merged_elsewhere(const Gen *g, const Segment *s)
{
    const Program *p = &g->prog;

    for (int id = 0; id < p->ins.count; id++) {
        const Instr *i = &p->ins.items[id];

        if (i->kind == INS_MERGE && i->segment == s->id)
            return p->bufs.items[i->to].kind == BUF_GRAD_SHARD ? NULL
                                                               : &p->bufs.items[i->to];
    }
    return NULL;
}

/* The limit of the micro-step's sum of the segment. */
static int64_t sum_ctas(const Gen *g, InsKind kind, int segment)
{
    const Program *p = &g->prog;
    const int from = p->first[VARIANT_LAST];

    for (int id = from; id < from + p->count[VARIANT_LAST]; id++)
        if (p->ins.items[id].kind == kind && p->ins.items[id].segment == segment)
            return p->ins.items[id].ctas;
    return 0;
}

static void push_segment(Emit *e, const Segment *s, int first_param)
{
    Gen *g = e->g;
    lua_State *L = e->L;
    const Buffer *shard = buffer_of(g, BUF_PARAM_SHARD, s->id);
    const Buffer *grad = buffer_of(g, BUF_GRAD_SHARD, s->id);
    const Buffer *partial = buffer_of(g, BUF_PARTIAL, s->id);

    gen_require(shard && !grad == !s->trainable, "segment %s has no shard or no gradient",
                s->name);
    lua_newtable(L);
    emit_str(L, "name", s->name);
    emit_str(L, "macro", s->macro);
    emit_int(L, "unit", s->unit + 1);
    emit_int(L, "elems", s->elems);
    emit_int(L, "used_elems", s->used_elems);
    emit_int(L, "shard_elems", s->shard_elems);
    emit_int(L, "shards", s->shards);
    emit_bool(L, "params_whole", s->cut[HELD_PARAMS] != s->cut[HELD_OPTIMIZER]);
    emit_str(L, "dtype", rt_dtype(s->dtype));
    set_group(e, "axes", s->axes);
    set_group(e, "within", s->within);
    set_group(e, "across", s->across);
    set_group(e, "between", s->between);
    set_group(e, "same", layout_same(g, s));
    emit_int(L, "within_ctas", sum_ctas(g, INS_REDUCE_SCATTER, s->id));
    emit_int(L, "across_ctas", sum_ctas(g, INS_ALL_REDUCE, s->id));
    emit_int(L, "first_param", first_param);
    emit_int(L, "n_params", s->n_params);
    emit_bool(L, "trainable", s->trainable);
    emit_str(L, "human", show_bytes(g, s->elems * dtype_bytes(s->dtype)));
    emit_num(L, "pad_percent",
             100.0 * (double)(s->elems - s->used_elems) / (double)s->elems);
    set_place(e, "param_shard", shard, SPACE_SYMMETRIC);
    if (segment_has_codes(s))
        set_place(e, "codes", buffer_of(g, BUF_CODES, s->id), SPACE_SYMMETRIC);
    set_place(e, "master", buffer_of(g, BUF_MASTER, s->id), SPACE_LOCAL);
    set_place(e, "moment1", buffer_of(g, BUF_MOMENT1, s->id), SPACE_LOCAL);
    set_place(e, "moment2", buffer_of(g, BUF_MOMENT2, s->id), SPACE_LOCAL);
    set_place(e, "grad_shard", grad,
              s->across ? SPACE_SYMMETRIC : SPACE_LOCAL); /* copies sum it */
    set_place(e, "grad_accum", merged_elsewhere(g, s), SPACE_SYMMETRIC);
    set_place(e, "partials", partial, SPACE_LOCAL);
    if (segment_has_matrices(g, s))
        set_place(e, "direction", buffer_of(g, BUF_DIRECTION, s->id), SPACE_SYMMETRIC);
    emit_int(L, "partial_elems",
             !partial                      ? 0
             : g->model.accumulate_sharded ? s->shard_elems
                                           : s->elems);
}

static void push_segments(Emit *e)
{
    Gen *g = e->g;
    lua_State *L = e->L;
    int n_params = 0;

    lua_createtable(L, g->segments.count, 0);
    for (int i = 0; i < g->segments.count; i++) {
        const Segment *s = &g->segments.items[i];

        push_segment(e, s, n_params);
        lua_createtable(L, s->n_params, 0);
        for (int k = 0; k < s->n_params; k++) {
            lua_pushinteger(L, s->params[k] + 1);
            lua_rawseti(L, -2, k + 1);
        }
        lua_setfield(L, -2, "params");
        lua_rawseti(L, -2, i + 1);
        n_params += s->n_params;
    }
    gen_require(n_params == g->params.count, "%d parameters lie in segments, of %d",
                n_params, g->params.count);
    lua_setfield(L, -2, "segments");
}

static void push_units(Emit *e)
{
    Gen *g = e->g;
    lua_State *L = e->L;

    lua_createtable(L, g->units.count, 0);
    for (int i = 0; i < g->units.count; i++) {
        const Unit *u = &g->units.items[i];
        int64_t elems = 0, bytes = 0;

        for (int k = 0; k < u->n_segments; k++) {
            const Segment *s = &g->segments.items[u->segments[k]];

            elems += s->elems;
            bytes += s->elems * dtype_bytes(s->dtype);
        }
        lua_newtable(L);
        emit_str(L, "name", u->name);
        emit_int(L, "elems", elems);
        emit_str(L, "human", show_bytes(g, bytes));
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "units");
}

static const char *rt_init(const char *init)
{
    if (!strcmp(init, "zeros"))
        return "RT_INIT_ZEROS";
    if (!strcmp(init, "ones"))
        return "RT_INIT_ONES";
    gen_require(!strcmp(init, "normal"), "initialisation \"%s\" reached emit", init);
    return "RT_INIT_NORMAL";
}

/* The Hugging Face tensors inside a fused storage tensor, under their global names. */
static void push_parts(Emit *e, const Param *p)
{
    const ClassParam *d = p->decl;
    int64_t rows = 0;

    lua_createtable(e->L, d->n_parts, 0);
    for (int i = 0; i < d->n_parts; i++) {
        lua_newtable(e->L);
        emit_str(e->L, "name",
                 gen_printf(e->g, "%s%s", d->tied_global ? "" : p->block->prefix,
                            d->part_name[i]));
        emit_int(e->L, "rows", d->part_rows[i]);
        rows += d->part_rows[i];
        lua_rawseti(e->L, -2, i + 1);
    }
    gen_require(d->n_parts == 0 || rows == d->dim[0],
                "the parts of %s have %" PRId64 " rows of %" PRId64, p->name, rows,
                d->dim[0]);
    lua_setfield(e->L, -2, "parts");
}

/* Is the parameter, under an optimizer that treats matrices as a whole, not a matrix? */
static bool other_half(const Gen *g, const Param *p)
{
    return g->batches.count > 0 && !p->matrix;
}

static double param_decay(const Gen *g, const Param *p)
{
    if (p->group && p->group->has_decay)
        return p->group->weight_decay;
    if (!p->decl->decay || p->decl->frozen)
        return 0;
    return other_half(g, p) ? g->model.others_decay : g->model.weight_decay;
}

/* Relative to the optimizer's learning rate, which is that of matrices if it treats
 * any. */
static double param_lr_ratio(const Gen *g, const Param *p)
{
    double group = p->group ? p->group->lr_ratio : 1;

    return other_half(g, p) ? group * (g->model.others_lr / g->model.lr) : group;
}

static void push_param_matrices(Emit *e, const Param *p)
{
    const Gen *g = e->g;
    int first = -1, n = 0;

    for (int i = 0; i < g->matrices.count; i++)
        if (g->matrices.items[i].param == p->id) {
            first = first < 0 ? i : first;
            n++;
        }
    emit_int(e->L, "first_matrix", first);
    emit_int(e->L, "n_matrices", n);
}

/* "256, 128, 128": the sizes of the sections that boxes have pieces of; NULL: one, and no
 * padding. */
static const char *sections_text(Gen *g, const Sections *s)
{
    Text t = {.g = g};

    for (int i = 0; i < s->n; i++)
        text_printf(&t, "%s%lld", i ? ", " : "", (long long)s->elems[i]);
    return s->n > 1 || s->pad ? t.s : NULL;
}

static void push_params(Emit *e)
{
    Gen *g = e->g;
    lua_State *L = e->L;

    lua_createtable(L, g->params.count, 0);
    for (int i = 0; i < g->params.count; i++) {
        const Param *p = &g->params.items[i];
        const Segment *s = &g->segments.items[p->segment];
        const char *shape = show_shape(g, p->decl->dim, p->decl->n_dims);

        gen_require(p->offset_elems >= 0 && p->offset_elems % GRAIN_ELEMS == 0 &&
                        p->offset_elems + p->held_elems <= s->elems,
                    "parameter %s lies outside segment %s", p->name, s->name);
        lua_newtable(L);
        emit_str(L, "name", p->name);
        emit_str(L, "segment", s->macro);
        emit_int(L, "offset_elems", p->offset_elems);
        emit_int(L, "elems", p->elems);
        emit_int(L, "scale", p->scale);
        emit_int(L, "cut_dim", layout_boxes(p) > 1 ? p->cut_dim : 0);
        emit_int(L, "boxes", p->boxes);
        emit_int(L, "inner_boxes", p->inner_boxes);
        emit_str(L, "sections", sections_text(g, &p->sections));
        emit_int(L, "n_dims", p->decl->n_dims);
        emit_str(L, "shape", shape);
        emit_str(L, "dims", gen_strndup(g, shape + 1, strlen(shape) - 2));
        emit_str(L, "human", show_bytes(g, p->elems * dtype_bytes(s->dtype)));
        emit_str(L, "init", rt_init(p->decl->init));
        emit_num(L, "init_std", p->decl->init_std);
        emit_num(L, "weight_decay", param_decay(g, p));
        emit_num(L, "lr_ratio", param_lr_ratio(g, p));
        push_param_matrices(e, p);
        emit_bool(L, "frozen", p->decl->frozen);
        emit_int(L, "uses", p->n_uses);
        emit_int(L, "file", p->file);
        emit_int(L, "file_elems", p->file_elems);
        push_parts(e, p);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "params");
}

/* Fields NAME_buffer and NAME_bytes for a buffer that only some targets have. */
static void set_area(Emit *e, BufKind kind, const char *name)
{
    const Buffer *b = buffer_of(e->g, kind, -1);

    if (!b)
        return;
    emit_str(e->L, gen_printf(e->g, "%s_buffer", name), b->macro);
    emit_int(e->L, gen_printf(e->g, "%s_bytes", name), b->bytes);
}

static const Buffer *buffer_named(const Gen *g, BufKind kind, const char *name)
{
    for (int i = 0; i < g->prog.bufs.count; i++) {
        const Buffer *b = &g->prog.bufs.items[i];

        if (b->kind == kind && (!name || !strcmp(b->name, name)))
            return b;
    }
    gen_die("the plan has no buffer %s", name ? name : "of control");
}

void emit_layout_context(Emit *e)
{
    Gen *g = e->g;

    push_units(e);
    push_segments(e);
    push_params(e);
    push_buffers(e);
    emit_matrices(e);
    for (int i = 0; i < (g->model.packed ? DATA_ROW : DATA_STARTS); i++)
        emit_str(e->L, gen_printf(g, "%s_buffer", data_names[i]),
                 buffer_named(g, BUF_DATA, data_names[i])->macro);
    set_area(e, BUF_LARGEST, "largest");
    set_area(e, BUF_SCALES, "scales");
    set_area(e, BUF_STAGING, "staging");
    set_area(e, BUF_MEETING, "meeting");
    set_area(e, BUF_LIBRARY, "library");
    if (e->g->prog.count[VARIANT_EVAL]) {
        emit_str(e->L, "row_buffer",
                 buffer_named(g, BUF_DATA, data_names[DATA_ROW])->macro);
        emit_str(e->L, "logits_buffer", buffer_named(g, BUF_LOGITS, "logits")->macro);
    }
    emit_str(e->L, "control_buffer", buffer_named(g, BUF_CONTROL, NULL)->macro);
}
