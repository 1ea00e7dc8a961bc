---@meta fsdpgen
-- SPDX-License-Identifier: Apache-2.0
-- Annotations of the description language for editors (LuaLS). Written by
-- `fsdpgen docs lua` from the tables that parse descriptions: DO NOT EDIT.
-- luacheck: ignore

---@class (exact) fsdpgen.value  what an op of the graph computes
---@field name string
---@field dtype string
---@field shape integer[]

---@class (exact) fsdpgen.param
---@field [1] string|integer[] its name in the block; or, with `global`, its dims
---@field [2]? integer[] its dims, where a name is given
---@field global? string the whole name, of a parameter that blocks share
---@field init? "normal"|"zeros"|"ones" its initial values
---@field std? number spread of `normal`
---@field decay? boolean weight decay: of matrices unless it says otherwise
---@field parts? fsdpgen.part[] tensors of a checkpoint that are its rows, in order
---@field cut? "rows"|"columns"|fsdpgen.mark how parts.tensor cuts it

---@class (exact) fsdpgen.mark
---@field [1] "rows"|"columns"
---@field unit? integer rows or columns that stay together: a head's
---@field sections? integer[] sizes of what lies side by side, each of which is cut
---@field pad? boolean rows of zeros may follow, so that parts are equal: a vocabulary
---@field of? string|string[] the model's field that is the number of units, or one for each section

---@class (exact) fsdpgen.part
---@field [1] string name
---@field [2] integer rows

---@class (exact) fsdpgen.block  what a wrap function is asked about
---@field name string
---@field class string
---@field index integer from 1
---@field blocks integer of the model
---@field params integer elements
---@field pieces fsdpgen.piece[]

---@class (exact) fsdpgen.piece
---@field name string
---@field params integer elements

---@class (exact) fsdpgen.op.add
---@field [1] fsdpgen.value a
---@field [2] fsdpgen.value b
---@field name? string of the value

---@class (exact) fsdpgen.op.add_layernorm
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value r
---@field [3] fsdpgen.value w
---@field [4] fsdpgen.value b
---@field eps? number
---@field name? string of the value

---@class (exact) fsdpgen.op.add_layernorm_scale
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value r
---@field [3] fsdpgen.value w
---@field [4] fsdpgen.value b
---@field eps? number
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.op.add_pos
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3]? fsdpgen.value starts
---@field seq integer
---@field name? string of the value

---@class (exact) fsdpgen.op.add_pos_bwd
---@field [1] fsdpgen.value dy
---@field [2]? fsdpgen.value starts
---@field positions integer
---@field seq integer
---@field name? string of the value

---@class (exact) fsdpgen.op.add_rmsnorm
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value r
---@field [3] fsdpgen.value w
---@field eps? number
---@field offset? number
---@field name? string of the value

---@class (exact) fsdpgen.op.add_rmsnorm_scale
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value r
---@field [3] fsdpgen.value w
---@field eps? number
---@field offset? number
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.op.attention
---@field [1] fsdpgen.value qkv
---@field [2]? fsdpgen.value starts
---@field [3]? fsdpgen.value sinks
---@field head_dim integer
---@field heads integer
---@field key_chunk? integer
---@field kv_heads integer
---@field scale number
---@field seq integer
---@field softcap? number
---@field window? integer
---@field name? string of the value

---@class (exact) fsdpgen.op.attention_bwd
---@field [1] fsdpgen.value qkv
---@field [2] fsdpgen.value o
---@field [3] fsdpgen.value lse
---@field [4] fsdpgen.value d_o
---@field [5]? fsdpgen.value starts
---@field head_dim integer
---@field heads integer
---@field key_chunk? integer
---@field kv_heads integer
---@field scale number
---@field seq integer
---@field sinks? boolean
---@field softcap? number
---@field window? integer
---@field name? string of the value

---@class (exact) fsdpgen.op.attention_sinks_bwd
---@field [1] fsdpgen.value o
---@field [2] fsdpgen.value lse
---@field [3] fsdpgen.value d_o
---@field [4] fsdpgen.value sinks
---@field heads integer
---@field name? string of the value

---@class (exact) fsdpgen.op.bias
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value b
---@field name? string of the value

---@class (exact) fsdpgen.op.bias_add_layernorm
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value r
---@field [3] fsdpgen.value rb
---@field [4] fsdpgen.value w
---@field [5] fsdpgen.value b
---@field eps? number
---@field name? string of the value

---@class (exact) fsdpgen.op.bias_add_layernorm_scale
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value r
---@field [3] fsdpgen.value rb
---@field [4] fsdpgen.value w
---@field [5] fsdpgen.value b
---@field eps? number
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.op.colsum
---@field [1] fsdpgen.value dy
---@field name? string of the value

---@class (exact) fsdpgen.op.concat
---@field [1] fsdpgen.value a
---@field [2] fsdpgen.value b
---@field [3]? fsdpgen.value c
---@field [4]? fsdpgen.value d
---@field name? string of the value

---@class (exact) fsdpgen.op.conv1d
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field dtype? string
---@field name? string of the value

---@class (exact) fsdpgen.op.conv1d_bias
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value b
---@field name? string of the value

---@class (exact) fsdpgen.op.conv1d_dw
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value dy
---@field name? string of the value

---@class (exact) fsdpgen.op.conv1d_dx
---@field [1] fsdpgen.value dy
---@field [2] fsdpgen.value w
---@field dtype? string
---@field name? string of the value

---@class (exact) fsdpgen.op.cross_entropy
---@field [1] fsdpgen.value logits
---@field [2] fsdpgen.value targets
---@field masked? boolean
---@field smoothing? number
---@field softcap? number
---@field z? number
---@field name? string of the value

---@class (exact) fsdpgen.op.cross_entropy_bwd
---@field [1] fsdpgen.value logits
---@field [2] fsdpgen.value targets
---@field [3] fsdpgen.value lse
---@field [4]? fsdpgen.value part
---@field masked? boolean
---@field parts? integer
---@field smoothing? number
---@field softcap? number
---@field vocab? integer
---@field z? number
---@field name? string of the value

---@class (exact) fsdpgen.op.cross_entropy_join
---@field [1] fsdpgen.value stats
---@field [2] fsdpgen.value targets
---@field masked? boolean
---@field smoothing? number
---@field vocab integer
---@field z? number
---@field name? string of the value

---@class (exact) fsdpgen.op.cross_entropy_part
---@field [1] fsdpgen.value logits
---@field [2] fsdpgen.value targets
---@field [3] fsdpgen.value part
---@field parts integer
---@field smoothing? number
---@field softcap? number
---@field vocab integer
---@field name? string of the value

---@class (exact) fsdpgen.op.embed
---@field [1] fsdpgen.value tokens
---@field [2] fsdpgen.value w
---@field [3]? fsdpgen.value part
---@field parts? integer
---@field name? string of the value

