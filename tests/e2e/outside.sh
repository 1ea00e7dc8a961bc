# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. What comes from outside the tree, and what may be absent: a user's op
# and architecture; the ops folder somewhere else; no library under the products; no
# allocation.

# loss STEP FILE: as the log has it.
loss_of() { grep '^{"step"' "$2" | sed -n "$1p" | sed -n 's/.*"loss": *\([-0-9.e+]*\).*/\1/p'; }

outside_user() {
    local dir=$WORK/user away=$WORK/away first last
    mkdir -p "$away" && cp -r "$ROOT/tests/e2e/outside/." "$away"
    if ! generate "$dir" "$away/relu_net.lua" --ops "$away/ops" || ! build_trainer "$dir" ||
       ! train "$dir" "$data" 40; then
        bad "a user's op and architecture train" "$dir.log"
        return
    fi
    first=$(loss_of 1 "$dir.jsonl")
    last=$(loss_of 40 "$dir.jsonl")
    if awk "BEGIN { exit !($first > 5 && $last < $first - 1.5) }"; then
        ok "a user's op and architecture train: loss $first to $last"
    else
        bad "a user's op and architecture: loss $first to $last"
    fi
    if grep -q '^void add_squared_relu' "$dir/kernels.c" &&
       grep -q 'squared_relu_bwd' "$dir/math.c"; then
        ok "the user's fused op is used, and differentiated"
    else
        bad "the user's fused op is not there"
    fi
    # sharded, and with nothing fused: the same bits
    for flags in "--set mesh.shard=4 --set wrap=2" "--set fuse=false"; do
        rm -rf "$dir.2" "$dir".2.*
        # shellcheck disable=SC2086
        if generate "$dir.2" "$away/relu_net.lua" --ops "$away/ops" $flags &&
           build_trainer "$dir.2" && train "$dir.2" "$data" 40 &&
           cmp -s "$dir.result" "$dir.2.result"; then
            ok "the user's op gives equal bits with $flags"
        else
            bad "the user's op with $flags" "$dir.2.log"
        fi
    done
}

# docs/ops.md's examples: the loss falls, and other shards with recomputation have the same bits.
outside_examples() {
    local dir=$WORK/mixed outside=$ROOT/tests/e2e/outside
    if ! generate "$dir" "$outside/mixed.lua" --ops "$outside/ops" || ! build_trainer "$dir" ||
       ! train "$dir" "$data" 30; then
        bad "docs/ops.md's examples train" "$dir.log"
        return
    fi
    check "docs/ops.md's examples learn" \
        awk "BEGIN { exit !($(loss_of 1 "$dir.jsonl") - 1.5 > $(loss_of 30 "$dir.jsonl")) }"
    if generate "$dir.2" "$outside/mixed.lua" --ops "$outside/ops" --set mesh.shard=4 \
           --set recompute=block && build_trainer "$dir.2" && train "$dir.2" "$data" 30 &&
       cmp -s "$dir.result" "$dir.2.result"; then
        ok "docs/ops.md's examples give equal bits on 4 ranks"
    else
        bad "docs/ops.md's examples on 4 ranks" "$dir.2.log"
    fi
}

