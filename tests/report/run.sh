#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `fsdpgen report`: the page's elements and curves against logs, which files a RUN may be, damaged
# logs and their messages, the file that is written, large logs. With FULL=1 a browser draws it
# (Chromium, skipped where there is none). The pages of plan and tune, and traces, against what they draw. --update writes the golden texts anew.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
here=$ROOT/tests/report

report() { "$FSDPGEN" report "$@"; }
log() { python3 "$here/make_logs.py" "$@"; }

golden() { # NAME FILE
    if [ "$update" = 1 ]; then cp "$2" "$here/golden/$1.txt"; fi
    check "$1 is as in golden/$1.txt" diff "$here/golden/$1.txt" "$2"
}

logs() {
    local kind
    cd "$WORK" || exit 70
    for kind in plain wide spikes resumed hostile; do log $kind $kind.jsonl 120; done
}

# ---- the page ------------------------------------------------------------------------------------

pages() {
    check "one run" report plain.jsonl -o one.html
    check "its page" python3 "$here/page.py" one.html plain.jsonl
    cp check.log one.txt
    python3 "$here/page.py" one.html >one.txt && golden one one.txt
    check "several runs" report plain.jsonl wide.jsonl spikes.jsonl resumed.jsonl hostile.jsonl -o all.html
    check "their page" python3 "$here/page.py" all.html plain.jsonl wide.jsonl spikes.jsonl resumed.jsonl \
        hostile.jsonl
    python3 "$here/page.py" all.html >all.txt && golden all all.txt
    report plain.jsonl wide.jsonl --json >figures.json
    golden figures figures.json
    report plain.jsonl wide.jsonl spikes.jsonl resumed.jsonl hostile.jsonl >again.html
    check "the same bytes on stdout" cmp all.html again.html
    mkdir -p a b && cp plain.jsonl a/log.jsonl && cp wide.jsonl b/log.jsonl
    log twice twice.jsonl 120 # two records of resumes, without a step twice
    report twice.jsonl >resumed.html
    check "resumes are counted" grep -q 'twice: resumed 2 times<' resumed.html
    check "other numerics have their step" \
        grep -q '<td>73de73a80d95f0f3, from step 61: 0123456789abcdef</td>' resumed.html
    check "and a member of the mesh" grep -q 'mesh.shard</th><td>2, from step 61: 4</td>' resumed.html
    check "a setting that came and went" grep -q 'threads</th><td>–, from step 31: 4, from step 61: –</td>' resumed.html
    report twice.jsonl --json >twice.json
    check "the changes in --json" python3 - twice.json <<'PY'
import json, sys
run = json.load(open(sys.argv[1]))["runs"][0]
assert run["resumes"] == 2, run["resumes"]
assert run["changes"] == [
    {"threads": 4, "step": 31},
    {"numerics": "0123456789abcdef", "mesh": {"replicate": 1, "shard": 4}, "threads": None, "step": 61}], run["changes"]
PY
    report a b/log.jsonl >folders.html
    check "labels of folders" grep -q '<h1>a, b</h1>' folders.html
    cp "$ROOT/out/demo/plan.json" a/
    report a >planned.html
    check "what was planned" grep -q '"plan":[1-9]' planned.html
    report plain.jsonl plain.jsonl >twice.html
    check "equal runs are told" grep -q 'plain: the same loss as plain, to the bit, at all 120' \
        twice.html
}

# ---- wrong logs ----------------------------------------------------------------------------------

