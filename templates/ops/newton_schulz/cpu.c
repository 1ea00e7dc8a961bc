//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- newton_schulz: products on tiles that are fixed here (runtime/rt_gemm.h), so that
//@ -- no bit depends on threads. x may be y: it is read once, before y is written.
//@ local s, wide = math.min(m, n), m <= n
//@ local item = acc == "double" and 8 or 4
//@ local function up(bytes) return (bytes + 63) // 64 * 64 end
//@ local gram_at = up(m * n * item)
//@ local poly_at = gram_at + up(s * s * item)
//@ local sums_at = poly_at + up(s * s * item)
${gemm(fn .. "_gram", wide and "NT" or "TN", s, s, math.max(m, n), x, x)}
${gemm(fn .. "_square", "NN", s, s, s, x, x)}
${gemm(fn .. "_apply", "NN", m, n, s, x, x)}
//@ prepare: rt_gemm_prepare(&${fn}_gram);
//@ prepare: rt_gemm_prepare(&${fn}_square);
//@ prepare: rt_gemm_prepare(&${fn}_apply);

/* The squares of a row in double: element j in lane j mod 16, then lanes in order. */
static double ${fn}_squares(const ${acc} *row)
{
    double lane[16] = {0}, sum = 0;
    int64_t j = 0;
    for (; j + 16 <= ${n}; j += 16) {
        for (int k = 0; k < 16; k++)
            lane[k] += (double)row[j + k] * (double)row[j + k];
    }
    for (int k = 0; j + k < ${n}; k++)
        lane[k] += (double)row[j + k] * (double)row[j + k];
    for (int k = 0; k < 16; k++)
        sum += lane[k];
    return sum;
}

/* Replaces G by the factor of X: a I + b G + c G^2. */
static void ${fn}_polynomial(const ${acc} *gram, ${acc} *square)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${s}; i++) {
        for (int64_t j = i * ${s}; j < (i + 1) * ${s}; j++)
            square[j] = gram[j] * ${lit(b)} + square[j] * ${lit(c)};
        square[i * ${s + 1}] += ${lit(a)};
    }
}

/* x, y [${m}, ${n}]; ${steps} steps */
static void ${fn}(const void *from, void *to, char *workspace)
{
    const ${acc} *x = from;
    ${acc} *y = to;
    ${acc} *other = (${acc} *)workspace;                 /* [${m}, ${n}] */
    ${acc} *gram = (${acc} *)(workspace + ${gram_at});   /* [${s}, ${s}] */
    ${acc} *square = (${acc} *)(workspace + ${poly_at}); /* [${s}, ${s}] */
    double *squares = (double *)(workspace + ${sums_at});
    double sum = 0;

#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${m}; i++)
        squares[i] = ${fn}_squares(x + i * ${n});
    for (int64_t i = 0; i < ${m}; i++)
        sum += squares[i];
    const double norm = rt_sqrt(sum);
    const ${acc} scale = (${acc})(1 / (norm > ${real(eps)} ? norm : ${real(eps)}));
    ${acc} *now = ${steps % 2 == 1 and "other" or "y"}; /* so that the last step writes y */
    ${acc} *next = ${steps % 2 == 1 and "y" or "other"};
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < ${m * n}; i++)
        now[i] = x[i] * scale;
    for (int step = 0; step < ${steps}; step++) {
        rt_gemm(&${fn}_gram, now, now, gram, 0.0f);
        rt_gemm(&${fn}_square, gram, gram, square, 0.0f);
        ${fn}_polynomial(gram, square);
        rt_gemm(&${fn}_apply, ${wide and "square, now" or "now, square"}, next, 0.0f);
        ${acc} *const done = now;
        now = next;
        next = done;
    }
}
