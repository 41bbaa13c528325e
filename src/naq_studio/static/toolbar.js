// What lies over the map: tools, what colours mean, what to do with a selection.
import { html, useMemo } from "./preact.js";
import { brief, colouring } from "./columns.js";
import { Key, Swatch, thousands } from "./parts.js";
import { scaleColour } from "./looks.js";
import { clear, setLayout, store, update } from "./store.js";

const Choice = ({ on, children, ...rest }) => html`<button aria-pressed=${on} class=${on ? "on" : ""} ...${rest}>${children}</button>`;

export function Toolbar() {
  const titles = useTitles();
  const { view, tool, colourBy, lassoMode, state, placesName, mapless } = store;
  return html`<div class="toolbar" role="toolbar" aria-label="Map">
    <span class="group">${!mapless && html`<${Choice} on=${view === "map"} onClick=${() => update({ view: "map" })}>Map<//>`}
      <${Choice} on=${view === "table"} onClick=${() => update({ view: "table" })} title="Table of nodes (t)">Table<//></span>
    ${mapless && html`<span class="soft">The graphics card gave up; reload the page to see the map again.</span>`}
    ${view === "map" && html`
      <span class="group"><${Choice} on=${tool === "move"} onClick=${() => update({ tool: "move" })} title="Move and click (v)">Move<//>
        <${Choice} on=${tool === "lasso"} onClick=${() => update({ tool: "lasso" })} title="Draw around nodes (l); Shift adds, Alt takes away">Lasso<//></span>
      ${tool === "lasso" && html`<span class="group">${["replace", "add", "subtract"].map((mode) => html`<${Choice} on=${lassoMode === mode} onClick=${() => update({ lassoMode: mode })} title=${{ replace: "A new selection", add: "Add (Shift)", subtract: "Take away (Alt)" }[mode]}>${{ replace: "New", add: "+", subtract: "−" }[mode]}<//>`)}</span>`}
      <span class="group"><${Choice} on=${colourBy === "class"} onClick=${() => update({ colourBy: "class" })} title="Colour by class (k switches)">Class<//>
        <${Choice} on=${colourBy === "sure"} onClick=${() => update({ colourBy: "sure" })} title="Colour by confidence (k switches)">Confidence<//>
        <select class=${typeof colourBy === "number" ? "on" : ""} value=${typeof colourBy === "number" ? colourBy : ""} aria-label="Colour by a column" title="Colour by a column of the table of nodes" onChange=${(e) => { e.target.blur(); update({ colourBy: e.target.value === "" ? "class" : Number(e.target.value) }); }}><option value="">Column …</option>${titles}</select></span>
      <${Choice} on=${store.edges} onClick=${() => update({ edges: !store.edges })} title="Edges of what is in view (e)">Edges<//>
      ${state.layouts.length > 1 && html`<span class="group wide"><${Choice} on=${placesName === "pacmap"} onClick=${() => setLayout("pacmap")} title="Similar nodes close together (p switches)">PaCMAP<//><${Choice} on=${placesName === "pca"} onClick=${() => setLayout("pca")} title="Principal components (p switches)">PCA<//></span>`}`}
  </div>`;
}

// In the corner, so that the tools stay in one line and none lies over the map that a lasso begins on.
export const Zoom = ({ map }) => html`<div class="zoom" role="group" aria-label="Zoom">
  <button onClick=${() => map()?.zoom(1.5)} aria-label="Zoom in" title="Zoom in (+)">+</button><button onClick=${() => map()?.zoom(1 / 1.5)} aria-label="Zoom out" title="Zoom out (−)">−</button><button onClick=${() => map()?.showNodes(null)} title="Show everything (f)">Fit</button></div>`;

export function SelectionBar() {
  const { selection, state } = store;
  if (selection.size < 2) return null;
  return html`<div class="selection" role="status">${thousands(selection.size)} selected.
    ${state.classes.length ? html` Press <${Key}>1<//>–<${Key}>${Math.min(9, state.classes.length)}<//> to label them, ` : " Press "}<${Key}>n<//> for a new class, <${Key}>x<//> for none.
    <button onClick=${clear}>Clear <${Key}>Esc<//></button></div>`;
}

// An option per column, made once: there may be thousands.
export const useTitles = () => useMemo(() => store.titles.map((title, i) => html`<option value=${i}>${title || "(no name)"}</option>`), [store.titles]);

const LISTED = 10;

// What the colours mean, and how many of the edges in view are drawn.
export function Legend() {
  const { colourBy, state, edgesShown } = store, one = colouring();
  const about = edgesShown && html`<p>${edgesShown.shown < edgesShown.total ? `${thousands(edgesShown.shown)} of ${thousands(edgesShown.total)} edges in view` : `${thousands(edgesShown.total)} edges in view`}</p>`;
  let colours = null;
  if (colourBy === "sure" && state.answer) colours = html`<p class="scale" aria-label="Colours: dark is unsure, yellow is sure"><span>0 %</span><${Scale} /><span>100 % sure</span></p>`;
  else if (typeof colourBy === "number") colours = one ? html`<${ColumnLegend} one=${one} />` : html`<p>Reading …</p>`;
  return colours || about ? html`<div class="legend">${colours}${about}</div>` : null;
}

const Scale = () => [...Array(12).keys()].map((i) => html`<i style=${{ background: `rgb(${scaleColour(i / 11)})` }}></i>`);

function ColumnLegend({ one }) {
  const rest = one.empty ? html`<p class="soft"><${Swatch} id=${-3} />${thousands(one.empty)} empty</p>` : "";
  if (one.ordered) return html`<b>${one.title}</b>${one.scale.ticks.length > 0 && html`<p class="scale" aria-label="Colours: dark is low, yellow is high"><${Scale} /></p>
    <p class="ticks">${one.scale.ticks.map((value) => html`<span>${brief(one, value)}</span>`)}</p>${one.scale.how && html`<p class="soft">${one.scale.how}</p>`}`}${rest}`;
  const shown = one.common.slice(0, LISTED), hidden = one.values.length - one.empty - shown.reduce((sum, entry) => sum + entry[2], 0);
  return html`<b>${one.title}</b>${shown.map(([value, cell, count]) => html`<p><${Swatch} colour=${one.hues.get(value)} />${cell.length > 28 ? cell.slice(0, 27) + "…" : cell} <span class="soft">${thousands(count)}</span></p>`)}
    ${hidden > 0 && html`<p class="soft">${shown.length ? `${thousands(hidden)} others` : "Every node has another value, so there are no colours."}</p>`}${rest}`;
}
