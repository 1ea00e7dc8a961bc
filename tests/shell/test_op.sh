# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh, after `installed`: `fsdpgen test-op` of the installed program, in an empty folder
# and environment: ops that hold, faults of each kind by their messages, the exit codes.
# Without fsdpgen's folders beside it, everything must come out of the program.
tool=$WORK/prefix/bin/fsdpgen
[ -x "$tool" ] || tool=$(find "$WORK/prefix" -name fsdpgen -type f -perm -u+x | head -n 1)
mkdir -p "$WORK/own tests" && cd "$WORK/own tests" || exit 70

# tried STATUS [NAME=VALUE...] ARGS...: test-op ends with that status
tried() {
    local status=$1 environment=()
    shift
    while [[ $1 = *=* ]]; do environment+=("$1"); shift; done
    env -i PATH="$PATH" HOME="$HOME" CFLAGS="-O1" OMP_WAIT_POLICY=passive \
        "${environment[@]}" timeout 240 "$tool" test-op "$@" >out 2>err </dev/null
    local got=$?
    [ $got = "$status" ] || { cat out err >log; bad "test-op $*: status $got, not $status" log; return 1; }
}

fresh() { # the folder `ops` with squared_relu and its gradient
    rm -rf ops
    mkdir ops
    cp -R "$ROOT/tests/e2e/outside/ops/squared_relu" "$ROOT/tests/e2e/outside/ops/squared_relu_bwd" ops/
}

# faulty WHAT FILE SED MESSAGE [OPTION...]: the fault is found, and its message is this
faulty() {
    local what=$1 file=$2 script=$3 message=$4
    shift 4
    fresh
    sed -i "$script" "ops/$file"
    if cmp -s "ops/$file" "$ROOT/tests/e2e/outside/ops/$file"; then
        bad "test-op: $what: nothing was planted" "ops/$file"
    elif tried 1 ops --only squared_relu --cases 1 "$@"; then
        check "test-op: $what" grep -qE -- "$message" err
    fi
}

cp -R "$ROOT/tests/e2e/outside/ops" all
if tried 0 all --cases 1; then
    check "test-op: all ops hold" grep -qx '13 ops, 91 kernels, [0-9]* checks, 0 failures' out
    check "test-op: a line for each" grep -qx \
        'squared_relu  *ok  *f64 f32 bf16 f16; gradient, values, threads, rows' out
    check "test-op: a fused op" grep -q '^add_squared_relu .* expansion$' out
    check "test-op: nothing is left" test ! -s err -a -z "$(ls -A | grep -vxE 'all|out|err|log')"
fi
faulty "values" squared_relu/cpu.c 's/r \* r/r * r * 1.001f/' \
    '^ops/squared_relu/cpu\.c: error: squared_relu f32/f32: y\[[0-9]+\] is [^ ]+, not '
faulty "a gradient" squared_relu/op.lua 's/, d\.y }/, n.x }/' \
    '^ops/squared_relu/op\.lua:[0-9]+:[0-9]+: error: squared_relu: dx\[[0-9]+\] is .*, by differences '
faulty "rows" squared_relu/cpu.c 's/"r \* r"/"r * r * (1 + 3e-16 * " .. t % 7 .. ")"/' \
    'squared_relu f64/f64: rows of y have other bits when they are cut after row [0-9]+' --seed 3
faulty "threads" squared_relu/cpu.c 's/int64_t i = 0/int64_t i = omp_get_num_threads() - 1/; 1s/^/#include <omp.h>\n/' \
    'squared_relu f64/f64 with [238] threads: output 1 has other bits'
faulty "an end" squared_relu/cpu.c 's/i < \${x.elems}/i <= ${x.elems}/' 'writes past the end of operand 2'
faulty "a crash" squared_relu/cpu.c 's/r \* r/*(volatile int *)0 + r/' \
    '^ops/squared_relu/cpu\.c: error: squared_relu f64/f64: the kernel crashed: Segmentation fault$'
faulty "a compiler's error" squared_relu/cpu.c 's/r \* r/r * q/' \
    '^ops/squared_relu/cpu\.c: error: its kernels do not compile$'
