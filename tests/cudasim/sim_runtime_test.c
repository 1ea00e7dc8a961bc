/* SPDX-License-Identifier: Apache-2.0 */
/* sim_runtime_test.c: the stand-ins for the CUDA runtime, cuBLASLt and NCCL, as a trainer
 * sees them. Each case runs in processes of its own, one for each rank, for several
 * seeds; what they print is kept. In: the "cubin" of sim_test.cu. */
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SEEDS = 8, N = 256, MAX_RANKS = 4 };

static struct {
    char said[4096]; /* by the processes of the last case */
    int status[MAX_RANKS];
} last;

/* ---- cases in processes ---------------------------------------------------------- */

static void expect(bool ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "wrong: %s\n", what);
        _exit(3);
    }
}
#define EXPECT(x) expect(x, #x)
#define OK(call) expect((call) == 0, #call)

typedef void (*Case)(int rank, int ranks, const ncclUniqueId *id);

/* True when all of them return. setting: NAME=VALUE of the environment, or NULL. */
static bool run(Case fn, int ranks, int seed, const char *setting)
{
    ncclUniqueId id = {0};
    char seed_text[16];
    int out[2], all = 0;
    pid_t pid[MAX_RANKS];
    ssize_t n;
    size_t at = 0;

    snprintf(seed_text, sizeof seed_text, "%d", seed);
    assert_int_equal(pipe(out), 0);
    if (ranks > 1)
        assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    for (int r = 0; r < ranks; r++) {
        pid[r] = fork();
        assert_true(pid[r] >= 0);
        if (pid[r] == 0) {
            dup2(out[1], 2);
            close(out[0]);
            setenv("CUDASIM_SEED", seed_text, 1);
            if (setting)
                putenv((char *)(uintptr_t)setting);
            alarm(60);
            fn(r, ranks, &id);
            _exit(0);
        }
    }
    close(out[1]);
    while ((n = read(out[0], last.said + at, sizeof last.said - 1 - at)) > 0)
        at += (size_t)n;
    last.said[at] = 0;
    close(out[0]);
    for (int r = 0; r < ranks; r++) {
        waitpid(pid[r], &last.status[r], 0);
        all += last.status[r] == 0;
    }
    return all == ranks;
}

static void run_ok(Case fn, int ranks)
{
    for (int seed = 0; seed < SEEDS; seed++)
        if (!run(fn, ranks, seed, NULL))
            fail_msg("seed %d: %s", seed, last.said);
}

/* ---- a small trainer ------------------------------------------------------------- */

static cudaKernel_t kernel(const char *name)
{
    static cudaLibrary_t library;
    cudaKernel_t k;

    if (!library) {
        int fd = open(SIM_TEST_CUBIN, O_RDONLY);
        void *code =
            mmap(NULL, (size_t)lseek(fd, 0, SEEK_END), PROT_READ, MAP_PRIVATE, fd, 0);

        EXPECT(fd >= 0 && code != MAP_FAILED);
        OK(cudaLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0));
    }
    OK(cudaLibraryGetKernel(&k, library, name));
    return k;
}

static float *device(int n)
{
    void *p;

    OK(cudaMalloc(&p, (size_t)n * sizeof(float)));
    return p;
}

