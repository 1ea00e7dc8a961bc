/* SPDX-License-Identifier: Apache-2.0 */
/* commands.c: the commands of fsdpgen and their options, except those of tokenize, which
 * are in its room. In: the form of base/options.h; fields of Options (gen.h) that they
 * fill. Out: the table for parsing, help, completion and documentation. Data only. */
#include "shell/shell.h"

#include "describe/target.h"
#include "drive/drive.h"
#include "tokenize/tokenize.h"

enum {
    GENERATE = 1 << 0,
    PLAN = 1 << 1,
    CHECK = 1 << 2,
    DIFF = 1 << 3,
    IMPORT = 1 << 4,
    DOCS = 1 << 5,
    COMPLETION = 1 << 6,
    INIT = 1 << 7,
    REPORT = 1 << 8,
    TEST_OP = 1 << 9,
    TUNE = 1 << 10,
    SIZE = 1 << 11,
    DESCRIPTION =
        GENERATE | PLAN | CHECK | DIFF | TUNE | SIZE /* commands that run a description */
};

/* ---- names to choose from -------------------------------------------------------- */

static const char *color_name(int i)
{
    static const char *const names[] = {"auto", "always", "never", NULL};

    return names[i];
}

static const char *target_name(int i)
{
    const Target *t = target_at(i);

    return t ? t->name : NULL;
}

static const char *docs_name(int i)
{
    static const char *const names[] = {
        "lua",        "ops", "options",     "trainer-options",
        "accelerate", "man", "man-trainer", NULL};

    return names[i];
}

static const char *sanitizer_name(int i)
{
    static const char *const names[] = {"address", "undefined", "both", NULL};

    return names[i];
}

static const char *shell_name(int i)
{
    static const char *const names[] = {"bash", "zsh", "fish", NULL};

    return names[i];
}

/* ---- options --------------------------------------------------------------------- */

