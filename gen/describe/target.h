/* SPDX-License-Identifier: Apache-2.0 */
/* target.h: the one table of targets. A target is what a trainer is made for: where its mathematics
 * runs, what its libraries need, and how fast it is assumed to be. Passes ask for a property and
 * never for a target by name. */
#ifndef TARGET_H
#define TARGET_H

#include "describe/rates.h"

#include <stdbool.h>
#include <stdint.h>

struct Check;
struct Model;

/* Kernels of a library that a description may ask for: they replace the target's own in ops whose
 * folders have them. */
typedef struct KernelLibrary {
    const char *name;      /* in messages: "cuDNN" */
    const char *field;     /* the description's field that asks for it */
    const char *folder;    /* in the target's folder of runtime/, and its name in templates */
    const char *file;      /* in an op's folder: "cudnn.cu" */
    const char *workspace; /* the name of that kernel's scratch in an op's rule */
    const char *check;     /* and of the function that says what the kernel cannot do */
    const char *slow;      /* and of that which says why "auto" prefers the target's own kernel */
    const char *site;      /* and of that whose text names what a measured choice depends on */
    const char *choices;   /* the description's field with measured choices */
} KernelLibrary;

typedef struct Target {
    const char *name;         /* of its constructor and its folder in runtime/ */
    const char *kernel_file;  /* in an op's folder: "cpu.c" */
    const char *workspace;    /* the name of its scratch in an op's rule, if it differs from other
                               * targets' ("workspace") */
    const char *check_op;     /* and of the function that says what the kernel cannot do; NULL: it
                               * can do all that the op allows */
    const KernelLibrary *kernel_library; /* available to trainers; NULL: none */
    const char *budget_field; /* its value is the budget if the memory is not given */
    const char *outside;      /* what a rank holds beside the arena, as the plan shows it */
    int64_t process_bytes;    /* of code, heap and stacks, about; 0: the arena is on a device */
    int64_t most_ranks;       /* largest number of ranks; 0: unlimited */
    bool device;              /* launches kernels: mathematics takes the rank as first argument */
    bool peers_write_gathered; /* ranks send weights to their peers, rather than read them */
    int64_t staging_bytes;    /* upper limit of the buffer for parts from other ranks; 0: parts are
                               * read in place */
    int64_t library_workspace_bytes; /* part of the arena, for the library of matrix products */
    Rates rates;
    void (*check)(struct Check *c);  /* checks its fields */
    void (*fill)(struct Check *c, struct Model *m); /* runs after m->rates is set */
} Target;

/* Never NULL: an unknown name gives the first target. */
const Target *target_named(const char *name);
const Target *target_at(int i); /* NULL after the last */

#endif