# Ops of one line: a network of formulas trains, to the same bits on 1, 2 and 4 ranks, and to those of
# squared_relu written by hand; with its weights of the gate frozen; and its CUDA is emitted.
outside_formulas() {
    local dir=$WORK/formulas away=$WORK/formulas.away first last flags
    mkdir -p "$away" && cp -r "$ROOT/tests/e2e/outside/." "$away"
    if ! generate "$dir" "$away/formula_net.lua" --ops "$away/ops" || ! build_trainer "$dir" ||
       ! train "$dir" "$data" 40; then
        bad "formulas train" "$dir.log"
        return
    fi
    first=$(loss_of 1 "$dir.jsonl")
    last=$(loss_of 40 "$dir.jsonl")
    check "formulas train: loss $first to $last" \
        awk "BEGIN { exit !($first > 5 && $last < $first - 1.5) }"
    check "no kernel of others is in it" sh -c "! grep -q 'ops/.*becomes part' '$dir.log'"
    while read -r flags; do
        rm -rf "$dir.2" "$dir".2.*
        # shellcheck disable=SC2086
        if generate "$dir.2" "$away/formula_net.lua" --ops "$away/ops" $flags &&
           build_trainer "$dir.2" && train "$dir.2" "$data" 40 &&
           cmp -s "$dir.result" "$dir.2.result"; then
            ok "formulas give equal bits with $flags"
        else
            bad "formulas with $flags" "$dir.2.log"
        fi
    done <<'TABLE'
--set mesh.shard=2 --set recompute=block
--set mesh.shard=4 --set wrap=2
--set fuse=false
TABLE
    sed -i 's/g.relu2/g.squared_relu/' "$away/arch/formula_net.lua"
    rm -rf "$dir.2" "$dir".2.*
    generate "$dir.2" "$away/formula_net.lua" --ops "$away/ops" && build_trainer "$dir.2" &&
        train "$dir.2" "$data" 40
    check "and the bits of the op written by hand" cmp -s "$dir.result" "$dir.2.result"
    for flags in "--target cuda" "--set groups={{match=\"*scale*\",frozen=true}}"; do
        rm -rf "$dir.2" "$dir".2.*
        # shellcheck disable=SC2086
        check "formulas are emitted with $flags" generate "$dir.2" \
            "$ROOT/tests/e2e/outside/formula_net.lua" --ops "$ROOT/tests/e2e/outside/ops" $flags
    done
}

# The same bits of the optimizer from outside: resumed in the middle, and cut otherwise.
outside_optimizer_bits() {
    local dir=$1 flags
    train "$dir" "$data" 10 --checkpoint "$WORK/optimizer.saved" --checkpoint-every 10
    "$dir/trainer" --data "$data" --steps 20 --weights-hash --checkpoint "$WORK/optimizer.saved" \
        --resume >"$dir.out" 2>>"$dir.log"
    check "a user's optimizer resumes exactly" \
        test "$(grep '^weights ' "$dir.out")" = "$(grep '^weights ' "$dir.whole")"
    for flags in "--set mesh.shard=4" "--set mesh.shard=2 --set strategy=shard_optimizer" \
                 "--set mesh.replicate=2 --set strategy=no_shard"; do
        rm -rf "$dir.2" "$dir".2.*
        # shellcheck disable=SC2086
        if generate "$dir.2" "$WORK/rmsprop/rmsprop.lua" --ops "$WORK/rmsprop/ops" $flags &&
           build_trainer "$dir.2" && train "$dir.2" "$data" 20 &&
           cmp -s "$WORK/optimizer.result" "$dir.2.result"; then
            ok "a user's optimizer gives equal bits with $flags"
        else
            bad "a user's optimizer with $flags" "$dir.2.log"
        fi
    done
}

outside_optimizer() {
    local dir=$WORK/optimizer.run away=$WORK/rmsprop first last
    mkdir -p "$away" && cp -r "$ROOT/tests/e2e/outside/." "$away"
    if ! generate "$dir" "$away/rmsprop.lua" --ops "$away/ops" || ! build_trainer "$dir" ||
       ! train "$dir" "$data" 20; then
        bad "a user's optimizer trains" "$dir.log"
        return
    fi
    cp "$dir.result" "$WORK/optimizer.result"
    cp "$dir.out" "$dir.whole"
    first=$(loss_of 1 "$dir.jsonl")
    last=$(loss_of 20 "$dir.jsonl")
    check "a user's optimizer trains: loss $first to $last" \
        awk "BEGIN { exit !($first > 5 && $last < $first - 1) }"
    check "it keeps the moment that its rule has" sh -c \
        "grep -q 'moment1 = MOMENT1_##X' '$dir/tables.c' && grep -q 'moment2 = -1' '$dir/tables.c'"
    outside_optimizer_bits "$dir"
}

# outside_refused NAME SED PLACE TEXT: the rule of rmsprop with a mistake
outside_refused() {
    local bad_ops=$WORK/refused
    rm -rf "$bad_ops"
    mkdir -p "$bad_ops"
    cp -r "$ROOT/tests/e2e/outside/." "$bad_ops"
    sed -i "$2" "$bad_ops/ops/rmsprop/op.lua"
    "$FSDPGEN" check "$bad_ops/rmsprop.lua" --ops "$bad_ops/ops" 2>"$WORK/refused.err"
    if [ $? = 1 ] && grep -q "rmsprop/op.lua:$3: error: op rmsprop: .*$4" "$WORK/refused.err" &&
       grep -q '  help: ' "$WORK/refused.err"; then
        ok "refused: $1"
    else
        bad "refused: $1" "$WORK/refused.err"
    fi
}

