// Two plans of one model beside each other: what differs, and what it costs.
function renderCompare() {
  const compared = DATA.compare;
  if (!compared) return;
  const section = byId("compare"), [a, b] = compared.plans, [nameA, nameB] = planNames(compared.names);
  section.hidden = byId("to-compare").hidden = false;
  const more = b.head.predicted_ns - a.head.predicted_ns;
  section.append(el("h2", { id: "compare-title" }, `Two plans: ${nameA} and ${nameB}`),
    el("p", {}, `The step of ${nameB} is predicted ${longer(more, a.head.predicted_ns)} than that of ${nameA}: compute ${signed(b.head.compute_ns - a.head.compute_ns, time)}, ` +
      `communication ${signed(b.head.communication_ns - a.head.communication_ns, time)}, memory of one rank ${signed(b.head.arena_bytes - a.head.arena_bytes, bytes)}. ` +
      `${plural(compared.num_cut, "operator")} ${compared.num_cut === 1 ? "is" : "are"} cut another way, ${compared.num_same} are the same` +
      compared.num_only.map((only, p) => only ? `, ${only} only in ${[nameA, nameB][p]}` : "").join("") + ". The rest of the page is about " + nameA + "."),
    table([[""], [nameA, true], [nameB, true], ["difference", true]], totalRows(a, b)));
  if (compared.rows.length) {
    section.append(el("h3", {}, "What differs, the largest difference of time first"), axisLegend(AXES),
      table([["operator"], [nameA], [nameB], ["time, " + nameA, true], [nameB, true], ["difference", true]], compared.rows.map(compareRow)));
    if (compared.num_rows > compared.rows.length) section.append(el("p", { class: "faint small" }, `And ${compared.num_rows - compared.rows.length} more.`));
  }
  if (compared.collectives.length)
    section.append(el("h3", {}, "Communication of one rank"), table([["collective"], ["over"], ["times, " + nameA, true], [nameB, true], ["bytes, " + nameA, true], [nameB, true], ["time, " + nameA, true], [nameB, true], ["difference", true]],
      compared.collectives.map(([kind, axes, x, y]) => [kind, axes, x[0], y[0], bytes(x[1]), bytes(y[1]), time(x[2]), time(y[2]), difference(x[2], y[2], time)])));
  section.append(el("h3", {}, "Memory at the peak"), table([["kind"], [nameA, true], [nameB, true], ["difference", true]],
    compared.memory.map(([kind, x, y]) => [kind, bytes(x), bytes(y), difference(x, y, bytes)])));
}

/// The folders' names, without where they lie if that tells them apart.
function planNames(names) {
  const last = names.map(name => name.replace(/\/+$/, "").split("/").pop());
  return last[0] !== last[1] && last.every(Boolean) ? last : names;
}

const longer = (more, of) => more === 0 ? "no longer" : `${percent(Math.abs(more) / of)} ${more > 0 ? "longer" : "shorter"}`;
/// A difference with its sign; nothing where there is none.
const difference = (x, y, text) => x === y ? "" : signed(y - x, text);

function totalRows(a, b) {
  const words = [["mesh", p => p.mesh || "one rank"], ["mode", p => p.mode], ["topology", p => p.topology], ["recompute", p => p.recompute], ["ranks", p => p.num_ranks], ["batch", p => p.global_batch]];
  const amounts = [["predicted step", "predicted_ns", time], ["compute", "compute_ns", time], ["communication", "communication_ns", time], ["memory of one rank", "arena_bytes", bytes],
    ["one rank sends", "bytes_sent", bytes], ["collectives", "num_collectives", String]];
  const gap = p => !p.head.search ? "not searched" : p.head.search.optimal ? "optimal" : "at most " + atMost(p.head.search.gap);
  return [...words.filter(([, of]) => of(a) || of(b)).map(([name, of]) => [name, of(a), of(b), of(a) === of(b) ? "" : "differs"]),
    ...amounts.map(([name, field, text]) => {
      const x = a.head[field], y = b.head[field];
      return [name, text(x), text(y), difference(x, y, text) + (x > 0 && x !== y ? ` (${signed((y - x) / x, percent)})` : "")];
    }), ["distance from the bound", gap(a), gap(b), ""]];
}

function compareRow(row) {
  const name = row.name + (row.alike > 1 ? ` and ${row.alike - 1} alike` : "");
  const cut = plan => plan ? [glyph(plan.sharding, plan.global, plan.local), el("span", { class: "faint small" }, plan.strategy || "nothing cut")] : "not there";
  const ns = plan => plan ? time((plan.compute_ns + plan.communication_ns) * row.alike) : "–";
  return [row.node >= 0 ? el("button", { type: "button", onclick: () => showNode(row.node, true) }, name) : name,
    cut(row.plans[0]), row.cut ? cut(row.plans[1]) : "the same", ns(row.plans[0]), ns(row.plans[1]), signed(row.more_ns, time)];
}