static cudaStream_t stream(void)
{
    cudaStream_t s;

    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static cudaEvent_t event(void)
{
    cudaEvent_t e;

    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    return e;
}

/* y = x * by on the stream */
static void scale(cudaStream_t s, float *x, float *y, float by)
{
    int n = N;
    void *args[] = {&x, &y, &by, &n};

    OK(cudaLaunchKernel((const void *)kernel("scale"), (dim3){N / 64, 1, 1},
                        (dim3){64, 1, 1}, args, 0, s));
}

static void hand_over(cudaStream_t from, cudaStream_t to, cudaEvent_t e)
{
    OK(cudaEventRecord(e, from));
    OK(cudaStreamWaitEvent(to, e, 0));
}

static void set(float *p, float v)
{
    float text[N];

    for (int i = 0; i < N; i++)
        text[i] = v;
    OK(cudaMemcpy(p, text, sizeof text, cudaMemcpyHostToDevice));
}

static bool all_are(const float *p, float v)
{
    float text[N];

    OK(cudaMemcpy(text, p, sizeof text, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++)
        if (text[i] != v)
            return false;
    return true;
}

/* b = 2 a on one stream, c = 3 b on another, b = 5 c on the first again: two waits. */
static void two_streams(int rank, int ranks, const ncclUniqueId *id)
{
    float *a = device(N), *b = device(N), *c = device(N);
    cudaStream_t s = stream(), t = stream();
    cudaEvent_t e = event(), f = event();

    (void)rank, (void)ranks, (void)id;
    set(a, 1);
    scale(s, a, b, 2);
    hand_over(s, t, e);
    scale(t, b, c, 3);
    hand_over(t, s, f);
    scale(s, c, b, 5);
    OK(cudaStreamSynchronize(s));
    OK(cudaDeviceSynchronize());
    EXPECT(all_are(b, 30) && all_are(c, 6));
}

/* b = 2 a on one stream, where a is filled on another: a wait. */
static void first_fill(int rank, int ranks, const ncclUniqueId *id)
{
    float *a = device(N), *b = device(N);
    cudaStream_t s = stream(), t = stream();

    (void)rank, (void)ranks, (void)id;
    OK(cudaMemsetAsync(a, 0, N * sizeof *a, s));
    hand_over(s, t, event());
    scale(t, a, b, 2);
    OK(cudaDeviceSynchronize());
    EXPECT(all_are(b, 0));
}

static void test_streams(void **state)
{
    (void)state;
    run_ok(two_streams, 1);
    run_ok(first_fill, 1);
}

static void test_missing_waits(void **state)
{
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        assert_false(run(two_streams, 1, seed, "CUDASIM_DROP_WAIT=0"));
        assert_non_null(strstr(last.said, "for which no event makes it wait"));
        assert_false(run(two_streams, 1, seed, "CUDASIM_DROP_WAIT=1"));
        assert_non_null(strstr(last.said, "for which no event makes it wait"));
        assert_true(run(two_streams, 1, seed, "CUDASIM_DROP_WAIT=2")); /* there is none */
        assert_false(run(first_fill, 1, seed, "CUDASIM_DROP_WAIT=0"));
        assert_non_null(strstr(last.said, "for which no event makes it wait"));
    }
}

/* The same captured, and replayed: each time b = 30 a, a = b. */
static void captured(int rank, int ranks, const ncclUniqueId *id)
{
    float *a = device(N), *b = device(N), *c = device(N), v = 1;
    cudaStream_t s = stream(), t = stream();
    cudaEvent_t e = event(), f = event();
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    (void)rank, (void)ranks, (void)id;
    kernel("scale"); /* a capture must not load it */
    set(a, 1);
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    scale(s, a, b, 2);
    hand_over(s, t, e);
    scale(t, b, c, 3);
    hand_over(t, s, f);
    scale(s, c, b, 5);
    scale(s, b, a, 1);
    OK(cudaStreamEndCapture(s, &graph));
    EXPECT(all_are(a, 1)); /* nothing has run */
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++) {
        OK(cudaGraphLaunch(exec, s));
        v *= 30;
    }
    OK(cudaStreamSynchronize(s));
    EXPECT(all_are(a, v));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

static void unjoined(int rank, int ranks, const ncclUniqueId *id)
{
    float *a = device(N), *b = device(N);
    cudaStream_t s = stream(), t = stream();
    cudaGraph_t graph;

    (void)rank, (void)ranks, (void)id;
    kernel("scale"); /* a capture must not load it */
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    scale(s, a, b, 2);
    hand_over(s, t, event());
    scale(t, b, a, 3);
    EXPECT(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureUnjoined);
}

/* A captured copy reads pinned memory when the graph runs; a kernel's number is as it
 * was. */
static void captured_numbers(int rank, int ranks, const ncclUniqueId *id)
{
    float *a = device(N), *b = device(N), *pinned, by = 2;
    cudaStream_t s = stream();
    cudaGraph_t graph;
    cudaGraphExec_t exec;

    (void)rank, (void)ranks, (void)id;
    kernel("scale"); /* a capture must not load it */
    OK(cudaHostAlloc((void **)&pinned, N * sizeof *pinned, 0));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(cudaMemcpyAsync(a, pinned, N * sizeof *a, cudaMemcpyHostToDevice, s));
    scale(s, a, b, by);
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 1; i < 4; i++) {
        for (int k = 0; k < N; k++)
            pinned[k] = (float)i;
        by = 100;
        OK(cudaGraphLaunch(exec, s));
        OK(cudaStreamSynchronize(s));
        EXPECT(all_are(b, (float)(2 * i)));
    }
}

