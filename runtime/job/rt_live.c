/* SPDX-License-Identifier: MIT-0 */
/* rt_live.c: the last line of a terminal, redrawn during a run. In: what rank 0 says of
 * the run (RtLine), in the shared page. Out: one line that fits the terminal, drawn by
 * the process that watches rank 0. So no step waits for a terminal, and the remaining
 * time counts down within a step.
 *
 * The cursor stays at the start of the line. A process that writes to the terminal first
 * sends \r and "erase to the end of the screen" (rt_say_erases), which removes the line,
 * even if a narrower window has wrapped it; it is redrawn below soon after. No terminal
 * settings are changed, so ctrl-C, ctrl-Z and SIGKILL leave nothing behind. In the
 * background nothing is drawn. */
#define _GNU_SOURCE
#include "job/rt_job.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DRAW_MS = 100, LEAST_COLUMNS = 20, MOST_COLUMNS = 120, DEFAULT_COLUMNS = 80 };

bool rt_colors(RtColor color, int fd)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if (color != RT_COLOR_AUTO)
        return color == RT_COLOR_ALWAYS;
    return isatty(fd) && (no == NULL || *no == '\0') &&
           (term == NULL || strcmp(term, "dumb") != 0);
}

int rt_live_columns(void)
{
    struct winsize w;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col == 0)
        return DEFAULT_COLUMNS;
    return w.ws_col < LEAST_COLUMNS  ? LEAST_COLUMNS
           : w.ws_col > MOST_COLUMNS ? MOST_COLUMNS
                                     : w.ws_col;
}

/* ---- numbers --------------------------------------------------------------------- */

