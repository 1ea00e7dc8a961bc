/* SPDX-License-Identifier: Apache-2.0 */
/* exact.h: the functions of real numbers that descriptions may call, with the same bits
 * on every machine (exact.c). */
#ifndef EXACT_H
#define EXACT_H

/* Rounded to nearest, ties to even, unless the exact value is not a tie but lies within a relative
 * 2^-90 of one. A NaN result is the positive quiet NaN. */
double exact_exp(double x);
double exact_log(double x);
double exact_log2(double x);
double exact_log10(double x);
double exact_sin(double x);
double exact_cos(double x);
double exact_tan(double x);
double exact_asin(double x);
double exact_acos(double x);
double exact_atan2(double y, double x);
double exact_pow(double x, double y);

#endif
