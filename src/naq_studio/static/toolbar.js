// What lies over the map: tools, what colours mean, what to do with a selection.
import { html } from "./preact.js";
import { Key, thousands } from "./parts.js";
import { scaleColour } from "./looks.js";
import { clear, setLayout, store, update } from "./store.js";

const Choice = ({ on, children, ...rest }) => html`<button aria-pressed=${on} class=${on ? "on" : ""} ...${rest}>${children}</button>`;

export function Toolbar({ map }) {
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
        <${Choice} on=${colourBy === "sure"} onClick=${() => update({ colourBy: "sure" })} title="Colour by confidence (k switches)">Confidence<//></span>
      ${state.layouts.length > 1 && html`<span class="group wide"><${Choice} on=${placesName === "pacmap"} onClick=${() => setLayout("pacmap")} title="Similar nodes close together (p switches)">PaCMAP<//><${Choice} on=${placesName === "pca"} onClick=${() => setLayout("pca")} title="Principal components (p switches)">PCA<//></span>`}
      <span class="group"><button onClick=${() => map()?.zoom(1.5)} aria-label="Zoom in" title="Zoom in (+)">+</button><button onClick=${() => map()?.zoom(1 / 1.5)} aria-label="Zoom out" title="Zoom out (−)">−</button><button onClick=${() => map()?.showNodes(null)} title="Show everything (f)">Fit</button></span>`}
  </div>`;
}

export function SelectionBar() {
  const { selection, state } = store;
  if (selection.size < 2) return null;
  return html`<div class="selection" role="status">${thousands(selection.size)} selected.
    ${state.classes.length ? html` Press <${Key}>1<//>–<${Key}>${Math.min(9, state.classes.length)}<//> to label them, ` : " Press "}<${Key}>n<//> for a new class, <${Key}>x<//> for none.
    <button onClick=${clear}>Clear <${Key}>Esc<//></button></div>`;
}

export function Legend() {
  if (store.colourBy !== "sure" || !store.state.answer) return null;
  return html`<div class="legend" aria-label="Colours: dark is unsure, yellow is sure"><span>0 %</span>${[...Array(12).keys()].map((i) => html`<i style=${{ background: `rgb(${scaleColour(i / 11)})` }}></i>`)}<span>100 % sure</span></div>`;
}
