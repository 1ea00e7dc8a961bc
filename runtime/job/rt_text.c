/* SPDX-License-Identifier: MIT-0 */
/* rt_text.c: a text that grows in memory. In: what is printed to its stream. Out: the
 * text, or the news that memory has ended. */
#define _GNU_SOURCE
#include "job/rt_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* For stdio: takes all, or returns 0 with errno, which fclose and ferror report. */
static ssize_t put(void *text, const char *from, size_t bytes)
{
    RtText *t = text;
    if (t->room - t->bytes <= bytes) {
        const size_t room = 2 * (t->bytes + bytes) + 1;
        char *more = realloc(t->at, room);
        if (more == NULL)
            return 0;
        t->at = more;
        t->room = room;
    }
    memcpy(t->at + t->bytes, from, bytes);
    t->bytes += bytes;
    t->at[t->bytes] = '\0';
    return (ssize_t)bytes;
}

bool rt_text_open(RtText *t)
{
    const cookie_io_functions_t calls = {.write = put};
    *t = (RtText){.room = 1, .at = calloc(1, 1)};
    t->f = t->at != NULL ? fopencookie(t, "w", calls) : NULL;
    if (t->f == NULL) {
        free(t->at);
        errno = ENOMEM;
    }
    return t->f != NULL;
}

bool rt_text_flush(RtText *t)
{
    return fflush(t->f) == 0 && !ferror(t->f);
}

char *rt_text_end(RtText *t)
{
    const bool whole = rt_text_flush(t);
    if (fclose(t->f) == 0 && whole)
        return t->at;
    free(t->at);
    errno = ENOMEM;
    return NULL;
}
