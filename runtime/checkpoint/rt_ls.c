/* SPDX-License-Identifier: MIT-0 */
/* rt_ls.c: `trainer ls DIR`. In: a folder of checkpoints, or one of them. Out: a line for
 * each, the newest step first: when it was written, its size, its model, how much data it
 * has seen, whether the newest one calls it the best; and other remains of saves. Only
 * MANIFEST, the sizes of files and train_state.json are read; `trainer verify` reads the
 * rest. */
#include "checkpoint/rt_checkpoint.h"
#include "job/rt_out.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

typedef struct Line {
    const char *folder;          /* its name */
    int64_t step, bytes, tokens; /* -1: unknown */
    time_t written;
    uint64_t numerics; /* if known */
    bool known, ours;  /* its train state is known; this trainer can resume from it */
    RtBest best;       /* as it says; step 0: none */
    bool is_best;      /* according to the newest one */
    const char *is;    /* "whole", "damaged", "unfinished", "aside" */
    char why[RT_ERROR_BYTES];
} Line;

/* `seq = N` of another trainer's numerics.txt; 0: missing. */
static int64_t seq_of(const char *folder)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES], error[RT_ERROR_BYTES];
    int64_t bytes = 0;
    long long seq = 0;
    snprintf(path, sizeof path, "%s/numerics.txt", folder);
    char *text = rt_file_load(path, 1 << 24, &bytes, error);
    const char *at = text != NULL ? strstr(text, "\nseq = ") : NULL;
    const bool found = at != NULL && sscanf(at, "\nseq = %lld\n", &seq) == 1;
    free(text);
    return found ? seq : 0;
}

static bool read_state(const RtTrainer *t, const char *folder, Line *l)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    int64_t bytes = 0, tokens = 0;
    RtTrainState s;
    snprintf(path, sizeof path, "%s/train_state.json", folder);
    char *text = rt_file_load(path, 1 << 24, &bytes, l->why);
    l->known = text != NULL && rt_state_read(&s, text, bytes);
    if (text != NULL && !l->known)
        snprintf(l->why, sizeof l->why, "train_state.json cannot be understood");
    free(text);
    if (!l->known)
        return false;
    l->numerics = s.numerics_hash;
    l->ours = s.numerics_hash == t->numerics_hash;
    l->best = s.best;
    const int64_t seq = l->ours ? t->seq_tokens : seq_of(folder);
    l->tokens = s.tokens >= 0                                                 ? s.tokens
                : seq > 0 && !__builtin_mul_overflow(s.samples, seq, &tokens) ? tokens
                                                                              : -1;
    return true;
}

/* Reads a folder that has, or should have, a MANIFEST. */
static void read_checkpoint(const RtTrainer *t, const char *folder, Line *l)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    RtManifest m;
    struct stat s;
    snprintf(path, sizeof path, "%s/MANIFEST", folder);
    l->written = stat(path, &s) == 0 ? s.st_mtime : 0;
    l->is = "damaged";
    l->bytes = l->tokens = -1;
    if (!rt_manifest_read(&m, folder, l->why))
        return;
    l->step = m.step;
    l->bytes = rt_manifest_bytes(&m);
    if (rt_manifest_sizes(&m, folder, l->why) && read_state(t, folder, l))
        l->is = "whole";
    rt_manifest_free(&m);
}

/* ---- lines ----------------------------------------------------------------------- */

static void print_text(const Line *l)
{
    char when[32] = "-", numerics[32] = "-", size[32] = "-", tokens[32] = "-";
    char best[64] = "";
    struct tm local;
    if (l->written != 0 && localtime_r(&l->written, &local) != NULL)
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    if (l->bytes >= 0)
        snprintf(size, sizeof size, "%.2f MiB", (double)l->bytes / 1048576.0);
    if (l->tokens >= 0)
        snprintf(tokens, sizeof tokens, "%lld", (long long)l->tokens);
    if (l->known)
        snprintf(numerics, sizeof numerics, "%016llx", (unsigned long long)l->numerics);
    if (l->is_best)
        snprintf(best, sizeof best, ", the best: loss %.5f", l->best.loss);
    printf("%-22s %14s  %-19s  %-16s  %-7s %15s  %s%s%s%s\n", l->folder, size, when,
           numerics,
           !l->known ? "-"
           : l->ours ? "this"
                     : "another",
           tokens, l->is, best, l->why[0] != '\0' ? ": " : "", l->why);
}

