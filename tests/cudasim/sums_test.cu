/* SPDX-License-Identifier: Apache-2.0 */
/* sums_test.cu: the runtime's own kernels for one dtype of gradients (-DRT_F32_SUMS, ...), for
 * sums_test.c. */
#include "rt_device.h"
#include "rt_kernels.h"