/* What a capture does not survive, one by one. */
static void forbidden(int rank, int ranks, const ncclUniqueId *id)
{
    float *a = device(N), *b = device(N), pageable[N] = {0};
    cudaStream_t s = stream(), other = stream();
    cudaEvent_t e = event(), inside = event();
    cudaGraph_t graph;
    cudaError_t said = cudaSuccess;
    void *p;

    (void)rank, (void)ranks, (void)id;
    kernel("scale"); /* a capture must not load it */
    OK(cudaEventRecord(e, s));
    for (int call = 0; call < 9; call++) {
        const cudaError_t expected = call == 8 ? cudaErrorStreamCaptureIsolation
                                               : cudaErrorStreamCaptureUnsupported;

        OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
        scale(s, a, b, 2);
        OK(cudaEventRecord(inside, s));
        switch (call) {
        case 0:
            said = cudaStreamSynchronize(s);
            break;
        case 1:
            said = cudaStreamSynchronize(other);
            break;
        case 2:
            said = cudaDeviceSynchronize();
            break;
        case 3:
            said = cudaStreamQuery(other);
            break;
        case 4:
            said = cudaEventQuery(e);
            break;
        case 5:
            said = cudaMalloc(&p, 100);
            break;
        case 6:
            said = cudaHostAlloc(&p, 100, 0);
            break;
        case 7:
            said =
                cudaMemcpyAsync(a, pageable, sizeof pageable, cudaMemcpyHostToDevice, s);
            break;
        case 8: /* spoils nothing */
            said = cudaStreamWaitEvent(s, e, 0);
            break;
        }
        EXPECT(said == expected);
        EXPECT((cudaStreamEndCapture(s, &graph) == cudaSuccess) == (call == 8));
        EXPECT(cudaEventQuery(inside) == cudaErrorCapturedEvent);
        EXPECT(cudaStreamWaitEvent(other, inside, 0) == cudaErrorStreamCaptureIsolation);
    }
}

static void test_graphs(void **state)
{
    (void)state;
    run_ok(captured, 1);
    run_ok(captured_numbers, 1);
    run_ok(forbidden, 1);
    run_ok(unjoined, 1);
    for (int seed = 0; seed < SEEDS; seed++) {
        assert_false(run(captured, 1, seed, "CUDASIM_DROP_WAIT=1"));
        assert_true(strstr(last.said, "no event makes it wait") ||
                    strstr(last.said, "cudaStreamEndCapture"));
    }
}

static void out_of_memory(int rank, int ranks, const ncclUniqueId *id)
{
    void *p;
    size_t free_bytes, total;

    (void)rank, (void)ranks, (void)id;
    OK(cudaMalloc(&p, 60000));
    EXPECT(cudaMalloc(&p, 60000) == cudaErrorMemoryAllocation);
    OK(cudaMemGetInfo(&free_bytes, &total));
    EXPECT(total == 100000 && free_bytes == 40000);
}

static void test_memory(void **state)
{
    (void)state;
    if (!run(out_of_memory, 1, 1, "CUDASIM_MEMORY=100000"))
        fail_msg("%s", last.said);
    assert_false(run(two_streams, 1, 1, "CUDASIM_FAIL=cudaMalloc:1"));
    assert_non_null(strstr(last.said, "cudaMalloc"));
}

/* ---- products -------------------------------------------------------------------- */

/* Row-major y[t, o] = x[t, i] w[o, i]^T + y, as a trainer asks for it: column-major y^T.
 */
