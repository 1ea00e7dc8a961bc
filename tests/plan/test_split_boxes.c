/* SPDX-License-Identifier: Apache-2.0 */
/* test_split_boxes.c: graphs in parts with a vocabulary that parts do not divide, damaged
 * on purpose, one fault at a time: rows of zeros are as few as they can be. */
#include "test_split.h"

static bool plant_more_padding(Gen *g)
{
    for (int i = 0; i < g->classes.count; i++)
        for (int k = 0; k < g->classes.items[i]->params.count; k++) {
            ClassParam *p = &g->classes.items[i]->params.items[k];

            if (!p->mark[fault_axis].sections.pad)
                continue;
            p->mark[fault_axis].sections.pad++;
            return true;
        }
    return false;
}

/* The boxes of a padded parameter as they would be with so many rows each. */
static bool boxes_of(Gen *g, int64_t rows)
{
    bool any = false;

    for (int i = 0; i < g->classes.count; i++) {
        Class *c = g->classes.items[i];

        for (int k = 0; k < c->values.count; k++) {
            Value *v = c->values.items[k];
            ClassParam *p = v->kind == VAL_PARAM ? &c->params.items[v->index] : NULL;

            if (!p || !p->mark[fault_axis].sections.pad)
                continue;
            v->elems = v->elems / v->dim[0] * rows;
            v->dim[0] = rows;
            p->mark[fault_axis].sections.elems[0] = g->model.parts[fault_axis] * rows;
            p->mark[fault_axis].sections.pad =
                p->mark[fault_axis].sections.elems[0] - p->dim[0];
            v->part[fault_axis] = p->mark[fault_axis];
            any = true;
        }
    }
    return any;
}

static bool plant_slow_boxes(Gen *g)
{
    return boxes_of(g, 13);
}

static bool plant_large_boxes(Gen *g)
{
    return boxes_of(g, 24);
}

static bool plant_empty_box(Gen *g)
{
    return boxes_of(g, 32);
}

const SplitFault box_faults[] = {
    {"more padding than rows need", plant_more_padding, "boxes", ALONG_TENSOR},
    {"boxes of rows that are slow", plant_slow_boxes, "boxes", ALONG_TENSOR},
    {"boxes of more eights than rows need", plant_large_boxes, "boxes", ALONG_TENSOR},
    {"a box of zeros alone", plant_empty_box, "boxes", ALONG_TENSOR},
    {0},
};
