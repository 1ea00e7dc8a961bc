#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Plants one fault at a time in a copy of an op folder and demands that op_test finds
# it: a test that cannot fail proves nothing. In: the op_test binary. Out: exit 1 if a
# fault was missed, or if the op without a fault already fails. FULL=1: all of them; else every
# sixteenth, from one on that SEED chooses.
set -u
op_test=$1
ops=$(cd "$(dirname "$0")/../../templates/ops" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
missed=0
number=0
turn=$((${SEED:-1} % 16))

# fault OP FILE SED WHAT [TESTED]: the sed script is the fault; TESTED: the op whose
# tests run. A fault of cuda.cu is looked for on the simulated device.
fault() {
    number=$((number + 1))
    if [ "${FULL:-0}" != 1 ] && [ -n "$3" ] && [ $((number % 16)) != $turn ]; then
        sed "$3" "$ops/$1/$2" | cmp -s - "$ops/$1/$2" || return 0 # it can be planted
        echo "faults: \"$3\" changes nothing in $1/$2"
        missed=$((missed + 1))
        return
    fi
    target=cpu tries="3 40"
    [ "$2" = cuda.cu ] && target=cuda tries="1 8"
    rm -rf "$work/ops" "$work/run"
    mkdir -p "$work/ops" "$work/run"
    cp -R "$ops/$1" "$work/ops/"
    sed -i '/canonical/d' "$work/ops/$1/op.lua" # of built-in ops
    if [ -n "$3" ]; then
        sed -i "$3" "$work/ops/$1/$2"
        if cmp -s "$ops/$1/$2" "$work/ops/$1/$2"; then
            echo "faults: \"$3\" changes nothing in $1/$2"
            missed=$((missed + 1))
            return
        fi
    fi
    found=0
    for cases in $tries; do # an edge that a few random cases may not have
        "$op_test" --target $target --work "$work/run" --ops "$work/ops" \
            --only "${5:-$1}" --cases $cases >"$work/log" 2>&1 || found=1
        [ $found -eq 1 ] || [ -z "$3" ] && break
    done
    # ended before any test, and not because a cut of the op contradicts its other rules
    if [ -n "$3" ] && [ $found -eq 1 ] && ! grep -qE "FAIL|: error: op $1: cut " "$work/log"; then
        echo "faults: $1: $4: another end:"
        tail -n 5 "$work/log"
        missed=$((missed + 1))
        return
    fi
    if [ -n "$3" ] && [ $found -eq 0 ]; then
        echo "faults: missed in $1: $4"
        missed=$((missed + 1))
    elif [ -z "$3" ] && [ $found -eq 1 ]; then
        echo "faults: $1 fails as it is:"
        tail -n 5 "$work/log"
        missed=$((missed + 1))
    else
        echo "found: $1: $4 ($(grep -m 1 -E "FAIL|: error: op $1: cut " "$work/log"))"
    fi
}

fault rmsnorm cpu.c '' 'no fault: passes'
fault rmsnorm_bwd op.lua 's/h \* mean))/h * mean * 1.0001))/' 'a gradient, 1e-4 off' \
    rmsnorm
fault rope op.lua 's/x2 \* cos + x1 \* sin/x2 * cos - x1 * sin/' 'a sign in a reference'
fault linear op.lua 's/, w = g.linear_dw { d.y, n.x }//' 'a gradient that is missing'
fault linear op.lua 's/k = { y = "sum" }/k = { y = 2 }/' 'a sum that is called a cut'
fault fp8_scale op.lua 's/k = { s = "max" }/k = { s = "sum" }/' 'a largest that is called a sum'
fault rmsnorm_bwd op.lua 's/t = { dw = "sum" }/t = { dw = "sum" }, d = {}/' 'a norm cut by columns'
fault attention op.lua 's/{ 2, "heads", "kv_heads", "kv_heads" }, s/{ 2, "heads" }, s/' \
    'heads of queries, keys and values as one section'
fault attention op.lua 's/repeats = { kv_heads/repeats = { heads/' 'copies of query heads, of which there are more results'
fault layernorm cpu.c 's/(x + at, m, /(x + at, 0, /' 'variance around 0'
fault rmsnorm cpu.c 's/lit(eps)/lit(eps * 2)/' 'twice the eps'
fault swiglu cpu.c 's/0.044715/0.044718/' 'a constant in its 6th digit'
fault gelu_bwd op.lua 's/1 + 0.1341/1 + 0.1342/' 'a constant of a formula in its 4th digit' gelu
fault colsum cpu.c 's/(beta == 0 ?/(beta != 2 ?/' 'beta is ignored'
fault scale cpu.c 's/i < ${y.elems}/i < ${y.elems} + 1/' 'one element too many'
fault swiglu_bwd cpu.c 's/"d \* (gate \* s)"/"d * (" .. ld(gu, "at + j") .. " * s)"/' \
    'reads an input after its place was written'
race='#pragma omp parallel for reduction(+ : sum)'
fault cross_entropy cpu.c "s/    double sum = 0;/&\\n$race/" 'a sum in any order'
fault cross_entropy_bwd cpu.c 's/lit(2 \* z)/lit(z)/' 'half of the gradient of the z-loss'
fault cross_entropy_bwd op.lua 's/(1 + 2 \* n.z \* lse)/(1 + n.z * lse)/' \
    'half of the gradient of the z-loss, by differences' cross_entropy
fault cross_entropy cpu.c 's/lit(smoothing \/ v)/lit(smoothing)/' 'a share too large'
fault cross_entropy_bwd cpu.c 's/memset(dlogits + at, 0/memset(dlogits, 0/' \
    'a masked row keeps its gradient'
fault linear_cross_entropy cpu.c 's/losses\[i\] = 0/losses[i] = 1/' 'a masked token counts'
fault linear_cross_entropy op.lua 's/linear_dx { dlogits/linear_dx { logits/' \
    'the gradient of something else' linear_cross_entropy_frozen
fault linear_cross_entropy cpu.c 's/_dw, logits, x, dw, beta/_dw, logits, x, dw, 0.0f/' \
    'beta is ignored by a head that alone trains' linear_cross_entropy_alone
fault attention cpu.c 's/key >= oldest/key >= 0/' 'a query sees the document before its own'
fault attention cpu.c 's/oldest\[strip \* COLS + COLS - 1\]/oldest[strip * COLS]/' \
    'an edge of documents is missed'
fault attention_bwd cpu.c 's/oldest\[c + ${U}_COLS - 1\]/oldest[c]/' \
    'an edge of documents is missed in the backward'
fault attention cpu.c 's/(query - starts\[query\])/(query - starts[0])/' 'chunks are counted from the sequence'
fault attention_bwd cpu.c 's/"query \/ " .. chunk/"(query + 1) \/ " .. chunk/' \
    'a chunk of the backward begins a query early'
fault attention cpu.c 's/window < seq and window or 0/window/' 'a window of 2^31 among ints'
fault attention cpu.c 's/a->sum\[i\] = ${sinks and 1 or 0}/a->sum[i] = 0/' 'a sink without its part of the sum'
fault attention_sinks_bwd op.lua 's/-share \* delta/share * delta/' 'the sign of the gradient of sinks'
fault attention_sinks_bwd cpu.c 's/at \* ${wide}, ${wide}/at * ${wide}, ${wide} - 1/' 'a head less its last element'
fault rope cpu.c 's/ - starts\[i\]/ - starts[0]/' 'positions go on over documents'
fault add_pos_bwd cpu.c 's/ - starts\[i\]/ - starts[0]/' 'gradients of positions go on over documents'
squares='rt_row_sum_squares_${h.dtype}(h + at, 0, ${d})'
ulps='(sizeof(${acc}) == 8 ? 1 + 4e-16 : 1 + 2.4e-7f)'
fault add_rmsnorm cpu.c "s/$squares/& * $ulps/" 'a fused op that is not its expansion'
fault adamw cpu.c 's/lr \* run->weight_decay/lr * 0.9 * run->weight_decay/' 'weight decay'
fault adamw cpu.c 's/u->lr64 \* run->lr_ratio/u->lr64/' 'the ratio of a group is ignored'
fault newton_schulz cpu.c 's/wide and "NT" or "TN"/"NT"/' 'a tall matrix as a wide one'
fault newton_schulz cpu.c 's/lit(c)/lit(b)/' 'a coefficient in the place of another'
fault newton_schulz op.lua 's/2 \* up(s \* s/up(s * s/' 'too little workspace for a polynomial'
fault muon cpu.c 's/lr \* run->lr_adjust/lr/' 'the learning rate does not know the shape'
fault muon_momentum cpu.c 's/nesterov and ahead or "m"/"m"/' 'never ahead'
fault qk_norm_bwd op.lua 's/(n.t + 31) \/\/ 32 \* 2/(n.t + 31) \/\/ 32/' \
    'too little workspace'
fault slice cpu.c 's/ + ${first}//' 'columns from the start'
fault pad cpu.c 's/first > 0/first < 0/' 'no zeros before'
fault concat op.lua 's/at = at + cols/at = at/' 'gradients of other columns'
fault split op.lua 's/{ d.left, d.right }/{ d.right, d.left }/' 'gradients of other columns'
fault split_heads cpu.c 's/(first + h \* ${seq})/(first + h)/' 'heads in other rows'
fault gather_rows cpu.c 's/i \/ " .. seq .. "/0 \/ " .. seq .. "/' 'rows of the first sequence'
fault gather_rows_bwd cpu.c 's/sum\[j\] += /sum[j] = /' 'a row that was taken twice'
fault repeat_heads cpu.c 's/h \/ ${times}/h % ${2 * kv_heads}/' 'copies that are not side by side'
fault repeat_heads_bwd cpu.c 's/for k = 1, times - 1/for k = 2, times - 1/' 'a copy that is not added'
fault embed_bwd cpu.c 's/if (beta == 0)/if (beta != 0)/' 'clears when it should add'
if command -v g++ >/dev/null; then
    fault attention cuda.cu 's/rt_block_sync(); .. these have.*//' \
        'a barrier before tiles are read is missing'
    fault attention cuda.cu 's/rt_cp_async_wait(0);//' 'tiles are read on their way'
    fault attention cuda.cu 's/key0 + KEYS > own + 1/key0 > own + 1/' 'an edge is not masked'
    fault attention cuda.cu 's/lane % 4 == 0 ? 1 : 0/1/' 'a sink that counts four times'
    fault attention cuda.cu 's/fold and 1 \/ scale or/false or/' 'a sink in other units than scores'
    fault attention_bwd cuda.cu 's/own + 15 > first/own > first/' 'an edge is not masked'
    fault attention_bwd cuda.cu 's/window < seq and window or 0/window/' 'a window of 2^31 among ints'
    fault attention_bwd cuda.cu 's/lse2 += ${stride};//' 'another head, but its lse'
    fault colsum cuda.cu 's/    rt_block_sync();//' 'a barrier before sums are read is missing'
    fault embed_bwd cuda.cu 's/id + 1 : id/id : id/' 'two tokens of one id in one place'
    fault embed_bwd cuda.cu 's/\[from + ${many - 1}\] == id/[from] == id/' 'rows of the next id'
    fault rmsnorm_bwd_add cuda.cu 's/${rnd(dx, \(.*\))};/${\1};/' 'a fused op that rounds once'
    fault repeat_heads cuda.cu 's/copied % ${hd}/copied % ${times * hd}/' 'columns of the next head'
    fault repeat_heads_bwd cuda.cu 's/copy < ${times}/copy < ${times - 1}/' 'a copy that is not added'
    fault scale cuda.cu 's/if (at >= ${t \* d})/if (at > ${t * d})/' 'one element too many'
    fault layernorm cuda.cu 's/inside(g, "k", "v\[k\] - m")/"v[k] - m"/' \
        'a variance of what is beyond the row'
    fault rmsnorm_bwd cuda.cu 's/i += ${blocks}/i += ${blocks + 1}/' 'rows that no block takes'
    fault qk_norm_bwd cuda.cu 's/head < ${heads}/head <= ${heads}/' 'a k head counts for q'
    fault embed_bwd cuda.cu 's/if (beta == 0)/if (beta != 0)/' 'clears when it should add'
    fault linear_cross_entropy cuda.cu 's/rows, stride, d, x, x,/rows, v, d, x, x,/' \
        'rows of logits without their pad'
    fault linear_cross_entropy cuda.cu 's/a_at = at_row(x), b_at/b_at/' 'a chunk aligned as a buffer'
    fault linear_loss cuda.cu 's/, b_at = b_at })/ })/' 'a padded copy aligned as a buffer'
    fault adamw cuda.cu 's/elems - at < 8 ?/elems - at < 7 ?/' 'writes beyond the run'
    fault rope cuda.cu 's/if (y != qkv)/if (y == qkv)/' 'v is left out'
    fault muon_momentum cuda.cu 's/at < 0 ? before : 0/0/' 'writes before the run'
    fault muon cuda.cu 's/elems - at < 8 ?/elems - at < 7 ?/' 'writes beyond the run'
    fault muon cuda.cu 's/lr \* lr_adjust/lr/' 'the learning rate does not know the shape'
    fault newton_schulz cuda.cu 's/wide and "NT" or "TN"/"NT"/' 'a tall matrix as a wide one'
    fault newton_schulz cuda.cu 's/j += 256/j += 257/' 'squares that no thread adds'
    fault newton_schulz cuda.cu 's/{ c_at = gram_at }/{}/' 'a Gram matrix aligned as a buffer'
    fault newton_schulz cuda.cu 's/i < ${s \* s}/i <= ${s * s}/' 'one element too many'
else
    echo "faults: no g++, so none is planted in kernels for CUDA"
fi

echo "faults: $missed missed"
[ $missed -eq 0 ]
