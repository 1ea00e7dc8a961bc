
"use strict";
(() => {
  /* What the page draws, from the JSON beside it: text goes in as text, never as HTML. */
  const data = JSON.parse(document.getElementById("data").textContent);
  const runs = data.runs;
  const NS = "http://www.w3.org/2000/svg";
  const state = { x: "step", log: {}, hidden: new Set(), at: null };
  const charts = [];

  const make = (name, attributes, parent, text) => {
    const e = document.createElement(name);
    for (const key in attributes) e.setAttribute(key, attributes[key]);
    if (text !== undefined) e.textContent = text;
    if (parent) parent.appendChild(e);
    return e;
  };
  const draw = (name, attributes, parent, text) => {
    const e = document.createElementNS(NS, name);
    for (const key in attributes) e.setAttribute(key, attributes[key]);
    if (text !== undefined) e.textContent = text;
    if (parent) parent.appendChild(e);
    return e;
  };
  const style = (run) => `s${run % 8}${run >= 8 ? " d" + Math.floor(run / 8) : ""}`;
  const swatch = (run, parent) => {
    const s = draw("svg", { class: "swatch", viewBox: "0 0 24 10", "aria-hidden": "true" }, parent);
    draw("path", { class: `curve ${style(run)}`, d: "M1 6H23" }, s);
  };

  /* ---- numbers ---- */

  const tidy = (x, digits) => String(Number(x.toPrecision(digits)));
  const scaled = (x, digits) => {
    const a = Math.abs(x);
    if (a >= 1e15 || (a > 0 && a < 1e-3)) return x.toExponential(Math.max(digits - 2, 1)).replace("e+", "e");
    for (const [size, sign] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]])
      if (a >= size) return tidy(sign === "k" ? x / 1e3 : x / size, digits) + " " + sign;
    return tidy(x, digits);
  };
  const bytes = (x, digits) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let u = 0;
    for (; Math.abs(x) >= 1024 && u < 5; u++) x /= 1024;
    return tidy(x, digits) + " " + units[u];
  };
  const hours = (seconds, digits) =>
    seconds < 120 ? tidy(seconds, digits) + " s" : seconds < 7200 ? tidy(seconds / 60, digits) + " min"
      : tidy(seconds / 3600, digits) + " h";
  const shown = (key, x, digits) =>
    key === "memory_bytes" ? bytes(x, digits) : key === "mfu" ? tidy(100 * x, digits) + " %" : scaled(x, digits);
  const xShown = (x, digits) => state.x === "seconds" ? hours(x, digits) : scaled(x, digits);

  /* ---- axes ---- */

  const xNames = { step: "step", tokens: "tokens", seconds: "training time" };
  const between = (from, to, x) => {
    let low = 0, high = from.length - 1;
    if (x <= from[0]) return to[0];
    if (x >= from[high]) return to[high];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (from[middle] <= x) low = middle; else high = middle;
    }
    return to[low] + (to[high] - to[low]) * (x - from[low]) / (from[high] - from[low]);
  };
  const xOf = (run, step) => state.x === "step" ? step : between(run.x.step, run.x[state.x], step);

  const niceStep = (range, count) => {
    const rough = range / count, power = 10 ** Math.floor(Math.log10(rough));
    for (const m of [1, 2, 5, 10]) if (m * power >= rough * 0.999) return m * power;
    return 10 * power;
  };
  const linearTicks = (low, high, count, unit) => {
    const step = niceStep((high - low) / unit, count) * unit, out = [];
    if (!(step > 0) || !Number.isFinite(step)) return [low];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9 && out.length < 20; i++) out.push(i * step);
    return out;
  };
  const logTicks = (low, high) => {
    const out = [], from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
    const every = Math.max(1, Math.ceil((to - from) / 6));
    for (let e = from; e <= to; e += every)
      for (const m of to - from <= 2 ? [1, 2, 5] : [1]) {
        const x = m * 10 ** e;
        if (x >= low * 0.999 && x <= high * 1.001) out.push(x);
      }
    return out.length > 1 ? out : linearTicks(low, high, 4, 1).filter((x) => x > 0);
  };
  const byteUnit = (high) => {
    let unit = 1;
    while (high / unit >= 1024) unit *= 1024;
    return unit;
  };

  /* ---- a chart ---- */

  const visible = (chart) => chart.curves.filter((c) => !state.hidden.has(c.run));

  const yRange = (chart, log) => {
    let low = Infinity, high = -Infinity;
    const see = (y) => {
      if (y === null || (log && y <= 0)) return;
      low = Math.min(low, y);
      high = Math.max(high, y);
    };
    for (const c of visible(chart)) {
      c.v.forEach(see);
      if (chart.key === "memory_bytes" && runs[c.run].plan) see(runs[c.run].plan);
    }
    if (!(low <= high)) [low, high] = [log ? 1 : 0, log ? 10 : 1];
    if (log) return low < high ? [low / (high / low) ** 0.04, high * (high / low) ** 0.04] : [low / 2, high * 2];
    if (chart.fromZero && low >= 0) return [0, high > 0 ? high * 1.06 : 1];
    const pad = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
    return Number.isFinite(high - low) ? [low - pad, high + pad] : [low, high];
  };
  const xRange = () => {
    let low = Infinity, high = -Infinity;
    runs.forEach((run, i) => {
      if (state.hidden.has(i) && state.hidden.size < runs.length) return;
      low = Math.min(low, xOf(run, run.x.step[0]));
      high = Math.max(high, xOf(run, run.x.step[run.x.step.length - 1]));
    });
    if (low > 0 && low < 0.04 * high) low = 0;
    return low < high ? [low, high] : [low - 0.5, low + 0.5];
  };

  /* Curves that are equal cover each other: of m of them each is seen in every m'th dash. */
  const shareDashes = (chart) => {
    const groups = new Map();
    for (const c of visible(chart)) {
      const text = JSON.stringify([!!c.raw, c.s, c.v]);
      groups.set(text, [...(groups.get(text) || []), c]);
      c.dash = null;
    }
    for (const equal of groups.values())
      if (equal.length > 1) equal.forEach((c, i) => { c.dash = i ? [8, 8 * (equal.length - 1), -8 * i] : null; });
  };

  const pathOf = (chart, curve, px, py, log) => {
    let d = "", open = false, alone = false;
    for (let i = 0; i < curve.s.length; i++) {
      const y = curve.v[i];
      if (y === null || (log && y <= 0)) { d += alone ? "h0" : ""; open = alone = false; continue; }
      d += (open ? "L" : "M") + px(xOf(runs[curve.run], curve.s[i])).toFixed(1) + " " + py(y).toFixed(1);
      alone = !open;
      open = true;
    }
    return d + (alone ? "h0" : "");
  };

  const axes = (chart, svg, box, px, py, xs, ys, log) => {
    const unit = chart.key === "memory_bytes" ? byteUnit(ys[1]) : chart.key === "mfu" ? 0.01 : 1;
    for (const y of log ? logTicks(ys[0], ys[1]) : linearTicks(ys[0], ys[1], box.height > 240 ? 6 : 4, unit)) {
      draw("path", { class: "grid-line", d: `M${box.left} ${py(y).toFixed(1)}H${box.right}` }, svg);
      draw("text", { x: box.left - 7, y: py(y) + 3.5, "text-anchor": "end" }, svg, shown(chart.key, y, 4));
    }
    const xUnit = state.x !== "seconds" ? 1 : xs[1] < 120 ? 1 : xs[1] < 7200 ? 60 : 3600;
    draw("path", { class: "axis", d: `M${box.left} ${box.bottom}H${box.right}` }, svg);
    for (const x of linearTicks(xs[0], xs[1], Math.max(2, Math.floor((box.right - box.left) / 90)), xUnit)) {
      if (state.x === "step" && x !== Math.round(x)) continue;
      draw("path", { class: "axis", d: `M${px(x).toFixed(1)} ${box.bottom}v4` }, svg);
      draw("text", { x: px(x), y: box.bottom + 17, "text-anchor": "middle" }, svg, xShown(x, 4));
    }
  };

  const planLines = (chart, svg, box, py) => {
    const told = new Set();
    for (const c of visible(chart)) {
      const plan = runs[c.run].plan;
      if (!plan || told.has(plan)) continue;
      told.add(plan);
      draw("path", { class: `curve plan s${c.run % 8}`, d: `M${box.left} ${py(plan).toFixed(1)}H${box.right}` }, svg);
      draw("text", { x: box.right, y: py(plan) - 5, "text-anchor": "end" }, svg, "planned " + bytes(plan, 4));
    }
  };

  /* A mark below the curves for each step whose loss is not finite. */
  const notFinite = (curve, svg, box, px) => {
    curve.s.forEach((s, i) => curve.v[i] === null && draw("path",
      { class: `curve s${curve.run % 8}`, d: `M${px(xOf(runs[curve.run], s)).toFixed(1)} ${box.bottom - 1}v-6` }, svg));
  };

  const spoken = (chart) => visible(chart).filter((c) => c.main).map((c) => {
    const v = c.v.filter((y) => y !== null);
    return v.length ? `${runs[c.run].label}: from ${shown(chart.key, v[0], 5)} to ${shown(chart.key, v[v.length - 1], 5)}` : "";
  }).join("; ");

  const render = (chart) => {
    const width = Math.max(260, Math.round(chart.figure.clientWidth || 600));
    const height = chart.wide ? 310 : 215;
    const box = { left: 62, right: width - 14, top: 10, bottom: height - 26, height };
    const log = !!state.log[chart.key], xs = xRange(), ys = yRange(chart, log);
    const px = (x) => box.left + (x - xs[0]) / (xs[1] - xs[0]) * (box.right - box.left);
    const part = log ? (y) => Math.log(y / ys[0]) / Math.log(ys[1] / ys[0])
      : (y) => Number.isFinite(ys[1] - ys[0]) ? (y - ys[0]) / (ys[1] - ys[0]) : 0.5 + y / 2 / Math.max(-ys[0], ys[1]);
    const py = (y) => box.bottom - part(y) * (box.bottom - box.top);
    const svg = chart.svg;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("aria-label", `${chart.title} over ${xNames[state.x]}. ${spoken(chart)}`);
    svg.replaceChildren();
    axes(chart, svg, box, px, py, xs, ys, log);
    if (chart.key === "memory_bytes") planLines(chart, svg, box, py);
    shareDashes(chart);
    for (const c of visible(chart)) {
      const path = draw("path", { class: `curve ${style(c.run)}${c.raw ? " raw" : ""}`, d: pathOf(chart, c, px, py, log) }, svg);
      if (c.dash) path.style.cssText = `stroke-dasharray: ${c.dash[0]} ${c.dash[1]}; stroke-dashoffset: ${c.dash[2]}; stroke-linecap: butt`;
      if (chart.key === "loss") notFinite(c, svg, box, px);
      if (chart.dots && c.s.length <= 80)
        c.s.forEach((s, i) => c.v[i] === null || (log && c.v[i] <= 0) || draw("circle",
          { class: `dot f${c.run % 8}`, cx: px(xOf(runs[c.run], s)).toFixed(1), cy: py(c.v[i]).toFixed(1), r: 3 }, svg));
    }
    chart.cross = draw("g", {}, svg);
    Object.assign(chart, { box, px, py, xs, isLog: log, width });
  };

  /* ---- reading values ---- */

  /* The drawn point nearest to x: the step and its value. */
  const nearest = (curve, x) => {
    const run = runs[curve.run], last = curve.s.length - 1;
    let low = 0, high = last;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (xOf(run, curve.s[middle]) < x) low = middle + 1; else high = middle;
    }
    if (low > 0 && x - xOf(run, curve.s[low - 1]) < xOf(run, curve.s[low]) - x) low--;
    return last < 0 ? null : { step: curve.s[low], value: curve.v[low], x: xOf(run, curve.s[low]) };
  };

  const tell = (chart, found) => {
    const read = chart.read;
    read.replaceChildren();
    const steps = new Set(found.map((f) => f.step));
    const at = state.x === "step" ? (steps.size === 1 ? "step " + [...steps][0].toLocaleString("en").replaceAll(",", "\u2009")
      : "near step " + Math.round(state.at)) : xShown(state.at, 4) + (state.x === "tokens" ? " tokens" : "");
    make("p", { class: "at" }, read, at);
    for (const f of found.filter((f) => f.main)) {
      const raw = found.find((o) => o.run === f.run && !o.main), p = make("p", {}, read);
      swatch(f.run, p);
      make("span", { class: "name" }, p, f.name + (steps.size > 1 && state.x === "step" ? ` (${f.step})` : ""));
      if (raw) make("span", { class: "smooth" }, p, shown(chart.key, f.value, 5));
      const value = raw ? raw.value : f.value;
      make("b", {}, p, value === null ? "not finite" : shown(chart.key, value, 6));
    }
    read.hidden = false;
    const x = chart.px(state.at) * chart.svg.clientWidth / chart.width;
    read.style.top = "2.4rem";
    read.style.left = x < chart.svg.clientWidth / 2 ? x + 12 + "px" : Math.max(0, x - 12 - read.offsetWidth) + "px";
  };

  const cross = (active) => {
    for (const chart of charts) {
      chart.cross.replaceChildren();
      chart.read.hidden = true;
      if (state.at === null || state.at < chart.xs[0] || state.at > chart.xs[1]) continue;
      const { box, px, py } = chart, found = [];
      draw("path", { class: "cross", d: `M${px(state.at).toFixed(1)} ${box.top}V${box.bottom}` }, chart.cross);
      for (const c of visible(chart)) {
        const f = nearest(c, state.at);
        if (!f) continue;
        found.push({ ...f, run: c.run, main: !!c.main, name: runs.length > 1 ? runs[c.run].label : chart.title });
        if (f.value !== null && !(chart.isLog && f.value <= 0))
          draw("circle", { class: `dot f${c.run % 8}`, cx: px(f.x).toFixed(1), cy: py(f.value).toFixed(1), r: 3.5 }, chart.cross);
      }
      if (chart === active && found.length) tell(chart, found);
    }
  };

  const listen = (chart) => {
    const svg = chart.svg;
    const move = (x) => {
      state.at = Math.min(chart.xs[1], Math.max(chart.xs[0], x));
      cross(chart);
    };
    svg.addEventListener("pointermove", (e) => {
      const at = (e.clientX - svg.getBoundingClientRect().left) * chart.width / svg.clientWidth;
      move(chart.xs[0] + (at - chart.box.left) / (chart.box.right - chart.box.left) * (chart.xs[1] - chart.xs[0]));
    });
    const leave = () => { state.at = null; cross(null); };
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (e) => {
      const range = chart.xs[1] - chart.xs[0], by = { ArrowLeft: -0.01, ArrowRight: 0.01, Home: -1, End: 1 }[e.key];
      if (by === undefined) return;
      e.preventDefault();
      move((state.at === null ? chart.xs[0] : state.at) + by * range);
    });
  };

  /* ---- the page ---- */

  const renderAll = () => { charts.forEach(render); cross(null); };

  const toggle = (parent, name, pressed, flip, attributes) => {
    const b = make("button", { type: "button", "aria-pressed": pressed, ...attributes }, parent, name);
    b.addEventListener("click", () => flip(b));
    return b;
  };

  const bar = (parent) => {
    const all = make("div", { class: "bar" }, parent);
    if (runs.length > 1) {
      const legend = make("div", { class: "legend", role: "group", "aria-label": "Runs" }, all);
      runs.forEach((run, i) => {
        const b = toggle(legend, undefined, true, (b) => {
          if (!state.hidden.delete(i)) state.hidden.add(i);
          b.setAttribute("aria-pressed", !state.hidden.has(i));
          renderAll();
        });
        swatch(i, b);
        b.appendChild(document.createTextNode(run.label));
      });
    }
    const choice = make("div", { class: "choice", role: "group", "aria-label": "Horizontal axis" }, all);
    make("span", {}, choice, "over");
    for (const key of Object.keys(xNames)) {
      if (!runs.every((run) => run.x[key])) continue;
      toggle(choice, xNames[key], key === state.x, (b) => {
        state.x = key;
        for (const other of choice.querySelectorAll("button")) other.setAttribute("aria-pressed", other === b);
        renderAll();
      });
    }
  };

  const addChart = (grid, of) => {
    const chart = { ...of, curves: [] };
    runs.forEach((run, i) => {
      const own = run.series[of.key];
      if (!own) return;
      chart.curves.push({ s: own.s, v: own.v, run: i, raw: !!own.smooth, main: !own.smooth });
      if (own.smooth) chart.curves.push({ ...own.smooth, run: i, main: true, over: run.over });
    });
    if (!chart.curves.length) return;
    chart.curves.sort((a, b) => (b.raw ? 1 : 0) - (a.raw ? 1 : 0));
    chart.wide = of.key === "loss";
    chart.dots = of.key === "eval_loss";
    chart.fromZero = !["loss", "eval_loss", "grad_norm"].includes(of.key);
    chart.figure = make("figure", chart.wide ? { class: "wide" } : {}, grid);
    const caption = make("figcaption", {}, chart.figure);
    make("h2", {}, caption, of.title);
    const over = chart.curves.filter((c) => c.over).map((c) => c.over);
    make("span", { class: "unit" }, caption, of.unit + (over.length ? `${of.unit ? "; " : ""}thin: each step, bold: mean of ${
      [...new Set(over)].join(", ")} steps` : ""));
    const values = chart.curves.flatMap((c) => c.v).filter((y) => y !== null && y > 0).sort((a, b) => a - b);
    state.log[of.key] = values.length > 0 && (of.key === "loss_scale" ||
      (of.key === "grad_norm" && values[values.length - 1] > 30 * values[values.length >> 1]));
    toggle(caption, "log", state.log[of.key], (b) => {
      state.log[of.key] = !state.log[of.key];
      b.setAttribute("aria-pressed", state.log[of.key]);
      render(chart);
      cross(null);
    }, { class: "log", "aria-label": `logarithmic axis of ${of.title}` });
    chart.svg = draw("svg", { class: "chart", role: "img", tabindex: "0" }, chart.figure);
    chart.read = make("div", { class: "read", hidden: "" }, chart.figure);
    charts.push(chart);
    listen(chart);
  };

  const section = document.getElementById("charts");
  bar(section);
  const grid = make("div", { class: "grid" }, section);
  data.charts.forEach((of) => addChart(grid, of));
  renderAll();
  document.querySelectorAll("[data-run]").forEach((e) => {
    const cell = document.createDocumentFragment();
    swatch(Number(e.dataset.run), cell);
    e.prepend(cell);
  });
  let width = section.clientWidth;
  new ResizeObserver(() => {
    if (section.clientWidth === width) return;
    width = section.clientWidth;
    renderAll();
  }).observe(section);
})();