const char *rt_duration(char *out, size_t n, double seconds)
{
    const long long s = seconds < 9e15 ? (long long)(seconds + 0.5) : (long long)9e15;
    if (s >= 86400)
        snprintf(out, n, "%lldd%02lldh", s / 86400, s / 3600 % 24);
    else if (s >= 3600)
        snprintf(out, n, "%lldh%02lldm", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(out, n, "%lldm%02llds", s / 60, s % 60);
    else
        snprintf(out, n, "%llds", s);
    return out;
}

const char *rt_digits(char *out, size_t n, double x, int digits)
{
    char scientific[64];
    if (x != x || x - x != 0) { /* without the sign that a processor gives to NaN */
        snprintf(out, n, "%s", x != x ? "nan" : x > 0 ? "inf" : "-inf");
        return out;
    }
    snprintf(scientific, sizeof scientific, "%.*e", digits - 1, x);
    const int exponent = atoi(strchr(scientific, 'e') + 1);
    if (exponent < -4 || exponent > 5)
        snprintf(out, n, "%s", scientific);
    else
        snprintf(out, n, "%.*f", exponent < digits ? digits - 1 - exponent : 0, x);
    return out;
}

const char *rt_bytes(char *out, size_t n, int64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    char number[32];
    double x = (double)bytes / 1024;
    int unit = 0;
    for (; unit < 3 && x >= 999.5; unit++)
        x /= 1024;
    snprintf(out, n, "%s %s", rt_digits(number, sizeof number, x, 3), units[unit]);
    return out;
}

const char *rt_rate(char *out, size_t n, double x)
{
    static const char *const units[] = {"", "k", "M", "G"};
    char number[32];
    int unit = 0;
    for (; unit < 3 && x >= 999.5; unit++)
        x /= 1000;
    snprintf(out, n, "%s%s tok/s", rt_digits(number, sizeof number, x, 3), units[unit]);
    return out;
}

/* ---- the line -------------------------------------------------------------------- */

/* The fields of the line, in order; if they do not all fit, the least important ones are
 * dropped first. */
typedef struct Field {
    char text[64];
    int matters; /* 0: most important; never dropped */
    const char *color;
} Field;
enum {
    MOST_FIELDS = 12,
    BAR_FROM = 6,
    BAR_MOST = 24,
    EMPTY_MATTERS = 8,
    MEMORY_MATTERS = 9
};

__attribute__((format(printf, 4, 5))) static void add(Field *fields, int *n, int matters,
                                                      const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(fields[*n].text, sizeof fields[*n].text, fmt, ap);
    va_end(ap);
    fields[*n].color = NULL;
    fields[(*n)++].matters = matters;
}

static int fill(const RtLine *l, Field *fields)
{
    char a[48], total[24];
    int n = 0;
    const int wide = snprintf(total, sizeof total, "%lld", (long long)l->steps);
    add(fields, &n, 0, "step %*lld/%s", wide, (long long)l->step, total);
    if (l->tokens_per_second == 0) { /* no step is done yet */
        add(fields, &n, 1, "first step: %s",
            rt_duration(a, sizeof a, 1e-9 * (double)(rt_clock_ns() - l->told_ns)));
        return n;
    }
    add(fields, &n, 1, "loss %-6s",
        l->has_loss ? rt_digits(a, sizeof a, l->loss, 5) : "n/a");
    fields[n - 1].color = "\033[1m";
    if (l->evaluated) {
        add(fields, &n, 2, "eval %-6s",
            l->has_eval ? rt_digits(a, sizeof a, l->eval_loss, 5) : "n/a");
        fields[n - 1].color = "\033[1m";
    }
    add(fields, &n, 4, "grad %-6s", rt_digits(a, sizeof a, l->grad_norm, 4));
    add(fields, &n, 5, "lr %-8.3g", l->lr);
    add(fields, &n, 3, "%11s", rt_rate(a, sizeof a, l->tokens_per_second));
    if (l->mfu > 0)
        add(fields, &n, 7, "MFU %s%%", rt_digits(a, sizeof a, 100 * l->mfu, 3));
    if (l->left_seconds > 0) /* padded, so that what fits beside it stays there */
        add(fields, &n, 3, "ETA %-6s", rt_duration(a, sizeof a, l->left_seconds));
    else
        add(fields, &n, EMPTY_MATTERS, "%10s", "");
    add(fields, &n, MEMORY_MATTERS, "%s", rt_bytes(a, sizeof a, l->memory_bytes));
    return n;
}

static int width_of(const Field *fields, int n, int gap)
{
    int width = -gap;
    for (int i = 0; i < n; i++)
        width += gap + (int)strlen(fields[i].text);
    const char *last = fields[n - 1].text; /* what pads it may stand beyond the line */
    for (size_t k = strlen(last); k > 0 && last[k - 1] == ' '; k--)
        width--;
    return width;
}

static int drop_least(Field *fields, int n)
{
    int least = 0;
    for (int i = 1; i < n; i++)
        if (fields[i].matters >= fields[least].matters)
            least = i;
    memmove(fields + least, fields + least + 1, (size_t)(n - least - 1) * sizeof *fields);
    return n - 1;
}

/* [####....] after the first field, this many columns wide. */
static void draw_bar(const RtLine *l, int columns, bool color, char *text, size_t room)
{
    const int cells = columns - 2;
    const double share = l->steps > 0 ? (double)l->step / (double)l->steps : 1;
    const int full = (int)(share * cells + 1e-9);
    size_t at = (size_t)snprintf(text, room, "[%s", color ? "\033[32m" : "");
    for (int i = 0; i < cells && at + 16 < room; i++) {
        if (i == full && color)
            at += (size_t)snprintf(text + at, room - at, "\033[2m");
        text[at++] = i < full ? '#' : '.';
    }
    snprintf(text + at, room - at, "%s]", color ? "\033[0m" : "");
}

void rt_live_text(const RtLine *line, int columns, bool bar, bool color,
                  char text[RT_LINE_BYTES])
{
    Field fields[MOST_FIELDS];
    int n = fill(line, fields), gap = 2;
    const int wanted = bar ? columns - BAR_FROM - 1 : columns;
    while (n > 1 && width_of(fields, n, gap) > wanted)
        if (gap == 1 || fields[n - 1].matters >= EMPTY_MATTERS)
            n = drop_least(fields, n);
        else
            gap = 1;
    int left = columns - width_of(fields, n, gap) - gap;
    left = left > BAR_MOST ? BAR_MOST : left;
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        const char *on = color && fields[i].color != NULL ? fields[i].color : "";
        at +=
            (size_t)snprintf(text + at, RT_LINE_BYTES - at, "%*s%s%s%s", i > 0 ? gap : 0,
                             "", on, fields[i].text, *on != '\0' ? "\033[0m" : "");
        if (i == 0 && bar && left >= BAR_FROM) {
            at += (size_t)snprintf(text + at, RT_LINE_BYTES - at, "%*s", gap, "");
            draw_bar(line, left, color, text + at, RT_LINE_BYTES - at);
            at += strlen(text + at);
        }
    }
    while (at > 0 && text[at - 1] == ' ')
        text[--at] = '\0';
}

