// All that the page knows, in one place; components read it, actions change it.
import { getArrays, getJson, getLayout, listen, post } from "./api.js";

export const UNLABELLED = -3, OUTSIDE = -2, NONE = -1;

export const store = {
  state: null, names: [], given: null, predicted: null, sure: null, arraysVersion: -1, arraysOf: "",
  places: null, placesName: "", wantedLayout: "pacmap",
  titles: [], columns: new Map(), edges: false, edgesShown: null,
  table: { shown: [], filters: new Map(), by: "order", down: false, page: 0, show: "all" },
  selection: new Set(), current: -1, card: null, queueMode: true, queue: [],
  colourBy: "class", tool: "move", lassoMode: "replace", view: "map", focusClass: null, hovered: -1,
  dialog: null, check: null, message: "", problem: "", unreachable: false, lost: false, mapless: false, busy: 0,
  theme: localStorage.getItem("naq-theme") || "auto",
};
const listeners = new Set();
export const subscribe = (f) => { listeners.add(f); return () => listeners.delete(f); };

let queued = false;
export function update(patch) {
  Object.assign(store, patch);
  if (queued) return;
  queued = true;
  queueMicrotask(() => { queued = false; listeners.forEach((f) => f()); });
}

export const nodeName = (node) => store.names[node] || `node ${node}`;
export const classOf = (id) => store.state?.classes.find((one) => one.id === id);
export const className = (id) =>
  id === NONE || id === OUTSIDE ? "none of them" : classOf(id)?.name ?? "no class";
// The class a node counts for: the given one, else the predicted one.
export const effective = (node) => (store.given[node] !== UNLABELLED ? store.given[node] : store.predicted[node]);
export const targets = () => (store.selection.size ? [...store.selection] : store.current >= 0 ? [store.current] : []);

// ---- what comes from the server

// One question after the other, and once more if someone asked meanwhile.
let running = null, again = false, retry = 0;
export function refresh() {
  again = true;
  return (running ??= ask());
}

async function ask() {
  clearTimeout(retry);
  try {
    do {
      again = false;
      const asked = acts;
      await typing;
      const patch = await whatIsNew();
      // A state from before the last key would bring back the node that was just labelled.
      if (asked !== acts) { again = true; continue; }
      show(patch);
    } while (again);
  } catch (error) {
    update({ problem: error.message, unreachable: true });
    retry = setTimeout(refresh, 3000);
  } finally {
    running = null;
  }
}

async function whatIsNew() {
  const state = await getJson("/api/state");
  const patch = { state }, known = store.state?.start === state.start; // after a restart versions count from one again
  if (!known) {
    patch.names = state.graph.named ? await getJson("/api/names") : [];
    const { titles, shown } = await getJson("/api/columns");
    Object.assign(patch, { titles, columns: new Map(), table: { ...store.table, shown, filters: new Map(), by: "order" } });
  }
  const version = [state.start, state.version, state.answer, state.learned].join(" ");
  // While a prediction is under way, its answer brings everything at once.
  if (!known || store.given === null || (version !== store.arraysOf && !state.pending))
    Object.assign(patch, await getArrays(state.graph.nodes), { arraysVersion: state.answer ?? 0, arraysOf: version });
  const wanted = layoutOf(state);
  if (wanted && !(known && wanted === store.placesName)) {
    const places = await getLayout(wanted);
    if (wanted === layoutOf(state)) Object.assign(patch, { places, placesName: wanted });
  }
  return patch;
}

function show({ state, ...rest }) {
  if (store.state && store.state.graph.nodes !== state.graph.nodes) // another graph is served here now
    update({ selection: new Set(), current: -1, hovered: -1, focusClass: null, colourBy: "class" });
  const renewed = rest.given !== undefined;
  update({ state, ...rest, queue: inSight(state.queue, rest.given ?? store.given) });
  document.title = `${state.graph.name} · naq studio`;
  if (store.unreachable) update({ unreachable: false, problem: "" }); // a mistake that someone made stays in sight
  follow();
  if (store.current >= 0 && !state.pending && (renewed || !store.card)) loadCard(store.current);
}

