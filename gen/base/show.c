/* SPDX-License-Identifier: Apache-2.0 */
/* show.c: figures as text. In: shapes, bytes, counts, seconds. Out: the form in which all
 * reports, messages and emitted files print them. */
#include "base/show.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

const char *show_shape(Gen *g, const int64_t *dim, int n_dims)
{
    Text t = {.g = g};

    text_printf(&t, "[");
    for (int i = 0; i < n_dims; i++)
        text_printf(&t, "%s%" PRId64, i ? ", " : "", dim[i]);
    text_printf(&t, "]");
    return t.s;
}

static double in_units(int64_t bytes, const char **unit)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)bytes / 1024;
    int i = 0;

    for (; v >= 1024 && i < 4; i++)
        v /= 1024;
    *unit = units[i];
    return v;
}

const char *show_bytes(Gen *g, int64_t bytes)
{
    const char *unit;
    const double v = in_units(bytes, &unit);

    return bytes < 1024 ? gen_printf(g, "%" PRId64 " B", bytes)
                        : gen_printf(g, "%.2f %s", v, unit);
}

const char *show_bytes_short(Gen *g, int64_t bytes)
{
    const char *unit;
    const double v = in_units(bytes, &unit);

    return bytes < 1024 ? gen_printf(g, "%" PRId64 " bytes", bytes)
                        : gen_printf(g, "%.*f %s", v < 100 ? 1 : 0, v, unit);
}

/* What would round to 1000 takes the next unit: 999 885 952 is 1.0 B. */
static const char *thousands(Gen *g, double n, const char *const unit[7])
{
    int i = 0;

    for (; n >= 999.5 && i < 6; i++)
        n /= 1000;
    return gen_printf(g, "%.*f%s", i == 0 || n >= 99.95 ? 0 : 1, n, unit[i]);
}

const char *show_count(Gen *g, double n)
{
    static const char *const unit[] = {" ", " k", " M", " G", " T", " P", " E"};

    return thousands(g, n, unit);
}

const char *show_many(Gen *g, double n)
{
    static const char *const unit[] = {"", " k", " M", " B", " T", " P", " E"};

    return thousands(g, n, unit);
}

/* 8030261248 as "8 030 261 248". */
const char *show_grouped(Gen *g, int64_t n)
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%" PRId64, n);
    Text t = {.g = g};
    for (int i = 0; i < len; i++)
        text_printf(&t, "%s%c", i > 0 && (len - i) % 3 == 0 ? " " : "", digits[i]);
    return t.s;
}

const char *show_amount(Gen *g, double x)
{
    return x < 999.95   ? gen_printf(g, "%.4g", x)
           : x < 9.2e18 ? show_grouped(g, (int64_t)(x + 0.5))
                        : gen_printf(g, "%.0f", x);
}

const char *show_rate(Gen *g, double x)
{
    return x >= 10     ? show_grouped(g, (int64_t)x)
           : x >= 1e-4 ? gen_printf(g, "%.2g", x)
                       : "under 0.0001";
}

/* Days have no exponent, however many they are. */
const char *show_seconds_to(Gen *g, double seconds, int digits)
{
    return isinf(seconds) ? "more than 26 days" /* COST_MOST_PS */
           : seconds >= 9999.5 * 86400
               ? gen_printf(g, "%s days", show_amount(g, seconds / 86400))
           : seconds >= 864000 ? gen_printf(g, "%.*g days", digits + 1, seconds / 86400)
           : seconds >= 7200   ? gen_printf(g, "%.*g h", digits, seconds / 3600)
           : seconds >= 120    ? gen_printf(g, "%.*g min", digits, seconds / 60)
           : seconds >= 0.1 || seconds == 0 ? gen_printf(g, "%.*g s", digits, seconds)
           : seconds >= 1e-4 ? gen_printf(g, "%.*g ms", digits, 1e3 * seconds)
                             : gen_printf(g, "%.*g us", digits, 1e6 * seconds);
}

const char *show_seconds(Gen *g, double seconds)
{
    return show_seconds_to(g, seconds, 3);
}

const char *show_shortest(Gen *g, double x)
{
    char s[40];
    int digits = 1;

    do {
        snprintf(s, sizeof s, "%.*g", digits, x);
    } while (strtod(s, NULL) != x && digits++ < 17);
    return gen_strdup(g, s);
}

const char *show_number(Gen *g, double x)
{
    return x == floor(x) && fabs(x) < 1e15 ? gen_printf(g, "%.0f", x)
                                           : show_shortest(g, x);
}
