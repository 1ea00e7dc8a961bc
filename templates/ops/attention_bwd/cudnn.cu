//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- attention_bwd, by cuDNN, which keeps the gradients of all scores in the workspace: so a
//@ -- slice at a time, of whole sequences or of some heads of one, such that they are at most
//@ -- 512 MiB.
//@ local sequences, kv, group = t // seq, kv_heads, heads // kv_heads
//@ local row, o_row = (heads + 2 * kv_heads) * head_dim, heads * head_dim
//@ local pad = (seq + 127) // 128 * 128
//@ local function bytes() -- as op.lua has it, which is checked below
//@     local shared = group > 1 and 4 * seq * head_dim or 0
//@     return sequences * kv * group * (2 * pad * pad + shared + 4 * seq) + (1 << 20)
//@ end
//@ while sequences > 1 and bytes() > 512 << 20 do
//@     repeat sequences = sequences - 1 until t // seq % sequences == 0
//@ end
//@ while kv > 1 and bytes() > 512 << 20 do
//@     repeat kv = kv - 1 until kv_heads % kv == 0
//@ end
//@ assert(bytes() == workspace, "the planned workspace is of another slice")
//@ local window = window < seq and window or 0 -- one that has all keys hides none
//@ local of_k, of_v = heads * head_dim, (heads + kv_heads) * head_dim
//@ host
static RtAttention ${fn}_plan = {
    .backward = true,
    .sequences = ${sequences}, .seq = ${seq}, .heads = ${kv * group}, .kv_heads = ${kv},
    .head_dim = ${head_dim}, .window = ${window}, .qkv_row = ${row}, .o_row = ${o_row},
    .lse_heads = ${heads}, .scale = ${lit(scale)}, .dtype = ${qkv.dtype == "bf16" and "RT_BF16" or "RT_F16"},
    .workspace_bytes = ${workspace},
};
//@ prepare: rt_attention_prepare(&${fn}_plan);

/* dqkv[${t}, ${row}]: ${sequences} of ${t // seq} sequences and ${kv} of ${kv_heads} kv heads at a time */
static void ${fn}(Rt *rt, const ${qkv.type} *qkv, const ${o.type} *o, const ${lse.type} *lse,
                  const ${d_o.type} *d_o, ${dqkv.type} *dqkv, char *workspace)
{
//@ if sequences == t // seq and kv == kv_heads then
    rt_attention_backward(rt, &${fn}_plan, qkv, qkv + ${of_k}, qkv + ${of_v}, o, lse, d_o,
                          dqkv, dqkv + ${of_k}, dqkv + ${of_v}, workspace);
//@ elseif kv == kv_heads then
    for (int64_t i = 0; i < ${t}; i += ${sequences * seq}) {
        const ${qkv.type} *q = qkv + i * ${row};
        ${dqkv.type} *dq = dqkv + i * ${row};
        rt_attention_backward(rt, &${fn}_plan, q, q + ${of_k}, q + ${of_v}, o + i * ${o_row},
                              lse + i * ${heads}, d_o + i * ${o_row}, dq, dq + ${of_k},
                              dq + ${of_v}, workspace);
    }
//@ else
    for (int64_t i = 0; i < ${t}; i += ${seq}) {
        for (int64_t kv = 0; kv < ${kv_heads}; kv += ${kv}) {
            const int64_t q = i * ${row} + kv * ${group * head_dim};
            const int64_t k = i * ${row} + ${of_k} + kv * ${head_dim};
            const int64_t v = k + ${kv_heads * head_dim};
            const int64_t at = i * ${o_row} + kv * ${group * head_dim};
            rt_attention_backward(rt, &${fn}_plan, qkv + q, qkv + k, qkv + v, o + at,
                                  lse + i * ${heads} + kv * ${group * seq}, d_o + at,
                                  dqkv + q, dqkv + k, dqkv + v, workspace);
        }
    }
//@ end
}
