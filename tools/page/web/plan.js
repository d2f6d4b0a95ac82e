// The network: layers, those that repeat once; an operator's results as coloured cells; what is resharded between them.
function renderPlan() {
  const section = byId("plan");
  const total = NODES.length, shown = sum(DATA.blocks.map(([, period]) => period));
  section.append(el("h2", { id: "plan-title" }, "Plan"),
    el("p", {}, `${plural(total, "operator")} of the model` + (shown < total ? `, ${shown} of them drawn: of layers that repeat the first is drawn.` : ".") +
      " A cell is a dimension of an operator's result, coloured by the mesh axes that cut it; the number is what one rank holds. Orange lines between operators are data that one rank sends there, in the forward pass, and how far that is from the fewest bytes possible."),
    axisLegend(OWN_AXES));
  const search = el("input", { type: "search", id: "search", placeholder: "Find an operator by name", "aria-label": "Find an operator by name", oninput: () => find(search.value) });
  section.append(el("div", { class: "search" }, search, el("span", { id: "count", class: "faint small", role: "status" })),
    el("ul", { id: "found" }));
  const rows = el("div", { id: "rows" }, el("div", { class: "op heads faint small" }, el("span", {}, "operator"), el("span", {}, "its result"),
    el("span", {}, "kind and strategy"), el("span", { class: "parts" }, PARTS.map(part => el("span", {}, part)))));
  const detail = el("aside", { id: "detail", "aria-live": "polite", "aria-label": "The chosen operator" },
    el("p", { class: "faint" }, "Choose an operator to see its strategy, shapes, collectives and alternatives."));
  section.append(el("div", { class: "plan" }, rows, detail));
  const open = shown <= 400;
  DATA.blocks.forEach((block, b) => rows.append(blockElement(block, b, open || block[2] > 1)));
  const loose = DATA.operators.map((o, i) => o[2] < 0 && (DATA.classes[o[1]].compute_ns || DATA.classes[o[1]].communication_ns) ? i : -1).filter(i => i >= 0);
  if (loose.length) {
    const ns = sum(loose.map(i => operator(i).compute_ns + operator(i).communication_ns));
    rows.append(el("p", { class: "faint small" }, `${plural(loose.length, "operator")} belong to no operator of the model: ${time(ns)}.`));
  }
}

/// What the colours of the cells mean.
function axisLegend(axes) {
  return el("div", { class: "legend" }, axes.map(axis => el("span", {}, el("span", { class: "swatch", style: `background:${axisColour(axis.name)}` }), `cut by ${axis.name}` + (axes === OWN_AXES ? ` (${axis.size})` : ""))),
    el("span", {}, el("span", { class: "swatch" }), "whole"), el("span", {}, el("span", { class: "swatch hatch" }), "a partial sum"));
}

const ROWS = new Map(); // by node: its row, once it is drawn

function blockElement([first, period, count, title, last], b, open) {
  const nodes = NODES.slice(first, first + period * count), name = title;
  const compute = sum(nodes.map(n => sum(n.compute))), communication = sum(nodes.map(n => sum(n.communication)));
  const body = el("div");
  const made = el("details", { class: "block", id: "block" + b }, el("summary", {},
    el("span", {}, el("b", {}, last !== title ? `${name} … ${last}` : name), count > 1 ? el("span", { class: "repeat" }, `${count} alike`) : null),
    el("span", { class: "times" }, `${plural(period * count, "operator")}, compute ${time(compute)}` + (communication ? `, communication ${time(communication)}` : ""))), body);
  let drawn = false;
  const fill = () => {
    if (drawn) return;
    drawn = true;
    for (const node of NODES.slice(first, first + period)) body.append(...nodeRow(node));
  };
  made.addEventListener("toggle", () => { if (made.open) fill(); });
  made.fill = fill;
  if (open) { fill(); made.open = true; }
  return made;
}

const heaviestPart = Math.max(1, ...NODES.map(n => Math.max(...PARTS.map((_, p) => n.compute[p] + n.communication[p]))));

