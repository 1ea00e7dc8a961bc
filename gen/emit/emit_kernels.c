/* SPDX-License-Identifier: Apache-2.0 */
/* emit_kernels.c: kernels as text, from the op folders' templates.
 *
 * In: g->classes with spans and kernel names (span.c), the op folders. Out: fields of the
 * context: kernels (rendered texts, one per distinct kernel; the optimizer's last),
 * prepared (statements for kernels_prepare), optimizer; and the list of kernels.
 *
 * Nothing here may depend on a choice outside the numerics hash (emit_math.c). */
#include "emit/emit.h"
#include "base/sandbox.h"
#include "ops/ops.h"
#include "plan/plan.h"
#include "base/show.h"

#include <string.h>

/* ---- kernels --------------------------------------------------------------------- */

static void collect_kernels(Emit *e, KernelList *kernels, const Span *s)
{
    for (int i = 0; i < s->n_nodes; i++) {
        const Node *n = s->nodes[i];
        bool seen = false;

        gen_require(n->kernel, "node %s has no kernel", n->name);
        for (int k = 0; k < kernels->count; k++)
            seen = seen || !strcmp(kernels->items[k]->kernel, n->kernel);
        if (!seen)
            *gen_push(e->g, kernels) = n;
    }
}

/* Field `operands` of the table on top: "x f32 [512, 288]", "w f32 [288] -> y f32 [512,
 * 288]". */
void emit_operands(Emit *e, const Node *n)
{
    const char *before = n->n_in ? NULL : "";
    int count = 0;

    lua_newtable(e->L);
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        bool in = i < n->n_in;
        const Value *v = in ? n->in[i] : n->out[i - n->n_in];
        const char *name = in ? node_operand(n, i)->name : n->op->out[i - n->n_in].name;
        const char *text = gen_printf(e->g, "%s %s %s", name, dtype_name(v->dtype),
                                      show_shape(e->g, v->dim, v->n_dims));

        if (i + 1 == n->n_in) { /* the arrow stays on the line of the last input */
            before = gen_printf(e->g, "%s ", text);
            continue;
        }
        if (i == n->n_in)
            text = gen_printf(e->g, "%s-> %s", before, text);
        lua_pushstring(e->L, text);
        lua_rawseti(e->L, -2, ++count);
    }
    lua_setfield(e->L, -2, "operands");
}

/* The line that the rule says about itself. */
static void set_doc(Emit *e, const OpRule *rule)
{
    lua_rawgeti(e->L, LUA_REGISTRYINDEX, rule->lua_ref);
    lua_getfield(e->L, -1, "doc");
    lua_remove(e->L, -2);
    lua_setfield(e->L, -2, "doc");
}

/* Checks that spans, and other files, can call the kernel on top of the stack. */
static void check_heading(Emit *e, const OpRule *rule, const char *file,
                          const char *kernel)
{
    lua_State *L = e->L;

    emit_str(L, "fn", kernel);
    lua_rawgeti(L, LUA_REGISTRYINDEX, e->template_ref);
    lua_getfield(L, -1, "kernel_heading");
    lua_pushvalue(L, -3);
    if (lua_pcall(L, 1, 1, 0))
        sandbox_fault(L, rule->name);
    if (lua_isnil(L, -1))
        diag_add(e->g, DIAG_ERROR, (Pos){file, 1, 1, 0},
                 "write its kernel as `static void ${fn}(...)`",
                 "op %s: prints no function %s", rule->name, kernel);
    lua_pop(L, 2);
}

/* Renders the kernel whose environment is on top of the stack; appends its text (for a
 * device also its host text) to the table at `list` and its prepared statements to the
 * one at `prepared`. */
