/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_configs SEED FIRST COUNT FOLDER: `fsdpgen import` against config.json files: those
 * of tests/import/hf with a few bytes, words or values changed. Each is refused with a
 * message, or becomes a description: a text without control characters that is Lua, the
 * same for the same file. */
#include "batch.h"
#include "import/import.h"
#include "base/sandbox.h"

#include <string.h>

enum { MAX_FILES = 12 };

static Str original[MAX_FILES];
static int files;

static const char *const words[] = {
    "null",
    "true",
    "false",
    "-1",
    "0",
    "0.5",
    "1e400",
    "1e308",
    "5e-324",
    "-0.0",
    "99999999999999999999",
    "9223372036854775807",
    "2147483648",
    "{}",
    "[]",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"]]\"",
    "\"\\u001b[31m\"",
    "[[[[[[[[",
    "\xff",
    "\"",
    "\"llama\"",
    "\"gpt2\"",
    "\"mistral\"",
    "\"qwen2\"",
    "\"qwen3\"",
    "\"model_type\":",
    "\"rope_type\":",
    "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2},",
    "\"rope_parameters\":{\"rope_theta\":1e6},",
    "\"sliding_window\":7,",
    "\"layer_types\":[\"sliding_attention\",\"full_attention\"],",
    "\"n_inner\":3,",
    "\"head_dim\":0,",
    "\"sliding_attention\"",
    "\"llama3\"",
    "\"default\"",
    NULL};

static const char *check_text(Gen *g, const Text *t)
{
    lua_State *L;

    if (t->len == 0)
        return "nothing was written";
    for (size_t i = 0; i < t->len; i++)
        if (((unsigned char)t->s[i] < 32 && t->s[i] != '\n') || t->s[i] == 127)
            return "a control character was written";
    L = sandbox_open(g);
    if (luaL_loadbufferx(L, t->s, t->len, "@import", "t") != LUA_OK)
        return "what was written is no Lua";
    lua_close(L);
    return NULL;
}

static const char *import_twice(int *taken)
{
    Gen g[2] = {{.opt.input = "config.json"}, {.opt.input = "config.json"}};
    Text t[2] = {{.g = &g[0]}, {.g = &g[1]}};

    for (int i = 0; i < 2; i++)
        import_hugging_face(&g[i], &t[i]);
    if (diag_errors(&g[0]) != diag_errors(&g[1]) ||
        (t[0].len > 0 && (t[0].len != t[1].len || memcmp(t[0].s, t[1].s, t[0].len))))
        return "a second time it is another";
    if (diag_errors(&g[0]) > 0)
        return NULL;
    ++*taken;
    return check_text(&g[0], &t[0]);
}

static const char *run_case(Random *r, int *taken)
{
    const Str *from = &original[random_below(r, (uint32_t)files)];
    Str s = {0};
    FILE *f = fopen("config.json", "we");
    const char *problem;

    str_add(&s, from->s, from->n);
    for (uint32_t k = 1 + random_below(r, 3); k && s.n > 0; k--)
        mutate_json(r, &s, words);
    if (!f || fwrite(s.s, 1, s.n, f) != s.n || fclose(f) != 0)
        return "the file cannot be written";
    problem = import_twice(taken);
    if (problem)
        printf("     | %.*s\n", (int)s.n, s.s);
    free(s.s);
    return problem;
}

static void read_files(void)
{
    static const char *const names[] = {"llama-3.1-8b",  "mistral-7b-v0.1",
                                        "qwen2.5-0.5b",  "qwen3-0.6b",
                                        "gpt2",          "Llama-3.2-1B_new-names",
                                        "late-windows",  "mixed-windows",
                                        "no-factor",     "hostile",
                                        "refused-parts", "deep"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[4096];
        size_t n;
        FILE *f;

        snprintf(path, sizeof path, "%s/tests/import/hf/%s/config.json", SOURCE_DIR,
                 names[i]);
        f = fopen(path, "re");
        if (!f)
            continue;
        while ((n = fread(path, 1, sizeof path, f)) > 0)
            str_add(&original[files], path, n);
        files++;
        fclose(f);
    }
}

int main(int argc, char **argv)
{
    read_files();
    if (argc != 5 || files < MAX_FILES || chdir(argv[4]) != 0) {
        fprintf(stderr, "usage: fuzz_configs SEED FIRST COUNT FOLDER\n");
        return 2;
    }
    return run_batches(argv, run_case);
}
