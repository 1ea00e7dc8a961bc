# SPDX-License-Identifier: Apache-2.0
# sizes.py FSDPGEN SIZE_JSON GPU=USD... FIELD=VALUE...: plans each row of `fsdpgen size` by itself, with
# those fields, and compares.
import json
import subprocess
import sys

generator, found, *prices = sys.argv[1:]
fields = [p for p in prices if "." in p.split("=")[0]]
prices = {gpu: float(usd) for gpu, usd in (p.split("=") for p in prices if p not in fields)}
rows = json.load(open(found))
tokens = {"llama8b": 64 * 8192, "gpt2_124m": 512 * 1024}


def plan(row, *sets):
    command = [generator, "plan", row["model"], "--json", "--target", "cuda"]
    for s in (f"target.gpu={row['gpu']}", *fields, *sets):
        command += ["--set", s]
    if row["mesh_node"]:
        command += ["--set", f"mesh.node={row['mesh_node']}"]
    return subprocess.run(command, capture_output=True)


seen = set()
for row in rows:
    got = plan(row)
    assert (got.returncode == 0) == (row["fits"] and not row["recompute_auto"]), row
    if row["recompute_auto"]:
        assert got.returncode == 3, row
        got = plan(row, "recompute=auto")
        assert got.returncode == (0 if row["fits"] else 3), row
    seen.add((row["fits"], row["recompute_auto"]))
    if not row["fits"]:
        assert row["tokens_per_second"] is row["gpu_hours"] is row["usd"] is None, row
        assert row["rank_bytes"] > row["budget_bytes"], row
        continue
    p = json.loads(got.stdout)
    rate = tokens[p["name"]] / p["step_seconds"]
    hours = 1e9 / rate / 3600 * p["ranks"]
    assert row["rank_bytes"] == p["bytes_per_rank"]["total"] <= row["budget_bytes"], row
    assert row["params"] == p["params"] and row["ranks"] == p["ranks"], row
    assert abs(row["tokens_per_second"] / rate - 1) < 1e-6 and abs(row["gpu_hours"] / hours - 1) < 1e-6, row
    assert row["mesh_node"] == (8 if p["ranks"] > 8 else 0) and row["nodes"] == max(p["ranks"] // 8, 1), row
    usd = prices.get(row["gpu"])
    assert row["usd"] is None if usd is None else abs(row["usd"] / (usd * hours) - 1) < 1e-6, row
assert fields or len(rows) == 4 and seen == {(True, False), (False, True)}, seen
