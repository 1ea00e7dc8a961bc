/* SPDX-License-Identifier: MIT-0 */
/* rt_main.c: the life of a trainer. In: the emitted RtTrainer, the command line. Out:
 * a run, and its exit code. The order is rt_main → rt_launch_ranks or rt_join, which
 * return once more in each rank → be_rank. This file is above all rooms and calls each
 * of them. */
#include "checkpoint/rt_checkpoint.h"
#include "data/rt_data.h"
#include "job/rt_out.h"
#include "rt_target.h"
#include "state/rt_state.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void one_step(Rt *rt)
{
    RtState *st = rt->state;
    const double begin = rt_clock();
    atomic_store(&st->shared->rank[rt->rank].step, st->step + 1);
    rt_step_begin(rt);
    rt->trainer->step(rt);
    rt_comm_step_end(rt);
    rt_update_end(rt);
    const double seconds = rt_clock() - begin;
    st->evaluated = false;
    if (rt_eval_due(rt))
        rt_evaluate(rt);
    if (st->step == st->first_step && st->flags.debug_gradients != NULL)
        rt_debug_gradients(rt, st->flags.debug_gradients);
    rt_log_step(rt, seconds);
    rt_events_step(rt, seconds);
    rt_screen_step(rt, seconds);
    rt_best_step(rt);
    rt_update_gate(rt);
    rt_scale_step(rt);
    rt_changed_epoch(rt);
    if (rt_digest_step(rt))
        rt_best_forget(rt);
}

/* False: the folder was removed meanwhile. The weights are last: if they could be opened,
 * the files before were there. */
static bool read_weights(Rt *rt, const char *flag, const char *folder)
{
    rt_config_compare(rt, flag, folder);
    if (rt->state->flags.command == RT_SAMPLE)
        rt_stop_find(rt, folder);
    return rt_import_weights(rt, flag, folder);
}

static void find_weights(Rt *rt)
{
    const RtFlags *f = &rt->state->flags;
    const bool reads = f->command != RT_TRAIN;
    if (!reads && rt_checkpoint_begin(rt))
        return;
    if (!reads && f->init == NULL) {
        rt_init_weights(rt);
        return;
    }
    const char *flag = reads && f->checkpoint != NULL ? "--checkpoint" : "--init";
    while (!read_weights(rt, flag, reads ? rt_find_weights(rt) : rt_find_init(rt))) {
        if (!reads) { /* files beside its weights were read before */
            rt_refuse(rt,
                      "%s: %s was removed since it was verified, by a run that trains "
                      "there: start again",
                      flag, rt->state->weights_from);
        }
        rt->state->weights_from = NULL;
    }
}

/* Opens the data: for training, with what is known of it. */
static void open_data(Rt *rt)
{
    RtState *st = rt->state;
    char error[RT_ERROR_BYTES];
    rt_changed_watch(rt);
    if (st->flags.command == RT_EVAL) {
        rt_eval_open(rt);
        return;
    }
    st->tokens = rt_tokens_open(rt->trainer, st->flags.data, st->flags.n_data, error);
    if (st->tokens == NULL ||
        !rt_tokens_epochs(st->tokens, rt->trainer, 0, &st->flags, error))
        rt_fail(rt, RT_EXIT_ERROR, "%s", error);
    rt_agree_data(rt, "data", st->tokens);
    rt_eval_open(rt);
    rt_digest_open(rt);
    if (rt->rank == 0)
        rt_data_spare(rt, rt_outputs_fail, rt);
}

/* Sets up this rank's memory; then all ranks are present, with equal builds and flags. */
static void meet(Rt *rt, int fd)
{
    RtState *st = rt->state;
    const RtTrainer *t = rt->trainer;
    char error[RT_ERROR_BYTES];
    st->shared_fd = fd;
    if (st->flags.stop_seconds >
        0) /* until the time of a save is known, half is reserved */
        atomic_store(&st->gives_way_ns,
                     st->flags.started_ns + (int64_t)(5e8 * st->flags.stop_seconds));
    st->losses = calloc((size_t)t->micro_batches + 1, sizeof *st->losses);
    if (st->losses == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "out of memory");
    if (!rt_arena_map(rt, fd, st->flags.guard, error))
        rt_fail(rt, RT_EXIT_ERROR, "%s", error);
    rt_agree_builds(rt);
    rt_agree_flags(rt);
}

