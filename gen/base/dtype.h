/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.h: the types of elements. */
#ifndef DTYPE_H
#define DTYPE_H

typedef enum { DT_NONE, DT_F64, DT_F32, DT_BF16, DT_F16, DT_SPLIT, DT_I32, DT_U16,
               DT_U8, DT_E4M3, DT_E5M2 } Dtype; /* DT_SPLIT: a master's 16 bits below a bf16
                                                 * weight; the last two: the forms of fp8 */
int dtype_bytes(Dtype d);
const char *dtype_name(Dtype d);    /* "f32" */
Dtype dtype_parse(const char *s);   /* DT_NONE when unknown */
const char *dtype_ctype(Dtype d);   /* "float", "double", "rt_bf16", "int32_t" */

#endif
