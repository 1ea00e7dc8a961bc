/* SPDX-License-Identifier: Apache-2.0 */
/* test_split FOLDER: graphs in parts, damaged on purpose, one fault at a time;
 * verify_split must name it, and verify_legs those of test_legs.c. tests/graph/parts.sh
 * proves that graphs without a fault compute the same. Out: FAIL lines and "N passed, N
 * failed". */
#include "test_split.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int passed, failed;

/* As it is after that pass. */
static Gen *split_model(Gen *g, const char *input, const char *const *sets,
                        const char *last)
{
    static const struct {
        const char *name;
        void (*run)(Gen *g);
    } passes[] = {
        {"load", load_description}, {"check", check_model}, {"ops", ops_load},
        {"graph", graph_build},     {"grad", grad_build},   {"encode", encode_weights},
        {"split", split_graph},     {"fuse", fuse_graph},   {"span", span_build},
    };
    g->opt.command = "check";
    g->opt.dump = "split";
    g->opt.input = input;
    for (; *sets; sets++)
        *gen_push(g, &g->opt.sets) = *sets;
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        passes[i].run(g);
        diag_stop_on_errors(g);
        if (i > 0)
            verify_after(g, passes[i].name);
        if (!strcmp(passes[i].name, last))
            break;
    }
    return g;
}

/* ---- faults: false where the model has no such place ----------------------------- */

/* The first node of all classes for which the test is true. */
typedef bool NodeTest(const Node *n);

static Node *find_node(Gen *g, NodeTest *test)
{
    for (int i = 0; i < g->classes.count; i++)
        for (int k = 0; k < g->classes.items[i]->nodes.count; k++)
            if (test(g->classes.items[i]->nodes.items[k]))
                return g->classes.items[i]->nodes.items[k];
    return NULL;
}

/* Is it made by a meet along the axis? */
static bool is_met(const Value *v)
{
    return v->def && v->def->op->collective && v->def->along == fault_axis;
}

static bool reads_meet(const Node *n, PartKind from)
{
    for (int i = 0; !n->op->collective && i < n->n_in; i++)
        if (is_met(n->in[i]) && n->in[i]->def->in[0]->part[fault_axis].kind == from)
            return true;
    return false;
}

static bool reads_sum(const Node *n)
{
    return reads_meet(n, PART_PARTIAL);
}

static bool reads_gather(const Node *n)
{
    return reads_meet(n, PART_CUT);
}

static bool reads_largest(const Node *n)
{
    return reads_meet(n, PART_LARGEST);
}

/* The bias that follows a sum: one value for each feature, not a row. */
static bool adds_bias(const Node *n)
{
    return reads_sum(n) && n->n_in == 2 && n->in[1]->kind == VAL_PARAM &&
           n->in[1]->n_dims == 1 && n->n_out == 1;
}

static bool without_meet(Node *n)
{
    for (int i = 0; n && i < n->n_in; i++)
        if (is_met(n->in[i]))
            n->in[i] = n->in[i]->def->in[0];
    return n != NULL;
}

bool plant_no_meet(Gen *g, PartKind from)
{
    return without_meet(find_node(g, from == PART_PARTIAL ? reads_sum
                                     : from == PART_CUT   ? reads_gather
                                                          : reads_largest));
}

static bool plant_no_sum(Gen *g)
{
    return plant_no_meet(g, PART_PARTIAL);
}

static bool plant_no_gather(Gen *g)
{
    return plant_no_meet(g, PART_CUT);
}

static bool plant_early_bias(Gen *g)
{
    Node *n = find_node(g, adds_bias);

    if (!without_meet(n))
        return false;
    n->out[0]->part[fault_axis] =
        n->in[0]->part[fault_axis]; /* it is summed afterwards */
    return true;
}

static Value *find_value(Gen *g, bool (*test)(const Class *c, const Value *v))
{
    for (int i = 0; i < g->classes.count; i++)
        for (int k = 0; k < g->classes.items[i]->values.count; k++)
            if (test(g->classes.items[i], g->classes.items[i]->values.items[k]))
                return g->classes.items[i]->values.items[k];
    return NULL;
}

