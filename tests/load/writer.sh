# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: what stops the writer of the output folder leaves it as it was, as it should
# be, or marked; the next run mends it, for any description, and touches nobody else's files. Two
# runs never write one folder. FULL=1: at every call; else a seeded sample.
. "$here/writer_setup.sh"

broken=0 tried=0 marked=0
breaks() { broken=$((broken + 1)); bad "$1" log; }
# stopped FROM TO AT HOW: false past the last call
stopped() {
    local from=$1 to=$2 what="$1 to $2, $4 at call $3" code
    start_from "$from"
    faulty "$3" "$4" "$to"
    code=$?
    grep -q 'fault injected' log || return 1
    tried=$((tried + 1))
    if [ $code = 0 ]; then
        is_ref "$to" || breaks "$what: exit 0, and the folder is not whole"
    elif [ $code != 1 ] && [ "$4" != kill ]; then
        breaks "$what: exit $code"
    elif [ -e d/$mark ]; then
        marked=$((marked + 1))
    elif [ "$from" = none ]; then
        [ -z "$(ls -A d 2>/dev/null)" ] || is_ref "$to" || breaks "$what: part of a folder"
    else
        is_ref "$from" || is_ref "$to" || breaks "$what: part of a folder, not marked"
    fi
    # the same once more, then another
    writes "$to" && is_ref "$to" || breaks "$what: not mended by the same"
    if [ "$to" = b ]; then to=a; else to=b; fi
    start_from "$from"
    faulty "$3" "$4" "$2"
    writes $to && is_ref $to || breaks "$what: not mended by another"
    foreign_stay "$from" || breaks "$what: a foreign file is gone"
    return 0
}

for way in "none a" "a b" "b a" "a c" "c a" "a a" "none c"; do
    from=${way% *} to=${way#* }
    start_from "$from"
    faulty 1000000 error "$to"
    calls=$(sed -n 's/^calls //p' log)
    for how in kill error short; do
        if [ "$FULL" = 1 ]; then
            case $way in *c*) stride=7 ;; *) stride=1 ;; esac
            random $stride
            for ((at = 1 + random_value; at <= calls; at += stride)); do
                stopped "$from" "$to" $at $how || break
            done
        else
            for i in 1 2; do
                [ $how = short ] && [ $i -gt 1 ] && break
                random "$calls"
                [ $how = short ] && random_value=$((random_value % 3))
                stopped "$from" "$to" $((1 + random_value)) $how
            done
        fi
    done
done
at_least "kills, faults and short writes" $tried $([ "$FULL" = 1 ] && echo 3000 || echo 28)
# of a sample's about ten calls between a mark and its end, chance may leave few
at_least "of them left a mark" $marked $([ "$FULL" = 1 ] && echo 5 || echo 1)
if [ $broken = 0 ]; then ok "none breaks a folder"; fi

# Stopped again and again, each time with another description.
start_from a
for i in $(seq $([ "$FULL" = 1 ] && echo 200 || echo 8)); do
    random 3
    which=$(echo a b c | cut -d' ' -f$((1 + random_value)))
    random 200
    faulty $((10 + random_value)) kill "$which"
done
check "after many kills in a row" writes b
check "the folder is whole" is_ref b
check "and the user's files are there" foreign_stay a

# Somebody else writes while a run stages: what comes, and what changes, stays.
# shellcheck disable=SC2046
meanwhile() { # FILE DESCRIPTION
    FAULT_WRITES=$PWD/d/$1 LD_PRELOAD=$PWD/fault.so ASAN_OPTIONS=verify_asan_link_order=0 \
        "$FSDPGEN" base.lua -o d $(flags $2) >log 2>&1
}
for way in "none a plan.txt made" "a b kernels.cu made" "a c math.c changed" "b a kernels.cu changed"; do
    read -r from to file how <<<"$way"
    start_from "$from"
    meanwhile "$file" "$to"
    check "$file $how meanwhile, $from to $to: exit 1" test $? = 1
    check "it says so" grep -q "$file: error: was $how while this folder was generated" log
    check "what was written stays" grep -qx mine "d/$file"
    if [ $from = none ]; then
        check "and nothing else is there" test "$(ls -A d)" = "$file"
    else
        check "and all else is as it was" diff -r -x notes.txt -x runs -x mine.c -x "$file" ref_$from d
    fi
done

# A manifest of another program is no manifest of ours, whatever it lists.
rm -rf d && mkdir d
echo '{"files": {"plan.txt": "0123456789abcdef"}, "short_name": "my app"}' >d/manifest.json
check "another program's manifest is refused" fails a
check "and says so" grep -q 'manifest.json: error: this is not a manifest of fsdpgen' log
check "and stays" grep -q 'my app' d/manifest.json

# A parent that ignores its children's ends, as some daemons do
rm -rf d
perl -e '$SIG{CHLD} = "IGNORE"; exec @ARGV' "$FSDPGEN" base.lua -o d --link-runtime ../runtime >log 2>&1
check "where SIGCHLD is ignored: exit 0" test $? = 0
check "where SIGCHLD is ignored: the folder" is_ref a

# stdout that cannot be written
if [ -w /dev/full ]; then
    for words in --help --version docs 'plan base.lua' 'check base.lua --dump graph'; do
        "$FSDPGEN" $words >/dev/full 2>log
        check "fsdpgen $words >/dev/full: exit 1" test $? = 1
        check "fsdpgen $words >/dev/full: says so" grep -q 'error: cannot write to stdout' log
    done
fi
# Standard streams that are closed: no file takes their place, for a message to land in.
for closed in '0<&-' '1>&-' '2>&-' '0<&- 1>&-' '1>&- 2>&-' '0<&- 1>&- 2>&-'; do
    rm -rf d
    eval "\"\$FSDPGEN\" base.lua -o d --link-runtime ../runtime $closed" >/dev/null 2>&1
    check "$closed: exit 0" test $? = 0
    check "$closed: the folder" is_ref a
    for words in 'plan base.lua' --help; do
        [[ $closed != *1* ]] || ! eval "\"\$FSDPGEN\" $words $closed" >/dev/null 2>&1 ||
            bad "$closed: $words is lost with exit 0"
    done
done
start_from b

# One run at a time.
: >d/$mark
flock d/$mark -c "'$FSDPGEN' base.lua -o d --link-runtime ../runtime" >log 2>&1
check "a second run is refused" grep -qF 'd: error: another fsdpgen is writing this folder' log
check "and wrote nothing" diff -r -x notes.txt -x runs -x $mark ref_b d
rm d/$mark
both=0 torn=0 runs=$([ "$FULL" = 1 ] && echo 100 || echo 15)
for i in $(seq "$runs"); do
    start_from $([ $((i % 2)) = 0 ] && echo none || echo c)
    pids=()
    for which in a b c a; do
        # shellcheck disable=SC2046
        "$FSDPGEN" base.lua -o d $(flags $which) >log.$which 2>&1 &
        pids+=($!)
    done
    good=0
    for pid in "${pids[@]}"; do wait "$pid" && good=$((good + 1)); done
    [ $good -gt 0 ] && { is_ref a || is_ref b || is_ref c; } || torn=$((torn + 1))
    [ $good = 4 ] || both=$((both + 1))
done
if [ $torn = 0 ]; then ok "$runs times four at once: one whole folder, $both refusals"
else bad "$torn of $runs times four at once end without a whole folder" log; fi
cd "$ROOT" || exit 70