function nodeRow(node) {
  const op = operator(node.op);
  const edges = node.operators.map(operator).filter(o => o.part === 0).flatMap(o =>
    reshards(o.collectives).filter(r => r.sent > 0 && r.collectives[0].where.startsWith("operand")).map(r => [o, r]));
  const line = edges.map(([o, r]) => el("div", { class: "edges" }, "↓ " + r.collectives.map(collectiveText).join(", then "),
    el("span", { class: "faint" }, " " + sourceOf(o, r.collectives[0]) + (boundText(r) ? "; " + boundText(r) : ""))));
  const parts = PARTS.map((part, p) => {
    const ns = node.compute[p] + node.communication[p];
    const width = Math.round(100 * Math.sqrt(ns / heaviestPart));
    const fill = ["compute", "backward", "update"][p];
    return el("div", { title: `${part}: compute ${time(node.compute[p])}, communication ${time(node.communication[p])}`,
      style: ns ? `border-image:linear-gradient(90deg,var(--${fill}) ${width}%,transparent ${width}%) 3` : "" }, ns ? time(ns) : "–");
  });
  const row = el("button", { type: "button", class: "op", "aria-pressed": "false", "data-node": node.index, onclick: () => showNode(node.index, false) },
    el("span", { class: "name", title: node.name }, shortName(node.name)),
    glyph((op.results || [])[0], (op.global_results || [])[0], (op.local_results || [])[0]),
    el("span", { class: "strategy", title: op.strategy || "nothing cut" }, `${op.kind} ${op.strategy || ""}`),
    el("span", { class: "parts" }, parts));
  ROWS.set(node.index, row);
  return [...line, row];
}

/// "layer1.0/conv1" of "/layer1/layer1.0/conv1/Conv".
function shortName(name) {
  const parts = name.split("/").filter(Boolean);
  return parts.length > 2 ? parts.slice(-2).join("/") : parts.join("/");
}

/// "from /relu/Relu", where the report says what an operand is.
function sourceOf(op, collective) {
  const input = (op.inputs || [])[Number(collective.where.split(" ")[1])];
  if (input === undefined) return "at " + collective.where;
  return "of " + (input >= 0 ? DATA.operators[input][0] : DATA.arguments[-1 - input]);
}

/// The node that is drawn for this one: the same of the first repeat.
function drawnNode(index) {
  for (const [first, period, count] of DATA.blocks)
    if (index >= first && index < first + period * count) return first + (index - first) % period;
  return index;
}

function showNode(index, scroll) {
  const drawn = drawnNode(index);
  const b = DATA.blocks.findIndex(([first, period]) => drawn >= first && drawn < first + period);
  if (b >= 0) { byId("block" + b).fill(); byId("block" + b).open = true; }
  for (const row of ROWS.values()) row.setAttribute("aria-pressed", "false");
  const row = ROWS.get(drawn);
  if (row) {
    row.setAttribute("aria-pressed", "true");
    if (scroll) { row.scrollIntoView({ block: "center" }); row.focus({ preventScroll: true }); }
  }
  byId("detail").replaceChildren(...detailOf(NODES[index]));
}

function detailOf(node) {
  const parts = node.operators.map(operator).filter(o => o.index === node.op || o.compute_ns || o.communication_ns);
  parts.sort((a, b) => a.part - b.part || (b.index === node.op) - (a.index === node.op) || b.compute_ns + b.communication_ns - a.compute_ns - a.communication_ns);
  const alike = NODES.filter(n => n.signature === node.signature).length;
  return [el("h3", {}, node.name),
    el("p", { class: "faint" }, `${time(node.total)} a step, ${percent(node.total / DATA.head.predicted_ns)} of it` + (alike > 1 ? `; ${alike - 1} more are alike` : "")),
    ...PARTS.flatMap((part, p) => {
      const own = parts.filter(o => o.part === p);
      if (!own.length) return [];
      return [el("h3", {}, `${part[0].toUpperCase() + part.slice(1)}: ${time(node.compute[p])} compute, ${time(node.communication[p])} communication`),
        ...own.map((o, i) => el("details", { open: i === 0 && p === 0 }, el("summary", {}, `${o.index === node.op ? o.kind : o.name.startsWith(node.name) ? o.name.slice(node.name.length) || o.kind : o.name} (${o.kind}), ${time(o.compute_ns + o.communication_ns)}`), operatorDetail(o)))];
    })];
}

