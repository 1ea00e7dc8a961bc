/* SPDX-License-Identifier: Apache-2.0 */
/* import_accelerate.c: `fsdpgen import --accelerate FILE`: the configuration that
 * `accelerate config` writes, as fields of a description.
 *
 * In: the file's entries (import_yaml.c). Out: Lua to paste into trainer { ... }, on
 * stdout; messages with places for unknown keys and unsupported values. One table of keys
 * drives the checks and the table of docs/migrate.md (`fsdpgen docs accelerate`). A
 * missing key prints nothing: the description's default applies. */
#include "import/import.h"
#include "import/import_yaml.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef enum { TEXT, WORD, BOOL, COUNT, SECTION } KeyType;

typedef struct Key {
    const char *section, *key;
    KeyType type;
    const char *words; /* of a WORD: "A|B|"; a word's position is its old number */
    const char *only;  /* the only supported value; NULL: all */
    const char *help;  /* what to do about other values */
    const char *here;  /* for the page; NULL: no effect here */
} Key;

#define FSDP "fsdp_config"
#define PARALLEL "parallelism_config"
#define BY_HAND "; the import refuses more than 1 and says what to write"

static const Key keys[] = {
    {FSDP, "fsdp_version", WORD, "1|2|", NULL, NULL, "both are read"},
    {FSDP, "fsdp_sharding_strategy", WORD,
     "FULL_SHARD|SHARD_GRAD_OP|NO_SHARD|HYBRID_SHARD|HYBRID_SHARD_ZERO2|", NULL, NULL,
     "`strategy`, and `mesh` of `num_processes` ranks: all in `shard`; NO_SHARD: all in "
     "`replicate`; HYBRID: a shard group for each of `num_machines`"},
    {FSDP, "fsdp_reshard_after_forward", TEXT, NULL, NULL, NULL,
     "version 1: the word of `fsdp_sharding_strategy`, which `accelerate config` writes "
     "here since 2025; version 2: `strategy = \"full_shard\"` if true, "
     "`\"shard_grad_op\"` if false"},
    {FSDP, "fsdp_auto_wrap_policy", WORD,
     "TRANSFORMER_BASED_WRAP|SIZE_BASED_WRAP|NO_WRAP|", NULL, NULL,
     "`wrap`: `per_block(1)`, `by_size(fsdp_min_num_params)`, `root_only`"},
    {FSDP, "fsdp_transformer_layer_cls_to_wrap", TEXT, NULL, NULL, NULL,
     "`wrap = per_block(1)`: the architecture's blocks are its layers"},
    {FSDP, "fsdp_min_num_params", COUNT, NULL, NULL, NULL, "of `by_size`"},
    {FSDP, "fsdp_backward_prefetch", WORD, "BACKWARD_PRE|BACKWARD_POST|NO_PREFETCH|",
     NULL, NULL, "`prefetch.order`: `\"pre\"`, `\"post\"`, `\"none\"`"},
    {FSDP, "fsdp_forward_prefetch", BOOL, NULL, NULL, NULL,
     "`prefetch.forward = 1`, whether true or false: with false, FSDP's host still runs "
     "one unit ahead"},
    {FSDP, "fsdp_activation_checkpointing", BOOL, NULL, NULL, NULL,
     "`recompute = \"block\"` when true"},
    {FSDP, "fsdp_offload_params", BOOL, NULL, "false",
     "set it to false; less memory: more shards, recompute, a smaller micro_batch",
     "not available: parameters and optimizer state stay in device memory"},
    {FSDP, "fsdp_state_dict_type", TEXT, NULL, NULL, NULL, NULL},
    {FSDP, "fsdp_use_orig_params", BOOL, NULL, NULL, NULL, NULL},
    {FSDP, "fsdp_sync_module_states", BOOL, NULL, NULL, NULL, NULL},
    {FSDP, "fsdp_cpu_ram_efficient_loading", BOOL, NULL, NULL, NULL, NULL},
    {PARALLEL, "parallelism_config_dp_replicate_size", COUNT, NULL, NULL, NULL,
     "`mesh.replicate`"},
    {PARALLEL, "parallelism_config_dp_shard_size", COUNT, NULL, NULL, NULL,
     "`mesh.shard`"},
    {PARALLEL, "parallelism_config_tp_size", COUNT, NULL, "1",
     "set it to 1, then write parts.tensor and mesh.tensor (docs/parallelism.md)",
     "`mesh.tensor`, with `parts.tensor`: [tensor parallelism](parallelism.md)" BY_HAND},
    {PARALLEL, "parallelism_config_cp_size", COUNT, NULL, "1",
     "set it to 1, then write parts.context and mesh.context (docs/parallelism.md)",
     "`mesh.context`, with `parts.context`: [context "
     "parallelism](parallelism.md#a-sequence-in-parts)" BY_HAND},
    {PARALLEL, "parallelism_config_sp_size", COUNT, NULL, "1",
     "set it to 1, then write parts.context and mesh.context (docs/parallelism.md)",
     "`mesh.context`, with `parts.context`: [context "
     "parallelism](parallelism.md#a-sequence-in-parts)" BY_HAND},
    {PARALLEL, "parallelism_config_cp_backend", TEXT, NULL, NULL, NULL, NULL},
    {PARALLEL, "parallelism_config_cp_comm_strategy", TEXT, NULL, NULL, NULL, NULL},
    {PARALLEL, "parallelism_config_sp_backend", TEXT, NULL, NULL, NULL, NULL},
    {PARALLEL, "parallelism_config_sp_seq_length", TEXT, NULL, NULL, NULL, NULL},
    {PARALLEL, "parallelism_config_sp_seq_length_is_variable", TEXT, NULL, NULL, NULL,
     NULL},
    {PARALLEL, "parallelism_config_sp_attn_implementation", TEXT, NULL, NULL, NULL, NULL},
    {"", "compute_environment", TEXT, NULL, "LOCAL_MACHINE",
     "only local machines and clusters are known here",
     "must be `LOCAL_MACHINE`: the trainer starts its ranks, or takes the launcher's "
     "environment"},
    {"", "distributed_type", TEXT, NULL, "FSDP",
     "this reads FSDP's configuration; of plain data parallelism the whole is mesh = { "
     "replicate = N }, strategy = \"no_shard\"",
     "must be `FSDP`"},
    {"", "mixed_precision", WORD, "no|fp16|bf16|fp8|", NULL, NULL,
     "`dtypes.param`: `\"f32\"`, `\"f16\"`, `\"bf16\"`; in place of fp8, bf16 with "
     "`dtypes.linear = \"fp8\"`. "
     "Accelerate reduces gradients in the same dtype; here `dtypes.reduce` is `\"f32\"` "
     "unless you say otherwise"},
    {"", "num_processes", COUNT, NULL, NULL, NULL, "the ranks of `mesh`"},
    {"", "num_machines", COUNT, NULL, NULL, NULL, "`mesh.replicate` of HYBRID_SHARD"},
    {"", "fsdp_config", SECTION, NULL, NULL, NULL, "the section above"},
    {"", "parallelism_config", SECTION, NULL, NULL, NULL, "the section above"},
    {"", "deepspeed_config", SECTION, NULL, "{}", "remove it", "not read"},
    {"", "megatron_lm_config", SECTION, NULL, "{}", "remove it", "not read"},
    {"", "fp8_config", SECTION, NULL, "{}",
     "remove it: dtypes.linear = \"fp8\" has one recipe, current scaling of tensors",
     "`dtypes.linear = \"fp8\"` has one recipe: current scaling of tensors"},
    {"", "dynamo_config", SECTION, NULL, NULL, NULL, NULL},
    {"", "mpirun_config", SECTION, NULL, NULL, NULL, NULL},
    {"", "use_cpu", BOOL, NULL, NULL, NULL, NULL},
    {"", "debug", BOOL, NULL, NULL, NULL, NULL},
    {"", "downcast_bf16", TEXT, NULL, NULL, NULL, NULL},
    {"", "enable_cpu_affinity", BOOL, NULL, NULL, NULL, NULL},
    {"", "machine_rank", TEXT, NULL, NULL, NULL, NULL},
    {"", "main_process_ip", TEXT, NULL, NULL, NULL, NULL},
    {"", "main_process_port", TEXT, NULL, NULL, NULL, NULL},
    {"", "main_training_function", TEXT, NULL, NULL, NULL, NULL},
    {"", "rdzv_backend", TEXT, NULL, NULL, NULL, NULL},
    {"", "same_network", BOOL, NULL, NULL, NULL, NULL},
    {"", "gpu_ids", TEXT, NULL, NULL, NULL, NULL},
    {"", "command_file", TEXT, NULL, NULL, NULL, NULL},
    {"", "commands", TEXT, NULL, NULL, NULL, NULL},
    {"", "tpu_name", TEXT, NULL, NULL, NULL, NULL},
    {"", "tpu_zone", TEXT, NULL, NULL, NULL, NULL},
    {"", "tpu_vm", TEXT, NULL, NULL, NULL, NULL},
    {"", "tpu_env", TEXT, NULL, NULL, NULL, NULL},
    {"", "tpu_use_cluster", BOOL, NULL, NULL, NULL, NULL},
    {"", "tpu_use_sudo", BOOL, NULL, NULL, NULL, NULL},
};
enum { N_KEYS = sizeof keys / sizeof *keys };

