(() => {
  const section = document.getElementById("charts"), total = data.us || 1;
  const across = (box) => (us) => box.left + us / total * (box.right - box.left);
  const timeAxis = (box) =>
    xAxis(box, ticks(total, Math.max(2, Math.floor((box.right - box.left) / 110)), total >= 1e6 ? 1e6 : total >= 1e3 ? 1e3 : 1),
      across(box), time);
  const last = (us) => { /* the last moment not after it */
    let low = 0, high = data.at.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (data.at[middle] <= us) low = middle; else high = middle - 1;
    }
    return low;
  };
  const usAt = (box, x) => Math.min(total, Math.max(0, (x - box.left) / (box.right - box.left) * total));

  /* Classes as stacked areas, in steps: bytes begin and end at once. */
  const memory = (box) => {
    const top = Math.max(data.arena, data.room), limit = top * 1.04 || 1, px = across(box);
    const py = (y) => box.bottom - y / limit * (box.bottom - box.top);
    let unit = 1;
    while (limit / unit >= 1024) unit *= 1024;
    yAxis(box, ticks(limit, 5, unit), py, bytes);
    const under = data.at.map(() => 0);
    data.classes.forEach((name, k) => {
      const live = data.live[k], most = Math.max(...live);
      if (!most) return;
      let there = "", back = "";
      live.forEach((y, i) => {
        const from = px(data.at[i]).toFixed(1), to = px(i + 1 < data.at.length ? data.at[i + 1] : total).toFixed(1);
        there += `L${from} ${py(under[i] + y).toFixed(1)}H${to}`;
        back = `L${to} ${py(under[i]).toFixed(1)}H${from}` + back;
        under[i] += y;
      });
      draw("path", { class: `f${k}`, d: "M" + there.slice(1) + back + "Z" }, box.svg);
      key(box, k, name, "at most " + bytes(most, 3));
    });
    for (const [y, name] of [[data.arena, "arena "], [data.room, "budget without libraries "]]) {
      if (!y) continue;
      draw("path", { class: "limit", d: `M${box.left} ${py(y).toFixed(1)}H${box.right}` }, box.svg);
      draw("text", { x: box.right - 4, y: py(y) + 13, "text-anchor": "end" }, box.svg, name + bytes(y, 4));
    }
    timeAxis(box);
    pointed(box, (x) => {
      const us = usAt(box, x), i = last(us);
      tell(box, x, [["at " + time(us, 3)], ["all", bytes(under[i], 4)],
        ...data.classes.map((name, k) => [name, bytes(data.live[k][i], 3)]).filter((_, k) => data.live[k][i])]);
    });
  };

  const streams = (box) => {
    const px = across(box), high = (box.bottom - box.top) / data.streams.length, used = new Set();
    data.streams.forEach((name, s) => {
      draw("rect", { class: "lane", x: box.left, y: box.top + s * high + 3, width: box.right - box.left, height: high - 6 }, box.svg);
      draw("text", { x: box.left - 7, y: box.top + (s + 0.5) * high + 4, "text-anchor": "end" }, box.svg, name);
    });
    data.calls.forEach(([s, kind, from, long]) => {
      used.add(kind);
      draw("rect", { class: `${px(from + long) - px(from) > 4 ? "call " : ""}f${kind}`, x: px(from).toFixed(2), y: box.top + s * high + 5,
        width: Math.max(0.6, px(from + long) - px(from)).toFixed(2), height: high - 10 }, box.svg);
    });
    [...used].sort().forEach((k) => key(box, k, data.kinds[k],
      time(data.calls.filter((c) => c[1] === k).reduce((sum, c) => sum + c[3], 0), 3)));
    timeAxis(box);
    pointed(box, (x) => {
      const us = usAt(box, x), now = data.calls.filter((c) => c[2] <= us && us < c[2] + c[3]);
      tell(box, x, [["at " + time(us, 3)], ...now.map((c) => [c[4], time(c[3], 3)])]);
    });
  };

  figure(section, "Memory of a rank", "arena, by what it is for, in the last micro-step and the step's end", 320, memory);
  figure(section, "Streams", "when each call runs, as predicted", 190, streams);
})();
