/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: the command line. In: argv. Out: an exit code; an emitted folder. The passes
 * (drive/drive.c) run in a child process (child.c); this one only parses options before
 * and writes files after. */
#include "base/child.h"
#include "import/import.h"
#include "describe/load.h"
#include "drive/drive.h"
#include "report/diff.h"
#include "tokenize/tokenize.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what runs in the child ------------------------------------------------------ */

static void print_docs(Gen *g, Text *t)
{
    Loader *ld = loader_open(g);

    diag_stop_on_errors(g);
    if (g->opt.input && !strcmp(g->opt.input, "accelerate"))
        import_accelerate_docs(g, t);
    else if (g->opt.input && !strcmp(g->opt.input, "lua"))
        docs_lua(g, t, ld->trainer, &ld->kinds);
    else
        docs_markdown(g, t, ld->trainer, &ld->kinds);
}

static int run_docs(Gen *g)
{
    drive_print(g, print_docs);
    return EXIT_DONE;
}

static int run_import(Gen *g)
{
    Text t = {.g = g};
    int code;

    (g->opt.accelerate ? import_accelerate : import_hugging_face)(g, &t);
    code = diag_finish(g);
    if (code == EXIT_DONE)
        fwrite(t.s, 1, t.len, stdout);
    return code;
}

/* A side that is a description is made in memory. */
static int run_diff(Gen *g)
{
    return diff_run(g, drive);
}

/* ---- commands and options -------------------------------------------------------- */

