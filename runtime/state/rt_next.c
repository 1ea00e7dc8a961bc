/* SPDX-License-Identifier: MIT-0 */
/* rt_next.c: suggests commands when a run has ended. In: its flags, how it ended. Out: on
 * stdout where its checkpoint is, and commands that can be pasted: to continue, to
 * sample, to evaluate (on HELD_OUT, a file to be named, without --eval). */
#include "job/rt_file.h"
#include "state/rt_state.h"

#include <string.h>

/* ---- words quoted for a shell ---------------------------------------------------- */

static bool is_plain(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_./:=,@%+-";
    return *word != '\0' && word[strspn(word, plain)] == '\0';
}

/* Does it have bytes that a terminal might obey, or that are not characters? These are
 * written in bash's form. */
static bool is_shown(const char *word)
{
    while (*word != '\0' && rt_say_shown(word) > 0)
        word += rt_say_shown(word);
    return *word == '\0';
}

static void put_word(const char *word)
{
    if (is_plain(word)) {
        printf(" %s", word);
        return;
    }
    const bool shown = is_shown(word);
    printf(shown ? " '" : " $'");
    for (const char *p = word; *p != '\0'; p++) {
        const unsigned char c = (unsigned char)*p;
        if (*p == '\'')
            printf(shown ? "'\\''" : "\\'");
        else if (!shown && (c < 32 || c >= 127 || c == '\\'))
            printf("\\x%02x", c);
        else
            putchar(c);
    }
    putchar('\'');
}

/* ---- commands -------------------------------------------------------------------- */

static void put_command(const RtFlags *f, const char *word)
{
    put_word(f->argv[0]);
    if (word != NULL)
        put_word(word);
}

static void put_flag(const char *flag, const char *value)
{
    printf(" --%s", flag);
    put_word(value);
}

/* Is the word --FLAG or --FLAG=...? whole: its value is the next word. */
static bool is_flag(const char *word, const char *flag, bool *whole)
{
    const size_t n = strlen(flag);
    if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, flag, n) != 0)
        return false;
    *whole = word[2 + n] == '\0';
    return *whole || word[2 + n] == '=';
}

/* The same command, with more steps; 0: with its own number. Other numerics were accepted
 * once, and the checkpoint says so. */
static void put_same(const RtFlags *f, int64_t steps)
{
    bool whole;
    put_command(f, NULL);
    for (int i = 1; i < f->argc; i++) {
        if (is_flag(f->argv[i], "resume", &whole) ||
            is_flag(f->argv[i], "accept-numerics", &whole))
            continue;
        if (steps > 0 && (is_flag(f->argv[i], "steps", &whole) ||
                          is_flag(f->argv[i], "epochs", &whole))) {
            i += whole;
            continue;
        }
        put_word(f->argv[i]);
    }
    printf(" --resume");
    if (steps > 0)
        printf(" --steps %lld", (long long)steps);
    printf("\n");
}

static void put_sample(const RtTrainer *t, const RtFlags *f)
{
    if (t->evaluate == NULL)
        return;
    printf("sample:   ");
    put_command(f, "sample");
    put_flag("checkpoint", f->checkpoint);
    put_flag("prompt", rt_is_of_bytes(t) ? "The " : "0"); /* text, or a token's id */
    printf("\n");
}

static void put_evaluate(const RtFlags *f)
{
    printf("evaluate: ");
    put_command(f, "eval");
    put_flag("checkpoint", f->checkpoint);
    for (int i = 0; i < f->n_eval; i++)
        put_flag("data", f->eval[i]);
    if (f->n_eval == 0) /* not the training data: that loss says little */
        put_flag("data", "HELD_OUT");
    printf("\n");
}

/* The step at which the learning rate's schedule ends; 0: it has no end. */
static int64_t end_of(const RtSchedule *s)
{
    return s->ratio == rt_lr_constant || s->ratio == rt_lr_inverse_sqrt ? 0 : s->steps;
}

/* Twice the steps, but not more than the schedule has. A run may be past its --steps. */
static void put_more(const Rt *rt, const RtFlags *f)
{
    const int64_t end = end_of(&rt->trainer->schedule);
    const int64_t done = f->steps > rt->state->step ? f->steps : rt->state->step;
    if (end > 0 && done >= end) {
        printf(
            "train on:  the learning rate's schedule ends here; for more, generate with "
            "a larger\n           lr.steps, and continue with --resume "
            "--accept-numerics\n");
        return;
    }
    printf("train on: ");
    put_same(f, end > 0 && 2 * done > end ? end : 2 * done);
}

void rt_next_print(const Rt *rt, bool stopped)
{
    const RtFlags *f = &rt->state->flags;
    char folder[RT_PATH_BYTES], error[RT_ERROR_BYTES];
    RtJoin join;
    if (f->checkpoint == NULL) {
        printf("the weights were not kept: --checkpoint DIR does\n");
        return;
    }
    if (rt_file_step_path(folder, f->checkpoint, "", rt->state->step))
        printf("saved in:  %s\n", folder);
    if (!f->local && rt_join_find(&join, error)) {
        printf("to go on: the same command with --resume%s\n",
               stopped ? "" : " and more --steps");
        return;
    }
    if (stopped) {
        printf("to go on:");
        put_same(f, 0);
    } else {
        put_more(rt, f);
        put_sample(rt->trainer, f);
        put_evaluate(f);
    }
}
