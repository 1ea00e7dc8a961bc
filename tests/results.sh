# SPDX-License-Identifier: Apache-2.0
# Sourced by test.sh: tests/RESULTS.md, the results of --full. A row for each suite, with the commit
# it ran on, and the figures that its log names. A row holds while nothing changes that its suite
# reads, so a count of hours can be stopped and goes on with what is missing. In: commit, SEED, logs,
# rows (test.sh). Out: the file; is_counted.

results=tests/RESULTS.md
machine="$(nproc) cores, $(sed -n 's/^model name[^:]*: //p;T;q' /proc/cpuinfo), $(
    cc -dumpfullversion -dumpversion)"
declare -A counted=() # name: row; of this code, with nothing failed

# What not every suite reads: pages, measured speeds, and of tests/ what its files do not name.
pages="docs README.md CHANGELOG.md"
speeds=tests/bench/RESULTS.md
readers_of_pages=" house pages report shell tokenize "
readers_of_speeds=" house pages plan "
declare -A named_by=() # suite: what it reads of tests/, as words

# find_named SUITE: its folder, what its files name of tests/ (of a program that is built there, the
# folder), and what those name.
find_named() {
    local -A seen=()
    local queue=("tests/$1") path file word
    while [ ${#queue[@]} -gt 0 ]; do
        path=${queue[0]}
        queue=("${queue[@]:1}")
        [ -z "${seen[$path]:-}" ] || continue
        seen[$path]=1
        while read -r file; do
            while read -r word; do
                word=tests/${word#*/}
                word=${word%[./]}
                while [ "$word" != tests ] && [ ! -e "$word" ]; do word=$(dirname "$word"); done
                [ "$word" = tests ] || queue+=("$word")
            done < <(sed '/^ *#\|^# \|^ \*\|^\/\*/d; s/ # .*//
                s/--link-runtime [^ ]*//g' "$file" | # without comments, and what is no path of ours
                grep -aoE '(tests|\.\.)/[a-z0-9_][A-Za-z0-9_./-]*' | sort -u)
        done < <(git ls-files -- "$path")
    done
    named_by[$1]="${!seen[*]}"
}

is_this_code() { # COMMIT SUITE
    local but=(":!$results") of=(tests) word
    [[ $readers_of_speeds = *" $2 "* ]] || but+=(":!$speeds")
    if [[ $readers_of_pages != *" $2 "* ]]; then
        but+=(":!tests/README.md")
        for word in $pages; do but+=(":!$word"); done
    fi
    if [ "$2" != ctest ] && [ "$2" != house ]; then # these read all of tests/
        [ -n "${named_by[$2]:-}" ] || find_named "$2"
        read -ra of <<<":(glob)tests/*.sh tests/cc_cached ${named_by[$2]}"
    fi
    git diff --quiet "$1" HEAD -- . ":!tests" "${but[@]}" 2>/dev/null &&
        git diff --quiet "$1" HEAD -- "${of[@]}" "${but[@]}" 2>/dev/null
}

is_counted() { [ -n "${counted[$1]:-}" ]; }

# read_results [SUITE...]: the rows that hold. Those of the suites named, also with other
# instruction sets or under the sanitizers, are counted anew. A tree with changes is no commit's.
read_results() {
    local row name suite_of commit_of failed word
    if ! git diff --quiet HEAD -- . ":!$results" 2>/dev/null; then
        commit="$commit, changed"
        return
    fi
    while read -r row; do
        IFS='|' read -r _ name _ failed _ commit_of _ <<<"$row"
        name=$(echo $name)
        suite_of=${name#asan }
        [ $failed = 0 ] && is_this_code $commit_of "${suite_of%%[ :]*}" || continue
        counted[$name]=$row
        for word; do
            [[ " ${name//:/ } " != *" $word "* ]] || unset "counted[$name]"
        done
    done < <(grep -E '^\| [a-z]' $results 2>/dev/null | grep -v '^| suite')
    echo "counted before, and left out now: ${#counted[@]} rows"
}

# write_results: the rows that held and those of this run. A run that is stopped keeps what it has.
write_results() {
    local row name log old=$logs/results.old
    cp $results "$old" 2>/dev/null || : >"$old"
    {
        echo "# Results of ./test.sh --full"
        echo
        echo "Each suite with all its counts, on the commit of its row; a name after the suite's is an"
        echo "instruction set of \`tests/isa.sh\`, with the counts of CI. A row holds while"
        echo "nothing changes that its suite reads; \`./test.sh --full\` counts the others anew. A long suite"
        echo "has rows of pieces: \`fuzz:3/12\`."
        echo
        echo "| suite | passed | failed | seconds | commit | seed | machine |"
        echo "|---|---|---|---|---|---|---|"
        {
            [ ${#counted[@]} = 0 ] || printf '%s\n' "${counted[@]}"
            for row in "${rows[@]}"; do echo "| ${row//|/ | } |"; done
        } | sort
        printf '%s\n' "${!counted[@]}" | sort | while read -r name; do
            echo
            awk -v section="## $name" '/^## / { on = $0 == section } on' "$old"
        done
        for row in "${rows[@]}"; do
            name=${row%%|*}
            log=$logs/${name//[^a-z0-9_]/_}.log
            [[ $name != *" "* ]] && grep -qE '^[Ff]igure' "$log" || continue
            printf '\n## %s\n\n' "$name"
            sed -n 's/^[Ff]igure:\{0,1\} /- /p' "$log"
        done
    } | cat -s >"$logs/results.new" && mv "$logs/results.new" $results
}