static const struct {
    const char *name, *what;
    bool hidden;
} commands[] = {
    {"generate", "MODEL.lua -o DIR   write the trainer's folder (the default)", false},
    {"plan", "MODEL.lua          memory, flops, units and time, without writing", false},
    {"check", "MODEL.lua          errors only", false},
    {"import", "HF_DIR             a Hugging Face model's config.json as a description",
     false},
    {"import",
     "--accelerate FILE  the sharding of an `accelerate config`, as Lua to paste", false},
    {"diff",
     "A B                what changed between two trainers: folders, descriptions",
     false},
    {"tokenize", "INPUT... -o X.bin  texts to tokens, and back; fsdpgen tokenize --help",
     false},
    {"docs", "[lua]              the reference of the description's fields", true},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

typedef struct Parse {
    Gen *g;
    const char *color, *share;
    bool help, version;
} Parse;

typedef void OptionFn(Parse *p, const char *value);

/* clang-format off */
static void opt_output(Parse *p, const char *v) { p->g->opt.output = v; }
static void opt_set(Parse *p, const char *v) { *gen_push(p->g, &p->g->opt.sets) = v; }
static void opt_target(Parse *p, const char *v) { p->g->opt.target = v; }
static void opt_path(Parse *p, const char *v) { *gen_push(p->g, &p->g->opt.paths) = v; }
static void opt_ops(Parse *p, const char *v) { p->g->opt.ops_dir = v; }
static void opt_dump(Parse *p, const char *v) { p->g->opt.dump = v; }
static void opt_check(Parse *p, const char *v) { (void)v; p->g->opt.check_drift = true; }
static void opt_force(Parse *p, const char *v) { (void)v; p->g->opt.force = true; }
static void opt_link(Parse *p, const char *v) { p->g->opt.link_runtime = v; }
static void opt_json(Parse *p, const char *v) { (void)v; p->g->opt.json = true; }
static void opt_accelerate(Parse *p, const char *v) { p->g->opt.accelerate = v; }
static void opt_color(Parse *p, const char *v) { p->color = v; }
static void opt_share(Parse *p, const char *v) { p->share = v; }
static void opt_help(Parse *p, const char *v) { (void)v; p->help = true; }
static void opt_version(Parse *p, const char *v) { (void)v; p->version = true; }
/* clang-format on */

static const struct Option {
    char letter;
    const char *name, *value; /* value: what it takes, NULL for nothing */
    OptionFn *fn;
    const char *what; /* NULL: hidden */
} options[] = {
    {'o', "output", "DIR", opt_output, "the folder to write"},
    {0, "set", "FIELD=VALUE", opt_set, "override a field: --set optimizer.lr=1e-4"},
    {0, "target", "NAME", opt_target, "replace the whole target: cpu, cuda"},
    {0, "path", "DIR", opt_path, "look for required modules there too"},
    {0, "ops", "DIR", opt_ops, "add op folders, or replace built-in ones"},
    {0, "link-runtime", "DIR", opt_link, "leave the runtime out; make finds it in DIR"},
    {0, "check", NULL, opt_check, "compare the folder, write nothing; exit 1 on drift"},
    {0, "force", NULL, opt_force, "overwrite files that were edited by hand"},
    {0, "dump", "PASS", opt_dump, "print the state after a pass and stop"},
    {0, "accelerate", "FILE", opt_accelerate, "import: what `accelerate config` wrote"},
    {0, "json", NULL, opt_json, "print the plan, or the differences, as JSON"},
    {0, "color", "WHEN", opt_color, "auto, always or never"},
    {0, "share", "DIR", opt_share, NULL},
    {'h', "help", NULL, opt_help, "this text"},
    {0, "version", NULL, opt_version, "the version"},
};
enum { N_OPTIONS = sizeof options / sizeof *options };

static void print_help(void)
{
    printf("fsdpgen " FSDPGEN_VERSION ": writes the source of one sharded trainer from a "
           "description of one model.\n\n");
    for (int i = 0; i < N_COMMANDS; i++)
        if (!commands[i].hidden)
            printf("%s fsdpgen %-8s %s\n", i ? "      " : "usage:", commands[i].name,
                   commands[i].what);
    printf("\n");
    for (int i = 0; i < N_OPTIONS; i++) {
        const struct Option *o = &options[i];
        char left[64];

        if (!o->what)
            continue;
        snprintf(left, sizeof left, "%s--%s%s%s",
                 o->letter == 'o' ? "-o, "
                 : o->letter      ? "-h, "
                                  : "    ",
                 o->name, o->value ? " " : "", o->value ? o->value : "");
        printf("  %-26s %s\n", left, o->what);
    }
    printf("\nPasses for --dump:");
    for (int i = 0; i < N_PASSES; i++)
        printf(" %s", drive_pass_name(i));
    printf("\nExit codes: 0 done, 1 errors in the description or drift, 2 usage, 3 the "
           "plan does "
           "not fit,\n            4 a toolchain is missing, 70 a bug of fsdpgen.\n");
}

static _Noreturn void usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static _Noreturn void usage(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vprint_line(stderr, "fsdpgen: ", fmt, ap);
    fprintf(stderr, "  help: fsdpgen --help\n");
    va_end(ap);
    exit(EXIT_USAGE);
}

static const struct Option *find_option(const char *name, size_t n)
{
    const char *names[N_OPTIONS];
    char text[160];
    int found;

    for (int i = 0; i < N_OPTIONS; i++)
        names[i] = options[i].name;
    found = diag_option(name, n, names, N_OPTIONS, text, sizeof text);
    if (found < 0)
        usage("%s", text);
    return &options[found];
}

/* One argument that starts with `-`; returns how many of argv it used. */
static int parse_option(Parse *p, int argc, char **argv)
{
    const char *arg = argv[0], *equals = NULL, *value = NULL;
    const struct Option *o = NULL;
    int used = 1;

    if (arg[1] == '-') {
        equals = strchr(arg, '=');
        o = find_option(arg + 2, equals ? (size_t)(equals - arg - 2) : strlen(arg + 2));
        value = equals ? equals + 1 : NULL;
    } else {
        for (int i = 0; i < N_OPTIONS; i++)
            if (options[i].letter && options[i].letter == arg[1])
                o = &options[i];
        if (!o)
            usage("unknown option %s", arg);
        if (arg[2] == '=')
            usage("-%c takes its value without a `=`: -%c %s", arg[1], arg[1], arg + 3);
        if (arg[2])
            value = arg + 2;
    }
    if (!o->value && value)
        usage("--%s takes no value", o->name);
    if (o->value && !value) {
        if (argc < 2)
            usage("--%s needs a value: --%s %s", o->name, o->name, o->value);
        if (diag_is_option(argv[1]))
            usage("--%s needs a value, %s, but %s is an option; if it is meant: --%s=%s",
                  o->name, o->value, argv[1], o->name, argv[1]);
        value = argv[1];
        used = 2;
    }
    if (o->value && !*value)
        usage("--%s needs a value: --%s %s", o->name, o->name, o->value);
    o->fn(p, value);
    return used;
}

static _Noreturn void unknown_command(const char *word)
{
    const char *names[N_COMMANDS], *near;

    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i].name;
    near = diag_nearest(word, names, N_COMMANDS);
    usage("unknown command %s%s%s; without a command a description is generated", word,
          near ? "; did you mean " : "", near ? near : "");
}

static void parse_word(Parse *p, const char *word)
{
    Options *opt = &p->g->opt;

    for (int i = 0; !opt->command && !opt->input && i < N_COMMANDS; i++)
        if (!strcmp(word, commands[i].name)) {
            opt->command = commands[i].name;
            return;
        }
    if (opt->input && opt->command && !strcmp(opt->command, "diff") && !opt->other) {
        opt->other = word;
        return;
    }
    if (opt->other)
        usage("diff compares two trainers, and a third is given: %s", word);
    if (opt->input && !opt->command && !strstr(opt->input, ".lua"))
        unknown_command(opt->input);
    if (opt->input)
        usage("two descriptions are given: %s and %s", opt->input, word);
    opt->input = word;
}

