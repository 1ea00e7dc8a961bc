# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: mistakes in templates.

template_mistake() { # template_mistake FILE LINE: --share and --ops copies with a bad line
    local share=$WORK/share
    rm -rf "$share"
    mkdir -p "$share/gen"
    cp -r "$ROOT/templates" "$ROOT/runtime" "$ROOT/models" "$share/"
    cp -r "$ROOT/gen/lua" "$share/gen/"
    sed -i "$2s/.*/\${no_such_name}/" "$share/$1"
    ! "$FSDPGEN" "$model" -o "$WORK/mistake" --share "$share" 2>"$WORK/err" >&2 &&
        grep -q "$1:$2:.*no_such_name" "$WORK/err" && [ ! -e "$WORK/mistake" ]
}
check "a mistake in step.c names its line" template_mistake templates/trainer/step.c 5
check "a mistake in a kernel names its line" template_mistake templates/ops/rmsnorm/cpu.c 7
# user_op_mistake OP FILE EDIT MESSAGE: a user's copy of an op, changed by sed
user_op_mistake() {
    rm -rf "$WORK/ops" "$WORK/mistake"
    mkdir -p "$WORK/ops"
    cp -r "$ROOT/templates/ops/$1" "$WORK/ops/"
    sed -i '/canonical/d' "$WORK/ops/$1/op.lua" # of built-in ops
    sed -i "$3" "$WORK/ops/$1/$2"
    "$FSDPGEN" "$model" -o "$WORK/mistake" --ops "$WORK/ops" 2>"$WORK/err" >&2
    [ $? = 1 ] && grep -q "$1/$2:$4" "$WORK/err" && [ ! -e "$WORK/mistake" ]
}
last=$(wc -l <"$ROOT/templates/ops/swiglu/cpu.c")
check "a mistake in a user's kernel names its line" user_op_mistake swiglu cpu.c \
    '$a //@ error("mine")' "$((last + 1)):.*mine"
check "so does one that a function of ours finds" user_op_mistake swiglu cpu.c \
    's/ld(gu, "at + j")/lit(nil)/' '12:.*lit: not a finite number: nil'
check "a kernel that prints \${ is its mistake" user_op_mistake swiglu cpu.c \
    '$a ${"$" .. "{"}' '1:.*prints ${'
check "a kernel by another name names its file" user_op_mistake swiglu cpu.c \
    's/static void ${fn}(/static void my_${fn}(/' '1:.*prints no function swiglu_'
check "flops that are not a product's name the rule's line" user_op_mistake linear op.lua \
    's/return 2 \* n.t/return 3 * n.t/' '[0-9]*:5: error: op linear: .* flops, but 2 M N K is'
