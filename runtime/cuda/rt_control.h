/* SPDX-License-Identifier: MIT-0 */
/* rt_control.h: the control area as the device has it: what host and kernels both know of a step's
 * end. No header is read: the includer has int64_t and uint64_t.
 *
 * At its beginning, words that ranks add up: the superaccumulator, the number of targets; then
 * the losses of the step's micro-batches, double; then RtDeviceStep. */
#ifndef RT_CONTROL_H
#define RT_CONTROL_H

enum {
    RT_CONTROL_TARGETS = 72,                  /* RT_SUPERACC_WORDS */
    RT_CONTROL_WORDS = RT_CONTROL_TARGETS + 1, /* that ranks add up */
    RT_CONTROL_LOSSES = 8 * RT_CONTROL_WORDS   /* bytes before the losses */
};

/* What the host says of a step before its norm is known. */
typedef struct RtStepIn {
    double lr, bias1, bias2; /* RtUpdate's */
    double clip;             /* 0: none */
    double scale;            /* of the loss: gradients are too large by it */
    uint64_t noise;
    float loss_scale; /* the same, for kernels */
} RtStepIn;

/* How the nodes of a round of leaves merge: rt_merge of rt.h. */
typedef struct RtRound {
    int levels, last;
} RtRound;

/* What the device says of it. */
typedef struct RtStepOut {
    double loss, grad_norm, clip_factor;
    int64_t valid_tokens, skip;
} RtStepOut;

#endif
