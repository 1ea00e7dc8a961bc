/* SPDX-License-Identifier: Apache-2.0 */
/* rates.h: how fast a target is assumed to be, by class of kernel: the target's own figures, or
 * those of a file that `trainer --calibrate` measured (--rates). For predictions only: nothing that
 * decides a bit of a result reads them. */
#ifndef RATES_H
#define RATES_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* What limits a kernel. Its op's rule states it (ops/node_cost.c). */
typedef enum {
    COST_PRODUCT,     /* matrix products */
    COST_ATTENTION,   /* products between softmaxes: slower */
    COST_ATTENTION_BWD,
    COST_ELEMENTWISE, /* from here on by the bytes of its operands */
    COST_NORM,        /* reductions along rows or columns */
    COST_COPY,        /* no arithmetic */
    N_COSTS
} CostClass;
const char *cost_class_name(CostClass c);
bool cost_by_flops(CostClass c); /* is its rate in flops, not in bytes? */

/* C[m, n] = A B: how A and B lie: the forms of rt_gemm.h. */
typedef enum { FORM_NT, FORM_NN, FORM_TN, N_FORMS } ProductForm;
const char *product_form_name(ProductForm f);
typedef struct Product {
    ProductForm form;
    int64_t m, n, k;
    int64_t times; /* calls of one run of the kernel */
} Product;

/* Measured. */
typedef struct ProductTime { ProductForm form; int64_t m, n, k; Dtype dtype; int64_t ps; } ProductTime;
typedef enum { MOVE_GATHER, MOVE_REDUCE, N_MOVES } MoveKind;
typedef struct MoveTime { MoveKind kind; int64_t ranks, bytes, ps; } MoveTime; /* of the whole */

typedef struct Rates {
    int64_t per_us[N_COSTS]; /* flops, or bytes of operands */
    int64_t library_per_us[N_COSTS]; /* of a library's kernels beside the target's own; 0: as those */
    int64_t link_per_us;     /* bytes received from other ranks */
    int64_t latency_ps;      /* per collective */
    int64_t launch_ps;       /* before each kernel */
    int64_t f32_slower;      /* how much slower f32 and f64 products are than bf16 ones */
    int64_t fp8_percent;     /* rate of fp8 products, of that of bf16 ones */
    int64_t contention;      /* of 1000 ps of a kernel, beside a collective */
    int64_t processors;      /* that share a kernel's tiles; 0: unknown */
    /* from a file */
    const char *file;        /* its name, without folders, in printable ASCII; NULL: none */
    const char *platform;    /* as the file says it */
    uint64_t digest;         /* of its bytes */
    unsigned measured;       /* bits of the classes whose rate it states */
    int n_products, n_moves;
    ProductTime *products;   /* sorted: rates_product */
    MoveTime *moves;         /* sorted by kind, ranks, bytes */
} Rates;

struct Check;
struct Model;

/* Replaces the model's rates by those of the file that --rates names, as far as it states them. */
void rates_read(struct Check *c, struct Model *m);
/* NULL: the file has no product of that shape. */
const ProductTime *rates_product(const Rates *r, const Product *p, Dtype dtype);

#endif
