/* SPDX-License-Identifier: Apache-2.0 */
/* arithmetic.c: which files of the runtime compute. In: a file's path in runtime/. Out:
 * whether an edit of it can change a bit of a result. The text of these files, without
 * comments, is part of the platform hash (runtime/arithmetic.awk). Folders that only some
 * meshes need contain none of them: sums over ranks follow the same tree as sums on one
 * rank, so another mesh is not another platform. tests/emit/platform.sh lists the other
 * files, with reasons. */
#include "base/base.h"

#include <string.h>

bool runtime_computes(const char *path)
{
    static const char *const files[] = {
        "rt_fp8.h",
        "rt_gemm.h",
        "rt_math.h",
        "rt_math_body.h",
        "rt_philox.h",
        "rt_row_body.h",
        "rt_simd.h",
        "cpu/rt_fp8_codes.c",
        "cpu/rt_gemm.c",
        "cpu/rt_gemm_builtin.c",
        "cpu/rt_gemm_cblas.c",
        "cpu/rt_gemm_micro.h",
        "cpu/rt_gemm_onednn.c",
        "cpu/rt_gemm_pack.h",
        "cpu/rt_gemm_tile.h",
        "cpu/rt_matrix.c",
        "cpu/rt_norm.c",
        "cpu/rt_pull.c",
        "cpu/rt_sum.c",
        "cuda/cudnn/rt_cudnn.c",
        "cuda/cudnn/rt_cudnn_graph.c",
        "cuda/rt_blas.c",
        "cuda/rt_device.h",
        "cuda/rt_fp8_codes.c",
        "cuda/rt_fp8_device.h",
        "cuda/rt_fp8_kernels.h",
        "cuda/rt_kernels.h",
        "cuda/rt_matrix.c",
        "cuda/rt_mma.h",
        "cuda/rt_norm.c",
        "cuda/rt_rows.h",
        "state/rt_init.c",
        "state/rt_map.c",
        "state/rt_matrix.h",
        "state/rt_owners.c",
        "state/rt_scale.c",
        "state/rt_schedule.c",
        "state/rt_update.c",
    };

    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!strcmp(path, files[i]))
            return true;
    return false;
}
