/* SPDX-License-Identifier: Apache-2.0 */
/* sim_stream.h: work that the host has enqueued: streams, events, graphs. An operation
 * runs at any time after all that it waits for, in an order of the seed; late ones, too,
 * for most run only when the host waits for something. What is ordered before what is
 * known exactly, so that sim_access.c finds two operations that touch one place without a
 * wait between them, whatever order they ran in. */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "sim_private.h"

enum { SIM_WINDOW = 8192, SIM_WHAT_BYTES = 96 };

typedef enum { SIM_OP_DONE, SIM_OP_LATER } SimResult;

typedef struct SimOp SimOp;
typedef SimResult (*SimRun)(SimOp *op);

/* What an operation is made of; a node of a graph, where it is captured. */
typedef struct SimWork {
    SimRun run; /* LATER: it waits for other ranks; call again */
    void (*begin)(
        SimOp *op); /* when it is enqueued for real, in the host's order; or NULL */
    void *payload;  /* a copy, the graph's or the operation's own */
    size_t payload_bytes;
    char what[SIM_WHAT_BYTES];
} SimWork;

struct SimOp {
    SimWork work;
    bool done, owns_payload;
    uint32_t id;
    int64_t state[2]; /* for begin and run */
    uint32_t *dep;
    int n_deps;
    uint64_t
        before[SIM_WINDOW / 64]; /* which of this epoch's operations are ordered before */
};

typedef struct SimIds {
    uint32_t *items;
    int count, cap;
} SimIds;

typedef struct SimNode {
    SimWork work;
    SimIds deps;  /* nodes */
    bool awaited; /* by another node */
} SimNode;

typedef struct SimGraph {
    SimNode *items;
    int count, cap;
    int users;      /* captures under way, graphs and executables */
    int64_t serial; /* of all captures, from 1 */
    struct SimGraph *next;
} SimGraph;

typedef struct SimStream {
    uint32_t last; /* operation; 0: none */
    SimIds waits;  /* the next one waits for these, too */
    bool blocking; /* with the legacy default stream */
    bool used;
    SimGraph *capture;
    uint32_t outside; /* last, as it was before the capture */
    bool origin;      /* of the capture */
    struct SimStream *next;
} SimStream;

typedef struct SimEvent {
    uint32_t op;     /* 0: never recorded */
    int64_t capture; /* its serial, when it was recorded in one; else 0 */
    uint32_t node;   /* of that graph, from 1 */
    double seconds;
} SimEvent;

/* Time as the device's events have it: operations that cost something add to it. The
 * cache is cold after a fill of all of it, until a product has read its operands. */
extern double sim_clock_us;
extern bool sim_cache_cold;

/* One lock around everything: the host may have several threads. */
void sim_lock(void);
void sim_unlock(void);

SimStream *sim_stream_create(bool blocking);
void sim_stream_destroy(SimStream *s);
/* NULL, as the runtime API has it, is the legacy default stream. */
SimStream *sim_stream(void *handle);

void sim_enqueue(SimStream *s, const SimWork *work);
void sim_event_record(SimEvent *e, SimStream *s);
/* False: the stream is being captured and the event is not of the capture, or was
 * recorded in one that has ended. */
bool sim_event_await(SimStream *s, const SimEvent *e);
bool sim_is_done(uint32_t op);
/* The host waits, and runs what may run. */
void sim_wait(uint32_t op);
void sim_wait_all(void);
/* Runs some of what may run, as a device would meanwhile. */
void sim_progress_some(void);

bool sim_capture_begin(SimStream *s);
/* What waits for the device or allocates asks first: true while a capture is under way,
 * which is then spoilt. */
bool sim_capture_spoilt(void);
/* NULL: a stream that joined the capture was not joined again; or it was spoilt. */
SimGraph *sim_capture_end(SimStream *s, bool *spoilt);
void sim_graph_launch(SimGraph *g, SimStream *s);
void sim_graph_release(SimGraph *g);
/* True when a graph has a node of which `holds` is true. */
bool sim_graphs_hold(bool (*holds)(const SimWork *work, const void *what),
                     const void *what);

/* An access by the operation that runs, as a library makes it: rows of `bytes`, `stride`
 * apart. */
void sim_touch_rows(const void *p, int64_t rows, int64_t bytes, int64_t stride,
                    bool write);

#endif
