/* SPDX-License-Identifier: Apache-2.0 */
/* model.h: a description with every field resolved, as check.c leaves it. Every later pass reads
 * it; only policy changes it. */
#ifndef MODEL_H
#define MODEL_H

#include "base/base.h"
#include "base/dtype.h"
#include "describe/mesh.h"
#include "describe/network.h"
#include "describe/strategy.h"
#include "describe/target.h"

/* ---- the description, resolved (load.c, check.c) --------------------------------- */

/* The value of the field behind a feed of the optimizer (fields.h). */
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

/* Parameters that `groups` treats differently; the first group that matches a name takes it. */
typedef struct ParamGroup {
    const char *path;        /* "groups[1]", for messages */
    int n_match;
    const char **match;      /* globs over global names */
    int *matches;            /* number of parameters that each glob matches */
    int n_params;            /* number that this group takes */
    double lr_ratio;         /* relative to the optimizer's learning rate; 1 if not given */
    bool has_decay;
    double weight_decay;     /* if has_decay: for all of them, norms and biases too */
    bool frozen;
    const char *half;        /* for an optimizer of matrices, what updates them: its own name or its
                              * others' (fields.h); "": decided by shape */
} ParamGroup;

/* The description's wrap; the resulting Wrap is in plan.h. */
typedef enum {
    WRAP_PER_BLOCK, WRAP_BY_SIZE, WRAP_BY_NAME, WRAP_ROOT_ONLY, WRAP_FUNCTION
} WrapKind;

typedef struct WrapRule {
    WrapKind kind;
    int64_t blocks;              /* per_block(n) */
    int64_t params;              /* by_size(n) */
    bool embed_joins, head_joins;
    int ref;                     /* registry: the names of by_name, or the function */
} WrapRule;

/* How the config.json of checkpoints is made (hf_config.c). */
typedef enum { CONFIG_CHECKED, CONFIG_UNCHECKED, CONFIG_NONE } ConfigUse;

/* The axes along which a step is computed in parts, in the order in which split cuts: heads and
 * features, then tokens. */
typedef enum { PARTS_TENSOR, PARTS_CONTEXT, N_PARTS_AXES } PartsAxis;

/* Which kernel runs a site, as measured (target.attention_choices). */
typedef struct KernelChoice {
    const char *path;            /* "target.attention_choices.sites[1]", for messages */
    const char *site;            /* the text of the op's rule */
    bool by_library;
} KernelChoice;

