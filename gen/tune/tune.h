/* SPDX-License-Identifier: Apache-2.0 */
/* tune.h: `fsdpgen tune`: which choices outside the hash make a step fastest. tune.c is the command;
 * tune_axes.c lists the candidates, tune_plan.c plans each, tune_measure.c builds and runs the best,
 * tune_wisdom.c keeps what was measured, tune_choose.c chooses one, tune_print.c and tune_page.c show the
 * result, and tune_override.c writes it.
 *
 * Candidates' numbers decide their order and ties, so the same measurements always give the same
 * result. */
#ifndef TUNE_H
#define TUNE_H

#include "gen.h"

/* One thing that is varied. A value is the fields that it sets, "a=1 b=2" split into a list. */
typedef struct TuneValue { OptionList sets; } TuneValue;
typedef struct TuneAxis {
    const char *name; /* a field, or "mesh and strategy" */
    struct { TuneValue *items; int count, cap; } values;
} TuneAxis;
typedef struct TuneAxes { TuneAxis *items; int count, cap; } TuneAxes;

/* What planning finds out about a description; plain data, because a child sends it. */
typedef struct TunePlan {
    int code;                /* EXIT_DONE: it fits, EXIT_FIT: too large, EXIT_DIAG: refused */
    uint64_t fields;         /* with fields_only: the hash of all resolved fields, 0: an error */
    uint64_t numerics, resolved; /* hashes of the numerics, of all resolved fields */
    uint64_t program, target; /* and of all instructions of a step, of the resolved target */
    int64_t params, bytes, budget_bytes; /* of the model; of a rank */
    double seconds;          /* a step, predicted */
    double usd;              /* an hour of a GPU, by the datasheet of its node; 0: unknown */
    int64_t nodes, near_ranks; /* that the ranks lie on; that links join */
    char node[32], fabric[32]; /* the datasheets; "": none */
    int64_t step_tokens, seq_tokens, vocab, global_batch; /* of all ranks; sequences */
    int64_t parts[N_PARTS_AXES];
    int64_t world_size, node_ranks, tensor_ranks;
    int64_t blocks, rounds, document_end; /* -1: no documents */
    bool cpu, masked, auto_recompute;
    char why[240];           /* refused: the first error */
} TunePlan;

typedef struct Candidate {
    int id;                  /* 0: the description as it is */
    OptionList sets;         /* in addition to those of the command line */
    OptionList changes;      /* those of them that the description does not set already */
    TunePlan plan;
    const char *left_out;    /* why it is not ranked; NULL: it is */
    struct { double *items; int count, cap; } step_seconds; /* measured: the median of each run */
    double median;           /* of them; 0: not measured */
    const char *weights;     /* their hash after the run; NULL: not measured */
    const char *platform;    /* its hash, of the log: weights and times hold there; NULL: unknown */
    const char *failed;      /* why it could not be measured; or NULL */
    bool built;
} Candidate;

typedef struct TuneKnown { const char *set; bool own; } TuneKnown; /* own: the description sets it */

enum { TUNE_LINES = 16 };    /* of the table while it is measured */
typedef struct TuneLive {
    Candidate *const *picks; /* that are measured */
    int n, runs, place;      /* runs: of all; place: in the building of all */
    const Candidate *now;    /* the one built or run at the moment */
    const char *doing;       /* "building", "running" */
    int64_t begun;           /* seconds of the monotonic clock */
    bool screen;             /* stderr is a terminal that can redraw */
    int drawn, length[TUNE_LINES]; /* lines on it, and their columns */
} TuneLive;

typedef struct Tune {
    Gen *g;
    TunePlan base;
    TuneAxes axes;
    struct { Candidate *items; int count, cap; } all;
    struct { Candidate **items; int count, cap; } ranked; /* those that fit, the best first */
    struct { TuneKnown *items; int count, cap; } known;
    int planned, refused, large, twice, other_numerics, endless;
    int64_t measure;         /* how many candidates run, not counting the description */
    int64_t steps, minutes;  /* of a run; of all runs and builds */
    const char *work;        /* folder of the trainers */
    bool own_work;           /* ours, and removed at the end */
    const char *data;        /* of the runs */
    const char *wisdom;      /* file, or NULL */
    int set_aside;           /* runs in it of another platform */
    int broke;               /* the exit code that ended the runs early; or EXIT_DONE */
    bool written;            /* -o */
    int stopped;             /* by this signal, or 0 */
    TuneLive live;
} Tune;

