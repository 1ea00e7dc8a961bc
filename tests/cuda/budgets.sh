# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Budgets of the large kernels, read from their images: a kernel that became
# slower is seen without a GPU. budgets.txt has them for one release of nvcc, because each
# release allocates registers differently. A kernel that exceeds one fails; one that stays below is
# named. --update writes today's figures: read `git diff`, and say in the commit why a figure grew.
budget_table=$here/budgets.txt
budget_images=("llama8b sm_90a" "llama8b sm_80" "gpt2_124m sm_90a" "gpt2_124m sm_80"
    "llama8b_fp8 sm_90a") # its other kernels are those of llama8b
# kernels that have a budget
BUDGET_KERNELS='^(bias_)?(add_)?(rmsnorm|layernorm)_|^attention|^swiglu|^map_|_cross_entropy_|^linear_loss_'
BUDGET_KERNELS="$BUDGET_KERNELS"'|^embed_bwd_|^adamw_update|^rt_sum_8_'

# budget_keep MODEL.ARCH DIR: the image that compile() made, with what is known of it
budget_keep() {
    case " ${budget_images[*]/ /.} " in *" $1 "*) ;; *) return ;; esac
    mkdir -p "$WORK/budget"
    cp "$WORK/image" "$WORK/budget/$1.cubin"
    cp "$WORK/log" "$WORK/budget/$1.log"
    cp "$2/kernels.c" "$WORK/budget/$1.c"
}

# budget_described MODEL: sets `described`, the arguments of fsdpgen
budget_described() {
    described=("$ROOT/models/${1%_fp8}.lua" --target cuda --set 'recompute="block"')
    [[ $1 != *_fp8 ]] || described+=(--set dtypes.linear=fp8)
}

# budget_image MODEL ARCH: makes it, where compile() did not
budget_image() {
    local dir=$WORK/budget/$1
    [ ! -s "$WORK/budget/$1.$2.cubin" ] || return 0
    budget_described "$1"
    [ -s "$dir/kernels.cu" ] || "$FSDPGEN" "${described[@]}" -o "$dir" || return 1
    image "$dir" "$2" "$WORK/image" 2>"$WORK/log" || { cat "$WORK/log"; return 1; }
    budget_keep "$1.$2" "$dir"
}

# budget_kernels MODEL: of the rows on stdin those that have a budget
budget_kernels() {
    case $1 in
    *_fp8) grep -E '^fp8_|^[a-z_]*_scale_' ;;
    *) grep -E "$BUDGET_KERNELS" ;;
    esac
}

# budget_rows MODEL ARCH: "MODEL ARCH KERNEL registers spilled shared all loop hmma ldsm ldg16 ldg"
budget_rows() {
    local at=$WORK/budget/$1.$2
    "$WORK/sass" "$2" "$at.cubin" | budget_kernels "$1" | awk -v head="$1 $2" '
        FILENAME != "-" && /Compiling entry function/ { split($0, part, "\047"); name = part[2] }
        FILENAME != "-" && /bytes stack frame/ { spilled[name] = $5 + $9 }
        FILENAME != "-" && /Used [0-9]+ registers/ {
            sub(/.*Used /, "")
            registers[name] = $1
            if (match($0, /[0-9]+ bytes smem/)) shared[name] += substr($0, RSTART) + 0
        }
        FILENAME != "-" && /^    \.name = "/ { split($0, part, "\""); name = part[2] }
        FILENAME != "-" && /\.shared_bytes = / { sub(/.*= /, ""); shared[name] += $0 + 0 }
        FILENAME == "-" {
            print head, $1, registers[$1], spilled[$1], shared[$1] + 0, $2, $3, $4, $5, $6, $7
        }' "$at.log" "$at.c" -
}

