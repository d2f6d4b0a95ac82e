// Draws all sections; one that fails says so and does not stop the others.
const failures = [];
for (const [id, render] of [["head", renderHead], ["compare", renderCompare], ["plan", renderPlan], ["time", renderTime], ["memory", renderMemory],
  ["traffic", renderTraffic], ["whatif", renderWhatIf], ["training", renderTraining]]) {
  try {
    render();
  } catch (error) {
    failures.push(`${id}: ${error.message}`);
    console.error(error);
    byId(id).append(el("p", { class: "error" }, `This section could not be drawn: ${error.message}`));
  }
}
byId("theme").addEventListener("click", () => {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  redrawAll();
});
let before = null;
addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme || ""; document.documentElement.dataset.theme = "light"; redrawAll(); });
addEventListener("afterprint", () => { if (before) document.documentElement.dataset.theme = before; else delete document.documentElement.dataset.theme; redrawAll(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
let resized = 0;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(redrawAll, 100); });
redrawAll();
document.documentElement.dataset.drawn = failures.length ? "failed" : "all";
