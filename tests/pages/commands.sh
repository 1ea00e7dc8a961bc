# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. What plans a model of ours works as it is written; other commands of pages that do not
# run here at least parse, name files that exist and have flags that exist; every flag that exists has its place in docs/.
trainer_flags=$("$FSDPGEN" docs trainer-options | grep -oE -- "\`--[a-z][a-z-]+" | tr -d "\`" | sort -u)
generator_flags=$({ "$FSDPGEN" --help; "$FSDPGEN" docs options; } | grep -oE -- '--[a-z][a-z-]+' |
    sort -u)
at_least "flags of the trainer" "$(echo "$trainer_flags" | wc -l)" 40
at_least "flags of fsdpgen" "$(echo "$generator_flags" | wc -l)" 20
missing=
for flag in $trainer_flags $generator_flags; do
    grep -rqE -- "\`$flag\b|[ ,\`]$flag[\`= ,]" docs/*.md || missing="$missing $flag"
done
check "docs/ names every flag; missing:${missing:- none}" test -z "$missing"

# Each command of fsdpgen or a trainer in a block, one a line: its name, and its flags.
calls_of() { # BLOCK
    sed -e :a -e '/\\$/{N;s/\\\n//;ba' -e '}' "$1" | sed 's/#.*//; s/&&/\n/g; s/|/\n/g; s/\$(/\n/g; s/;/\n/g' |
        sed -nE 's/^ *(.*[ /])?(fsdpgen|trainer)( .*)$/\2 \3/p'
}

n_commands=0 n_run=0
while IFS='|' read -r file page line language directive; do
    [ "$language" = sh ] || continue
    n_commands=$((n_commands + 1))
    check "$page:$line parses" bash -n "$file"
    while read -r program rest; do
        known=$generator_flags
        [ "$program" = fsdpgen ] || known=$trainer_flags
        for flag in $(grep -oE -- '(^| )--[a-z][a-z-]+' <<<"$rest"); do
            check "$page:$line: $program has $flag" grep -qxe "$flag" <<<"$known"
        done
        case $rest in
        *--html* | *--image* | *--machines* | *--rates* | *'$'*) ;; # of files that the reader has
        "plan models/"* | "check models/"* | "size models/"*)
            n_run=$((n_run + 1))
            check "$page:$line: fsdpgen $rest" bash -c "\"$FSDPGEN\" $rest" ;;
        esac
    done < <(calls_of "$file")
    for name in $(grep -oE '(^|[ "])(models|tests|docs|out|templates|gen|runtime)/[A-Za-z0-9_./*-]+' "$file"); do
        name=${name#\"}
        # shellcheck disable=SC2086 # a pattern
        check "$page:$line: $name is there" ls -d $name
    done
done <"$WORK/list"
at_least "blocks of commands" "$n_commands" 25
at_least "commands that plan a model of ours" "$n_run" 8

# Flags in running text: of fsdpgen, a trainer, a script of ours, or another program named here.
other_programs='--no_python --preset --build --prefix --install --text --deps --full --list --update
    --prepare --target --signal --shm-size --nnodes --nproc_per_node --check --follow'
scripts=$(grep -ohE -- '--[a-z][a-z-]+' demo.sh test.sh tests/*/run.sh | sort -u)
for flag in $(sed '/^ *```/,/^ *```$/d' "${pages[@]}" | grep -ohE -- '`[^`]*`' |
              grep -oE -- '(^|[` ])--[a-z][a-z_-]+' | tr -d '` ' | sort -u); do
    check "$flag, which a page names, exists" grep -qxe "$flag" \
        <(printf '%s\n' $trainer_flags $generator_flags $other_programs $scripts)
done