---@class (exact) fsdpgen.op.embed_bwd
---@field [1] fsdpgen.value tokens
---@field [2] fsdpgen.value dy
---@field [3]? fsdpgen.value part
---@field parts? integer
---@field vocab integer
---@field name? string of the value

---@class (exact) fsdpgen.op.fp8_both
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value s
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.op.fp8_columns
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value s
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.op.fp8_product
---@field [1] fsdpgen.value a
---@field [2] fsdpgen.value sa
---@field [3] fsdpgen.value b
---@field [4] fsdpgen.value sb
---@field dtype? string
---@field fast? boolean
---@field name? string of the value

---@class (exact) fsdpgen.op.fp8_product_dw
---@field [1] fsdpgen.value a
---@field [2] fsdpgen.value sa
---@field [3] fsdpgen.value b
---@field [4] fsdpgen.value sb
---@field name? string of the value

---@class (exact) fsdpgen.op.fp8_rows
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value s
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.op.fp8_scale
---@field [1] fsdpgen.value x
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.op.fp8_transpose
---@field [1] fsdpgen.value x
---@field name? string of the value

---@class (exact) fsdpgen.op.gather_rows
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value index
---@field seq? integer
---@field name? string of the value

---@class (exact) fsdpgen.op.gather_rows_bwd
---@field [1] fsdpgen.value index
---@field [2] fsdpgen.value dy
---@field rows integer
---@field seq? integer
---@field name? string of the value

---@class (exact) fsdpgen.op.gelu
---@field [1] fsdpgen.value x
---@field name? string of the value

---@class (exact) fsdpgen.op.gelu_bwd
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value dy
---@field name? string of the value

---@class (exact) fsdpgen.op.layernorm
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value b
---@field eps? number
---@field name? string of the value

---@class (exact) fsdpgen.op.layernorm_bwd
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value mean
---@field [4] fsdpgen.value rstd
---@field [5] fsdpgen.value dy
---@field name? string of the value

---@class (exact) fsdpgen.op.layernorm_bwd_add
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value mean
---@field [4] fsdpgen.value rstd
---@field [5] fsdpgen.value dy
---@field [6] fsdpgen.value dres
---@field name? string of the value

---@class (exact) fsdpgen.op.layernorm_bwd_add_frozen
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value mean
---@field [4] fsdpgen.value rstd
---@field [5] fsdpgen.value dy
---@field [6] fsdpgen.value dres
---@field name? string of the value

---@class (exact) fsdpgen.op.layernorm_bwd_add_scale
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value mean
---@field [4] fsdpgen.value rstd
---@field [5] fsdpgen.value dy
---@field [6] fsdpgen.value dres
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.op.layernorm_bwd_add_scale_frozen
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value mean
---@field [4] fsdpgen.value rstd
---@field [5] fsdpgen.value dy
---@field [6] fsdpgen.value dres
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.op.layernorm_bwd_frozen
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value mean
---@field [4] fsdpgen.value rstd
---@field [5] fsdpgen.value dy
---@field name? string of the value

---@class (exact) fsdpgen.op.layernorm_scale
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value b
---@field eps? number
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.op.linear
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field dtype? string
---@field name? string of the value

---@class (exact) fsdpgen.op.linear_bias
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value b
---@field name? string of the value

---@class (exact) fsdpgen.op.linear_cross_entropy
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value targets
---@field chunk? integer
---@field masked? boolean
---@field smoothing? number
---@field softcap? number
---@field z? number
---@field name? string of the value

---@class (exact) fsdpgen.op.linear_cross_entropy_alone
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value targets
---@field chunk? integer
---@field masked? boolean
---@field smoothing? number
---@field softcap? number
---@field z? number
---@field name? string of the value

---@class (exact) fsdpgen.op.linear_cross_entropy_frozen
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value targets
---@field chunk? integer
---@field masked? boolean
---@field smoothing? number
---@field softcap? number
---@field z? number
---@field name? string of the value

---@class (exact) fsdpgen.op.linear_dw
---@field [1] fsdpgen.value dy
---@field [2] fsdpgen.value x
---@field name? string of the value

---@class (exact) fsdpgen.op.linear_dx
---@field [1] fsdpgen.value dy
---@field [2] fsdpgen.value w
---@field dtype? string
---@field name? string of the value

---@class (exact) fsdpgen.op.linear_loss
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value targets
---@field [4] fsdpgen.value row
---@field [5]? fsdpgen.value part
---@field chunk integer
---@field masked boolean
---@field parts? integer
---@field smoothing number
---@field softcap? number
---@field z number
---@field name? string of the value

---@class (exact) fsdpgen.op.logits_row
---@field [1] fsdpgen.value logits
---@field [2] fsdpgen.value row
---@field [3]? fsdpgen.value part
---@field parts? integer
---@field softcap? number
---@field name? string of the value

---@class (exact) fsdpgen.op.merge_heads
---@field [1] fsdpgen.value x
---@field heads integer
---@field seq? integer
---@field name? string of the value

---@class (exact) fsdpgen.op.newton_schulz
---@field [1] fsdpgen.value x
---@field a number
---@field b number
---@field c number
---@field eps number
---@field steps integer
---@field name? string of the value

---@class (exact) fsdpgen.op.own_box
---@field [1] fsdpgen.value x
---@field name? string of the value

---@class (exact) fsdpgen.op.pad
---@field [1] fsdpgen.value x
---@field cols integer
---@field first? integer
---@field name? string of the value

---@class (exact) fsdpgen.op.qk_norm
---@field [1] fsdpgen.value qkv
---@field [2] fsdpgen.value wq
---@field [3] fsdpgen.value wk
---@field eps? number
---@field head_dim integer
---@field heads integer
---@field kv_heads integer
---@field offset? number
---@field over_all? boolean
---@field name? string of the value

---@class (exact) fsdpgen.op.qk_norm_bwd
---@field [1] fsdpgen.value qkv
---@field [2] fsdpgen.value wq
---@field [3] fsdpgen.value wk
---@field [4] fsdpgen.value rstd
---@field [5] fsdpgen.value dy
---@field head_dim integer
---@field heads integer
---@field kv_heads integer
---@field offset? number
---@field over_all? boolean
---@field name? string of the value

---@class (exact) fsdpgen.op.qk_norm_bwd_frozen
---@field [1] fsdpgen.value qkv
---@field [2] fsdpgen.value wq
---@field [3] fsdpgen.value wk
---@field [4] fsdpgen.value rstd
---@field [5] fsdpgen.value dy
---@field head_dim integer
---@field heads integer
---@field kv_heads integer
---@field offset? number
---@field over_all? boolean
---@field name? string of the value

---@class (exact) fsdpgen.op.repeat_heads
---@field [1] fsdpgen.value qkv
---@field copies integer
---@field heads integer
---@field kv_heads integer
---@field name? string of the value

---@class (exact) fsdpgen.op.repeat_heads_bwd
---@field [1] fsdpgen.value dy
---@field copies integer
---@field heads integer
---@field kv_heads integer
---@field name? string of the value

