/* SPDX-License-Identifier: Apache-2.0 */
/* test_op.c: `fsdpgen test-op DIR`. In: a folder of op folders. Out: a line for each op,
 * messages with places, an exit code. Kernels run in a child process, so that a crash
 * becomes a message, too. They are the user's own code and run with the user's rights,
 * without a jail, as they do in a trainer. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* nftw, strsignal */
#endif
#include "op_test/test_op.h"

#include "op_test/op_test.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* In the environment of the process that has AddressSanitizer preloaded. */
static const char marker[] = "FSDPGEN_TEST_OP_ASAN";

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s, (void)kind, (void)at;
    return remove(path);
}

/* ---- the folder ------------------------------------------------------------------ */

static const char keep_mark[] = ".fsdpgen-test-op";
static const char keep_text[] = "fsdpgen test-op --keep made this folder\n";

static int refuse_link(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)at;
    if (kind == FTW_D || (S_ISREG(s->st_mode) && s->st_nlink == 1))
        return 0;
    print_line(stderr, "fsdpgen: error: ",
               "--keep: %s: is a link, or not a regular file: move it away", path);
    return 1;
}

static bool refuse_keep(const char *dir, const char *problem, const char *help)
{
    print_line(stderr, "fsdpgen: error: ", "--keep: %s: %s", dir, problem);
    if (help)
        print_line(stderr, "  help: ", "%s", help);
    return false;
}

