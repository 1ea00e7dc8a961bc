/* SPDX-License-Identifier: MIT-0 */
/* rt_control.h: the control area in device memory: what both host and kernels know of a step's end,
 * and of sums over ranks. Includes no header: the includer defines int64_t and uint64_t.
 *
 * It starts with words that ranks add up: the superaccumulator, the number of targets. Then the
 * losses of the step's micro-batches, double; then RtDeviceStep. */
#ifndef RT_CONTROL_H
#define RT_CONTROL_H

enum {
    RT_CONTROL_TARGETS = 72,                  /* RT_SUPERACC_WORDS */
    RT_CONTROL_WORDS = RT_CONTROL_TARGETS + 1, /* words that ranks add up */
    RT_CONTROL_LOSSES = 8 * RT_CONTROL_WORDS   /* bytes before the losses */
};

/* What the host knows of a step before its norm is known. */
typedef struct RtStepIn {
    double lr, bias1, bias2; /* those of RtUpdate */
    double clip;             /* 0: none */
    double scale;            /* of the loss: the factor in the gradients */
    uint64_t noise;
    float loss_scale; /* the same, for kernels */
} RtStepIn;

/* How the nodes of a round of leaves are merged: rt_merge of rt.h. */
typedef struct RtRound {
    int levels, last;
} RtRound;

/* What a tree adds: part k starts at staging + k * stride elements; this rank's own lies where its
 * mathematics left it. */
typedef struct RtRankParts {
    const void *own, *staging;
    int64_t stride; /* whole grains */
    int mine, ranks;
} RtRankParts;

/* What the device computes for it. */
typedef struct RtStepOut {
    double loss, grad_norm, clip_factor;
    int64_t valid_tokens, skip;
} RtStepOut;

#endif
