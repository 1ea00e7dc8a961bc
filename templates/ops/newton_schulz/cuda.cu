//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- newton_schulz: the library's products; norm and polynomial in kernels of their own, whose
//@ -- sums have an order that the shape fixes. x may be y: it is read once, before y is written.
//@ local s, wide = math.min(m, n), m <= n
//@ local item = acc == "double" and 8 or 4
//@ local function up(bytes) return (bytes + 63) // 64 * 64 end
//@ local gram_at = up(m * n * item)
//@ local poly_at = gram_at + up(s * s * item)
//@ local sums_at = poly_at + up(s * s * item)
/* The squares of row blockIdx.x, in double. */
RT_GLOBAL(256)
${fn}_squares(const ${acc} *x, double *squares)
{
    RT_SHARED(double, part, 8);
    const ${acc} *row = x + (int64_t)blockIdx.x * ${n};
    double sum = 0;
    for (int j = threadIdx.x; j < ${n}; j += 256)
        sum += (double)row[j] * (double)row[j];
    sum = rt_block_sum<256>(sum, part);
    if (threadIdx.x == 0)
        squares[blockIdx.x] = sum;
}

/* 1 / the norm, in place of the first row's squares. */
RT_GLOBAL(256)
${fn}_factor(double *squares)
{
    RT_SHARED(double, part, 8);
    double sum = 0;
    for (int i = threadIdx.x; i < ${m}; i += 256)
        sum += squares[i];
    const double norm = rt_sqrt(rt_block_sum<256>(sum, part));
    if (threadIdx.x == 0)
        squares[0] = 1 / (norm > ${real(eps)} ? norm : ${real(eps)});
}

RT_GLOBAL(256)
${fn}_scale(const ${acc} *x, const double *factor, ${acc} *y)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i < ${m * n})
        y[i] = x[i] * (${acc})*factor;
}

/* Replaces G by the factor of X: a I + b G + c G^2. */
RT_GLOBAL(256)
${fn}_polynomial(const ${acc} *gram, ${acc} *square)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i < ${s * s}) {
        const ${acc} sum = gram[i] * ${lit(b)} + square[i] * ${lit(c)};
        square[i] = i % ${s + 1} == 0 ? sum + ${lit(a)} : sum;
    }
}
//@ host
${kernel(fn .. "_squares", 256)}
${kernel(fn .. "_factor", 256)}
${kernel(fn .. "_scale", 256)}
${kernel(fn .. "_polynomial", 256)}
//@ -- Every other X is y, which begins where the matrix does.
${gemm(fn .. "_gram", wide and "NT" or "TN", s, s, math.max(m, n), x, x, { c_at = gram_at })}
${gemm(fn .. "_square", "NN", s, s, s, x, x, { a_at = gram_at, b_at = gram_at, c_at = poly_at })}
${gemm(fn .. "_apply", "NN", m, n, s, x, x, { [wide and "a_at" or "b_at"] = poly_at })}
//@ prepare: rt_matmul_prepare(&${fn}_gram);
//@ prepare: rt_matmul_prepare(&${fn}_square);
//@ prepare: rt_matmul_prepare(&${fn}_apply);

/* x, y [${m}, ${n}]; ${steps} steps, the last of which writes y. workspace: every other
 * X; G, its polynomial, [${s}, ${s}] each; the squares of each row */
static void ${fn}(Rt *rt, const void *x, void *y, char *workspace)
{
    void *other = workspace;
    void *gram = workspace + ${gram_at}, *square = workspace + ${poly_at};
    void *squares = workspace + ${sums_at};
    void *now = ${steps % 2 == 1 and "other" or "y"}, *next = ${steps % 2 == 1 and "y" or "other"};

    rt_launch(rt, &${fn}_squares_kernel, ${m}, 1, (void *[]){ &x, &squares });
    rt_launch(rt, &${fn}_factor_kernel, 1, 1, (void *[]){ &squares });
    rt_launch(rt, &${fn}_scale_kernel, ${(m * n + 255) // 256}, 1,
              (void *[]){ &x, &squares, &now });
    for (int step = 0; step < ${steps}; step++) {
        rt_matmul(rt, &${fn}_gram, now, now, gram, 0.0f);
        rt_matmul(rt, &${fn}_square, gram, gram, square, 0.0f);
        rt_launch(rt, &${fn}_polynomial_kernel, ${(s * s + 255) // 256}, 1,
                  (void *[]){ &gram, &square });
        rt_matmul(rt, &${fn}_apply, ${wide and "square, now" or "now, square"}, next, 0.0f);
        void *const done = now;
        now = next;
        next = done;
    }
}