// The suggestion that someone looks at stays the first, unless it was labelled elsewhere or a step was undone here.
let led = false;
function inSight(queue, given) {
  const { queueMode, current } = store;
  const stays = queueMode && !led && current >= 0 && given[current] === UNLABELLED;
  led = false;
  return stays ? [current, ...queue.filter((node) => node !== current)] : queue;
}

export function connect() {
  refresh();
  listen(refresh, (lost) => { if (lost !== store.lost) { update({ lost }); if (!lost) refresh(); } });
  // Progress has no events of its own while one phase goes on.
  setInterval(() => { if (store.state && !["ready", "failed"].includes(store.state.phase)) refresh(); }, 2000);
  // A reload takes along what was sent, but not the keys that wait behind it.
  addEventListener("beforeunload", (e) => { if (store.busy > 1) e.preventDefault(); });
}

// In the queue, the first of it is shown.
function follow() {
  if (!store.queueMode) return;
  const first = store.queue.length ? store.queue[0] : -1;
  if (first !== store.current) open(first);
}

function open(node) {
  update({ current: node, card: store.card?.node === node ? store.card : null });
  if (node >= 0) loadCard(node);
}

let cards = 0;
async function loadCard(node) {
  const own = ++cards;
  try {
    const card = await getJson(`/api/node/${node}`);
    if (own === cards && store.current === node) update({ card }); // not one that came late
  } catch (error) { update({ problem: error.message }); }
}

// The map to show: the one that was asked for, where it is there.
const layoutOf = (state) => [store.wantedLayout, "pacmap", "pca"].find((name) => state.layouts.includes(name));

export async function setLayout(name) {
  store.wantedLayout = name;
  if (!store.state.layouts.includes(name)) return;
  try {
    const places = await getLayout(name);
    if (store.wantedLayout === name) update({ places, placesName: name });
  } catch (error) { update({ problem: error.message }); }
}
export const otherLayout = () => setLayout(layoutOf(store.state) === "pacmap" ? "pca" : "pacmap");

// ---- choosing nodes

export function pick(node) {
  if (node < 0) { clear(); return; }
  update({ queueMode: false, selection: new Set([node]) });
  open(node);
}

export function toggle(node) {
  const selection = new Set(store.selection);
  selection.delete(node) || selection.add(node);
  update({ selection, queueMode: false });
  if (selection.has(node)) open(node);
}

// mode: replace, add or subtract
export function select(nodes, mode = "replace") {
  const selection = mode === "replace" ? new Set() : new Set(store.selection);
  for (const node of nodes) mode === "subtract" ? selection.delete(node) : selection.add(node);
  update({ selection, queueMode: false, message: `${selection.size.toLocaleString("en")} nodes selected.` });
  const only = selection.size === 1 ? [...selection][0] : -1;
  update({ current: only, card: null });
  if (only >= 0) loadCard(only);
}

// All nodes with a word.
export async function selectWord(id, mode) {
  try {
    const nodes = await getJson(`/api/word/${id}`);
    select(nodes, mode);
    return nodes;
  } catch (error) {
    update({ problem: error.message });
    return [];
  }
}

export function clear() { update({ selection: new Set() }); toQueue(); }

export function toQueue() {
  update({ queueMode: true, selection: new Set(), current: -1, card: null });
  follow();
}

// ---- actions

let typing = Promise.resolve(), acts = 0; // one after the other, in the order of the keys
function send(body, said) {
  acts++;
  update({ busy: store.busy + 1 });
  const sent = typing.then(() => post("/api/act", body)).then((done) => {
    update({ busy: store.busy - 1, message: said ?? "", problem: "" });
    return done;
  }, (error) => {
    update({ busy: store.busy - 1, problem: error.message, arraysOf: "" }); // what was painted is not so
    refresh();
    return null;
  });
  typing = sent;
  return sent;
}