typedef struct Import {
    Gen *g;
    ImportEntries entries;
    const char *value[N_KEYS]; /* normal form: a word, "true", "12"; NULL: missing */
    Pos pos[N_KEYS];           /* of the value */
} Import;

/* ---- values ---------------------------------------------------------------------- */

__attribute__((format(printf, 4, 5))) static void
complain(Import *im, Pos pos, const char *help, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = gen_vprintf(im->g, fmt, ap);
    va_end(ap);
    diag_add(im->g, DIAG_ERROR, pos, help, "%s", text);
}

/* As PyYAML reads booleans. */
static const char *as_bool(const char *s)
{
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no",
                                                                           "off"};
    for (int i = 0; i < 3; i++) {
        if (!strcasecmp(s, yes[i]))
            return "true";
        if (!strcasecmp(s, no[i]))
            return "false";
    }
    return NULL;
}

/* The word of a list "A|B|" that s is, in any case, or that s names by its number from
 * 1. */
static const char *as_word(Gen *g, const char *words, const char *s)
{
    int number = 1;
    for (const char *w = words; *w; number++) {
        size_t n = strcspn(w, "|");
        if ((strlen(s) == n && !strncasecmp(s, w, n)) ||
            (strlen(s) == 1 && s[0] - '0' == number && strchr(words, '_')))
            return gen_strndup(g, w, n);
        w += n + 1;
    }
    return NULL;
}