function operatorDetail(op) {
  const shapes = list => (list || []).map(s => `[${s.join(", ")}]`).join(", ");
  const arrow = (operands, results) => `${shapes(operands)} → ${shapes(results)}`;
  const rows = [["strategy", op.strategy || "nothing cut"], ["rule", op.rule], ["operands", (op.operands || []).join(", ")], ["results", (op.results || []).join(", ")],
    ["whole", arrow(op.global_operands, op.global_results)], ["one rank", arrow(op.local_operands, op.local_results)],
    ["compute", `${time(op.compute_ns)}: ${count(op.flops)}flop, ${bytes(op.bytes)}`]];
  if (op.inputs && op.inputs.length) rows.push(["inputs", op.inputs.map(i => i >= 0 ? DATA.operators[i][0] : DATA.arguments[-1 - i]).join(", ")]);
  const made = [el("dl", {}, rows.filter(([, text]) => text).flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]))];
  if (op.collectives && op.collectives.length)
    made.push(el("b", {}, "Collectives"), el("ul", {}, reshards(op.collectives).flatMap(r => r.collectives.map((c, i) =>
      el("li", {}, `${collectiveText(c)}; ${c.where}: [${c.local_in.join(", ")}] → [${c.local_out.join(", ")}]` + (i === r.collectives.length - 1 && boundText(r) ? "; " + boundText(r) : ""))))));
  if (op.alternatives && op.alternatives.length)
    made.push(el("b", {}, "Alternatives"), el("ul", {}, op.alternatives.map(a => el("li", {}, alternativeText(a)))));
  return el("div", {}, made);
}

const signed = (value, text) => (value < 0 ? "−" : "+") + text(Math.abs(value));

/// At links how many times as fast an alternative is as good as the choice; null: at no speed above today's.
function linksToWin(a) {
  return a.more_communication_ns > 0 && a.more_compute_ns < 0 ? a.more_communication_ns / -a.more_compute_ns : null;
}

function alternativeText(a) {
  const all = a.more_compute_ns + a.more_communication_ns, ways = [], fixed = all - a.growing_with_batch_ns;
  const faster = linksToWin(a), arena = DATA.head.arena_bytes;
  if (faster !== null) ways.push(`links ${digits(faster)} times as fast`);
  if (a.more_communication_ns < 0 && a.more_compute_ns > 0) ways.push(`links ${digits(a.more_compute_ns / -a.more_communication_ns)} times as slow`);
  if (a.growing_with_batch_ns < 0 && fixed > 0) ways.push(`a batch ${digits(fixed / -a.growing_with_batch_ns)} times as large`);
  if (a.growing_with_batch_ns > 0 && fixed < 0) ways.push(`a batch ${digits(a.growing_with_batch_ns / -fixed)} times as small`);
  if (a.more_memory_bytes < 0) ways.push(`a limit of memory between ${bytes(Math.max(0, arena + a.more_memory_bytes))} and ${bytes(arena)}`);
  const verdict = all <= 0 ? (a.more_memory_bytes > 0 ? "would win with so much more memory" : "as good") : ways.length ? "would win with " + ways.join(", or ") : "no speed of the links, batch or limit of memory makes it win";
  return `${a.strategy || "nothing cut"}: ${signed(all, time)} (compute ${signed(a.more_compute_ns, time)}, communication ${signed(a.more_communication_ns, time)}` +
    (a.more_memory_bytes ? `, memory ${signed(a.more_memory_bytes, bytes)}` : "") + `); ${verdict}`;
}

/// Nodes with an operator that another strategy would serve better if links were `times` as fast.
function wouldWin(times) {
  return NODES.flatMap(node => node.operators.flatMap(index => (operator(index).alternatives || [])
    .map(a => ({ node, op: DATA.operators[index][0], a, links: linksToWin(a) })).filter(w => w.links !== null && w.links > 1 && w.links <= times).slice(0, 1)));
}

function find(wanted) {
  const list = byId("found"), text = wanted.trim().toLowerCase();
  if (!text) { list.replaceChildren(); byId("count").textContent = ""; return; }
  const hits = [];
  DATA.operators.forEach(([name, , node], index) => { if (node >= 0 && name.toLowerCase().includes(text)) hits.push(index); });
  const exact = index => NODES[DATA.operators[index][2]].op === index ? 0 : 1;
  hits.sort((a, b) => exact(a) - exact(b) || a - b);
  byId("count").textContent = hits.length ? `${hits.length} found` + (hits.length > 60 ? ", the first 60 listed" : "") : "nothing found";
  list.replaceChildren(...hits.slice(0, 60).map(index => el("li", {}, el("button", { type: "button", onclick: () => showNode(DATA.operators[index][2], true) },
    DATA.operators[index][0] + (exact(index) ? ` (of ${NODES[DATA.operators[index][2]].name})` : "")))));
}
