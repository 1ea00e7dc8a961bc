/* SPDX-License-Identifier: MIT-0 */
/* rt_flags_table.c: the commands and flags of a trainer, and which command takes what.
 * In: the form of rt_flags_table.h. Out: the table that parses, helps, completes and
 * documents. Data only; what flags need of each other is checked in rt_flags.c. */
#include "job/rt_flags_table.h"

#define AT(field) offsetof(RtFlags, field)
#define ENDLESS 9e15 /* below 2^53: exact as a double */

enum {
    TRAIN = 1 << RT_TRAIN,
    SAMPLE = 1 << RT_SAMPLE,
    EVAL = 1 << RT_EVAL,
    VERIFY = 1 << RT_VERIFY,
    LS = 1 << RT_LS
};

#define EXITS_RUN                                                                        \
    "0 done, 1 error, 2 usage, 5 a gate failed, 75 saved, after a signal or for\n"       \
    "--stop-after: run it again with --resume, 128+n ended by signal n."

const RtCommandInfo rt_command_table[RT_COMMANDS] = {
    [RT_TRAIN] = {NULL, "--data FILE [flags]", "trains", false, EXITS_RUN},
    [RT_SAMPLE] = {"sample", "--prompt TEXT --checkpoint DIR [flags]",
                   "continues a prompt", false, EXITS_RUN},
    [RT_EVAL] = {"eval", "--data FILE --checkpoint DIR [flags]",
                 "computes the loss of held-out data", false, EXITS_RUN},
    [RT_VERIFY] =
        {"verify", "DIR [flags]",
         "verifies every byte of the checkpoints in DIR, or of the checkpoint DIR", true,
         "0 everything is intact, 1 it is not, 2 usage."},
    [RT_LS] = {"ls", "DIR [flags]", "lists the checkpoints in DIR", true,
               "0 done, 1 error, 2 usage."},
};

const RtFlagHeading rt_flag_headings[RT_GROUPS] = {
    [RT_GROUP_DATA] = {"Data", RT_FOR_ALL},
    [RT_GROUP_SCHEDULE] = {"Schedule", RT_FOR_ALL},
    [RT_GROUP_CHECKPOINTS] = {"Checkpoints", RT_FOR_ALL},
    [RT_GROUP_OUTPUT] = {"Output", RT_FOR_ALL},
    [RT_GROUP_LAUNCH] = {"Launch", RT_FOR_ALL},
    [RT_GROUP_SAMPLING] = {"Sampling", RT_FOR_ALL},
    [RT_GROUP_GPU] = {"GPU", RT_FOR_CUDA},
    [RT_GROUP_GPUS] = {"Several GPUs", RT_FOR_NCCL},
};

