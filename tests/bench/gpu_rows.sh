# SPDX-License-Identifier: Apache-2.0
# Sourced by gpu.sh: what is measured, a row at a time, so that nothing whole is lost when a call ends
# in between. OUT/bench.rows has a line for each datum, MODEL KIND KEY VALUE..., after a first line
# that names commit, GPU and libraries; it is replaced as a whole after each row. Rows of something
# else are moved aside, to bench.rows.old. OUT/bench.tar.gz has the files in $archive: profiles and
# wisdom. OUT/bench.md has the tables of all rows.

# rows_begin HEAD
rows_begin() {
    rows_head=$1
    archive=$WORK/archive
    mkdir -p "$OUT" "$archive" || return
    if [ -e "$OUT/bench.rows" ] && [ "$(head -n 1 "$OUT/bench.rows")" = "# $rows_head" ]; then
        [ ! -e "$OUT/bench.tar.gz" ] || tar -C "$archive" -xzf "$OUT/bench.tar.gz"
        return
    fi
    [ ! -e "$OUT/bench.rows" ] || mv "$OUT/bench.rows" "$OUT/bench.rows.old"
    rm -f "$OUT/bench.tar.gz" "$OUT/bench.md"
    echo "# $rows_head" >"$OUT/bench.rows.new" && mv "$OUT/bench.rows.new" "$OUT/bench.rows"
}

row_is_there() { grep -q "^$1 $2 " "$OUT/bench.rows"; } # MODEL KIND

# row_keep MODEL KIND: of the lines of stdin. The archive first: what a row says is in it.
row_keep() {
    tar -C "$archive" -czf "$OUT/bench.tar.gz.new" . && mv "$OUT/bench.tar.gz.new" "$OUT/bench.tar.gz" &&
        { cat "$OUT/bench.rows" && sed "s/^/$1 $2 /"; } >"$OUT/bench.rows.new" &&
        mv "$OUT/bench.rows.new" "$OUT/bench.rows" && rows_tables
}

# profile_kinds PROFILE WISDOM: a line for each kind of kernel of a step, "kind|seconds|share|alone":
# alone, of products, the fastest algorithm's seconds; of the rest nothing ("-").
profile_kinds() {
    awk -v wisdom="$2" '
        function field(key) {
            if (!match($0, "\"" key "\": *[-0-9.e+]+")) return 0
            return substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) + 0
        }
        function kind_of(name) {
            if (name ~ /^(NT|NN|TN) /) return "products"
            if (name ~ /^attention/) return "attention"
            if (name ~ /cross_entropy/) return "loss"
            if (name ~ /norm/) return "norms"
            if (name ~ /^(adamw|lion|sgd)/) return "optimizer"
            if (name ~ /^rt_/) return "sums"
            return "others"
        }
        BEGIN {
            while ((getline line < wisdom) > 0) # "NT .. to bf16 = WORDS # algorithm ..: X us,"
                if (match(line, /: [0-9.]+ us,/)) {
                    us = substr(line, RSTART + 2, RLENGTH - 6)
                    sub(/ = .*/, "", line)
                    best[line] = us * 1e-6
                }
        }
        /"step_seconds"/ { step = field("step_seconds") }
        /"name"/ {
            split($0, part, "\"")
            if (part[4] == "rt_place_kernel") next # beside the others
            k = kind_of(part[4])
            seconds[k] += field("seconds")
            all += field("seconds")
            if (k == "products" && part[4] in best) ceiling[k] += field("calls") * best[part[4]]
            else if (k == "products") missing[k]++
        }
        END {
            seconds["between kernels"] = step > all ? step - all : 0
            n = split("products,attention,loss,norms,optimizer,sums,others,between kernels",
                order, ",")
            for (i = 1; i <= n; i++) {
                k = order[i]
                alone = (k in ceiling) && !missing[k] ? sprintf("%.6f", ceiling[k]) : "-"
                if (k in seconds)
                    printf "kernels %s|%.6f|%.3f|%s\n", k, seconds[k], seconds[k] / step, alone
            }
        }' "$1"
}

# rows_tables: OUT/bench.md, of all rows that are there
rows_tables() {
    awk -v date="$(date -u +%F)" -v gpu="$gpu" -v steps="$STEPS" '
        function get(key) { return key in datum ? datum[key] : "-" }
        NR == 1 { head = substr($0, 3); next }
        {
            row = $1 " " $2
            value = $0
            sub(/^[^ ]* [^ ]* [^ ]* /, "", value)
            if (!(row in seen) && $2 != "copy" && $2 != "pytorch") order[++n] = row
            seen[row] = 1
            if ($3 == "kernels") kernels[row] = kernels[row] value "\n"
            else datum[row " " $3] = value
        }
        END {
            if (!n) exit
            printf "## One GPU: %s\n\n%s, %s: `tests/bench/gpu.sh`. A copy within the GPU moves %s GB/s. ", gpu, date,
                head, get("copy copy gbs")
            printf "Medians of %s steps without the first three, ids drawn as words are. PyTorch: bf16, compiled, SDPA, fused AdamW.\n\n", steps
            print "| model | attention | micro-batches x sequences x tokens, recompute | tokens/s | MFU | PyTorch | of PyTorch |"
            print "|---|---|---|---|---|---|---|"
            for (i = 1; i <= n; i++) {
                split(order[i], part, " ")
                ours = get(order[i] " tokens_per_second")
                torch = get(part[1] " pytorch tokens_per_second")
                mfu = get(order[i] " mfu")
                printf "| %s | %s | %s | %s | %s | %s | %s |\n", part[1], part[2], get(order[i] " shape"),
                    ours, mfu == "" ? "-" : sprintf("%.3f", mfu), torch,
                    torch == "-" ? "-" : sprintf("%.2f", ours / torch)
            }
            print "\nMilliseconds of a step, call by call; alone: the fastest algorithms of cuBLASLt on the same products,"
            print "SDPA on the same attention.\n\n| model | attention | | ms | share | alone |\n|---|---|---|---|---|---|"
            for (i = 1; i <= n; i++) {
                split(order[i], part, " ")
                lines = split(kernels[order[i]], line, "\n")
                for (j = 1; j < lines; j++) {
                    split(line[j], v, "|")
                    alone = v[1] == "attention" ? get(part[1] " pytorch attention_seconds") : v[4]
                    printf "| %s | %s | %s | %.2f | %.3f | %s |\n", part[1], part[2], v[1], v[2] * 1e3, v[3],
                        alone == "-" ? "-" : sprintf("%.2f", alone * 1e3)
                }
            }
        }' "$OUT/bench.rows" >"$OUT/bench.md.new" && mv "$OUT/bench.md.new" "$OUT/bench.md"
}

# rows_record RESULTS: the tables, in place of those of the same GPU, commit and libraries
rows_record() {
    [ -s "$OUT/bench.md" ] || return
    [ -e "$1" ] || : >"$1"
    awk -v head="$rows_head" '
        function flush() { if (kept != "" && !index(kept, ", " head ": `tests/bench/gpu.sh`")) printf "%s", kept; kept = "" }
        /^## / { flush() }
        { kept = kept $0 "\n" }
        END { flush() }' "$1" >"$WORK/results" &&
        { sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' "$WORK/results"; echo; cat "$OUT/bench.md"; } >"$WORK/results.new" &&
        cp "$WORK/results.new" "$1"
}
