/* SPDX-License-Identifier: Apache-2.0 */
/* show.h: figures as people read them (show.c). */
#ifndef SHOW_H
#define SHOW_H

#include "base/base.h"

const char *show_shape(Gen *g, const int64_t *dim, int n_dims); /* "[288, 768]" */
const char *show_bytes(Gen *g, int64_t bytes);       /* "1.50 GiB", "12 B": in tables */
const char *show_bytes_short(Gen *g, int64_t bytes); /* "1.5 GiB", "12 bytes": in text */

const char *show_count(Gen *g, double n);    /* "1.2 G", before a unit */
const char *show_many(Gen *g, double n);     /* "8.0 B", of parameters or steps */
const char *show_grouped(Gen *g, int64_t n); /* "8 030 261 248": to the last one */

const char *show_amount(Gen *g, double x);   /* "30.38", "466 311": hours, dollars */
const char *show_rate(Gen *g, double x);     /* tokens a second: "71 159", "0.25" */

const char *show_seconds(Gen *g, double seconds); /* "7.33 s", "3.2 h", "12 days" */
/* Of that many digits, for those who compare times: "3.751 ms". */
const char *show_seconds_to(Gen *g, double seconds, int digits);

/* The shortest that reads back as x: "0.1", "1e+06"; the second has whole numbers in
 * full, "1000000". */
const char *show_shortest(Gen *g, double x);
const char *show_number(Gen *g, double x);

#endif
