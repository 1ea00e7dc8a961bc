# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: files of two generations in one folder, as half a copy or a merge leaves them,
# with no mark to say so. No mixture makes a trainer: the compiler says which files do not belong
# together, the linker refuses objects, and times of files cannot hide it. FULL=1: all swaps of all
# pairs, and 200 random mixtures.
export CC_CACHE=${CC_CACHE:-$WORK/objects}
mixed=$WORK/mixed
mkdir -p "$mixed"
parts="Makefile trainer.c step.c bind.c bind.h math.c math.h kernels.c kernels.h tables.c tables.h checkpoint.c calibrate.c"
said='come from different generations: run fsdpgen again'
build() { make -C "$1" CC="$ROOT/tests/cc_cached" CFLAGS=-O0 GEMM=builtin "${@:2}"; }

# Pairs: other mathematics; another schedule of the same mathematics; another description of the
# same text in all but a line.
gen "$mixed/llama"
gen "$mixed/ffn" --set model.ffn=56
gen "$mixed/wrap" --set wrap=2
gen "$mixed/seed" --set seed=2
identity() { sed -n 's/^trainer_identity := //p' "$mixed/$1/Makefile"; }
check "each generation has its identity" test \
    "$(for d in llama ffn wrap seed; do identity $d; done | sort -u | wc -l)" = 4
check "the same generation has the same" sh -c \
    "'$FSDPGEN' '$model' -o '$mixed/again' && diff -r '$mixed/again' '$mixed/llama'"
check "the schedule changes no mathematics" sh -c \
    "for f in math.c math.h kernels.c kernels.h; do cmp '$mixed/wrap/'\$f '$mixed/llama/'\$f || exit 1; done"
check "other mathematics have another identity" sh -c \
    "! cmp -s '$mixed/ffn/kernels.h' '$mixed/llama/kernels.h'"

# mixture BASE OTHER FILE...: a folder of BASE with these files of OTHER
mixture() {
    local from=$mixed/$2
    rm -rf "$mixed/now"
    cp -a "$mixed/$1" "$mixed/now"
    shift 2
    for file in "$@"; do cp -a "$from/$file" "$mixed/now/$file"; done
}
# what the compiler makes of it, file by file, as the Makefile would call it
compiles() {
    local id file
    id=$(sed -n 's/^trainer_identity := //p' "$mixed/now/Makefile")
    for file in "$@"; do
        $strict_cc "-DTRAINER_MAKEFILE=0x$id" -I"$mixed/now/runtime" "$mixed/now/$file"
    done
}
strict_cc="gcc $strict"
refused() { # BASE OTHER FILE: the file alone is of the other generation
    mixture "$@"
    ! compiles trainer.c step.c bind.c math.c kernels.c tables.c checkpoint.c calibrate.c >"$WORK/mixed.log" 2>&1
    grep -q "#error \".* $said" "$WORK/mixed.log"
}
if [ "$FULL" = 1 ]; then pairs="llama:ffn ffn:llama llama:wrap wrap:seed seed:llama"
else pairs=$(echo "llama:ffn llama:wrap seed:llama" | tr ' ' '\n' | sed -n "$((SEED % 3 + 1))p"); fi
for pair in $pairs; do
    for file in $parts; do
        cmp -s "$mixed/${pair%:*}/$file" "$mixed/${pair#*:}/$file" && continue
        check "$pair: $file of another generation is refused" refused "${pair%:*}" "${pair#*:}" $file
    done
done

# What the platform hash says is of these files, also where a copy has brought older times with it.
hash_of_older() {
    mixture llama llama
    build "$mixed/now" build/arithmetic && cp "$mixed/now/build/arithmetic" "$mixed/arithmetic" || return 1
    cp -r "$mixed/now/build" "$mixed/build"
    mixture ffn ffn
    mv "$mixed/build" "$mixed/now/build"
    find "$mixed/now" -path "$mixed/now/build" -prune -o -type f -exec touch -d 2001-01-01 {} +
    build "$mixed/now" build/arithmetic && ! cmp -s "$mixed/now/build/arithmetic" "$mixed/arithmetic"
}
check "older files of another generation have another platform hash" hash_of_older

