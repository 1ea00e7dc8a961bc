/* SPDX-License-Identifier: Apache-2.0 */
/* op_test.h: what op_test.c (Lua's window on the generator), op_test_numbers.c (on single
 * numbers), op_test_run.c (on a call of a kernel), op_test_kernels.c (kernels as machine
 * code) and op_test_cuda.c (what launchers of CUDA kernels ask for) share. */
#ifndef OP_TEST_H
#define OP_TEST_H

#include "emit/emit.h"
#include "graph/graph.h"
#include "op_test_gpu.h"
#include "rt.h"

enum { MAX_OPERANDS = 16 };

/* An operand's contents while a kernel runs. */
typedef struct Buf {
    Dtype dtype;
    int64_t elems;
    char *data; /* elems, then GUARD_BYTES that must stay as they are */
} Buf;

typedef struct Kernels Kernels; /* all kernels of this run */

/* cuda: of op folders' cuda.cu, on the simulated device; else of their cpu.c. */
Kernels *kernels_open(Gen *g, const char *folder, const char *cc, const char *flags,
                      bool cuda);
/* Kernels of cuda.cu become cubins by this command, which takes -o OUT IN. */
void kernels_compile_by(Kernels *k, const char *nvcc);
/* Renders op's cpu.c or cuda.cu for the environment on top of the stack (popped); name:
 * the kernel's. Adds a wrapper of one signature. Returns an id, or -1 when the op has no
 * such file. */
int kernels_add(Kernels *k, const OpRule *op, const char *name, int n_operands, bool beta,
                bool workspace);
/* Compiles what was added since, one shared object for each op. False: a message was
 * shown. */
bool kernels_compile(Kernels *k, int jobs);
/* data: operands in order of the C signature. An optimizer's kernel takes update, decay
 * and the elements of the first operand. */
void kernels_run(Kernels *k, int id, char **data, float beta, char *workspace);
/* True when the text of the kernel uses vectors of the machine's width (rt_simd.h,
 * rt_gemm.h), whose bits belong to the platform. */
bool kernels_of_platform(const Kernels *k, int id);

/* Kernels that are prepared from now on are looked for in this shared object, or on a
 * real device in this image, the file of a cubin. */
void cuda_unit(void *so, const char *image);
/* Around a call: bufs (operands; behind MAX_OPERANDS of them the workspace; NULL: none)
 * and u are the device's memory, and order seeds the order of threads. The second returns
 * what the device found wrong, or NULL; then bufs have what kernels left in them. */
void cuda_begin(const Buf *const *bufs, int n, const RtUpdate *u, int order);
const char *cuda_end(const Buf *const *bufs, int n, const RtUpdate *u);
/* Where the device has what begins at p, between the two; NULL: NULL. */
char *cuda_at(const void *p);

/* The architecture to compile for; a message and exit where there is no device. */
const char *cuda_device(const char *so);

/* Buffers with guards. */
enum { GUARD_BYTES = 4096, GUARD = 0x5a };
Buf buf_new(Dtype dtype, int64_t elems);
void buf_free(Buf *b);
void buf_put(Buf *b, int64_t i, double v);
double buf_get(const Buf *b, int64_t i);
bool buf_guard_ok(const Buf *b);
double round_to(Dtype dtype, double v);

/* The dtype whose name is at index; an error of the script's if there is none. */
Dtype op_test_dtype(lua_State *L, int index);
/* Where the run of every optimizer test lies. */
extern const RtParam run_param;
enum { RUN_ELEMENT = 3072, RUN_NOISE = 77 };
/* run: calls a kernel as the table at 1 says; three results. */
int op_test_run(lua_State *L, Gen *g, Kernels *kernels, bool cuda);
/* Adds round, noise, noisy, split and joined to the table on top. */
void op_test_numbers(lua_State *L);

#endif
