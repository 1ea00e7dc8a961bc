/* SPDX-License-Identifier: Apache-2.0 */
/* target.h: the one table of targets. A target is what a trainer is made for: where its
 * mathematics runs, what its libraries need, how fast it is taken to be. Passes ask for a
 * property, and none knows a target by name. */
#ifndef TARGET_H
#define TARGET_H

#include <stdbool.h>
#include <stdint.h>

struct Check;
struct Model;

/* To predict times by. */
typedef struct Rates {
    int64_t flops_per_us;  /* matrix products and the like */
    int64_t memory_per_us; /* bytes of a kernel's operands */
    int64_t link_per_us;   /* bytes received from other ranks */
    int64_t latency_ps;    /* of a collective */
    int64_t f32_slower;    /* products in f32 take so many times as long as bf16 */
} Rates;

/* Kernels of a library's, which a description may ask for: they stand in the place of the
 * target's own in the ops whose folders have them. */
typedef struct KernelLibrary {
    const char *name;      /* as messages have it: "cuDNN" */
    const char *field;     /* of the description, by which it is asked for */
    const char *folder;    /* of the target's in runtime/, and what templates know it by */
    const char *file;      /* of an op's folder: "cudnn.cu" */
    const char *workspace; /* what an op's rule calls the scratch of that kernel */
    const char *check;     /* and the function that says what the kernel cannot do */
} KernelLibrary;

typedef struct Target {
    const char *name;         /* of its constructor, and of its folder in runtime/ */
    const char *kernel_file;  /* of an op's folder: "cpu.c" */
    const char *workspace;    /* what an op's rule calls its scratch, where it differs from
                               * that of others ("workspace") */
    const KernelLibrary *kernel_library; /* that a trainer may use; NULL: none */
    const char *budget_field; /* whose value the budget is if no memory is given */
    const char *outside;      /* what a rank holds beside the arena, as the plan shows it */
    int64_t most_ranks;       /* that can run; 0: as many as there are */
    bool device;              /* kernels are launched: mathematics takes the rank first */
    bool peers_write_gathered; /* a rank sends weights to where its peers gather them */
    int64_t staging_bytes;    /* at most, for parts of other ranks to be added; 0: they are
                               * read where they lie */
    int64_t library_workspace_bytes; /* of the arena, for the library of matrix products */
    Rates rates;
    void (*check)(struct Check *c);  /* what its fields mean to each other */
    void (*fill)(struct Check *c, struct Model *m); /* after m->rates */
} Target;

/* Never NULL: any name but a target's is the first one's. */
const Target *target_named(const char *name);
const Target *target_at(int i); /* NULL after the last */

#endif