static void prepare(Rt *rt, int fd)
{
    RtState *st = rt->state;
    meet(rt, fd);
    if (rt->rank == 0)
        rt_outputs_check(rt);
    rt_events_check(rt);
    if (st->flags.calibrate != NULL) {
        rt->trainer->setup(rt);
        return;
    }
    rt_enter(rt, RT_AT_DATA);
    if (st->flags.command != RT_SAMPLE)
        open_data(rt);
    find_weights(rt);
    rt_enter(rt, RT_AT_SETUP);
    rt->trainer->setup(rt);
    if (st->flags.command == RT_TRAIN) {
        rt_enter(rt, RT_AT_LOG);
        rt_screen_start(rt);
        rt_log_start(rt);
        rt_events_open(rt);
    } else {
        rt_eval_print(rt);
    }
}

/* Returns whether it stopped before its last step, with a checkpoint to resume from. */
static bool train(Rt *rt)
{
    RtState *st = rt->state;
    const RtFlags *f = &st->flags;
    bool stopped = rt_checkpoint_asked(rt);
    if (st->step >= f->steps && st->held_out != NULL) {
        rt_evaluate(rt);
        rt_screen_eval(rt);
    }
    for (; st->step < f->steps && !stopped; st->step++) {
        one_step(rt);
        stopped = rt_checkpoint_step(rt);
    }
    return stopped;
}

/* After the last step: prints the requested results, or fails. */
static void conclude(Rt *rt, bool stopped)
{
    const RtState *st = rt->state;
    if (st->flags.guard && !rt_arena_intact(rt))
        rt_fail(rt, RT_EXIT_ERROR, "bytes around the arena were overwritten");
    if (st->flags.weights_hash && !stopped) {
        char text[32];
        const uint64_t hash = rt_weights_hash(rt);
        snprintf(text, sizeof text, "weights %016llx", (unsigned long long)hash);
        if (rt->rank == 0)
            rt_stdout_result(rt, text);
    }
    if (st->lost[0] != '\0' && !stopped)
        rt_fail(rt, RT_EXIT_ERROR, "%s", st->lost);
    if (st->lost[0] != '\0')
        rt_say("trainer: warning: %s", st->lost);
}

/* Returns whether it stopped and is to be resumed. */
static bool work(Rt *rt)
{
    const RtCommand command = rt->state->flags.command;
    bool stopped = false;
    rt_comm_begin(rt);
    if (rt->state->flags.dry_run) {
        rt_dry_rank(rt);
        rt_comm_end(rt);
        return false;
    }
    if (rt->state->flags.calibrate != NULL) {
        rt_calibrate(rt);
        rt_comm_end(rt);
        conclude(rt, false);
        return false;
    }
    rt_complete_weights(rt);
    if (command == RT_SAMPLE)
        rt_sample(rt);
    else if (command == RT_EVAL)
        rt_evaluated(rt);
    else
        stopped = train(rt);
    rt_comm_end(rt);
    if (command == RT_TRAIN) {
        rt_log_end(rt);
        rt_events_close(rt);
        rt_digest_close(rt);
        rt_screen_end(rt, stopped);
    }
    conclude(rt, stopped);
    return stopped;
}

static int be_rank(const RtTrainer *t, const RtFlags *f, const RtSeat *seat)
{
    RtShared *shared = seat->shared;
    const int rank = seat->rank;
    static RtState state;
    static Rt rt;
    state = (RtState){.flags = *f,
                      .shared = shared,
                      .spins = seat->crowded ? 50 : 5000,
                      .loss_scale = t->loss_scale.init,
                      .beta1_power = 1.0,
                      .beta2_power = 1.0};
    rt = (Rt){.rank = rank, .world_size = t->world_size, .trainer = t, .state = &state};
    if (rank == 0 && f->command == RT_TRAIN)
        rt_stdout_begin();
    rt_cores_short_turns(); /* before its threads start */
    rt.threads = rt_cores_team(seat->threads, rank == 0);
    if (f->dry_run)
        meet(&rt, seat->fd);
    else
        prepare(&rt, seat->fd);
    if (work(&rt))
        atomic_store(&shared->again, 1);
    atomic_store(&shared->rank[rank].moved_ns, rt_clock_ns());
    atomic_store(&shared->rank[rank].done, 1); /* from here on it may be killed */
    return RT_EXIT_OK;
}

static int print_hashes(const RtTrainer *t)
{
    printf("numerics %016llx\n", (unsigned long long)t->numerics_hash);
#ifdef RT_CUDA
    printf("platform: its hash names the GPU, so a run prints it with --verbose\n");
#else
    char text[1024];
    const uint64_t platform = rt_platform_hash(t, text, sizeof text);
    printf("platform %016llx %s\n", (unsigned long long)platform, text);
#endif
    return rt_stdout_close(RT_EXIT_OK);
}

/* If a standard descriptor is closed, the shared memory would get its number, and
 * messages would end up in the weights. So it is opened here, read-only: writing fails,
 * as it should. */
static void hold_standard_streams(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
}

