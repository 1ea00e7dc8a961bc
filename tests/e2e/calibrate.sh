# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. trainer --calibrate: the table is whole and has every product of the plan once,
# with rates that are positive; a run that ends early leaves no file; flags that train are refused;
# later runs have the bits of runs before it.

# calibrate_holds FILE RANKS: the format that fsdpgen reads
calibrate_holds() {
    python3 - "$1" "$2" <<'END'
import json, sys
t = json.load(open(sys.argv[1]))
ranks = int(sys.argv[2])
assert t["fsdpgen_rates"] == 1 and t["target"] == "cpu" and t["ranks"] == ranks and t["threads"] == 1
assert "gemm" in t["platform"]
keys = [tuple(p[k] for k in ("form", "m", "n", "k", "dtype")) for p in t["products"]]
assert keys and len(set(keys)) == len(keys), "a product twice, or none"
assert {k[0] for k in keys} == {"nt", "nn", "tn"} and {k[4] for k in keys} <= {"f32", "bf16"}
assert all(p["us"] > 0 for p in t["products"])
rates = {"product_gflops", "attention_gflops", "attention_bwd_gflops", "elementwise_gbps", "norm_gbps", "copy_gbps"}
assert set(t["rates"]) <= rates and {"product_gflops", "norm_gbps", "elementwise_gbps", "copy_gbps"} <= set(t["rates"])
assert all(r > 0 for r in t["rates"].values()) and t["launch_us"] > 0
for kind in "all_gather", "reduce_scatter":
    sizes = [c["bytes"] for c in t["collectives"] if c["kind"] == kind]
    assert sizes == sorted(set(sizes)) and bool(sizes) == (ranks > 1), sizes
assert all(c["us"] > 0 and c["ranks"] == ranks for c in t["collectives"])
assert ("contention" in t) == (ranks > 1) and t.get("contention", 1) >= 1
END
}

# The products of calibrate.c are those that kernels.c defines, and each is in the table.
calibrate_complete() { # DIR FILE
    local file
    for file in kernels calibrate; do
        tr -d '\n' <"$1/$file.c" | grep -o '\.op = RT_[^}]*out_dtype = [A-Z0-9_]*' | tr -s ' ' | sort -u \
            >"$1.$file"
    done
    check "--calibrate: the products of kernels.c" cmp "$1.kernels" "$1.calibrate"
    same "--calibrate: products in the table" "$(grep -c '"form"' "$2")" "$(wc -l <"$1.kernels")"
}

calibrate_refuses() { # CODE TEXT FLAGS...
    local code=$1 text=$2 dir=$WORK/calibrate
    shift 2
    timeout 60 "$dir/trainer" "$@" >"$dir.out" 2>"$dir.err"
    same "--calibrate: code of $*" $? "$code"
    check "--calibrate: message of $*" grep -qF -- "$text" "$dir.err"
}

calibrate() {
    local dir=$WORK/calibrate one=$WORK/calibrate_one
    generate "$dir" "$ROOT/tests/models/tiny_llama.lua" --set mesh.shard=2 && build_trainer "$dir" &&
        train "$dir" "$data" 2 --threads 1 || {
        bad "--calibrate: the trainer does not run" "$dir.log"
        return
    }
    cp "$dir.result" "$dir.before"
    check "--calibrate: two ranks" timeout 600 "$dir/trainer" --calibrate "$dir.json" --threads 1
    check "--calibrate: the table of two ranks" calibrate_holds "$dir.json" 2
    calibrate_complete "$dir" "$dir.json"
    check "--calibrate: again, over its own file" timeout 600 "$dir/trainer" --calibrate "$dir.json" \
        --threads 1 --quiet
    check "--calibrate: no part is left" test -z "$(ls "$dir".json.*.part 2>/dev/null)"
    check "--calibrate: trains to the same bits" train "$dir" "$data" 2 --threads 1
    check "--calibrate: trained to the same bits" cmp "$dir.before" "$dir.result"

    calibrate_refuses 2 "leave --data out" --calibrate "$dir.no" --data "$data"
    calibrate_refuses 2 "leave --checkpoint out" --calibrate "$dir.no" --checkpoint "$dir.ck"
    calibrate_refuses 2 "leave --steps out" --calibrate "$dir.no" --steps 3
    calibrate_refuses 2 "leave --dry-run out" --dry-run --calibrate "$dir.no"
    calibrate_refuses 1 "No such file or directory" --calibrate "$dir.none/x.json"
    calibrate_refuses 1 "does not begin as what --calibrate writes" --calibrate "$data"
    { timeout -s KILL 0.05 "$dir/trainer" --calibrate "$dir.killed" --threads 1; } >/dev/null 2>&1
    # on a fast machine it may have ended before
    check "--calibrate: killed half-way, no file or a whole one" eval \
        '[ ! -e "$dir.killed" ] || calibrate_holds "$dir.killed" 2'
    check "--calibrate: no file after a refusal" test ! -e "$dir.no"

    # in parts, whose kernels read pieces of the data
    generate "$one" "$ROOT/tests/models/tiny_gpt2.lua" --set mesh.shard=1 --set parts.context=2 && build_trainer "$one" &&
        timeout 600 "$one/trainer" --calibrate "$one.json" --threads 1 >>"$one.log" 2>&1
    check "--calibrate: the table of one rank" calibrate_holds "$one.json" 1
}
