# SPDX-License-Identifier: Apache-2.0
# cache.sh, read by run.sh: kernels that are compiled when the trainer starts, by a few programs at
# once, and what is kept of them. An entry of the cache is used only if this user wrote it, from these
# sources, with this compiler. Anything else is reported in one line and compiled again, to the same
# bits; an unusable cache fails no run.

# jit_run WHAT [NAME=VALUE...]: it runs, to the bits of a trainer whose kernels make compiled
jit_run() {
    local what=$1
    shift
    : >"$dir.log"
    if ! run_cuda "$dir" "$@"; then
        bad "make JIT=1: $what: does not run" "$dir.log"
    elif ! cmp -s "$dir.result" "$WORK/reference_llama.result"; then
        diff "$dir.result" "$WORK/reference_llama.result" >"$dir.diff"
        bad "make JIT=1: $what: other bits" "$dir.diff"
    else
        ok "make JIT=1: $what"
    fi
}

# jit_says WHAT LINE COUNT: the last run's warnings, all of them
jit_says() {
    if [ "$(grep -c warning "$dir.log")" = "$3" ] && [ "$(grep -cE -- "$2" "$dir.log")" = "$3" ]; then
        ok "make JIT=1: $1: reported"
    else
        bad "make JIT=1: $1: $3 lines should say $2" "$dir.log"
    fi
}

# whole WHAT: the cache is what it was when it was first filled
whole() {
    check "make JIT=1: $1: the cache is whole" diff -r -x digests "$WORK/filled" "$entries"
}

# spoilt WHAT LINE COMMAND: COMMAND changes an entry, $it; the next run reports it and writes it again
spoilt() {
    it=$(find "$entries" -name "*.kernels" | sort | head -n 1)
    eval "$3"
    jit_run "$1"
    jit_says "$1" "warning: $it is not used: $2; it is removed, and compiled again" 1
    whole "$1"
}

# symbols FILE: the kernels in it, but for that which says whose they are
symbols() { grep -aoE 'sim_kernel_[a-z0-9_]+' "$1" | grep -vE '_math_[0-9a-f]{16}$' | sort -u | md5sum; }

# The entries of a trainer with other kernels of the same names, under the names of these.
swapped() {
    local other=$WORK/jit_other mine its n=0
    trainer "$other" tiny_llama cuda --set model.norm_eps=2e-5 && # as long a number: the same split
        build_trainer "$other" CUDA_HOME="$home" JIT=1 &&
        XDG_CACHE_HOME=$WORK/cache_other run_cuda "$other" ||
        { bad "make JIT=1: no other trainer" "$other.log"; return; }
    check "make JIT=1: the other trainer has other bits" \
        bash -c "! cmp -s '$other.result' '$WORK/reference_llama.result'"
    for mine in "$entries"/*.kernels; do
        for its in "$WORK/cache_other/fsdpgen"/*.kernels; do
            if [ "$(symbols "$mine")" = "$(symbols "$its")" ]; then
                cp "$its" "$mine"
                n=$((n + 1))
            fi
        done
    done
    jit_run "another model's kernels"
    jit_says "another model's kernels" 'is not used: it was made of other sources, or in another way' $n
    check "make JIT=1: another model's kernels: all are swapped ($n)" \
        [ $n = "$(find "$entries" -name '*.kernels' | wc -l)" -a $n -gt 1 ]
    whole "another model's kernels"
}

# Another version of the compiler has entries of its own; under our names they are not used.
other_compiler() {
    local name old new
    jit_run "another compiler" CUDASIM_NVRTC=12080
    check "make JIT=1: another compiler: entries of its own" [ "$(ls "$entries"/*.kernels | wc -l)" = 12 ]
    old=$(ls "$WORK/filled" | head -n 1)
    for name in "$entries"/*.kernels; do
        [ -e "$WORK/filled/${name##*/}" ] || new=$name
    done
    mv "$new" "$entries/$old"
    jit_run "an entry of another compiler"
    jit_says "an entry of another compiler" 'other sources, or in another way; it is removed' 1
    rm -rf "$entries" && cp -a "$WORK/filled" "$entries"
}

# Entries and folders that another user has written, or could have.
foreign() {
    local what line away=$WORK/away turn=0
    it=$(find "$entries" -name "*.kernels" | sort | head -n 1)
    while IFS='|' read -r what command line; do
        turn=$((turn + 1))
        [ "$FULL" = 1 ] || [ $(((turn + SEED) % 3)) = 0 ] || continue
        rm -rf "$entries" "$away" && cp -a "$WORK/filled" "$entries"
        if [[ $command == *chown* && $(id -u) != 0 ]]; then
            echo "skipped: $what (only root can give a file away)"
            continue
        fi
        eval "$command"
        jit_run "$what"
        jit_says "$what" "$line" 1
    done <<TABLE
an entry of another user|chown 65534 "\$it"|$it is not used: it belongs to another user
an entry that others may write|chmod 666 "\$it"|$it is not used: others may write it
an entry that is a link|mv "\$it" "\$away"; ln -s "\$away" "\$it"|$it is not used: this is a link
an entry that is a pipe|rm "\$it"; mkfifo "\$it"|$it is not used: this is not a regular file
a folder of another user|chown 65534 "\$entries"|not kept for the next start: $entries belongs to user 65534
a folder that others may write|chmod 770 "\$entries"|$entries may be written by others .its mode is 770.: chmod 700 it
a folder that is a link|mv "\$entries" "\$away"; ln -s "\$away" "\$entries"|$entries is a link, which could lead anywhere
a file in its place|rm -r "\$entries"; : >"\$entries"|$entries cannot be opened: Not a directory
TABLE
    rm -rf "$entries" && cp -a "$WORK/filled" "$entries"
}

