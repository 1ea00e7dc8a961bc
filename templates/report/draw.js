
"use strict";
/* What the pages of plan and tune share. Text goes in as text, never as HTML. */
const data = JSON.parse(document.getElementById("data").textContent);
const make = (name, attributes, parent, text) => {
  const e = document.createElement(name);
  for (const key in attributes) e.setAttribute(key, attributes[key]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
};
const draw = (name, attributes, parent, text) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) e.setAttribute(key, attributes[key]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.appendChild(e);
  return e;
};
const tidy = (x, digits) => String(Number(x.toPrecision(digits)));
const bytes = (x, digits) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let u = 0;
  for (; Math.abs(x) >= 1024 && u < 5; u++) x /= 1024;
  return tidy(x, digits) + " " + units[u];
};
const time = (us, digits) =>
  us >= 7.2e9 ? tidy(us / 3.6e9, digits) + " h" : us >= 1.2e8 ? tidy(us / 6e7, digits) + " min" :
  us >= 1e6 ? tidy(us / 1e6, digits) + " s" : us >= 1e3 ? tidy(us / 1e3, digits) + " ms" :
  us > 0 ? tidy(us, digits) + " us" : "0";
const ticks = (high, count, unit) => {
  const rough = high / unit / count, power = 10 ** Math.floor(Math.log10(rough)), out = [];
  const step = [1, 2, 5, 10].find((m) => m * power >= rough * 0.999) * power * unit;
  for (let i = 0; i * step <= high * 1.0001 && step > 0; i++) out.push(i * step);
  return out;
};
/* A figure with a caption and an empty chart, which fills the width; redrawn when that changes. */
const figure = (parent, title, unit, height, render) => {
  const f = make("figure", { class: "drawn" }, parent), caption = make("figcaption", {}, f);
  make("h2", {}, caption, title);
  make("span", { class: "unit" }, caption, unit);
  const keys = make("ul", { class: "keys" }, f);
  const svg = draw("svg", { class: "chart", role: "img", tabindex: "0", "aria-label": title }, f);
  const read = make("div", { class: "read", hidden: "" }, f);
  const again = () => {
    const width = Math.max(260, Math.round(f.clientWidth || 600));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    keys.replaceChildren();
    read.hidden = true;
    render({ svg, keys, read, width, height, left: 74, right: width - 14, top: 10, bottom: height - 26 });
  };
  again();
  let before = f.clientWidth;
  new ResizeObserver(() => { if (f.clientWidth !== before) { before = f.clientWidth; again(); } }).observe(f);
};
const key = (box, color, name, value) => {
  const item = make("li", {}, box.keys), s = draw("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, item);
  draw("rect", { class: `f${color}`, width: 10, height: 10, rx: 2 }, s);
  item.appendChild(document.createTextNode(name));
  if (value) make("b", {}, item, value);
};
/* Lines of text beside the pointer; none hides them. */
const tell = (box, x, lines) => {
  box.read.replaceChildren();
  box.read.hidden = !lines;
  if (!lines) return;
  lines.forEach(([name, value], i) => {
    const p = make("p", value === undefined && !i ? { class: "at" } : {}, box.read);
    make("span", { class: "name" }, p, name);
    if (value !== undefined) make("b", {}, p, value);
  });
  const scale = box.svg.clientWidth / box.width;
  box.read.style.top = "4rem";
  box.read.style.left = (x * scale < box.svg.clientWidth / 2 ? x * scale + 12
    : Math.max(0, x * scale - 12 - box.read.offsetWidth)) + "px";
};
const pointed = (box, move) => {
  box.svg.onpointermove = (e) => move((e.clientX - box.svg.getBoundingClientRect().left) * box.width / box.svg.clientWidth);
  box.svg.onpointerleave = box.svg.onblur = () => tell(box, 0, null);
};
const yAxis = (box, values, py, shown) => values.forEach((y) => {
  draw("path", { class: "grid-line", d: `M${box.left} ${py(y).toFixed(1)}H${box.right}` }, box.svg);
  draw("text", { x: box.left - 7, y: py(y) + 3.5, "text-anchor": "end" }, box.svg, shown(y, 4));
});
const xAxis = (box, values, px, shown) => {
  draw("path", { class: "axis", d: `M${box.left} ${box.bottom}H${box.right}` }, box.svg);
  values.forEach((x) => {
    draw("path", { class: "axis", d: `M${px(x).toFixed(1)} ${box.bottom}v4` }, box.svg);
    const label = shown(x, 4); /* centred, but for one that would leave the picture */
    draw("text", { x: Math.min(px(x), box.width - 4 * label.length), y: box.bottom + 17, "text-anchor": "middle" }, box.svg, label);
  });
};