typedef struct Model {
    const char *name;
    const char *file;            /* as given on the command line; outputs show its base name only */
    const char *arch;            /* "llama" */
    /* inside the hash */
    int64_t seq_tokens, vocab;
    int64_t micro_batch, global_batch;  /* sequences */
    int64_t micro_batches;              /* M = global_batch / micro_batch */
    int64_t leaves;                     /* V */
    Dtype param_dtype, reduce_dtype, master_dtype, moments_dtype;
    bool linear_fp8;                    /* linears of the blocks multiply fp8 (graph/linears.c) */
    const struct Optimizer *optimizer;  /* its rule (fields.h); NULL: a test without one */
    FieldValue *optimizer_values;       /* one per feed */
    int optimizer_ref;                  /* the values of its fields, for functions of its rule */
    int moments;                        /* kept per element */
    double lr, weight_decay, clip;      /* clip 0: none */
    double others_lr, others_decay;     /* of parameters that are not matrices, where it differs */
    const char *schedule_name;          /* "cosine"; the runtime has a function for each */
    int64_t warmup_steps, schedule_steps, decay_steps; /* 0 if the schedule has none */
    double min_ratio;
    int n_groups;
    ParamGroup *groups;
    int64_t seed;
    int64_t loss_chunk_tokens;
    /* dynamic loss scaling for f16, in powers of two; init 0: off */
    int64_t loss_scale_init, loss_scale_min, loss_scale_factor, loss_scale_interval;
    bool loss_mask;                     /* each data file has a mask beside it */
    double loss_z, label_smoothing;
    bool packed;                        /* sequences hold documents, */
    int64_t document_end;               /* each of which ends with this token */
    int64_t parts[N_PARTS_AXES];        /* along each axis; 1: values are whole along it */
    Dtype parts_dtype;                  /* of summands of values; DT_NONE: as their values have */
    bool fuse;
    bool library_order;                 /* reduction = "library": sums over ranks one by one; then
                                         * mesh, strategy and accumulate are inside the hash */
    /* outside the hash */
    Mesh mesh;
    Strategy strategy;
    WrapRule wrap;
    int64_t reshard_ranks;              /* reshard_after_forward: the number of ranks that share the
                                         * weights between forward and backward: shard (true), 1
                                         * (false: each keeps all), or a group's size */
    int64_t prefetch_forward, prefetch_backward; /* how many units ahead */
    PrefetchOrder prefetch_order;       /* of the backward */
    int64_t gathers_in_flight;          /* units gathered at once: the current one, those ahead */
    bool accumulate_sharded;
    Recompute recompute;
    int64_t recompute_every;            /* one block in this many */
    int64_t max_skipped;                /* consecutive updates; one more ends the run */
    int64_t file_bytes;                 /* largest size of a checkpoint's file of weights */
    ConfigUse config_use;               /* checkpoint.config */
    const char *config_class;           /* checkpoint.class; NULL: the architecture's */
    struct { const char **items; int count, cap; } recompute_ops; /* names of ops */
    int64_t reduces_in_flight;          /* policy.c: reductions that may overlap one span, 0 or 1 */
    /* platform */
    const Target *target;
    bool comm_thread;                   /* of the cpu target */
    const char *cpu_arch;               /* -march value: "native" */
    const char *gpu;                    /* the GPU it is made for: "h100"; or NULL */
    int n_archs;                        /* architectures that its kernels are compiled for */
    const char **archs;                 /* "sm_90a" */
    bool jit;                           /* the trainer compiles kernels at start, for its device */
    const KernelLibrary *kernel_library; /* whose kernels some ops may use; or NULL */
    bool library_where_able;            /* the target's own kernels run what the library cannot */
    bool library_measured;              /* trainers have both kernels of each site, to be measured */
    int n_kernel_choices;
    KernelChoice *kernel_choices;       /* each of another site */
    Rates rates;                        /* assumed for estimates */
    Network net;
    double peak_tflops;                 /* peak of a rank's device; 0: unknown */
    int64_t library_bytes;              /* per rank, outside the arena: code, libraries */
    int64_t budget_bytes;               /* per rank; 0: unknown */
    /* Lua side: registry references, valid for the whole run */
    int model_ref;                      /* the resolved model record passed to build */
    int build_ref;                      /* arch's build(model, builder) */
    int config_ref;                     /* arch's config(model, trainer); LUA_NOREF: none */
    const char *resolved_lua;           /* the description with every field resolved */
    const char *outside;                /* "arch/mine.lua": a module of it that fsdpgen lacks, or
                                         * has with other bytes; NULL: none */
    const char *hash_fields;            /* "field = value\n" for each field inside the hash */
    const char *canonical_fields;       /* the same as it is hashed: without neutral values and
                                         * without what the graph contains */
    /* hf_config.c */
    const char *config_json;            /* config.json of checkpoints; NULL: they have none */
    const char *config_names;           /* the class named in it; or NULL */
    bool config_checked;                /* that class computes this graph */
    const char *config_says;            /* the result of the check in one line */
    /* checkpoint.c */
    int n_files;                        /* files of weights */
} Model;

/* The mesh's axis whose ranks share the parts along an axis: how many ranks, and their bits. */
static inline AxisId parts_mesh(PartsAxis axis)
{
    return axis == PARTS_TENSOR ? AXIS_TENSOR : AXIS_CONTEXT;
}
static inline int64_t parts_ranks(const Model *m, PartsAxis axis)
{
    return m->mesh.axis[parts_mesh(axis)].degree;
}
static inline RankBits parts_group(const Model *m, PartsAxis axis)
{
    return m->mesh.axis[parts_mesh(axis)].bits;
}

/* Along all axes: the parts, the ranks that share them, their bits. */
static inline int64_t parts_all(const Model *m)
{
    return m->parts[PARTS_TENSOR] * m->parts[PARTS_CONTEXT];
}
static inline int64_t parts_all_ranks(const Model *m)
{
    return parts_ranks(m, PARTS_TENSOR) * parts_ranks(m, PARTS_CONTEXT);
}
static inline RankBits parts_all_group(const Model *m)
{
    return parts_group(m, PARTS_TENSOR) | parts_group(m, PARTS_CONTEXT);
}

/* Where a field was written; path: "optimizer.lr" or "model.heads". line 0: it is a default. */
Pos model_pos(Gen *g, const char *path);
/* Does the description give the field another value than its default? */
bool model_given(Gen *g, const char *path);
/* "parts.tensor" */
const char *parts_field(Gen *g, PartsAxis axis);
const char *parts_fields(Gen *g, const char *of); /* of the axes with parts: "mesh.tensor, mesh.context" */
/* What they are parts of, in words: "heads and features". */
const char *parts_of(Gen *g);

#endif