outside_optimizer_rules() {
    local away=$ROOT/tests/e2e/outside
    outside_refused "an unknown type" 's/"alpha", "number"/"alpha", "real"/' '[0-9]*:[0-9]*' \
        "field 'alpha': unknown type real"
    outside_refused "an unknown attribute of a field" 's/below = 1,/belw = 1,/' '[0-9]*:[0-9]*' \
        "unknown attribute 'belw'"
    outside_refused "a default out of range" 's/default = 0.99/default = 1/' '[0-9]*:[0-9]*' \
        "field 'alpha': its default 1 is out of its own range"
    outside_refused "three moments" \
        's/"moment1", "e", class = "moments" },/& { "moment2", "e", class = "moments" }, { "moment3", "e", class = "moments" },/' \
        '[0-9]*:[0-9]*' "an input of class moments that is not moment1 or moment2"
    outside_refused "an attribute without a field" \
        's/attrs = {/& beta = "number",/' '[0-9]*:[0-9]*' "attribute beta has no field"
    outside_refused "a field that all optimizers have" \
        's/"eps", "number"/"lr", "number"/; s/eps = "number"/lr = "number"/' \
        '[0-9]*:[0-9]*' "field 'lr' is declared twice"
    rm -rf "$WORK/clash"
    mkdir -p "$WORK/clash"
    cp -r "$away/ops/rmsprop" "$WORK/clash/cosine"
    "$FSDPGEN" check "$ROOT/models/demo.lua" --ops "$WORK/clash" 2>"$WORK/clash.err"
    check "refused: fields under a name that descriptions have" \
        grep -q 'op cosine: descriptions have another cosine already' "$WORK/clash.err"
    "$FSDPGEN" check "$away/rmsprop.lua" 2>"$WORK/none.err"
    check "without --ops: the optimizers there are" \
        grep -q "help: optimizers are adamw, lion, muon and sgd; .--ops DIR. adds others" \
        "$WORK/none.err"
}

# numerics_of FLAGS...: the hash of a small llama
numerics_of() {
    "$FSDPGEN" "$ROOT/tests/models/tiny_llama.lua" "$@" --dump=fuse 2>/dev/null |
        sed -n 's/^numerics //p'
}

# A built-in optimizer is known by its folder alone: a copy of it is the same one, under another
# name it computes the same, and one with another text is another one.
outside_optimizer_copies() {
    local name ops=$WORK/copied_ops own
    for name in adamw lion muon sgd; do
        rm -rf "$ops" "$WORK/built_in" "$WORK/copied"
        mkdir -p "$ops"
        cp -r "$ROOT/templates/ops/$name" "$ops"
        generate "$WORK/built_in" "$ROOT/tests/models/tiny_llama.lua" --set "optimizer=$name{}"
        generate "$WORK/copied" "$ROOT/tests/models/tiny_llama.lua" --set "optimizer=$name{}" \
            --ops "$ops"
        check "$name: a copy of its folder by --ops gives the same bytes" \
            diff -r "$WORK/built_in" "$WORK/copied"
        own=$(numerics_of --set "optimizer=$name{}")
        check "$name: and the same hash" \
            test -n "$own" -a "$own" = "$(numerics_of --set "optimizer=$name{}" --ops "$ops")"
        sed -i 's/^-- SPDX.*/&, edited/' "$ops/$name/op.lua"
        check "$name: with another text another one" \
            test "$own" != "$(numerics_of --set "optimizer=$name{}" --ops "$ops")"
        mv "$ops/$name" "$ops/my_$name"
        sed -i '/^ *default = true,$/d' "$ops/my_$name/op.lua"
        check "$name: under another name beside it" \
            test -n "$(numerics_of --set "optimizer=my_$name{}" --ops "$ops")"
    done
}