---@class (exact) fsdpgen.op.rmsnorm
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field eps? number
---@field offset? number
---@field name? string of the value

---@class (exact) fsdpgen.op.rmsnorm_bwd
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value rstd
---@field [4] fsdpgen.value dy
---@field offset? number
---@field name? string of the value

---@class (exact) fsdpgen.op.rmsnorm_bwd_add
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value rstd
---@field [4] fsdpgen.value dy
---@field [5] fsdpgen.value dres
---@field offset? number
---@field name? string of the value

---@class (exact) fsdpgen.op.rmsnorm_bwd_add_frozen
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value rstd
---@field [4] fsdpgen.value dy
---@field [5] fsdpgen.value dres
---@field offset? number
---@field name? string of the value

---@class (exact) fsdpgen.op.rmsnorm_bwd_add_scale
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value rstd
---@field [4] fsdpgen.value dy
---@field [5] fsdpgen.value dres
---@field offset? number
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.op.rmsnorm_bwd_add_scale_frozen
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value rstd
---@field [4] fsdpgen.value dy
---@field [5] fsdpgen.value dres
---@field offset? number
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.op.rmsnorm_bwd_frozen
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field [3] fsdpgen.value rstd
---@field [4] fsdpgen.value dy
---@field offset? number
---@field name? string of the value

---@class (exact) fsdpgen.op.rmsnorm_scale
---@field [1] fsdpgen.value x
---@field [2] fsdpgen.value w
---@field eps? number
---@field offset? number
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.op.rope
---@field [1] fsdpgen.value qkv
---@field [2] fsdpgen.value table
---@field [3]? fsdpgen.value starts
---@field head_dim integer
---@field heads integer
---@field kv_heads integer
---@field rotary? integer
---@field seq integer
---@field name? string of the value

---@class (exact) fsdpgen.op.rope_bwd
---@field [1] fsdpgen.value dy
---@field [2] fsdpgen.value table
---@field [3]? fsdpgen.value starts
---@field head_dim integer
---@field heads integer
---@field kv_heads integer
---@field rotary? integer
---@field seq integer
---@field name? string of the value

---@class (exact) fsdpgen.op.rope_bwd_scale
---@field [1] fsdpgen.value dy
---@field [2] fsdpgen.value table
---@field head_dim integer
---@field heads integer
---@field kv_heads integer
---@field rotary? integer
---@field seq integer
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.op.rope_table
---@field factor? number
---@field head_dim integer
---@field high_freq_factor? number
---@field low_freq_factor? number
---@field original? integer
---@field seq integer
---@field theta number
---@field name? string of the value

---@class (exact) fsdpgen.op.scale
---@field [1] fsdpgen.value x
---@field by number
---@field rounded? boolean
---@field name? string of the value

---@class (exact) fsdpgen.op.slice
---@field [1] fsdpgen.value x
---@field cols integer
---@field first? integer
---@field name? string of the value

---@class (exact) fsdpgen.op.split
---@field [1] fsdpgen.value x
---@field at integer
---@field name? string of the value

---@class (exact) fsdpgen.op.split_heads
---@field [1] fsdpgen.value x
---@field heads integer
---@field seq? integer
---@field name? string of the value

---@class (exact) fsdpgen.op.swiglu
---@field [1] fsdpgen.value gu
---@field act? string
---@field name? string of the value

---@class (exact) fsdpgen.op.swiglu_bwd
---@field [1] fsdpgen.value gu
---@field [2] fsdpgen.value dy
---@field act? string
---@field name? string of the value

---@class (exact) fsdpgen.op.swiglu_bwd_scale
---@field [1] fsdpgen.value gu
---@field [2] fsdpgen.value dy
---@field act? string
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.op.swiglu_scale
---@field [1] fsdpgen.value gu
---@field act? string
---@field to? string
---@field name? string of the value

