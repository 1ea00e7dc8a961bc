/* SPDX-License-Identifier: Apache-2.0 */
/* model.h: a description with every field resolved, as check.c leaves it; every later pass
 * reads it, none but policy changes it. */
#ifndef MODEL_H
#define MODEL_H

#include "base/base.h"
#include "base/dtype.h"
#include "describe/mesh.h"
#include "describe/strategy.h"
#include "describe/target.h"

/* ---- the description, resolved (load.c, check.c) --------------------------------- */

/* Of a feed of the optimizer (fields.h): the value of its field. */
typedef struct FieldValue {
    double num;
    int64_t i;                   /* of an int or a bool */
    const char *s;
} FieldValue;

typedef enum { PREFETCH_PRE, PREFETCH_POST, PREFETCH_NONE } PrefetchOrder;
typedef enum {
    RECOMPUTE_NONE, RECOMPUTE_CHEAP, RECOMPUTE_OPS, RECOMPUTE_BLOCK, RECOMPUTE_EVERY,
    RECOMPUTE_AUTO
} Recompute;

/* Parameters that `groups` treats in another way; the first that matches a name takes it. */
typedef struct ParamGroup {
    const char *path;        /* "groups[1]", for messages */
    int n_match;
    const char **match;      /* globs over global names */
    int *matches;            /* parameters that each of them matches */
    int n_params;            /* that this group takes */
    double lr_ratio;         /* of the optimizer's learning rate; 1 if not given */
    bool has_decay;
    double weight_decay;     /* if has_decay: of all of them, norms and biases too */
    bool frozen;
    const char *half;        /* of an optimizer of matrices, for those it takes: its own name
                                or its others' (fields.h); "": by what they are */
} ParamGroup;

/* The description's wrap; what it comes to is a Wrap (plan.h). */
typedef enum {
    WRAP_PER_BLOCK, WRAP_BY_SIZE, WRAP_BY_NAME, WRAP_ROOT_ONLY, WRAP_FUNCTION
} WrapKind;

typedef struct WrapRule {
    WrapKind kind;
    int64_t blocks;              /* per_block(n) */
    int64_t params;              /* by_size(n) */
    bool embed_joins, head_joins;
    int ref;                     /* registry: names of by_name, or the function */
} WrapRule;

/* Of the config.json of checkpoints (hf_config.c). */
typedef enum { CONFIG_CHECKED, CONFIG_UNCHECKED, CONFIG_NONE } ConfigUse;

typedef struct Model {
    const char *name;
    const char *file;            /* as given on the command line, base name only in outputs */
    const char *arch;            /* "llama" */
    /* inside the hash */
    int64_t seq_tokens, vocab;
    int64_t micro_batch, global_batch;  /* sequences */
    int64_t micro_batches;              /* M = global_batch / micro_batch */
    int64_t leaves;                     /* V */
    Dtype param_dtype, reduce_dtype, master_dtype, moments_dtype;
    const struct Optimizer *optimizer;  /* its rule (fields.h); NULL: of a test, without one */
    FieldValue *optimizer_values;       /* one for each of its feeds */
    int optimizer_ref;                  /* its fields' values, for its rule's functions */
    int moments;                        /* that it keeps of each element */
    double lr, weight_decay, clip;      /* clip 0: none */
    double others_lr, others_decay;     /* of what is no matrix, where it treats those as a whole */
    const char *schedule_name;          /* "cosine": the runtime has one function for each */
    int64_t warmup_steps, schedule_steps, decay_steps; /* 0 where it has none */
    double min_ratio;
    int n_groups;
    ParamGroup *groups;
    int64_t seed;
    int64_t loss_chunk_tokens;
    /* dynamic loss scaling, of f16: powers of two; init 0: none */
    int64_t loss_scale_init, loss_scale_min, loss_scale_factor, loss_scale_interval;
    bool loss_mask;                     /* each data file has a mask beside it */
    double loss_z, label_smoothing;
    bool packed;                        /* sequences hold documents, */
    int64_t document_end;               /* which end with this token */
    bool fuse;
    bool library_order;                 /* reduction = "library": over ranks one by one; then
                                           mesh, strategy and accumulate are inside, too */
    /* outside the hash */
    Mesh mesh;
    Strategy strategy;
    WrapRule wrap;
    int64_t reshard_ranks;              /* reshard_after_forward: ranks that share the weights
                                           between forward and backward: shard (true), 1
                                           (false: each keeps them), or a group's size */
    int64_t prefetch_forward, prefetch_backward; /* units ahead */
    PrefetchOrder prefetch_order;       /* of the backward */
    int64_t gathers_in_flight;          /* units gathered at once: the one at hand, those ahead */
    bool accumulate_sharded;
    Recompute recompute;
    int64_t recompute_every;            /* one block in so many */
    int64_t max_skipped;                /* updates in a row; one more ends the run */
    int64_t file_bytes;                 /* of a checkpoint's file of weights, at most */
    ConfigUse config_use;               /* checkpoint.config */
    const char *config_class;           /* checkpoint.class; NULL: the architecture's */
    struct { const char **items; int count, cap; } recompute_ops; /* names */
    int64_t reduces_in_flight;          /* policy.c: reductions that a span may overlap, 0 or 1 */
    /* platform */
    const Target *target;
    bool comm_thread;                   /* of the cpu target */
    const char *cpu_arch;               /* -march value: "native" */
    const char *gpu;                    /* that it is made for: "h100"; or NULL */
    int n_archs;                        /* that its kernels are compiled for */
    const char **archs;                 /* "sm_90a" */
    bool jit;                           /* when the trainer starts, for the device it finds */
    const KernelLibrary *kernel_library; /* whose kernels some ops are to run; or NULL */
    Rates rates;                        /* to be had */
    double peak_tflops;                 /* that a rank's device can do; 0: unknown */
    int64_t library_bytes;              /* of a rank, outside of the arena: code, libraries */
    int64_t budget_bytes;               /* of a rank; 0: none known */
    /* Lua side: registry references, valid for the whole run */
    int model_ref;                      /* the resolved model record handed to build */
    int build_ref;                      /* arch's build(model, builder) */
    int config_ref;                     /* arch's config(model, trainer); LUA_NOREF: none */
    const char *resolved_lua;           /* the description with every field resolved */
    const char *hash_fields;            /* "field = value\n" of each field inside the hash */
    const char *canonical_fields;       /* the same as it is hashed: no neutral values, nothing
                                           that the graph says */
    /* hf_config.c */
    const char *config_json;            /* of checkpoints; NULL: they have none */
    const char *config_names;           /* the class that it names; or NULL */
    bool config_checked;                /* that class computes this graph */
    const char *config_says;            /* the same for people, one line */
    /* checkpoint.c */
    int n_files;                        /* of weights */
} Model;

/* Where a field was written: path like "optimizer.lr" or "model.heads". line 0 if defaulted. */
Pos model_pos(Gen *g, const char *path);

#endif
