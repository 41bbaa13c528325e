// The page: one component per panel, all drawn from the store.
import { html, render, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { MapView } from "./map.js";
import { connect, store, subscribe, update } from "./store.js";
import { keyPressed } from "./keys.js";
import { Header } from "./header.js";
import { Card } from "./card.js";
import { Classes } from "./classes.js";
import { Progress } from "./progress.js";
import { Table } from "./table.js";
import { Toolbar, SelectionBar, Legend, Zoom } from "./toolbar.js";
import { Dialogs } from "./dialogs.js";

export let map = null;

function MapPanel() {
  const canvas = useRef(null), overlay = useRef(null);
  useLayoutEffect(() => {
    map = new MapView(canvas.current, overlay.current);
    window.naq = { map, store };
    return subscribe(() => map.wake());
  }, []);
  useEffect(() => { map?.restyle(); }, [store.theme]);
  const n = store.state.graph.nodes.toLocaleString("en");
  return html`<div class="map" hidden=${store.view !== "map"}>
    <canvas ref=${canvas} aria-hidden="true"></canvas>
    <canvas ref=${overlay} class="overlay" tabindex="0" role="img" data-map="1"
      aria-label=${`Map of ${n} nodes. Arrow keys move it, plus and minus zoom. Every node can also be reached by search (key /) and in the table (key t).`}></canvas>
    ${!store.places && html`<p class="empty">Drawing a first map …</p>`}
    <${Legend} />
  </div>`;
}

function App() {
  const [, redraw] = useState(0);
  // Before anything is awaited: an effect runs after the next frame, and an answer that came earlier would never be drawn.
  useLayoutEffect(() => subscribe(() => redraw((count) => count + 1)), []);
  useLayoutEffect(() => {
    const pressed = (e) => keyPressed(e, () => map);
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  useLayoutEffect(() => {
    if (store.theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = store.theme;
    map?.restyle();
  }, [store.theme]);
  if (!store.state) return html`<p class="loading">${store.problem || "Opening the graph …"}</p>`;
  const go = { showNode: (node) => map?.showNode(node), showClass: (id) => map?.showClass(id), showNodes: (nodes) => map?.showNodes(nodes) };
  return html`<div class="app">
    <${Header} go=${go} />
    ${store.lost && html`<p class="banner" role="alert">The studio does not answer. Nothing is lost: start <code>naq studio</code> again, and this page goes on by itself
      once the new address was opened in this browser.</p>`}
    ${store.problem && html`<p class="banner" role="alert">${store.problem} <button onClick=${() => update({ problem: "" })}>Close</button></p>`}
    <main>
      <section class="stage" aria-label="Map and table">
        <${Toolbar} />
        <${MapPanel} />
        ${store.view === "table" ? html`<${Table} go=${go} />` : html`<${Zoom} map=${() => map} />`}
        <${SelectionBar} />
      </section>
      <aside aria-label="Node, classes and progress">
        <${Card} go=${go} />
        <${Classes} go=${go} />
        <${Progress} go=${go} />
      </aside>
    </main>
    <p class="live" role="status" aria-live="polite">${store.message}</p>
    <${Dialogs} />
  </div>`;
}

render(html`<${App} />`, document.getElementById("root"));
connect();