---@class (exact) fsdpgen.g  builds the graph of a block
---@field add fun(call: fsdpgen.op.add): fsdpgen.value
---@field add_layernorm fun(call: fsdpgen.op.add_layernorm): fsdpgen.value, fsdpgen.value, fsdpgen.value, fsdpgen.value
---@field add_layernorm_scale fun(call: fsdpgen.op.add_layernorm_scale): fsdpgen.value, fsdpgen.value, fsdpgen.value, fsdpgen.value, fsdpgen.value
---@field add_pos fun(call: fsdpgen.op.add_pos): fsdpgen.value
---@field add_pos_bwd fun(call: fsdpgen.op.add_pos_bwd): fsdpgen.value
---@field add_rmsnorm fun(call: fsdpgen.op.add_rmsnorm): fsdpgen.value, fsdpgen.value, fsdpgen.value
---@field add_rmsnorm_scale fun(call: fsdpgen.op.add_rmsnorm_scale): fsdpgen.value, fsdpgen.value, fsdpgen.value, fsdpgen.value
---@field attention fun(call: fsdpgen.op.attention): fsdpgen.value, fsdpgen.value
---@field attention_bwd fun(call: fsdpgen.op.attention_bwd): fsdpgen.value
---@field attention_sinks_bwd fun(call: fsdpgen.op.attention_sinks_bwd): fsdpgen.value
---@field bias fun(call: fsdpgen.op.bias): fsdpgen.value
---@field bias_add_layernorm fun(call: fsdpgen.op.bias_add_layernorm): fsdpgen.value, fsdpgen.value, fsdpgen.value, fsdpgen.value
---@field bias_add_layernorm_scale fun(call: fsdpgen.op.bias_add_layernorm_scale): fsdpgen.value, fsdpgen.value, fsdpgen.value, fsdpgen.value, fsdpgen.value
---@field colsum fun(call: fsdpgen.op.colsum): fsdpgen.value
---@field concat fun(call: fsdpgen.op.concat): fsdpgen.value
---@field conv1d fun(call: fsdpgen.op.conv1d): fsdpgen.value
---@field conv1d_bias fun(call: fsdpgen.op.conv1d_bias): fsdpgen.value
---@field conv1d_dw fun(call: fsdpgen.op.conv1d_dw): fsdpgen.value
---@field conv1d_dx fun(call: fsdpgen.op.conv1d_dx): fsdpgen.value
---@field cross_entropy fun(call: fsdpgen.op.cross_entropy): fsdpgen.value, fsdpgen.value
---@field cross_entropy_bwd fun(call: fsdpgen.op.cross_entropy_bwd): fsdpgen.value
---@field cross_entropy_join fun(call: fsdpgen.op.cross_entropy_join): fsdpgen.value, fsdpgen.value
---@field cross_entropy_part fun(call: fsdpgen.op.cross_entropy_part): fsdpgen.value
---@field embed fun(call: fsdpgen.op.embed): fsdpgen.value
---@field embed_bwd fun(call: fsdpgen.op.embed_bwd): fsdpgen.value
---@field fp8_both fun(call: fsdpgen.op.fp8_both): fsdpgen.value, fsdpgen.value
---@field fp8_columns fun(call: fsdpgen.op.fp8_columns): fsdpgen.value
---@field fp8_product fun(call: fsdpgen.op.fp8_product): fsdpgen.value
---@field fp8_product_dw fun(call: fsdpgen.op.fp8_product_dw): fsdpgen.value
---@field fp8_rows fun(call: fsdpgen.op.fp8_rows): fsdpgen.value
---@field fp8_scale fun(call: fsdpgen.op.fp8_scale): fsdpgen.value
---@field fp8_transpose fun(call: fsdpgen.op.fp8_transpose): fsdpgen.value
---@field gather_rows fun(call: fsdpgen.op.gather_rows): fsdpgen.value
---@field gather_rows_bwd fun(call: fsdpgen.op.gather_rows_bwd): fsdpgen.value
---@field gelu fun(call: fsdpgen.op.gelu): fsdpgen.value
---@field gelu_bwd fun(call: fsdpgen.op.gelu_bwd): fsdpgen.value
---@field layernorm fun(call: fsdpgen.op.layernorm): fsdpgen.value, fsdpgen.value, fsdpgen.value
---@field layernorm_bwd fun(call: fsdpgen.op.layernorm_bwd): fsdpgen.value, fsdpgen.value, fsdpgen.value
---@field layernorm_bwd_add fun(call: fsdpgen.op.layernorm_bwd_add): fsdpgen.value, fsdpgen.value, fsdpgen.value
---@field layernorm_bwd_add_frozen fun(call: fsdpgen.op.layernorm_bwd_add_frozen): fsdpgen.value
---@field layernorm_bwd_add_scale fun(call: fsdpgen.op.layernorm_bwd_add_scale): fsdpgen.value, fsdpgen.value, fsdpgen.value, fsdpgen.value
---@field layernorm_bwd_add_scale_frozen fun(call: fsdpgen.op.layernorm_bwd_add_scale_frozen): fsdpgen.value, fsdpgen.value
---@field layernorm_bwd_frozen fun(call: fsdpgen.op.layernorm_bwd_frozen): fsdpgen.value
---@field layernorm_scale fun(call: fsdpgen.op.layernorm_scale): fsdpgen.value, fsdpgen.value, fsdpgen.value, fsdpgen.value
---@field linear fun(call: fsdpgen.op.linear): fsdpgen.value
---@field linear_bias fun(call: fsdpgen.op.linear_bias): fsdpgen.value
---@field linear_cross_entropy fun(call: fsdpgen.op.linear_cross_entropy): fsdpgen.value, fsdpgen.value, fsdpgen.value
---@field linear_cross_entropy_alone fun(call: fsdpgen.op.linear_cross_entropy_alone): fsdpgen.value, fsdpgen.value
---@field linear_cross_entropy_frozen fun(call: fsdpgen.op.linear_cross_entropy_frozen): fsdpgen.value, fsdpgen.value
---@field linear_dw fun(call: fsdpgen.op.linear_dw): fsdpgen.value
---@field linear_dx fun(call: fsdpgen.op.linear_dx): fsdpgen.value
---@field linear_loss fun(call: fsdpgen.op.linear_loss): fsdpgen.value, fsdpgen.value
---@field logits_row fun(call: fsdpgen.op.logits_row): fsdpgen.value
---@field merge_heads fun(call: fsdpgen.op.merge_heads): fsdpgen.value
---@field newton_schulz fun(call: fsdpgen.op.newton_schulz): fsdpgen.value
---@field own_box fun(call: fsdpgen.op.own_box): fsdpgen.value
---@field pad fun(call: fsdpgen.op.pad): fsdpgen.value
---@field qk_norm fun(call: fsdpgen.op.qk_norm): fsdpgen.value, fsdpgen.value
---@field qk_norm_bwd fun(call: fsdpgen.op.qk_norm_bwd): fsdpgen.value, fsdpgen.value, fsdpgen.value
---@field qk_norm_bwd_frozen fun(call: fsdpgen.op.qk_norm_bwd_frozen): fsdpgen.value
---@field repeat_heads fun(call: fsdpgen.op.repeat_heads): fsdpgen.value
---@field repeat_heads_bwd fun(call: fsdpgen.op.repeat_heads_bwd): fsdpgen.value
---@field rmsnorm fun(call: fsdpgen.op.rmsnorm): fsdpgen.value, fsdpgen.value
---@field rmsnorm_bwd fun(call: fsdpgen.op.rmsnorm_bwd): fsdpgen.value, fsdpgen.value
---@field rmsnorm_bwd_add fun(call: fsdpgen.op.rmsnorm_bwd_add): fsdpgen.value, fsdpgen.value
---@field rmsnorm_bwd_add_frozen fun(call: fsdpgen.op.rmsnorm_bwd_add_frozen): fsdpgen.value
---@field rmsnorm_bwd_add_scale fun(call: fsdpgen.op.rmsnorm_bwd_add_scale): fsdpgen.value, fsdpgen.value, fsdpgen.value
---@field rmsnorm_bwd_add_scale_frozen fun(call: fsdpgen.op.rmsnorm_bwd_add_scale_frozen): fsdpgen.value, fsdpgen.value
---@field rmsnorm_bwd_frozen fun(call: fsdpgen.op.rmsnorm_bwd_frozen): fsdpgen.value
---@field rmsnorm_scale fun(call: fsdpgen.op.rmsnorm_scale): fsdpgen.value, fsdpgen.value, fsdpgen.value
---@field rope fun(call: fsdpgen.op.rope): fsdpgen.value
---@field rope_bwd fun(call: fsdpgen.op.rope_bwd): fsdpgen.value
---@field rope_bwd_scale fun(call: fsdpgen.op.rope_bwd_scale): fsdpgen.value, fsdpgen.value
---@field rope_table fun(call: fsdpgen.op.rope_table): fsdpgen.value
---@field scale fun(call: fsdpgen.op.scale): fsdpgen.value
---@field slice fun(call: fsdpgen.op.slice): fsdpgen.value
---@field split fun(call: fsdpgen.op.split): fsdpgen.value, fsdpgen.value
---@field split_heads fun(call: fsdpgen.op.split_heads): fsdpgen.value
---@field swiglu fun(call: fsdpgen.op.swiglu): fsdpgen.value
---@field swiglu_bwd fun(call: fsdpgen.op.swiglu_bwd): fsdpgen.value
---@field swiglu_bwd_scale fun(call: fsdpgen.op.swiglu_bwd_scale): fsdpgen.value, fsdpgen.value
---@field swiglu_scale fun(call: fsdpgen.op.swiglu_scale): fsdpgen.value, fsdpgen.value
---@field param fun(self: fsdpgen.g, spec: fsdpgen.param): fsdpgen.value declares a parameter
---@field cut fun(self: fsdpgen.g, name: string) a piece of the block begins
---@field tokens fun(self: fsdpgen.g): fsdpgen.value token ids
---@field targets fun(self: fsdpgen.g): fsdpgen.value ids to be predicted
---@field starts fun(self: fsdpgen.g): fsdpgen.value? where each token's document begins; nil without `documents`