/* Files are written over those of an earlier run only, and never through links. */
static bool open_kept(Gen *g, const char *dir)
{
    const char *mark = gen_printf(g, "%s/%s", dir, keep_mark), *text = "";
    const bool made = mkdir(dir, 0777) == 0 || errno == EEXIST;
    const int fd = made ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    char *real = fd < 0 ? NULL : realpath(dir, NULL);
    size_t bytes;
    bool marked, good;
    int to;

    if (!real)
        return refuse_keep(dir, strerror(errno), NULL);
    marked = read_whole_file(mark, &text, &bytes) == 0 && !strcmp(text, keep_text);
    good = marked || !folder_has_files(fd);
    close(fd);
    if (!good)
        return refuse_keep(dir,
                           "the folder has files, and none says that test-op made it",
                           "name an empty folder or a new one");
    if (marked)
        return nftw(real, refuse_link, 16, FTW_PHYS) == 0;
    to = open(mark, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    good = to >= 0 && file_write_all(to, keep_text, sizeof keep_text - 1);
    good = (to < 0 || close(to) == 0) && good;
    return good || refuse_keep(mark, strerror(errno), NULL);
}

/* The folder for C and machine code: --keep's, or one that is removed at the end. */
static const char *open_work(Gen *g)
{
    const char *temporary = getenv("TMPDIR");
    char *path;

    if (g->opt.keep)
        return open_kept(g, g->opt.keep) ? g->opt.keep : NULL;
    path = gen_printf(g, "%s/fsdpgen-test-op-XXXXXX",
                      temporary && *temporary ? temporary : "/tmp");
    if (mkdtemp(path))
        return path;
    print_line(stderr, "fsdpgen: error: ", "%s: %s; TMPDIR names another folder", path,
               strerror(errno));
    return NULL;
}

/* ---- the test -------------------------------------------------------------------- */

/* Starts this program again with AddressSanitizer's library, which must be the first of a
 * process. Returns EXIT_DONE if it is not asked for, or is preloaded already. */
static int preload_asan(Gen *g, const char *work, char **argv)
{
    const char *library = getenv(marker) ? NULL : test_op_asan(g, work);

    if (!library) {
        unsetenv("LD_PRELOAD"); /* for compilers */
        return EXIT_DONE;
    }
    if (*library && setenv("LD_PRELOAD", library, 1) == 0 &&
        setenv(marker, work, 1) == 0 && setenv("ASAN_OPTIONS", "detect_leaks=0", 0) == 0)
        execv("/proc/self/exe", argv);
    print_line(stderr, "fsdpgen: error: ",
               "test-op: the compiler has no libasan.so for --sanitize");
    print_line(stderr,
               "  help: ", "install gcc's sanitizers, or take --sanitize undefined");
    return EXIT_TOOL;
}

static _Noreturn void run_test(Gen *g, OpTestOptions *o)
{
    int code, failures;

    setvbuf(stdout, NULL, _IOLBF, 0);
    code = test_op_tools(g, o);
    if (code == EXIT_DONE) {
        failures = op_test(g, o);
        code = failures ? EXIT_DIAG : EXIT_DONE;
    }
    o->flight[0] = '\0'; /* it ended by itself */
    fflush(NULL);
    _exit(code);
}

/* Signals that others send; no kernel raises them. */
static bool from_outside(int signal)
{
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP ||
           signal == SIGPIPE || signal == SIGKILL;
}

static int judge(int status, const char *flight, bool sanitized)
{
    if (WIFSIGNALED(status) && from_outside(WTERMSIG(status)))
        return 128 + WTERMSIG(status);
    if (!*flight)
        return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_DIAG;
    if (WIFSIGNALED(status))
        print_line(stderr, "", "%s: the kernel crashed: %s", flight,
                   strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == EXIT_BUG)
        return EXIT_BUG;
    else
        print_line(stderr, "", "%s: the kernel ended the test", flight);
    print_line(stderr, "  help: ", "%s--keep DIR keeps the emitted C",
               sanitized ? "" : "--sanitize address finds where; ");
    return EXIT_DIAG;
}

static pid_t child;

static void pass_on(int signal)
{
    kill(child, signal);
}

/* Waits for the test. A signal ends only the child, so that the folder is removed. */
static int watch(Gen *g, OpTestOptions *o)
{
    int status = 0;

    o->flight = mmap(NULL, OP_TEST_FLIGHT_BYTES, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    gen_require(o->flight != MAP_FAILED, "mmap: %s", strerror(errno));
    fflush(NULL);
    child = fork();
    gen_require(child >= 0, "fork: %s", strerror(errno));
    if (child == 0)
        run_test(g, o);
    signal(SIGINT, SIG_IGN); /* a terminal sends it to the child, too */
    signal(SIGTERM, pass_on);
    signal(SIGHUP, pass_on);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    signal(SIGINT, SIG_DFL);
    return judge(status, o->flight, g->opt.sanitize != NULL);
}

/* False, with a message, for anything else that a person may name. */
static bool is_folder_of_ops(Gen *g, const char *dir)
{
    struct stat s;

    if (stat(dir, &s) != 0 || !S_ISDIR(s.st_mode)) {
        print_line(stderr, "fsdpgen: error: ", "%s: %s", dir,
                   strerror(errno ? errno : ENOTDIR));
        print_line(stderr, "  help: ", "test-op takes a folder of op folders");
        return false;
    }
    if (stat(gen_printf(g, "%s/op.lua", dir), &s) != 0)
        return true;
    print_line(stderr, "fsdpgen: error: ", "%s is one op's folder", dir);
    print_line(stderr,
               "  help: ", "name the folder that holds it; --only NAME tests it alone");
    return false;
}

int test_op_run(Gen *g, char **argv)
{
    const Options *opt = &g->opt;
    const char *again = getenv(marker);
    const char *work = NULL;
    OpTestOptions o = {.ops = opt->input,
                       .only = opt->only,
                       .target = opt->target ? opt->target : "cpu",
                       .cases = opt->cases ? opt->cases : 3,
                       .seed = opt->seed ? opt->seed : 1,
                       .jobs = opt->jobs ? (int)opt->jobs : 2,
                       .person = true};
    int code;

    errno = 0;
    if (is_folder_of_ops(g, o.ops))
        work = again ? again : open_work(g);
    if (!work)
        return EXIT_DIAG;
    o.root = o.work = work;
    code = preload_asan(g, work, argv);
    if (code == EXIT_DONE)
        code = test_op_sources(g, work) ? watch(g, &o) : EXIT_DIAG;
    if (!opt->keep)
        nftw(work, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return code;
}
