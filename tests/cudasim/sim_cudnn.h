/* SPDX-License-Identifier: Apache-2.0 */
/* sim_cudnn.h: graphs of cuDNN's operations: what sim_cudnn.c, which takes their
 * descriptions, shares with sim_cudnn_run.c, which computes them one after the other. */
#ifndef SIM_CUDNN_H
#define SIM_CUDNN_H

#include "sim_cudart.h"

#include <cudnn.h>

enum { SIM_DNN_TENSORS = 96, SIM_DNN_OPS = 48 };

typedef struct SimTensor {
    int64_t uid, dim[4], stride[4];
    cudnnDataType_t type;
    bool is_virtual, by_value;
    bool written; /* by an operation of the graph */
} SimTensor;

typedef enum {
    SIM_DNN_MATMUL,
    SIM_DNN_POINTWISE,
    SIM_DNN_REDUCE,
    SIM_DNN_RESHAPE
} SimDnnKind;

typedef struct SimDnnOp {
    SimDnnKind kind;
    int mode;       /* of a pointwise operation, of a reduction */
    int64_t axis;   /* of an index */
    int x, b, t, y; /* tensors of the graph; -1: none */
} SimDnnOp;

typedef struct SimDnnGraph {
    SimTensor tensor[SIM_DNN_TENSORS];
    SimDnnOp op[SIM_DNN_OPS];
    int n_tensors, n_ops;
} SimDnnGraph;

/* An execution: where each tensor lies, and the values of those of the host. */
typedef struct SimDnnCall {
    const SimDnnGraph *graph;
    void *at[SIM_DNN_TENSORS];
    float value[SIM_DNN_TENSORS];
    void *workspace;
    int64_t workspace_bytes;
} SimDnnCall;

/* NULL, or what the library would refuse. */
const char *sim_dnn_problem(const SimDnnGraph *g);
SimResult sim_dnn_run(SimOp *op); /* payload: a SimDnnCall */

#endif
