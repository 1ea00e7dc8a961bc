/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: the command line. In: argv. Out: an exit code; an emitted folder. The passes
 * (drive/drive.c) run in a child process (child.c). This process only reads options
 * before, by the table of shell/commands.c, and writes files after. */
#include "base/child.h"
#include "import/import.h"
#include "describe/load.h"
#include "drive/drive.h"
#include "op_test/test_op.h"
#include "report/diff.h"
#include "report/runs.h"
#include "shell/shell.h"
#include "tokenize/tokenize.h"
#include "tune/tune.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what runs in the child ------------------------------------------------------ */

/* What is made of the rules of ops. */
static void print_rules(Gen *g, Text *t, void (*print)(Gen *g, Text *t))
{
    ops_load(g);
    diag_stop_on_errors(g);
    print(g, t);
}

static void print_docs(Gen *g, Text *t)
{
    const char *what = g->opt.input ? g->opt.input : "";
    const CommandLine generator = shell_generator(), trainer = shell_trainer(g);
    Loader *ld = loader_open(g);

    diag_stop_on_errors(g);
    if (!strcmp(what, "accelerate"))
        import_accelerate_docs(g, t);
    else if (!strcmp(what, "options"))
        shell_markdown(g, t, &generator);
    else if (!strcmp(what, "trainer-options"))
        shell_markdown(g, t, &trainer);
    else if (!strcmp(what, "man"))
        shell_man(g, t, &generator);
    else if (!strcmp(what, "man-trainer"))
        shell_man(g, t, &trainer);
    else if (!strcmp(what, "lua"))
        print_rules(g, t, docs_lua);
    else if (!strcmp(what, "ops"))
        print_rules(g, t, docs_ops);
    else
        docs_markdown(g, t, ld->trainer, &ld->kinds, ld->machines);
}

static void print_completion(Gen *g, Text *t)
{
    const CommandLine p = g->opt.trainer ? shell_trainer(g) : shell_generator();
    const char *shell = g->opt.input;
    OptionList fields = {0};

    loader_open(g);
    diag_stop_on_errors(g);
    shell_fields(g, &fields);
    if (!strcmp(shell, "bash"))
        complete_bash(g, t, &p, &fields);
    else if (!strcmp(shell, "zsh"))
        complete_zsh(g, t, &p, &fields);
    else
        complete_fish(g, t, &p, &fields);
}