static const char *as_count(const char *s)
{
    char *end;
    double x = strtod(s, &end); /* PyYAML reads 1e8 as text, Accelerate as an int */
    bool number = end != s && !*end && x >= 0 && x <= 1e15 && (double)(int64_t)x == x;
    return number ? s : NULL;
}

static int64_t count_of(const char *s)
{
    return (int64_t)strtod(s, NULL);
}

static const char *listed(Gen *g, const char *words)
{
    Text t = {.g = g};
    for (const char *w = words; *w;) {
        size_t n = strcspn(w, "|");
        text_printf(&t, "%s%.*s", t.len ? ", " : "", (int)n, w);
        w += n + 1;
    }
    return t.s;
}

/* Checks one entry against its key and records its value. */
static void take(Import *im, const ImportEntry *e, int at)
{
    const Key *k = &keys[at];
    const char *value = k->type == WORD    ? as_word(im->g, k->words, e->value)
                        : k->type == BOOL  ? as_bool(e->value)
                        : k->type == COUNT ? as_count(e->value)
                                           : e->value;
    if (k->type == SECTION) {
        bool other = !e->mapping && *e->value;
        if (other || (k->only && e->items > 0)) {
            complain(im, e->pos, k->only ? k->help : "write its keys below it, indented",
                     "%s: %s", k->key, other ? "must be a section" : "is not read here");
        }
        return;
    }
    if (e->mapping) {
        complain(im, e->pos, NULL, "%s: must be a value, not a section", k->key);
        return;
    }
    if (!*e->value && !e->list)
        return; /* null counts as missing */
    if (!value) {
        complain(im, e->value_pos,
                 k->type == BOOL ? "use true or false"
                 : k->type == COUNT
                     ? "use a whole number"
                     : gen_printf(im->g, "use one of %s", listed(im->g, k->words)),
                 "%s: \"%s\" is not one of its values", k->key, e->value);
        return;
    }
    if (k->only && (k->type == COUNT ? count_of(value) != count_of(k->only)
                                     : strcmp(value, k->only) != 0)) {
        complain(im, e->value_pos, k->help, "%s: %s is not available", k->key, e->value);
        return;
    }
    im->value[at] = value;
    im->pos[at] = e->value_pos;
}

