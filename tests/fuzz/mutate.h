/* SPDX-License-Identifier: Apache-2.0 */
/* mutate.h: hostile and random texts for the fuzzers (mutate.c). The same state gives the
 * same text on every machine. */
#ifndef MUTATE_H
#define MUTATE_H

#include <stddef.h>
#include <stdint.h>

typedef struct Random {
    uint64_t state;
} Random;

/* Case i of a seed starts here, whatever ran before it. */
void random_start(Random *r, uint64_t seed, uint64_t i);
uint32_t random_below(Random *r, uint32_t n); /* 0 .. n - 1 */

/* A text of its own memory; bytes may be 0. */
typedef struct Str {
    char *s;
    size_t n, cap;
} Str;
void str_add(Str *s, const char *bytes, size_t n);
void str_printf(Str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

const char *hostile_number(Random *r);
const char *hostile_string(Random *r); /* a Lua expression */
const char *hostile_value(Random *r);  /* any Lua expression, mostly of a wrong type */

/* One change of a program text: bytes, tokens or lines cut, doubled, swapped or replaced.
 */
void mutate_text(Random *r, Str *s);
/* One change of a JSON text that is not empty; words end with NULL. */
void mutate_json(Random *r, Str *s, const char *const *words);
/* A description in which every field is legal by itself; together they may not be. */
void legal_description(Random *r, Str *s);
/* One that is deep, long, or does not end. costly: may use up a limit of the sandbox. */
void deep_description(Random *r, Str *s, int costly);
/* An argument of --set. */
void set_argument(Random *r, Str *s);

#endif