/* What each part adds to the gradient of a parameter that all have. */
static bool norm_gradient(const Class *c, const Value *v)
{
    for (int i = 0; i < c->nodes.count; i++)
        if (is_met(c->nodes.items[i]->out[0]) && c->nodes.items[i]->in[0] == v)
            return c->nodes.items[i]->out[0]->loc == LOC_GRAD &&
                   c->nodes.items[i]->out[0]->part[fault_axis].kind == PART_WHOLE;
    return false;
}

static bool packed_param(const Class *c, const Value *v)
{
    (void)c;
    return v->kind == VAL_PARAM && v->part[fault_axis].kind == PART_CUT &&
           v->part[fault_axis].sections.n > 1;
}

static bool cut_gradient(const Class *c, const Value *v)
{
    (void)c;
    return v->loc == LOC_GRAD && v->part[fault_axis].kind == PART_CUT && v->n_dims == 2;
}

static bool plant_norm_not_summed(Gen *g)
{
    Value *v = find_value(g, norm_gradient);

    if (v)
        v->part[fault_axis].kind = PART_WHOLE;
    return v != NULL;
}

static bool plant_one_section(Gen *g)
{
    Value *v = find_value(g, packed_param);
    int64_t *all;

    if (!v)
        return false;
    all = gen_alloc(g, sizeof *all);
    for (int i = 0; i < v->part[fault_axis].sections.n; i++)
        *all += v->part[fault_axis].sections.elems[i];
    v->part[fault_axis].sections = (Sections){1, all, 0};
    return true;
}

/* One column, or row, of a parameter before the rest: no part has half of it. */
static bool plant_section_of_one(Gen *g)
{
    Value *v = find_value(g, packed_param);
    ClassParam *p = NULL;
    int64_t *elems;

    for (int i = 0; v && !p && i < g->classes.count; i++)
        for (int k = 0; k < g->classes.items[i]->values.count; k++)
            if (g->classes.items[i]->values.items[k] == v)
                p = &g->classes.items[i]->params.items[v->index];
    if (!p)
        return false;
    elems = gen_alloc(g, 2 * sizeof *elems);
    elems[0] = 1;
    elems[1] = p->dim[p->mark[fault_axis].dim]; /* which parts divide */
    p->dim[p->mark[fault_axis].dim]--;
    p->mark[fault_axis].sections = v->part[fault_axis].sections = (Sections){2, elems, 0};
    return true;
}

/* Only a sum has another dtype than what it is made of: parts.dtype. */
static bool rounds(Node *n)
{
    for (int i = 0; n && i < n->n_in; i++)
        if (n->in[i]->def && n->in[i]->def->op->collective)
            n->in[i]->dtype = DT_F16;
    return n != NULL;
}

static bool plant_rounding(Gen *g)
{
    g->model.parts_dtype = DT_F32; /* what the value has */
    return rounds(find_node(g, reads_gather));
}

static bool plant_rounded_sum(Gen *g)
{
    return rounds(find_node(g, reads_sum));
}

static bool plant_wide_sum(Gen *g)
{
    Node *n = find_node(g, reads_sum);

    g->model.parts_dtype = DT_F16;
    for (int i = 0; n && i < n->n_in; i++)
        if (n->in[i]->def && n->in[i]->def->op->collective)
            n->in[i]->def->in[0]->dtype = DT_F16;
    return n != NULL;
}

static bool plant_other_box(Gen *g)
{
    Value *v = find_value(g, cut_gradient);

    if (v)
        v->part[fault_axis].dim = 1 - v->part[fault_axis].dim;
    return v != NULL;
}