static void unknown(Import *im, const ImportEntry *e)
{
    const char *names[N_KEYS], *near;
    int n = 0;
    for (int i = 0; i < N_KEYS; i++)
        if (!strcmp(keys[i].section, e->section))
            names[n++] = keys[i].key;
    near = diag_nearest(e->key, names, n);
    complain(im, e->pos,
             near ? gen_printf(im->g, "did you mean `%s`?", near)
                  : "remove it, if nothing here depends on it",
             "%s.%s: unknown key", *e->section ? e->section : "accelerate", e->key);
}

static void take_all(Import *im)
{
    for (int i = 0; i < im->entries.count; i++) {
        const ImportEntry *e = &im->entries.items[i];
        int at = 0;
        if (!strcmp(e->section, "dynamo_config") ||
            !strcmp(e->section, "mpirun_config") ||
            (*e->section && strcmp(e->section, FSDP) && strcmp(e->section, PARALLEL)))
            continue; /* its section has been reported, or does not matter */
        while (at < N_KEYS && (strcmp(keys[at].section, e->section) != 0 ||
                               strcmp(keys[at].key, e->key) != 0))
            at++;
        if (at < N_KEYS)
            take(im, e, at);
        else
            unknown(im, e);
    }
}

static int key_at(const char *key)
{
    for (int i = 0; i < N_KEYS; i++)
        if (!strcmp(keys[i].key, key))
            return i;
    gen_die("no key %s", key);
}

static const char *get(const Import *im, const char *key)
{
    return im->value[key_at(key)];
}

static bool is(const Import *im, const char *key, const char *value)
{
    const char *v = get(im, key);
    return v && !strcmp(v, value);
}

static int64_t get_count(const Import *im, const char *key, int64_t otherwise)
{
    const char *v = get(im, key);
    return v ? count_of(v) : otherwise;
}

/* ---- keys in combination --------------------------------------------------------- */

typedef struct Fields {
    int64_t replicate, shard;
    const char *strategy; /* NULL: decided by the mesh */
    bool keeps_gathered;  /* of a hybrid strategy */
    const char *from;     /* the key that decided it */
} Fields;

/* Version 1 has one word, which fsdp_reshard_after_forward may contain as well; version 2
 * has a boolean. Returns the word of version 1. */
static const char *sharding(Import *im, const char **from)
{
    const char *reshard = get(im, "fsdp_reshard_after_forward");
    const char *flag = reshard ? as_bool(reshard) : NULL;
    *from = "fsdp_sharding_strategy";
    if (is(im, "fsdp_version", "2")) {
        if (reshard && !flag) {
            complain(im, im->pos[key_at("fsdp_reshard_after_forward")],
                     "use true or false",
                     "fsdp_reshard_after_forward: \"%s\" is not one "
                     "of its values in version 2",
                     reshard);
        }
        *from = "fsdp_reshard_after_forward";
        return flag && !strcmp(flag, "false") ? "SHARD_GRAD_OP" : "FULL_SHARD";
    }
    if (get(im, "fsdp_sharding_strategy") || !reshard)
        return get(im, "fsdp_sharding_strategy");
    *from = "fsdp_reshard_after_forward";
    return flag ? (!strcmp(flag, "true") ? "FULL_SHARD" : "SHARD_GRAD_OP")
                : as_word(im->g, keys[key_at("fsdp_sharding_strategy")].words, reshard);
}

