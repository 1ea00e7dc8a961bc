/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_diffs SEED FIRST COUNT FOLDER: `fsdpgen diff` against generated folders: out/demo,
 * and a copy of it of which one file has a few bytes, words or values changed: mostly
 * plan.json and manifest.json. Each is refused with a message, or compared: a text
 * without control characters, the same for the same folders. */
#include "batch.h"
#include "report/diff.h"

#include <string.h>
#include <sys/stat.h>

static const char *const names[] = {
    "plan.json", "manifest.json", "description.lua", "tables.c",   "step.c",
    "math.h",    "math.c",        "Makefile",        "README.md",  "checkpoint.c",
    "plan.txt",  "tables.h",      "trainer.c",       ".gitignore", ".gitattributes",
    "bind.c",    "bind.h",        "kernels.c",       "kernels.h"};
enum { N_FILES = sizeof names / sizeof *names, N_MUTATED = 6 };
static Str original[N_FILES];

static const char *const words[] = {"null",
                                    "true",
                                    "-1",
                                    "0.5",
                                    "1e400",
                                    "1e308",
                                    "99999999999999999999",
                                    "9223372036854775807",
                                    "4611686018427387904",
                                    "4611686018427387905",
                                    "{}",
                                    "[]",
                                    "\"\"",
                                    "\"\\u0000\"",
                                    "\"\\ud800\"",
                                    "\"\\u001b[31m\"",
                                    "[[[[[[[[",
                                    "\xff",
                                    "\"",
                                    "\"../../x\": \"0123456789abcdef\",",
                                    "\"math.x\": \"0123456789abcdef\",",
                                    "\"kernels.\": \"0123456789abcdef\",",
                                    "\"generator\": \"fsdpgen 9.0.0\",",
                                    "\"\\u202e\\u001b]0;\": 7,",
                                    "\"bytes_per_rank\":",
                                    "\"numerics_hash\":",
                                    NULL};

static bool write_file(const char *name, const Str *s)
{
    char path[64];
    FILE *f;

    snprintf(path, sizeof path, "B/%s", name);
    f = fopen(path, "we");
    return f && fwrite(s->s, 1, s->n, f) == s->n && fclose(f) == 0;
}

static const char *check_text(const Text *t)
{
    for (size_t i = 0; i < t->len; i++)
        if (((unsigned char)t->s[i] < 32 && t->s[i] != '\n') || t->s[i] == 127)
            return "a control character was printed";
    return t->len && t->s[t->len - 1] == '\n' ? NULL : "the text has no last line";
}

static const char *compare_twice(int *taken)
{
    Gen g[2] = {0};
    Text t[2] = {{.g = &g[0]}, {.g = &g[1]}};

    for (int i = 0; i < 2; i++) {
        json_t *r;
        int code;

        g[i].opt.input = SOURCE_DIR "/out/demo";
        g[i].opt.other = "B";
        r = diff_trainers(&g[i], NULL, &code);
        if (!r != !!diag_errors(&g[i]))
            return "neither a result nor a message, or both";
        if (r)
            diff_print(&t[i], r);
        json_decref(r);
    }
    if (t[0].len != t[1].len || (t[0].len && memcmp(t[0].s, t[1].s, t[0].len) != 0))
        return "a second time it is another";
    if (t[0].len == 0)
        return NULL;
    ++*taken;
    return check_text(&t[0]);
}

static const char *run_case(Random *r, int *taken)
{
    const uint32_t file =
        random_below(r, 3) ? random_below(r, 2) : random_below(r, N_MUTATED);
    const char *problem;
    Str s = {0};

    str_add(&s, original[file].s, original[file].n);
    for (uint32_t k = 1 + random_below(r, 3); k && s.n > 0; k--)
        if (file < 2)
            mutate_json(r, &s, words);
        else
            mutate_text(r, &s);
    problem = write_file(names[file], &s) ? compare_twice(taken) : "cannot write a file";
    if (problem)
        printf("     | %s: %.*s\n", names[file], (int)s.n, s.s);
    free(s.s);
    return write_file(names[file], &original[file]) ? problem : "cannot write a file";
}

static bool read_files(void)
{
    for (int i = 0; i < N_FILES; i++) {
        char path[4096];
        size_t n;
        FILE *f;

        snprintf(path, sizeof path, "%s/out/demo/%s", SOURCE_DIR, names[i]);
        f = fopen(path, "re");
        if (!f)
            return false;
        while ((n = fread(path, 1, sizeof path, f)) > 0)
            str_add(&original[i], path, n);
        fclose(f);
    }
    return true;
}

int main(int argc, char **argv)
{
    bool good = argc == 5 && read_files() && chdir(argv[4]) == 0 && mkdir("B", 0777) == 0;

    for (int i = 0; good && i < N_FILES; i++)
        good = write_file(names[i], &original[i]);
    if (!good) {
        fprintf(stderr, "usage: fuzz_diffs SEED FIRST COUNT FOLDER\n");
        return 2;
    }
    return run_batches(argv, run_case);
}