const RtFlag rt_flag_table[] = {
    /* ---- data -------------------------------------------------------------------- */
    {RT_GROUP_DATA, "data", "[FORMAT:]GLOB[=W]",
     "text or token files (text, llmc, nanogpt, megatron), with weight W; repeatable",
     RT_FLAG_DATA, 0, TRAIN, 0, 0},
    {RT_GROUP_DATA, "data", "[FORMAT:]GLOB", "held-out text or token files; repeatable",
     RT_FLAG_EVAL, 0, EVAL, 0, 0},
    {RT_GROUP_DATA, "check-data", NULL,
     "hash all data before the first step, ignore stored digests", RT_FLAG_SWITCH,
     AT(check_data), TRAIN, 0, 0},
    {RT_GROUP_DATA, "eval", "[FORMAT:]GLOB",
     "held-out data: report its loss after the last step; repeatable", RT_FLAG_EVAL, 0,
     TRAIN, 0, 0},
    {RT_GROUP_DATA, "eval-every", "N", "evaluate after every N steps, too", RT_FLAG_COUNT,
     AT(eval_every), TRAIN, 1, ENDLESS},
    {RT_GROUP_DATA, "eval-sequences", "N",
     "evaluate the first N sequences only (default: all)", RT_FLAG_COUNT,
     AT(eval_sequences), TRAIN | EVAL, 1, ENDLESS},

    /* ---- schedule ---------------------------------------------------------------- */
    {RT_GROUP_SCHEDULE, "steps", "N", "stop after N steps (default: the schedule's)",
     RT_FLAG_COUNT, AT(steps), TRAIN, 0, ENDLESS},
    {RT_GROUP_SCHEDULE, "seed", "S",
     "seed of weights and data order (default: the description's)", RT_FLAG_COUNT,
     AT(seed), TRAIN, 0, ENDLESS},
    {RT_GROUP_SCHEDULE, "stop-after", "DURATION",
     "save and exit with 75 before this time has passed: 3600, 90m, 11h30m", RT_FLAG_TIME,
     AT(stop_seconds), TRAIN, 1e-3, 1e9},
    {RT_GROUP_SCHEDULE, "patience", "N",
     "with --eval-every: end after N evaluations in a row without a lower loss",
     RT_FLAG_COUNT, AT(patience), TRAIN, 1, ENDLESS},
    {RT_GROUP_SCHEDULE, "init", "DIR",
     "start from the weights of a Hugging Face folder, a step's, or a run's newest",
     RT_FLAG_DIR, AT(init), TRAIN, 0, 0},

    /* ---- checkpoints ------------------------------------------------------------- */
    {RT_GROUP_CHECKPOINTS, "checkpoint", "DIR",
     "write checkpoints there: after the last step, on signals", RT_FLAG_DIR,
     AT(checkpoint), TRAIN, 0, 0},
    {RT_GROUP_CHECKPOINTS, "checkpoint", "DIR",
     "weights of the newest intact checkpoint in a run's folder, or of a step's folder",
     RT_FLAG_DIR, AT(checkpoint), SAMPLE | EVAL, 0, 0},
    {RT_GROUP_CHECKPOINTS, "best", NULL,
     "take the step with the lowest loss in a run's folder, not the newest",
     RT_FLAG_SWITCH, AT(best), SAMPLE | EVAL, 0, 0},
    {RT_GROUP_CHECKPOINTS, "init", "DIR",
     "weights of a Hugging Face folder, a step's, or a run's newest", RT_FLAG_DIR,
     AT(init), SAMPLE | EVAL, 0, 0},
    {RT_GROUP_CHECKPOINTS, "checkpoint-every", "N", "write a checkpoint every N steps",
     RT_FLAG_COUNT, AT(checkpoint_every), TRAIN, 1, ENDLESS},
    {RT_GROUP_CHECKPOINTS, "checkpoint-seconds", "N",
     "write a checkpoint N seconds after the last one began", RT_FLAG_REAL,
     AT(checkpoint_seconds), TRAIN, 1e-3, 1e9},
    {RT_GROUP_CHECKPOINTS, "keep", "K",
     "keep only the K newest checkpoints (default: all)", RT_FLAG_COUNT, AT(keep), TRAIN,
     1, ENDLESS},
    {RT_GROUP_CHECKPOINTS, "keep-every", "N",
     "with --keep: also keep those of every N steps", RT_FLAG_COUNT, AT(keep_every),
     TRAIN, 1, ENDLESS},
    {RT_GROUP_CHECKPOINTS, "keep-best", NULL,
     "with --eval: save each step with the lowest loss so far, and keep the last such "
     "one",
     RT_FLAG_SWITCH, AT(keep_best), TRAIN, 0, 0},
    {RT_GROUP_CHECKPOINTS, "keep-going", NULL,
     "continue when a checkpoint cannot be written", RT_FLAG_SWITCH, AT(keep_going),
     TRAIN, 0, 0},
    {RT_GROUP_CHECKPOINTS, "wait-for-saves", NULL,
     "pause training while a checkpoint is written (default: a thread writes a copy)",
     RT_FLAG_SWITCH, AT(wait_for_saves), TRAIN, 0, 0},
    {RT_GROUP_CHECKPOINTS, "one-writer", NULL,
     "let one rank write each file of a checkpoint (default: if a test requires it)",
     RT_FLAG_SWITCH, AT(one_writer), TRAIN, 0, 0},
    {RT_GROUP_CHECKPOINTS, "resume", "[=must]",
     "continue from the newest intact checkpoint; must: fail if there is none",
     RT_FLAG_MUST, AT(resume), TRAIN, 0, 0},
    {RT_GROUP_CHECKPOINTS, "accept-data", NULL,
     "with --resume: continue with other data than the checkpoint's", RT_FLAG_SWITCH,
     AT(accept_data), TRAIN, 0, 0},
    {RT_GROUP_CHECKPOINTS, "accept-numerics", NULL,
     "with --resume: continue with other mathematics; keep weights and step",
     RT_FLAG_SWITCH, AT(accept_numerics), TRAIN, 0, 0},

    /* ---- output ------------------------------------------------------------------ */
    {RT_GROUP_OUTPUT, "log", "FILE", "write a JSON object per step", RT_FLAG_FILE,
     AT(log), TRAIN, 0, 0},
    {RT_GROUP_OUTPUT, "stats", "FILE",
     "write the counters of every rank at the end, as JSON", RT_FLAG_FILE, AT(stats),
     TRAIN, 0, 0},
    {RT_GROUP_OUTPUT, "debug-gradients", "FILE",
     "write norm and projections of each gradient of the first step", RT_FLAG_FILE,
     AT(debug_gradients), TRAIN, 0, 0},
    {RT_GROUP_OUTPUT, "force", NULL,
     "let --log, --stats and similar flags replace foreign files", RT_FLAG_SWITCH,
     AT(force), TRAIN, 0, 0},
    {RT_GROUP_OUTPUT, "quiet", NULL, "print no line per step", RT_FLAG_SWITCH, AT(quiet),
     TRAIN, 0, 0},
    {RT_GROUP_OUTPUT, "weights-hash", NULL, "print `weights HASH` at the end",
     RT_FLAG_SWITCH, AT(weights_hash), TRAIN, 0, 0},
    {RT_GROUP_OUTPUT, "numerics-hash", NULL,
     "print the numerics and platform hashes and exit", RT_FLAG_SWITCH, AT(numerics_hash),
     TRAIN, 0, 0},
    {RT_GROUP_OUTPUT, "platform-hash", NULL, "same as --numerics-hash", RT_FLAG_SWITCH,
     AT(numerics_hash), TRAIN, 0, 0},
    {RT_GROUP_OUTPUT, "peak-tflops", "X", "peak of one rank's cores, for the MFU",
     RT_FLAG_REAL, AT(peak_tflops), TRAIN, 1e-9, 1e9},
    {RT_GROUP_OUTPUT, "json", NULL, "print JSON", RT_FLAG_SWITCH, AT(json),
     EVAL | VERIFY | LS, 0, 0},

    /* ---- launch ------------------------------------------------------------------ */
    {RT_GROUP_LAUNCH, "threads", "T",
     "threads of each rank (default: OMP_NUM_THREADS, or cores / ranks)", RT_FLAG_COUNT,
     AT(threads), TRAIN | SAMPLE | EVAL, 1, 1024},
    {RT_GROUP_LAUNCH, "threads", "T", "threads that read (default: one per core)",
     RT_FLAG_COUNT, AT(threads), VERIFY, 1, 1024},
    {RT_GROUP_LAUNCH, "dry-run", NULL,
     "check data, memory, disk, checkpoints, files and the launch; train nothing",
     RT_FLAG_SWITCH, AT(dry_run), TRAIN, 0, 0},
    {RT_GROUP_LAUNCH, "deadline", "SECONDS",
     "end the job when a rank makes no progress for longer", RT_FLAG_REAL,
     AT(deadline_seconds), TRAIN | SAMPLE | EVAL, 0.01, 1e9},
    {RT_GROUP_LAUNCH, "local", NULL, "start the ranks here, even under a launcher",
     RT_FLAG_SWITCH, AT(local), TRAIN | SAMPLE | EVAL, 0, 0},
    {RT_GROUP_LAUNCH, "secret", "FILE",
     "under a launcher: file with the job's shared secret, readable only by you "
     "(default: FSDPGEN_SECRET)",
     RT_FLAG_FILE, AT(secret), TRAIN | SAMPLE | EVAL, 0, 0},
    {RT_GROUP_LAUNCH, "guard", NULL,
     "inaccessible pages around the arena (or RT_GUARD=1)", RT_FLAG_SWITCH, AT(guard),
     TRAIN | SAMPLE | EVAL, 0, 0},

    /* ---- sampling ---------------------------------------------------------------- */
    {RT_GROUP_SAMPLING, "prompt", "TEXT", "text to continue, or token ids", RT_FLAG_TEXT,
     AT(prompt), SAMPLE, 0, 0},
    {RT_GROUP_SAMPLING, "tokens", "N", "how many tokens to add (default: 200)",
     RT_FLAG_COUNT, AT(sample_tokens), SAMPLE, 1, 1e9},
    {RT_GROUP_SAMPLING, "temperature", "T",
     "below 1: safer, 0: the likeliest token (default: 1)", RT_FLAG_REAL, AT(temperature),
     SAMPLE, 0, 1e6},
    {RT_GROUP_SAMPLING, "top-k", "K", "sample among the K likeliest tokens only",
     RT_FLAG_COUNT, AT(top_k), SAMPLE, 1, 1e9},
    {RT_GROUP_SAMPLING, "top-p", "P",
     "sample among the likeliest tokens of total probability P", RT_FLAG_REAL, AT(top_p),
     SAMPLE, 1e-9, 1},
    {RT_GROUP_SAMPLING, "stop", "ID[,ID...]",
     "end before one of these ids, or none (default: the model's eos_token_id)",
     RT_FLAG_NAME, AT(stop), SAMPLE, 0, 0},
    {RT_GROUP_SAMPLING, "seed", "S", "seed of the samples", RT_FLAG_COUNT, AT(seed),
     SAMPLE, 0, ENDLESS},

    /* ---- GPU --------------------------------------------------------------------- */
    {RT_GROUP_GPU, "no-graphs", NULL,
     "enqueue every step call by call, not as CUDA graphs", RT_FLAG_SWITCH, AT(no_graphs),
     TRAIN, 0, 0},
    {RT_GROUP_GPU, "tune-kernels", NULL,
     "time algorithms of matrix products, write kernels.wis, exit", RT_FLAG_SWITCH,
     AT(tune_kernels), TRAIN, 0, 0},
    {RT_GROUP_GPU, "profile", "FILE",
     "write the time of every kernel and product, as JSON; slows steps", RT_FLAG_FILE,
     AT(profile), TRAIN, 0, 0},
    {RT_GROUP_GPU, "kernels", "FILE",
     "file of algorithms (default: kernels.wis beside the trainer)", RT_FLAG_FILE,
     AT(kernels), TRAIN | SAMPLE | EVAL, 0, 0},
    {RT_GROUP_GPUS, "loopback", NULL,
     "ranks share GPUs and exchange through host memory, slowly", RT_FLAG_SWITCH,
     AT(loopback), TRAIN | SAMPLE | EVAL, 0, 0},
    {RT_GROUP_GPUS, "meet", "HOST:PORT",
     "where ranks on several machines meet (default: the launcher's MASTER_ADDR, "
     "MASTER_PORT)",
     RT_FLAG_NAME, AT(meet), TRAIN | SAMPLE | EVAL, 0, 0},
};
const int rt_flag_count = sizeof rt_flag_table / sizeof *rt_flag_table;
