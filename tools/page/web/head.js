// What the plan is, what a step costs and why, and what would lower it.
function renderHead() {
  const head = DATA.head, section = byId("head"), step = head.predicted_ns, work = workOf(head), ofWork = ofWorkText(head);
  const mesh = DATA.mesh || "one rank";
  byId("title").textContent = DATA.model + " on " + plural(DATA.num_ranks, "rank");
  byId("subtitle").textContent = `${head.function}, mesh ${mesh}, mode ${DATA.mode}, topology ${DATA.topology}` +
    (DATA.recompute && DATA.recompute !== "none" ? ", recompute " + DATA.recompute : "") + `, plan ${DATA.plan_id.slice(0, 12)}, ${DATA.producer}`;
  document.title = DATA.model + " on " + mesh;
  const share = work > 0 ? head.communication_ns / work : 0;
  const bar = parts => el("div", { class: "bar" }, parts.map(([part, fill]) => el("i", { style: `width:${Math.min(100, 100 * part)}%;background:var(--${fill})` })));
  const tile = (title, value, ...rest) => el("div", { class: "tile" }, el("span", { class: "faint" }, title), el("b", {}, value), ...rest);
  const note = text => el("span", { class: "faint" }, text);
  const measured = DATA.trace ? DATA.trace.steps[DATA.trace.steps.length - 1] * 1e9 : null;
  const search = head.search;
  section.append(el("div", { class: "tiles" },
    tile("Predicted step", time(step), bar([[1 - share, "compute"], [share, "communication"]]),
      note(`${head.pipeline ? "all stages: " : ""}compute ${time(head.compute_ns)}, communication ${time(head.communication_ns)} (${percent(share)})` +
        (head.beside ? `, exposed ${time(head.beside.exposed_ns)}` : ""))),
    head.pipeline ? tile("Pipeline", plural(head.pipeline.stages, "stage"), note(`${head.pipeline.micro_batches === 1 ? "1 micro-batch" : head.pipeline.micro_batches + " micro-batches"}, schedule ${head.pipeline.schedule}, bubble ${percent(head.pipeline.bubble)}`)) : null,
    measured ? tile("Measured step", time(measured), note(`step ${DATA.trace.step} of ${DATA.trace.file}: ${digits(measured / step)} times the prediction`)) : null,
    tile("Distance from the proven bound", search ? (search.optimal ? "none: optimal" : "at most " + atMost(search.gap)) : "not searched",
      note(search ? `${plural(search.options, "option")} of ${plural(search.nodes, "decision")}, searched: ${search.searcher}` : `mode ${DATA.mode} decides without a search`)),
    tile("Memory of one rank", bytes(head.arena_bytes), bar([[head.memory_limit ? head.arena_bytes / head.memory_limit : 0, "kind0"]]),
      note(head.memory_limit ? `${percent(head.arena_bytes / head.memory_limit)} of the limit, ${bytes(head.memory_limit)}` : "no limit")),
    tile("One rank sends", bytes(head.bytes_sent), note(plural(head.num_collectives, "collective") + " a step"))));
  section.append(el("h2", {}, "The three largest costs"), el("div", { class: "costs" }, head.costs.slice(0, 3).map(cost =>
    el("div", { class: "tile cost" }, el("h3", {}, costTitle(cost)),
      el("div", {}, `${time(cost.ns)}, ${percent(cost.share)} ${ofWork}`), bar([[cost.share, cost.communication ? "communication" : "compute"]]),
      el("p", {}, cost.lower || ""), cost.node >= 0 ? el("p", {}, el("button", { type: "button", onclick: () => showNode(cost.node, true) }, "Show the operator")) : null))));
  if (head.costs.length > 3)
    section.append(el("details", {}, el("summary", {}, `The ${head.costs.length} largest of ${head.num_costs} costs`),
      table([["what"], ["time", true], [ofWork, true], ["what would lower it"]],
        head.costs.map(cost => [costTitle(cost), time(cost.ns), percent(cost.share), cost.lower || ""]))));
  section.append(el("h2", { style: "margin-top:14px" }, "Questions and answers"), el("dl", { class: "answers" },
    answers().flatMap(([question, answer]) => [el("dt", {}, question), el("dd", {}, answer)])));
  for (const warning of DATA.warnings) section.append(el("p", { class: "faint small" }, "The compiler warned: " + warning));
}