// Shows a label before the server has answered; what it sends afterwards replaces it.
function paint(nodes, id) {
  if (!store.given) return;
  const given = store.given.slice();
  for (const node of nodes) given[node] = id;
  update({ given });
}

function advance(nodes) {
  const gone = new Set(nodes);
  update({ queue: store.queue.filter((node) => !gone.has(node)) });
  if (store.queueMode) follow();
  else if (store.selection.size > 1) update({ selection: new Set() }), toQueue();
}

const count = (nodes) => (nodes.length === 1 ? nodeName(nodes[0]) : `${nodes.length.toLocaleString("en")} nodes`);

export function label(id, nodes = targets()) {
  const found = classOf(id);
  if (!nodes.length || !found) return;
  performance.mark("naq-key");
  paint(nodes, id);
  send({ action: "label", nodes, class: id }, `${count(nodes)}: ${found.name}`);
  advance(nodes);
}

// Of a class that was made a moment ago this page may not have heard yet.
export async function labelAs(place) {
  const nodes = targets();
  if (!store.state.classes[place]) await refresh();
  const found = store.state.classes[place];
  if (found) label(found.id, nodes);
}

export function labelNew(name) {
  const nodes = targets();
  const found = store.state.classes.find((one) => one.name === name.trim());
  if (found && nodes.length) return label(found.id);
  if (!nodes.length) return send({ action: "make", name }, `Class ${name} made.`);
  const sent = send({ action: "label", nodes, new: name }, `${count(nodes)}: ${name} (new class)`);
  advance(nodes);
  return sent;
}

export function none() {
  const nodes = targets();
  if (!nodes.length) return;
  paint(nodes, NONE);
  send({ action: "none", nodes }, `${count(nodes)}: none of the classes`);
  advance(nodes);
}

export async function unlabel() {
  const nodes = targets();
  if (!nodes.length) return;
  paint(nodes, UNLABELLED);
  const done = await send({ action: "unlabel", nodes }, `${count(nodes)}: label removed`);
  if (done && done.changed !== nodes.length) update({ message: done.changed ? `${done.changed.toLocaleString("en")} labels removed` : "Nothing here has a label." });
}

export function skip() {
  const nodes = targets();
  if (!nodes.length || !store.queueMode) return;
  send({ action: "skip", nodes }, `${count(nodes)} skipped`);
  advance(nodes);
}

// A label that was doubted stays, and is not listed again.
export const keep = (node) => send({ action: "keep", nodes: [node] }, `${nodeName(node)}: label kept`);

export function acceptOne() {
  const nodes = targets();
  if (nodes.length !== 1 || store.predicted[nodes[0]] < 0) return;
  label(store.predicted[nodes[0]]);
}

// The server knows whether there is a step; this page may not have heard of the last one yet.
async function back(action, said) {
  led = true;
  const done = await send({ action }, said);
  if (done && !done.changed) update({ message: `There is nothing to ${action}.` });
}
export const undo = () => back("undo", "Undone.");
export const redo = () => back("redo", "Done again.");
export const act = (body, said) => send(body, said);

// Classes by name, one per line; dry: only whether they can be read. What is wrong is for the one who asked.
export async function expect(text, dry) {
  await typing;
  acts++;
  const done = await post("/api/act", { action: "expect", text, dry });
  if (!dry) update({ message: "The map takes colour by the names of the classes.", problem: "" });
  return done;
}

// Sure predictions become labels in two steps: some of them are looked at first.
export async function spotCheck(asked) {
  await typing;
  acts++;
  const done = await post("/api/check", asked);
  if (done.said) update({ message: done.said, problem: "" });
  return done;
}

export async function importText(text) {
  try {
    const done = await post("/api/import", { text });
    update({ message: `${done.changed} labels imported.`, imported: done, problem: "" });
  } catch (error) { update({ problem: error.message }); }
}

export function setTheme(theme) {
  localStorage.setItem("naq-theme", theme);
  update({ theme });
}
