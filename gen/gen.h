/* SPDX-License-Identifier: Apache-2.0 */
/* gen.h: what the passes share. The types of the intermediate representation are in one header of
 * the room that fills them: describe/model.h, ops/rule.h, graph/ir.h, plan/step.h; lower rooms see
 * them only through this header. base does not include it, because it has a context of its own.
 * Here: the Gen, which holds everything; then the passes in the order in which drive.c calls them.
 *
 * All memory is one arena, never freed; strings are interned or arena-owned and immutable.
 * Everything that gets printed is deterministic: ids are in creation order, nothing iterates over a
 * hash table, nothing reads the clock.
 *
 * A name ending in _elems, _bytes or _tokens states its unit. Offsets into flat segments are in
 * elements; offsets into arenas are in bytes. */
#ifndef GEN_H
#define GEN_H

#include "base/options.h"
#include "plan/step.h"

#include <lua.h>

/* ---- everything ------------------------------------------------------------------ */

typedef struct Options { /* filled by the table of shell/commands.c */
    const char *command;     /* "generate", "plan", "check", "diff" */
    OptionList words;        /* arguments of the command line */
    const char *input;       /* the first of them */
    const char *other;       /* diff: the second trainer */
    const char *output;
    const char *dump;        /* a pass name or NULL */
    const char *ops_dir;     /* --ops; NULL: built-in ops only */
    bool ops_shared;         /* it is the folder of --share: the built-in ops, read from disk */
    const char *share;       /* a source tree whose files take precedence over embedded ones */
    const char *link_runtime;
    const char *rates;       /* --rates: a file of measured rates */
    OptionList machines;     /* --machines: Lua files of datasheets */
    OptionList sets, paths;
    const char *target, *fabric;
    int64_t nodes;           /* 0: not given */
    const char *accelerate;  /* import: the file */
    const char *arch;        /* init: the architecture */
    const char *color;
    const char *html, *trace; /* plan, tune: files */
    const char *image;       /* plan --kernels: compiled kernels; NULL: none */
    bool check_drift, force, json;
    bool kernels;            /* plan: the kernels of a step, too */
    bool quiet;              /* files_write: does not report what it wrote */
    bool plan_only, allow_numerics; /* tune */
    bool keeps_target;       /* size: `target` replaces only a target of another kind */
    bool exact;              /* bytes of plans over the budget, too: size */
    OptionList gpus, prices; /* size */
    int64_t tokens;          /* plan, size: a run's; 0: not given */
    Dollars price;           /* plan: of a GPU hour */
    bool all;                /* plan: every section */
    int64_t measure, steps, minutes;
    const char *data, *wisdom, *work;
    bool trainer;            /* completion: for trainers */
    const char *only;        /* test-op: names of ops, with commas between */
    const char *sanitize, *keep;
    int64_t cases, seed, jobs; /* test-op; 0: not given */
} Options;

struct Gen {
    GenBase base;            /* arena, messages, output files: what base_of(g) finds */
    lua_State *L;
    Options opt;
    struct Loader *loader;   /* load.c: places and values of the description */
    Model model;
    OpList ops;
    struct OpChain *chains;  /* ops_chain.c: kernels of several formulas; NULL: none */
    struct { Class **items; int count, cap; } classes;
    struct { Block *items; int count, cap; } blocks;
    struct { Param *items; int count, cap; } params;
    struct { Const *items; int count, cap; } consts;
    Span setup;              /* SETUP nodes, in order */
    struct { MatrixShape *items; int count, cap; } shapes; /* of matrices, each once */
    struct { Segment *items; int count, cap; } segments;
    struct { Matrix *items; int count, cap; } matrices; /* in order of segments, then of offsets */
    struct { Batch *items; int count, cap; } batches;
    struct { Unit *items; int count, cap; } units;
    Program prog;
    struct KernelImage *image; /* plan_image.c: what compiled kernels take; NULL: no --image */
    struct Search *search;   /* search.c: what "auto" found; NULL otherwise */
    bool in_parts;              /* split.c has split the graph: shapes of values are of a part */
    struct {
        const char *fewer; /* "parts.tensor = 2": as many as ranks; NULL: there are no more, or no price */
        double seconds;
        int64_t bytes; /* of a rank */
    } parts_price; /* what more parts than ranks cost a step; of `plan` alone */
    int64_t needed_parts[N_PARTS_AXES]; /* check.c: that ranks would share; 0: it has them */
    uint64_t numerics_hash;
    const char *numerics_lines; /* the parts of the hash, for people (graph/canon.c) */
};
_Static_assert(offsetof(struct Gen, base) == 0, "base_of() takes a Gen for its first member");

