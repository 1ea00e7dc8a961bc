/* SPDX-License-Identifier: MIT-0 */
/* rt_text.h: a text that grows in memory, written like a file. open_memstream does not say that
 * memory has ended, and its text then lacks a part; here fclose fails. */
#ifndef RT_TEXT_H
#define RT_TEXT_H

#include <stdbool.h>
#include <stdio.h>

typedef struct RtText {
    FILE *f;
    char *at; /* after rt_text_flush: with a final 0, which `bytes` does not count */
    size_t bytes, room;
} RtText;

bool rt_text_open(RtText *t);
bool rt_text_flush(RtText *t); /* false: a part is missing, now or from earlier */
/* The text, which the caller frees; NULL: out of memory. `bytes` stays. */
char *rt_text_end(RtText *t);

#endif
