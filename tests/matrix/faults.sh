# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh, after matrix.sh and checks.sh. Plants faults, one at a time and for each rule
# of the contract (faults.lua), in a copy of the runtime and the templates, makes the reference
# and a row of the matrix from it, and demands that the matrix turns red. FULL=1: all of them; else
# some, by SEED.

# fault NAME: its generator has the copy's templates, its trainers the copy's runtime.
fault() (
    WORK=$WORK/fault_$1
    mkdir -p "$WORK"
    cp -R "$ROOT/runtime" "$ROOT/templates" "$WORK/"
    if ! "$lua" "$here/faults.lua" plant "$1" "$WORK" >"$WORK/what" 2>"$WORK/log"; then
        bad "fault $1 cannot be planted" "$WORK/log"
        exit
    fi
    generate() {
        local dir=$1 model=$2
        shift 2
        "$FSDPGEN" "$model" -o "$dir" --share "$WORK" --link-runtime "$WORK/runtime" "$@" \
            >"$dir.log" 2>&1
    }
    IFS='|' read -r what how sets row <"$WORK/what"
    matrix_reference fault tiny_llama builtin "$sets" >"$WORK/red" &&
        case $how in
        row) matrix_row fault tiny_llama builtin "$sets" "$row" ;;
        builds) builds fault builtin ;;
        symbols) symbols fault ;;
        esac >>"$WORK/red"
    if grep -qE '^FAIL .*(does not run|is not generated)' "$WORK/red"; then
        bad "fault $1: $what" "$WORK/red"
    elif grep '^FAIL' "$WORK/red" >"$WORK/how"; then
        echo "ok   fault $1: $what: red: $(head -n 1 "$WORK/how" | sed 's/^FAIL fault: //')"
    else
        bad "fault $1 is not seen: $what"
    fi
)

faults() { # NAME...
    local name line
    for name; do
        fault "$name" >"$WORK/fault.out" 2>&1
        rm -rf "$WORK"/fault_*
        line=$(head -n 1 "$WORK/fault.out")
        case $line in
        "ok "*)
            ok "${line#ok   }"
            echo "figure: ${line#ok   }" ;;
        *)
            bad "${line#FAIL }"
            sed -n '2,$p' "$WORK/fault.out" ;;
        esac
    done
}

# Can all be planted, also those that are not run?
plant_all() { # NAME...
    local name dir=$WORK/plant
    for name; do
        rm -rf "$dir"
        mkdir -p "$dir"
        cp -R "$ROOT/runtime" "$ROOT/templates" "$dir/"
        check "fault $name can be planted" "$lua" "$here/faults.lua" plant "$name" "$dir"
    done
}

faults_sample() { # EACH: so many, evenly spread from a random one on; 0: all
    local names picked=() count i
    mapfile -t names < <("$lua" "$here/faults.lua" list)
    plant_all "${names[@]}"
    count=${#names[@]}
    if [ "$1" = 0 ]; then
        faults "${names[@]}"
        return
    fi
    random "$count"
    for ((i = 0; i < $1; i++)); do
        picked+=("${names[$(((random_value + i * count / $1) % count))]}")
    done
    faults "${picked[@]}"
}