# The file wrong.txt: `=== NAME`, a log with \-escapes, `---`, what is printed, with the code.
wrong() {
    local name text got=$WORK/wrong.out
    : >"$got"
    while read -r name; do
        text=$(awk -v name="$name" '
            /^=== / { on = $2 == name; next } on && /^---$/ { exit } on' "$here/wrong.txt")
        printf '%b' "$text" >log.jsonl
        { echo "=== $name"; echo "$text"; echo "---"; } >>"$got"
        report log.jsonl >wrong.html 2>wrong.err
        echo "code $?" >>"$got"
        cat wrong.err >>"$got"
    done < <(sed -n 's/^=== //p' "$here/wrong.txt")
    if [ "$update" = 1 ]; then cp "$got" "$here/wrong.txt"; fi
    check "wrong logs and their messages" diff "$here/wrong.txt" "$got"
}

says() { # NAME CODE PATTERN ARGUMENTS...
    local name=$1 code=$2 pattern=$3
    shift 3
    report "$@" >says.out 2>says.err
    check "$name: code $code" test $? = "$code"
    check "$name: $pattern" grep -qF -- "$pattern" says.err
}

files() {
    says "no run" 2 "no log is given: report RUN... -o FILE.html" -o x.html
    says "too many" 2 "at most 32 runs share a page, and 33 are given" $(for i in $(seq 33); do echo plain.jsonl; done)
    says "options of others" 2 "report: --set is not an option of" plain.jsonl --set seq=1
    says "no file" 1 "none.jsonl: error: cannot be read: there is no such file" none.jsonl
    says "all at once" 1 "other.jsonl: error: cannot be read" none.jsonl other.jsonl
    mkdir -p empty several
    cp plain.jsonl several/x.jsonl && cp plain.jsonl several/y.jsonl
    says "a folder without a log" 1 "empty: error: the folder has no log.jsonl" empty
    says "one with several" 1 "several: error: the folder has 2 files *.jsonl" several
    rm several/y.jsonl
    check "one with another name" report several -o x.html
    mkfifo pipe
    says "a pipe" 1 "not a regular file" pipe
    echo mine >mine.html
    says "a file of others" 1 "mine.html: the file is there and is not a page" plain.jsonl -o mine.html
    check "which stays" test "$(cat mine.html)" = mine
    check "--force" report plain.jsonl -o mine.html --force
    cp plain.jsonl own.jsonl && ln own.jsonl same.html
    check "an input by another name, with --force" bash -c '! "$0" report own.jsonl -o same.html --force 2>err' "$FSDPGEN"
    check "is refused" grep -qx 'fsdpgen: error: same.html: is read here; the output would replace it' err
    check "and stays" cmp plain.jsonl own.jsonl
    check "a page of ours is replaced" report wide.jsonl -o mine.html
    check "by the new one" grep -q '<h1>wide</h1>' mine.html
    says "a folder for a page" 1 "empty: cannot be written: Is a directory" plain.jsonl -o empty
    says "no folder for it" 1 "none/x.html: cannot be written: No such file" plain.jsonl -o none/x.html
    ln -s led.html link.html
    check "a link" report plain.jsonl -o link.html
    check "nothing else is left" test -z "$(ls | grep '\.part$')"
    [ -w /dev/full ] && says "a full disk" 1 "/dev/full: cannot be written: No space" plain.jsonl -o /dev/full
    head -c 5000 plain.jsonl >cut.jsonl
    check "a log that is being written" report cut.jsonl -o x.html
    report cut.jsonl >x.html 2>x.err
    check "is told" grep -q 'note: the last line is incomplete' x.err
}

# A log of many steps: the page stays small, quickly, and no spike is lost.
large() {
    local steps=$([ "$FULL" = 1 ] && echo 1000000 || echo 20000)
    check "a log of $steps steps is made" log spikes large.jsonl "$steps"
    check "$steps steps" report large.jsonl -o large.html
    check "are as in the log, in a page of bounded size" python3 "$here/page.py" large.html large.jsonl
    report $(for i in $(seq 32); do echo wide.jsonl; done) -o many.html >/dev/null
    check "32 runs" python3 "$here/page.py" many.html
}

# The seconds of a processor that a report may take grow with its logs, also those in folders named: a
# library before the C library's prints how many. The log is one long line, which is refused at once.
seconds() {
    cat >limit.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/resource.h>
int setrlimit(__rlimit_resource_t what, const struct rlimit *r)
{
    int (*next)(__rlimit_resource_t, const struct rlimit *) = dlsym(RTLD_NEXT, "setrlimit");
    if (what == RLIMIT_CPU)
        fprintf(stderr, "seconds %lld\n", (long long)r->rlim_cur);
    return next(what, r);
}
int setrlimit64(__rlimit_resource_t what, const struct rlimit64 *r)
{
    return setrlimit(what, (const struct rlimit *)r);
}
C
    check "a library that tells limits" ${CC:-cc} -fPIC -shared -O1 limit.c -o limit.so -ldl
    mkdir -p huge one_huge && truncate -s 100000000 huge/log.jsonl one_huge/other.jsonl
    for name in huge/log.jsonl huge one_huge; do
        ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=$PWD/limit.so report "$name" >huge.html 2>huge.err
        check "$name: seconds for 100 MB" grep -qx 'seconds 1120' huge.err
    done
}

# ---- others --------------------------------------------------------------------------------------

# The script of docs/monitor.md, with a stand-in for W&B's module: every number of every line.
wandb() {
    sed -n '/^<!-- to_wandb.py/,/^```$/p' "$ROOT/docs/monitor.md" | sed '1,2d; $d' >to_wandb.py
    check "the script is there" test "$(wc -l <to_wandb.py)" -gt 20
    head -c 9000 resumed.jsonl >sent.jsonl # its last line is incomplete
    PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 to_wandb.py sent.jsonl demo >sent.txt 2>sent.err
    check "it sends a log" test $? = 0
    python3 - >expected.txt <<'PYTHON'
import json
lines = [json.loads(x) for x in open("sent.jsonl").readlines()[:-1]]
print("init demo", sorted(lines[0]["run"].items()))
for o in lines[1:]:
    if "step" in o:
        step = o.pop("step")
        print(step, sorted((k, v) for k, v in o.items() if isinstance(v, (int, float))))
print("finish")
PYTHON
    check "all of it" cmp expected.txt sent.txt
}

# ---- a browser -----------------------------------------------------------------------------------

# In light, dark and print, at three widths: all is drawn and legible, nothing overlaps or is refused;
# pointer, keys and buttons work. KEEP=1 keeps the screenshots, which people should look at.
browser() {
    local chromium
    chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
        { echo "skipped: no Chromium"; return; }
    report a >planned.html
    check "a browser shows one run" timeout 300 python3 "$here/browser.py" "$chromium" planned.html one 6
    check "and several" timeout 300 python3 "$here/browser.py" "$chromium" all.html all 9
    for name in plan-demo plan-cuda plan-large found; do
        check "and $name" timeout 300 python3 "$here/drawings.py" browser "$chromium" "$name.html" "seen-$name"
    done
    sed 's/--quiet: #5b6470/--quiet: #5b6471/' all.html >changed.html
    ! timeout 300 python3 "$here/browser.py" "$chromium" changed.html changed 9 >changed.log 2>&1
    check "it refuses a style that the policy does not name" grep -q 'Content Security Policy' changed.log
}

# ---- pages of plans and searches -------------------------------------------------------------------

# drawn NAME ARGUMENTS...: the page and the trace of a plan, against the plan
drawn() {
    local name=$1
    shift
    "$FSDPGEN" plan "$@" --html "$name.html" --trace "$name.json" --json >"$name.plan" 2>"$name.err"
    check "$name: a page and a trace" test $? = 0
    "$FSDPGEN" plan "$@" --dump=schedule >"$name.dump" 2>"$name.err"
    check "$name: they are the plan's" python3 "$here/drawings.py" plan "$name.html" "$name.json" "$name.plan" "$name.dump"
}

drawings() {
    cd "$WORK" || exit 70
    drawn plan-demo "$ROOT/models/demo.lua"
    drawn plan-again "$ROOT/tests/models/tiny_llama.lua" --set mesh.shard=2 --set recompute=block
    drawn plan-one "$ROOT/tests/models/tiny_llama.lua"
    drawn plan-cuda "$ROOT/models/llama8b.lua" --target cuda
    drawn plan-large "$ROOT/models/llama405b.lua"
    cp plan-demo.html before.html
    check "it is replaced" "$FSDPGEN" plan "$ROOT/models/demo.lua" --html plan-demo.html --trace plan-demo.json
    check "the same bytes" cmp plan-demo.html before.html
    echo mine >mine
    for kind in html trace; do
        ! "$FSDPGEN" plan "$ROOT/models/demo.lua" --$kind mine >out 2>err
        check "--$kind leaves another file alone" grep -q "mine: the file is there and is not a .* of .fsdpgen plan." err
    done
    ! "$FSDPGEN" tune "$ROOT/models/demo.lua" --plan-only --html mine >out 2>err
    check "and so does tune, before it plans" test ! -s out -a "$(cat mine)" = mine
    check "but with --force" "$FSDPGEN" plan "$ROOT/models/demo.lua" --html mine --force
    mkdir own && cp -r "$ROOT/models/arch" "$ROOT/models/demo.lua" own/
    for file in demo.lua arch/llama.lua; do
        check "$file, which is read, is not" bash -c '! "$0" plan own/demo.lua --trace own/$1 --force 2>err' "$FSDPGEN" $file
        check "even with --force" cmp "$ROOT/models/$file" "own/$file"
    done
    ! "$FSDPGEN" plan "$ROOT/models/demo.lua" --html no/such.html >out 2>err
    check "a folder that is not there" grep -q 'no/such.html: cannot be written: No such file' err
    cp "$ROOT/tests/models/tiny_llama.lua" '<img src=x>&".lua'
    "$FSDPGEN" tune '<img src=x>&".lua' wrap=1,2 recompute=none,block --set mesh.shard=2 --plan-only --html found.html \
        --json >found.json 2>err
    check "a search, whose description has a hostile name" test $? = 0
    check "its page" python3 "$here/drawings.py" tune found.html found.json
    check "the name is text" grep -q '<h1>&lt;img src=x&gt;&amp;&quot;.lua</h1>' found.html
}

part logs logs
part pages:logs pages
part wrong:logs wrong
part files:logs files
part large:logs turn 0 2 large
part seconds:logs seconds
part wandb:logs wandb
part drawings drawings
[ "$FULL" != 1 ] || part browser:pages,drawings browser
finish
