#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""drawings.py plan PAGE TRACE PLAN_JSON DUMP: the page and the trace of a plan against the plan itself.
drawings.py tune PAGE TUNE_JSON: the page of a search against what it printed.
drawings.py browser CHROMIUM PAGE FOLDER: a page in a browser, light and dark, at three widths.
"""
import json
import os
import re
import sys

from browser import COLLISIONS, CONTRASTS, READ, SCHEMES, WIDTHS, Browser
from page import Page, hash_of


def data_of(path):
    text = open(path, encoding="utf-8").read()
    for word in re.findall(r"https?:[^\s\"']*|@import|url\(", text):
        assert word == "http://www.w3.org/2000/svg", word
    page = Page()
    page.feed(text)
    page.close()
    assert not page.open, page.open
    want = (f"default-src 'none'; style-src {hash_of(page.texts[('style', '')])}; "
            f"script-src {hash_of(page.texts[('script', '')])}")
    assert page.policy == want, f"the policy of the page in templates/report should be\n{want}"
    return json.loads(page.texts[("script", "application/json")])


def close(a, b):
    return abs(a - b) <= 2e-6 * max(abs(a), abs(b)) + 1e-3


def check_plan(page, trace, plan, dump):
    d, plan = data_of(page), json.load(open(plan))
    events = json.load(open(trace))["traceEvents"]
    calls, sums = d["calls"], [sum(live) for live in zip(*d["live"], strict=True)]
    # every call of the last micro-step and the step's end, with its name; none before its stream is free
    lines = re.search(r"^last:\n(.*)", open(dump).read(), re.S | re.M).group(1).splitlines()
    names = [m.group(1) for m in (re.match(r" +\d+ (?:compute|gather|reduce) +\w+ +(.*)", line) for line in lines) if m]
    assert names == [c[4] for c in calls], (names, calls)
    for s in range(len(d["streams"])):
        free = 0
        for stream, _, at, long, name in calls:
            if stream == s:
                assert (at >= free or close(at, free)) and long >= 0, name
                free = at + long
    assert close(max(c[2] + c[3] for c in calls), d["us"])
    # what is live: never more than the arena, at its peak nearly all of it; at the ends what is kept
    assert d["at"] == sorted(d["at"]) and len(d["at"]) == len(sums)
    assert d["arena"] == plan["bytes_per_rank"]["arena"]
    assert 0.9 * d["arena"] < max(sums) <= d["arena"], (max(sums), d["arena"])
    assert sums[0] == sums[-1] or d["at"][0] == d["at"][1] == 0, (sums[0], sums[-1])
    for name, field in (("parameters", "params"), ("master and moments", "optimizer"), ("partial sums", "partials")):
        assert set(d["live"][d["classes"].index(name)]) == {plan["bytes_per_rank"][field]}, name
    # the trace says the same
    drawn = [e for e in events if e["ph"] == "X"]
    assert [(e["name"], e["tid"] - 1) for e in drawn] == [(c[4], c[0]) for c in calls]
    assert all(close(e["ts"], c[2]) and close(e["dur"], c[3]) for e, c in zip(drawn, calls))
    assert [sum(e["args"].values()) for e in events if e["ph"] == "C"] == sums
    for e in drawn:
        for wait in e["args"].get("waits_for", []):
            before = [o for o in drawn if o["args"]["call"] == int(wait.split(":")[0])]
            assert not before or before[0]["ts"] + before[0]["dur"] <= e["ts"] + 1e-3 + 1e-9 * e["ts"], (e, before)
    print(len(calls), "calls,", len(sums), "moments")


def check_tune(page, found):
    d, found = data_of(page), json.load(open(found))
    assert len(d["candidates"]) == len(found["ranked"])
    for drawn, c in zip(d["candidates"], found["ranked"]):
        assert close(drawn["predicted"] * 1e6, c["predicted_seconds"] * 1e6) and drawn["bytes"] == c["rank_bytes"]
        assert drawn.get("measured", None) == c["median_seconds"], (drawn, c)
        assert drawn.get("best", False) == (c["id"] == found["best"])
        assert drawn.get("own", False) == (c["id"] == 0)


def browse(program, page, folder):
    os.makedirs(folder, exist_ok=True)
    b = Browser(program, folder)
    try:
        b.open(page)
        for scheme in SCHEMES:
            b.media(scheme)
            for width, height in WIDTHS.items():
                b.size(width, height)
                shapes = b.run("[...document.querySelectorAll('svg.chart')].map(s => s.querySelectorAll('path, rect, circle').length)")
                assert len(shapes) in (1, 2) and min(shapes) > 5, shapes
                bad = b.run("[...document.querySelectorAll('svg.chart *')].filter(e => e.outerHTML.includes('NaN')).length")
                assert bad == 0, "a place is not a number"
                assert b.run("document.documentElement.scrollWidth") <= width, f"at {width} pixels it is too wide"
                hits = b.run(COLLISIONS)
                assert not hits, f"{scheme}, {width} pixels: {hits}"
                b.picture(f"{folder}/{scheme}-{width}.png")
            ground = b.run("getComputedStyle(document.documentElement).backgroundColor")
            assert ground == SCHEMES[scheme], f"{scheme}: {ground}"
            assert b.run(CONTRASTS)["text"] >= 4.5, scheme
        b.size(1200, 800)
        middle = b.run("(r => [r.x + r.width / 2, r.y + r.height / 2])"
                       "(document.querySelector('svg.chart').getBoundingClientRect())")
        b.mouse("mouseMoved", *middle)
        assert b.run(READ), "the pointer reads no value"
        b.mouse("mouseMoved", 2, 2)
        assert b.run(READ) == "", "what was read stays"
        assert b.run("document.images.length") == 0, "markup became an element"
        assert not b.problems, "\n".join(b.problems)
        b.session = None
        b.ask("Browser.close")
        b.process.wait(10)
    finally:
        if b.process.poll() is None:
            b.process.kill()


{"plan": check_plan, "tune": check_tune, "browser": browse}[sys.argv[1]](*sys.argv[2:])