# A user's optimizer of whole matrices: muon's folder under another name ends with muon's bits,
# whatever the mesh; with lion for the rest it trains otherwise.
outside_optimizer_matrices() {
    local ops=$WORK/matrix_ops dir=$WORK/matrices model=$ROOT/tests/models/tiny_llama.lua
    local name flags
    mkdir -p "$ops"
    cp -r "$ROOT/templates/ops/muon" "$ops/spectral"
    cp -r "$ROOT/templates/ops/muon" "$ops/spectral_lion"
    sed -i 's/others = "adamw"/others = "lion"/' "$ops/spectral_lion/op.lua"
    while read -r name flags; do
        rm -rf "$dir.$name" "$dir.$name".*
        # shellcheck disable=SC2086
        if generate "$dir.$name" "$model" --ops "$ops" $flags && build_trainer "$dir.$name" &&
           train "$dir.$name" "$data" 10; then
            ok "$name trains: $flags"
        else
            bad "$name trains: $flags" "$dir.$name.log"
        fi
    done <<'TABLE'
muon --set optimizer=muon{lr=2e-3} --set mesh.shard=1
same --set optimizer=spectral{lr=2e-3} --set mesh.shard=4
lion --set optimizer=spectral_lion{lr=2e-3,lion={lr=1e-4}} --set mesh.shard=1
lion4 --set optimizer=spectral_lion{lr=2e-3,lion={lr=1e-4}} --set mesh.shard=4
TABLE
    check "muon under another name gives muon's bits" cmp -s "$dir.muon.result" "$dir.same.result"
    check "with other others the bits are others" \
        sh -c "! cmp -s '$dir.muon.result' '$dir.lion.result'"
    check "and they do not depend on the mesh" cmp -s "$dir.lion.result" "$dir.lion4.result"
    check "it keeps one moment, as lion does" sh -c \
        "! grep -q MOMENT2 '$dir.lion/tables.h' && grep -q MOMENT2 '$dir.muon/tables.h'"
}

outside_moved_ops() {
    local model
    cp -r "$ROOT/templates/ops" "$WORK/moved_ops"
    for model in models/demo tests/models/tiny_gpt2; do
        rm -rf "$WORK/built_in" "$WORK/moved"
        generate "$WORK/built_in" "$ROOT/$model.lua"
        generate "$WORK/moved" "$ROOT/$model.lua" --ops "$WORK/moved_ops"
        check "$model: the ops folder moved gives the same bytes" \
            diff -r "$WORK/built_in" "$WORK/moved"
    done
}

# No library: our own tiles; and no path to one, by the dynamic linker's own list.
outside_builtin() {
    local dir=$WORK/builtin
    if generate "$dir" "$ROOT/tests/models/tiny_llama.lua" --set mesh.shard=2 &&
       build_trainer "$dir" GEMM=builtin && train "$dir" "$data" 10; then
        ok "GEMM=builtin trains"
    else
        bad "GEMM=builtin" "$dir.log"
        return
    fi
    if ldd "$dir/trainer" | grep -qE 'dnnl|blas|blis'; then
        bad "GEMM=builtin links a library"
    else
        ok "GEMM=builtin links no library"
    fi
    if awk "BEGIN { exit !($(loss_of 10 "$dir.jsonl") < $(loss_of 1 "$dir.jsonl") - 0.05) }"
    then
        ok "GEMM=builtin: the loss falls"
    else
        bad "GEMM=builtin: the loss does not fall" "$dir.jsonl"
    fi
}

# A variable by which a library takes other kernels makes another platform.
outside_platform() {
    local dir=$WORK/platform gemm variable none
    [ "$(uname -m)" = x86_64 ] || return
    check "a trainer for other platforms" generate "$dir" "$ROOT/tests/models/tiny_llama.lua" --set mesh.shard=1
    while read -r gemm variable; do
        if [ $gemm = cblas ] && ! isa_openblas "$WORK/openblas"; then
            echo "skipped: $variable: no OpenBLAS that chooses kernels"
        elif [ $gemm = onednn ] && ! echo '#include <oneapi/dnnl/dnnl.h>' | cc -E -x c - >/dev/null 2>&1; then
            echo "skipped: $variable: no oneDNN"
        elif build_trainer "$dir" GEMM=$gemm; then
            none=$(env -u "${variable%=*}" "$dir/trainer" --platform-hash | sed -n 's/^platform //p')
            check "$variable is another platform" test -n "$none" -a "${none%% *}" != \
                "$(env "$variable" "$dir/trainer" --platform-hash | sed -n 's/^platform \([^ ]*\).*/\1/p')"
        else
            bad "$variable: GEMM=$gemm does not build" "$dir.log"
        fi
    done <<'TABLE'
onednn ONEDNN_MAX_CPU_ISA=SSE41
onednn ONEDNN_CPU_ISA_HINTS=PREFER_YMM
cblas OPENBLAS_CORETYPE=Nehalem
cblas OPENBLAS_BLOCK_FACTOR=2
TABLE
    [ ! -x "$WORK/openblas" ] || outside_old_openblas "$dir"
}