faulty "its error, which warnings hide" squared_relu/cpu.c 's/r \* r/r * q/; 1s/^/#warning a\n#warning b\n#warning c\n/' \
    "^  .*error: .*q.* undeclared"
faulty "a mistake in a template" squared_relu/cpu.c 's/"r \* r"/"r * r" .. nope/' \
    '^ops/squared_relu/cpu\.c:[0-9]+:[0-9]+: error: '
check "test-op: and no kernel is blamed" test "$(grep -c ': error: ' err)" = 1
faulty "a mistake in a rule" squared_relu/op.lua 's/x \* x)/x * x + nope.z)/' \
    "^ops/squared_relu/op\\.lua:[0-9]+:[0-9]+: error: op squared_relu: .*nope"
fresh
sed -i 's/ld(x, "i")/ld(x, "i + 1")/' ops/squared_relu/cpu.c # without a fault that values show
if [ "$(${CC:-cc} -print-file-name=libasan.so)" != libasan.so ] && ! grep -q SANITIZE:.*address "$BUILD/CMakeCache.txt"; then
    tried 1 ops --only squared_relu --cases 1 --sanitize address &&
        check "test-op: a read past the end, by AddressSanitizer" grep -q 'heap-buffer-overflow' err
fi
fresh
tried 0 ops --cases 1 --sanitize undefined --keep kept --jobs 1 &&
    check "test-op: --keep has the emitted C" test -s kept/squared_relu_0.c
rm ops/squared_relu/cpu.c
tried 1 ops --cases 1 --only squared_relu && check "test-op: a missing kernel" grep -q \
    '^ops/squared_relu/cpu\.c: error: squared_relu has no kernel: write cpu\.c' err
mkdir bare && cp -R ops/squared_relu_bwd bare/mine && rm bare/mine/op.lua
tried 1 bare && check "test-op: a kernel without a rule" grep -qx \
    'bare/mine: error: there is a cpu.c, but no op.lua' err
rm -r bare/mine
tried 1 bare && check "test-op: no op folders" grep -qx \
    'fsdpgen: error: bare has no op folders: a subfolder with an op.lua for each op' err
fresh
tried 4 CC=no-such-compiler ops && check "test-op: no compiler" grep -qx \
    'fsdpgen: error: test-op: `no-such-compiler` does not compile C with OpenMP' err
tried 1 nowhere && check "test-op: no folder" grep -qx 'fsdpgen: error: nowhere: No such file or directory' err
tried 1 ops/squared_relu && check "test-op: one op's folder" grep -q 'name the folder that holds it' err
tried 1 ops --only nope && check "test-op: an unknown op" grep -qx 'fsdpgen: error: no op is called nope' err
tried 2 ops --target cuda --sanitize both && check "test-op: sanitizers of cuda" grep -q 'for the target cpu' err
if command -v g++ >/dev/null; then
    cp -R "$ROOT/templates/ops/scale" ops/
    if tried 0 CUDA_HOME=/nowhere ops --target cuda --cases 1; then
        check "test-op: on the simulated device" grep -qx 'scale  *ok  *f64 f32 bf16; values, orders, .*' out
        check "test-op: it says where" grep -q '^on the simulated device: no GPU here; ' out
        check "test-op: an op without cuda.cu" grep -qx 'squared_relu  *not run: no cuda.cu' out
    fi
    # a toolkit's stand-in takes the way of a real one
    toolkit=$BUILD/tests/cudasim/home
    if [ -e "$toolkit/lib64/libcudart.so" ]; then
        tried 0 CUDA_HOME="$toolkit" ops --target cuda --cases 1 --only scale &&
            check "test-op: on a device" grep -qx 'on a GPU here, sm_[0-9a]*' out
    fi
    sed -i 's/if (at >= ${t \* d})/if (at > ${t * d})/' ops/scale/cuda.cu
    tried 1 CUDA_HOME=/nowhere ops --target cuda --cases 1 --only scale &&
        check "test-op: a fault of cuda.cu" grep -q '^ops/scale/cuda\.cu: error: ' err
fi
cd "$ROOT" || exit 70
