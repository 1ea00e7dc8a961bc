/* SPDX-License-Identifier: Apache-2.0 */
/* emit_step.c: the schedule as Lua tables for step.c and bind.c.
 *
 * In: g->prog with waits and offsets, the bindings of every span call. Out: fields of the
 * context: binders (one per way in which the pointers of a span are found), places, and
 * for every variant its forward and backward part as lines: waits with their reasons,
 * then one call.
 *
 * A wait names what it waits for, so the forwards of the local and of the last micro-step
 * usually have the same text; then step.c contains it once. */
#include "emit/emit_step.h"
#include "base/show.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines of the schedule ------------------------------------------------------- */

static const char *place_macro(Gen *g, const Instr *i)
{
    Text t = {.g = g};

    text_printf(&t, "%s_%s", g->blocks.items[i->block].at[i->piece + 1],
                phase_name(i->phase));
    for (char *c = t.s; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return t.s;
}

static bool is_start(const Instr *i)
{
    return i->stream != STREAM_COMPUTE;
}

/* The number of a start on its stream; pending starts complete in this order. */
static int place_in_stream(const Steps *s, const Instr *on)
{
    int before = on->variant == VARIANT_END ? s->starts[VARIANT_LAST][on->stream] : 0;

    return before + s->place[on->id];
}

/* How waits name a start: by its segment, or its batch of matrices. */
static const char *subject_macro(const Steps *s, const Instr *on)
{
    return on->batch >= 0 ? s->g->batches.items[on->batch].macro
                          : s->g->segments.items[on->segment].macro;
}

static void push_waits(Steps *s, const Instr *i)
{
    lua_State *L = s->e->L;
    int n = 0;

    lua_newtable(L);
    for (int k = 0; k < i->n_waits; k++) {
        const Instr *on = &s->p->ins.items[i->waits[k]];

        if (!is_start(on))
            continue; /* the host has run it before this line */
        gen_require(i->variant == on->variant ||
                        (i->variant == VARIANT_END && on->variant == VARIANT_LAST),
                    "instruction %d waits for %d, of another micro-step", i->id, on->id);
        lua_newtable(L);
        emit_str(L, "call", ins_rule(on->kind)->wait);
        emit_str(L, "subject", subject_macro(s, on));
        emit_str(L, "stream", stream_name(on->stream));
        emit_int(L, "place", place_in_stream(s, on));
        emit_str(L, "why", i->wait_why && i->wait_why[k] ? i->wait_why[k] : "");
        lua_rawseti(L, -2, ++n);
    }
    lua_setfield(L, -2, "waits");
}

/* Operands mean the same in all kinds: buffers from and to, equal if in place. */
static void push_operands(Steps *s, const Instr *i)
{
    lua_State *L = s->e->L;

    if (i->from >= 0)
        emit_str(L, "from", s->p->bufs.items[i->from].macro);
    if (i->to >= 0 && i->to != i->from)
        emit_str(L, "to", s->p->bufs.items[i->to].macro);
    emit_bool(L, "kept", i->from >= 0 && s->p->bufs.items[i->from].kind == BUF_KEPT);
    if (ins_rule(i->kind)->start)
        emit_str(L, "call", ins_rule(i->kind)->start);
}

static void push_span(Steps *s, const Instr *i)
{
    Gen *g = s->g;
    lua_State *L = s->e->L;
    Bases bases = bind_bases(s, i);

    emit_str(L, "call", bind_binder(s, i, &bases)->name);
    emit_str(L, "block", ins_place(g, i));
    emit_str(L, "at", place_macro(g, i));
    emit_str(L, "phase", phase_name(i->phase));
    emit_bool(L, "some", g->blocks.items[i->block].keep == KEEP_SOME);
    bind_push_call(s, i, &bases);
}

static void push_line(Steps *s, const Instr *i)
{
    Gen *g = s->g;
    lua_State *L = s->e->L;
    const InsRule *rule = ins_rule(i->kind);
    const Segment *seg = i->segment >= 0 ? &g->segments.items[i->segment] : NULL;

    lua_newtable(L);
    push_waits(s, i);
    if (seg) {
        emit_str(L, "segment", seg->macro);
        emit_str(L, "unit", seg->name);
    }
    if (i->batch >= 0) {
        emit_str(L, "batch", g->batches.items[i->batch].macro);
        emit_str(L, "batch_name", g->batches.items[i->batch].name);
    }
    if (is_start(i)) {
        emit_str(L, "stream", stream_name(i->stream));
        emit_int(L, "place", place_in_stream(s, i));
        emit_str(L, "moved", show_bytes(g, i->moved_bytes));
    }
    emit_str(L, "kind", rule->word);
    push_operands(s, i);
    if (i->kind == INS_SPAN)
        push_span(s, i);
    else
        emit_str(L, "flops", show_count(g, i->flops));
}

/* ---- parts ----------------------------------------------------------------------- */

/* The most bytes of transient buffers alive at once during the part's lines. */
static int64_t part_peak(Steps *s, const Part *part)
{
    const Program *p = s->p;
    int first = p->first[part->variant], last = first + p->count[part->variant];
    int *from = gen_alloc(s->g, sizeof *from * (size_t)(p->bufs.count + 1));
    int *to = gen_alloc(s->g, sizeof *to * (size_t)(p->bufs.count + 1));
    int64_t *change = gen_alloc(s->g, sizeof *change * (size_t)(last - first + 2));
    int64_t live = 0, peak = 0;

    memset(from, -1, sizeof *from * (size_t)p->bufs.count);
    for (int i = first; i < last; i++) {
        for (int a = 0; a < p->ins.items[i].n_access; a++) {
            int b = p->ins.items[i].access[a].buffer;

            if (p->bufs.items[b].persistent)
                continue;
            from[b] = from[b] < 0 ? i : from[b];
            to[b] = i;
        }
    }
    for (int b = 0; b < p->bufs.count; b++) {
        if (from[b] >= 0) {
            change[from[b] - first] += p->bufs.items[b].bytes;
            change[to[b] - first + 1] -= p->bufs.items[b].bytes;
        }
    }
    for (int i = first; i < part->last; i++) {
        live += change[i - first];
        if (i >= part->first)
            peak = max_i64(peak, live);
    }
    return peak;
}

/* All lines of a part as one text, without the variant: equal parts are emitted once. */
static const char *fingerprint(Steps *s, const Part *part)
{
    Text t = {.g = s->g};

    for (int n = part->first; n < part->last; n++) {
        const Instr *i = &s->p->ins.items[n];

        text_printf(&t, "%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d:", i->kind,
                    i->block, i->piece, i->segment, i->phase, i->from, i->to, i->in,
                    i->out, i->d_in, i->d_out, i->saved, i->dropped, i->scratch, i->with);
        for (int k = 0; k < i->n_waits; k++)
            if (is_start(&s->p->ins.items[i->waits[k]]))
                text_printf(&t, " %s", subject_macro(s, &s->p->ins.items[i->waits[k]]));
        text_printf(&t, "\n");
    }
    return t.len ? t.s : "";
}

static void add_part(Steps *s, Variant v, Phase phase, int first, int last)
{
    Part *part;

    if (first == last)
        return;
    part = gen_push(s->g, &s->parts);
    *part = (Part){.variant = v, .phase = phase, .first = first, .last = last};
    part->text = fingerprint(s, part);
}

static void find_parts(Steps *s)
{
    static const char *const variant_name[] = {"evaluation", "local", "last", "end"};
    static const Variant variants[] = {VARIANT_LOCAL, VARIANT_LAST, VARIANT_EVAL};

    for (int k = 0; k < 3; k++) {
        Variant v = variants[k];
        int first = s->p->first[v], last = first + s->p->count[v], middle = first, merges;

        while (middle < last && s->p->ins.items[middle].phase == PHASE_FORWARD)
            middle++;
        merges = last;
        while (v == VARIANT_LOCAL && merges > middle &&
               s->p->ins.items[merges - 1].kind == INS_MERGE)
            merges--;
        add_part(s, v, PHASE_FORWARD, first, middle);
        add_part(s, v, v == VARIANT_EVAL ? PHASE_EVALUATE : PHASE_BACKWARD, middle,
                 merges);
        if (merges < last) { /* these run only after the last micro-batch of a leaf */
            add_part(s, v, PHASE_SETUP, merges, last);
            s->parts.items[s->parts.count - 1].name = "merge_leaf";
        }
    }
    for (int i = 0; i < s->parts.count; i++) {
        Part *a = &s->parts.items[i];
        const char *phase = phase_name(a->phase);

        if (a->name)
            continue;
        a->name = phase; /* the only one of its phase, or equal to the others */
        for (int k = 0; k < s->parts.count; k++) {
            const Part *b = &s->parts.items[k];

            if (b != a && b->phase == a->phase && strcmp(b->text, a->text))
                a->name = gen_printf(s->g, "%s_%s", phase, variant_name[a->variant]);
        }
        for (int k = 0; k < i; k++) {
            const Part *b = &s->parts.items[k];

            if (b->phase == a->phase && !strcmp(b->text, a->text))
                a->name = b->name;
        }
    }
}

static void push_lines(Steps *s, int first, int last)
{
    lua_State *L = s->e->L;

    lua_createtable(L, last - first, 0);
    for (int i = first; i < last; i++) {
        push_line(s, &s->p->ins.items[i]);
        lua_rawseti(L, -2, i - first + 1);
    }
    lua_setfield(L, -2, "lines");
}

static void push_part(Steps *s, const Part *part)
{
    lua_State *L = s->e->L;
    int64_t gathered = 0, reduced = 0;
    int gathers = 0, reduces = 0;
    double flops = 0;

    for (int n = part->first; n < part->last; n++) {
        const Instr *i = &s->p->ins.items[n];

        flops += i->flops;
        gathers += i->stream == STREAM_GATHER;
        gathered += i->stream == STREAM_GATHER ? i->moved_bytes : 0;
        reduces += i->stream == STREAM_REDUCE;
        reduced += i->stream == STREAM_REDUCE ? i->moved_bytes : 0;
    }
    lua_newtable(L);
    emit_str(L, "name", part->name);
    emit_str(L, "phase", part->phase == PHASE_SETUP ? "merge" : phase_name(part->phase));
    emit_str(L, "variant",
             part->variant == VARIANT_LOCAL  ? "local"
             : part->variant == VARIANT_LAST ? "last"
                                             : "evaluation");
    emit_str(L, "flops", show_count(s->g, flops));
    emit_int(L, "gathers", gathers);
    emit_str(L, "gathered", show_bytes(s->g, gathered));
    emit_int(L, "reduces", reduces);
    emit_str(L, "reduced", show_bytes(s->g, reduced));
    emit_str(L, "peak", show_bytes(s->g, part_peak(s, part)));
    push_lines(s, part->first, part->last);
}

/* What trainer_setup passes to the constants' span: where each of them is. */
static void push_setup_args(Steps *s)
{
    const Span *setup = &s->g->setup;
    int n = 0;

    lua_newtable(s->e->L);
    if (emit_on_device(s->e)) {
        lua_pushliteral(s->e->L, "rt");
        lua_rawseti(s->e->L, -2, ++n);
    }
    for (int a = 0; a < setup->n_args; a++) {
        if (setup->args[a].kind != ARG_CONST) { /* the rest is workspace: see span.c */
            diag_add(s->g, DIAG_ERROR, (Pos){0}, "keep its temporaries on the stack",
                     "op %s: a kernel of constants cannot have a workspace",
                     setup->nodes[0]->op->name);
            continue;
        }
        lua_pushfstring(s->e->L, "rt_local(rt, %s)", bind_const(s, setup->args[a].index));
        lua_rawseti(s->e->L, -2, ++n);
    }
    lua_setfield(s->e->L, -2, "setup_args");
}

static void push_places(Steps *s)
{
    Gen *g = s->g;
    lua_State *L = s->e->L;
    int first = s->p->first[VARIANT_LAST], last = first + s->p->count[VARIANT_LAST],
        n = 0;

    lua_newtable(L);
    for (int k = 0; k < s->p->ins.count; k++) {
        const Instr *i = &s->p->ins.items[k];
        bool step = k >= first && k < last;

        if (i->kind != INS_SPAN || (!step && i->phase != PHASE_EVALUATE))
            continue;
        lua_newtable(L);
        emit_str(L, "macro", place_macro(g, i));
        emit_str(L, "name",
                 gen_printf(g, "%s %s%s", ins_place(g, i), ins_span(g, i)->name,
                            i->phase == PHASE_RECOMPUTE ? " again" : ""));
        lua_rawseti(L, -2, ++n);
    }
    lua_setfield(L, -2, "places");
}

/* ---- the pass's part ------------------------------------------------------------- */

static void index_program(Steps *s)
{
    const Program *p = s->p;
    int k = 0;

    s->first_binding = gen_alloc(s->g, sizeof(int) * (size_t)(p->ins.count + 2));
    s->place = gen_alloc(s->g, sizeof(int) * (size_t)(p->ins.count + 1));
    for (int i = 0; i < p->ins.count; i++) {
        const Instr *ins = &p->ins.items[i];

        gen_require(ins->id == i, "instruction %d stands at %d", ins->id, i);
        s->first_binding[i] = k;
        while (k < p->n_bindings && p->bindings[k].ins == i)
            k++;
        if (is_start(ins))
            s->place[i] = s->starts[ins->variant][ins->stream]++;
    }
    gen_require(k == p->n_bindings, "bindings are not in order of instructions");
    s->first_binding[p->ins.count] = k;
}

/* Pushes a node of the step's tree (plan/step.h). */
static void push_node(lua_State *L, const StepNode *node)
{
    static const char *const over[] = {"step", "rounds", "micro_batches", "line"};
    static const char *const lines[N_VARIANTS] = {"evaluate", "local", "last", "end"};

    luaL_checkstack(L, 3, "step");
    lua_newtable(L);
    emit_str(L, "over", over[node->of]);
    if (node->of == NODE_LINE)
        emit_str(L, "line", lines[node->line]);
    emit_int(L, "turns", node->turns);
    lua_newtable(L);
    for (int i = 0; i < node->n_nodes; i++) {
        push_node(L, &node->nodes[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "nodes");
}

void emit_step_context(Emit *e)
{
    Gen *g = e->g;
    lua_State *L = e->L;
    Steps s = {.e = e, .g = g, .p = &g->prog};
    int n = 0;

    index_program(&s);
    find_parts(&s);
    lua_newtable(L);
    for (int i = 0; i < s.parts.count; i++) {
        push_part(&s, &s.parts.items[i]);
        lua_rawseti(L, -2, ++n);
    }
    lua_setfield(L, -2, "parts");
    push_lines(&s, g->prog.first[VARIANT_END],
               g->prog.first[VARIANT_END] + g->prog.count[VARIANT_END]);
    bind_push_binders(&s);
    push_places(&s);
    push_setup_args(&s);

    push_node(L, &g->prog.step);
    lua_setfield(L, -2, "step");
    emit_int(L, "rounds", g->prog.rounds);
    emit_int(L, "leaf_micro_batches", g->prog.leaf_micro_batches);
    emit_bool(L, "collectives",
              s.starts[VARIANT_LOCAL][STREAM_GATHER] +
                      s.starts[VARIANT_LAST][STREAM_GATHER] +
                      s.starts[VARIANT_LAST][STREAM_REDUCE] >
                  0);
    gen_require(!s.starts[VARIANT_LOCAL][STREAM_REDUCE], "a local micro-step reduces");
}