---@class (exact) fsdpgen.b  builds the blocks of a model, in order
---@field block fun(self: fsdpgen.b, name: string, class: string, prefix: string, build: (fun(g: fsdpgen.g, x: fsdpgen.value): fsdpgen.value), x?: fsdpgen.value): fsdpgen.value

---@class fsdpgen.model  what an architecture returns for its dimensions

---@class fsdpgen.row  a field of an architecture: { name, type, attributes }
---@field [1] string name
---@field [2] "int"|"number"|"bool"|"string"|"table"|"list" type
---@field doc? string
---@field default? any a value, or a function of the fields above it
---@field default_text? string a computed default in words
---@field optional? boolean it may be missing
---@field min? number
---@field max? number
---@field above? number exclusive
---@field below? number exclusive
---@field values? string[] words that are legal
---@field fields? fsdpgen.row[] of a table
---@field item? fsdpgen.row of a list

---@class (exact) fsdpgen.arch
---@field name string
---@field doc? string
---@field fields fsdpgen.row[]
---@field values? table names reachable through the architecture
---@field check? fun(m: table, fail: fun(path: string, problem: string, help?: string))
---@field build fun(m: table, b: fsdpgen.b)
---@field config? fun(m: table, t: fsdpgen.config): table? config.json, its keys in order; nil: none

---@class (exact) fsdpgen.config
---@field dtype string as config.json names it
---@field document_end? integer

---@class (exact) fsdpgen.gpt2.dimensions
---@field layers integer transformer blocks
---@field dim integer width of the residual stream
---@field heads integer attention heads; divides dim
---@field ffn? integer width of the feed-forward
---@field vocab? integer token ids
---@field max_positions? integer learned positions
---@field norm_eps? number added to the variance
---@field tied? boolean the head reads the embedding
---@field init_std? number spread of new matrices

---@class (exact) fsdpgen.gpt2.m
---@field layers integer transformer blocks
---@field dim integer width of the residual stream
---@field heads integer attention heads; divides dim
---@field ffn integer width of the feed-forward
---@field vocab integer token ids
---@field max_positions integer learned positions
---@field norm_eps number added to the variance
---@field tied boolean the head reads the embedding
---@field init_std number spread of new matrices
---@field seq integer the trainer's
---@field micro_batch integer the trainer's
---@field loss_chunk_tokens integer the trainer's

---@class fsdpgen.gpt2
---@overload fun(dimensions: fsdpgen.gpt2.dimensions): fsdpgen.model

---@class (exact) fsdpgen.llama.dimensions.rope.scaling
---@field factor number how far long wavelengths are stretched
---@field low_freq_factor? number wavelengths over original / this are stretched fully
---@field high_freq_factor? number wavelengths under original / this are not stretched
---@field original? integer sequence length of the original training; 1: stretch all wavelengths alike

---@class (exact) fsdpgen.llama.dimensions.rope
---@field theta? number base of the wavelengths
---@field fraction? number share of each head that is rotated, from its start; default all (Phi-4-mini: 0.75)
---@field local_theta? number base in layers with a window, where scaling does not apply (Gemma 3: 1e4)
---@field scaling? fsdpgen.llama.dimensions.rope.scaling Llama 3.1's stretching of long wavelengths

---@class (exact) fsdpgen.llama.dimensions
---@field layers integer transformer blocks
---@field dim integer width of the residual stream
---@field heads integer query heads
---@field kv_heads? integer key and value heads; divides heads
---@field head_dim? integer width of a head; even
---@field ffn integer width of the gated feed-forward
---@field vocab integer token ids
---@field rope? fsdpgen.llama.dimensions.rope rotary positions, rotate-half as in Hugging Face
---@field norm_eps? number added to the mean square
---@field tied? boolean the head reads the embedding
---@field qkv_bias? boolean biases on q, k and v (Qwen2.5)
---@field qk_norm? boolean RMS norm of q and k heads (Qwen3)
---@field window? integer tokens that a token sees, itself included; 0: all before it (Mistral)
---@field qk_norm_all? boolean one RMS norm of all q heads together, and one of all k heads (OLMo 2)
---@field post_norm? boolean norms follow attention and feed-forward instead of preceding them (OLMo 2)
---@field sandwich_norm? boolean norms precede and follow attention and feed-forward (Gemma)
---@field norm_less_one? boolean norm weights are stored as w - 1 and start at 0 (Gemma)
---@field geglu? boolean the gate's activation is GELU, in its tanh form, not SiLU (Gemma)
---@field scale_embedding? boolean embeddings are multiplied by sqrt(dim), rounded to their dtype (Gemma)
---@field global_every? integer one layer in this many sees all tokens; the others have `window` or `attention_chunk` (Gemma 2: 2, Gemma 3: 6)
---@field attention_chunk? integer a token sees only tokens of its own chunk of this many tokens, counted from the start of its document; with `window`, only those that both allow
---@field attention_sinks? boolean each head has a logit that joins the softmax's sum, self_attn.sinks, as of a key whose value is zero; it starts like a matrix and is not decayed (gpt-oss)
---@field attention_softcap? number scores s become c tanh(s / c) (Gemma 2: 50)
---@field logits_softcap? number logits x become c tanh(x / c) (Gemma 2: 30)
---@field nope_every? integer one layer in this many has no rotary positions (SmolLM3: 4)
---@field fused_names? boolean checkpoints hold q, k and v in one tensor, gate and up in another (Phi)
---@field embedding_multiplier? number embeddings are multiplied by it (Granite)
---@field attention_multiplier? number scores are multiplied by it; otherwise by 1 / sqrt(head_dim) (Granite)
---@field residual_multiplier? number what attention and feed-forward add to the residual is multiplied by it (Granite)
---@field logits_scaling? number logits are divided by it (Granite)
---@field init_std? number standard deviation of new matrices
---@field scale_residual_init? boolean matrices that write the residual start at init_std / sqrt(2 layers)

---@class (exact) fsdpgen.llama.m.rope.scaling
---@field factor number how far long wavelengths are stretched
---@field low_freq_factor number wavelengths over original / this are stretched fully
---@field high_freq_factor number wavelengths under original / this are not stretched
---@field original integer sequence length of the original training; 1: stretch all wavelengths alike

---@class (exact) fsdpgen.llama.m.rope
---@field theta number base of the wavelengths
---@field fraction? number share of each head that is rotated, from its start; default all (Phi-4-mini: 0.75)
---@field local_theta? number base in layers with a window, where scaling does not apply (Gemma 3: 1e4)
---@field scaling? fsdpgen.llama.m.rope.scaling Llama 3.1's stretching of long wavelengths