static bool plant_partial_loss(Gen *g)
{
    for (int i = 0; i < g->classes.count; i++) {
        Class *c = g->classes.items[i];

        for (int k = 0; c->loss && k < c->values.count; k++) {
            if (c->values.items[k]->part[fault_axis].kind != PART_PARTIAL)
                continue;
            c->loss = c->values.items[k];
            return true;
        }
    }
    return false;
}

static bool plant_other_boundary(Gen *g)
{
    for (int i = 0; i < g->classes.count; i++) {
        Class *c = g->classes.items[i];
        Value *v = c->n_outputs ? c->outputs[0] : NULL;

        while (v && v->def->op->collective && !is_met(v))
            v = v->def->in[0];
        if (v && is_met(v)) {
            c->outputs[0] = v->def->in[0];
            return true;
        }
    }
    return false;
}

static bool is_meet(const Node *n)
{
    return is_met(n->out[0]);
}

static bool plant_other_meet(Gen *g)
{
    Node *n = find_node(g, is_meet);

    for (int i = 0; n && i < n->n_attrs; i++)
        if (!strcmp(n->attrs[i].key, "to"))
            n->attrs[i].s = "cut:1:4+4";
    return n != NULL;
}

static bool plant_other_parts(Gen *g)
{
    Node *n = find_node(g, is_meet);

    for (int i = 0; n && i < n->n_attrs; i++)
        if (!strcmp(n->attrs[i].key, "parts"))
            n->attrs[i].i *= 2;
    return n != NULL;
}

static bool reads_weights(const Node *n)
{
    const Node *def = is_meet(n) ? n->in[0]->def : NULL;

    return def && def->n_in == 1 && def->in[0]->kind == VAL_PARAM;
}

static bool plant_met_weights(Gen *g)
{
    Node *n = find_node(g, reads_weights);

    if (n)
        n->in[0] = n->in[0]->def->in[0];
    return n != NULL;
}

static bool has_heads(const Node *n)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (!strcmp(n->attrs[i].key, "kv_heads"))
            return true;
    return false;
}

static bool plant_all_heads(Gen *g)
{
    Node *n = find_node(g, has_heads);

    for (int i = 0; n && i < n->n_attrs; i++)
        if (!strcmp(n->attrs[i].key, "heads") || !strcmp(n->attrs[i].key, "kv_heads"))
            n->attrs[i].i *= 2;
    return n != NULL;
}

/* It takes the number of its part. */
static bool reads_part(const Node *n)
{
    const Value *last = n->n_in ? n->in[n->n_in - 1] : NULL;

    return last && last->kind == VAL_DATA && last->index == DATA_PART;
}

static bool plant_no_part(Gen *g)
{
    Node *n = find_node(g, reads_part);

    if (n)
        n->n_in--;
    return n != NULL;
}

static bool plant_no_part_backward(Gen *g)
{
    Node *n = NULL;

    for (int i = 0; i < g->classes.count; i++)
        for (int k = 0; k < g->classes.items[i]->nodes.count; k++)
            if (reads_part(g->classes.items[i]->nodes.items[k]))
                n = g->classes.items[i]->nodes.items[k]; /* the last one */
    if (!n || n->phase != PHASE_BACKWARD)
        return false;
    n->n_in--;
    return true;
}

static bool plant_all_numbers(Gen *g)
{
    Node *n = find_node(g, reads_part);

    if (n)
        n->in[n->n_in - 1]->part[fault_axis] = (PartState){0};
    return n != NULL;
}

static bool makes_loss(const Node *n)
{
    return n->out[0]->dtype == DT_F64 && reads_gather(n);
}

static bool plant_own_loss(Gen *g)
{
    return without_meet(find_node(g, makes_loss));
}

static bool is_padded(const Class *c, const Value *v)
{
    (void)c;
    return v->kind == VAL_NODE && v->part[fault_axis].sections.pad;
}

static bool plant_lost_padding(Gen *g)
{
    Value *v = find_value(g, is_padded);

    if (v)
        v->part[fault_axis].sections.pad = 0;
    return v != NULL;
}