/* ---- between rank 0 and the drawing process -------------------------------------- */

bool rt_live_hold(RtLive *live)
{
    for (int tries = 0; tries < 10000; tries++) {
        int free = 0;
        if (atomic_compare_exchange_weak(&live->busy, &free, 1))
            return true;
        sched_yield();
    }
    return false;
}

void rt_live_release(RtLive *live)
{
    atomic_store(&live->busy, 0);
}

void rt_live_on(RtLive *live)
{
    const char *term = getenv("TERM");
    atomic_store(&live->on, isatty(STDOUT_FILENO) && term != NULL && *term != '\0' &&
                                strcmp(term, "dumb") != 0);
}

/* A descriptor of its own that never blocks, because ctrl-S can stop a terminal any
 * time. */
static int way_to_terminal(void)
{
    static int fd = -1;
    if (fd < 0)
        fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd;
}

static void write_some(const char *text)
{
    const ssize_t done = write(way_to_terminal(), text, strlen(text));
    (void)done; /* if the terminal is full, the next drawing will do */
}

void rt_live_off(RtLive *live)
{
    const bool held = rt_live_hold(live);
    const char *erases = rt_say_erases(STDOUT_FILENO);
    atomic_store(&live->on, 0);
    if (*erases != '\0')
        write_some(erases);
    if (held)
        rt_live_release(live);
}

void rt_live_set(RtLive *live, const RtLine *line)
{
    if (!atomic_load(&live->on) || !rt_live_hold(live))
        return;
    live->line = *line;
    live->line.told_ns = rt_clock_ns();
    rt_live_release(live);
}

void rt_live_draw(RtLive *live, bool color)
{
    static int64_t drawn_ns;
    static char drawn[RT_LINE_BYTES];
    char text[RT_LINE_BYTES], all[RT_LINE_BYTES + 16];
    const int64_t now = rt_clock_ns();
    int free = 0;
    if (!atomic_load(&live->on) ||
        (!atomic_load(&live->erased) && now - drawn_ns < DRAW_MS * INT64_C(1000000)) ||
        way_to_terminal() < 0 || !atomic_compare_exchange_strong(&live->busy, &free, 1))
        return;
    RtLine line = live->line;
    const bool erased = atomic_load(&live->erased);
    const char *erases = rt_say_erases(STDOUT_FILENO);
    if (line.steps > 0 && *erases != '\0') {
        if (line.left_seconds > 0) {
            line.left_seconds -= 1e-9 * (double)(now - line.told_ns);
            line.left_seconds = line.left_seconds > 0.1 ? line.left_seconds : 0.1;
        }
        /* The last column stays free: some terminals wrap there. */
        rt_live_text(&line, rt_live_columns() - 1, true, color, text);
        snprintf(all, sizeof all, "%s%s\r", erases, text);
        if (erased || strcmp(text, drawn) != 0)
            write_some(all);
        memcpy(drawn, text, sizeof drawn);
        drawn_ns = now;
        atomic_store(&live->erased, 0);
    }
    rt_live_release(live);
}