# Writers that are killed, or find the disk full, at any of their calls.
interrupted() {
    local hook=$WORK/cache_io.so act at n=31 count=$WORK/cache.calls
    "${REAL_CC:-cc}" -shared -fPIC -O1 "$ROOT/tests/cudasim/cache_io.c" -o "$hook" ||
        { bad "make JIT=1: no faults are planted"; return; }
    if [ "$FULL" = 1 ]; then
        rm -rf "$entries"
        jit_run "calls are counted" LD_PRELOAD="$hook" CACHE_DIR="$WORK" CACHE_COUNT="$count"
        n=$(cat "$count")
        check "make JIT=1: the cache's calls are counted" [ "$n" -gt 30 ]
    fi
    for act in kill full; do
        for ((at = FULL ? 0 : SEED % n; at < n; at += FULL ? 1 : n)); do
            rm -rf "$entries"
            : >"$dir.log"
            run_cuda "$dir" LD_PRELOAD="$hook" CACHE_DIR="$WORK" CACHE_AT=$at CACHE_ACT=$act
            if [ $act = full ]; then
                cmp -s "$dir.result" "$WORK/reference_llama.result" ||
                    bad "make JIT=1: a full disk at call $at fails the run" "$dir.log"
                jit_says "a full disk at call $at" \
                    "not kept for the next start: $entries cannot be written: .*No space" 1
            fi
            jit_run "after $act at call $at"
            jit_says "after $act at call $at" . 0
        done
    done
}

# Two trainers fill the cache at once. Old entries and what killed writers left are removed.
shared_cache() {
    local two=$WORK/jit_two old=$entries/$(printf 'a%.0s' {1..64}).kernels
    rm -rf "$entries"
    mkdir -m 700 "$entries"
    truncate -s 1100M "$old"
    touch -d '2 years ago' "$old"
    : >"$entries/.${old##*/}.0123456789abcdef"
    touch -d '2 days ago' "$entries/.${old##*/}.0123456789abcdef"
    : >"$entries/notes.txt"
    cp -r "$dir" "$two"
    : >"$two.log"
    run_cuda "$two" &
    jit_run "two at once"
    wait $!
    check "make JIT=1: two at once: both" cmp "$two.result" "$WORK/reference_llama.result"
    check "make JIT=1: what is old goes, what is not ours stays" [ "$(ls -A "$entries" |
        sed 's/^[0-9a-f]\{64\}/HASH/' | sort -u | tr '\n' ' ')" = "HASH.kernels notes.txt " ]
    check "make JIT=1: two at once: nothing is reported" bash -c "! grep warning '$two.log' '$dir.log'"
    rm "$entries/notes.txt"
    whole "two at once"
}

compiled_at_start() {
    local dir=$WORK/jit cache=$WORK/cache entries=$WORK/cache/fsdpgen it
    export CUDASIM_UNCHECKED=1 XDG_CACHE_HOME=$cache
    trainer "$dir" tiny_llama cuda && build_trainer "$dir" CUDA_HOME="$home" JIT=1 ||
        { bad "make JIT=1 does not build" "$dir.log"; return; }
    jit_run "the same bits"
    check "make JIT=1: kernels are kept" [ "$(ls "$entries"/*.kernels | wc -l)" = 6 ]
    check "make JIT=1: only this user may read and write them" [ "$(stat -c %a "$entries" "$entries"/* | sort -u |
        tr '\n' ' ')" = "600 700 " ]
    cp -a "$entries" "$WORK/filled"
    jit_run "taken from the cache" CUDASIM_NVCC=/nowhere
    spoilt "an entry cut short" "it is cut short, or longer than it says" 'truncate -s -100 "$it"'
    spoilt "a changed byte" "its bytes are not those that were written" 'flip "$it" 9000'
    if [ "$FULL" = 1 ]; then
        spoilt "an empty entry" "it is cut short" ': >"$it"'
        spoilt "a changed head" "its bytes are not those that were written" 'flip "$it" 33'
        spoilt "a text" "it does not begin as a file of this cache does" 'cp "$data" "$it"'
    fi
    swapped
    turn 2 4 more_of_the_cache
    unset CUDASIM_UNCHECKED XDG_CACHE_HOME
}

more_of_the_cache() { # with the variables of compiled_at_start
    other_compiler
    foreign
    interrupted
    shared_cache
    sed -i '0,/^RT_GLOBAL(256)/s//& mistake/' "$dir/kernels.cu"
    if build_trainer "$dir" CUDA_HOME="$home" JIT=1; then
        fault "make JIT=1: kernels with a mistake" "kernels.cu for --gpu-architecture=sm_90a: " "$dir"
    else
        bad "make JIT=1: no mistake is planted" "$dir.log"
    fi
}

# flip FILE AT: a bit of that byte
flip() {
    perl -e 'open F, "+<", $ARGV[0] or die; seek F, $ARGV[1], 0; read F, $b, 1; seek F, $ARGV[1], 0;
        print F chr(ord($b) ^ 4); close F or die' "$1" "$2"
}