function costTitle(cost) {
  if (cost.communication) return `${cost.what}, ${plural(cost.count, "time")}`;
  return cost.what + (cost.count > 1 ? ` and ${cost.count - 1} alike` : "") + ` (${cost.kind})`;
}

/// What all operators and collectives of a step take: the step itself, but where stages, or kernels and collectives, work beside each other.
const workOf = head => head.compute_ns + head.communication_ns;
const ofWorkText = head => head.pipeline ? "of the work of all stages" : head.beside ? "of the step's work" : "of the step";

function answers() {
  const head = DATA.head, step = head.predicted_ns, work = workOf(head), first = head.costs[0], search = head.search, arena = DATA.arena;
  const list = [];
  const parts = PARTS.map((name, p) => [name, sum(NODES.map(n => n.compute[p] + n.communication[p]))]).filter(([, ns]) => ns > 0);
  list.push(["Why does a step take this long?", (head.pipeline ? `Each of ${plural(head.pipeline.stages, "stage")} waits for the others ${percent(head.pipeline.bubble)} of the step, on average (tessera-dump --schedule shows when). Of their work ` : "") +
    `${percent(head.compute_ns / work)} is compute and ${percent(head.communication_ns / work)} communication` + (head.beside
      ? `. ${plural(head.beside.num_messages, "message")} of it ${head.beside.num_messages === 1 ? "runs" : "run"} beside kernels, so that the step takes ${time(step)}, and ${time(head.beside.exposed_ns)} of it are communication that no kernel hides. `
      : ", which the prediction adds up without overlap. ") +
    (parts.length > 1 ? parts.map(([name, ns]) => `${name} ${percent(ns / work)}`).join(", ") + ". " : "") +
    (head.costs.length > 2 ? `The three largest costs are ${percent(sum(head.costs.slice(0, 3).map(c => c.share)))} of it.` : "")]);
  const heaviest = NODES.reduce((a, b) => a && a.total >= b.total ? a : b, null);
  if (heaviest)
    list.push(["Which operator costs most?", [el("button", { type: "button", onclick: () => showNode(heaviest.index, true) }, heaviest.name),
      ` costs ${time(heaviest.total)}, ${percent(heaviest.total / work)} ${ofWorkText(head)}, with its gradients and updates.` +
      (first && first.count > 1 && !first.communication ? ` The costliest kind is ${costTitle(first)}: ${time(first.ns)} together.` : "")]]);
  const twice = head.twice_the_bandwidth_ns;
  const flips = wouldWin(2);
  if (!head.pipeline && !head.beside) list.push(["What would twice the bandwidth do?", (twice == null
    ? `The step would take at least ${time(step - head.communication_ns / 2)}, ${percent(head.communication_ns / 2 / step)} less: this report does not tell latency from bandwidth.`
    : `This plan's step would take ${time(twice)}, ${percent((step - twice) / step)} less; with infinitely fast links ${time(head.infinite_bandwidth_ns)}.`) +
    (flips.length ? ` ${plural(flips.length, "operator")} would then be cut another way (What if).` : DATA.classes.some(c => c.alternatives) ? " No operator would by itself be cut another way." : "")]);
  if (arena.buffers && arena.buffers.length) {
    const kinds = Object.entries(arena.at_peak).filter(([, size]) => size > 0).sort((a, b) => b[1] - a[1]);
    const largest = arena.buffers[arena.largest_at_peak[0]];
    list.push(["What fills the memory?", `At the peak, step ${arena.peak_step + 1} of ${arena.steps.length} (${arena.steps[arena.peak_step][0]}), ` +
      kinds.map(([kind, size]) => `${kind === "input or output" ? "inputs and outputs" : kind + "s"} ${bytes(size)}`).join(", ") +
      ` live. The largest buffer is ${largest[0]}, ${bytes(largest[5])} (Memory).`]);
  }
  list.push(["Is the choice proven?", !search ? `No: mode ${DATA.mode} does not search. --mode auto searches, and proves how far from the best its answer can be.`
    : search.optimal ? `Yes: the search proved that no other choice among its ${plural(search.options, "option")} is predicted to take less time.`
      : `To within ${atMost(search.gap)}: the search proved that no other choice is predicted to take less than ${time(search.lower_bound_ns)}; this one takes ${time(search.cost_ns)} by the same count.`]);
  return list;
}