static void divide_ranks(Import *im, Fields *f, const char *word)
{
    int64_t ranks = get_count(im, "num_processes", 0);
    int64_t nodes = max_i64(1, get_count(im, "num_machines", 1));
    f->replicate = get_count(im, "parallelism_config_dp_replicate_size", 0);
    f->shard = get_count(im, "parallelism_config_dp_shard_size", 0);
    if (f->replicate || f->shard) {
        f->replicate = min_i64(max_i64(1, f->replicate), INT32_MAX);
        f->shard = min_i64(max_i64(1, f->shard), INT32_MAX);
        if (ranks && f->replicate * f->shard != ranks) {
            complain(im, im->pos[key_at("num_processes")],
                     gen_printf(im->g, "use %" PRId64, f->replicate * f->shard),
                     "num_processes: %" PRId64 " is not dp_replicate_size times "
                     "dp_shard_size (%" PRId64 " x %" PRId64 ")",
                     ranks, f->replicate, f->shard);
        }
        return;
    }
    f->replicate = !strcmp(word, "NO_SHARD")     ? ranks
                   : !strncmp(word, "HYBRID", 6) ? nodes
                                                 : 1;
    if (ranks && ranks % f->replicate) {
        complain(
            im, im->pos[key_at("num_processes")], "use as many processes on each machine",
            "num_processes: %" PRId64 " is not divisible by num_machines (%" PRId64 ")",
            ranks, nodes);
        return;
    }
    f->shard = ranks ? ranks / f->replicate : 0;
}

static Fields decide(Import *im)
{
    Fields f = {0};
    const char *word = sharding(im, &f.from);
    bool given = word != NULL;
    word = given ? word : "FULL_SHARD";
    divide_ranks(im, &f, word);
    if (!given && f.replicate <= 1)
        return f;
    bool zero2 = !strcmp(word, "SHARD_GRAD_OP") || !strcmp(word, "HYBRID_SHARD_ZERO2");
    bool hybrid = f.replicate > 1 && strcmp(word, "NO_SHARD");
    f.keeps_gathered = hybrid && zero2;
    f.strategy = strategy_name(!strcmp(word, "NO_SHARD") ? NO_SHARD
                               : hybrid                  ? HYBRID_SHARD
                               : zero2                   ? SHARD_GRAD_OP
                                                         : FULL_SHARD);
    return f;
}

/* Keys of version 1 that FSDP2 does not have: Accelerate ignores them, and so do we. */
static void warn_version(Import *im)
{
    static const char *const old[] = {"fsdp_sharding_strategy", "fsdp_backward_prefetch",
                                      "fsdp_forward_prefetch", "fsdp_use_orig_params",
                                      "fsdp_sync_module_states"};
    for (size_t i = 0; is(im, "fsdp_version", "2") && i < sizeof old / sizeof *old; i++) {
        int at = key_at(old[i]);
        if (im->value[at]) {
            diag_add(im->g, DIAG_WARNING, im->pos[at],
                     "remove it, or use fsdp_version: 1",
                     "%s: fsdp_version 2 does not have it", old[i]);
            im->value[at] = NULL;
        }
    }
}

/* ---- printing -------------------------------------------------------------------- */

static void field(Text *t, const char *text, const char *from)
{
    text_printf(t, "%-57s -- %s\n", text, from);
}

static void print_wrap(Import *im, Text *t)
{
    const char *policy = get(im, "fsdp_auto_wrap_policy");
    if (is(im, "fsdp_auto_wrap_policy", "SIZE_BASED_WRAP")) {
        field(t,
              gen_printf(im->g, "wrap = by_size(%" PRId64 "),",
                         get_count(im, "fsdp_min_num_params", 100000000)),
              "fsdp_auto_wrap_policy, fsdp_min_num_params");
    } else if (is(im, "fsdp_auto_wrap_policy", "NO_WRAP")) {
        field(t, "wrap = root_only,",
              "fsdp_auto_wrap_policy: no overlap, the whole model "
              "is gathered at once");
    } else if (policy || get(im, "fsdp_transformer_layer_cls_to_wrap")) {
        field(t, "wrap = per_block(1),",
              policy ? "fsdp_auto_wrap_policy" : "fsdp_transformer_layer_cls_to_wrap");
    }
}

