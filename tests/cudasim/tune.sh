# SPDX-License-Identifier: Apache-2.0
# tune.sh, read by run.sh: trainer --tune-kernels on the simulated device. Its cuBLASLt has
# algorithms (sim_cublaslt.c) that are fast but not bit-stable, fast only while the cache is warm,
# or round parts of k; the search must find the one that is left. What it wrote is loaded, is a part
# of the platform, and gives the same bits on other ranks; a file that is foreign, damaged, or names
# what the library lacks is told in one line. Products that state more alignment than pointers have
# are told, too.

# tuned_run DIR [NAME=VALUE...] [-- FLAGS...]
tuned_run() {
    local dir=$1 sets=()
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do sets+=("$1"); shift; done
    [ $# -gt 0 ] && shift
    (for set in TRAIN_SECONDS=600 ${sets[@]+"${sets[@]}"}; do export "${set?}"; done
     train "$dir" "$data" 1 --threads 1 --verbose "$@")
}

platform_of() { grep -o 'platform [0-9a-f]*' "$1.out"; }

# refused WHAT EXPECTED ARGS...: a run that must end with one line that has EXPECTED
refused() {
    local what=$1 expected=$2 dir=$3
    shift 2
    : >"$dir.log"
    if tuned_run "$@"; then
        bad "kernels.wis: missed: $what"
    elif [ "$(grep -cE "$expected" "$dir.log")" = 1 ]; then
        ok "kernels.wis: $what"
    else
        bad "kernels.wis: $what: another message" "$dir.log"
    fi
}

chunks=(--set loss.chunk_tokens=5)

tuning() {
    local dir=$WORK/tune1 two=$WORK/tune2 wis=$WORK/tune1/kernels.wis untuned
    trainer "$dir" tiny_llama cuda "${chunks[@]}" && CUDASIM_UNCHECKED=1 build_cuda "$dir" && tuned_run "$dir" ||
        { bad "tuning: no trainer" "$dir.log"; return; }
    untuned=$(platform_of "$dir")
    cp "$dir.result" "$WORK/untuned.result"
    check "without kernels.wis the log names the library's first" \
        grep -q "^product .*: algorithm 0, tile 0, the library's first$" "$dir.out"
    if ! CUDASIM_L2=4096 "$dir/trainer" --tune-kernels >"$dir.tune" 2>&1 || [ ! -s "$wis" ]; then
        bad "trainer --tune-kernels" "$dir.tune"
        return
    fi
    # not the fastest of all (it rounds parts of k), nor the next (other bits each time), nor the one
    # that is fast while the cache is warm
    check "every product has the fastest algorithm that is sound" awk '
        / = / { n++; sound += /# algorithm 1, tile 0: .* of 5 1 unordered, 1 unsteady$/ }
        END { exit n == 0 || sound != n }' "$wis"
    tuned_run "$dir" || bad "a trainer with kernels.wis runs" "$dir.log"
    check "with it they are taken" grep -q "^product .*: algorithm 1, tile 0, tuned$" "$dir.out"
    check "all of them" [ "$(grep -c "library's first" "$dir.out")" = 0 ]
    check "the platform is another" [ "$(platform_of "$dir")" != "$untuned" ]
    check "bits are the algorithm's" bash -c "! cmp -s '$dir.result' '$WORK/untuned.result'"
    cp "$dir.result" "$WORK/tuned.result"

    # again: other times, the same algorithms, the same platform
    untuned=$(platform_of "$dir")
    CUDASIM_L2=4096 "$dir/trainer" --tune-kernels >"$dir.tune" 2>&1
    tuned_run "$dir"
    check "tuned again: the same platform" [ "$(platform_of "$dir")" = "$untuned" ]
    NVIDIA_TF32_OVERRIDE=0 tuned_run "$dir"
    check "the environment's changes are in the platform" \
        grep -q "platform .* cuBLASLt [0-9]*, NVIDIA_TF32_OVERRIDE=0, algorithms tuned" "$dir.out"
    spared_files "$dir"
    foreign_files
    # others' products are kept, and all ranks have the same choice
    trainer "$two" tiny_llama cuda "${chunks[@]}" --set mesh.shard=2 && CUDASIM_UNCHECKED=1 build_cuda "$two" &&
        tuned_run "$two" -- --kernels "$wis" || bad "two ranks with kernels.wis" "$two.log"
    check "kernels.wis: the same bits on two ranks" cmp "$two.result" "$WORK/tuned.result"
    splitting
    other_choices
    wrong_alignment
}

# Chunks of the loss begin at every fifth row of 36 floats. A product that says they begin as buffers do is
# refused by the trainer, and without its check by the library.
wrong_alignment() {
    local dir=$WORK/tune1 what="a product that states too much alignment"
    local -x CUDASIM_UNCHECKED=1
    check "kernels.wis names the alignment of chunks, and of a copy behind logits" \
        grep -q ' aligned 16 64 256 f32 to f32 = ' "$dir/kernels.wis"
    if ! plant "$dir" kernels.c 's/\.a_align_bytes = 16,/.a_align_bytes = 256,/'; then
        bad "$what: not planted" "$dir.log"
        return
    fi
    refused "$what" "product NT .* A begins at .*, not at a multiple of the 256 bytes" "$dir"
    faulty_runtime "$dir" "$what, unchecked" cuda/rt_blas.c 's/if (((uintptr_t)at/if (align < 0 \&\& ((uintptr_t)at/' &&
        refused "$what, unchecked" "a pointer is less aligned than the preference said" "$dir"
}

# Products that keep less than half of the GPU busy, with algorithms that split k: one that loses a
# part in one run of seven, one that rounds each part to the output's dtype, one that adds them in a
# step of their own. Results are in bf16 and in f32, then all in f32.
splitting() {
    local dir=$WORK/tune3 wis=$WORK/low.wis two=$WORK/tune2
    trainer "$dir" tiny_llama cuda --set 'dtypes.param="bf16"' && CUDASIM_UNCHECKED=1 build_cuda "$dir" &&
        CUDASIM_WAVES_PERCENT=49 CUDASIM_L2=4096 "$dir/trainer" --tune-kernels --kernels "$wis" \
            >"$dir.log" 2>&1 ||
        { bad "trainer --tune-kernels with algorithms that split k" "$dir.log"; return; }
    check "k is split in place only where the sum stays f32" awk '
        / to f32 = / { n++; sound += /# algorithm 6, tile 0, k in 4 parts: .* of 9 2 unordered, 1 unsteady$/ }
        / to bf16 = / { n++; sound += /# algorithm 5, tile 0, k in 4 parts: .* of 9 3 unordered, 1 unsteady$/
                        low++ }
        / = / { lines++ }
        END { exit low == 0 || low == n || lines != n || sound != n }' "$wis"
    tuned_run "$dir" -- --kernels "$wis" || bad "a trainer whose products split k runs" "$dir.log"
    check "the log says in how many parts" \
        grep -q "^product .*: algorithm 5, tile 0, k in 4 parts, tuned$" "$dir.out"
    refused "parts of k that another library rounds" "names an algorithm .* adds parts of k in no fixed order" \
        "$dir" CUDASIM_SCHEME=4 -- --kernels "$wis"
    dir=$WORK/tune1 wis=$WORK/split.wis
    CUDASIM_WAVES_PERCENT=49 CUDASIM_L2=4096 "$dir/trainer" --tune-kernels --kernels "$wis" >"$dir.tune" 2>&1
    tuned_run "$dir" -- --kernels "$wis" || bad "a trainer whose products split k runs" "$dir.log"
    check "bits of products that split k are theirs" \
        bash -c "! cmp -s '$dir.result' '$WORK/tuned.result'"
    cp "$dir.result" "$WORK/split.result"
    tuned_run "$two" -- --kernels "$wis" || bad "two ranks whose products split k" "$two.log"
    check "products that split k: the same bits on two ranks" cmp "$two.result" "$WORK/split.result"
    CUDASIM_WAVES_PERCENT=50 CUDASIM_L2=4096 "$dir/trainer" --tune-kernels --kernels "$wis" \
        >"$dir.tune" 2>&1
    check "products that keep half of the GPU busy do not split k" [ "$(grep -c 'k in' "$wis")" = 0 ]
}

# What the trainer and the next generation read is no output, even with --force, and --kernels takes long paths.
spared_files() {
    local dir=$1 file long
    echo mine >"$dir/attention.lua"
    for file in kernels.wis attention.lua; do
        cp "$dir/$file" "$WORK/spared"
        tuned_run "$dir" -- --stats "$dir/$file" --force
        check "--stats of $file is refused" grep -q -- "--stats .*$file: --[a-z-]*kernels .*: name another one" "$dir.log"
        check "$file stays" cmp "$WORK/spared" "$dir/$file"
    done
    rm "$dir/attention.lua"
    long=$dir/$(printf '%.0sx/' $(seq 600))
    mkdir -p "$long"
    cp "$wis" "$long/"
    check "a long path of --kernels" tuned_run "$dir" -- --kernels "${long}kernels.wis"
    check "is read" grep -q "^product .*: algorithm 1, tile 0, tuned$" "$dir.out"
    refused "a path that is too long" "error: --kernels .*: File name too long: name it by a shorter path" "$dir" -- \
        --kernels "$(printf '%.0s./' $(seq 2048))kernels.wis"
    rm -r "$dir/x"
}

foreign_files() {
    local lines
    tuned_run "$dir" CUDASIM_MULTIPROCESSORS=114 || bad "kernels.wis of another GPU" "$dir.log"
    check "kernels.wis of another GPU is told" \
        grep -q "warning: .*kernels.wis was made for simulated device (sm_90, 132 .*" "$dir.log"
    check "and not used" cmp "$dir.result" "$WORK/untuned.result"
    CUDASIM_MULTIPROCESSORS=114 CUDASIM_L2=4096 "$dir/trainer" --tune-kernels >"$dir.tune" 2>&1
    check "a section for each GPU" [ "$(grep -c '^for simulated device' "$wis")" = 2 ]
    tuned_run "$dir"
    check "the first one's is kept" cmp "$dir.result" "$WORK/tuned.result"
    refused "an algorithm that the library lacks" "names an algorithm .* cuBLASLt refuses" \
        "$dir" CUDASIM_ALGORITHMS=1
    lines=$(wc -l <"$wis")
    cp "$wis" "$WORK/sound.wis"
    sed '3s/= 0/= 1/' "$WORK/sound.wis" >"$wis"
    refused "a changed digit" "is damaged: its last line is not the hash" "$dir"
    head -n $((lines - 1)) "$WORK/sound.wis" >"$wis"
    refused "a file cut short" "is damaged: its end is missing" "$dir"
    echo "a shopping list" >"$wis"
    refused "another file" "does not begin as a file of this trainer" "$dir"
    sed '1s/2/1/' "$WORK/sound.wis" >"$wis"
    refused "a file of products without alignment" "was written by an older trainer" "$dir"
    CUDASIM_L2=4096 "$dir/trainer" --tune-kernels >"$dir.tune" 2>&1
    tuned_run "$dir"
    check "--tune-kernels replaces it" cmp "$dir.result" "$WORK/tuned.result"
    check "and keeps nothing of it" [ "$(grep -c '^for simulated device' "$wis")" = 1 ]
    refused "no such file" "there is no such file" "$dir" -- --kernels "$WORK/none.wis"
    mkfifo "$WORK/pipe.wis"
    refused "a pipe" "is not a file of at most" "$dir" TRAIN_SECONDS=20 -- --kernels "$WORK/pipe.wis"
    cp "$WORK/sound.wis" "$wis"
}

# Two ranks as a launcher starts them, that read different files, or whose libraries multiply in
# different ways.
other_choices() {
    local port=$((20000 + $$ % 10000)) pid
    export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$port
    RANK=1 NVIDIA_TF32_OVERRIDE=0 "$two/trainer" --data "$data" --steps 1 --kernels "$wis" \
        >"$two.log1" 2>&1 &
    pid=$!
    RANK=0 "$two/trainer" --data "$data" --steps 1 --kernels "$wis" >"$two.log" 2>&1
    wait $pid
    cat "$two.log1" >>"$two.log"
    check "ranks whose environment changes products do not train" \
        grep -q "has another platform hash .*, algorithms tuned" "$two.log"
    RANK=1 "$two/trainer" --data "$data" --steps 1 >"$two.log1" 2>&1 &
    pid=$!
    RANK=0 "$two/trainer" --data "$data" --steps 1 --kernels "$wis" >"$two.log" 2>&1
    wait $pid
    cat "$two.log1" >>"$two.log"
    unset WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT
    check "ranks with different algorithms do not train" \
        grep -q "has another platform hash .*, algorithms" "$two.log"
}

# trainer --calibrate on the simulated device: its times mean nothing, but the table is whole, by
# the same code as the CPU's, and every product runs alone.
calibration() {
    local dir=$WORK/calibrate
    trainer "$dir" tiny_llama cuda --set mesh.shard=2 && CUDASIM_UNCHECKED=1 build_cuda "$dir" ||
        { bad "--calibrate: no trainer" "$dir.log"; return; }
    timeout 600 "$dir/trainer" --calibrate "$dir.json" --loopback --threads 1 >>"$dir.log" 2>&1 ||
        { bad "--calibrate on the simulated device" "$dir.log"; return; }
    check "--calibrate: the table of a device" python3 - "$dir.json" "$dir/kernels.c" <<'END'
import json, re, sys
t, code = json.load(open(sys.argv[1])), open(sys.argv[2]).read()
assert t["target"] == "cuda" and t["ranks"] == 2
wanted = set(re.findall(r"\.op = RT_(\w+), \.m = (\d+), \.n = (\d+), \.k = (\d+),", code))
found = {(p["form"].upper(), str(p["m"]), str(p["n"]), str(p["k"])) for p in t["products"]}
assert wanted == found, wanted ^ found
assert t["rates"]["product_gflops"] > 0, t # the simulated clock has no time for other kernels
assert {c["kind"] for c in t["collectives"]} == {"all_gather", "reduce_scatter"}, t
assert t["contention"] >= 1, t
END
}
