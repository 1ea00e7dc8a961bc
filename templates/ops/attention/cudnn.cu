//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- attention, by cuDNN: all sequences and heads at once. The values of lse lie together by
//@ -- heads, as attention_bwd/cudnn.cu reads them.
//@ local row, o_row = (heads + 2 * kv_heads) * head_dim, heads * head_dim
//@ local window = window < seq and window or 0 -- one that has all keys hides none
//@ local k, v = heads * head_dim, (heads + kv_heads) * head_dim
//@ host
static RtAttention ${fn}_plan = {
    .sequences = ${t // seq}, .seq = ${seq}, .heads = ${heads}, .kv_heads = ${kv_heads},
    .head_dim = ${head_dim}, .window = ${window}, .qkv_row = ${row}, .o_row = ${o_row},
    .lse_heads = ${heads}, .scale = ${lit(scale)}, .dtype = ${qkv.dtype == "bf16" and "RT_BF16" or "RT_F16"},
    .workspace_bytes = ${workspace},
};
//@ prepare: rt_attention_prepare(&${fn}_plan);

/* o[${t}, ${o_row}] and lse of qkv[${t}, ${row}] */
static void ${fn}(Rt *rt, const ${qkv.type} *qkv, ${o.type} *o, ${lse.type} *lse,
                  char *workspace)
{
    rt_attention(rt, &${fn}_plan, qkv, qkv + ${k}, qkv + ${v}, o, lse, workspace);
}
