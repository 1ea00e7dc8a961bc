/* SPDX-License-Identifier: Apache-2.0 */
/* op_test.h: the test of op folders, which the command (test_op.c) and this repository's own
 * test call, and what its files share: op_test.c gives Lua the generator, op_test_blame.c places
 * its messages, op_test_numbers.c has the runtime's arithmetic on single numbers, op_test_run.c a
 * call of a kernel; op_test_kernels.c compiles kernels, and op_test_cuda.c is the runtime for
 * launchers of CUDA kernels. */
#ifndef OP_TEST_H
#define OP_TEST_H

#include "emit/emit.h"
#include "graph/graph.h"
#include "op_test/op_test_gpu.h"
#include "rt.h"

enum { OP_TEST_FLIGHT_BYTES = 512 };
typedef struct OpTestOptions {
    const char *ops;    /* a folder of op folders, beside the built-in ones; or NULL */
    const char *only;   /* names, with commas between; NULL: all, or of a person's those of `ops` */
    const char *target; /* "cpu", "cuda" */
    const char *root;   /* a folder with runtime/ and tests/cudasim/ */
    const char *work;   /* where C and machine code go */
    const char *cc, *flags;
    const char *products, *make_products; /* a shared object of the runtime's products, made by that
                                           * command for the first kernel that calls them; NULL:
                                           * this program has them */
    const char *device, *nvcc; /* a real GPU: op_test_gpu.c as a shared object, and what makes
                                * cubins; NULL: a simulated one */
    const char *nvcc_check;    /* a command that only compiles a cuda.cu; NULL: there is none */
    int64_t cases, seed;
    int jobs;
    bool digests, golden; /* print them */
    bool bytes;           /* only what kernels of cuda.cu move, against their rules */
    bool formulas;        /* only ops f1, f2, ...: many random formulas, which share files */
    bool person;          /* messages with places, one line for each op */
    bool exact_ends;      /* a sanitizer watches: no guard behind buffers */
    char *flight;         /* what runs now, to be read after a crash; or NULL */
} OpTestOptions;

/* Returns the number of failures; -1: a mistake ended it, after its message. */
int op_test(Gen *g, const OpTestOptions *o);

/* test_op_tools.c */
/* Writes the sources that kernels are compiled with to the folder; false: after a message. */
bool test_op_sources(Gen *g, const char *folder);
/* The library that must come first for AddressSanitizer; NULL: not asked for; "": there is none. */
const char *test_op_asan(Gen *g, const char *work);
/* Fills cc, flags, products and the device; an exit code, with EXIT_TOOL after a message. */
int test_op_tools(Gen *g, OpTestOptions *o);

/* A word of a shell's command line, in quotes. */
const char *op_test_word(Gen *g, const char *s);

enum { MAX_OPERANDS = 16 };

/* An operand's contents while a kernel runs. */
typedef struct Buf {
    Dtype dtype;
    int64_t elems;
    char *data; /* elems, then GUARD_BYTES that must stay as they are */
} Buf;

typedef struct Kernels Kernels; /* all kernels of this run */

/* cuda: of op folders' cuda.cu, on the simulated device; else of their cpu.c. */
Kernels *kernels_open(Gen *g, const OpTestOptions *o, const char *flags, bool cuda);
/* Kernels of cuda.cu become cubins by this command, which takes -o OUT IN. */
void kernels_compile_by(Kernels *k, const char *nvcc);
/* Renders op's cpu.c or cuda.cu for the environment on top of the stack (popped); name:
 * the kernel's. Adds a wrapper of one signature. Returns an id, or -1 when the op has no
 * such file. */
int kernels_add(Kernels *k, const OpRule *op, const char *name, int n_operands, bool beta,
                bool workspace);
/* Compiles what was added since. False: a message was shown. */
bool kernels_compile(Kernels *k, int jobs);
/* data: operands in order of the C signature. An optimizer's kernel takes update, decay
 * and the elements of the first operand. */
void kernels_run(Kernels *k, int id, char **data, float beta, char *workspace);
/* True when the text of the kernel uses vectors of the machine's width (rt_simd.h,
 * rt_gemm.h), whose bits belong to the platform. */
bool kernels_of_platform(const Kernels *k, int id);
/* True when it calls products, whose bits may depend on the number of rows. */
bool kernels_of_products(const Kernels *k, int id);

/* Kernels that are prepared from now on are looked for in this shared object, or on a
 * real device in this image, the file of a cubin. */
void cuda_unit(void *so, const char *image);
/* Around a call: bufs (operands; behind MAX_OPERANDS of them the workspace; NULL: none)
 * and u are the device's memory, and order seeds the order of threads. The second returns
 * what the device found wrong, or NULL; then bufs have what kernels left in them. */
void cuda_begin(const Buf *const *bufs, int n, const RtUpdate *u, int order);
const char *cuda_end(const Buf *const *bufs, int n, const RtUpdate *u);
/* What the simulated device counted of a buffer in the last call, if it counts (sim.h). */
void cuda_traffic(int buf, int64_t counted[4]);
void cuda_count(void);
/* Where the device has what begins at p, between the two; NULL: NULL. */
char *cuda_at(const void *p);

/* The architecture to compile for; a message and exit where there is no device. */
const char *cuda_device(const char *so);

/* Buffers with guards. */
enum { GUARD_BYTES = 4096, GUARD = 0x5a };
extern int buf_guard_bytes; /* GUARD_BYTES, or 0 where a sanitizer watches the ends */
Buf buf_new(Dtype dtype, int64_t elems);
void buf_free(Buf *b);
void buf_put(Buf *b, int64_t i, double v);
double buf_get(const Buf *b, int64_t i);
bool buf_guard_ok(const Buf *b);
double round_to(Dtype dtype, double v);

/* The dtype whose name is at index; an error of the script's if there is none. */
Dtype op_test_dtype(lua_State *L, int index);
/* A function of the runtime, or of its libraries, by its name. */
void *op_test_runtime(const char *name);
/* Where the run of every optimizer test lies. */
extern const RtParam run_param;
enum { RUN_ELEMENT = 3072, RUN_NOISE = 77 };
/* run: calls a kernel as the table at 1 says; three results. */
int op_test_run(lua_State *L, Gen *g, Kernels *kernels, bool cuda);
/* The op whose name is at index; an error if there is none. */
const OpRule *op_test_op(lua_State *L, int index);
/* Adds at and fail to the table on top. */
void op_test_blame(lua_State *L, Gen *g, const OpTestOptions *o);
/* Adds round, noise, noisy, split and joined to the table on top. */
void op_test_numbers(lua_State *L);

#endif
