# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. reduction = "library": sums over ranks one by one. On four ranks other
# bits than the tree's, the same ones for all that is still outside the hash; on two ranks
# a + b in either order.

# library_run NAME RANKS THREADS SETS...: leaves $WORK/NAME.result
library_run() {
    local dir=$WORK/$1 ranks=$2 threads=$3 set flags=()
    shift 3
    for set in "$@"; do flags+=(--set "$set"); done
    generate "$dir" "$ROOT/tests/models/tiny_llama.lua" --set "mesh.shard=$ranks" \
        "${flags[@]}" && build_trainer "$dir" && train "$dir" "$data" 3 --threads "$threads" ||
        bad "library: $ranks ranks $*: does not run" "$dir.log"
}

library() {
    local dtype
    for dtype in f32 bf16; do
        library_run "tree_$dtype" 4 1 "dtypes.param=$dtype"
        library_run "lib_$dtype" 4 1 "dtypes.param=$dtype" reduction=library
        library_run "wrap_$dtype" 4 3 "dtypes.param=$dtype" reduction=library wrap=2 \
            prefetch=2 reshard_after_forward=false
        check "library $dtype: not the tree's bits on four ranks" \
            bash -c "! cmp -s '$WORK/tree_$dtype.result' '$WORK/lib_$dtype.result'"
        check "library $dtype: wrap, prefetch, reshard, threads change nothing" \
            cmp "$WORK/lib_$dtype.result" "$WORK/wrap_$dtype.result"
        check "library $dtype: nor the mathematics file" \
            same_mathematics "$WORK/lib_$dtype" "$WORK/wrap_$dtype"
    done
    library_run tree_two 2 2
    library_run lib_two 2 2 reduction=library
    check "library: of two ranks there is one order" \
        cmp "$WORK/tree_two.result" "$WORK/lib_two.result"
}
