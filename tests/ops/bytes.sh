#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bytes.sh OP_TEST FOLDER: kernels on the simulated device move the bytes that their rules say, by which `plan` prices
# them (op_test_bytes.lua). Of ops that are priced by bytes: products, attention and losses, which read rows of
# logits in passes, are left out. Out: exit 1 if one moves others.
ops=$(ls "$(dirname "$0")/../../templates/ops" |
    grep -vE 'attention|linear|cross_entropy|conv1d|newton_schulz|fp8_product|^meet$' | tr '\n' ',')
for kind in rmsnorm_bwd_frozen rmsnorm_bwd_add_frozen layernorm_bwd_frozen qk_norm_bwd_frozen rmsnorm_scale \
    swiglu_scale rmsnorm_bwd_add_scale; do
    ops=$ops$kind,
done
exec "$1" --target cuda --bytes yes --cases 2 --seed "${SEED:-1}" --work "$2" --only "$ops"
