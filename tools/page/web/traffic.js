// What the ranks send each other, and what other links and machines would change.
function renderTraffic() {
  const section = byId("traffic"), { kinds, planned, rank_bytes: sent, matrix } = DATA.traffic;
  section.append(el("h2", { id: "traffic-title" }, "Communication"));
  if (!kinds.length) { section.append(el("p", {}, "The ranks send each other nothing.")); return; }
  const measured = new Map((DATA.trace ? DATA.trace.kinds : []).map(k => [k.kind + " " + k.axes, k]));
  const speed = (size, ns) => ns > 0 ? count(size / ns * 1e9) + "B/s" : "–";
  const columns = [["collective"], ["over"], ["times", true], ["one rank sends", true], ["predicted", true], ["of it latency", true], ["bandwidth", true]];
  if (DATA.trace) columns.push(["measured", true], ["bandwidth", true]);
  section.append(el("p", {}, "What one rank sends in a step, as predicted, the longest first. A bandwidth is what one rank sends, over the time that takes."),
    table(columns, kinds.map(k => {
      const row = [k.kind, k.axes, k.count, bytes(k.bytes_sent), time(k.cost_ns), k.latency_ns ? percent(k.latency_ns / k.cost_ns) : "–", speed(k.bytes_sent, k.cost_ns)];
      if (DATA.trace) {
        const m = measured.get(k.kind + " " + k.axes);
        row.push(m ? time(m.us * 1000) : "–", m ? speed(m.bytes_sent, m.us * 1000) : "–");
      }
      return row;
    })));
  const moved = DATA.operators.flatMap(o => reshards(DATA.classes[o[1]].collectives)).concat(reshards(DATA.boundary)).filter(r => r.least !== undefined && r.sent > 0);
  if (moved.length) {
    const least = sum(moved.map(r => r.least)), carried = sum(moved.map(r => r.sent)), above = moved.filter(r => r.sent > r.least * (1 + 1e-9)).length;
    section.append(el("p", {}, `${plural(moved.length, "reshard")} send ${bytes(carried)} of it. Between the same shardings no algorithm could do with less than ${bytes(least)}` +
      (above ? `: ${plural(above, "reshard")} ${above === 1 ? "is" : "are"} above ${above === 1 ? "its" : "their"} bound, by ${percent((carried - least) / carried)} of the bytes.` : ": all are at their bound.")));
  }
  const plannedCount = sum(planned.map(k => k.count)), predictedCount = sum(kinds.map(k => k.count));
  if (plannedCount !== predictedCount)
    section.append(el("p", { class: "faint small" }, `Rank 0's plan has ${plannedCount} collectives: ${planned.map(k => `${k.count} ${k.kind} over ${k.axes}, ${bytes(k.bytes_sent)}`).join("; ")}.`));
  if (matrix) {
    const n = matrix.length, cell = n <= 8 ? 62 : n <= 16 ? 46 : Math.max(9, Math.floor(620 / n)), most = Math.max(1, ...matrix.flat()), left = 70, top = 24;
    const cells = matrix.flatMap((row, i) => row.map((size, j) => {
      const strength = size ? 10 + 42 * size / most : 0;
      const g = svg("g", {}, svg("title", {}, `rank ${i} sends rank ${j} ${bytes(size)}`),
        svg("rect", { x: left + j * cell, y: top + i * Math.min(cell, 30), width: cell, height: Math.min(cell, 30), style: `fill:color-mix(in srgb,var(--communication) ${strength}%,var(--page));stroke:var(--rule)` }));
      if (n <= 16) g.append(svg("text", { x: left + (j + 0.5) * cell, y: top + (i + 0.5) * 30 + 4, "text-anchor": "middle", style: "font-size:10px" }, size ? bytes(size) : "–"));
      return g;
    }));
    const names = n <= 16 ? matrix.flatMap((_, i) => [svg("text", { x: left - 6, y: top + (i + 0.5) * 30 + 4, "text-anchor": "end" }, "rank " + i), svg("text", { x: left + (i + 0.5) * cell, y: top - 8, "text-anchor": "middle" }, "to " + i)]) : [];
    const width = left + n * cell + 4, high = top + n * Math.min(cell, 30) + 4;
    section.append(el("h3", {}, "Rank by rank"), el("p", { class: "faint small" }, "Bytes from a row's rank to a column's in a step, counted from the plans. What a collective sends is shared evenly among the others of its group; permutes and halos name their receivers."),
      el("div", { class: "scroll" }, svg("svg", { width, height: high, viewBox: `0 0 ${width} ${high}`, role: "img", "aria-label": "Bytes from rank to rank" }, cells, names)));
  }
  const least = Math.min(...sent), most = Math.max(...sent);
  section.append(el("p", {}, least === most ? `Every rank sends ${bytes(most)} a step.` : `Ranks send between ${bytes(least)} (rank ${sent.indexOf(least)}) and ${bytes(most)} (rank ${sent.indexOf(most)}) a step.`));
}