/* Reports mistakes in the input once, before any rank starts. */
static bool check_input(const RtTrainer *t, const RtFlags *f, char *error)
{
    if (f->command == RT_SAMPLE)
        return rt_sample_check(t, f, error);
    if (f->command == RT_EVAL)
        return rt_eval_check(t, f, error);
    if (f->calibrate != NULL)
        return true;
    RtTokens *tokens = rt_tokens_open(t, f->data, f->n_data, error);
    if (tokens == NULL)
        return false;
    rt_tokens_close(tokens);
    return rt_eval_check(t, f, error);
}

/* fsdpgen marks a folder while it writes there: a trainer built in between would mix the
 * old one and the new one. */
static bool is_folder_whole(void)
{
    char path[PATH_MAX];
    if (!rt_file_beside_trainer(path, sizeof path, ".fsdpgen-unfinished") ||
        access(path, F_OK) != 0)
        return true;
    rt_say("trainer: error: %s: fsdpgen is writing this folder, or was stopped while it "
           "did: run it again, then make",
           path);
    return false;
}

/* Commands that start no rank. -1: it is not one. */
static int without_ranks(const RtTrainer *t, const RtFlags *f)
{
    if (!is_folder_whole())
        return RT_EXIT_ERROR;
    if (f->numerics_hash)
        return print_hashes(t);
    if (f->command == RT_VERIFY)
        return rt_verify(f);
    if (f->command == RT_LS)
        return rt_ls(t, f);
#ifdef RT_CUDA
    if (f->tune_kernels)
        return rt_tune(t, f);
#else
    if (t->world_size > RT_MACHINE_RANKS) {
        rt_say("trainer: error: it is of %d ranks, and the cpu target starts at most "
               "%d, on one machine; generate with --set mesh.shard=%d",
               t->world_size, RT_MACHINE_RANKS, RT_MACHINE_RANKS);
        return RT_EXIT_USAGE;
    }
#endif
    return -1;
}

/* Starts the ranks, or those that a launcher expects from this process. Returns in the
 * ranks, too, like fork. */
static int start(const RtTrainer *t, const RtFlags *f, const RtJoin *join, bool *is_rank)
{
    RtSeat seat;
    const int code =
        join != NULL ? rt_join(t, f, join, &seat) : rt_launch_ranks(t, f, &seat);
    *is_rank = code == RT_IS_RANK;
    return *is_rank ? be_rank(t, f, &seat) : code;
}

/* --dry-run: among a launcher's processes, the first rank's prints the table. */
static int start_dry(const RtTrainer *t, const RtFlags *f, const RtJoin *join)
{
    const int here =
        join != NULL && join->local_size > 0 ? join->local_size : t->world_size;
    struct RtDry *dry = rt_dry_begin(t, f, here, join == NULL);
    bool is_rank = false;
    RtFlags quiet = *f;
    quiet.profile = NULL;
    const int code = rt_dry_starts(dry) ? start(t, &quiet, join, &is_rank) : RT_EXIT_OK;
    return is_rank ? code : rt_dry_end(dry, code, join == NULL || join->rank == 0);
}

int rt_main(const RtTrainer *trainer, int argc, char **argv)
{
    RtFlags flags;
    hold_standard_streams();
    rt_say_begin(NULL, rt_colors(RT_COLOR_AUTO, STDERR_FILENO));
    if (!rt_limits_stack())
        return RT_EXIT_ERROR;
    signal(SIGXFSZ, SIG_IGN); /* a file size limit becomes an error of write() */
    int rc = rt_flags_parse(&flags, trainer, argc, argv);
    if (rc < 0) {
        rt_say_begin(NULL, rt_colors(flags.color, STDERR_FILENO));
        rc = without_ranks(trainer, &flags);
    }
    if (rc >= 0)
        return rc;
    if (flags.command == RT_TRAIN && flags.checkpoint != NULL && !flags.dry_run)
        rt_signals_early();
    RtJoin join;
    char error[RT_ERROR_BYTES];
    bool is_rank;
    const bool joins = !flags.local && rt_join_find(&join, error);
    if (joins && error[0] != '\0') {
        rt_say("trainer: error: %s", error);
        return RT_EXIT_USAGE;
    }
    if (!joins) {
        RtCores cores;
        rt_cores_find(&cores);
        rt_cores_fit_openmp(&cores, &flags, trainer->world_size, argv);
    }
    if (flags.dry_run)
        return start_dry(trainer, &flags, joins ? &join : NULL);
    if (!joins && !check_input(trainer, &flags, error)) {
        rt_say("trainer: error: %s", error);
        return RT_EXIT_ERROR;
    }
    rc = start(trainer, &flags, joins ? &join : NULL, &is_rank);
    if (is_rank)
        return rc;
    fflush(NULL); /* exit handlers of libraries that only ranks use may hang */
    _exit(rc);
}