static void product(int rank, int ranks, const ncclUniqueId *id)
{
    enum { T = 5, I = 7, O = 3 };
    float x[T * I], w[O * I], y[T * O], alpha = 1, beta = 1, *dx, *dw, *dy;
    const int32_t transposed = CUBLAS_OP_T;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t la, lb, lc;
    cublasLtMatmulPreference_t wish; /* of x, 16 bytes; of others the default, 256 */
    cublasLtMatmulHeuristicResult_t found;
    int n = 0;
    cudaStream_t s = stream();

    (void)rank, (void)ranks, (void)id;
    for (int i = 0; i < T * I; i++)
        x[i] = (float)(i % 5);
    for (int i = 0; i < O * I; i++)
        w[i] = (float)(i % 4) - 1;
    for (int i = 0; i < T * O; i++)
        y[i] = 100;
    dx = device(T * I + 4), dw = device(O * I), dy = device(T * O);
    OK(cudaMemcpyAsync(dx, x, sizeof x, cudaMemcpyHostToDevice, s));
    OK(cudaMemcpyAsync(dw, w, sizeof w, cudaMemcpyHostToDevice, s));
    OK(cudaMemcpyAsync(dy, y, sizeof y, cudaMemcpyHostToDevice, s));
    OK(cublasLtCreate(&handle));
    OK(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    OK(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, 4));
    OK(cublasLtMatrixLayoutCreate(&la, CUDA_R_32F, I, O, I));
    OK(cublasLtMatrixLayoutCreate(&lb, CUDA_R_32F, I, T, I));
    OK(cublasLtMatrixLayoutCreate(&lc, CUDA_R_32F, O, T, O));
    OK(cublasLtMatmul(handle, desc, &alpha, dw, la, dx, lb, &beta, dy, lc, dy, lc, NULL,
                      NULL, 0, s));
    EXPECT(cublasLtMatmul(handle, desc, &alpha, dw, la, dx, lc, &beta, dy, lc, dy, lc,
                          NULL, NULL, 0, s) != CUBLAS_STATUS_SUCCESS);
    OK(cudaMemcpyAsync(y, dy, sizeof y, cudaMemcpyDeviceToHost, s));
    OK(cudaStreamSynchronize(s));
    for (int t = 0; t < T; t++)
        for (int o = 0; o < O; o++) {
            float sum = 100;

            for (int i = 0; i < I; i++)
                sum += x[t * I + i] * w[o * I + i];
            EXPECT(y[t * O + o] == sum);
        }
    OK(cublasLtMatmulPreferenceCreate(&wish));
    OK(cublasLtMatmulPreferenceSetAttribute(
        wish, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &(uint32_t){16}, 4));
    OK(cublasLtMatmulAlgoGetHeuristic(handle, desc, la, lb, lc, lc, wish, 1, &found, &n));
#define RUN(w, x)                                                                        \
    cublasLtMatmul(handle, desc, &alpha, w, la, x, lb, &beta, dy, lc, dy, lc,            \
                   &found.algo, NULL, 0, s)
    OK(RUN(dw, dx + 4));
    EXPECT(RUN(dw, dx + 2) == CUBLAS_STATUS_INVALID_VALUE);
    EXPECT(RUN(dw + 4, dx) == CUBLAS_STATUS_INVALID_VALUE);
    OK(cudaStreamSynchronize(s));
}

static void test_product(void **state)
{
    (void)state;
    run_ok(product, 1);
}

/* ---- collectives ----------------------------------------------------------------- */

/* Each on a communicator of its own. */
static void collectives(int rank, int ranks, const ncclUniqueId *id)
{
    float *whole = device(N * ranks), *parts = device(N * ranks), *mine = device(N);
    float *from_all = device(N * ranks);
    cudaStream_t s = stream();
    ncclComm_t gather, reduce;

    OK(ncclCommInitRankConfig(&gather, ranks, *id, rank, NULL));
    OK(ncclCommSplit(gather, 0, rank, &reduce, NULL));
    set(whole + N * rank, (float)(rank + 1));
    for (int r = 0; r < ranks; r++)
        set(parts + N * r, (float)(10 * rank + r));
    for (int again = 0; again < 3; again++) {
        OK(ncclAllGather(whole + N * rank, whole, N, ncclFloat32, gather, s));
        OK(ncclReduceScatter(parts, mine, N, ncclFloat32, ncclSum, reduce, s));
        OK(ncclGroupStart());
        for (int r = 0; r < ranks; r++) {
            OK(ncclSend(parts + N * r, N, ncclFloat32, r, reduce, s));
            OK(ncclRecv(from_all + N * r, N, ncclFloat32, r, reduce, s));
        }
        OK(ncclGroupEnd());
    }
    OK(cudaStreamSynchronize(s));
    EXPECT(all_are(mine, (float)(10 * ranks * (ranks - 1) / 2 + ranks * rank)));
    for (int r = 0; r < ranks; r++) {
        EXPECT(all_are(whole + N * r, (float)(r + 1)));
        EXPECT(all_are(from_all + N * r, (float)(10 * r + rank)));
    }
    OK(ncclCommDestroy(reduce));
    OK(ncclCommDestroy(gather));
}