/// The predicted step with links of `times` the bandwidth, all else equal; null where the report does not tell latency, or where the work is not the step.
function stepAt(times) {
  const all = DATA.operators.flatMap(o => DATA.classes[o[1]].collectives || []).concat(DATA.boundary);
  if (DATA.head.pipeline || DATA.head.beside || all.some(c => c.latency_ns === undefined)) return null;
  return DATA.head.compute_ns + sum(all.map(c => c.bytes_sent > 0 ? c.latency_ns + (c.cost_ns - c.latency_ns) / times : c.cost_ns));
}

function renderWhatIf() {
  const section = byId("whatif"), step = DATA.head.predicted_ns;
  section.append(el("h2", { id: "whatif-title" }, "What if"), el("h3", {}, "The links were faster or slower"));
  const out = el("div", { "aria-live": "polite" }), chosen = el("output", {});
  const slider = el("input", { type: "range", id: "links", min: "-1", max: "1", step: "0.01", value: String(Math.log10(2)), "aria-label": "Bandwidth of the links, times today's", style: "width:320px" });
  const update = () => {
    const times = 10 ** Number(slider.value), at = stepAt(times), wins = wouldWin(times);
    chosen.textContent = `${digits(times)} times the bandwidth`;
    out.replaceChildren(el("p", {}, at === null ? DATA.head.pipeline ? "Stages of a pipeline wait for each other, so the step does not follow from the links alone." : DATA.head.beside ? "Collectives run beside kernels, so the step does not follow from the links alone." : "This report does not tell latency from bandwidth; compile the plan again to see it."
      : `This plan's step would take ${time(at)}: ${percent(Math.abs(at - step) / step)} ${at <= step ? "less" : "more"}.`),
      ...(wins.length ? [el("p", {}, `Operators that another strategy would serve better then, each by itself:`), table([["operator"], ["instead"], ["from links, times", true]],
        wins.slice(0, 12).map(w => [el("button", { type: "button", onclick: () => showNode(w.node.index, true) }, w.op), w.a.strategy || "nothing cut", digits(w.links)]))] : []));
  };
  slider.addEventListener("input", update);
  section.append(el("div", { class: "tools" }, slider, chosen), out);
  update();
  if (DATA.meshes.length)
    section.append(el("h3", {}, "The ranks were arranged otherwise"), table([["mesh"], ["predicted", true], ["communication", true], ["memory, estimated", true]],
      DATA.meshes.map(m => m.error ? [m.mesh, m.error, "", ""] : [m.mesh + (m.mesh === DATA.mesh ? " (this plan)" : ""), time(m.predicted_ns), time(m.communication_ns), bytes(m.peak_bytes_estimate)])));
  const asked = DATA.what_if || {};
  section.append(el("h3", {}, "There were more machines"), ...whatIfTable(asked, asked.clusters, "nodes=1,2,4,8", [["machines", true, c => c.nodes], ["ranks", true, c => c.ranks], ["mesh", false, c => c.mesh]],
    asked.grows ? `'${asked.grows}' grows with the machines (weak scaling).` : "The batch is the same on every cluster (strong scaling).", "Efficiency is the speed per rank, the first prediction's being 100 %."));
  section.append(el("h3", {}, "The batch were larger or smaller"), ...whatIfTable(asked, asked.sizes, "batch=16,32,64", [[asked.dim || "batch", true, c => c.size]],
    `Another size of '${asked.dim}', on the mesh of this plan.`, "Efficiency is the samples per second, the first prediction's being 100 %."));
  section.append(el("h3", {}, "The limit of memory were another"), ...whatIfTable(asked, asked.limits, "memory=4GiB,8GiB,16GiB", [["limit", true, c => bytes(c.limit)]],
    "Strategies are searched again until the program fits.", "Efficiency is the speed, the first prediction's being 100 %."));
}

/// What the compiler predicted for other clusters, sizes or limits, or how to ask it. Columns in front are [title, is a
/// number, value].
function whatIfTable(asked, lines, question, front, told, efficiency) {
  if (!Array.isArray(lines) || !lines.length)
    return [el("p", {}, "The compiler answers it by searching again, with the options that this plan was compiled with (compile.json has them); the table then stands here:"),
      el("pre", {}, `tessera-compile ${DATA.model} ... -o plan --what-if ${question} --html page.html`)];
  const longest = Math.max(...lines.map(c => c.predicted_ns || 0));
  const bar = c => el("div", { class: "bar", style: "width:180px", role: "img", "aria-label": `${time(c.predicted_ns)}, of it communication ${time(c.communication_ns)}` },
    el("i", { style: `width:${100 * (c.predicted_ns - c.communication_ns) / longest}%;background:var(--compute)` }), el("i", { style: `width:${100 * c.communication_ns / longest}%;background:var(--communication)` }));
  return [el("p", {}, told),
    table([...front.map(([title, number]) => [title, number]), ["step", true], ["compute and communication"], ["efficiency", true], ["memory of one rank", true], [""]],
      lines.map(c => [...front.map(([, , of]) => of(c)), ...(c.error ? ["–", c.error, "–", "–", ""]
        : [time(c.predicted_ns), bar(c), c.efficiency == null ? "–" : percent(c.efficiency), bytes(c.memory_bytes),
          [c.fits ? "" : "does not fit", c.recompute && c.recompute !== "none" ? `recompute ${c.recompute}` : ""].filter(Boolean).join(", ")])])),
    el("p", { class: "faint small" }, efficiency)];
}
