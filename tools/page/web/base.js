"use strict";
// The data, and what all sections share: elements, numbers for people, shardings, colours.
const DATA = JSON.parse(document.getElementById("data").textContent);
const PARTS = ["forward", "backward", "update"];

/// An element with attributes and children; texts are only ever texts.
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") made.style.cssText = value;
    else if (value !== false && value != null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter(child => child != null));
  return made;
}

function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children.flat().filter(child => child != null));
  return made;
}

const byId = id => document.getElementById(id);
const sum = list => list.reduce((a, b) => a + b, 0);
const digits = value => Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: value >= 1000 ? 4 : 3 });

function time(ns) {
  const size = Math.abs(ns);
  if (size === 0) return "0";
  return size >= 1e9 ? digits(ns / 1e9) + " s" : size >= 1e6 ? digits(ns / 1e6) + " ms" : digits(ns / 1e3) + " µs";
}

function bytes(count) {
  let unit = 0;
  for (; Math.abs(count) >= 1024 && unit < 4; ++unit) count /= 1024;
  return (unit ? digits(count) : String(Math.round(count))) + " " + ["B", "KiB", "MiB", "GiB", "TiB"][unit];
}

/// 28300000 is "28.3 M".
function count(value) {
  const unit = Math.min(5, Math.max(0, Math.floor(Math.log10(Math.max(1, value)) / 3)));
  return digits(value / 1000 ** unit) + [" ", " k", " M", " G", " T", " P"][unit];
}

function percent(part) {
  const value = 100 * part;
  return (value === 0 ? "0" : value < 0.01 ? "under 0.01" : value < 10 ? String(Number(value.toPrecision(2))) : value.toFixed(value > 99.9 && value < 100 ? 2 : 1)) + " %";
}

/// A gap, rounded up to a hundredth of a percent.
const atMost = part => (Math.ceil(part * 1e4 - 1e-6) / 100 || 0.01) + " %";
const plural = (count, word) => count.toLocaleString("en") + " " + word + (count === 1 ? "" : "s");

/// A table; columns are [title, is a number].
function table(columns, rows) {
  const cell = (tag, i, content) => el(tag, { class: columns[i][1] ? "n" : null }, content);
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, columns.map((c, i) => cell("th", i, c[0])))),
    el("tbody", {}, rows.map(row => el("tr", {}, row.map((content, i) => cell("td", i, content)))))));
}

/// "data=2,model=4" as names and sizes.
const parseMesh = text => text ? text.split(",").map(axis => ({ name: axis.split("=")[0], size: Number(axis.split("=")[1]) || 1 })) : [];
const OWN_AXES = parseMesh(DATA.mesh);
// Behind them those that only the other of two plans has: they have colours, too.
const AXES = OWN_AXES.concat(DATA.compare ? parseMesh(DATA.compare.plans[1].mesh).filter(axis => !OWN_AXES.some(own => own.name === axis.name)) : []);
const axisIndex = name => AXES.findIndex(axis => axis.name === name);
const axisColour = name => axisIndex(name) < 0 ? "var(--rest)" : `var(--axis${axisIndex(name) % 6})`;

/// "[data+model, -] sum(x)" is {dims: [["data", "model"], []], partial: ["x"], rest: "sum(x)"}. A unit, as in "model/64",
/// is left out.
function parseSharding(text) {
  const match = /^\[([^\]]*)\](.*)$/.exec(text || "");
  if (!match) return { dims: [], partial: [], rest: text || "" };
  const partial = /\(([^)]*)\)/.exec(match[2]);
  return {
    dims: match[1].trim() ? match[1].split(",").map(d => d.trim() === "-" ? [] : d.trim().replace(/\/\d+$/, "").split("+")) : [],
    partial: partial ? partial[1].split(/[+,]/).map(a => a.trim()) : [], rest: match[2].trim(),
  };
}

/// One cell per dimension, coloured by the axes that cut it; hatched where it is a partial sum.
function glyph(sharding, whole, local) {
  const { dims, partial, rest } = parseSharding(sharding);
  const label = `${sharding}; whole [${(whole || []).join(", ")}], one rank [${(local || []).join(", ")}]`;
  const cells = (local || whole || []).map((size, d) => {
    const axes = dims[d] || [];
    const step = 100 / Math.max(1, axes.length);
    const stripes = axes.map((axis, i) => `${axisColour(axis)} ${i * step}% ${(i + 1) * step}%`).join(", ");
    return el("span", { style: axes.length ? `background-image: linear-gradient(90deg, ${stripes})` : "" }, String(size));
  });
  if (!cells.length) cells.push(el("span", {}, "1"));
  if (partial.length)
    cells.push(el("span", { class: "hatch", style: `background-color: ${axisColour(partial[0])}; flex: 0 0 14px` }));
  return el("div", { class: "glyph", role: "img", "aria-label": label, title: label + (rest ? "" : "") }, cells);
}

/// The operator at an index, as an object.
function operator(index) {
  const [name, cls, node, part, inputs] = DATA.operators[index];
  return { index, name, node, part, inputs, ...DATA.classes[cls] };
}

const NODES = DATA.nodes.map(([name, op, signature, compute, communication], index) =>
  ({ index, name, op, signature, compute, communication, operators: [], total: sum(compute) + sum(communication) }));
DATA.operators.forEach(([, , node], index) => { if (node >= 0) NODES[node].operators.push(index); });
const OPERATOR_BY_NAME = new Map(DATA.operators.map(([name], index) => [name, index]));