static const SplitFault split_faults[] = {
    {"a sum is missing", plant_no_sum, "before the parts are summed", IN_ALL},
    {"a gather is missing", plant_no_gather, "do not make up", IN_ALL},
    {"the bias before the sum", plant_early_bias, "before the parts are summed", IN_GPT2},
    {"a norm's gradient is not summed", plant_norm_not_summed, "do not make up", IN_ALL},
    {"q, k and v cut as one", plant_one_section, "boxes", IN_ALL},
    {"a section that parts do not divide", plant_section_of_one, "boxes", IN_ALL},
    {"a gradient on other ranks", plant_other_box, "on the ranks of its parameter",
     IN_ALL},
    {"a loss that is partial", plant_partial_loss, "the loss is not summed", IN_ALL},
    {"blocks disagree", plant_other_boundary, "in other parts than", IN_ALL},
    {"a meet makes something else", plant_other_meet, "makes", IN_ALL},
    {"a gather that rounds", plant_rounding, "makes f16 of f32", IN_ALL},
    {"a sum of what parts.dtype is not", plant_rounded_sum, "makes f16 of f32", IN_ALL},
    {"summands narrower than their sum", plant_wide_sum, "makes f32 of f16", IN_ALL},
    {"a meet of other parts", plant_other_parts, "of other parts", IN_ALL},
    {"every part has all heads", plant_all_heads, "do not make up", IN_ALL},
    {"every part has all rows", plant_no_part, "do not make up", IN_ALL},
    {"logits' gradient without the part", plant_no_part_backward, "do not make up",
     IN_ALL},
    {"a part has all numbers", plant_all_numbers, "parts take part as whole", IN_ALL},
    {"a loss of one part's numbers", plant_own_loss, "do not make up", IN_ALL},
    {"padding that is forgotten", plant_lost_padding, "do not make up", IN_ALL},
    {0},
};

/* Where parts have tokens. */
static const SplitFault sequence_faults[] = {
    {"a gather is missing", plant_no_gather, "do not make up", IN_ALL},
    {"a norm's gradient is not summed", plant_norm_not_summed, "do not make up", IN_ALL},
    {"a gradient on other ranks", plant_other_box, "on the ranks of its parameter",
     IN_ALL},
    {"a loss that is partial", plant_partial_loss, "the loss is not summed", IN_ALL},
    {"blocks disagree", plant_other_boundary, "in other parts than", IN_GPT2},
    {"a meet makes something else", plant_other_meet, "makes", IN_ALL},
    {"a meet of other parts", plant_other_parts, "of other parts", IN_ALL},
    {"a meet without a copy", plant_met_weights, "reads weights of other ranks", IN_ALL},
    {"every part has all heads", plant_all_heads, "do not make up", IN_ALL},
    {0},
};

enum { SMALL_LLAMA, SMALL_GPT2, SMALL_FP8 };

/* A small model; parts: "tensor=2", or of both axes. */
static Gen *faulty_model(const char *folder, const char *parts, int family,
                         const char *pass)
{
    static const char *const names[] = {"small_llama", "small_gpt2", "small_llama"};
    const bool both = strchr(parts, ',');
    Gen *g = synth_new();
    const char *sets[3][10] = {
        {NULL, both ? "model.heads=16" : "model.heads=4",
         both ? "model.kv_heads=8" : "model.kv_heads=2",
         both ? "model.head_dim=2" : "model.head_dim=6",
         both ? "model.ffn=16" : "model.ffn=12", "model.vocab=25", /* and 7 of padding */
         both ? "model.layers=1" : "model.layers=2", "seq=8", NULL},
        {NULL, "model.dim=24", both ? "model.heads=8" : "model.heads=4", "model.vocab=25",
         both ? "model.layers=1" : "model.layers=2", "seq=8", "model.max_positions=8",
         NULL},
        {NULL, "dtypes.linear=\"fp8\"", "model.dim=64", "model.heads=4",
         "model.kv_heads=2", "model.head_dim=16", "model.ffn=64", "model.layers=1",
         "seq=64", NULL},
    };

    sets[family][0] = gen_printf(g, "parts={%s}", parts);
    return split_model(g, gen_printf(g, "%s/%s.lua", folder, names[family]), sets[family],
                       pass);
}

