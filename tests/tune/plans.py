# SPDX-License-Identifier: Apache-2.0
# plans.py FSDPGEN MODEL TUNE_JSON SETS...: plans the candidates of tune one by one, and compares.
import json
import subprocess
import sys

generator, model, found, *common = sys.argv[1:]
found = json.load(open(found))


def run(sets):
    command = [generator, "plan", model, "--json"]
    for s in common + sets:
        command += ["--set", s]
    return subprocess.run(command, capture_output=True)


def plan(sets):
    got = run(sets)
    assert got.returncode == 0, (sets, got.stderr)
    return json.loads(got.stdout)


def code_of(sets):
    return run(sets).returncode


rates = []
for c in found["ranked"]:
    p = plan(c["sets"])
    assert p["bytes_per_rank"]["total"] == c["rank_bytes"], (c, p["bytes_per_rank"])
    assert abs(p["step_seconds"] - c["predicted_seconds"]) < 1e-9 * p["step_seconds"], (c, p["step_seconds"])
    assert p["numerics_hash"] == c["numerics_hash"]
    rates.append(c["step_tokens"] / c["predicted_seconds"])
assert rates == sorted(rates, reverse=True) and len(rates) > 1, rates
assert found["ranked"][0]["id"] == found["best"]
# what was left out is a double, too large, or refused
for c in found["left_out"]:
    why = c["left_out"]
    if why == "needs more memory than the budget":
        assert code_of(c["sets"]) == 3, c
    elif why == "does what an earlier candidate does":
        p = plan(c["sets"])
        assert any(abs(p["step_seconds"] - r["predicted_seconds"]) < 1e-9
                   and p["bytes_per_rank"]["total"] == r["rank_bytes"] for r in found["ranked"]), c
    else:
        assert code_of(c["sets"]) == 1, c
print(len(found["ranked"]), len(found["left_out"]))