# budget_compare TABLE ROWS: fails where a kernel exceeds its budget, or has none. A loop counts
# by its HMMA, where it has any; a kernel without loops counts as a whole.
budget_compare() {
    awk '
        function length_of(row, x) {
            split(row, x, " ")
            return x[6] > 0 ? x[5] / x[6] : x[5] > 0 ? x[5] : x[4]
        }
        function say(what, was, is) {
            if (is > was) { worse = worse "; " what " " was " -> " is }
            if (is < was) { better = better "; " what " " was " -> " is }
        }
        /^#/ { next }
        { key = $1 " " $2 " " $3 }
        FNR == NR { table[key] = $4 " " $5 " " $6 " " $7 " " $8 " " $9 " " $10 " " $11 " " $12; next }
        {
            seen[key] = 1
            if (!(key in table)) { print "no budget: " key " (--update)"; bad = 1; next }
            row = $4 " " $5 " " $6 " " $7 " " $8 " " $9 " " $10
            split(table[key], a, " ")
            worse = better = ""
            say("registers", a[1], $4 + 0)
            say("bytes spilled", a[2], $5 + 0)
            say("bytes shared", a[3], $6 + 0)
            say($9 > 0 ? "instructions of the loop for each HMMA" : "instructions",
                length_of(table[key]), length_of(row))
            if ($9 > 0 && a[6] > 0) say("LDSM for each HMMA", a[7] / a[6], $10 / $9)
            say("loads of less than 16 bytes", a[9], $12 + 0)
            if (worse != "") { print "worse: " key substr(worse, 2); bad = 1 }
            if (better != "") print "better: " key substr(better, 2) " (--update)"
        }
        END {
            for (key in table)
                if (!(key in seen)) { print "no such kernel: " key " (--update)"; bad = 1 }
            exit bad
        }' "$1" "$2"
}

# A larger figure is refused, a smaller one named, and so is a kernel that is not known.
budget_faults() { # ROWS
    local column
    head -n 1 "$1" >"$WORK/budget/other"
    ! budget_compare "$WORK/budget/other" "$1" >"$WORK/budget/said" || return 1
    ! budget_compare "$1" "$WORK/budget/other" >"$WORK/budget/said" || return 1
    for column in 4 5 6 8 10 12; do
        awk -v c=$column '/attention_bwd/ { $c++ } 1' "$1" >"$WORK/budget/other"
        ! budget_compare "$1" "$WORK/budget/other" >"$WORK/budget/said" || return 1
        grep -q '^worse: ' "$WORK/budget/said" || return 1
        budget_compare "$WORK/budget/other" "$1" | grep -q '^better: ' || return 1
    done
}

budget_nvdisasm() { # MODEL ARCH: the disassembler counts the same
    "$CUDA_HOME/bin/nvdisasm" "$WORK/budget/$1.$2.cubin" | awk -f "$here/sass.awk" | sort \
        >"$WORK/budget/nvdisasm" && "$WORK/sass" "$2" "$WORK/budget/$1.$2.cubin" |
        diff - "$WORK/budget/nvdisasm"
}

budget_plan() { # MODEL ARCH ROWS: plan --kernels --image says what ptxas and kernels.c say
    budget_described "$1"
    "$FSDPGEN" plan "${described[@]}" --kernels --json \
        --image "$WORK/budget/$1.$2.cubin" 2>"$WORK/error" | python3 -c '
import json, sys
of, path = sys.argv[1:]
want = {f[2]: (int(f[3]), int(f[5])) for f in map(str.split, open(path)) if f[:2] == of.split()}
have = {k["name"]: (k["registers"], k["shared_bytes"]) for row in json.load(sys.stdin)["kernels"]["rows"]
        for k in row["compiled"] if k["name"] in want}
assert len(have) >= 8, have
for name in have:
    assert have[name] == want[name], (name, have[name], want[name])' "$1 $2" "$3"
}

budgets() {
    local image rows=$WORK/budget/rows release
    release=$("$nvcc" --version | sed -n 's/.* release \([0-9.]*\), .*/\1/p')
    mkdir -p "$WORK/budget"
    if [ $update = 0 ] && ! grep -qx "# nvcc $release" "$budget_table"; then
        echo "skipped: budgets are for $(sed -n 's/^# \(nvcc .*\)/\1/p' "$budget_table"), not $release"
        return
    fi
    check "the counter of instructions builds" "${CC:-cc}" -std=gnu11 -O1 -Wall -Wextra -Werror \
        -o "$WORK/sass" "$here/sass.c"
    for image in "${budget_images[@]}"; do
        check "$image: an image" budget_image $image
        budget_rows $image >>"$rows"
        [ ! -x "$CUDA_HOME/bin/nvdisasm" ] ||
            check "$image: nvdisasm counts the same" budget_nvdisasm $image
        check "$image: plan --image reads what ptxas says" budget_plan $image "$rows"
    done
    if [ $update = 1 ]; then
        {
            echo "# Budgets of kernels: budgets.sh. model, architecture, kernel, registers, bytes"
            echo "# spilled, of shared memory, instructions: all, of the main loop; its HMMA, LDSM, LDG of"
            echo "# 16 bytes, of fewer"
            echo "# nvcc $release"
            cat "$rows"
        } >"$budget_table"
    fi
    budget_compare "$budget_table" "$rows" | grep '^better: '
    check "kernels keep their budgets" budget_compare "$budget_table" "$rows"
    check "a budget that does not fit is noticed" budget_faults "$rows"
}
