/* SPDX-License-Identifier: Apache-2.0 */
/* synonyms.c: names of fields and values in other trainers. In: the path of an unknown
 * field, or an unknown value of a field. Out: what to write here instead, or why nothing
 * needs to be written. */
#include "describe/check.h"
#include "describe/load.h"
#include "describe/strategy.h"

#include <string.h>

typedef struct Synonym {
    const char *names; /* separated by blanks */
    const char *help;  /* @ stands for the description's optimizer, or the default one */
} Synonym;

static const Synonym of_trainer[] = {
    {" seq_len seq_length sequence_length max_seq_len max_seq_length context_length "
     "block_size ctx ",
     "write seq = 2048"},
    {" batch_size per_device_train_batch_size micro_batch_size local_batch_size ",
     "write micro_batch for the sequences of one forward, global_batch for those of a "
     "step"},
    {" gradient_accumulation_steps gradient_accumulation grad_accum accumulation_steps ",
     "leave it out: a step accumulates as many micro-batches as global_batch needs"},
    {" epochs num_epochs num_train_epochs max_epochs ",
     "write steps, lr = cosine { steps = 1000 }, and run trainer --epochs 3; an epoch is "
     "the data's tokens / (global_batch * seq)"},
    {" steps max_steps train_steps num_steps total_steps iterations ",
     "write lr = cosine { steps = 1000 }, or trainer --steps 1000"},
    {" learning_rate base_lr max_lr ", "write optimizer = @ { lr = 3e-4 }"},
    {" scheduler lr_scheduler schedule lr_schedule ",
     "write lr = cosine { warmup = 100, steps = 1000 }"},
    {" warmup warmup_steps num_warmup_steps ", "write lr = cosine { warmup = 100, ... }"},
    {" weight_decay wd betas eps ", "it is a field of the optimizer: @ { ... }"},
    {" clip grad_clip gradient_clipping max_grad_norm max_norm clip_grad_norm ",
     "write optimizer = @ { clip = 1.0 }"},
    {" dropout attention_dropout hidden_dropout resid_pdrop attn_pdrop embd_pdrop ",
     "leave it out: there is no dropout"},
    {" lora peft adapter qlora lora_rank ",
     "there is no LoRA; groups = { { match = \"*.norm*\", frozen = true } } freezes a "
     "part"},
    {" dtype precision param_dtype torch_dtype mixed_precision bf16 fp16 amp ",
     "write dtypes = { param = \"bf16\" }"},
    {" reduce_dtype ", "write dtypes = { reduce = \"f32\" }"},
    {" activation_checkpointing gradient_checkpointing activation_checkpoint ac "
     "checkpoint_activations remat ",
     "write recompute = \"block\", \"cheap\" or \"auto\""},
    {" sharding_strategy fsdp fsdp_config zero zero_stage sharding ",
     "write strategy = \"full_shard\", and mesh = { shard = 8 }"},
    {" world_size gpus num_gpus ranks nproc n_gpus dp data_parallel ",
     "write mesh = { shard = 8 }"},
    {" auto_wrap_policy wrap_policy fsdp_wrap ", "write wrap = per_block(1)"},
    {" compile torch_compile jit flash_attention use_flash_attn ",
     "leave it out: kernels are compiled with the trainer"},
    {" wandb log_dir output_dir save_steps logging_steps eval_steps log_every ",
     "it is a flag of the trainer: see trainer --help"},
    {" cpu_offload offload offload_params param_offload optimizer_offload "
     "offload_optimizer ",
     "leave it out: nothing is kept in another memory; mesh.shard and recompute make a "
     "rank's share smaller"},
    {" deepspeed accelerate megatron ",
     "leave it out; fsdpgen import reads FSDP configurations of Accelerate"},
    {" num_workers dataloader_num_workers pin_memory shuffle ",
     "leave it out: data files are mapped, and their order follows from the seed"},
    {" device devices ", "write target = cpu {} or target = cuda { gpu = \"h100\" }"},
    {" optim optimizer_type ", "write optimizer = @ { lr = 3e-4 }"},
    {" data dataset train_data data_path tokenizer ",
     "data are given to the trainer: --data FILE; fsdpgen tokenize makes them"},
};

