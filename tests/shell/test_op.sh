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
    check "test-op: all ops hold" grep -qx '18 ops, 126 kernels, [0-9]* checks, 0 failures' out
    check "test-op: a line for each" grep -qx \
        'squared_relu  *ok  *f64 f32 bf16 f16; gradient, values, threads, rows' out
    check "test-op: a fused op" grep -q '^add_squared_relu .* expansion$' out
    check "test-op: nothing is left" test ! -s err -a -z "$(ls -A | grep -vxE 'all|out|err|log')"
fi
faulty "values" squared_relu/cpu.c 's/r \* r/r * r * 1.001f/' \
    '^ops/squared_relu/cpu\.c: error: squared_relu f32/f32: y\[[0-9]+\] is [^ ]+, not '
check "test-op: how far off" grep -qE \
    'y\[[0-9]+\] is [^ ]+, not [^ ]+: off by [0-9.e-]+, where [0-9.e-]+ is allowed$' err
check "test-op: of which call" grep -qE \
    '^  help: the call was squared_relu \{ x \[[0-9]+, [0-9]+\] \}, of --seed 1$' err
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
at='^ops/squared_relu/op\.lua:10:24: error: op squared_relu: ' # as `fsdpgen check` has it
faulty "an attribute that backward forgets" squared_relu_bwd/op.lua 's/axes =/attrs = { eps = "number" }, axes =/' \
    "${at}squared_relu_bwd: attribute eps is missing; give it eps = VALUE, which is not nil\$"
faulty "an attribute of the trainer that backward forgets" squared_relu_bwd/op.lua \
    's/axes =/attrs = { seq = { "int", from = "seq" } }, axes =/; s/return { t = r/return { seq = 1, t = r/' \
    "${at}squared_relu_bwd: attribute seq is missing; give it seq = VALUE, which is not nil\$"
faulty "an attribute that is not there" squared_relu/op.lua 's/d\.y }/d.y, eps = 3 }/' \
    "${at}squared_relu_bwd: unknown attribute eps; it has none\$"
faulty "a misspelt op" squared_relu/op.lua 's/relu_bwd {/relu_bwdd {/' \
    "${at}squared_relu_bwdd: there is no such op; did you mean squared_relu_bwd\?\$"
faulty "a mistake in the reference of a gradient" squared_relu_bwd/op.lua 's/n\.dx\[i\] = .*/n.dx[i] = n.zz.y/' \
    '^ops/squared_relu_bwd/op\.lua:12:13: error: op squared_relu: field `zz` is nil'
faulty "a backward without a table" squared_relu/op.lua 's/return { x = g.*/return 7/' \
    '^ops/squared_relu/op\.lua:9:5: error: squared_relu: backward returns a number, not a table: '
faulty "a gradient that is a number" squared_relu/op.lua 's/return { x = g.*/return { x = 7 }/' \
    ':9:5: error: squared_relu: backward gives a number as the gradient of x, '
faulty "a case without a size" squared_relu/op.lua 's/, d = r(1, 70)//' \
    ':18:5: error: op squared_relu: a case has no whole number for a dim of x, "t d"$'
faulty "a case that is a number" squared_relu/op.lua 's/return { t = r.*/return 5/' \
    ':18:5: error: op squared_relu: a case is a number, not a table of sizes$'
faulty "a cut output that is called a sum" squared_relu/op.lua 's/axes = {/cuts = { t = { y = "sum" } }, axes = {/' \
    ':7:5: error: squared_relu: cut t in [234]: the sum of output 1 has [0-9]+ elements, not [0-9]+$'
faulty "no reference" squared_relu/op.lua '/reference = /,/^    end,/d' \
    ': error: squared_relu has no `reference`: the naive computation that kernels are compared with$'
check "test-op: and cases are there" test "$(grep -c ': error: ' err)" = 1
faulty "no cases" squared_relu/op.lua '/cases = /,/^    end,/d' \
    ': error: squared_relu has no `cases`: what draws the sizes of random calls$'
fresh
sed -i 's/ld(x, "i")/ld(x, "i + 1")/' ops/squared_relu/cpu.c # without a fault that values show
if [ "$(${CC:-cc} -print-file-name=libasan.so)" != libasan.so ] && ! grep -q SANITIZE:.*address "$BUILD/CMakeCache.txt"; then
    tried 1 ops --only squared_relu --cases 1 --sanitize address &&
        check "test-op: a read past the end, by AddressSanitizer" grep -q 'heap-buffer-overflow' err
fi
fresh
tried 0 ops --cases 1 --sanitize undefined --keep kept --jobs 1 &&
    check "test-op: --keep has the emitted C" test -s kept/squared_relu_0.c
tried 0 ops --cases 1 --only squared_relu --keep kept
mkdir -p theirs/runtime && echo mine | tee theirs/runtime/rt.h >precious.h && ln -sf ../../precious.h kept/runtime/rt.h
tried 1 ops --cases 1 --keep theirs && check "test-op: --keep names a folder of others" grep -qx \
    'fsdpgen: error: --keep: theirs: the folder has files, and none says that test-op made it' err
tried 1 ops --cases 1 --keep kept && check "test-op: a link in a kept folder" grep -q 'kept/runtime/rt.h: is a link' err
check "test-op: both are as they were" test "$(cat theirs/runtime/rt.h precious.h)" = $'mine\nmine'
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
