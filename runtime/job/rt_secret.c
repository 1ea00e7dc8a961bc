/* SPDX-License-Identifier: MIT-0 */
/* rt_secret.c: the job's secret. In: --secret FILE, or FSDPGEN_SECRET. Out: the key by
 * which its processes authenticate each other, or the reason why there is none. All users
 * of a machine can see command lines, so a secret is never a flag's value; a file that
 * other users can read or write is refused. No message contains the secret. */
#define _GNU_SOURCE
#include "job/rt_door.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An eavesdropper who records a greeting can try out secrets, and would find short
 * ones. */
enum { LEAST_BYTES = 16, MOST_BYTES = 4096 };
#define MAKE_ONE "head -c 32 /dev/urandom | base64"

/* As in a file that a crash left full of zeros. */
static bool is_one_byte(const char *text, size_t bytes)
{
    return memcmp(text, text + 1, bytes - 1) == 0;
}

/* The same text is the same secret, with or without a newline at the end. */
static bool take(RtSecret *s, const char *from, const char *text, size_t bytes,
                 char *error)
{
    while (bytes > 0 && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r'))
        bytes--;
    if (bytes < LEAST_BYTES || bytes > MOST_BYTES) {
        snprintf(
            error, RT_ERROR_BYTES,
            "%.400s has %zu bytes, and a secret has %d to %d; to make one: " MAKE_ONE,
            from, bytes, LEAST_BYTES, MOST_BYTES);
        return false;
    }
    if (is_one_byte(text, bytes)) {
        snprintf(error, RT_ERROR_BYTES,
                 "%.400s is one byte, %zu times, which is not a secret; to make "
                 "one: " MAKE_ONE,
                 from, bytes);
        return false;
    }
    RtSha256 h;
    rt_sha256_begin(&h);
    rt_sha256_more(&h, text, bytes);
    rt_sha256_end(&h, s->key);
    explicit_bzero(&h, sizeof h);
    s->given = true;
    return true;
}

__attribute__((format(printf, 3, 4))) static bool refuse(char *error, const char *path,
                                                         const char *fmt, ...)
{
    va_list ap;
    const int n = snprintf(error, RT_ERROR_BYTES, "--secret %.400s: ", path);
    va_start(ap, fmt);
    vsnprintf(error + n, RT_ERROR_BYTES - (size_t)n, fmt, ap);
    va_end(ap);
    return false;
}

/* Other users must not be able to read or write it. */
static bool is_private(int fd, const char *path, char *error)
{
    struct stat s;
    if (fstat(fd, &s) != 0)
        return refuse(error, path, "%s", strerror(errno));
    if (!S_ISREG(s.st_mode))
        return refuse(error, path, "this is not a regular file");
    if (s.st_uid != geteuid()) {
        return refuse(error, path, "it belongs to user %u, and this is user %u",
                      (unsigned)s.st_uid, (unsigned)geteuid());
    }
    if ((s.st_mode & 077) != 0) {
        return refuse(error, path,
                      "others may use it (its mode is %03o): chmod 600 it, and if they "
                      "may have read it, make another secret",
                      (unsigned)s.st_mode & 0777);
    }
    return true;
}

static bool read_file(RtSecret *s, const char *path, char *error)
{
    char text[MOST_BYTES + 3], from[512];
    size_t have = 0;
    ssize_t n = 0;
    /* Does not wait for a pipe's writer. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return refuse(error, path, "%s", strerror(errno));
    bool good = is_private(fd, path, error);
    while (good && have < sizeof text) {
        n = read(fd, text + have, sizeof text - have);
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
        have += n > 0 ? (size_t)n : 0;
    }
    good = good && (n >= 0 || refuse(error, path, "%s", strerror(errno)));
    close(fd);
    snprintf(from, sizeof from, "--secret %.400s", path);
    good = good && take(s, from, text, have, error);
    explicit_bzero(text, sizeof text);
    return good;
}

bool rt_secret_find(const RtFlags *f, RtSecret *s, char *error)
{
    const char *text = getenv(RT_SECRET_VARIABLE);
    *s = (RtSecret){.given = false};
    return f->secret != NULL ? read_file(s, f->secret, error)
           : text != NULL    ? take(s, RT_SECRET_VARIABLE, text, strlen(text), error)
                             : true;
}

void rt_secret_advise(const RtJoin *j, char *error)
{
    static const char make[] = "export " RT_SECRET_VARIABLE "=$(" MAKE_ONE ")";
    char how[320];
    if (strcmp(j->launcher, "torchrun") == 0) { /* runs once per machine */
        snprintf(how, sizeof how,
                 "(umask 077; " MAKE_ONE " >~/job.secret), once; copy that file to every "
                 "machine; on each, torchrun ... trainer ... --secret ~/job.secret");
    } else if (strcmp(j->launcher, "mpirun") == 0) { /* passes on variables named by -x */
        snprintf(how, sizeof how, "%s; mpirun -x " RT_SECRET_VARIABLE " ... trainer ...",
                 make);
    } else {
        snprintf(how, sizeof how, "%s; %s ... trainer ...", make, j->launcher);
    }
    snprintf(
        error, RT_ERROR_BYTES,
        "the ranks are on several machines, which know each other by a secret of the "
        "job; this job has none. Write: %s",
        how);
}
