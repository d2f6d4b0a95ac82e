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

/// Intervals [begin, length] as disjoint ones [begin, end], sorted.
function merged(intervals) {
  const made = [];
  for (const [begin, length] of intervals.slice().sort((a, b) => a[0] - b[0])) {
    const last = made[made.length - 1];
    if (last && begin <= last[1]) last[1] = Math.max(last[1], begin + length);
    else made.push([begin, begin + length]);
  }
  return made;
}

/// Where a step computes nothing: [begin, end, 1 if it communicates meanwhile, which is exposed; 0 if it does neither, a
/// bubble].
function gapsOf(compute, communication, begin, end) {
  const gaps = [], busy = merged(compute), sends = merged(communication);
  let at = begin, s = 0;
  for (const [from, to] of [...busy, [end, end]]) {
    for (const stop = Math.min(from, end); at < stop;) {
      while (s < sends.length && sends[s][1] <= at) ++s;
      const next = sends[s] && sends[s][0] < stop ? sends[s] : null;
      const sending = next && next[0] <= at, until = Math.min(stop, next ? (sending ? next[1] : next[0]) : stop);
      gaps.push([at, until, sending ? 1 : 0]);
      at = until;
    }
    at = Math.max(at, to);
  }
  return gaps;
}

/// What of a step is exposed communication, and what are bubbles.
const sharesOf = (gaps, step) => [1, 0].map(kind => step > 0 ? sum(gaps.filter(g => g[2] === kind).map(g => g[1] - g[0])) / step : 0);