void emit_kernel(Emit *e, const OpRule *rule, const Node *node, int list, int prepared)
{
    lua_State *L = e->L;
    const char *name = ops_kernel_file(e->g, node ? node->library : NULL);
    const char *file = ops_template_path(e->g, rule, name), *text;
    size_t bytes, n;
    const char *source = ops_template(e->g, rule, name, &bytes);

    if (!source) {
        diag_add(e->g, DIAG_ERROR, (Pos){0},
                 gen_printf(e->g, "write its %s, or choose another target", name),
                 "op %s: %s has no %s", rule->name, rule->folder, name);
        lua_pop(L, 1);
        return;
    }
    if (rule->info->from_disk && !rule->info->map)
        diag_add(e->g, DIAG_NOTE, (Pos){.file = file}, NULL,
                 "this code becomes part of the trainer, which runs it");
    emit_target(e);
    lua_rawgeti(L, LUA_REGISTRYINDEX, e->template_ref);
    lua_getfield(L, -1, "kernel_helpers");
    lua_remove(L, -2);
    lua_insert(L, -2);
    if (lua_pcall(L, 1, 1, 0))
        sandbox_fault(L, rule->name);
    text = emit_render(e, source, bytes, file, true, &n);
    if (!text)
        return;
    for (int i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++)
        lua_rawseti(L, prepared, (lua_Integer)lua_rawlen(L, prepared) + 1);
    lua_pop(L, 1);
    lua_getfield(L, -1, "host");
    lua_remove(L, -2);
    lua_newtable(L);
    lua_insert(L, -2);
    if (emit_on_device(e) && lua_isnil(L, -1))
        diag_add(e->g, DIAG_ERROR, (Pos){file, 1, 1, 0},
                 "the launcher stands after a line `//@ host`",
                 "op %s: its %s has no host part", rule->name, name);
    lua_setfield(L, -2, "host");
    lua_pushlstring(L, text, n);
    lua_setfield(L, -2, "text");
    if (node)
        check_heading(e, rule, file, node->kernel);
    set_doc(e, rule);
    emit_str(L, "op", rule->name);
    lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
}

/* target.attention = "tune": of each kernel that a library or the target itself could
 * run, the one not chosen. No step calls it. */
static void collect_others(Emit *e, const KernelList *kernels, KernelList *others)
{
    Gen *g = e->g;

    for (int i = 0; i < kernels->count && g->model.library_measured; i++) {
        const Node *n = kernels->items[i];
        Node *other;

        if (!n->site)
            continue;
        other = gen_alloc(g, sizeof *other);
        *other = *n;
        other->library = n->library ? NULL : g->model.kernel_library;
        other->workspace_bytes = n->other_workspace_bytes;
        other->other_workspace_bytes = n->workspace_bytes;
        other->kernel = gen_printf(g, "%s_%s", n->kernel,
                                   other->library ? other->library->folder : "generated");
        *gen_push(g, others) = other;
    }
}

/* Can some choice of recompute call the kernel from the schedule? */
static bool runs_again(Gen *g, const char *kernel)
{
    for (int i = 0; i < g->classes.count; i++) {
        Class *c = g->classes.items[i];
        bool *nodes = gen_alloc(g, (size_t)c->nodes.count + 1);

        recompute_any(g, c, nodes);
        for (int n = 0; n < c->nodes.count; n++)
            if (nodes[n] && !strcmp(c->nodes.items[n]->kernel, kernel))
                return true;
    }
    return false;
}

static void push_kernels(Emit *e, const KernelList *kernels)
{
    lua_State *L = e->L;
    KernelList others = {0};
    int list, prepared;

    collect_others(e, kernels, &others);
    lua_newtable(L);
    list = lua_gettop(L);
    lua_newtable(L);
    prepared = lua_gettop(L);
    for (int i = 0; i < kernels->count + others.count; i++) {
        const Node *n =
            i < kernels->count ? kernels->items[i] : others.items[i - kernels->count];
        bool again = runs_again(e->g, n->kernel);
        lua_Integer before = (lua_Integer)lua_rawlen(L, list);

        ops_push_env(e->g, n);
        emit_kernel(e, n->op, n, list, prepared);
        if ((lua_Integer)lua_rawlen(L, list) == before)
            return; /* after a mistake the Lua budget may be used up */
        lua_rawgeti(L, list, before + 1);
        emit_operands(e, n);
        emit_str(L, "fn", n->kernel);
        emit_bool(L, "again", again);
        lua_pop(L, 1);
    }
    emit_optimizer_kernels(e, list, prepared);
    lua_setfield(L, -3, "prepared");
    lua_setfield(L, -2, "kernels");
    emit_timed(e, kernels);
    emit_sites(e, kernels, &others);
}

void emit_kernels(Emit *e, KernelList *kernels)
{
    Gen *g = e->g;

    collect_kernels(e, kernels, &g->setup);
    for (int i = 0; i < g->classes.count; i++) {
        collect_kernels(e, kernels, &g->classes.items[i]->forward);
        collect_kernels(e, kernels, &g->classes.items[i]->backward);
        collect_kernels(e, kernels, &g->classes.items[i]->evaluate);
    }
    push_kernels(e, kernels);
    if (!diag_errors(g))
        emit_optimizer_names(e);
}
