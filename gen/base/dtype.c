/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.c: names of dtypes. In: a dtype, or its name. Out: its name, size and C type. */
#include "base/base.h"
#include "base/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    int bytes;
} dtypes[] = {
    [DT_NONE] = {"none", 0}, [DT_F64] = {"f64", 8},   [DT_F32] = {"f32", 4},
    [DT_BF16] = {"bf16", 2}, [DT_F16] = {"f16", 2},   [DT_SPLIT] = {"split", 2},
    [DT_I32] = {"i32", 4},   [DT_U16] = {"u16", 2},   [DT_U8] = {"u8", 1},
    [DT_E4M3] = {"e4m3", 1}, [DT_E5M2] = {"e5m2", 1},
};

int dtype_bytes(Dtype d)
{
    return dtypes[d].bytes;
}

const char *dtype_name(Dtype d)
{
    return dtypes[d].name;
}

Dtype dtype_parse(const char *s)
{
    for (int d = DT_NONE + 1; d < (int)(sizeof dtypes / sizeof *dtypes); d++)
        if (!strcmp(s, dtypes[d].name))
            return (Dtype)d;
    return DT_NONE;
}

const char *dtype_ctype(Dtype d)
{
    switch (d) {
    case DT_F64:
        return "double";
    case DT_F32:
        return "float";
    case DT_BF16:
        return "rt_bf16";
    case DT_F16:
        return "rt_f16";
    case DT_SPLIT:
        return "uint16_t";
    case DT_I32:
        return "int32_t";
    case DT_E4M3:
    case DT_E5M2:
        return "uint8_t";
    default:
        gen_die("no C type for dtype %s", dtype_name(d));
    }
}