/* ---- the passes, in order -------------------------------------------------------- */

void load_description(Gen *g);  /* load.c: Lua file → the raw record, with places */
void check_model(Gen *g);       /* check.c: --target, --set, then every field: all messages at once */
/* again.c: check_model with other overrides in a Gen that is past the pass span. False: that would
 * have made something else of them, so the Gen is of no more use. */
bool check_again(Gen *g);
bool check_is_schedule(const char *path); /* does no pass up to span read that field? */
void dims_check_read(Gen *g);   /* dims.c: given fields of the model that build never read */
void ops_load(Gen *g);          /* ops.c: op folders → g->ops */
void graph_build(Gen *g);       /* graph.c: arch's build → blocks, classes, params, forward nodes */
void config_make(Gen *g);       /* hf_config.c: the config.json of checkpoints; checks the graph */
void config_dump(Gen *g, Text *t);
void grad_build(Gen *g);        /* grad.c: backward nodes in every class */
void encode_weights(Gen *g);    /* encode.c: weights that are gathered in fp8 */
void split_graph(Gen *g);       /* split.c: parts of values, meets; nothing where parts are 1 */
void fuse_graph(Gen *g);        /* fuse.c: expansions → fused nodes; then g->numerics_hash */
void span_build(Gen *g);        /* span.c: nodes → spans, slabs, value locations, kernel names */
void checkpoint_layout(Gen *g); /* checkpoint.c: params → files of a checkpoint */
void checkpoint_dump(Gen *g, Text *t);
void shard_params(Gen *g);      /* shard.c: params → segments, units */
void policy_choose(Gen *g);     /* policy.c: choices outside the hash */
void unroll_step(Gen *g);       /* unroll.c: → instructions and buffers */
void schedule_step(Gen *g);     /* schedule.c: → waits, happens-before */
void place_buffers(Gen *g);     /* place.c: → offsets */
void simulate_step(Gen *g);     /* simulate.c: → predicted seconds */
void emit_files(Gen *g);        /* emit.c: → g->base.files */
void emit_dump(Gen *g, Text *t); /* emit.c: the files with sizes and hashes (--dump=emit) */

/* files.c, in the parent process: writes g->base.files to the folder g->opt.output; with
 * opt.check_drift it only compares. Returns an exit code. */
int files_write(Gen *g);
/* Does an open folder have files? Names that begin with a dot, such as .git, do not count. */
bool folder_has_files(int fd);

/* verify.c: dies (exit 70) if an invariant of DESIGN's table is broken after the pass. */
void verify_after(Gen *g, const char *pass);
/* dump.c: writes deterministic text of the IR after a pass to t. For known pass names except emit,
 * which emit_dump handles. */
void dump_pass(Gen *g, const char *pass, Text *t);
/* plan_text.c, plan_json.c: the memory and flops report (text or JSON). */
void plan_print(Gen *g, Text *t);
void plan_print_json(Gen *g, Text *t);
void plan_print_screen(Gen *g, Text *t); /* plan_screen.c: a summary; also of what does not fit */
void plan_print_parts_price(Gen *g, Text *t); /* what more parts than ranks cost, if there are more */
void plan_print_checked(Gen *g); /* plan_screen.c: `fsdpgen check` found nothing; which model it is */
/* plan_files.c: makes the files of --html and --trace in the child; writes them in the parent, and
 * returns an exit code. */
void plan_make_files(Gen *g);
int plan_write_files(Gen *g);
/* plan_kernels.c: the kernels of a step and their predicted times. */
void plan_print_kernels(Gen *g, Text *t);
/* plan_image.c: reads --image. In: also kernels.c. Out: g->image, or a message. */
void plan_image_read(Gen *g, const char *launches);

/* Happens-before queries (schedule.c). */
bool hb_same(const Program *p, int a, int b); /* a on this rank before b on this rank */
/* a on all ranks along the axes before b on this rank */
bool hb_group(const Program *p, RankBits group, int a, int b);

#endif
