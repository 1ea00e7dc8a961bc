/* SPDX-License-Identifier: Apache-2.0 */
/* resident.h: the pages of one peer's symmetric space that a rank reads. */
#ifndef RESIDENT_H
#define RESIDENT_H

#include "plan/plan.h"

enum { PAGE_BYTES = 4096 };

typedef struct PageRange {
    int64_t from, to; /* bytes of the space, whole pages */
} PageRange;

/* A meet whose pages are read. Blocks of a class have the same nodes, in buffers that are
 * often at the same place. */
typedef struct MeetRead {
    const Node *node;
    int64_t from, end, stride; /* bytes of the space: the first part of its input, the end
                                * of the buffer, from part to part */
} MeetRead;

typedef struct MeetReads { MeetRead *items; int count, cap; } MeetReads;

typedef struct Pages {
    Gen *g;
    PageRange *items;
    int n, cap;
    MeetReads meets; /* of this peer; most blocks repeat them */
} Pages;

/* Reads these bytes of the buffer, if peers can. */
void pages_read(Pages *pages, const Buffer *b, int64_t from, int64_t bytes);

/* resident_meets.c: in the meets of a span. */
void pages_read_meets(const Gen *g, Pages *pages, const Instr *i, int rank, int peer);

#endif
