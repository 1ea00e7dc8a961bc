//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- linear_cross_entropy: ${chunk} tokens at a time: logits, their lse and loss, then their
//@ -- gradient over them, then the two products that use it. The same row functions and, but
//@ -- for the number of tokens, the same products as in the ops it stands for.
//@ local rows, tail = math.min(chunk, t), t % math.min(chunk, t)
//@ local suffix = { rt_bf16 = "bf16", float = "f32", double = "f64" }
//@ local row = suffix[x.type]
//@ local elem_bytes = x.type == "double" and 8 or x.type == "float" and 4 or 2
//@ local logits_bytes = (elem_bytes * rows * v + 63) // 64 * 64
//@ local function products(name, m)
${gemm(name .. "_logits", "NT", m, v, d, x, x)}
${gemm(name .. "_dx", "NN", m, d, v, x, dx)}
${gemm(name .. "_dw", "TN", v, d, m, x, dw)}
//@   prepare(name .. "_logits") prepare(name .. "_dx") prepare(name .. "_dw")
//@ end