/* A gather that nothing orders before the kernel that reads it. */
static void gather_not_awaited(int rank, int ranks, const ncclUniqueId *id)
{
    float *whole = device(N * ranks), *y = device(N);
    cudaStream_t s = stream(), t = stream();
    ncclComm_t comm;

    OK(ncclCommInitRank(&comm, ranks, *id, rank));
    set(whole + N * rank, 1);
    OK(ncclAllGather(whole + N * rank, whole, N, ncclFloat32, comm, t));
    scale(s, whole, y, 2);
    cudaDeviceSynchronize();
    EXPECT(cudaGetLastError() == cudaSuccess);
}

static void other_counts(int rank, int ranks, const ncclUniqueId *id)
{
    float *whole = device(N * ranks);
    cudaStream_t s = stream();
    ncclComm_t comm;

    OK(ncclCommInitRank(&comm, ranks, *id, rank));
    set(whole + N * rank, 1);
    OK(ncclAllGather(whole + N * rank, whole, rank ? N : N - 1, ncclFloat32, comm, s));
    cudaStreamSynchronize(s);
    EXPECT(cudaGetLastError() == cudaSuccess);
}

/* A peer dies: the others see no end, abort, and leave. */
static void lost_rank(int rank, int ranks, const ncclUniqueId *id)
{
    float *whole = device(N * ranks);
    cudaStream_t s = stream();
    ncclComm_t comm;
    const struct timespec t = {.tv_nsec = 1000000};

    OK(ncclCommInitRank(&comm, ranks, *id, rank));
    set(whole + N * rank, 1);
    OK(ncclAllGather(whole + N * rank, whole, N, ncclFloat32, comm, s));
    for (int i = 0; i < 100; i++) {
        EXPECT(cudaStreamQuery(s) == cudaErrorNotReady || rank == 1);
        nanosleep(&t, NULL);
    }
    OK(ncclCommAbort(comm));
    OK(cudaStreamSynchronize(s));
}

static void graph_outlives_comm(int rank, int ranks, const ncclUniqueId *id)
{
    float *whole = device(N * ranks);
    cudaStream_t s = stream();
    ncclComm_t comm;
    cudaGraph_t graph;

    OK(ncclCommInitRank(&comm, ranks, *id, rank));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    OK(ncclAllGather(whole + N * rank, whole, N, ncclFloat32, comm, s));
    OK(cudaStreamEndCapture(s, &graph));
    OK(ncclCommDestroy(comm));
}

static void test_nccl(void **state)
{
    (void)state;
    run_ok(collectives, 2);
    run_ok(collectives, 4);
}

static void test_nccl_faults(void **state)
{
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        assert_false(run(gather_not_awaited, 2, seed, NULL));
        assert_non_null(strstr(last.said, "no event makes it wait"));
    }
    assert_false(run(other_counts, 2, 1, NULL));
    assert_non_null(strstr(last.said, "for all-gather of 25"));
    assert_false(run(graph_outlives_comm, 2, 1, NULL));
    assert_non_null(strstr(last.said, "NCCL hangs"));
    run(lost_rank, 3, 1, "CUDASIM_LOST=1:0");
    assert_true(WIFSIGNALED(last.status[1]));
    assert_int_equal(last.status[0], 0);
    assert_int_equal(last.status[2], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streams),     cmocka_unit_test(test_missing_waits),
        cmocka_unit_test(test_graphs),      cmocka_unit_test(test_memory),
        cmocka_unit_test(test_product),     cmocka_unit_test(test_nccl),
        cmocka_unit_test(test_nccl_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