static void print_json(const Line *l, bool first)
{
    printf("%s  {\"folder\": ", first ? "" : ",\n");
    rt_json_put(stdout, l->folder);
    printf(", \"is\": \"%s\"", l->is);
    if (l->step >= 0)
        printf(", \"step\": %lld", (long long)l->step);
    if (l->bytes >= 0)
        printf(", \"bytes\": %lld", (long long)l->bytes);
    if (l->written != 0)
        printf(", \"written\": %lld", (long long)l->written);
    if (l->known) {
        printf(", \"numerics\": \"%016llx\", \"this_trainer\": %s",
               (unsigned long long)l->numerics, l->ours ? "true" : "false");
    }
    if (l->tokens >= 0)
        printf(", \"tokens\": %lld", (long long)l->tokens);
    if (l->is_best) {
        printf(", \"best\": true, \"eval_loss\": ");
        rt_json_number(stdout, l->best.loss);
    }
    if (l->why[0] != '\0') {
        printf(", \"why\": ");
        rt_json_put(stdout, l->why);
    }
    printf("}");
}

static void print_line(const RtFlags *f, const Line *l, int *n)
{
    if (f->json) {
        print_json(l, *n == 0);
    } else {
        if (*n == 0) {
            printf("%-22s %14s  %-19s  %-16s  %-7s %15s  %s\n", "folder", "size",
                   "written", "numerics", "trainer", "tokens", "is");
        }
        print_text(l);
    }
    ++*n;
}

/* Lists remains of interrupted saves and removals, and what did not verify. */
static void list_rests(const RtFlags *f, int *n)
{
    char path[RT_PATH_BYTES + 256];
    DIR *d = opendir(f->folder);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        long long step;
        int aside, end = 0;
        struct stat s;
        Line l = {.folder = e->d_name, .step = -1, .bytes = -1, .tokens = -1};
        if (rt_file_is_rest(e->d_name))
            l.is = e->d_name[2] == 'm' ? "unfinished" : "being removed";
        else if (sscanf(e->d_name, "step-%lld.damaged%d%n", &step, &aside, &end) == 2 &&
                 e->d_name[end] == '\0')
            l.is = "kept aside: it did not verify";
        else
            continue;
        snprintf(path, sizeof path, "%s/%s", f->folder, e->d_name);
        l.written = stat(path, &s) == 0 ? s.st_mtime : 0;
        print_line(f, &l, n);
    }
    if (d != NULL)
        closedir(d);
}

int rt_ls(const RtTrainer *t, const RtFlags *f)
{
    char path[RT_PATH_BYTES];
    int64_t *steps;
    bool is_one;
    int printed = 0;
    RtBest best = {0};
    bool found = false; /* what the newest one says about it */
    const int n = rt_folder_steps(f->folder, &steps, &is_one);
    if (n < 0)
        return RT_EXIT_ERROR;
    if (f->json)
        printf("[\n");
    for (int i = 0; i < (is_one ? 1 : n); i++) {
        Line l = {.step = is_one ? -1 : steps[i]};
        rt_file_step_path(path, f->folder, "", is_one ? 0 : steps[i]);
        l.folder = is_one ? f->folder : strrchr(path, '/') + 1;
        read_checkpoint(t, is_one ? f->folder : path, &l);
        if (l.why[0] != '\0' && rt_folder_is_removed(is_one ? f->folder : path))
            continue; /* since it was listed */
        best = l.known && !found ? l.best : best;
        found = found || l.known;
        l.is_best = !is_one && l.known && l.step > 0 && l.step == best.step;
        print_line(f, &l, &printed);
    }
    if (!is_one)
        list_rests(f, &printed);
    if (f->json)
        printf(printed > 0 ? "\n]\n" : "]\n");
    else if (printed == 0)
        rt_say("trainer: there is no checkpoint in %s", f->folder);
    free(steps);
    return rt_stdout_close(RT_EXIT_OK);
}
