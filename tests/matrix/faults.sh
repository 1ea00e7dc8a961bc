# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh, after matrix.sh and checks.sh. Plants faults, one at a time and for each rule
# of the contract (faults.lua), in a copy of the runtime and the templates, makes the reference
# and a row of the matrix from it, and demands that the matrix turns red. FULL=1: all of them; else
# some, by SEED.

fused_multiply_add() { # ARCH: does the compiler have one there?
    cc "-march=$1" -dM -E -x c - </dev/null 2>/dev/null | grep -qwE '__FMA__|__ARM_FEATURE_FMA'
}

# fault NAME: its generator has the copy's templates, its trainers the copy's runtime. One folder for
# all: what a fault leaves as it was is compiled once.
fault() (
    WORK=$WORK/planted
    rm -rf "$WORK"
    mkdir "$WORK"
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
    if [ "$how" != builds ]; then
        build_flags=(CFLAGS="-O1 -march=$ISA_ARCH")
    elif ! fused_multiply_add "$ISA_ARCH"; then # nothing is contracted there
        ISA_ARCH=native ISA_MAKE=()
        if ! fused_multiply_add native; then
            echo "skipped: fault $1: this machine has no fused multiply-add"
            exit
        fi
    fi
    # gcc contracts from -O2 on; builds() has one at -O1
    [ "$how" != builds ] || build_flags=(CFLAGS="-O2 -march=$ISA_ARCH")
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

# Can all be planted, also those that are not run? Picks two for a run of no names, evenly spread
# from a random one on.
plant_all() { # NAME...
    local name names=("$@") count=$# i dir=$WORK/plant
    for name; do
        rm -rf "$dir"
        mkdir -p "$dir"
        cp -R "$ROOT/runtime" "$ROOT/templates" "$dir/"
        check "fault $name can be planted" "$lua" "$here/faults.lua" plant "$name" "$dir"
    done
    [ "$FULL" = 0 ] || return 0
    random "$count"
    for ((i = 0; i < 2; i++)); do
        picked+=("${names[$(((random_value + i * count / 2) % count))]}")
    done
}
picked=()

fault_part() { # NAME: when it is named or picked, or with FULL=1
    local line
    [ "$FULL" = 1 ] || [ ${#part_names[@]} -gt 0 ] || [[ " ${picked[*]} " = *" $1 "* ]] || return 0
    fault "$1" >"$WORK/fault.out" 2>&1
    line=$(head -n 1 "$WORK/fault.out")
    case $line in
    "ok "*)
        ok "${line#ok   }"
        echo "figure: ${line#ok   }" ;;
    skipped:*)
        echo "$line" ;;
    *)
        bad "${line#FAIL }"
        sed -n '2,$p' "$WORK/fault.out" ;;
    esac
}
