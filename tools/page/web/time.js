// The step as a time line: predicted above what a run measured; computation above communication.
const PREDICTED = [];
let predictedEnd = 0;
function predict() {
  const add = (lane, ns, name, node) => { if (ns > 0) { PREDICTED.push([lane, predictedEnd, ns, name, node]); predictedEnd += ns; } };
  for (let i = 0; i < DATA.operators.length; ++i) {
    const [name, cls, node, part] = DATA.operators[i], of = DATA.classes[cls], moves = of.collectives || [];
    const send = c => add(1, c.cost_ns, `${name}\n${collectiveText(c)}`, node);
    moves.filter(c => c.where.startsWith("operand")).forEach(send);
    add(part === 0 ? 0 : part + 1, of.compute_ns, `${name} (${of.kind}), ${PARTS[part]}\n${time(of.compute_ns)}`, node);
    moves.filter(c => !c.where.startsWith("operand")).forEach(send);
  }
  for (const c of DATA.boundary) add(1, c.cost_ns, collectiveText(c), -1);
}

/// The fill of computation of an operator's part of the step.
const partFill = op => [0, 2, 3][DATA.operators[op][3]];

function renderTime() {
  const section = byId("time"), head = DATA.head, trace = DATA.trace;
  predict();
  const lanes = [{ title: "predicted: compute", events: PREDICTED.filter(e => e[0] !== 1) }, { title: "predicted: communication", events: PREDICTED.filter(e => e[0] === 1) }];
  let extent = predictedEnd || 1;
  if (trace)
    for (const rank of trace.ranks)
      for (const [track, title, lane] of [[1, "compute", 0], [2, "communication", 1]]) {
        const events = rank.events.filter(e => e[0] === track).map(([, name, begin, length]) => {
          const op = operatorOfStep(trace.names[name]);
          return [lane || op < 0 ? lane : partFill(op), begin * 1000, length * 1000, `${trace.names[name]}, rank ${rank.rank}\n${time(length * 1000)} measured`, op < 0 ? -1 : DATA.operators[op][2]];
        });
        for (const e of events) extent = Math.max(extent, e[1] + e[2]);
        lanes.push({ title: `rank ${rank.rank}: ${title}`, events });
      }
  const kLane = 24, kLeft = 118, kTop = 18, height = kTop + lanes.length * kLane + 2;
  const fills = ["compute", "communication", "backward", "update"];
  const indexAt = (events, at) => { let low = 0, high = events.length; while (low < high) { const mid = (low + high) >> 1; if (events[mid][1] + events[mid][2] < at) low = mid + 1; else high = mid; } return low; };
  function draw(context, width, _, left, right) {
    const x = at => kLeft + (at - left) / (right - left) * (width - kLeft);
    axis(context, width, kTop, left, right, ns => time(ns), height, kLeft);
    lanes.forEach((lane, l) => {
      const y = kTop + l * kLane;
      for (let i = indexAt(lane.events, left); i < lane.events.length && lane.events[i][1] <= right; ++i) {
        const [kind, begin, length, name] = lane.events[i], from = x(begin), to = x(begin + length);
        context.fillStyle = colour(fills[kind]);
        context.fillRect(from, y + 2, Math.max(0.6, to - from - (to - from > 3 ? 0.6 : 0)), kLane - 5);
        if (to - from > 60) label(context, name.split("\n")[0], from, to, y + kLane - 9, fills[kind]);
      }
    });
    context.fillStyle = colour("page");
    context.fillRect(0, 0, kLeft, height);
    context.fillStyle = colour("ink");
    lanes.forEach((lane, l) => context.fillText(lane.title.replace("predicted: ", "predicted ").replace("communication", "comm."), 4, kTop + l * kLane + 15));
    context.fillStyle = colour("rule");
    lanes.forEach((_, l) => context.fillRect(0, kTop + l * kLane - 0.5, width, 1));
  }
  function hit(px, py, left, right, width) {
    const lane = lanes[Math.floor((py - kTop) / kLane)], at = left + (px - kLeft) / (width - kLeft) * (right - left), reach = (right - left) / (width - kLeft) * 2;
    if (!lane || py < kTop || px < kLeft) return null;
    const i = indexAt(lane.events, at - reach), e = lane.events[i];
    return e && e[1] <= at + reach ? { text: `${e[3]}\nfrom ${time(e[1])}`, node: e[4] } : { text: lane.title, node: -1 };
  }
  const line = zoomed("Time line of a step: computation and communication; the table below has its sums", extent, height, draw, hit, kLeft);
  section.append(el("h2", { id: "time-title" }, "Time"),
    el("p", {}, `The prediction adds compute and communication: all communication is exposed, ${percent(head.communication_ns / head.predicted_ns)} of the step.` +
      (trace ? ` Below it is step ${trace.step} as ${trace.file} measured it` + (trace.num_ranks > trace.ranks.length ? `, ${trace.ranks.length} of ${trace.num_ranks} ranks.` : ".") : "")),
    el("div", { class: "legend" }, [["compute", "forward"], ["backward", "backward"], ["update", "update"], ["communication", "communication"]].map(([fill, name]) =>
      el("span", {}, el("span", { class: "swatch", style: `background:var(--${fill})` }), name))),
    line.tools, line.canvas);
  const rows = [["predicted", time(head.predicted_ns), time(head.compute_ns), time(head.communication_ns), percent(head.communication_ns / head.predicted_ns), "–"]];
  if (trace)
    for (const rank of trace.ranks) {
      const step = Math.max(...rank.events.filter(e => e[0] === 0).map(e => e[3])), rest = step - rank.compute_us - rank.communication_us;
      rows.push([`rank ${rank.rank}, measured`, time(step * 1000), time(rank.compute_us * 1000), time(rank.communication_us * 1000), percent(rank.communication_us / step), percent(Math.max(0, rest) / step)]);
    }
  section.append(table([["" ], ["step", true], ["compute", true], ["communication", true], ["of the step", true], ["neither", true]], rows));
  if (trace) section.append(el("p", { class: "faint small" }, "A measured collective includes the wait for the other ranks. \"Neither\" is reading the batch, and what lies between kernels."));
  else section.append(el("p", {}, "To see what a run measures beneath it:"), el("pre", {}, "tessera-run plan/ --data synthetic --steps 4 --trace steps=4\ntessera-dump plan/ --html page.html --trace trace.json"));
}

/// Numbers along the top, right of the margin, with lines down to `bottom`.
function axis(context, width, top, left, right, text, bottom, margin = 0) {
  const raw = (right - left) / Math.max(2, (width - margin) / 110), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= raw);
  context.font = "11px system-ui, sans-serif";
  for (let at = Math.ceil(left / step) * step; at <= right; at += step) {
    const x = margin + (at - left) / (right - left) * (width - margin);
    context.fillStyle = colour("rule");
    context.fillRect(x, top - 4, 1, bottom - top + 4);
    context.fillStyle = colour("faint");
    if (x < width - 40) context.fillText(text(at), x + 3, top - 5);
  }
}

/// A text inside [from, to] on a colour, cut to fit.
function label(context, text, from, to, y, fill) {
  const left = Math.max(0, from) + 4, room = to - left - 4;
  if (room < 30) return;
  let shown = text;
  while (shown.length > 3 && context.measureText(shown).width > room) shown = shown.slice(0, Math.max(3, Math.floor(shown.length * room / context.measureText(shown).width) - 1));
  if (context.measureText(shown).width > room) return;
  context.fillStyle = inkOn(fill);
  context.fillText(shown, left, y);
}
