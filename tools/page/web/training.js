// The log of a run: loss and accuracy, learning rate, throughput, skew.
function renderTraining() {
  const section = byId("training"), log = DATA.log;
  section.append(el("h2", { id: "training-title" }, "Training"));
  if (!log) {
    section.append(el("p", {}, "With the log of a run, its loss, accuracy, learning rate, throughput and the skew of its ranks stand here:"),
      el("pre", {}, "tessera-run plan/ --data synthetic --steps 100 --log run.jsonl\ntessera-dump plan/ --html page.html --log run.jsonl"));
    return;
  }
  const titles = { loss: "Loss", accuracy: "Accuracy", learning_rate: "Learning rate", samples_per_second: "Samples per second", seconds: "Seconds per step", skew: "Skew of the ranks", memory_bytes: "Memory, bytes", gradient_norm: "Norm of the gradients", loss_scale: "Loss scale" };
  const charts = [];
  for (const [name, title] of Object.entries(titles)) {
    const lines = [["train", "compute"], ["eval", "communication"]].filter(([part]) => log[part][name] && log[part].step)
      .map(([part, fill]) => ({ part, fill, points: log[part].step.map((step, i) => [step, log[part][name][i]]).filter(p => p[0] !== null && p[1] !== null) })).filter(line => line.points.length);
    if (lines.length) charts.push(chart(title, lines));
  }
  const steps = (log.train.step || []).length;
  section.append(el("p", {}, `${log.file}: ${plural(steps, "logged step")}.`), el("div", { class: "charts" }, charts));
}

function chart(title, lines) {
  const width = 400, height = 170, left = 58, bottom = 20, top = 8, all = lines.flatMap(l => l.points);
  let [x0, x1] = [Math.min(...all.map(p => p[0])), Math.max(...all.map(p => p[0]))], [y0, y1] = [Math.min(...all.map(p => p[1])), Math.max(...all.map(p => p[1]))];
  if (x1 === x0) { x0 -= 1; x1 += 1; }
  if (y1 === y0) { y0 -= Math.abs(y0) / 10 || 1; y1 += Math.abs(y1) / 10 || 1; }
  const x = v => left + (v - x0) / (x1 - x0) * (width - left - 8), y = v => height - bottom - (v - y0) / (y1 - y0) * (height - bottom - top);
  const marks = [0, 0.5, 1].flatMap(f => {
    const value = y0 + f * (y1 - y0);
    return [svg("path", { d: `M${left} ${y(value)}H${width - 8}`, style: "stroke:var(--rule)" }), svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end", class: "faint" }, String(Number(value.toPrecision(3))))];
  });
  const drawn = lines.flatMap(line => line.points.length === 1 ? [svg("circle", { cx: x(line.points[0][0]), cy: y(line.points[0][1]), r: 3, style: `fill:var(--${line.fill})` })]
    : [svg("polyline", { points: line.points.map(p => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(" "), style: `fill:none;stroke:var(--${line.fill});stroke-width:1.6` })]);
  const last = lines.map(l => `${lines.length > 1 ? l.part + " " : ""}${Number(l.points[l.points.length - 1][1].toPrecision(4))}`).join(", ");
  return el("figure", { style: "margin:0" }, el("figcaption", {}, el("b", {}, title), el("span", { class: "faint" }, ` last: ${last}`)),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": `${title} over steps; last: ${last}` }, marks, drawn,
      svg("text", { x: left, y: height - 5, class: "faint" }, "step " + x0), svg("text", { x: width - 8, y: height - 5, "text-anchor": "end", class: "faint" }, String(x1))));
}
