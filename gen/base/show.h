/* SPDX-License-Identifier: Apache-2.0 */
/* show.h: figures as people read them (show.c). */
#ifndef SHOW_H
#define SHOW_H

#include "base/base.h"

const char *show_shape(Gen *g, const int64_t *dim, int n_dims); /* "[288, 768]" */
const char *show_bytes(Gen *g, int64_t bytes);                  /* "1.50 GiB" */
const char *show_bytes_short(Gen *g, int64_t bytes); /* "1.5 GiB", "12 bytes" */
const char *show_count(Gen *g, double n);            /* "1.2 G", before a unit */
const char *show_many(Gen *g, double n);             /* "8.0 B", of parameters or steps */
const char *show_grouped(Gen *g, int64_t n);         /* "8 030 261 248" */
const char *show_seconds(Gen *g, double seconds);           /* "7.33 s", "3.2 h", "12 days" */
const char *show_number(Gen *g, double x); /* 0.1: the shortest that reads back as x */

#endif
