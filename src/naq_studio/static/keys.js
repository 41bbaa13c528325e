// What keys do. Nothing here fires while someone types into a field.
import { acceptOne, clear, labelAs, none, otherLayout, redo, skip, store, toQueue, undo, unlabel, update } from "./store.js";

export const KEYS = [
  ["1 … 9", "label the chosen nodes with that class"],
  ["n", "name: make a new class, or find one by typing"],
  ["Enter", "accept the prediction of the node that is shown"],
  ["x", "belongs to none of the classes"],
  ["s", "skip the suggestion"],
  ["u", "remove the label"],
  ["Ctrl+Z, Ctrl+Y", "undo, redo"],
  ["/", "search by name or word"],
  ["q", "back to the suggestions"],
  ["Esc", "clear the selection"],
  ["l, v", "lasso, move; with the lasso Shift adds and Alt takes away"],
  ["Shift+click", "add one node to the selection"],
  ["k", "colour by class or by confidence"],
  ["e", "edges of what is in view"],
  ["p", "map by PaCMAP or PCA"],
  ["t", "table or map"],
  ["g, f", "go to the node, show everything"],
  ["Shift+1 … 9", "zoom to that class"],
  ["arrows, +, −", "move and zoom the map"],
  ["w", "save and export"],
  ["?", "this list"],
];

export function keyPressed(e, map) {
  const { target } = e;
  const typing = target.closest?.("input:not([type=checkbox]):not([type=range]), textarea, select");
  if (!store.state) return;
  if ((e.ctrlKey || e.metaKey) && !e.altKey) {
    const key = e.key.toLowerCase();
    if (typing && target.value) return;
    if (key === "z") { e.preventDefault(); e.shiftKey ? redo() : undo(); }
    if (key === "y") { e.preventDefault(); redo(); }
    return;
  }
  if (e.key === "Escape" && store.dialog) { update({ dialog: null }); return; }
  if (typing || e.altKey || store.dialog) return;
  if (/^Digit[1-9]$/.test(e.code) && (e.shiftKey || /^[1-9]$/.test(e.key))) {
    const place = Number(e.code.slice(5)) - 1, found = store.state.classes[place];
    e.preventDefault();
    if (!e.shiftKey) labelAs(place);
    else if (found) map()?.showClass(found.id);
    return;
  }
  if (/^Numpad[1-9]$/.test(e.code)) { labelAs(Number(e.code.slice(6)) - 1); return; }
  const onButton = target.closest?.("button, a, summary, [role=option]");
  const step = 60;
  const does = {
    n: () => document.getElementById("class-name")?.focus(),
    "/": () => document.getElementById("search")?.focus(),
    Enter: () => !onButton && acceptOne(),
    x: none, s: skip, u: unlabel, z: undo, y: redo, q: toQueue, Escape: clear,
    l: () => update({ tool: "lasso" }), v: () => update({ tool: "move" }),
    k: () => update({ colourBy: store.colourBy === "class" ? "sure" : "class" }),
    e: () => update({ edges: !store.edges }),
    p: otherLayout,
    t: () => !store.mapless && update({ view: store.view === "map" ? "table" : "map" }),
    g: () => map()?.showNode(store.current), f: () => map()?.showNodes(null),
    w: () => update({ dialog: "export" }), "?": () => update({ dialog: "help" }),
    "+": () => map()?.zoom(1.5), "=": () => map()?.zoom(1.5), "-": () => map()?.zoom(1 / 1.5),
  };
  if (target.dataset?.map || target === document.body) Object.assign(does, {
    ArrowLeft: () => map()?.pan(step, 0), ArrowRight: () => map()?.pan(-step, 0), ArrowUp: () => map()?.pan(0, step), ArrowDown: () => map()?.pan(0, -step),
  });
  const action = does[e.key] || (e.key.length === 1 ? does[e.key.toLowerCase()] : undefined);
  if (!action || e.repeat && "xsu".includes(e.key)) return;
  if (!(e.key === "Enter" && onButton)) e.preventDefault();
  action();
}
