(() => {
  const section = document.getElementById("charts"), all = data.candidates;
  const measured = all.filter((c) => c.measured);
  const rate = (x, digits) => x >= 1e6 ? tidy(x / 1e6, digits) + " M" : x >= 1e4 ? tidy(x / 1e3, digits) + " k" : tidy(x, digits);
  const seconds = (x, digits) => time(x * 1e6, digits);
  const spread = (values) => {
    const low = Math.min(...values), high = Math.max(...values), pad = (high - low) * 0.08 || high * 0.05 || 1;
    return [Math.max(0, low - pad), high + pad];
  };
  const between = ([low, high], count) => {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough)), out = [];
    const step = [1, 2, 5, 10].find((m) => m * power >= rough * 0.999) * power;
    for (let i = Math.ceil(low / step); i * step <= high; i++) out.push(i * step);
    return out;
  };
  const color = (c) => c.best ? 1 : c.own ? 2 : 0;

  /* Points of candidates; the pointer tells what the nearest one sets. */
  const scatter = (list, xOf, yOf, xShown, yShown, diagonal) => (box) => {
    const xs = spread(list.map(xOf)), ys = spread(list.map(yOf));
    const px = (x) => box.left + (x - xs[0]) / (xs[1] - xs[0]) * (box.right - box.left);
    const py = (y) => box.bottom - (y - ys[0]) / (ys[1] - ys[0]) * (box.bottom - box.top);
    yAxis(box, between(ys, 5), py, yShown);
    xAxis(box, between(xs, Math.max(2, Math.floor((box.right - box.left) / 110))), px, xShown);
    if (diagonal) {
      const from = Math.max(xs[0], ys[0]), to = Math.min(xs[1], ys[1]);
      if (from < to) draw("path", { class: "diagonal", d: `M${px(from)} ${py(from)}L${px(to)} ${py(to)}` }, box.svg);
    }
    const order = [...list].sort((a, b) => color(a) - color(b));
    order.forEach((c) => draw("circle",
      { class: `dot f${color(c)}`, cx: px(xOf(c)).toFixed(1), cy: py(yOf(c)).toFixed(1), r: color(c) ? 5.5 : 4 }, box.svg));
    const ring = draw("circle", { class: "limit", r: 8, visibility: "hidden" }, box.svg);
    key(box, 1, "the one to take");
    if (list.some((c) => c.own && !c.best)) key(box, 2, "as described");
    key(box, 0, "others");
    box.svg.onpointermove = (e) => {
      const r = box.svg.getBoundingClientRect(), s = box.width / box.svg.clientWidth;
      const x = (e.clientX - r.left) * s, y = (e.clientY - r.top) * s;
      const far = (c) => Math.hypot(px(xOf(c)) - x, py(yOf(c)) - y);
      const c = list.reduce((a, b) => far(b) < far(a) ? b : a);
      ring.setAttribute("visibility", "visible");
      ring.setAttribute("cx", px(xOf(c)));
      ring.setAttribute("cy", py(yOf(c)));
      tell(box, px(xOf(c)), [[c.sets], ["predicted", seconds(c.predicted, 4)],
        ...(c.measured ? [["measured", seconds(c.measured, 4)]] : []), ["a rank", bytes(c.bytes, 4)]]);
    };
    box.svg.onpointerleave = box.svg.onblur = () => { ring.setAttribute("visibility", "hidden"); tell(box, 0, null); };
  };

  if (measured.length)
    figure(section, "Measured over predicted", "seconds a step; on the dotted line both are equal", 320,
      scatter(measured, (c) => c.predicted, (c) => c.measured, seconds, seconds, true));
  figure(section, "Predicted speed over memory", "tokens a second; bytes of a rank; all that fit", 320,
    scatter(all, (c) => c.bytes, (c) => c.tokens / c.predicted, bytes, rate, false));
})();
