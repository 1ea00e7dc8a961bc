/* SPDX-License-Identifier: MIT-0 */
/* rt_events.c: event files for TensorBoard. In: the step's results. Out: on rank 0 a file
 * in --tensorboard DIR, with one more record after each step.
 *
 * A file is a sequence of records: the length of an event, 8 bytes, low byte first; the
 * CRC of those bytes; the event; its CRC. A CRC is Castagnoli's, rotated and shifted, so
 * that data that contain CRCs do not have trivial CRCs. An event is a protocol buffer
 * message:
 *
 *    Event     1: double wall_time  2: int64 step  3: string file_version
 *              5: Summary summary   7: SessionLog session_log
 *    Summary   1: Value, repeated
 *    Value     1: string tag        2: float simple_value
 *    SessionLog  1: enum status, 1 is START
 *
 * A START event names the step that comes next: TensorBoard then drops what older files
 * of the folder say of that step and later ones, as --log drops the lines that are
 * computed again.
 *
 * Tags are torchtitan's where they mean the same, so that its runs and ours share charts.
 * Values have 32 bits, as in TensorBoard; --log has all digits. */
#include "job/rt_file.h"
#include "job/rt_out.h"
#include "rt_target.h"
#include "state/rt_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MESSAGE_BYTES = 1024, /* twice the size of all tags and values of a step */
    SAME_SECOND = 100
};

struct RtEvents {
    int fd; /* -1: lost */
    char path[PATH_MAX];
    uint32_t crc[256];
    char lost[RT_ERROR_BYTES]; /* the reason; empty: not lost */
};

/* ---- messages -------------------------------------------------------------------- */

typedef struct Message {
    unsigned char bytes[MESSAGE_BYTES];
    size_t n;
} Message;

enum { VARINT, FIXED64, BYTES, FIXED32 = 5 }; /* wire types of fields */

static void put_byte(Message *m, uint64_t byte)
{
    if (m->n < sizeof m->bytes)
        m->bytes[m->n++] = (unsigned char)byte;
}

static void put_varint(Message *m, uint64_t x)
{
    for (; x >= 0x80; x >>= 7)
        put_byte(m, x | 0x80);
    put_byte(m, x);
}

static void put_fixed(Message *m, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        put_byte(m, x >> 8 * i & 0xFF);
}

static void put_key(Message *m, unsigned field, unsigned how)
{
    put_varint(m, field << 3 | how);
}

static void put_bytes(Message *m, unsigned field, const void *data, size_t n)
{
    put_key(m, field, BYTES);
    put_varint(m, n);
    for (size_t i = 0; i < n; i++)
        put_byte(m, ((const unsigned char *)data)[i]);
}

/* The start of an event: its time and step. */
static void put_event(Message *m, int64_t step)
{
    struct timespec now;
    uint64_t bits;
    clock_gettime(CLOCK_REALTIME, &now);
    const double wall = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    memcpy(&bits, &wall, sizeof bits);
    put_key(m, 1, FIXED64);
    put_fixed(m, bits, 8);
    put_key(m, 2, VARINT);
    put_varint(m, (uint64_t)step);
}

static void put_value(Message *summary, const char *tag, double x)
{
    Message value = {.n = 0};
    const float narrow = isnan(x) ? (float)NAN : (float)x;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    put_bytes(&value, 1, tag, strlen(tag));
    put_key(&value, 2, FIXED32);
    put_fixed(&value, bits, 4);
    put_bytes(summary, 1, value.bytes, value.n);
}

/* ---- records --------------------------------------------------------------------- */

static void fill_crc(uint32_t table[256])
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t x = i;
        for (int k = 0; k < 8; k++)
            x = x >> 1 ^ (x & 1 ? 0x82F63B78u : 0);
        table[i] = x;
    }
}

static uint32_t masked_crc(const struct RtEvents *e, const unsigned char *s, size_t n)
{
    uint32_t x = 0xFFFFFFFFu;
    for (size_t i = 0; i < n; i++)
        x = e->crc[(x ^ s[i]) & 0xFF] ^ x >> 8;
    x = ~x;
    return (x >> 15 | x << 17) + 0xA282EAD8u;
}