#define MOST_TOKENS INT64_C(1000000000000000) /* 1000 T */
#define AT(field) offsetof(Options, field)
static const Option options[] = {
    {'o', "output", "DIR", "the folder to write", STORE_TEXT, VALUE_DIR, AT(output),
     GENERATE, NULL, 0},
    {'o', "output", "FILE", "the page to write (default: stdout)", STORE_TEXT, VALUE_FILE,
     AT(output), REPORT, NULL, 0},
    {'o', "output", "FILE.lua", "the best candidate, as a description to generate",
     STORE_TEXT, VALUE_LUA, AT(output), TUNE, NULL, 0},
    {0, "measure", "N", "build and run the N best (default: 3; on cuda none)",
     STORE_COUNT, VALUE_NUMBER, AT(measure), TUNE, NULL, 64},
    {0, "plan-only", NULL, "rank by prediction; build and run none", STORE_SWITCH,
     VALUE_NONE, AT(plan_only), TUNE, NULL, 0},
    {0, "minutes", "N", "start no further round of runs after N minutes (default: 5)",
     STORE_COUNT, VALUE_NUMBER, AT(minutes), TUNE, NULL, 10080},
    {0, "steps", "N", "steps of each run (default: 4)", STORE_COUNT, VALUE_NUMBER,
     AT(steps), TUNE, NULL, 1000000},
    {0, "data", "FILE", "train on it (default: random tokens)", STORE_TEXT, VALUE_FILE,
     AT(data), TUNE, NULL, 0},
    {0, "wisdom", "FILE", "store measurements there (default: FILE.wisdom of -o)",
     STORE_TEXT, VALUE_FILE, AT(wisdom), TUNE, NULL, 0},
    {0, "work", "DIR", "keep the trainers there (default: removed at the end)",
     STORE_TEXT, VALUE_DIR, AT(work), TUNE, NULL, 0},
    {0, "allow-numerics", NULL, "rank candidates with other numerics hashes, too",
     STORE_SWITCH, VALUE_NONE, AT(allow_numerics), TUNE, NULL, 0},
    {0, "gpu", "NAME", "only this GPU (repeat it for several)", STORE_LIST, VALUE_TEXT,
     AT(gpus), SIZE, NULL, 0},
    {0, "price", "GPU=USD", "its price in dollars per hour: --price h100=2.50",
     STORE_LIST, VALUE_TEXT, AT(prices), SIZE, NULL, 0},
    {0, "tokens", "N", "hours for so many tokens: 15T, 300B (default: 1B)", STORE_AMOUNT,
     VALUE_NUMBER, AT(tokens), PLAN | SIZE, NULL, MOST_TOKENS},
    {0, "price", "USD", "price of one GPU in dollars per hour: --price 2.50",
     STORE_DOLLARS, VALUE_NUMBER, AT(price), PLAN, NULL, 0},
    {0, "all", NULL, "all sections: memory, units, layout, schedule, arena", STORE_SWITCH,
     VALUE_NONE, AT(all), PLAN, NULL, 0},
    {0, "set", "FIELD=VALUE", "override a field: --set optimizer.lr=1e-4", STORE_LIST,
     VALUE_FIELD, AT(sets), DESCRIPTION, NULL, 0},
    {0, "target", "NAME", "replace the whole target: cpu, cuda", STORE_TEXT, VALUE_TEXT,
     AT(target), DESCRIPTION & ~SIZE, target_name, 0},
    {0, "nodes", "N", "predict for N nodes: target.nodes=N", STORE_COUNT, VALUE_NUMBER,
     AT(nodes), PLAN | TUNE | SIZE, NULL, 4096},
    {0, "fabric", "NAME", "predict for this network: target.fabric=NAME", STORE_TEXT,
     VALUE_TEXT, AT(fabric), PLAN | TUNE | SIZE, NULL, 0},
    {0, "path", "DIR", "look for required modules there too", STORE_LIST, VALUE_DIR,
     AT(paths), DESCRIPTION, NULL, 0},
    {0, "ops", "DIR", "add op folders, or replace built-in ones", STORE_TEXT, VALUE_DIR,
     AT(ops_dir), DESCRIPTION | DOCS, NULL, 0},
    {0, "machines", "FILE", "GPUs, nodes and fabrics of your own: a Lua file; repeatable",
     STORE_LIST, VALUE_FILE, AT(machines), DESCRIPTION, NULL, 0},
    {0, "kernels", NULL, "only the kernels of a step, with the predicted time of each",
     STORE_SWITCH, VALUE_NONE, AT(kernels), PLAN, NULL, 0},
    {0, "image", "FILE", "with --kernels: registers, shared memory of compiled kernels",
     STORE_TEXT, VALUE_FILE, AT(image), PLAN, NULL, 0},
    {0, "rates", "FILE", "predict by what `trainer --calibrate` measured", STORE_TEXT,
     VALUE_FILE, AT(rates), GENERATE | PLAN | DIFF | TUNE, NULL, 0},
    {0, "link-runtime", "DIR", "leave the runtime out; make finds it in DIR", STORE_TEXT,
     VALUE_DIR, AT(link_runtime), GENERATE | DIFF, NULL, 0},
    {0, "html", "FILE", "write a page: memory over the step, streams, units", STORE_TEXT,
     VALUE_FILE, AT(html), PLAN, NULL, 0},
    {0, "html", "FILE", "write a page: predicted against measured, candidates",
     STORE_TEXT, VALUE_FILE, AT(html), TUNE, NULL, 0},
    {0, "trace", "FILE", "write the step's calls for ui.perfetto.dev", STORE_TEXT,
     VALUE_FILE, AT(trace), PLAN, NULL, 0},
    {0, "check", NULL, "compare the folder, write nothing; exit 1 on drift", STORE_SWITCH,
     VALUE_NONE, AT(check_drift), GENERATE, NULL, 0},
    {0, "force", NULL, "overwrite files that were edited by hand", STORE_SWITCH,
     VALUE_NONE, AT(force), GENERATE, NULL, 0},
    {0, "force", NULL, "replace a file that is not a report", STORE_SWITCH, VALUE_NONE,
     AT(force), REPORT, NULL, 0},
    {0, "force", NULL, "replace files that are not pages or traces of plans",
     STORE_SWITCH, VALUE_NONE, AT(force), PLAN, NULL, 0},
    {0, "force", NULL, "replace files that exist", STORE_SWITCH, VALUE_NONE, AT(force),
     INIT | TUNE, NULL, 0},
    {0, "arch", "NAME", "the architecture: llama (default) or gpt2", STORE_TEXT,
     VALUE_CHOICE, AT(arch), INIT, init_arch_name, 0},
    {0, "target", "NAME", "what the trainer runs on: cpu (default) or cuda", STORE_TEXT,
     VALUE_CHOICE, AT(target), INIT, target_name, 0},
    {0, "target", "NAME", "whose kernels to test: cpu (default) or cuda", STORE_TEXT,
     VALUE_CHOICE, AT(target), TEST_OP, target_name, 0},
    {0, "only", "OP,OP", "test these ops, built-in ones too", STORE_TEXT, VALUE_TEXT,
     AT(only), TEST_OP, NULL, 0},
    {0, "cases", "N", "random cases for each op and dtype (default: 3)", STORE_COUNT,
     VALUE_NUMBER, AT(cases), TEST_OP, NULL, 1000},
    {0, "seed", "N", "seed of the random cases (default: 1)", STORE_COUNT, VALUE_NUMBER,
     AT(seed), TEST_OP, NULL, INT64_MAX},
    {'j', "jobs", "N", "compilers at a time (default: 2)", STORE_COUNT, VALUE_NUMBER,
     AT(jobs), TEST_OP, NULL, 256},
    {0, "sanitize", "WHAT", "compile with sanitizers: address, undefined or both",
     STORE_TEXT, VALUE_CHOICE, AT(sanitize), TEST_OP, sanitizer_name, 0},
    {0, "keep", "DIR", "keep the emitted C and its machine code there", STORE_TEXT,
     VALUE_DIR, AT(keep), TEST_OP, NULL, 0},
    {0, "dump", "PASS", "print the state after a pass and stop", STORE_TEXT, VALUE_CHOICE,
     AT(dump), GENERATE | PLAN | CHECK, drive_pass_name, 0},
    {0, "accelerate", "FILE", "what `accelerate config` wrote", STORE_TEXT, VALUE_FILE,
     AT(accelerate), IMPORT, NULL, 0},
    {0, "json", NULL, "print as JSON", STORE_SWITCH, VALUE_NONE, AT(json),
     PLAN | DIFF | TUNE | SIZE, NULL, 0},
    {0, "json", NULL, "print the figures as JSON", STORE_SWITCH, VALUE_NONE, AT(json),
     REPORT, NULL, 0},
    {0, "color", "WHEN", "auto, always or never", STORE_TEXT, VALUE_CHOICE, AT(color),
     DESCRIPTION | IMPORT | DOCS | REPORT | TEST_OP, color_name, 0},
    {0, "trainer", NULL, "complete trainers, not fsdpgen", STORE_SWITCH, VALUE_NONE,
     AT(trainer), COMPLETION, NULL, 0},
    {0, "share", "DIR", NULL, STORE_TEXT, VALUE_DIR, AT(share),
     DESCRIPTION | DOCS | REPORT | TEST_OP, NULL, 0},
    {0, NULL, NULL, NULL, STORE_SWITCH, VALUE_NONE, 0, 0, NULL, 0},
};

