/* SPDX-License-Identifier: Apache-2.0 */
/* child_test: whatever the child process does, the parent ends in time with the right
 * exit code, and takes results only from a child that finished. */
#include "base/child.h"
#include "gen.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* For what never ends; and for what ends by itself, on a machine however busy. */
static const Limits tight = {
    .cpu_seconds = 1,
    .wall_seconds = 3,
    .memory_bytes = INT64_C(1) << 30,
    .output_bytes = 1 << 20,
};
static const Limits wide = {
    .cpu_seconds = 60,
    .wall_seconds = 300,
    .memory_bytes = INT64_C(1) << 30,
    .output_bytes = 1 << 20,
};

static void add_file(Gen *g, const char *path, size_t bytes)
{
    OutFile *f = gen_push(g, &g->base.files);
    char *data = gen_alloc(g, bytes + 1);

    memset(data, 'x', bytes);
    *f = (OutFile){path, data, bytes};
}

static int work_files(Gen *g)
{
    add_file(g, "step.c", 300000);
    add_file(g, "empty", 0);
    add_file(g, "runtime/rt.c", 7);
    return EXIT_DONE;
}

static int work_code(Gen *g)
{
    add_file(g, "step.c", 10);
    return EXIT_FIT;
}

static int work_diagnostics(Gen *g)
{
    diag_add(g, DIAG_ERROR, (Pos){0}, NULL, "wrong");
    diag_stop_on_errors(g);
    return EXIT_DONE;
}

static int work_bug(Gen *g)
{
    (void)g;
    gen_die("planted");
}

static int work_spin(Gen *g)
{
    for (volatile int *p = &g->base.files.cap; *p >= 0;)
        *p = 0;
    return EXIT_DONE;
}

static int work_sleep(Gen *g)
{
    while (g->base.files.count == 0)
        pause();
    return EXIT_DONE;
}

static int work_crash(Gen *g)
{
    (void)g;
    signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would exit with its own code */
    raise(SIGSEGV);
    return EXIT_DONE;
}

static int work_kill(Gen *g)
{
    (void)g;
    kill(getpid(), SIGKILL);
    return EXIT_DONE;
}

static int work_vanish(Gen *g)
{
    add_file(g, "step.c", 10);
    _exit(EXIT_DONE);
}

static int work_flood(Gen *g)
{
    while (g->base.files.count == 0)
        fputs("flood\n", stderr);
    return EXIT_DONE;
}

static int work_large_result(Gen *g)
{
    add_file(g, "step.c", 2 << 20);
    return EXIT_DONE;
}

/* 0 if the child could make a file with content in it. */
static int work_write(Gen *g)
{
    char name[] = "/tmp/fsdpgen-child-XXXXXX";
    int fd;

    (void)g;
    signal(SIGXFSZ, SIG_IGN);
    fd = mkstemp(name);
    if (fd < 0)
        return EXIT_DIAG;
    unlink(name);
    return write(fd, "x", 1) == 1 ? EXIT_DONE : EXIT_DIAG;
}

/* 0 if the child could make an empty file, a folder or a socket, or run a program. */
static int work_escape(Gen *g)
{
    const int fd = open("/tmp/fsdpgen-child-escape", O_CREAT | O_RDONLY, 0600);
    const bool folder = mkdir("/tmp/fsdpgen-child-folder", 0700) == 0;
    const int door = socket(AF_INET, SOCK_STREAM, 0);

    (void)g;
    execl("/bin/true", "true", (char *)NULL);
    return fd >= 0 || folder || door >= 0 ? EXIT_DONE : EXIT_DIAG;
}

/* Is there a filter of system calls? */
static int work_filtered(Gen *g)
{
    (void)g;
    return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2 ? EXIT_DIAG : EXIT_DONE;
}

static int work_open_many(Gen *g)
{
    (void)g;
    for (int i = 0; i < 1000; i++)
        if (open("/dev/null", O_RDONLY) < 0)
            return EXIT_DIAG;
    return EXIT_DONE;
}

static int work_allocate(Gen *g)
{
    (void)g;
    for (int i = 0; i < 64; i++)
        if (!calloc(1, 64 << 20))
            return EXIT_DIAG;
    return EXIT_DONE;
}

/* A parent that waits for ever ends by the alarm. */
static int run(Gen *g, int (*work)(Gen *))
{
    const bool endless = work == work_spin || work == work_sleep || work == work_flood;
    int code;

    alarm(endless ? 120 : 600);
    code = child_run(g, endless ? &tight : &wide, work);
    alarm(0);
    return code;
}

static void ends_with(int (*work)(Gen *), int code)
{
    Gen g = {0};

    assert_int_equal(run(&g, work), code);
    assert_int_equal(g.base.files.count, 0);
}

static void files_come_back(void **unused)
{
    Gen g = {0};

    (void)unused;
    assert_int_equal(run(&g, work_files), EXIT_DONE);
    assert_int_equal(g.base.files.count, 3);
    assert_string_equal(g.base.files.items[0].path, "step.c");
    assert_int_equal(g.base.files.items[0].bytes, 300000);
    assert_int_equal(g.base.files.items[0].data[299999], 'x');
    assert_int_equal(g.base.files.items[1].bytes, 0);
    assert_string_equal(g.base.files.items[2].path, "runtime/rt.c");
}

static void codes_come_back(void **unused)
{
    Gen g = {0};

    (void)unused;
    assert_int_equal(run(&g, work_code), EXIT_FIT);
    assert_int_equal(g.base.files.count,
                     1); /* what does not fit is shown: a plan's pages */
    ends_with(work_diagnostics, EXIT_DIAG);
    ends_with(work_bug, EXIT_BUG);
}

static void endless_work_ends(void **unused)
{
    (void)unused;
    ends_with(work_spin, EXIT_DIAG);
    ends_with(work_sleep, EXIT_DIAG);
    ends_with(work_flood, EXIT_DIAG);
    ends_with(work_large_result, EXIT_DIAG);
}

static void crashes_are_bugs(void **unused)
{
    (void)unused;
    ends_with(work_crash, EXIT_BUG);
    ends_with(work_kill, EXIT_DIAG); /* not a bug of ours */
    ends_with(work_vanish, EXIT_BUG);
}

static void limits_hold(void **unused)
{
    (void)unused;
    ends_with(work_write, EXIT_DIAG);
    ends_with(work_open_many, EXIT_DIAG);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    ends_with(work_allocate, EXIT_DIAG);
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0) { /* the kernel has filters */
        ends_with(work_filtered, EXIT_DIAG);
        ends_with(work_escape, EXIT_DIAG);
    }
#else
    (void)work_allocate, (void)work_filtered, (void)work_escape;
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_come_back),   cmocka_unit_test(codes_come_back),
        cmocka_unit_test(endless_work_ends), cmocka_unit_test(crashes_are_bugs),
        cmocka_unit_test(limits_hold),
    };

    if (!freopen("/dev/null", "w",
                 stderr)) /* what children say is not this test's output */
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