/// The operator that a step of a plan or a trace is named after: "/conv1/Conv.fused" belongs to "/conv1/Conv".
function operatorOfStep(name) {
  for (let end = name.length; end > 0; end = Math.max(name.lastIndexOf(".", end - 1), name.lastIndexOf("/", end - 1)))
    if (OPERATOR_BY_NAME.has(name.slice(0, end))) return OPERATOR_BY_NAME.get(name.slice(0, end));
  return -1;
}

/// "all-gather over data: 2 MiB, 26 µs".
const collectiveText = c => `${c.kind}${c.axes ? " over " + c.axes : ""}` +
  (c.bytes_sent ? `, ${bytes(c.bytes_sent)} sent` : ", within a rank") + `, ${time(c.cost_ns)}`;

/// What a list of collectives does, in order: a reshard is one or several of them, {collectives, sent, least}; others
/// stand by themselves, without a bound on their bytes.
function reshards(list) {
  const made = [];
  for (const c of list || []) {
    const last = made[made.length - 1];
    if (c.least_bytes === undefined && c.kind !== "halo" && last && last.least !== undefined && last.collectives[0].where === c.where) {
      last.collectives.push(c);
      last.sent += c.bytes_sent;
    } else {
      made.push({ collectives: [c], sent: c.bytes_sent, least: c.least_bytes });
    }
  }
  return made;
}

/// How far a reshard is from the fewest bytes that any way needs.
const boundText = r => r.least === undefined || !r.sent ? "" : r.sent <= r.least * (1 + 1e-9) ? "no way needs fewer bytes"
  : r.least > 0 ? `${digits(r.sent / r.least)} times the fewest bytes possible, ${bytes(r.least)}` : "another layout would send nothing";

const colours = new Map();
/// The value of a colour's variable, for canvases.
function colour(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim());
  return colours.get(name);
}

const redraws = [];
function redrawAll() {
  colours.clear();
  for (const redraw of redraws) redraw();
}

/// Black or white, whichever is better read on the colour.
function inkOn(name) {
  const hex = colour(name), [r, g, b] = [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16) / 255).map(c => c <= 0.04 ? c / 12.9 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000000" : "#ffffff";
}

function showTip(text, x, y) {
  const tip = byId("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  tip.style.left = Math.min(x + 14, innerWidth - Math.min(430, tip.offsetWidth + 10)) + "px";
  tip.style.top = Math.min(y + 14, innerHeight - tip.offsetHeight - 6) + "px";
}

/// A canvas over [0, extent] along x that is zoomed with + - 0, the arrow keys, buttons, and Ctrl or Shift with the
/// wheel, and moved by dragging. `draw(context, width, height, left, right)` draws; `hit(x, y, left, right, width)`
/// returns {text, node} at a point, or null. The first `margin` pixels are not of the picture.
function zoomed(label, extent, height, draw, hit, margin = 0) {
  const canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": label, height });
  let left = 0, right = extent, drag = null, moved = false;
  const width = () => canvas.clientWidth || 1160;
  function paint() {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = width() * ratio;
    canvas.height = height * ratio;
    canvas.style.height = height + "px";
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = colour("page");
    context.fillRect(0, 0, width(), height);
    draw(context, width(), height, left, right);
  }
  function show(from, to) {
    const size = Math.min(extent, Math.max(extent / 20000, to - from));
    left = Math.max(0, Math.min(extent - size, from));
    right = left + size;
    paint();
  }
  function zoom(factor, at = 0.5) {
    const centre = left + (right - left) * at, size = (right - left) * factor;
    show(centre - size * at, centre + size * (1 - at));
  }
  const at = event => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    zoom((event.deltaY || event.deltaX) > 0 ? 1.25 : 0.8, (at(event)[0] - margin) / (width() - margin));
  }, { passive: false });
  canvas.addEventListener("pointerdown", event => { drag = [event.clientX, left, right]; moved = false; });
  addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("pointermove", event => {
    if (drag) {
      const shift = (drag[0] - event.clientX) / (width() - margin) * (drag[2] - drag[1]);
      moved = moved || Math.abs(drag[0] - event.clientX) > 3;
      if (moved) show(drag[1] + shift, drag[2] + shift);
    }
    const found = hit(...at(event), left, right, width());
    showTip(found && found.text, event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", () => showTip(""));
  canvas.addEventListener("click", event => {
    const found = !moved && hit(...at(event), left, right, width());
    if (found && found.node >= 0) showNode(found.node, true);
  });
  canvas.addEventListener("keydown", event => {
    const size = right - left, act = {
      "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1.6), "0": () => show(0, extent),
      ArrowLeft: () => show(left - size / 5, right - size / 5), ArrowRight: () => show(left + size / 5, right + size / 5),
    }[event.key];
    if (act) { act(); event.preventDefault(); }
  });
  redraws.push(paint);
  const button = (text, title, act) => el("button", { type: "button", title, onclick: act }, text);
  const tools = el("div", { class: "tools" }, button("+", "Zoom in", () => zoom(0.6)), button("−", "Zoom out", () => zoom(1.6)),
    button("All", "Show all", () => show(0, extent)),
    el("span", { class: "faint small" }, "Ctrl and the wheel zoom, dragging moves; keys + − 0 and arrows. A click shows the operator."));
  return { canvas, tools, show };
}