/* tune_axes.c. Makes axes of words FIELD=A,B,C, or without words the axes of a model; then adds all
 * combinations after candidate 0. Returns an exit code. */
int tune_axes(Tune *t);
const char *tune_sets_text(Gen *g, const OptionList *sets, const char *between); /* "": none */

/* tune_plan.c. Plans the description with the fields of each job, in children; fields_only: only reads
 * the fields. Calls done after each. Returns an exit code: of the children, not of the plans. */
typedef struct TuneJob { const OptionList *sets; TunePlan *plan; } TuneJob;
int tune_plan(Gen *g, const TuneJob *jobs, int n, bool fields_only, void (*done)(void *with),
              void *with);
/* Prints the messages of the description with those fields. Returns an exit code. */
int tune_check(Gen *g, const OptionList *sets);
/* Generates it to that folder. Returns an exit code. */
int tune_generate(Gen *g, const OptionList *sets, const char *folder);

/* tune_measure.c. Builds and runs the best ones, turn by turn. Returns an exit code where it could not
 * begin. */
int tune_measure(Tune *t);

/* The median of its runs. */
void tune_settle(Tune *t, Candidate *c);
/* The platform of its trainer here and now, which is built for that; NULL: it cannot be. */
const char *tune_platform(Tune *t, Candidate *c);

/* tune_live.c: a table on a terminal, or lines. Begin; what is done now; what was done; a second
 * passed; clear, before anything else is printed. */
void tune_live_begin(Tune *t, Candidate *const *picks, int n, int runs);
void tune_live_now(Tune *t, const Candidate *c, const char *doing, int place);
void tune_live_done(Tune *t, const Candidate *c);
void tune_live_tick(Tune *t);
void tune_live_clear(Tune *t);

/* tune_run.c. Runs a program in a process group of its own, its output in `log`. It is killed after its
 * time, or when we end. Returns its exit code, 128 + n after signal n; -1: it was stopped. */
int tune_run(Tune *t, const char *const argv[], const char *folder, const char *log, int64_t seconds);
void tune_signals(void);     /* from now on SIGINT and SIGTERM stop the measurement */
int tune_signalled(void);    /* the one that arrived, or 0 */
void tune_remove(const char *folder); /* and everything in it */

/* tune_choose.c. The candidate to take: the fastest of those measured as clearly faster than the
 * description, else the description; without measurements the best predicted one. NULL: nothing
 * fits. */
const Candidate *tune_best(const Tune *t);
const Candidate *tune_fastest(const Tune *t); /* measured, even if by chance; NULL: none was */
bool tune_is_kept(const Tune *t); /* was another one faster, but not clearly? */
bool tune_is_clear(const Candidate *c, const Candidate *own); /* is c faster than own? */
bool tune_is_open(const Tune *t, const Candidate *c); /* may more runs of it change the choice? */
double tune_rate(const Candidate *c, double seconds); /* tokens a second */

/* tune_wisdom.c. Reads what was measured before; adds a run, on the disk when it returns. */
int tune_wisdom_read(Tune *t);
int tune_wisdom_add(Tune *t, const Candidate *c, double step_seconds);

/* tune_print.c */
bool tune_is_shown(const Tune *t, int place); /* in the table; from 0 */
const char *tune_sets_of(const Tune *t, const Candidate *c); /* for people */
const char *tune_measured_of(Gen *g, const Candidate *c); /* "0.4011 s x5"; "-": not measured */
void tune_print(const Tune *t);
void tune_print_json(const Tune *t);

/* tune_override.c, -o: refuses to replace a file that tune did not write; writes the best one as a
 * description, and loads it. Both return an exit code. */
int tune_override_check(Gen *g);
int tune_override_write(const Tune *t);

/* tune_page.c, --html: checks that the file may be written; writes it. Both return an exit code. */
int tune_page_check(Gen *g);
int tune_page(const Tune *t);

/* size.c: `fsdpgen size`. Returns an exit code. */
int size_command(Gen *g);

/* tune.c. Returns an exit code. */
int tune_command(Gen *g);

#endif