static void check_diff_options(const Options *opt)
{
    if (!opt->other)
        usage("diff needs two generated folders or descriptions: diff A B");
    if (opt->dump || opt->output || opt->check_drift || opt->force)
        usage("diff writes no folder: it takes no -o, --dump, --check or --force");
}

static void check_dump(const char *pass)
{
    const char *names[N_PASSES], *near;

    for (int i = 0; i < N_PASSES; i++) {
        names[i] = drive_pass_name(i);
        if (!strcmp(pass, names[i]))
            return;
    }
    near = diag_nearest(pass, names, N_PASSES);
    usage("--dump: there is no pass \"%s\"%s%s", pass, near ? "; did you mean " : "",
          near ? near : "");
}

static void check_options(Parse *p)
{
    Options *opt = &p->g->opt;
    bool docs = opt->command && !strcmp(opt->command, "docs"), import;

    if (!opt->command)
        opt->command = "generate";
    import = !strcmp(opt->command, "import");
    if (import && opt->input && opt->accelerate)
        usage("import reads HF_DIR or --accelerate FILE, one at a time");
    if (!import && opt->accelerate)
        usage("--accelerate is for import: fsdpgen import --accelerate FILE");
    if (!strcmp(opt->command, "diff"))
        check_diff_options(opt);
    if (!opt->input && !docs && !opt->accelerate)
        usage(import ? "no folder is given: import HF_DIR" : "no description is given");
    if (opt->dump)
        check_dump(opt->dump);
    if (!strcmp(opt->command, "generate") && !opt->output && !opt->dump)
        usage("no folder is given to write: -o DIR");
    if (p->color && strcmp(p->color, "auto") && strcmp(p->color, "always") &&
        strcmp(p->color, "never"))
        usage("--color is auto, always or never, not \"%s\"", p->color);
    p->g->base.color =
        p->color && strcmp(p->color, "auto")
            ? !strcmp(p->color, "always")
            : isatty(STDERR_FILENO) && !(getenv("NO_COLOR") && *getenv("NO_COLOR"));
    if (p->share) {
        embed_share(p->share);
        opt->ops_shared = !opt->ops_dir;
        if (!opt->ops_dir)
            opt->ops_dir = gen_printf(p->g, "%s/templates/ops", p->share);
    }
}

static void parse_options(Parse *p, int argc, char **argv)
{
    bool words_only = false;

    for (int i = 1; i < argc;) {
        if (!words_only && !strcmp(argv[i], "--")) {
            words_only = true;
            i++;
        } else if (!words_only && argv[i][0] == '-' && argv[i][1]) {
            i += parse_option(p, argc - i, argv + i);
        } else {
            parse_word(p, argv[i++]);
        }
    }
}

/* jansson's, which else goes on without what it had no memory for. */
static void *json_memory(size_t bytes)
{
    return gen_calloc(bytes, 1);
}

static int run_command(Gen *g)
{
    int code;

    if (!strcmp(g->opt.command, "docs"))
        return child_run(g, &default_limits, run_docs);
    if (!strcmp(g->opt.command, "import"))
        return child_run(g, &default_limits, run_import);
    if (!strcmp(g->opt.command, "diff"))
        return child_run(g, &default_limits, run_diff);
    code = child_run(g, &default_limits, drive);
    if (code == EXIT_DONE && !strcmp(g->opt.command, "generate") && !g->opt.dump)
        code = files_write(g);
    return code;
}

/* A descriptor that was closed before us would become a file's, and a line for a person
 * would land in it. Read-only: writing to it fails, as it should. */
static void hold_standard_streams(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    Gen g = {0};
    Parse p = {.g = &g};
    int code = EXIT_DONE;

    hold_standard_streams();
    json_set_alloc_funcs(json_memory, free);
    if (argc > 1 && !strcmp(argv[1], "tokenize")) /* it has options of its own */
        return tokenize_main(&g, argc - 1, argv + 1);
    parse_options(&p, argc, argv);
    if (p.help) {
        print_help();
    } else if (p.version) {
        printf("fsdpgen " FSDPGEN_VERSION "\n");
    } else {
        check_options(&p);
        code = run_command(&g);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "fsdpgen: error: cannot write to stdout\n");
        code = code == EXIT_DONE ? EXIT_DIAG : code;
    }
    return code;
}
