# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: random legal descriptions that generate are trained, as they are
# and with every choice outside the numerics hash changed; losses, norms and weights are
# equal to the bit.
. "$ROOT/tests/e2e/common.sh"

# Numbers that train; the shapes, dtypes and choices stay as drawn.
tame="--set optimizer.lr=1e-3 --set optimizer.clip=1.0 --set optimizer.betas={0.9,0.95}"
tame="$tame --set target.arch=native"

# small FOLDER: it fits a test
small() {
    local bytes
    bytes=$(json_number "$1/plan.json" arena)
    [ "${bytes:-999999999}" -lt 60000000 ]
}

# train_legal I: 0 trained, 1 failed, 2 nothing to train
train_legal() {
    local i=$1 model=$WORK/legal.$1.lua dir=$WORK/legal.$1 other=$WORK/legal.$1.other
    "$BUILD/tests/fuzz/fuzz_descriptions" --legal "$SEED" "$i" | sed -E 's/norm_eps = [^,]*,//; s/init_std = [^,]*,//
        s/theta = [^, ]*/theta = 1e4/' >"$model"
    local same="$tame --set model.vocab=$((131 + i % 151))" # the data is ASCII
    generate "$dir" "$model" $same || return 2
    small "$dir" || return 2
    generate "$other" "$model" $same --set mesh.shard=1 --set strategy=no_shard \
        --set prefetch=0 --set wrap=per_block\(1\) --set reshard_after_forward=true ||
        return 1
    same_mathematics "$dir" "$other" >>"$dir.log" 2>&1 || return 1
    build_trainer "$dir" CFLAGS='-O1 -march=$(ARCH)' &&
        build_trainer "$other" CFLAGS='-O1 -march=$(ARCH)' || return 1
    train "$dir" "$ROOT/LICENSE" 2 --threads 2 --deadline 300 &&
        train "$other" "$ROOT/LICENSE" 2 --threads 1 --deadline 300 &&
        diff "$dir.result" "$other.result" >>"$dir.log" 2>&1
}

train_random() { # COUNT
    local i=0 trained=0
    while [ $trained -lt "$1" ] && [ $i -lt $(($1 * 40)) ]; do
        train_legal $i
        case $? in
        0)
            trained=$((trained + 1))
            ok "random description $i trains, with equal bits"
            ;;
        1)
            trained=$((trained + 1))
            bad "random description $i (fuzz_descriptions --legal $SEED $i)" \
                "$WORK/legal.$i.log"
            ;;
        esac
        rm -rf "$WORK/legal.$i" "$WORK/legal.$i".*
        i=$((i + 1))
    done
    [ $trained -gt 0 ] || bad "no random description trains"
    echo "random descriptions: $i drawn, $trained trained"
}