---@class (exact) fsdpgen.llama.m
---@field layers integer transformer blocks
---@field dim integer width of the residual stream
---@field heads integer query heads
---@field kv_heads integer key and value heads; divides heads
---@field head_dim integer width of a head; even
---@field ffn integer width of the gated feed-forward
---@field vocab integer token ids
---@field rope fsdpgen.llama.m.rope rotary positions, rotate-half as in Hugging Face
---@field norm_eps number added to the mean square
---@field tied boolean the head reads the embedding
---@field qkv_bias boolean biases on q, k and v (Qwen2.5)
---@field qk_norm boolean RMS norm of q and k heads (Qwen3)
---@field window integer tokens that a token sees, itself included; 0: all before it (Mistral)
---@field qk_norm_all? boolean one RMS norm of all q heads together, and one of all k heads (OLMo 2)
---@field post_norm? boolean norms follow attention and feed-forward instead of preceding them (OLMo 2)
---@field sandwich_norm? boolean norms precede and follow attention and feed-forward (Gemma)
---@field norm_less_one? boolean norm weights are stored as w - 1 and start at 0 (Gemma)
---@field geglu? boolean the gate's activation is GELU, in its tanh form, not SiLU (Gemma)
---@field scale_embedding? boolean embeddings are multiplied by sqrt(dim), rounded to their dtype (Gemma)
---@field global_every? integer one layer in this many sees all tokens; the others have `window` or `attention_chunk` (Gemma 2: 2, Gemma 3: 6)
---@field attention_chunk? integer a token sees only tokens of its own chunk of this many tokens, counted from the start of its document; with `window`, only those that both allow
---@field attention_sinks? boolean each head has a logit that joins the softmax's sum, self_attn.sinks, as of a key whose value is zero; it starts like a matrix and is not decayed (gpt-oss)
---@field attention_softcap? number scores s become c tanh(s / c) (Gemma 2: 50)
---@field logits_softcap? number logits x become c tanh(x / c) (Gemma 2: 30)
---@field nope_every? integer one layer in this many has no rotary positions (SmolLM3: 4)
---@field fused_names? boolean checkpoints hold q, k and v in one tensor, gate and up in another (Phi)
---@field embedding_multiplier? number embeddings are multiplied by it (Granite)
---@field attention_multiplier? number scores are multiplied by it; otherwise by 1 / sqrt(head_dim) (Granite)
---@field residual_multiplier? number what attention and feed-forward add to the residual is multiplied by it (Granite)
---@field logits_scaling? number logits are divided by it (Granite)
---@field init_std number standard deviation of new matrices
---@field scale_residual_init boolean matrices that write the residual start at init_std / sqrt(2 layers)
---@field seq integer the trainer's
---@field micro_batch integer the trainer's
---@field loss_chunk_tokens integer the trainer's

---@class fsdpgen.llama
---@field scaling_3_1 fsdpgen.llama.dimensions.rope.scaling
---@field scaling_3_2 fsdpgen.llama.dimensions.rope.scaling
---@field scaling_gemma_3 fsdpgen.llama.dimensions.rope.scaling
---@overload fun(dimensions: fsdpgen.llama.dimensions): fsdpgen.model

---@class (exact) fsdpgen.adamw
---@field lr? number base learning rate
---@field betas? number[] decay rates of the two moments
---@field eps? number added to the square root
---@field weight_decay? number decoupled; none on norms and biases
---@field clip? number largest global gradient norm; 0: no clipping

---@class (exact) fsdpgen.lion
---@field lr? number base learning rate
---@field betas? number[] decay rates of the moment: in the update, and in the stored moment
---@field weight_decay? number decoupled; none on norms and biases
---@field clip? number largest global gradient norm; 0: no clipping

---@class (exact) fsdpgen.muon.adamw
---@field lr? number base learning rate
---@field betas? number[] decay rates of the two moments
---@field eps? number added to the square root
---@field weight_decay? number decoupled; none on norms and biases

---@class (exact) fsdpgen.muon
---@field lr? number base learning rate
---@field momentum? number decay rate of the moment
---@field nesterov? boolean Nesterov momentum: the update mixes the gradient into the moment once more
---@field ns_steps? integer Newton-Schulz steps that make a matrix orthogonal
---@field ns_coefficients? number[] coefficients of X, X X^T X and (X X^T)^2 X in each of these steps
---@field eps? number lower bound of the norm by which a matrix is divided
---@field adjust_lr? "match_rms_adamw"|"original" factor of lr for an m x n matrix: 0.2 sqrt(max(m, n)), which makes updates as large as adamw's; or sqrt(max(1, m / n))
---@field weight_decay? number decoupled; none on norms and biases
---@field clip? number largest global gradient norm; 0: no clipping
---@field adamw? fsdpgen.muon.adamw for everything but hidden matrices

---@class (exact) fsdpgen.sgd
---@field lr? number base learning rate
---@field momentum? number decay rate of the moment; 0: no moment
---@field weight_decay? number decoupled; none on norms and biases
---@field clip? number largest global gradient norm; 0: no clipping

---@class (exact) fsdpgen.constant
---@field warmup? integer steps in which the rate grows linearly from 0

---@class (exact) fsdpgen.cosine
---@field warmup? integer steps in which the rate grows linearly from 0
---@field steps integer length of the schedule
---@field min_ratio? number the rate at the end, as a share of the base rate

---@class (exact) fsdpgen.linear
---@field warmup? integer steps in which the rate grows linearly from 0
---@field steps integer length of the schedule
---@field min_ratio? number the rate at the end, as a share of the base rate

---@class (exact) fsdpgen.wsd
---@field warmup? integer steps in which the rate grows linearly from 0
---@field steps integer length of the schedule
---@field decay integer steps of linear decay at the end
---@field min_ratio? number the rate at the end, as a share of the base rate

---@class (exact) fsdpgen.inverse_sqrt
---@field warmup? integer steps in which the rate grows linearly from 0

---@class (exact) fsdpgen.per_block
---@field blocks? integer blocks per unit
---@field embed? "own"|"join" the embedding is a unit of its own, or joins the layers after it
---@field head? "own"|"join" the head is a unit of its own, or joins the layers before it
---@field [1]? integer blocks per unit

---@class (exact) fsdpgen.by_size
---@field params? integer most parameters of a unit, unless one piece has more
---@field embed? "own"|"join" the embedding is a unit of its own, or joins the layers after it
---@field head? "own"|"join" the head is a unit of its own, or joins the layers before it
---@field [1]? integer most parameters of a unit, unless one piece has more

---@class (exact) fsdpgen.by_name
---@field names? (string|string[])[] patterns of names of blocks and pieces
---@field [integer] string|string[] patterns of names of blocks and pieces

---@class (exact) fsdpgen.root_only

---@class (exact) fsdpgen.every
---@field blocks? integer recompute one block in this many
---@field [1]? integer recompute one block in this many

---@class (exact) fsdpgen.ops
---@field names? string[] names of ops: `ops { "swiglu", "rmsnorm" }`
---@field [integer] string names of ops: `ops { "swiglu", "rmsnorm" }`

