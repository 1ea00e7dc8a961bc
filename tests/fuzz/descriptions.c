/* SPDX-License-Identifier: Apache-2.0 */
/* descriptions SEED FIRST COUNT FOLDER: fsdpgen against hostile texts. Cases FIRST .. of
 * a seed each run the whole program, main() included, in a process of its own, in FOLDER:
 * changed descriptions, architectures and op rules, legal fields in strange company, deep
 * and endless texts, hostile --set. Whatever the text:
 *   - it ends by itself with code 0, 1, 2 or 3, never with a bug or a signal;
 *   - code 1 names file:line:col, or says that a limit stopped it;
 *   - what it prints has no byte that a terminal obeys;
 *   - a folder is there after code 0 and not even partly after another; nothing else is
 * written;
 *   - run again (one case in 32), it does and prints the same.
 * Prints each broken promise with the command that shows it again.
 * descriptions --legal SEED I prints one description of legal fields. */
#define main fsdpgen_main
#include "../../gen/main.c"
#undef main

#include "mutate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* Longer than fsdpgen's own limit of 300 s; but less than its 120 s of a processor, so no
 * text may need to be stopped by that. Large plans, sanitized, take a good part of them.
 */
enum { MAX_ARGS = 16, MAX_OUTPUT = 1 << 20, WALL_SECONDS = 320, MOST_CPU_SECONDS = 110 };

typedef struct Source {
    char *path; /* from the root of the tree */
    Str text;
} Source;

typedef struct Sources {
    Source *items;
    int count, cap;
} Sources;

static Sources models, archs, rules, kernels;
static int wrong, codes[256], stopped, slow;

static _Noreturn void stop(const char *what)
{
    fprintf(stderr, "descriptions: %s: %s\n", what, strerror(errno));
    exit(1);
}

static Str read_text(const char *path)
{
    char buffer[1 << 16];
    Str s = {0};
    size_t n;
    FILE *f = fopen(path, "rb");

    if (!f)
        stop(path);
    str_add(&s, "", 0);
    while ((n = fread(buffer, 1, sizeof buffer, f)) > 0)
        str_add(&s, buffer, n);
    fclose(f);
    return s;
}

static void write_text(const char *path, const Str *s)
{
    FILE *f = fopen(path, "wb");

    if (!f || (s->n && fwrite(s->s, 1, s->n, f) != s->n) || fclose(f) != 0)
        stop(path);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const Source *)a)->path, ((const Source *)b)->path);
}

