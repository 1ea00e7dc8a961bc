/* SPDX-License-Identifier: MIT-0 */
/* rt_arena.h: where control areas are in the memory that ranks share (rt_arena.c). */
#ifndef RT_ARENA_H
#define RT_ARENA_H

#include "rt_private.h"

int64_t rt_control_offset(const RtTrainer *t, int rank);
int64_t rt_control_bytes(const RtTrainer *t); /* per rank */

#endif