# Objects: whatever make believes, they do not link.
check "the trainer builds" build "$mixed/llama"
objects() { (cd "$mixed/$1/build" && echo trainer.o step.o bind.o math.o kernels.o tables.o checkpoint.o calibrate.o); }
check "and objects of another generation" build "$mixed/ffn" $(printf 'build/%s ' $(objects llama))
links() { # OBJECT: of ffn, the others of llama
    local list=() object
    for object in $(objects llama); do
        if [ "$object" = "$1" ]; then list+=("$mixed/ffn/build/$object")
        else list+=("$mixed/llama/build/$object"); fi
    done
    gcc -fopenmp -o "$mixed/linked" "${list[@]}" "$mixed"/llama/build/runtime/{,*/}*.o -lm -lpthread
}
check "objects of one generation link" links none
for object in $(objects llama); do
    refuses_link() { ! links "$object" 2>"$WORK/mixed.log" && grep -qE 'undefined.*_[0-9a-f]{16}' "$WORK/mixed.log"; }
    check "$object of another generation does not link" refuses_link
done

# Files that are older than the objects of others are compiled all the same; what is the same is not.
old_times() {
    cp -a "$mixed/llama" "$mixed/times" && rm -f "$mixed/times/trainer"
    for file in $parts manifest.json; do cp "$mixed/wrap/$file" "$mixed/times/$file" || return 1; done
    find "$mixed/times" -maxdepth 1 -type f -exec touch -d '2001-02-03' {} +
    build "$mixed/times" >"$WORK/mixed.log" 2>&1 || { cat "$WORK/mixed.log"; return 1; }
    grep -qx 'CC step.c' "$WORK/mixed.log" || return 1
    nm "$mixed/times/trainer" | grep -q "trainer_step_$(identity wrap)" &&
        ! grep -qE '^CC (math|kernels)[.]c' "$WORK/mixed.log"
}
check "old times do not keep old objects, and new ones do not discard math.o" old_times
meanwhile() { # the folder is written while make runs: the Makefile changes before the link
    cp -a "$mixed/llama" "$mixed/while" && rm "$mixed/while/trainer" "$mixed/while/build/trainer.o"
    printf '#!/bin/sh\ncp "%s" . && exec cc "$@"\n' "$mixed/wrap/Makefile" >"$mixed/cc"
    chmod +x "$mixed/cc"
    REAL_CC=$mixed/cc build "$mixed/while" >"$WORK/mixed.log" 2>&1 && return 1
    grep -q 'fsdpgen wrote this folder meanwhile: run make again' "$WORK/mixed.log"
}
check "make notices that the folder was written meanwhile" meanwhile

# Any mixture.
refused_by_make() {
    local which=() file
    for file in $parts; do
        random 2
        [ "$random_value" = 1 ] && which+=("$file")
    done
    mixture llama ffn "${which[@]}"
    rm -rf "$mixed/now/build" "$mixed/now/trainer"
    echo "of the other generation: ${which[*]}"
    if [ ${#which[@]} = 0 ] || [ ${#which[@]} = "$(echo "$parts" | wc -w)" ]; then return 0; fi
    ! build "$mixed/now" >"$WORK/mixed.log" 2>&1 && grep -q "$said" "$WORK/mixed.log"
}
for i in $(seq $([ "$FULL" = 1 ] && echo 200 || echo 2)); do
    check "random mixture $i is refused" refused_by_make
done

# The runtime's copy: of which generator, says its rt.h.
other_runtime() {
    mixture llama llama
    sed -i 's/^#define RT_IDENTITY 0x.*/#define RT_IDENTITY 0x1234/' "$mixed/now/runtime/rt.h"
    ! compiles trainer.c >"$WORK/mixed.log" 2>&1 &&
        grep -q "#error \"trainer.c and runtime/ $said" "$WORK/mixed.log"
}
check "a runtime of another generator is refused" other_runtime
check "make RUNTIME=DIR takes the one that it names" \
    build "$mixed/llama" RUNTIME="$ROOT/runtime" BUILD=elsewhere elsewhere/trainer.o

# The mark.
marked() {
    : >"$mixed/llama/.fsdpgen-unfinished"
    ! build "$mixed/llama" >"$WORK/mixed.log" 2>&1 && grep -q 'was stopped while it did' "$WORK/mixed.log" &&
        { "$mixed/llama/trainer" --data "$ROOT/LICENSE" --steps 1 >"$WORK/mixed.log" 2>&1; [ $? = 1 ]; } &&
        grep -q 'trainer: error: .*/.fsdpgen-unfinished: fsdpgen is writing this folder' "$WORK/mixed.log"
}
check "make and the trainer refuse a marked folder" marked
rm -f "$mixed/llama/.fsdpgen-unfinished"
check "and only that" "$mixed/llama/trainer" --data "$ROOT/LICENSE" --steps 1