/* Every file folder/NAME (or folder/DIR/NAME) that ends so, in the order of names. */
static void gather(Sources *list, const char *folder, const char *end)
{
    struct dirent **names;
    char path[2048], full[4096];
    int n;

    snprintf(full, sizeof full, SOURCE_DIR "/%s", folder);
    n = scandir(full, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        struct stat st;
        size_t len = strlen(names[i]->d_name), end_n = strlen(end);

        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        snprintf(full, sizeof full, SOURCE_DIR "/%s", path);
        if (names[i]->d_name[0] == '.' || stat(full, &st) != 0) {
        } else if (S_ISDIR(st.st_mode) && !strcmp(folder, "templates/ops")) {
            gather(list, path, end);
        } else if (len >= end_n && !strcmp(names[i]->d_name + len - end_n, end) &&
                   strcmp(names[i]->d_name, "fsdpgen.lua") != 0) {
            if (list->count == list->cap) {
                list->cap = list->cap * 2 + 16;
                list->items =
                    realloc(list->items, (size_t)list->cap * sizeof *list->items);
                if (!list->items)
                    abort();
            }
            list->items[list->count++] = (Source){strdup(path), read_text(full)};
        }
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    qsort(list->items, (size_t)list->count, sizeof *list->items, by_path);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void remove_all(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- one case -------------------------------------------------------------------- */

typedef struct Case {
    char *argv[MAX_ARGS + 1];
    int argc;
    const char *kind;
    bool has_ops;
} Case;

static void argument(Case *c, const char *text)
{
    if (c->argc == MAX_ARGS)
        abort();
    c->argv[c->argc++] = strdup(text);
}

static Str copy_of(const Source *s)
{
    Str copy = {0};

    str_add(&copy, s->text.s, s->text.n);
    return copy;
}

static void mutate_some(Random *r, Str *s)
{
    for (uint32_t k = 1 + random_below(r, 1 + random_below(r, 6)); k; k--)
        mutate_text(r, s);
}

/* A good description, and one file that it needs, changed: arch/llama.lua,
 * ops/NAME/op.lua. */
static Str with_changed(Random *r, const Sources *list, const char *skip)
{
    const Source *from = &list->items[random_below(r, (uint32_t)list->count)];
    Str text = copy_of(from), good = {0};
    char path[4096], *slash;

    mutate_some(r, &text);
    snprintf(path, sizeof path, "%s", from->path + strlen(skip));
    for (slash = path; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    write_text(path, &text);
    free(text.s);
    if (list == &rules || list == &kernels) { /* the other file of the op as it is */
        const Sources *others = list == &rules ? &kernels : &rules;
        size_t folder = (size_t)(strrchr(from->path, '/') - from->path) + 1;

        for (int i = 0; i < others->count; i++)
            if (!strncmp(others->items[i].path, from->path, folder))
                write_text(others->items[i].path + strlen(skip), &others->items[i].text);
    }
    if (random_below(r, 2)) {
        for (int i = 0; i < models.count; i++)
            if (strstr(models.items[i].path,
                       random_below(r, 2) ? "tests/models/tiny" : "demo"))
                good = (free(good.s), copy_of(&models.items[i]));
    }
    if (!good.s)
        legal_description(r, &good);
    return good;
}

static Str make_text(Random *r, Case *c)
{
    Str s = {0};
    uint32_t kind = random_below(r, 1000);

    str_add(&s, "", 0);
    if (kind < 350) {
        c->kind = "changed description";
        free(s.s);
        s = copy_of(&models.items[random_below(r, (uint32_t)models.count)]);
        mutate_some(r, &s);
    } else if (kind < 550) {
        c->kind = "legal fields";
        legal_description(r, &s);
    } else if (kind < 750) {
        c->kind = "legal fields, changed";
        legal_description(r, &s);
        mutate_some(r, &s);
    } else if (kind < 860) {
        c->kind = "changed architecture";
        free(s.s);
        s = with_changed(r, &archs, "models/");
    } else if (kind < 950) {
        c->kind = "changed op";
        c->has_ops = true;
        free(s.s);
        s = with_changed(r, random_below(r, 3) ? &rules : &kernels, "templates/");
    } else {
        c->kind = kind < 998 ? "deep" : "endless";
        deep_description(r, &s, kind >= 998);
    }
    return s;
}

static void make_arguments(Random *r, Case *c)
{
    argument(c, "fsdpgen");
    if (c->has_ops) {
        argument(c, "--ops");
        argument(c, "ops");
    }
    for (uint32_t n = random_below(r, 8) ? 0 : 1 + random_below(r, 3); n; n--) {
        Str set = {0};

        set_argument(r, &set);
        argument(c, "--set");
        argument(c, set.s);
        free(set.s);
    }
    switch (random_below(r, 8)) {
    case 0:
        argument(c, "check");
        break;
    case 1:
        argument(c, "plan");
        break;
    case 2:
        argument(c, "plan");
        argument(c, "--json");
        break;
    case 3:
        argument(c, "--dump");
        argument(c, drive_pass_name((int)random_below(r, N_PASSES)));
        break;
    case 4:
        argument(c, "--link-runtime");
        argument(c, "../runtime"); /* fall through */
    default:
        argument(c, "-o");
        argument(c, "out");
    }
    argument(c, "model.lua");
}

typedef struct Outcome {
    int status;
    double seconds; /* of processor time */
    Str out, err;
} Outcome;

static Str take(int fd)
{
    Str s = {0};
    off_t n = lseek(fd, 0, SEEK_END);
    size_t want = n > MAX_OUTPUT ? MAX_OUTPUT : (size_t)n;
    char *p = malloc(want + 1);

    if (!p || pread(fd, p, want, 0) != (ssize_t)want || ftruncate(fd, 0) != 0)
        stop("what it printed");
    lseek(fd, 0, SEEK_SET);
    str_add(&s, p, want);
    free(p);
    return s;
}

static Outcome run(const Case *c)
{
    static int fd[2] = {-1, -1};
    struct rusage used;
    Outcome o = {0};
    pid_t pid;

    for (int i = 0; i < 2; i++)
        if (fd[i] < 0 && (fd[i] = memfd_create("printed", MFD_CLOEXEC)) < 0)
            stop("memfd_create");
    fflush(NULL);
    pid = fork();
    if (pid < 0)
        stop("fork");
    if (pid == 0) {
        if (dup2(fd[0], 1) < 0 || dup2(fd[1], 2) < 0)
            _exit(99);
        alarm(WALL_SECONDS);
        exit(fsdpgen_main(c->argc, (char **)c->argv));
    }
    while (wait4(pid, &o.status, 0, &used) < 0)
        if (errno != EINTR)
            stop("wait4");
    o.seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    o.out = take(fd[0]);
    o.err = take(fd[1]);
    return o;
}

/* ---- the promises ---------------------------------------------------------------- */

/* A line FILE:LINE:COL: error: ... */
static bool names_a_place(const char *text)
{
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        const char *mark, *p;

        line += *line == '\n';
        mark = strstr(line, ": error: ");
        if (!mark || (strchr(line, '\n') && strchr(line, '\n') < mark))
            continue;
        p = mark;
        for (int k = 0; k < 2; k++) {
            const char *end = p;

            while (p > line && p[-1] >= '0' && p[-1] <= '9')
                p--;
            if (p == end || p == line || p[-1] != ':')
                break;
            p--;
            if (k == 1 && p > line)
                return true;
        }
    }
    return false;
}

static bool is_plain(const Str *s)
{
    for (size_t i = 0; i < s->n; i++) {
        unsigned char c = (unsigned char)s->s[i];

        if ((c < 32 && c != '\n') || c == 127)
            return false;
    }
    return true;
}

static const char *judge_output(int code)
{
    struct dirent **names;
    struct stat st;
    bool there = lstat("out", &st) == 0, whole = lstat("out/manifest.json", &st) == 0;
    int n = scandir(".", &names, NULL, alphasort);
    const char *problem = NULL;

    if (code != EXIT_DONE && there)
        problem = "it left a folder although it failed";
    else if (there && !whole)
        problem = "the folder has no manifest";
    for (int i = 0; i < n; i++) {
        const char *s = names[i]->d_name;

        if (strcmp(s, ".") && strcmp(s, "..") && strcmp(s, "out") &&
            strcmp(s, "model.lua") && strcmp(s, "arch") && strcmp(s, "ops"))
            problem = "it wrote something beside its folder";
        free(names[i]);
    }
    if (n >= 0)
        free(names);
    return problem;
}

static const char *judge_case(const Case *c, const Outcome *o)
{
    int code = WIFEXITED(o->status) ? WEXITSTATUS(o->status) : -1;
    bool writes = !strcmp(c->argv[c->argc - 2], "out");

    if (WIFSIGNALED(o->status))
        return WTERMSIG(o->status) == SIGALRM ? "it ran on" : "it died of a signal";
    codes[code]++;
    if (code > EXIT_FIT)
        return "its exit code";
    if (o->seconds > MOST_CPU_SECONDS)
        return "it took too long";
    if (code != EXIT_DONE && !o->err.n)
        return "it failed without a word";
    if (strstr(o->err.s, "fsdpgen: error: the generator was stopped"))
        stopped++;
    else if (code == EXIT_DIAG && !names_a_place(o->err.s) &&
             !strstr(o->err.s, "the file does not return op")) /* no line is to blame */
        return "no message names file:line:col";
    if (!is_plain(&o->err) || !is_plain(&o->out))
        return "it printed control bytes";
    if (code == EXIT_DONE && writes && access("out/manifest.json", R_OK) != 0)
        return "code 0, but no folder";
    return judge_output(code);
}

static bool same(const Outcome *a, const Outcome *b)
{
    return a->status == b->status && a->out.n == b->out.n && a->err.n == b->err.n &&
           !memcmp(a->out.s, b->out.s, a->out.n) && !memcmp(a->err.s, b->err.s, a->err.n);
}

static void run_case(const char *self, uint64_t seed, uint64_t i, const char *folder)
{
    Random r;
    Case c = {.kind = ""};
    Outcome o;
    const char *problem;
    Str text;

    random_start(&r, seed, i);
    text = make_text(&r, &c);
    make_arguments(&r, &c);
    write_text("model.lua", &text);
    o = run(&c);
    problem = judge_case(&c, &o);
    slow += o.seconds > 5;
    if (!problem && i % 32 == 0) {
        Outcome again;

        remove_all("out");
        again = run(&c);
        if (!same(&o, &again))
            problem = "the second time it did something else";
        free(again.out.s);
        free(again.err.s);
    }
    if (problem) {
        wrong++;
        printf("FAIL case %llu (%s): %s (status 0x%x, %.1f s of CPU)\n     | %s %llu "
               "%llu 1 %s\n    ",
               (unsigned long long)i, c.kind, problem, (unsigned)o.status, o.seconds,
               self, (unsigned long long)seed, (unsigned long long)i, folder);
        for (int k = 0; k < c.argc; k++)
            printf(" %s%s", k ? "" : "| ", c.argv[k]);
        printf("\n%.*s\n", (int)(o.err.n > 1500 ? 1500 : o.err.n), o.err.s);
        fflush(stdout);
    }
    remove_all("out");
    if (!getenv("FUZZ_KEEP")) {
        remove_all("arch");
        remove_all("ops");
    }
    for (int k = 0; k < c.argc; k++)
        free(c.argv[k]);
    free(text.s);
    free(o.out.s);
    free(o.err.s);
}

int main(int argc, char **argv)
{
    uint64_t seed, first;
    int count;

    if (argc == 4 && !strcmp(argv[1], "--legal")) { /* what train.sh trains */
        Random r;
        Str s = {0};

        random_start(&r, strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
        legal_description(&r, &s);
        printf("%s", s.s);
        return 0;
    }
    if (argc != 5) {
        fprintf(stderr, "usage: descriptions SEED FIRST COUNT FOLDER\n"
                        "       descriptions --legal SEED I\n");
        return 2;
    }
    seed = strtoull(argv[1], NULL, 10);
    first = strtoull(argv[2], NULL, 10);
    count = atoi(argv[3]);
    gather(&models, "models", ".lua");
    gather(&models, "tests/models", ".lua");
    gather(&models, "tests/plan", ".lua");
    gather(&models, "tests/load", "base.lua");
    gather(&archs, "models/arch", ".lua");
    gather(&rules, "templates/ops", "op.lua");
    gather(&kernels, "templates/ops", "cpu.c");
    if (!models.count || !archs.count || !rules.count || !kernels.count ||
        chdir(argv[4]) != 0)
        stop(argv[4]);
    for (int i = 0; i < count; i++)
        run_case(argv[0], seed, first + (uint64_t)i, argv[4]);
    printf("codes: %d of 0, %d of 1, %d of 2, %d of 3; %d stopped by a limit, %d took "
           "over 5 s of CPU\n",
           codes[0], codes[1], codes[2], codes[3], stopped, slow);
    printf("%d passed, %d failed\n", count - wrong, wrong);
    return wrong != 0;
}