/* ---- commands -------------------------------------------------------------------- */

const Command shell_commands[] = {
    {.name = "generate",
     .what = "write the trainer's folder (the default)",
     .usage = {"MODEL.lua -o DIR"},
     .exits = "0 done, 1 errors in the description or drift, 2 usage, 3 the plan does "
              "not fit, 70 a bug in fsdpgen.",
     .words = VALUE_LUA,
     .least = 1,
     .most = 1,
     .lack = "no description is given",
     .bit = GENERATE,
     .options = options},
    {.name = "plan",
     .what = "print memory, predicted step time and cost; write nothing",
     .usage = {"MODEL.lua"},
     .words = VALUE_LUA,
     .least = 1,
     .most = 1,
     .lack = "no description is given",
     .bit = PLAN,
     .options = options},
    {.name = "check",
     .what = "check a description: print its errors, or that there are none",
     .usage = {"MODEL.lua"},
     .words = VALUE_LUA,
     .least = 1,
     .most = 1,
     .lack = "no description is given",
     .bit = CHECK,
     .options = options},
    {.name = "tune",
     .what = "find the fastest sharding and schedule, without changing a bit",
     .usage = {"MODEL.lua [FIELD=A,B,C]... [-o FILE.lua]"},
     .more =
         "Plans every combination of the named values (default: of mesh, strategy,\n"
         "wrap, prefetch, recompute and accumulate), drops those that do not fit,\n"
         "and ranks the others by prediction. Then builds and runs the best ones and\n"
         "the description itself in turns, and compares the hashes of their weights.",
     .exits = "0 done, 1 an error, 2 usage, 3 nothing fits, 70 a bug, or weights that "
              "differ, 128+n stopped by signal n (130: Ctrl-C).",
     .words = VALUE_LUA,
     .least = 1,
     .most = -1,
     .lack = "no description is given",
     .bit = TUNE,
     .options = options},
    {.name = "size",
     .what = "print memory, speed and cost of descriptions on each GPU",
     .usage = {"MODEL.lua..."},
     .more =
         "For each description and GPU: whether it fits, bytes of a rank, predicted\n"
         "tokens per second, GPU hours and dollars for a billion tokens or --tokens.\n"
         "If it does not fit, recompute = \"auto\" is tried; if ranks lie on several\n"
         "nodes, mesh.node is set.",
     .exits = "0 done, 1 an error in a description, 2 usage, 70 a bug.",
     .words = VALUE_LUA,
     .least = 1,
     .most = -1,
     .lack = "no description is given",
     .bit = SIZE,
     .options = options},
    {.name = "import",
     .what = "print a Hugging Face or Accelerate configuration as Lua",
     .usage = {"HF_DIR", "--accelerate FILE"},
     .more =
         "Prints a description for HF_DIR, a model's folder or its config.json. With\n"
         "--accelerate, prints the sharding of an `accelerate config`, to paste.",
     .exits = "0 done, 1 the file cannot be read or is refused, 2 usage, 4 fsdpgen "
              "was built without libyaml, 70 a bug.",
     .words = VALUE_DIR,
     .least = 0,
     .most = 1,
     .bit = IMPORT,
     .options = options},
    {.name = "diff",
     .what = "print what changed between two trainers",
     .usage = {"A B"},
     .more =
         "A and B are generated folders or descriptions; options such as --set apply\n"
         "to descriptions.",
     .exits = "0 compared, equal or not, 1 an error, 2 usage, 3 a plan does not fit, "
              "70 a bug.",
     .words = VALUE_LUA,
     .least = 2,
     .most = 2,
     .lack = "two generated folders or descriptions are needed",
     .bit = DIFF,
     .options = options},
    {.name = "report",
     .what = "draw the logs of runs as one HTML page",
     .usage = {"RUN... [-o FILE.html]"},
     .more = "A RUN is what `trainer --log FILE` wrote, or a folder with log.jsonl. At\n"
             "most 32 share a page, which loads nothing from elsewhere. --json prints\n"
             "the figures alone.",
     .exits = "0 done, 1 a log cannot be read or the page cannot be written, 2 usage, "
              "70 a bug.",
     .words = VALUE_FILE,
     .least = 1,
     .most = -1,
     .lack = "no log is given: report RUN... -o FILE.html",
     .bit = REPORT,
     .options = options},
    {.name = "init",
     .what = "write a commented description and editor settings",
     .usage = {"[DIR | NAME.lua]"},
     .more = "Writes DIR/model.lua, or NAME.lua, and beside it .luarc.json and\n"
             ".fsdpgen/, which the Lua language server reads.",
     .exits = "0 done, 1 a file is in the way or cannot be written, 2 usage, 70 a bug.",
     .words = VALUE_DIR,
     .least = 0,
     .most = 1,
     .bit = INIT,
     .options = options},
    {.name = "test-op",
     .what = "test your own ops: values, gradients, bits",
     .usage = {"DIR"},
     .more =
         "DIR holds op folders, as for --ops. Random cases of each rule are compiled\n"
         "with CC (cc) and CFLAGS (-O2 -march=native), and run. The kernel is\n"
         "compared with the rule's reference, the gradient with finite differences,\n"
         "and the bits over threads and rows. CUDA runs on a GPU if CUDA_HOME has a\n"
         "toolkit, else on a simulated one.",
     .exits = "0 all tests passed, 1 a test failed or a rule is wrong, 2 usage, 4 a "
              "compiler is missing, 70 a bug.",
     .words = VALUE_DIR,
     .least = 1,
     .most = 1,
     .lack = "no folder is given",
     .bit = TEST_OP,
     .options = options},
    {.name = "tokenize",
     .what = "turn texts into token files, and ids into text",
     .usage = {"[--tokenizer FILE] -o X.bin INPUT...", "[--tokenizer FILE] --prompt TEXT",
               "[--tokenizer FILE] --decode <IDS"},
     .more =
         "Writes a token file in llm.c's format, for trainers. An INPUT is a text,\n"
         "which is one document, or *.jsonl or *.ndjson: lines of JSON objects, each\n"
         "with a document. Ids equal those of Hugging Face's tokenizers.",
     .exits = "0 done, 1 an error: no file was written unless it says so, 2 usage, "
              "70 a bug.",
     .words = VALUE_FILE,
     .least = 0,
     .most = -1,
     .bit = TOK_COMMAND,
     .options = tok_option_table},
    {.name = "docs",
     .what = "print the reference: fields, ops, command lines",
     .usage =
         {"[lua | ops | options | trainer-options | accelerate | man | man-trainer]"},
     .more = "Prints the fields of descriptions as Markdown, or, by name: annotations\n"
             "for editors, the list of ops, the command lines of fsdpgen and of\n"
             "trainers, keys of Accelerate, manual pages.",
     .words = VALUE_CHOICE,
     .choice = docs_name,
     .least = 0,
     .most = 1,
     .bit = DOCS,
     .options = options},
    {.name = "completion",
     .what = "print completions of the command line for a shell",
     .usage = {"bash|zsh|fish [--trainer]"},
     .more = "cmake --install installs them. By hand:\n"
             "  source <(fsdpgen completion bash)\n"
             "  fsdpgen completion zsh >DIR/_fsdpgen, with DIR in $fpath\n"
             "  fsdpgen completion fish >~/.config/fish/completions/fsdpgen.fish",
     .exits = "0 done, 1 an error, 2 usage, 70 a bug.",
     .words = VALUE_CHOICE,
     .choice = shell_name,
     .least = 1,
     .most = 1,
     .lack = "no shell is named",
     .bit = COMPLETION,
     .options = options},
    {.name = NULL},
};

CommandLine shell_generator(void)
{
    return (CommandLine){
        .name = "fsdpgen",
        .page = "fsdpgen",
        .what = "writes the source of one sharded trainer from a description "
                "of one model",
        .commands = shell_commands};
}