static int run_completion(Gen *g)
{
    drive_print(g, print_completion);
    return EXIT_DONE;
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

/* A side that is a description is generated in memory. */
static int run_diff(Gen *g)
{
    return diff_run(g, drive);
}

/* ---- the command line ------------------------------------------------------------ */

static bool colored(const char *when)
{
    if (when && strcmp(when, "auto"))
        return !strcmp(when, "always");
    return isatty(STDERR_FILENO) && !(getenv("NO_COLOR") && *getenv("NO_COLOR"));
}

/* A plan is printed in one way, except that --json has the --kernels, too. A dump ends
 * before there is a plan to draw or a file to write. */
static OptionsFound check_forms(OptionReader *r, const Options *opt)
{
    const char *first = opt->dump ? "dump" : opt->all ? "all" : NULL;
    const char *second = opt->dump && opt->all ? "all"
                         : opt->json           ? "json"
                         : opt->kernels        ? "kernels"
                         : !opt->dump          ? NULL
                         : opt->html           ? "html"
                         : opt->trace          ? "trace"
                         : opt->check_drift    ? "check"
                         : opt->output         ? "output"
                         : opt->link_runtime   ? "link-runtime"
                                               : NULL;

    return first && second
               ? options_wrong(r, "--%s and --%s: one at a time", first, second)
               : OPTIONS_GO;
}

/* An option that the others leave without a use. */
static OptionsFound check_used(OptionReader *r, const Options *opt)
{
    const struct {
        bool given;
        const char *name;
    } runs[] = {{opt->measure, "measure N"}, {opt->steps, "steps N"},
                {opt->minutes, "minutes N"}, {opt->data, "data FILE"},
                {opt->work, "work DIR"},     {opt->wisdom, "wisdom FILE"}};

    for (size_t i = 0; opt->plan_only && i < sizeof runs / sizeof *runs; i++)
        if (runs[i].given)
            return options_wrong(r,
                                 "--plan-only runs nothing, and --%s is for runs: one at "
                                 "a time",
                                 runs[i].name);
    if (opt->image && !opt->kernels)
        return options_wrong(r, "--image FILE adds what compiled kernels take to "
                                "--kernels, which is not given");
    if (opt->force && opt->check_drift)
        return options_wrong(r, "--check writes nothing, and --force overwrites: one at "
                                "a time");
    if (opt->force && !opt->output && !opt->html && !opt->trace &&
        strcmp(opt->command, "init"))
        return options_wrong(r, "--force replaces files, and this command line names no "
                                "file to write");
    return OPTIONS_GO;
}

/* Which options a command requires or excludes together. */
static OptionsFound check_options(OptionReader *r, Options *opt)
{
    const bool import = !strcmp(opt->command, "import");

    if (import && opt->input && opt->accelerate)
        return options_wrong(r, "HF_DIR or --accelerate FILE: one at a time");
    if (import && !opt->input && !opt->accelerate)
        return options_wrong(r, "no folder is given: import HF_DIR");
    if (!strcmp(opt->command, "report") && opt->words.count > MAX_RUNS)
        return options_wrong(r, "at most %d runs share a page, and %d are given",
                             MAX_RUNS, opt->words.count);
    if (!strcmp(opt->command, "report") && !opt->output && !opt->json &&
        isatty(STDOUT_FILENO))
        return options_wrong(r, "the page would go to the terminal: -o FILE.html");
    if (!strcmp(opt->command, "test-op") && opt->sanitize && opt->target &&
        strcmp(opt->target, "cpu"))
        return options_wrong(r, "--sanitize is for the target cpu: the simulated device "
                                "checks every access");
    if (!strcmp(opt->command, "generate") && !opt->output && !opt->dump)
        return options_wrong(r, "no folder is given to write: -o DIR");
    return check_used(r, opt) == OPTIONS_GO ? check_forms(r, opt) : OPTIONS_WRONG;
}

/* A text as Lua writes it. */
static const char *in_quotes(Gen *g, const char *s)
{
    Text t = {.g = g};

    text_add(&t, "\"", 1);
    for (; *s; s++)
        text_printf(&t,
                    strchr("\"\\", *s)       ? "\\%c"
                    : (unsigned char)*s < 32 ? "\\%03d"
                                             : "%c",
                    *s);
    text_add(&t, "\"", 1);
    return t.s;
}

/* Options that are fields: as if --set named them last. */
static void add_sets(Gen *g, Options *opt)
{
    if (opt->nodes)
        *gen_push(g, &opt->sets) =
            gen_printf(g, "target.nodes=%lld", (long long)opt->nodes);
    if (opt->fabric)
        *gen_push(g, &opt->sets) =
            gen_printf(g, "target.fabric=%s", in_quotes(g, opt->fabric));
}

static OptionsFound read_options(OptionReader *r, Gen *g)
{
    Options *opt = &g->opt;
    OptionsFound found = options_read(r, opt, &opt->words);

    if (found != OPTIONS_GO)
        return found;
    opt->command = r->command->name;
    opt->input = opt->words.count > 0 ? opt->words.items[0] : NULL;
    opt->other = opt->words.count > 1 ? opt->words.items[1] : NULL;
    g->base.color = colored(opt->color);
    add_sets(g, opt);
    if (opt->share) {
        embed_share(opt->share);
        opt->ops_shared = !opt->ops_dir;
        if (!opt->ops_dir)
            opt->ops_dir = gen_printf(g, "%s/templates/ops", opt->share);
    }
    return check_options(r, opt);
}

static void print_help(Gen *g, const OptionReader *r)
{
    Text t = {.g = g};

    options_help(g, &t, shell_commands, r->named ? r->command : NULL);
    fwrite(t.s, 1, t.len, stdout);
}

/* For jansson, which would otherwise ignore that it is out of memory. */
static void *json_memory(size_t bytes)
{
    return gen_calloc(bytes, 1);
}

static int run_command(Gen *g, char **argv)
{
    int code;

    if (!strcmp(g->opt.command, "docs"))
        return child_run(g, &default_limits, run_docs);
    if (!strcmp(g->opt.command, "completion"))
        return child_run(g, &default_limits, run_completion);
    if (!strcmp(g->opt.command, "import"))
        return child_run(g, &default_limits, run_import);
    if (!strcmp(g->opt.command, "diff"))
        return child_run(g, &default_limits, run_diff);
    if (!strcmp(g->opt.command, "report"))
        return runs_command(g, &(RunOptions){g->opt.words.items, g->opt.words.count,
                                             g->opt.output, g->opt.json, g->opt.force});
    if (!strcmp(g->opt.command, "init"))
        return init_run(g);
    if (!strcmp(g->opt.command, "test-op"))
        return test_op_run(g, argv);
    if (!strcmp(g->opt.command, "tune"))
        return tune_command(g);
    if (!strcmp(g->opt.command, "size"))
        return size_command(g);
    code = child_run(g, &default_limits, drive);
    if (code == EXIT_DONE && !strcmp(g->opt.command, "generate") && !g->opt.dump)
        code = files_write(g);
    if ((code == EXIT_DONE || code == EXIT_FIT) && !strcmp(g->opt.command, "plan") &&
        base_of(g)->files.count > 0) {
        const int written = plan_write_files(g);

        code = written == EXIT_DONE ? code : written;
    }
    return code;
}

/* If a standard descriptor is closed, the next opened file would get its number, and
 * messages would end up in that file. So it is opened here, read-only: writing fails, as
 * it should. */
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
    TokOptions texts;
    OptionReader r = {.g = &g, .commands = shell_commands, .argc = argc, .argv = argv};
    OptionsFound found;
    bool tokenize;
    int code = EXIT_DONE;

    hold_standard_streams();
    json_set_alloc_funcs(json_memory, free);
    found = options_open(&r);
    tokenize = !strcmp(r.command->name, "tokenize");
    if (found == OPTIONS_GO)
        found = tokenize ? tokenize_read(&r, &texts) : read_options(&r, &g);
    if (found == OPTIONS_WRONG)
        return options_complain(&r);
    if (found == OPTIONS_HELP)
        print_help(&g, &r);
    else if (found == OPTIONS_VERSION)
        printf("fsdpgen " FSDPGEN_VERSION "\n");
    else
        code = tokenize ? tokenize_run(&g, &texts) : run_command(&g, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "fsdpgen: error: cannot write to stdout\n");
        code = code == EXIT_DONE ? EXIT_DIAG : code;
    }
    return code;
}
