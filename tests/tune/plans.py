# SPDX-License-Identifier: Apache-2.0
# plans.py FSDPGEN MODEL TUNE_JSON SETS...: plans what tune ranked one by one, and compares.
import json
import subprocess
import sys

generator, model, found, *common = sys.argv[1:]
found = json.load(open(found))


def plan(sets):
    command = [generator, "plan", model, "--json"]
    for s in common + sets:
        command += ["--set", s]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


rates = []
for c in found["ranked"]:
    p = plan(c["sets"])
    assert p["bytes_per_rank"]["total"] == c["rank_bytes"], (c, p["bytes_per_rank"])
    assert abs(p["step_seconds"] - c["predicted_seconds"]) < 1e-9 * p["step_seconds"], (c, p["step_seconds"])
    assert p["numerics_hash"] == c["numerics_hash"]
    rates.append(c["step_tokens"] / c["predicted_seconds"])
assert rates == sorted(rates, reverse=True) and len(rates) > 5, rates
assert found["ranked"][0]["id"] == found["best"]
# what was left out as a double is one
for c in found["left_out"]:
    p = plan(c["sets"])
    assert any(abs(p["step_seconds"] - r["predicted_seconds"]) < 1e-9 and p["bytes_per_rank"]["total"] == r["rank_bytes"]
               for r in found["ranked"]), c
