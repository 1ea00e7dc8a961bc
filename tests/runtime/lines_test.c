/* SPDX-License-Identifier: Apache-2.0 */
/* lines_test.c: pipes whose reader does not read. Lines of --log arrive whole or not at
 * all, however long they are, and what remains of one is sent at the end; a file written
 * in one go ends with an error, not with a wait; descriptors are closed. */
#define _GNU_SOURCE
#include "job/rt_out.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { PIPE_BYTES = 1 << 18, LONG_BYTES = 300000, MOST_SECONDS = 300 };

static char folder[] = "/tmp/fsdpgen-lines.XXXXXX", path[64];
static RtShared shared;
static RtState state = {.shared = &shared};
static Rt rt = {.state = &state, .world_size = 1};
static bool refuses; /* flags of descriptors cannot be set */

int __real_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...);

int __wrap_fcntl(int fd, int what, ...)
{
    va_list ap;
    va_start(ap, what);
    const int value = what == F_GETFL ? 0 : va_arg(ap, int);
    va_end(ap);
    if (refuses && what == F_SETFL) {
        errno = EPERM;
        return -1;
    }
    return __real_fcntl(fd, what, value);
}

static int begin(void **ignored)
{
    (void)ignored;
    alarm(MOST_SECONDS); /* a wait without end is a failure */
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/pipe", folder);
    return mkfifo(path, 0600);
}

static int end(void **ignored)
{
    (void)ignored;
    return unlink(path) == 0 && rmdir(folder) == 0 ? 0 : -1;
}

/* The reader of the pipe, which has room for that many bytes. */
static int reader(int bytes)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(__real_fcntl(fd, F_SETPIPE_SZ, bytes) == bytes);
    return fd;
}

static size_t take(int fd, char *text, size_t most)
{
    size_t n = 0;
    for (ssize_t got; n < most && (got = read(fd, text + n, most - n)) > 0;)
        n += (size_t)got;
    return n;
}

static void long_lines_are_whole(void **ignored)
{
    static char line[LONG_BYTES + 1], heard[2 * LONG_BYTES];
    const int fd = reader(PIPE_BYTES);
    RtLines *lines;
    FILE *f = rt_lines_open(&rt, path, &lines);
    (void)ignored;
    assert_non_null(f);
    for (int i = 0; i < LONG_BYTES - 1; i++)
        line[i] = (char)('a' + i % 26);
    line[LONG_BYTES - 1] = '\n';
    for (int i = 0; i < LONG_BYTES; i++)
        fputc(line[i], f);
    assert_int_equal(fflush(f), 0);
    fputs("left out\n", f); /* as long as the first is not complete */
    assert_int_equal(fflush(f), 0);
    size_t n = take(fd, heard, sizeof heard);
    assert_int_equal(n, PIPE_BYTES);
    assert_int_equal(fclose(f), 0);
    n += take(fd, heard + n, sizeof heard - n);
    assert_int_equal(n, LONG_BYTES);
    assert_memory_equal(heard, line, LONG_BYTES);
    assert_int_equal(rt_lines_end(lines), 1);
    close(fd);
}

static void files_in_one_go_do_not_wait_for_ever(void **ignored)
{
    enum { ROOM = 4096 };
    static RtOutput out;
    const int fd = reader(ROOM);
    (void)ignored;
    assert_true(rt_output_begin(&out, path, NULL));
    for (int i = 0; i < 10 * ROOM; i++)
        fputc('x', out.f);
    assert_false(rt_output_end(&rt, &out));
    assert_string_equal(rt_output_reason(), "its reader has stopped reading");
    close(fd);
}

static int open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;
    assert_non_null(d);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

static void descriptors_are_closed(void **ignored)
{
    static RtOutput out;
    RtLines *lines;
    const int fd = reader(PIPE_BYTES);
    const int before = open_files();
    (void)ignored;
    refuses = true;
    assert_int_equal(rt_output_open(path), -1);
    assert_int_equal(errno, EPERM);
    assert_null(rt_lines_open(&rt, path, &lines));
    assert_false(rt_output_begin(&out, path, NULL));
    refuses = false;
    assert_int_equal(open_files(), before);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_lines_are_whole),
        cmocka_unit_test(files_in_one_go_do_not_wait_for_ever),
        cmocka_unit_test(descriptors_are_closed),
    };
    return cmocka_run_group_tests_name("lines", tests, begin, end);
}