typedef const char *SplitVerify(Gen *g);

/* Of two axes the other one's meets may show it first. */
static bool is_named(const char *bad, const char *named, bool both)
{
    return bad && (strstr(bad, named) || (both && strstr(bad, "mixes the pieces")));
}

/* In a child, so that one model serves all faults. Prints what is wrong. */
static bool try_fault(Gen *g, const SplitFault *fault, const char *parts,
                      SplitVerify *verify)
{
    int status;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        const char *bad = fault->plant(g) ? verify(g) : NULL;
        const bool found = is_named(bad, fault->named, strchr(parts, ','));

        if (!found)
            printf("FAIL test_split: %s, along %s: %s: %s\n", parts,
                   axis_name(parts_mesh(fault_axis)), fault->name,
                   bad ? bad : "not noticed");
        fflush(stdout);
        _exit(!found);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static void try_faults(const char *folder, const SplitFault *fault, const char *parts,
                       const char *pass, SplitVerify *verify)
{
    Gen *g[] = {faulty_model(folder, parts, SMALL_LLAMA, pass),
                faulty_model(folder, parts, SMALL_GPT2, pass)};

    for (; fault->name; fault++)
        for (int family = fault->place == IN_GPT2; family < 2; family++) {
            bool found;

            if (fault->place == ALONG_TENSOR && fault_axis != PARTS_TENSOR)
                continue;
            found = try_fault(g[family], fault, parts, verify);
            passed += found;
            failed += !found;
        }
}

static void try_scales(const char *folder, const char *parts)
{
    Gen *g = faulty_model(folder, parts, SMALL_FP8, "split");

    for (const SplitFault *fault = scale_faults; fault->name; fault++) {
        bool found;

        if (fault->place == ALONG_TENSOR && fault_axis != PARTS_TENSOR)
            continue; /* parts of tokens sum only gradients */
        found = try_fault(g, fault, parts, verify_split);
        passed += found;
        failed += !found;
    }
}

/* Each of many small faults in the meets of both axes. */
static void try_meets(const char *folder, const char *parts)
{
    for (int family = 0; family < 2; family++) {
        Gen *g = faulty_model(folder, parts, family, "split");
        int unseen = 0;
        const int seen = split_meet_faults(g, &unseen);

        passed += seen;
        failed += unseen + (seen < 100);
        if (seen < 100)
            printf("FAIL test_split: %s: %d faults in meets\n", parts, seen);
    }
}

int main(int argc, char **argv)
{
    static const char both[] = "tensor=4,context=2";

    gen_require(argc == 2, "usage: test_split FOLDER");
    for (int axis = 0; axis < N_PARTS_AXES; axis++) {
        const SplitFault *faults = axis == PARTS_TENSOR ? split_faults : sequence_faults;
        const char *parts = axis == PARTS_TENSOR ? "tensor=2" : "context=2";

        fault_axis = axis;
        try_faults(argv[1], faults, parts, "split", verify_split);
        try_faults(argv[1], faults, both, "split", verify_split);
        try_faults(argv[1], box_faults, parts, "split", verify_split);
        try_faults(argv[1], box_faults, both, "split", verify_split);
        try_faults(argv[1], both_faults, both, "split", verify_split);
        try_scales(argv[1], parts);
        if (axis == PARTS_TENSOR) /* whose meets follow those along context */
            try_scales(argv[1], "tensor=2,context=2");
        try_faults(argv[1], legs_faults, parts, "span", verify_legs);
        try_faults(argv[1], legs_faults, both, "span", verify_legs);
        try_faults(argv[1], both_legs_faults, both, "span", verify_legs);
    }
    try_meets(argv[1], both);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
