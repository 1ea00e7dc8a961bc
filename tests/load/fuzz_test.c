/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_test COUNT SEED: mutated descriptions and overrides never crash load and check:
 * each ends with a resolved model or with messages, and nothing else. Mutations cut,
 * double, swap and replace tokens and bytes of good descriptions. Each runs in a
 * process of its own. */
#include "gen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const seeds[] = {
    SOURCE_DIR "/models/demo.lua",       SOURCE_DIR "/models/llama8b.lua",
    SOURCE_DIR "/models/gpt2_124m.lua",  SOURCE_DIR "/tests/load/base.lua",
    SOURCE_DIR "/models/arch/llama.lua",
};
static const char *const words[] = {
    "{",
    "}",
    "(",
    ")",
    "=",
    ",",
    "[",
    "]",
    "\"",
    "'",
    "[[",
    "]]",
    "--",
    "--[[",
    "nil",
    "true",
    "0",
    "-1",
    "1e308",
    "0/0",
    "math.huge",
    "1 << 62",
    "\"x\"",
    "{}",
    "{1,2}",
    "trainer",
    "adamw",
    "llama",
    "arch",
    "require",
    "per_block(2)",
    "root_only",
    "function() end",
    "cosine {",
    "cpu {}",
    "model",
    "mesh",
    "leaves",
    "\\",
    "\n",
    "\0x",
    "\xFF",
    "\xE2\x80\xAE",
    "..",
    ";",
    "return",
    "seq",
    "string.rep",
    "setmetatable",
    "pairs",
    "t.x",
    "#",
    "~=",
    "goto a",
    "::a::",
};
static const char *const sets[] = {
    "seq=1",
    "a.b.c=1",
    "mesh={",
    "optimizer.lr=nil",
    "model.rope.scaling.factor=2",
    "lr=cosine{}",
    "wrap=root_only",
    "model=nil",
    "mesh.shard.x=1",
    "name=\"\"",
    "=",
    "x",
    "prefetch=1e9",
    "dtypes.param=f64",
    "target=cuda{}",
    "loss={mask=true}",
    "model.heads={}",
};

static uint64_t state;

static uint32_t below(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % n;
}

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *s = malloc(1 << 20);

    if (!f || !s) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    *n = fread(s, 1, (1 << 20) - 4096, f);
    fclose(f);
    return s;
}

static size_t splice(char *s, size_t n, size_t at, size_t cut, const char *put,
                     size_t put_n)
{
    if (cut > n - at)
        cut = n - at;
    memmove(s + at + put_n, s + at + cut, n - at - cut);
    memcpy(s + at, put, put_n);
    return n - cut + put_n;
}

static size_t mutate(char *s, size_t n)
{
    char copy[64];
    size_t at = n ? below((uint32_t)n) : 0, len = 1 + below(sizeof copy - 1);
    const char *word = words[below(sizeof words / sizeof *words)];

    switch (below(6)) {
    case 0:
        return splice(s, n, at, len, "", 0);
    case 1:
        return splice(s, n, at, 0, word, strlen(word));
    case 2:
        return splice(s, n, at, 1 + below(6), word, strlen(word));
    case 3:
        if (len > n - at)
            len = n - at;
        memcpy(copy, s + at, len);
        return splice(s, n, n ? below((uint32_t)n) : 0, 0, copy, len);
    case 4:
        if (n)
            s[at] = (char)below(256);
        return n;
    default:
        while (at < n && (s[at] < '0' || s[at] > '9'))
            at++;
        return splice(s, n, at, 1 + below(4), word, strlen(word));
    }
}

static _Noreturn void run_one(const char *path)
{
    static Gen g;

    if (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout))
        _exit(99);
    alarm(60);
    g.opt.command = "check";
    g.opt.input = path;
    for (uint32_t i = below(4) / 3 + below(8) / 7; i; i--)
        *gen_push(&g, &g.opt.sets) = sets[below(sizeof sets / sizeof *sets)];
    load_description(&g);
    check_model(&g);
    exit(EXIT_DONE);
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1000, good = 0, wrong = 0;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    char path[] = "/tmp/fsdpgen-fuzz-XXXXXX.lua";
    int fd = mkstemps(path, 4);

    if (fd < 0)
        return 1;
    for (int i = 0; i < count; i++) {
        size_t n;
        char *s;
        int status;
        pid_t pid;

        state = (seed << 32) + (uint64_t)i;
        s = read_file(seeds[below(sizeof seeds / sizeof *seeds)], &n);
        for (uint32_t k = 1 + below(1 + below(8)); k; k--)
            n = mutate(s, n);
        if (ftruncate(fd, 0) || pwrite(fd, s, n, 0) != (ssize_t)n)
            return 1;
        fflush(NULL);
        pid = fork();
        if (pid == 0)
            run_one(path);
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
            return 1;
        if (!WIFEXITED(status) || WEXITSTATUS(status) > EXIT_DIAG) {
            char kept[128];
            FILE *f;

            snprintf(kept, sizeof kept, "/tmp/fsdpgen-fuzz-%llu-%d.lua",
                     (unsigned long long)seed, i);
            printf("case %d of seed %llu ends with status %d; its text: %s\n", i,
                   (unsigned long long)seed, status, kept);
            f = fopen(kept, "wb");
            if (f) {
                fwrite(s, 1, n, f);
                fclose(f);
            }
            wrong++;
        } else {
            good += WEXITSTATUS(status) == EXIT_DONE;
        }
        free(s);
    }
    unlink(path);
    printf("%d mutated descriptions, %d of them still good\n", count, good);
    printf("%d passed, %d failed\n", count - wrong, wrong);
    /* a mutator that only makes garbage, or none, tests nothing */
    return wrong || (count >= 1000 && (good == 0 || good == count));
}
