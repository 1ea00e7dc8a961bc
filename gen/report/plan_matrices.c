/* SPDX-License-Identifier: Apache-2.0 */
/* plan_matrices.c: the plan of the matrices that an optimizer treats as a whole. In: the
 * assignment of matrices.c. Out: lines of plan.txt; empty if there are none. */
#include "plan/plan.h"
#include "base/show.h"
#include "report/report.h"

#include <inttypes.h>

void plan_print_matrices(Gen *g, Text *t)
{
    double all = matrices_flops(g, -1, -1), longest = 0;
    int64_t others = plan_params(g), frozen = 0;
    Moved moved;

    if (g->batches.count == 0)
        return;
    for (int b = 0; b < g->batches.count; b++)
        longest += matrices_max_flops(g, b);
    for (int i = 0; i < g->params.count; i++) {
        const Param *p = &g->params.items[i];

        others -= p->matrix || p->decl->frozen ? p->elems : 0;
        frozen += p->decl->frozen ? p->elems : 0;
    }
    text_printf(t,
                "matrices: %d by %s, each whole on one rank, in %d batch%s; %" PRId64
                " other parameters by elements%s\n",
                g->matrices.count, g->model.optimizer->name, g->batches.count,
                g->batches.count == 1 ? "" : "es", others,
                frozen ? gen_printf(g, ", %" PRId64 " frozen", frozen) : "");
    text_printf(t,
                "  %sFLOP a step; the busiest ranks of each batch do %.2f of an equal "
                "share\n",
                show_count(g, all), longest * (double)g->model.mesh.world_size / all);
    moved = matrices_moved(g, -1, 0);
    if (g->model.mesh.world_size > 1)
        text_printf(t, "  rank 0 receives in a step: %s to own, %s of results\n",
                    show_bytes(g, moved.to_owners),
                    show_bytes(g, moved.from_owners + moved.from_copies));
    text_printf(t, "\n");
}