/* In one call, so that concurrent readers see whole records. False with errno. */
static bool put_record(const struct RtEvents *e, const Message *m)
{
    Message record = {.n = 0};
    put_fixed(&record, m->n, 8);
    put_fixed(&record, masked_crc(e, record.bytes, 8), 4);
    for (size_t i = 0; i < m->n; i++)
        put_byte(&record, m->bytes[i]);
    put_fixed(&record, masked_crc(e, m->bytes, m->n), 4);
    for (size_t at = 0; at < record.n;) {
        const ssize_t n = write(e->fd, record.bytes + at, record.n - at);
        if (n < 0 && errno != EINTR)
            return false;
        at += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* ---- the file -------------------------------------------------------------------- */

void rt_events_check(const Rt *rt)
{
    const char *dir = rt->state->flags.tensorboard;
    char error[RT_ERROR_BYTES];
    if (dir == NULL || rt->rank != 0 || rt->state->flags.command != RT_TRAIN ||
        rt->state->flags.dry_run)
        return;
    if (!rt_file_make_folder(dir, error))
        rt_fail(rt, RT_EXIT_ERROR, "--tensorboard: %s", error);
    if (access(dir, W_OK | X_OK) != 0)
        rt_fail(rt, RT_EXIT_ERROR, "--tensorboard %.500s: %s", dir, strerror(errno));
}

/* TensorBoard reads the files of a folder in the order of their names, which start with a
 * time in seconds: this takes a later one than all existing files, even after a clock
 * went back. */
static long long free_second(const char *dir)
{
    static const char form[] = "events.out.tfevents.%lld";
    long long second = (long long)time(NULL);
    DIR *d = opendir(dir);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        long long other;
        if (sscanf(e->d_name, form, &other) == 1 && other >= second &&
            other < 9999999999) /* ten digits, so that names sort by time */
            second = other + 1;
    }
    if (d != NULL)
        closedir(d);
    return second;
}

/* A unique name, whatever else writes to the folder. It has the model's name where other
 * programs put the machine's, because folders of events get published. */
static bool open_file(const Rt *rt, struct RtEvents *e)
{
    const char *dir = rt->state->flags.tensorboard;
    int fd = -1;
    for (int tries = 0; fd < 0 && tries < SAME_SECOND; tries++) {
        if (snprintf(e->path, sizeof e->path, "%s/events.out.tfevents.%010lld.%s.%ld.%d",
                     dir, free_second(dir), rt->trainer->name, (long)getpid(),
                     tries) >= (int)sizeof e->path) {
            errno = ENAMETOOLONG;
            return false;
        }
        fd = open(e->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            return false;
    }
    e->fd = fd;
    return fd >= 0;
}

/* The format's version, and the step at which the run starts. */
static bool begin_file(const Rt *rt, const struct RtEvents *e)
{
    static const char version[] = "brain.Event:2";
    Message first = {.n = 0}, start = {.n = 0}, session = {.n = 0};
    put_event(&first, 0);
    put_bytes(&first, 3, version, strlen(version));
    put_key(&session, 1, VARINT);
    put_varint(&session, 1);
    put_event(&start, rt->state->first_step + 1);
    put_bytes(&start, 7, session.bytes, session.n);
    return put_record(e, &first) && put_record(e, &start);
}

void rt_events_open(Rt *rt)
{
    RtState *st = rt->state;
    if (rt->rank != 0 || st->flags.tensorboard == NULL || st->step >= st->flags.steps)
        return;
    struct RtEvents *e = calloc(1, sizeof *e);
    if (e == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "out of memory");
    fill_crc(e->crc);
    if (!open_file(rt, e) || !begin_file(rt, e))
        rt_fail(rt, RT_EXIT_ERROR, "--tensorboard %.500s: %s", st->flags.tensorboard,
                strerror(errno));
    st->events = e;
}

/* Losing events costs no step, because they repeat what --log says. The run fails at its
 * end because of it, except with --keep-going. */
static void events_lost(const Rt *rt, struct RtEvents *e)
{
    snprintf(e->lost, sizeof e->lost, "--tensorboard %.500s: %s", e->path,
             strerror(errno));
    rt_say("trainer: warning: %s: training goes on without events", e->lost);
    if (rt->state->flags.keep_going)
        e->lost[0] = '\0';
    close(e->fd);
    e->fd = -1;
}

/* ---- a step ---------------------------------------------------------------------- */

static void put_results(Message *summary, const Rt *rt, double seconds)
{
    const RtTrainer *t = rt->trainer;
    const RtState *st = rt->state;
    const int64_t tokens = rt_step_tokens(t);
    const double rate = (double)tokens / seconds, rank_rate = rate / t->world_size;
    const double mfu = rt_mfu(rt, seconds);
    put_value(summary, "loss_metrics/global_avg_loss", st->loss);
    put_value(summary, "grad_norm", st->grad_norm);
    put_value(summary, "lr", rt_learning_rate(t, st->step));
    put_value(summary, "n_tokens_seen", (double)((st->step + 1) * tokens));
    put_value(summary, "tokens_per_second", rate);
    put_value(summary, "throughput(tps)", rank_rate);
    put_value(summary, "tflops", rank_rate * t->flops_per_token / 1e12);
    if (mfu > 0)
        put_value(summary, "mfu(%)", 100 * mfu);
    put_value(summary, "time_metrics/end_to_end(s)", seconds);
    put_value(summary, "memory/max_active(GiB)",
              (double)rt_memory_high_water_bytes() / 1073741824.0);
    put_value(summary, "skipped_steps", (double)st->skipped);
    if (t->loss_scale.init != 0)
        put_value(summary, "loss_scale", st->loss_scale);
    if (st->evaluated)
        put_value(summary, "validation_metrics/loss", st->eval_loss);
}

void rt_events_step(Rt *rt, double seconds)
{
    struct RtEvents *e = rt->state->events;
    Message event = {.n = 0}, summary = {.n = 0};
    if (e == NULL || e->fd < 0)
        return;
    put_results(&summary, rt, seconds);
    put_event(&event, rt->state->step + 1);
    put_bytes(&event, 5, summary.bytes, summary.n);
    if (!put_record(e, &event))
        events_lost(rt, e);
}

void rt_events_close(Rt *rt)
{
    RtState *st = rt->state;
    struct RtEvents *e = st->events;
    if (e == NULL)
        return;
    if (e->fd >= 0 && close(e->fd) != 0) {
        snprintf(e->lost, sizeof e->lost, "--tensorboard %.500s: %s", e->path,
                 strerror(errno));
    }
    if (st->lost[0] == '\0')
        memcpy(st->lost, e->lost, sizeof st->lost);
    free(e);
    st->events = NULL;
}