# outside_old_openblas DIR: a trainer over an OpenBLAS that is older than the processor says so.
outside_old_openblas() {
    local warns="$WORK/old_openblas.err"
    cc "-march=$ISA_ARCH" -dM -E -x c /dev/null | grep -q __AVX2__ || return
    echo 'char *openblas_get_corename(void) { return "Prescott"; }' |
        cc -shared -fPIC -x c - -o "$WORK/prescott.so" && build_trainer "$1" GEMM=cblas || {
        bad "a trainer over OpenBLAS" "$1.log"
        return
    }
    env -u OPENBLAS_CORETYPE LD_PRELOAD="$WORK/prescott.so" "$1/trainer" --data "$data" --steps 1 --quiet >"$WORK/out" 2>"$warns"
    check "slow kernels are named" grep -q 'warning: OpenBLAS .* kernels for Prescott: OPENBLAS_CORETYPE=' "$warns"
    OPENBLAS_CORETYPE=Haswell LD_PRELOAD="$WORK/prescott.so" "$1/trainer" --data "$data" --steps 1 --quiet >"$WORK/out" 2>"$warns"
    check "who chose them hears nothing" sh -c "! grep OpenBLAS '$warns'"
}

# allocations DIR THREADS STEPS: calls of malloc, mmap and their kin over all ranks of a
# run, by who asked: the trainer, OpenMP, the library under the products, everything else.
allocations() {
    rm -f "$WORK/allocations"
    ALLOC_HOOK_FILE=$WORK/allocations LD_PRELOAD=$WORK/alloc_hook.so \
        "$1/trainer" --data "$data" --threads "$2" --steps "$3" >"$WORK/alloc.out" 2>&1 &&
        od -An -tu8 -w32 "$WORK/allocations"
}

# A step allocates nothing: ten more of them make not one more call. What a library does
# inside is its own: oneDNN allocates as it runs, and libgomp when a rank has a single
# thread.
outside_allocations() {
    local dir=$WORK/alloc gemm threads name grown
    local few many
    cc -O1 -shared -fPIC "$ROOT/tests/e2e/alloc_hook.c" -o "$WORK/alloc_hook.so" || {
        bad "alloc_hook.c"
        return
    }
    for gemm in builtin auto; do
        rm -rf "$dir"
        if ! generate "$dir" "$ROOT/tests/models/tiny_llama.lua" --set mesh.shard=2 ||
           ! build_trainer "$dir" GEMM=$gemm; then
            bad "allocations, GEMM=$gemm: does not build" "$dir.log"
            continue
        fi
        for threads in 1 2; do
            name="GEMM=$gemm, $threads threads: steps allocate"
            read -r -a few < <(allocations "$dir" $threads 3)
            read -r -a many < <(allocations "$dir" $threads 13)
            if [ ${#few[@]} -ne 4 ] || [ ${#many[@]} -ne 4 ] || [ "${few[0]}" -lt 10 ]; then
                bad "$name: not counted" "$WORK/alloc.out"
                continue
            fi
            grown=$((many[0] - few[0] + many[3] - few[3]))
            [ $threads = 1 ] || grown=$((grown + many[1] - few[1]))
            [ $gemm = auto ] || grown=$((grown + many[2] - few[2]))
            if [ $grown -eq 0 ]; then
                ok "$name nothing"
                echo "figure: $name nothing of theirs; libgomp $(((many[1] - few[1]) / 20))," \
                    "library $(((many[2] - few[2]) / 20)) a step and rank"
            else
                bad "$name: ${few[*]} in 3, ${many[*]} in 13 (own, OpenMP, library, other)"
            fi
        done
    done
}
