#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""browser.py CHROMIUM PAGE FOLDER FIGURES: a page of `fsdpgen report` in a real browser, which is
driven through its debugging pipe: light, dark and printed, three widths, the pointer, keys, buttons.

The screenshots go to FOLDER, for people to look at.
"""
import base64
import fcntl
import json
import os
import subprocess
import sys

SCHEMES = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}
WIDTHS = {1200: 800, 800: 800, 400: 700}


class Browser:
    def __init__(self, program, folder):
        ours, theirs = os.pipe(), os.pipe()  # what it reads as 3, what it writes as 4
        reads = fcntl.fcntl(ours[0], fcntl.F_DUPFD, 10)
        writes = fcntl.fcntl(theirs[1], fcntl.F_DUPFD, 10)
        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--user-data-dir={folder}/profile", "--remote-debugging-pipe"],
            preexec_fn=lambda: (os.dup2(reads, 3), os.dup2(writes, 4)), close_fds=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (ours[0], theirs[1], reads, writes):
            os.close(fd)
        self.to, self.answers, self.rest = ours[1], theirs[0], b""
        self.count, self.session, self.loaded, self.problems = 0, None, False, []

    def read(self):
        while b"\0" not in self.rest:
            more = os.read(self.answers, 1 << 16)
            assert more, "the browser has ended"
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        o = json.loads(text)
        what, about = o.get("method", ""), json.dumps(o.get("params", {}))[:300]
        if what in ("Runtime.exceptionThrown", "Page.javascriptDialogOpening"):
            self.problems.append(what + " " + about)
        if what in ("Log.entryAdded", "Runtime.consoleAPICalled"):
            self.problems.append(what + " " + about)
        if what == "Network.requestWillBeSent" and not o["params"]["request"]["url"].startswith("file:"):
            self.problems.append("it loads " + about)
        self.loaded = self.loaded or what == "Page.loadEventFired"
        return o

    def ask(self, method, **params):
        self.count += 1
        o = {"id": self.count, "method": method, "params": params}
        if self.session:
            o["sessionId"] = self.session
        os.write(self.to, json.dumps(o).encode() + b"\0")
        while True:
            o = self.read()
            if o.get("id") == self.count:
                assert "error" not in o, f"{method}: {o['error']}"
                return o["result"]

    def open(self, page):
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(domain + ".enable")
        self.go(page)

    def go(self, page):
        self.loaded = False
        self.ask("Page.navigate", url="file://" + os.path.abspath(page))
        while not self.loaded:
            self.read()

    def media(self, scheme, medium=""):
        self.ask("Emulation.setEmulatedMedia", media=medium,
                 features=[{"name": "prefers-color-scheme", "value": scheme}])

    def size(self, width, height):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=False)
        self.run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")

    def run(self, code):
        o = self.ask("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in o, f"{code}: {o['exceptionDetails']}"
        return o["result"].get("value")

    def mouse(self, kind, x, y):
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def click(self, selector):
        x, y = self.run(f"(e => {{ e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect();"
                        f" return [b.x + b.width / 2, b.y + b.height / 2] }})(document.querySelector({selector!r}))")
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def picture(self, path):
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        with open(path, "wb") as f:
            f.write(base64.b64decode(shot["data"]))


# Colors as people see them: the ratio of luminances, as WCAG 2 defines it.
CONTRASTS = """(() => {
  const of = (color) => { const [r, g, b] = color.match(/[0-9.]+/g).map(Number).map((v) => {
      v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const page = of(getComputedStyle(document.documentElement).backgroundColor), least = {};
  const see = (name, color) => { const own = of(color);
    const ratio = (Math.max(own, page) + 0.05) / (Math.min(own, page) + 0.05);
    least[name] = Math.min(least[name] || 99, ratio); };
  document.querySelectorAll("h1, p, th, td, button, .unit, .notes li").forEach((e) => see("text", getComputedStyle(e).color));
  document.querySelectorAll("svg.chart text").forEach((e) => see("text", getComputedStyle(e).fill));
  document.querySelectorAll(".curve").forEach((e) => see("curve", getComputedStyle(e).stroke));
  return least; })()"""

# Texts of charts that leave their picture, or lie on each other.
COLLISIONS = """(() => { const out = [];
  document.querySelectorAll("svg.chart").forEach((svg) => {
    const frame = svg.getBoundingClientRect(), seen = [];
    svg.querySelectorAll("text").forEach((t) => { const b = t.getBoundingClientRect();
      if (b.left < frame.left - 1 || b.right > frame.right + 1 || b.top < frame.top - 1 || b.bottom > frame.bottom + 1)
        out.push("cut: " + t.textContent);
      for (const o of seen) if (b.left < o.b.right && o.b.left < b.right && b.top + 2 < o.b.bottom && o.b.top + 2 < b.bottom)
        out.push(o.t + " on " + t.textContent);
      seen.push({ b, t: t.textContent }); }); });
  return out; })()"""

PATHS = "[...document.querySelectorAll('figure .curve')].map(p => p.getAttribute('d'))"
READ = "[...document.querySelectorAll('.read')].filter(e => !e.hidden).map(e => e.textContent).join()"


def looks(b, scheme, figures, folder):
    b.media(scheme)
    for width, height in WIDTHS.items():
        b.size(width, height)
        assert b.run("document.querySelectorAll('figure svg').length") == figures, "not all charts"
        paths = b.run(PATHS)
        assert len(paths) >= figures and all(p and "NaN" not in p for p in paths), "a curve is missing"
        wide = b.run("document.documentElement.scrollWidth")
        assert wide <= width, f"at {width} pixels the page is {wide} wide"
        hits = b.run(COLLISIONS)
        assert not hits, f"{scheme}, {width} pixels: {hits}"
        b.picture(f"{folder}/{scheme}-{width}.png")
    ground = b.run("getComputedStyle(document.documentElement).backgroundColor")
    assert ground == SCHEMES[scheme], f"{scheme}: {ground}"
    least = b.run(CONTRASTS)
    assert least["text"] >= 4.5 and least["curve"] >= 3, f"{scheme}: {least}"


def works(b):
    b.size(1200, 800)
    middle = b.run("(r => [r.x + r.width / 2, r.y + r.height / 2])"
                   "(document.querySelector('svg.chart').getBoundingClientRect())")
    b.mouse("mouseMoved", *middle)
    assert "step" in b.run(READ), "the pointer reads no value"
    b.mouse("mouseMoved", 2, 2)
    assert b.run(READ) == "", "what was read stays"
    b.run("document.querySelector('svg.chart').focus()")
    for key in ("ArrowRight", "End"):
        b.ask("Input.dispatchKeyEvent", type="keyDown", key=key)
        assert "step" in b.run(READ), f"{key} reads no value"
    b.run("document.activeElement.blur()")
    before = b.run(PATHS)
    b.click("figure .log")
    assert b.run("document.querySelector('figure .log').getAttribute('aria-pressed')") == "true"
    assert b.run(PATHS) != before, "the logarithmic axis changes nothing"
    b.click("figure .log")
    assert b.run(PATHS) == before, "the linear axis does not come back"
    b.click(".choice button:nth-of-type(2)")
    ticks = b.run("document.querySelector('svg.chart').getAttribute('aria-label')")
    assert "over tokens" in ticks, ticks
    b.click(".choice button:nth-of-type(1)")
    if b.run("!!document.querySelector('.legend')"):
        b.click(".legend button")
        assert len(b.run(PATHS)) < len(before), "a hidden run is drawn"
        b.click(".legend button")
    assert b.run(PATHS) == before, "the buttons do not lead back"


def prints(b, folder):
    b.media("dark", "print")
    ground = b.run("getComputedStyle(document.documentElement).backgroundColor")
    assert ground == SCHEMES["light"], f"printed on {ground}"
    assert b.run("getComputedStyle(document.querySelector('.choice')).display") == "none"
    data = base64.b64decode(b.ask("Page.printToPDF")["data"])
    assert data.startswith(b"%PDF") and len(data) > 10000
    with open(f"{folder}/printed.pdf", "wb") as f:
        f.write(data)


def main():
    program, page, folder, figures = sys.argv[1:5]
    os.makedirs(folder, exist_ok=True)
    b = Browser(program, folder)
    try:
        b.open(page)
        b.size(1200, 800)
        assert not b.problems, "\n".join(b.problems)
        for scheme in SCHEMES:
            looks(b, scheme, int(figures), folder)
        works(b)
        prints(b, folder)
        assert b.run("document.images.length") == 0, "markup of a log became an element"
        assert not b.problems, "\n".join(b.problems)
        b.session = None
        b.ask("Browser.close")
        b.process.wait(10)
    finally:
        if b.process.poll() is None:
            b.process.kill()
    print(f"{page}: {len(SCHEMES)} schemes, {len(WIDTHS)} widths")


if __name__ == "__main__":
    main()
