// The arena over the step: x is the step of the plan, y the address, a rectangle a buffer.
function renderMemory() {
  const section = byId("memory"), arena = DATA.arena, { buffers, steps, kinds } = arena, repeated = arena.sections.filter(s => s[2] !== 1);
  section.append(el("h2", { id: "memory-title" }, "Memory"));
  if (!buffers.length) { section.append(el("p", {}, "The plan's first program has no steps.")); return; }
  const high = arena.arena_bytes, count = steps.length, kTop = 18, kLeft = 0, height = 380, low = height - 4;
  const y = address => low - address / high * (low - kTop);
  function draw(context, width, _, left, right) {
    const x = at => kLeft + (at - left) / (right - left) * (width - kLeft);
    axis(context, width, kTop, left, right, at => "step " + Math.round(at + 1), height);
    for (const [name, kind, , , offset, size, first, last] of buffers) {
      if (last + 1 < left || first > right) continue;
      const from = Math.max(-2, x(first)), to = Math.min(width + 2, x(last + 1)), top = y(offset + size), tall = y(offset) - top;
      context.fillStyle = colour("kind" + kind);
      context.fillRect(from, top, Math.max(0.7, to - from), Math.max(0.3, tall));
      if (tall > 3 && to - from > 3) {
        context.strokeStyle = colour("edge");
        context.lineWidth = 0.6;
        context.strokeRect(from, top, to - from, tall);
      }
      if (tall > 12 && to - from > 60) label(context, name, from, to, top + tall / 2 + 4, "kind" + kind);
    }
    context.fillStyle = colour("faint");
    for (const [first, length] of repeated) for (const edge of [first, first + length]) context.fillRect(x(edge) - 0.5, kTop, 1, height - kTop);
    context.fillStyle = colour("mark");
    context.fillRect(x(arena.peak_step + 0.5) - 0.75, kTop - 4, 1.5, height - kTop);
    context.fillStyle = colour("ink");
    for (let i = 1; i <= 4; ++i) {
      context.fillStyle = colour("faint");
      context.fillRect(0, y(high * i / 4), 8, 1);
      context.fillStyle = colour("page");
      const text = bytes(high * i / 4), wide = context.measureText(text).width;
      context.fillRect(9, y(high * i / 4) + 1, wide + 4, 13);
      context.fillStyle = colour("ink");
      context.fillText(text, 11, y(high * i / 4) + 11);
    }
  }
  const about = b => `${b[0]} (${kinds[b[1]]}), ${b[2]} [${b[3].join(", ")}], ${bytes(b[5])} at ${bytes(b[4])}\n` +
    (b[6] === 0 && b[7] === count - 1 ? "the whole step" : `from step ${b[6] + 1}, ${steps[b[6]][0]}\nto step ${b[7] + 1}, ${steps[b[7]][0]}`);
  function hit(px, py, left, right, width) {
    const at = left + (px - kLeft) / (width - kLeft) * (right - left), step = Math.floor(at), address = (low - py) / (low - kTop) * high;
    const found = buffers.find(b => b[6] <= step && step <= b[7] && b[4] <= address && address < b[4] + b[5]);
    if (!found) return steps[step] ? { text: `step ${step + 1}, ${steps[step].join(", ")}: ${bytes(arena.live_bytes[step])} live`, node: -1 } : null;
    const op = operatorOfStep(steps[found[6]][0]);
    return { text: about(found), node: op < 0 ? -1 : DATA.operators[op][2] };
  }
  const picture = zoomed("The arena over the step, a rectangle per buffer; the tables below tell what holds the peak", count, height, draw, hit);
  const peak = sum(Object.values(arena.at_peak));
  section.append(el("p", {}, `What lies where in rank 0's arena of ${bytes(high)} while '${arena.program}' runs: x is the step, y the address. The peak of what lives at once is ${bytes(peak)}, ` +
    `${percent(peak / high)} of the arena, at step ${arena.peak_step + 1}: ${steps[arena.peak_step][0]} (${steps[arena.peak_step][1]}).` +
    repeated.map(([first, length, calls]) => ` Steps ${first + 1} to ${first + length} run ${calls} times, once per micro-batch.`).join("")),
    el("div", { class: "legend" }, kinds.map((kind, k) => el("span", {}, el("span", { class: "swatch", style: `background:var(--kind${k})` }), kind)),
      el("span", {}, el("span", { class: "swatch", style: "background:var(--mark);width:3px;border:0" }), "the peak")), picture.tools, picture.canvas,
    el("div", { class: "columns" },
      el("div", {}, el("h3", {}, "At the peak, by kind"), table([["kind"], ["bytes", true], ["of the arena", true]],
        Object.entries(arena.at_peak).map(([kind, size]) => [kind, bytes(size), percent(size / high)]))),
      el("div", {}, el("h3", {}, "At the peak, the largest"), table([["buffer"], ["kind"], ["bytes", true], ["lives in steps", true]],
        arena.largest_at_peak.slice(0, 12).map(i => buffers[i]).map(b => [b[0], kinds[b[1]], bytes(b[5]), b[6] === 0 && b[7] === count - 1 ? "all" : `${b[6] + 1} to ${b[7] + 1}`])))));
}
