/* SPDX-License-Identifier: Apache-2.0 */
/* test_split_scales.c: graphs in parts with products in fp8, damaged on purpose, one
 * fault at a time: scales are the largest of all parts', and operands meet in fp8. */
#include "test_split.h"

#include <string.h>

static bool plant_own_scale(Gen *g)
{
    return plant_no_meet(g, PART_LARGEST);
}

/* A sum in place of the largest. */
static bool add_scales(Node *n)
{
    PartState *part = &n->in[0]->part[fault_axis];

    if (!n->op->collective || n->along != fault_axis || part->kind != PART_LARGEST)
        return false;
    part->kind = PART_PARTIAL;
    for (int i = 0; i < n->n_attrs; i++)
        if (!strcmp(n->attrs[i].key, "from"))
            n->attrs[i].s = "partial";
    return true;
}

static bool plant_added_scales(Gen *g)
{
    for (int i = 0; i < g->classes.count; i++)
        for (int k = 0; k < g->classes.items[i]->nodes.count; k++)
            if (add_scales(g->classes.items[i]->nodes.items[k]))
                return true;
    return false;
}

static bool plant_own_operand(Gen *g)
{
    return plant_no_meet(g, PART_CUT);
}

static bool plant_own_summand(Gen *g)
{
    return plant_no_meet(g, PART_PARTIAL);
}

const SplitFault scale_faults[] = {
    {"the scale of one part", plant_own_scale, "before the parts meet in the largest",
     IN_ALL},
    {"scales that are added", plant_added_scales, "do not make up", IN_ALL},
    {"a gather is missing", plant_own_operand, "do not make up", IN_ALL},
    {"a sum is missing", plant_own_summand, "before the parts are summed", ALONG_TENSOR},
    {0},
};