---@class (exact) fsdpgen.cpu
---@field arch? string the compiler's `-march` value
---@field memory? string budget of each rank, of which 128 MiB are for code and libraries; the plan must fit. Units are B, KiB, MiB, GiB, TiB, KB, MB, GB, TB
---@field comm_thread? boolean run gathers and reductions on a thread of their own beside the computation; for ranks with a core to spare

---@class (exact) fsdpgen.cuda.attention_choices.sites
---@field site string the shape; one that the model does not have is an error
---@field kernels "generated"|"cudnn" which kernels run it, forward and backward

---@class (exact) fsdpgen.cuda.attention_choices
---@field gpu string the GPU that was measured
---@field arch string its architecture, which must be that of `arch`
---@field cudnn integer version of cuDNN
---@field cuda integer version of the CUDA runtime
---@field sites fsdpgen.cuda.attention_choices.sites[] a choice for each shape of attention

---@class (exact) fsdpgen.cuda.rates.cudnn
---@field attention? number TFLOP/s of the forward
---@field attention_bwd? number TFLOP/s of attention's backward

---@class (exact) fsdpgen.cuda.rates
---@field tflops? number TFLOP/s of bf16 matrix products
---@field memory? number GB/s of the GPU's memory
---@field link? number GB/s that a rank receives from others
---@field attention? number TFLOP/s of attention's forward
---@field attention_bwd? number TFLOP/s of attention's backward
---@field cudnn? fsdpgen.cuda.rates.cudnn with `attention = "auto"`: rates of the attention that cuDNN runs
---@field norm? number GB/s of kernels that reduce rows or columns: norms, losses
---@field sms? integer multiprocessors, which share the tiles of a product; a sum over ranks that is limited takes at most half of them
---@field peak? number TFLOP/s that the vendor states, for the MFU that a trainer prints; 0: no MFU

---@class (exact) fsdpgen.cuda.network
---@field gpus? integer GPUs per node
---@field domain? integer GPUs that NVLink or PCIe joins; more than `gpus` if it joins several nodes
---@field nics? integer NICs per node
---@field nic? number GB/s of each NIC
---@field step? number microseconds that a step of a ring takes within a node
---@field price? number price of a node in dollars per hour, for `fsdpgen plan` and `size`
---@field rail? boolean the NICs of a node go to different leaf switches
---@field down? integer number of NICs that reach their full rate among each other
---@field oversubscription? number how many times slower a NIC is beyond these
---@field net_step? number microseconds that a step of a ring takes between nodes

---@class (exact) fsdpgen.cuda
---@field gpu? "a100-40gb"|"a100-80gb"|"l40s"|"rtx4090"|"h100"|"h200"|"b200"|"rtx5090" the GPU to plan for; decides the defaults of the fields below
---@field arch? ("sm_80"|"sm_86"|"sm_87"|"sm_89"|"sm_90"|"sm_90a"|"sm_100"|"sm_100a"|"sm_103"|"sm_103a"|"sm_120"|"sm_120a"|"sm_121"|"sm_121a")[]|"sm_80"|"sm_86"|"sm_87"|"sm_89"|"sm_90"|"sm_90a"|"sm_100"|"sm_100a"|"sm_103"|"sm_103a"|"sm_120"|"sm_120a"|"sm_121"|"sm_121a" architectures whose kernels the trainer carries
---@field memory? string usable memory of an idle GPU; the plan must fit
---@field reserve? string part of `memory` that is left to the CUDA context, cuBLAS and NCCL
---@field attention? "generated"|"cudnn"|"auto"|"tune" kernels of attention: generated ones, or cuDNN's (bf16 or f16 on sm_90 and sm_90a, without `documents`). `"auto"` takes what `attention_choices` names; elsewhere cuDNN's, if they can run and heads are wider than 64: measured, they were faster with heads of 128 and slower with heads of 64. `"tune"` is `"auto"` in a trainer that has both kinds, for `--tune-kernels`
---@field attention_choices? fsdpgen.cuda.attention_choices with `attention = "auto"`: which kernels were faster, as `trainer --tune-kernels` writes it to `attention.lua`
---@field rates? fsdpgen.cuda.rates rates that predict the time of a step
---@field node? "hgx-a100"|"hgx-h100"|"hgx-h200"|"hgx-b200"|"gb200-nvl72"|"aws-p4d"|"aws-p5"|"aws-p5e"|"pcie" datasheet of the nodes (`gen/lua/machines.lua`), which predicts times; by default the first node with this GPU
---@field fabric? "rail"|"flat"|"tapered"|"roce-pods" datasheet of the network between nodes; by default the node's
---@field nodes? integer number of nodes; by default as many as the ranks fill
---@field network? fsdpgen.cuda.network your own cluster's numbers, which replace those of the datasheets
---@field jit? boolean `make` builds a trainer that compiles its kernels when it starts, for the GPU it finds, as `make JIT=1` does

---@class (exact) fsdpgen.trainer.dtypes
---@field param? "f32"|"bf16"|"f64"|"f16" gathered weights, activations, outputs of blocks and logits; `"f64"` is for tests
---@field reduce? "f32"|"f64"|"bf16" gradients and their sums; every sum is rounded to it, even on one rank
---@field master? "f32"|"f64"|"split"|"bf16" weights that the optimizer updates; `"split"` stores the lower 16 bits of an f32 master beside its bf16 weight; `"bf16"` updates the bf16 weights themselves, with stochastic rounding
---@field linear? "param"|"fp8"|"mxfp8"|"nvfp4" operands of the matrix products of all blocks but the last, which has the head: `"fp8"` rounds weights and values to e4m3 and gradients to e5m2, each tensor with a scale of its own; see [numerics](numerics.md)
---@field moments? "f32"|"f64"|"bf16" optimizer state; `"bf16"` is rounded stochastically

---@class (exact) fsdpgen.trainer.groups
---@field match string[]|string patterns of names: `*` matches any characters, dots too, `?` one
---@field lr? number multiplies the learning rate
---@field weight_decay? number replaces the optimizer's, for norms and biases too
---@field frozen? boolean the weights never change: no gradient, no optimizer state, no reduction
---@field optimizer? "muon"|"adamw" which half of muon updates these matrices

---@class (exact) fsdpgen.trainer.loss
---@field chunk_tokens? integer tokens whose logits exist at once; the default keeps the head's products efficient: 2^22 / dim tokens, but at most 2^29 logits
---@field mask? boolean each data file `X` has a file `X.mask` that says which tokens are targets
---@field z? number weight of the z-loss: adds `z lse^2` to the loss of each token
---@field label_smoothing? number share of each target that is spread evenly over all tokens

---@class (exact) fsdpgen.trainer.loss_scale
---@field init? integer initial scale of a micro-batch's mean loss: a power of two with f16, 0 with other dtypes
---@field growth_interval? integer number of updates in a row after which the scale grows
---@field factor? integer factor by which the scale grows and shrinks
---@field min? integer least scale

