# SPDX-License-Identifier: Apache-2.0
# Sourced by mark.sh and writer.sh: three descriptions of one folder, and a run of fsdpgen that a
# fault stops at a call of its writer. In: here, WORK. Out: the folder that it enters, with ref_a, ref_b and
# ref_c; functions.
rm -rf "$WORK/writer"
mkdir "$WORK/writer"
cd "$WORK/writer" || exit 70
cp "$here/base.lua" base.lua
mark=.fsdpgen-unfinished
"${CC:-cc}" -shared -fPIC -O1 -o fault.so "$here/io_fault.c" >log 2>&1 ||
    bad "the fault library compiles" log

# Descriptions a, b and c; b has files that a lacks, c has folders that both lack.
flags() {
    case $1 in
    a) echo --link-runtime ../runtime ;;
    b) echo --link-runtime ../runtime --target cuda ;;
    c) echo --set seq=32 ;;
    esac
}
# shellcheck disable=SC2046 # words of flags
writes() { "$FSDPGEN" base.lua -o d $(flags "$1") >>log 2>&1; }
for which in a b c; do
    : >log
    rm -rf d
    writes $which || bad "description $which" log
    mv d ref_$which
done
fails() { : >log; ! writes "$1"; }
is_ref() { # but for the user's files, which keep their folder
    local kept=()
    [ ! -e "ref_$1/runtime" ] && [ "$(find d/runtime 2>/dev/null)" = $'d/runtime\nd/runtime/mine.c' ] &&
        kept=(-x runtime)
    diff -r -x notes.txt -x runs -x mine.c "${kept[@]}" "ref_$1" d >>log 2>&1
}

# faulty AT HOW DESCRIPTION: its exit code; log tells whether the fault came.
# shellcheck disable=SC2046
faulty() {
    FAULT_AT=$1 FAULT_HOW=$2 FAULT_PARENT=1 LD_PRELOAD=$PWD/fault.so \
        ASAN_OPTIONS=verify_asan_link_order=0 "$FSDPGEN" base.lua -o d $(flags "$3") \
        >log 2>&1 &
    { wait $!; } 2>/dev/null # no line of the shell's about a kill
}

# The folder as description $1 leaves it ("none": there is none), with files of the user's.
start_from() {
    rm -rf d
    [ "$1" = none ] && return
    cp -a "ref_$1" d
    mkdir d/runs
    echo keep | tee d/notes.txt >d/runs/log
    if [ -d d/runtime ]; then echo keep >d/runtime/mine.c; fi
}

foreign_stay() { # FROM
    [ "$1" = none ] || cat d/notes.txt d/runs/log $([ "$1" = c ] && echo d/runtime/mine.c) |
        sort -u | grep -qx keep
}