static const Synonym of_model[] = {
    {" hidden_size n_embd d_model hidden_dim embed_dim ", "write dim = 512"},
    {" intermediate_size n_inner ffn_dim d_ff mlp_dim hidden_ffn ", "write ffn = 1408"},
    {" num_hidden_layers n_layer n_layers num_layers depth ", "write layers = 12"},
    {" num_attention_heads n_head n_heads num_heads ", "write heads = 8"},
    {" num_key_value_heads n_kv_heads num_kv_heads n_kv_head ", "write kv_heads = 8"},
    {" vocab_size n_vocab ", "write vocab = 32000"},
    {" rms_norm_eps layer_norm_eps layer_norm_epsilon norm_epsilon ",
     "write norm_eps = 1e-5"},
    {" rope_theta rope_base rotary_base ", "write rope = { theta = 10000.0 }"},
    {" sliding_window window_size ", "write window = 4096"},
    {" attention_chunk_size chunk_size ", "write attention_chunk = 8192"},
    {" sinks attention_sink sink ", "write attention_sinks = true"},
    {" tie_word_embeddings tie_embeddings weight_tying tie_weights ",
     "write tied = true"},
    {" seq seq_len max_position_embeddings n_positions max_seq_len block_size ",
     "it is a field of the trainer: seq = 2048"},
    {" dropout attention_dropout resid_pdrop ", "leave it out: there is no dropout"},
};

static const Synonym of_mesh[] = {
    {" dp fsdp dp_shard data data_parallel data_parallel_shard world_size gpus ranks ",
     "write mesh = { shard = 8 }"},
    {" ddp dp_replicate data_parallel_replicate replicas ",
     "write mesh = { replicate = 2, shard = 4 }"},
    {" tp tensor_parallel tensor_parallel_size ",
     "write parts = { tensor = 2 }, mesh = { tensor = 2 }"},
    {" pp pipeline_parallel pipeline_parallel_size ",
     "pipeline stages are not available yet; mesh has replicate, shard, context and "
     "tensor"},
    {" cp sp context_parallel sequence_parallel ",
     "write parts = { context = 2 }, mesh = { context = 2 }"},
    {" ep expert_parallel expert_parallel_size ",
     "expert ranks are not available yet; mesh has replicate, shard, context and tensor"},
};

static const Synonym of_target[] = {
    {" gpu nodes node fabric network ",
     "it is a field of cuda: --target cuda, or target = cuda { gpu = \"h100\" }"},
};

static const Synonym of_optimizer[] = {
    {" learning_rate base_lr max_lr ", "write lr = 3e-4"},
    {" wd decay l2 weight_decay_rate ", "write weight_decay = 0.1"},
    {" grad_clip gradient_clipping max_grad_norm max_norm clip_norm clip_grad_norm ",
     "write clip = 1.0"},
    {" fused foreach capturable ", "leave it out: updates are always fused"},
    {" warmup warmup_steps schedule scheduler min_lr ",
     "it is a field of the schedule: lr = cosine { warmup = 100, steps = 1000 }"},
};

static const Synonym of_schedule[] = {
    {" min_lr final_lr eta_min lr_min min_lr_ratio min_lr_rate alpha ",
     "write min_ratio, a share of the optimizer's lr: min_ratio = 0.1"},
    {" warmup_steps num_warmup_steps warmup_ratio warmup_iters ",
     "write warmup = 100, a number of steps"},
    {" max_steps total_steps num_training_steps T_max decay_steps iterations ",
     "write steps = 1000"},
    {" lr learning_rate max_lr base_lr peak_lr ",
     "it is a field of the optimizer: @ { lr = 3e-4 }"},
};

static const Synonym of_loss[] = {
    {" ignore_index masked ignore ",
     "write mask = true, and put a file X.mask beside the token file X"},
    {" smoothing ", "write label_smoothing = 0.1"},
    {" z_loss z_loss_weight z_weight ", "write z = 1e-4"},
    {" chunks chunk chunk_size ", "write chunk_tokens = 1024"},
};

/* Values, compared without regard to case. */
static const struct {
    const char *field, *words, *value; /* words: separated by blanks, in lower case */
} of_values[] = {
    {"dtypes", " float32 fp32 float single f32 ", "f32"},
    {"dtypes", " bfloat16 bfloat bf16 ", "bf16"},
    {"dtypes", " float16 fp16 half f16 ", "f16"},
    {"dtypes", " float64 fp64 double f64 ", "f64"},
    {"recompute", " full all on true layer ", "block"},
    {"recompute", " selective op sac ", "cheap"},
    {"recompute", " off false no ", "none"},
    {"accumulate", " no_sync nosync whole full ", "unsharded"},
};

/* Replaces an @ in help by the name of the optimizer. */
static const char *with_optimizer(Gen *g, const char *help)
{
    const char *at = strchr(help, '@');

    return at ? gen_printf(g, "%.*s%s%s", (int)(at - help), help,
                           loader_default_kind(g, "optimizer"), at + 1)
              : help;
}

static const char *find(Gen *g, const Synonym *list, size_t n, const char *name)
{
    const char *word = gen_printf(g, " %s ", name);

    for (size_t i = 0; i < n; i++)
        if (strstr(list[i].names, word))
            return with_optimizer(g, list[i].help);
    return NULL;
}

