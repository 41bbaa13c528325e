// The map in a notebook: the studio's own, fed by a model of anywidget in place of a server (naq_studio/widget.py).
import { MapView } from "./map.js";
import { clear, select, store, subscribe, update } from "./store.js";

// Bytes as they were sent, from their first one on: arrays of numbers need that.
const bytes = (view) => view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);

function read(model) {
  const state = model.get("state"), n = state.graph.nodes, arrays = bytes(model.get("arrays"));
  return {
    state, names: model.get("names"), placesName: "pacmap", queueMode: false,
    given: new Int16Array(arrays, 0, n), predicted: new Int16Array(arrays, 2 * n, n), sure: new Uint8Array(arrays, 4 * n, n),
  };
}

const same = (nodes) => nodes.length === store.selection.size && nodes.every((node) => store.selection.has(node));

function part(kind, parent, values = {}) {
  const made = Object.assign(document.createElement(kind), values);
  parent.append(made);
  return made;
}

function render({ model, el }) {
  const root = part("div", el, { className: "naq-map" }), tools = part("div", root, { className: "naq-tools" });
  const stage = part("div", root, { className: "naq-stage" });
  const canvas = part("canvas", stage), overlay = part("canvas", stage, { className: "naq-overlay", tabIndex: 0 });
  overlay.setAttribute("role", "img");
  overlay.setAttribute("aria-label", `Map of ${model.get("state").graph.nodes.toLocaleString("en")} nodes`);
  const button = (name, action) => part("button", tools, { type: "button", textContent: name, onclick: action });
  const modes = { move: button("Move", () => update({ tool: "move" })), lasso: button("Lasso", () => update({ tool: "lasso" })) };
  button("Show all", () => map?.showNodes(null));
  button("Select none", clear);
  const said = part("span", tools);
  said.setAttribute("role", "status");
  let map = null, shown = null;

  const show = () => update(read(model));
  const choose = () => { const nodes = model.get("selected"); if (!same(nodes)) select(nodes); };
  const draw = () => {
    for (const [name, one] of Object.entries(modes)) one.setAttribute("aria-pressed", String(store.tool === name));
    said.textContent = `${store.selection.size.toLocaleString("en")} selected`;
    map?.wake();
    if (shown === store.selection) return;
    shown = store.selection;
    if (same(model.get("selected"))) return;
    model.set("selected", [...shown].sort((a, b) => a - b));
    model.save_changes();
  };
  update({ places: new Float32Array(bytes(model.get("places"))), selection: new Set(model.get("selected")) });
  show();
  const forget = subscribe(draw);
  model.on("change:arrays", show);
  model.on("change:selected", choose);
  overlay.addEventListener("keydown", (e) => { if (e.key === "Escape") clear(); });
  // A camera needs the size of its picture, which is 0 until the cell's output is shown.
  const sized = new ResizeObserver(() => {
    if (map || !stage.clientWidth) return;
    map = new MapView(canvas, overlay);
    root.naq = { map, store };
    draw();
  });
  sized.observe(stage);
  return () => {
    sized.disconnect();
    forget();
    model.off("change:arrays", show);
    model.off("change:selected", choose);
  };
}

export default { render };