function renderTime() {
  const section = byId("time"), head = DATA.head, trace = DATA.trace;
  predict();
  const lanes = [{ title: "predicted: compute", events: PREDICTED.filter(e => e[0] !== 1) }, { title: "predicted: communication", events: PREDICTED.filter(e => e[0] === 1) }];
  const times = list => list.map(e => [e[1], e[2]]);
  const gapsPredicted = lanes[0].gaps = gapsOf(times(lanes[0].events), times(lanes[1].events), 0, predictedEnd);
  let extent = predictedEnd || 1;
  const measured = new Map(); // by rank: the step's length and its gaps, ns
  if (trace)
    for (const rank of trace.ranks)
      for (const [track, title, lane] of [[1, "compute", 0], [2, "communication", 1]]) {
        const events = rank.events.filter(e => e[0] === track).map(([, name, begin, length]) => {
          const op = operatorOfStep(trace.names[name]);
          return [lane || op < 0 ? lane : partFill(op), begin * 1000, length * 1000, `${trace.names[name]}, rank ${rank.rank}\n${time(length * 1000)} measured`, op < 0 ? -1 : DATA.operators[op][2]];
        });
        for (const e of events) extent = Math.max(extent, e[1] + e[2]);
        lanes.push({ title: `rank ${rank.rank}: ${title}`, events });
        if (track !== 2) continue;
        const [, , from, length] = rank.events.filter(e => e[0] === 0).reduce((a, b) => b[3] > a[3] ? b : a, [0, 0, 0, 0]);
        const computing = lanes[lanes.length - 2];
        computing.step = length * 1000;
        computing.gaps = gapsOf(times(computing.events), times(events), from * 1000, (from + length) * 1000);
        measured.set(rank.rank, { step: length * 1000, gaps: computing.gaps });
      }
  const kLane = 24, kLeft = 118, kTop = 18, height = kTop + lanes.length * kLane + 2;
  const fills = ["compute", "communication", "backward", "update"];
  const indexAt = (events, at) => { let low = 0, high = events.length; while (low < high) { const mid = (low + high) >> 1; if (events[mid][1] + events[mid][2] < at) low = mid + 1; else high = mid; } return low; };
  function draw(context, width, _, left, right) {
    const x = at => kLeft + (at - left) / (right - left) * (width - kLeft);
    axis(context, width, kTop, left, right, ns => time(ns), height, kLeft);
    lanes.forEach((lane, l) => {
      const y = kTop + l * kLane;
      for (const [begin, end, exposed] of lane.gaps || []) {
        if (end < left || begin > right) continue;
        const from = Math.max(kLeft, x(begin)), to = Math.min(width, x(end));
        context.globalAlpha = exposed ? 0.3 : 0.55;
        context.fillStyle = colour(exposed ? "communication" : "rest");
        context.fillRect(from, y + 2, to - from, kLane - 5);
        context.globalAlpha = 1;
        context.fillStyle = colour("ink");
        if (to - from > 44) context.fillText(percent((end - begin) / (lane.step || predictedEnd)), from + 4, y + kLane - 9);
      }
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
    if (e && e[1] <= at + reach) return { text: `${e[3]}\nfrom ${time(e[1])}`, node: e[4] };
    const gap = (lane.gaps || []).find(([begin, end]) => begin <= at && at < end);
    return { text: lane.title + (gap ? `\n${gap[2] ? "exposed communication" : "a bubble"}: ${time(gap[1] - gap[0])}, ${percent((gap[1] - gap[0]) / (lane.step || predictedEnd))} of the step` : ""), node: -1 };
  }
  const line = zoomed("Time line of a step: computation and communication; the table below has its sums", extent, height, draw, hit, kLeft);
  section.append(el("h2", { id: "time-title" }, "Time"),
    el("p", {}, (head.pipeline ? `The stages work beside each other: the predicted step takes ${time(head.predicted_ns)}, and tessera-dump --schedule shows when each does what. This time line has the work of all of them, one operator after the other.`
      : head.beside ? `Collectives run beside kernels: the predicted step takes ${time(head.predicted_ns)}, and ${time(head.beside.exposed_ns)} of it are exposed communication. This time line has all of its work, one operator after the other; a trace (tessera-run --trace) shows when each is expected.`
      : `All ranks run the same program: one time line is predicted for ${DATA.num_ranks === 1 ? "the rank" : `the ${DATA.num_ranks} of them`}. It adds compute and communication, so that all communication is exposed, ${percent(head.communication_ns / head.predicted_ns)} of the step.`) +
      (trace ? ` Below it is step ${trace.step} as ${trace.file} measured it` + (trace.num_ranks > trace.ranks.length ? `, ${trace.ranks.length} of ${trace.num_ranks} ranks.` : ".") : "")),
    el("div", { class: "legend" }, [["compute", "forward"], ["backward", "backward"], ["update", "update"], ["communication", "communication"]].map(([fill, name]) =>
      el("span", {}, el("span", { class: "swatch", style: `background:var(--${fill})` }), name)),
      [["communication", 30, "exposed: nothing is computed meanwhile"], ["rest", 55, "a bubble: neither"]].map(([fill, part, name]) =>
        el("span", {}, el("span", { class: "swatch", style: `background:color-mix(in srgb,var(--${fill}) ${part}%,var(--page))` }), name))),
    line.tools, line.canvas);
  const row = (name, step, compute, communication, gaps) => [name, time(step), time(compute), time(communication), ...sharesOf(gaps, step).map(percent)];
  const rows = [row(head.pipeline ? "work of all stages" : head.beside ? "predicted work" : "predicted", workOf(head), head.compute_ns, head.communication_ns, gapsPredicted)];
  for (const rank of trace ? trace.ranks : []) {
    const { step, gaps } = measured.get(rank.rank);
    rows.push(row(`rank ${rank.rank}, measured`, step, rank.compute_us * 1000, rank.communication_us * 1000, gaps));
  }
  section.append(table([[""], ["step", true], ["compute", true], ["communication", true], ["exposed, of the step", true], ["bubbles", true]], rows));
  if (trace) section.append(el("p", { class: "faint small" }, "A measured collective includes the wait for the other ranks. Communication is exposed while nothing is computed. A bubble is neither: reading the batch, and what lies between kernels."));
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