#define TABLE(path, list)                                                                \
    {                                                                                    \
        path, list, sizeof list / sizeof *list                                           \
    }
static const struct {
    const char *path;
    const Synonym *list;
    size_t count;
} of_tables[] = {
    TABLE("model", of_model),         TABLE("mesh", of_mesh), TABLE("lr", of_schedule),
    TABLE("optimizer", of_optimizer), TABLE("loss", of_loss), TABLE("target", of_target),
};
#undef TABLE

/* Does help say "write NAME = ..." of one of these fields, or nothing of that kind? */
static bool is_field(const char *help, const Words *names)
{
    const char *field = help + strlen("write ");
    const size_t n = strncmp(help, "write ", strlen("write ")) ? 0 : strcspn(field, " ");

    for (int i = 0; n && i < names->count; i++)
        if (strlen(names->items[i]) == n && !memcmp(names->items[i], field, n))
            return true;
    return !n;
}

const char *synonym_help(Gen *g, const char *path, const char *name, const Words *names)
{
    const char *help = NULL;

    if (strchr(name, ' '))
        return NULL;
    if (!*path)
        return find(g, of_trainer, sizeof of_trainer / sizeof *of_trainer, name);
    for (size_t i = 0; i < sizeof of_tables / sizeof *of_tables; i++)
        if (!strcmp(path, of_tables[i].path))
            help = find(g, of_tables[i].list, of_tables[i].count, name);
    /* Architectures have different fields. */
    return help && (strcmp(path, "model") != 0 || is_field(help, names)) ? help : NULL;
}

static bool has_word(const char *words, const char *word)
{
    return strstr(words, word) != NULL;
}

const char *synonym_value(Gen *g, const char *path, const char *value)
{
    size_t n = strcspn(path, ".");
    char *word = gen_printf(g, " %s ", value);

    if (strchr(value, ' '))
        return NULL;
    for (char *p = word; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
    for (int s = 0; s < N_STRATEGIES && !strcmp(path, "strategy"); s++) {
        const StrategyRule *rule = strategy_rule((Strategy)s);

        if (has_word(rule->also, word) ||
            has_word(word, gen_printf(g, " %s ", rule->name)))
            return rule->name;
    }
    for (size_t i = 0; i < sizeof of_values / sizeof *of_values; i++)
        if (strlen(of_values[i].field) == n && !memcmp(path, of_values[i].field, n) &&
            has_word(of_values[i].words, word))
            return of_values[i].value;
    return NULL;
}

/* Converts to lower case and keeps letters and digits only. */
static char *plain(Gen *g, const char *s, size_t n)
{
    char *word = gen_strndup(g, s, n), *to = word;

    for (const char *p = word; *p; p++) {
        char c = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);

        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            *to++ = c;
    }
    *to = '\0';
    return word;
}

const char *synonym_alike(Gen *g, const char *value, const Words *values)
{
    const char *word = plain(g, value, strlen(value));
    Words stems = {0}, whole = {0};

    if (!strcmp(word, "zero2") &&
        words_have(values, strategy_rule(SHARD_OPTIMIZER)->name))
        return gen_printf(g, "\"%s\" with accumulate = \"sharded\"",
                          strategy_rule(SHARD_OPTIMIZER)->name);

    for (int i = 0; i < values->count; i++) {
        const char *name = values->items[i];
        size_t n = strcspn(name, "-");

        if (strlen(name) < 4 || !strpbrk(name, "0123456789") ||
            !strstr(word, plain(g, name, n)))
            continue;
        *gen_push(g, &stems) = name;
        if (name[n] && strstr(word, plain(g, name + n, strlen(name + n))))
            *gen_push(g, &whole) = name;
    }
    return whole.count   ? words_join(g, &whole, "\"")
           : stems.count ? words_join(g, &stems, "\"")
                         : NULL;
}

const char *synonym_bool(lua_State *L, int index)
{
    static const char yes[] = " True TRUE yes on 1 ", no[] = " False FALSE no off 0 ";
    const char *s = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index)
                    : lua_isinteger(L, index)         ? NULL
                                                      : "";
    char word[16];

    if (s)
        snprintf(word, sizeof word, " %.12s ", s);
    else
        snprintf(word, sizeof word, " %lld ", (long long)lua_tointeger(L, index));
    return strlen(word) < 3            ? NULL
           : strstr(yes, word) != NULL ? "true"
           : strstr(no, word) != NULL  ? "false"
                                       : NULL;
}

const char *synonym_number(Gen *g, const char *path)
{
    return strcmp(path, "lr") != 0
               ? NULL
               : with_optimizer(
                     g, "the base learning rate is the optimizer's, @ { lr = 3e-4 "
                        "}; lr is its schedule: cosine { steps = 1000 }");
}