---@class (exact) fsdpgen.trainer.documents
---@field end_id integer token that ends a document

---@class (exact) fsdpgen.trainer.parts
---@field tensor? integer parts of heads and features, which `mesh.tensor` ranks share
---@field context? integer parts of each sequence, which `mesh.context` ranks share; with `parts.tensor` at most 64 in all
---@field dtype? "param"|"f32" dtype of the summands of values that are sums over parts: `"f32"`, or `"param"`, rounded to `dtypes.param` before they are added in f32; gradients of weights have `dtypes.reduce`

---@class (exact) fsdpgen.trainer.mesh
---@field replicate? integer copies of the model
---@field shard? integer ranks that share one copy
---@field context? integer context parallelism: ranks that share the parts of `parts.context`
---@field tensor? integer tensor parallelism: ranks that share the parts of `parts.tensor`
---@field node? integer ranks per node: reductions sum within nodes first, so that fewer bytes cross between nodes; the cpu target simulates nodes
---@field expert? integer expert parallelism
---@field pipeline? integer pipeline stages

---@class (exact) fsdpgen.trainer.prefetch
---@field forward? integer units ahead in the forward
---@field backward? integer units ahead in the backward
---@field order? "pre"|"post"|"none" when the backward gathers the next unit: before the current one computes; after that, before its reduction (one unit less is held); or when it is needed
---@field in_flight? integer most units held at once: the current one and those ahead

---@class (exact) fsdpgen.trainer.checkpoint
---@field file_size? string largest size of a file of weights, unless one tensor is larger; several files get an index
---@field config? "checked"|"unchecked"|"none" the `config.json` beside the weights: an error unless the class that it names computes this graph; written as the architecture says, without a check; or no such file
---@field class? string a class of your own that `config.json` names (`architectures`, `auto_map`); what it computes is not checked

---@class (exact) fsdpgen.trainer
---@field name string name of the model in banners, in `--log` and in names of event files
---@field model fsdpgen.model an architecture with its dimensions: `llama { ... }`
---@field seq integer tokens per sequence
---@field micro_batch? integer sequences per micro-batch
---@field global_batch integer sequences per step; a multiple of `micro_batch`
---@field leaves? integer leaves of the tree that sums the gradients of a step: divides the number of micro-batches; the number of data ranks must divide it
---@field dtypes? fsdpgen.trainer.dtypes storage types of weights, gradients and optimizer state
---@field optimizer? fsdpgen.adamw|fsdpgen.lion|fsdpgen.muon|fsdpgen.sgd the optimizer, with its base learning rate
---@field lr? fsdpgen.constant|fsdpgen.linear|fsdpgen.cosine|fsdpgen.wsd|fsdpgen.inverse_sqrt schedule that multiplies the base learning rate
---@field groups? fsdpgen.trainer.groups[] settings for some parameters, selected by name; the first group that matches a parameter applies
---@field init? any initial weights by name pattern; the architecture's when missing (later)
---@field seed? integer seed of initial weights and data order
---@field loss? fsdpgen.trainer.loss the loss: cross entropy of the next token
---@field loss_scale? fsdpgen.trainer.loss_scale dynamic scaling of f16 gradients: a step whose gradient is not finite is skipped and lowers the scale
---@field documents? fsdpgen.trainer.documents samples are packed documents; attention and positions restart in each
---@field parts? fsdpgen.trainer.parts number of parts in which a value is computed, however many ranks share them
---@field reduction? "tree"|"library" order in which gradients are summed over ranks: a tree that does not depend on the ranks, or one rank after the other, as a library would; then mesh, strategy and accumulate are in the hash, too
---@field mesh? fsdpgen.trainer.mesh ranks along each axis
---@field strategy? "full_shard"|"no_shard"|"shard_grad_op"|"hybrid_shard"|"shard_optimizer" what is sharded; `"shard_optimizer"` shards only the optimizer's state (ZeRO-1)
---@field wrap? fsdpgen.per_block|fsdpgen.by_size|fsdpgen.by_name|fsdpgen.root_only|integer|fun(block: fsdpgen.block): boolean|string|table<string, boolean|string> how parameters form units, which are gathered and freed together
---@field reshard_after_forward? boolean|integer free the gathered weights between forward and backward; N: within groups of N ranks, each keeps a part of them
---@field prefetch? fsdpgen.trainer.prefetch|integer how many units are gathered ahead of their use, and when
---@field recompute? "none"|"cheap"|"block"|"auto"|fsdpgen.every|fsdpgen.ops activations that the backward computes again; `"auto"`: as few as the budget of the target requires, and none without a budget
---@field accumulate? "sharded"|"unsharded" how gradients are kept between the micro-batches of a step
---@field checkpoint? fsdpgen.trainer.checkpoint how checkpoints are written
---@field max_skipped? integer how many updates in a row may be skipped because a loss or gradient is not finite; one more ends the run with exit code 5; with f16, updates that lower the loss scale do not count
---@field fuse? boolean replace op sequences by fused kernels
---@field target? fsdpgen.cpu|fsdpgen.cuda the hardware that the trainer is compiled for

---@param fields fsdpgen.trainer
---@return fsdpgen.trainer
function trainer(fields) end

---@param fields fsdpgen.arch
---@return fun(dimensions: table): fsdpgen.model
function arch(fields) end

---@param fields? fsdpgen.adamw
---@return fsdpgen.adamw
function adamw(fields) end

---@param fields? fsdpgen.lion
---@return fsdpgen.lion
function lion(fields) end

---@param fields? fsdpgen.muon
---@return fsdpgen.muon
function muon(fields) end

---@param fields? fsdpgen.sgd
---@return fsdpgen.sgd
function sgd(fields) end

---@param fields? fsdpgen.constant
---@return fsdpgen.constant
function constant(fields) end

---@param fields? fsdpgen.cosine
---@return fsdpgen.cosine
function cosine(fields) end

---@param fields? fsdpgen.linear
---@return fsdpgen.linear
function linear(fields) end

---@param fields? fsdpgen.wsd
---@return fsdpgen.wsd
function wsd(fields) end

---@param fields? fsdpgen.inverse_sqrt
---@return fsdpgen.inverse_sqrt
function inverse_sqrt(fields) end

---@param fields fsdpgen.per_block|integer
---@return fsdpgen.per_block
function per_block(fields) end

---@param fields fsdpgen.by_size|integer
---@return fsdpgen.by_size
function by_size(fields) end

---@param fields fsdpgen.by_name
---@return fsdpgen.by_name
function by_name(fields) end

---@type fsdpgen.root_only
root_only = {}

---@param fields fsdpgen.every|integer
---@return fsdpgen.every
function every(fields) end

---@param fields fsdpgen.ops
---@return fsdpgen.ops
function ops(fields) end

---@param fields? fsdpgen.cpu
---@return fsdpgen.cpu
function cpu(fields) end

---@param fields? fsdpgen.cuda
---@return fsdpgen.cuda
function cuda(fields) end