static void print_prefetch(Import *im, Text *t)
{
    static const char *const words[] = {"BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH"};
    static const char *const orders[] = {"pre", "post", "none"};
    for (int i = 0; i < 3; i++) {
        if (is(im, "fsdp_backward_prefetch", words[i])) {
            field(t,
                  gen_printf(im->g,
                             "prefetch = { forward = 1, backward = 1, order = "
                             "\"%s\" },",
                             orders[i]),
                  "fsdp_backward_prefetch");
        }
    }
    if (!get(im, "fsdp_backward_prefetch") && is(im, "fsdp_forward_prefetch", "true"))
        field(t, "prefetch = { forward = 1 },", "fsdp_forward_prefetch");
}

static void print_precision(Import *im, Text *t)
{
    const char *p = get(im, "mixed_precision");
    if (!p)
        return;
    if (!strcmp(p, "fp8")) {
        complain(im, im->pos[key_at("mixed_precision")],
                 "use bf16, and add linear = \"fp8\" to dtypes of the description",
                 "mixed_precision: fp8 is not read");
        return;
    }
    field(t,
          gen_printf(im->g, "dtypes = { param = \"%s\" },",
                     !strcmp(p, "no")     ? "f32"
                     : !strcmp(p, "bf16") ? "bf16"
                                          : "f16"),
          !strcmp(p, "no") ? "mixed_precision"
                           : "mixed_precision; gradients are summed in f32 here");
}

static void print_unused(Import *im, Text *t)
{
    int n = 0;
    for (int i = 0; i < N_KEYS; i++) {
        if (im->value[i] && !keys[i].here) {
            text_printf(t, "%s %s",
                        n++ ? "," : "-- nothing here depends on:", keys[i].key);
        }
    }
    text_printf(t, "%s", n ? "\n" : "");
}

static void print_fields(Import *im, Text *t)
{
    Fields f = decide(im);
    text_printf(t, "-- of an Accelerate configuration: paste into trainer { ... }\n");
    if (f.shard > 0) {
        field(t,
              f.replicate == 1
                  ? gen_printf(im->g, "mesh = { shard = %" PRId64 " },", f.shard)
                  : gen_printf(im->g,
                               "mesh = { replicate = %" PRId64 ", shard = %" PRId64 " },",
                               f.replicate, f.shard),
              get(im, "num_processes") ? "num_processes" : PARALLEL);
    }
    if (f.strategy)
        field(t, gen_printf(im->g, "strategy = \"%s\",", f.strategy), f.from);
    if (f.keeps_gathered)
        field(t, "reshard_after_forward = false,", f.from);
    print_wrap(im, t);
    print_prefetch(im, t);
    if (get(im, "fsdp_activation_checkpointing")) {
        field(t,
              is(im, "fsdp_activation_checkpointing", "true") ? "recompute = \"block\","
                                                              : "recompute = \"none\",",
              "fsdp_activation_checkpointing");
    }
    print_precision(im, t);
    print_unused(im, t);
}

void import_accelerate(Gen *g, Text *t)
{
    Import im = {.g = g};
    if (import_yaml(g, g->opt.accelerate, &im.entries)) {
        take_all(&im);
        warn_version(&im);
        print_fields(&im, t);
    }
}

void import_accelerate_docs(Gen *g, Text *t)
{
    text_printf(t, "| Accelerate | here |\n|---|---|\n");
    for (int i = 0; i < N_KEYS; i++)
        if (keys[i].here)
            text_printf(t, "| `%s` | %s |\n", keys[i].key, keys[i].here);
    text_printf(t, "| ");
    for (int i = 0, n = 0; i < N_KEYS; i++)
        if (!keys[i].here)
            text_printf(t, "%s`%s`", n++ ? ", " : "", keys[i].key);
    text_printf(t, " | nothing here depends on them |\n");
    (void)g;
}
