#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page.py PAGE [LOG...]: checks a page of `fsdpgen report`, and prints its elements and texts.

Tags close in order; nothing is loaded from elsewhere; the policy names the hashes of the script and
the style; the curves of each LOG, the runs in order, hold its values, the least and greatest among
them. What is printed leaves script, style and curves out.
"""
import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "link", "input"}
out = []


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.texts, self.policy = [], {}, ""

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            assert not name.startswith("on"), f"a handler: {name}"
            assert name not in ("src", "href", "style"), f"{tag} has {name}={value}"
        a = dict(attrs)
        if a.get("http-equiv") == "Content-Security-Policy":
            self.policy = a.pop("content")
            attrs = list(a.items())
        shown = " ".join(f'{n}="{v}"' for n, v in attrs)
        out.append("  " * len(self.open) + f"<{tag}{' ' + shown if shown else ''}>")
        if tag not in VOID:
            self.open.append((tag, a.get("type", "")))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, f"</{tag}> in {self.open}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1][0] in ("script", "style"):
            self.texts[self.open[-1]] = self.texts.get(self.open[-1], "") + data
        elif data.strip():
            out.append("  " * len(self.open) + repr(data.strip()))


def hash_of(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def rows_of(log):
    rows = {}
    for line in open(log):
        try:
            o = json.loads(line)
        except ValueError:
            continue
        if "step" in o:
            rows = {s: r for s, r in rows.items() if s < o["step"]}
            rows[o["step"]] = o
    return rows


def narrow(x):
    return float(f"{x:.7g}")


def check_run(run, log):
    rows = rows_of(log)
    for key, curve in run["series"].items():
        values = {s: r.get(key) for s, r in rows.items()}
        assert curve["s"] == sorted(curve["s"]) and len(set(curve["s"])) == len(curve["s"]), key
        for s, v in zip(curve["s"], curve["v"], strict=True):
            assert (v is None) == (values[s] is None), (key, s, v)
            assert v is None or v == narrow(values[s]), (key, s, v, values[s])
        there = [narrow(v) for v in values.values() if v is not None]
        drawn = [v for v in curve["v"] if v is not None]
        assert min(there) == min(drawn) and max(there) == max(drawn), f"{key}: a spike is lost"
    assert run["x"]["step"][0] == min(rows) and run["x"]["step"][-1] == max(rows)


def main():
    raw = open(sys.argv[1], "rb").read()
    assert len(raw) < 2 * 2**20, f"{len(raw)} bytes"
    text = raw.decode("utf-8")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2028\u2029]", text), "a control"
    for word in re.findall(r"https?:[^\s\"']*|@import|url\(", text):
        assert word == "http://www.w3.org/2000/svg", word
    page = Page()
    page.feed(text)
    page.close()
    assert not page.open, page.open
    script, style = page.texts[("script", "")], page.texts[("style", "")]
    want = f"default-src 'none'; style-src {hash_of(style)}; script-src {hash_of(script)}"
    assert page.policy == want, f"the policy of templates/report/page.html should be\n{want}"
    data = json.loads(page.texts[("script", "application/json")])
    logs = sys.argv[2:]
    assert not logs or len(data["runs"]) == len(logs)
    for run, log in zip(data["runs"], logs):
        check_run(run, log)
    print("\n".join(out))


if __name__ == "__main__":
    main()
