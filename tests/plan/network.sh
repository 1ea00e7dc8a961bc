# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: collectives of ranks on several nodes, against closed forms computed here from the
# numbers of a cluster, and what --nodes and --fabric refuse.

python3 - "$FSDPGEN" "$ROOT/models/llama8b.lua" >"$WORK/out" 2>&1 <<'EOF2'
import json, re, subprocess, sys
fsdpgen, model = sys.argv[1:]
LINK, START = 360e9, 20e-6  # bytes/s between the H100 of a node; seconds before a collective
MEMORY, EACH = 2800e9, 65536 / 0.8e-6  # bytes/s of memory, and of a multiprocessor that adds
STAGING = 128 << 20  # bytes of a target

def sets(*fields):
    return [a for f in ("target.gpu=h100", *fields) for a in ("--set", f)]

def run(*arguments):
    p = subprocess.run([fsdpgen, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if p.returncode not in (0, 3):
        sys.exit(f"{arguments}: {p.returncode}\n{p.stderr}")
    return p.stdout

def took(fields, more=()):
    """label -> seconds of each transfer of a step, and the multiprocessors to which it is limited, or 0;
    unit -> its elements"""
    arguments = [model, "--target", "cuda", "--set", "target.memory='4TiB'", *sets(*fields), *more]
    times, limits = {}, {}
    for line in run(*arguments, "--dump=unroll").splitlines():
        at = re.match(r".* reduce +(?:reduce_scatter|all_reduce) +(.*) \(.*? on (\d+) multiprocessors", line)
        if at:
            limits[at[1]] = int(at[2])
    for line in run(*arguments, "--dump=simulate").splitlines():
        words = line.split(None, 4)
        if line[:1] == " " and len(words) == 5 and words[1] in ("gather", "reduce"):
            times[words[4]] = (int(words[3]) - int(words[2])) * 1e-12, limits.get(words[4], 0)
    plan = json.loads(run("plan", *arguments, "--json"))
    return times, {u["name"]: u for u in plan["units"]}, plan

# The cluster: nodes of `gpus`, `nics` of `nic` bytes/s each, steps of a ring in seconds.
class Cluster:
    def __init__(self, gpus=8, domain=8, nics=8, nic=46e9, step=3.4e-6, net_step=9.6e-6,
                 rail=True, down=32, over=1, ranks=None):
        self.ranks = ranks or gpus
        self.near = self.ranks * domain // gpus
        while self.near & (self.near - 1):
            self.near &= self.near - 1
        self.nic, self.step, self.net_step, self.over = nics * nic / gpus, step, net_step, over
        self.leaf = (down if rail else down // nics) * self.ranks

    # ranks: the numbers of a group's members, of which the first is this one
    def split(self, ranks):
        near = sum(r // self.near == ranks[0] // self.near for r in ranks)
        return len(ranks), near, max(near, sum(r // self.leaf == ranks[0] // self.leaf for r in ranks))

    def ring(self, ranks, part):
        n, near, _ = self.split(ranks)
        links = (n - 1) * part / LINK
        if near == n:
            return START + links
        hops = (n // near - 1) * (self.net_step + (near - 1) * self.step)
        return START + hops + max(links, (n - near) * part / (near * self.nic))

    def exchange(self, ranks, part, limit=0):
        n, near, leaf = self.split(ranks)
        links = (near - 1) * part / LINK * (18 / limit if limit else 1)
        if near == n:
            return START + links
        return START + self.net_step + max(links, (n - near) * part / self.nic,
                                           (n - leaf) * part * self.over / self.nic)

    # each gets its part from the others, then reads all parts and writes their sum; by halves of its staging, if
    # that does not hold them: then one slice is added while another comes
    def sum(self, ranks, part, limit=0):
        moves = self.exchange(ranks, part, limit)
        adds = (len(ranks) + 1) * part / min(MEMORY, (limit or 32) * EACH)
        slices = -(-len(ranks) * part // (STAGING // 2)) if len(ranks) * part > STAGING else 1
        return moves + adds - min(moves, adds) * (slices - 1) / slices

def near(a, b, what):
    if abs(a - b) > 1e-6 * max(abs(a), abs(b)) + 2e-12:
        sys.exit(f"{what}: {a}, not {b}")

# hops: ranks of a node that sum first; mates: the same, of those that hold equal parts
def check(what, cluster, fields, shard, replicate=1, hops=0, mates=0):
    world = shard * replicate
    mesh = [f"mesh.shard={shard}", f"mesh.replicate={replicate}", "global_batch=256", "leaves=256"]
    times, units, plan = took(mesh + list(fields))
    within, across = list(range(shard)), list(range(0, world, shard))
    seen = set()
    for label, (seconds, limit) in times.items():
        assert not limit or len(within) == cluster.split(within)[1], (what, label, limit)
        unit = next((u for u in units if f" {u} " in label + " "), None)
        if not unit:
            continue
        part = units[unit]["elems"] // shard
        if label.startswith("gather of"):
            near(seconds, cluster.ring(within, 2 * part), f"{what}: {label}")
        elif label.startswith("reduction of") and not hops:
            near(seconds, cluster.sum(within, 4 * part, limit), f"{what}: {label}")
        elif label.startswith("reduction of"):
            near(seconds, cluster.sum(within[:hops], 4 * part * (shard // hops)) +
                 cluster.sum(within[::hops], 4 * part), f"{what}: {label}, in two hops")
        elif "copies" in label:
            slice = min(part, -(-(-(-part // replicate)) // 1024) * 1024)
            near(seconds, cluster.exchange(across, 4 * slice) + (cluster.sum(across, 4 * slice) if not mates else
                 cluster.sum(across[:mates], 4 * slice * (replicate // mates)) +
                 cluster.sum(across[::mates], 4 * slice)), f"{what}: {label}")
        else:
            continue
        seen.add(label.split()[0])
    assert seen == ({"gather", "reduction"} | ({"sum"} if replicate > 1 else set())), (what, seen)
    return plan

plan = check("one node", Cluster(), [], 8)
assert "network" not in plan
plan = check("8 nodes", Cluster(), [], 64)
assert plan["network"] == {"node": "hgx-h100", "fabric": "rail", "nodes": 8, "near_ranks": 8,
                           "leaf_ranks": 64, "nic_gbps": 46.0}, plan["network"]
check("4 ranks a node", Cluster(ranks=4), ["target.nodes=16"], 64)
check("two hops", Cluster(), ["mesh.node=8"], 64, hops=8)
check("two hops, 4 ranks a node", Cluster(ranks=4), ["mesh.node=4"], 64, hops=4)
check("half the ports", Cluster(rail=False, over=2), ["target.fabric=tapered"], 64)
check("half the ports, two hops", Cluster(rail=False, over=2),
      ["target.fabric=tapered", "mesh.node=8"], 64, hops=8)
check("copies within nodes", Cluster(), [], 8, replicate=8)
check("copies on one node and others", Cluster(), ["mesh.node=8"], 4, replicate=16, mates=2)
check("a rack of 72", Cluster(gpus=4, domain=72, nics=4),
      ["target.network={gpus=4,domain=72,nics=4}"], 128)
check("numbers of one's own", Cluster(nics=2, nic=12.5e9, step=1e-6, net_step=2e-6, rail=False, down=4, over=3),
      ["target.network={nics=2,nic=12.5,step=1,net_step=2,rail=false,down=4,oversubscription=3}"], 64)

# options are fields; nodes only change times
def plan_of(*arguments):
    return json.loads(run("plan", model, "--target", "cuda", "--json", *arguments))
a = plan_of("--set", "mesh.shard=32", "--set", "leaves=64", "--nodes", "16", "--fabric", "tapered")
b = plan_of("--set", "mesh.shard=32", "--set", "leaves=64", "--set", "target.nodes=16", "--set", "target.fabric=tapered")
c = plan_of("--set", "mesh.shard=32", "--set", "leaves=64")
assert a == b and a["network"]["nodes"] == 16 and c["network"]["nodes"] == 4
assert a["step_seconds"] > c["step_seconds"] and a["numerics_hash"] == c["numerics_hash"]
assert a["bytes_per_rank"] == c["bytes_per_rank"]
EOF2
check "collectives over nodes take what closed forms say" test ! -s "$WORK/out"
[ ! -s "$WORK/out" ] || sed 's/^/     | /' "$WORK/out"

# more ranks than a trainer starts can be planned, and not generated
large=(--target cuda --set target.gpu=h200 --set mesh.shard=4096 --set global_batch=4096 --set leaves=4096)
"$FSDPGEN" plan "$ROOT/models/llama405b.lua" "${large[@]}" --json >"$WORK/plan.json" 2>"$WORK/err"
check "405B on 4,096 ranks is planned" test "$? $(number ranks | cut -d. -f1)" = "0 4096"
"$FSDPGEN" "$ROOT/models/llama405b.lua" "${large[@]}" -o "$WORK/large" >/dev/null 2>"$WORK/err"
check "and not generated" test "$? $(grep -c 'mesh: 4096 ranks can be planned, but a trainer starts at most 1024' "$WORK/err")" = "1 1" -a ! -e "$WORK/large"

# More bytes than a number holds are as many as it holds, not a negative number of them.
"$FSDPGEN" plan "$ROOT/models/llama405b.lua" --target cuda --set mesh.shard=2 --set mesh.node=2 --set global_batch=16777216 \
    --set leaves=8 --set dtypes.param=f32 --json >"$WORK/plan.json" 2>"$WORK/err"
check "a step that receives more than 2^61 bytes" test "$(number gathered)" = $((1 << 61))

# messages, as committed
while read -r arguments; do
    echo "== $arguments"
    # shellcheck disable=SC2086
    "$FSDPGEN" plan "$ROOT/models/llama405b.lua" $arguments 2>&1 >/dev/null | sed '/warning:/,/help:/d'
    echo "exit ${PIPESTATUS[0]}"
done >"$WORK/said" <<'EOF2'
--target cuda --nodes 3
--target cuda --nodes 1024
--target cuda --nodes 32
--target cuda --nodes 5000
--target cuda --nodes 64 --set mesh.node=4
--target cuda --fabric ethernet
--target cuda --set target.node=aws-p4d
--target cuda --set target.node=pcie
--target cuda --set target.network.oversubscription=0.5
--target cuda --set target.network.nic=0
--target cpu --nodes 2
EOF2
[ "$update" = 0 ] || cp "$WORK/said" "$here/golden/network_wrong.txt"
check "--nodes, --fabric: what they refuse" diff "$here/golden/network_wrong.txt" "$WORK/said"

# a file of --machines: names that mean what fields of target mean; what it refuses
cat >"$WORK/cluster.lua" <<'EOF2'
return {
    gpus = {
        { name = "h100-500w", arch = "sm_90a", memory = "94GiB", node = "hgx-h100",
          tflops = 620, bandwidth = 2006, link = 350, attention = 250, attention_bwd = 170, peak = 989.4 },
        { name = "gh200", arch = "sm_90a", memory = "94GiB", tflops = 740, bandwidth = 3400, link = 360 },
    },
    nodes = {
        { name = "lab", gpu = { "gh200", "h100" }, gpus = 4, nics = 2, nic = 23, fabric = "campus", price = 8 },
    },
    fabrics = { { name = "campus", down = 16, oversubscription = 4, step = 12 } },
}
EOF2
cluster() { "$FSDPGEN" "$1" "$ROOT/models/llama8b.lua" --machines "$WORK/cluster.lua" "${@:2}"; }
same_plan() { # NAME, of the first "--" on two lists of options; the names themselves differ
    local name=$1 first=() names='s/"\(fabric\|node\|gpu\)": .*/"\1"/; s/nodes ([a-z0-9-]*)/nodes/'
    shift
    while [ "$1" != -- ]; do first+=("$1") && shift; done
    shift
    cluster plan --json --target cuda "${first[@]}" 2>"$WORK/err" | sed "$names" >"$WORK/a"
    cluster plan --json --target cuda "$@" 2>>"$WORK/err" | sed "$names" >"$WORK/b"
    check "--machines: $name" diff "$WORK/a" "$WORK/b"
    check "--machines: $name, a plan" grep -q '"step_seconds"' "$WORK/a"
}
same_plan "a node and its fabric" --set target.node=lab -- --fabric flat --set target.network='{ gpus = 4,
    domain = 4, nics = 2, nic = 23, step = 3.4, price = 8, down = 16, oversubscription = 4, net_step = 12 }'
same_plan "a GPU in a node that is there" --set target.gpu=h100-500w -- --set 'target.memory="94GiB"' --set \
    'target.rates={ tflops = 620, memory = 2006, link = 350, attention = 250, attention_bwd = 170, norm = 1604.8, peak = 989.4 }'
same_plan "one rate, that of the GPU" --set target.gpu=a100-80gb --set target.rates.peak=312 -- \
    --set target.gpu=a100-80gb
cluster plan --target cuda --set target.gpu=gh200 >"$WORK/out" 2>"$WORK/err"
check "--machines: a GPU lies in the node that names it" grep -q '2 nodes (lab, fabric campus)' "$WORK/out"
cluster size --gpu gh200 >"$WORK/out" 2>"$WORK/err"
check "--machines: size has its price, 2 dollars a GPU" awk '
    { for (i = 1; i <= NF; i++) if ($i == "USD") { usd = $(i - 1); hours = $(i - 4) } }
    END { exit !(hours > 0 && usd > 1.99 * hours && usd < 2.01 * hours) }' "$WORK/out"
sed '/^    fabrics = /d' "$WORK/cluster.lua" >"$WORK/rest.lua"
{ echo 'return {'; sed -n '/^    fabrics = /p' "$WORK/cluster.lua"; echo '}'; } >"$WORK/fabrics.lua"
"$FSDPGEN" plan "$ROOT/models/llama8b.lua" --machines "$WORK/fabrics.lua" --machines "$WORK/rest.lua" --target cuda \
    --set target.gpu=gh200 >"$WORK/two" 2>"$WORK/err"
cluster plan --target cuda --set target.gpu=gh200 >"$WORK/one" 2>"$WORK/one.err"
check "--machines: two files are as one" test -s "$WORK/two" -a \
    "$(cat "$WORK/one" "$WORK/one.err")" = "$(cat "$WORK/two" "$WORK/err")"
cluster plan --machines "$WORK/fabrics.lua" >"$WORK/out" 2>"$WORK/err"
check "--machines: a name of an earlier file is taken" grep -q 'there is a "campus" already' "$WORK/err"
cluster generate --target cuda --set target.gpu=gh200 --link-runtime "$ROOT/runtime" -o "$WORK/own" >"$WORK/out" 2>&1
"$FSDPGEN" "$ROOT/models/llama8b.lua" --target cuda --link-runtime "$ROOT/runtime" -o "$WORK/theirs" >"$WORK/out" 2>&1
check "--machines: the same mathematics" same_mathematics "$WORK/own" "$WORK/theirs"
while IFS= read -r text; do
    printf '%b' "$text" >"$WORK/bad.lua"
    printf '== %s\n' "$text"
    (cd "$WORK" && "$FSDPGEN" check "$ROOT/models/demo.lua" --machines bad.lua 2>&1 >/dev/null)
    echo "exit $?"
done <"$here/machines_wrong.txt" >"$WORK/said"
(cd "$WORK" && "$FSDPGEN" check "$ROOT/models/demo.lua" --machines none.lua; echo "exit $?") >>"$WORK/said" 2>&1
[ "$update" = 0 ] || cp "$WORK/said" "$here/golden/machines_wrong.txt"
check "--machines: what it refuses" diff "$here/golden/machines_wrong.txt" "$WORK/said"
