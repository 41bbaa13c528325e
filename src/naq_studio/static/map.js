// The map: a camera over the points, a canvas above them for edges, names and the lasso, and what mouse, touch and keys do.
import { Points } from "./gl.js";
import { PixelPoints } from "./pixels.js";
import { Grid } from "./grid.js";
import { getEdges, getJson } from "./api.js";
import { colouring, written } from "./columns.js";
import { paletteBytes, looksOf, rgb, scaled } from "./looks.js";
import { classOf, effective, nodeName, className, pick, select, store, toggle, update, UNLABELLED } from "./store.js";

const MOST_NAMES = 12; // of regions in view
const CLOSE = 2; // from this scale on, words of regions are shown between names of classes
const REST = 150; // milliseconds without a move until edges are asked for, or the text of a node that is pointed at
const SLOW = 28; // milliseconds per frame beyond which fewer points are drawn while the map moves

export class MapView {
  constructor(canvas, overlay) {
    this.canvas = canvas;
    this.overlay = overlay;
    this.points = (Points.possible() && Points.on(canvas)) || new PixelPoints(canvas);
    this.software = this.points instanceof PixelPoints;
    this.camera = { x: 0, y: 0, scale: 0.9 };
    this.seen = {};
    this.pointers = new Map();
    this.lasso = null;
    this.frames = [];
    this.every = 1;
    this.colours = {};
    canvas.addEventListener("webglcontextlost", (e) => { e.preventDefault(); update({ mapless: true, view: "table" }); });
    new ResizeObserver(() => { this.resize(); this.wake(); }).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.restyle());
    for (const [name, action] of [["pointerdown", this.down], ["pointermove", this.move], ["pointerup", this.up], ["pointercancel", this.up],
      ["wheel", this.wheel], ["dblclick", this.closer], ["pointerleave", this.leave]])
      overlay.addEventListener(name, action.bind(this), { passive: false });
    this.resize();
    this.restyle();
  }

  restyle() {
    const style = getComputedStyle(this.canvas);
    this.colours = Object.fromEntries(["ground", "ink", "soft", "accent"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.seen.palette = null;
    this.wake();
  }

  resize() {
    const box = this.canvas.parentElement.getBoundingClientRect();
    this.width = Math.max(1, box.width);
    this.height = Math.max(1, box.height);
    this.density = Math.min(2, devicePixelRatio || 1);
    if (this.software) this.density /= PixelPoints.coarser(this.width * this.density, this.height * this.density);
    for (const one of this.software ? [this.canvas] : [this.canvas, this.overlay]) {
      one.width = Math.round(this.width * this.density);
      one.height = Math.round(this.height * this.density);
    }
  }

  // ---- drawing

  wake() {
    if (this.awake) return;
    this.awake = true;
    requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.awake = false;
    const began = performance.now();
    this.sync();
    this.animate(now);
    const { points, camera } = this;
    const [sx, sy] = this.scales();
    const moving = this.goal || (this.pointers.size && !this.lasso) || now - (this.wheeled || 0) < 200;
    points.draw({
      camera: [sx, sy, -camera.x * sx, -camera.y * sy],
      size: this.pointSize() * this.density,
      density: this.density,
      mode: scaled() ? 1 : 0,
      ground: rgb(this.colours.ground).map((one) => one / 255),
      every: moving ? Math.round(this.every) : 1,
      moving,
    });
    if (!moving) this.askEdges();
    this.drawOverlay();
    if (this.measuring && points.gl) points.gl.readPixels(0, 0, 1, 1, points.gl.RGBA, points.gl.UNSIGNED_BYTE, new Uint8Array(4));
    if (moving && this.last && now - this.last < 200) {
      const took = now - this.last;
      if (took > SLOW) this.every = Math.min(5, this.every * 1.15);
      else if (took < 20) this.every = Math.max(1, this.every * 0.95);
    }
    this.last = now;
    this.frames.push({ at: now, took: performance.now() - began });
    if (this.frames.length > 600) this.frames.splice(0, 300);
    if (this.seen.drawn !== store.arraysVersion) {
      this.seen.drawn = store.arraysVersion;
      document.body.dataset.drawn = String(store.arraysVersion);
      requestAnimationFrame(() => { this.drawnAt = performance.now(); });
    }
    if (this.points.moved < 1 || this.goal || (moving && (this.every > 1 || store.edges))) this.wake();
  }

  // Whatever changed in the store goes to the graphics card.
  sync() {
    const { seen, points } = this;
    if (!store.places || !store.given) return;
    if (seen.places !== store.places) {
      const before = seen.places && seen.places.length === store.places.length ? seen.places : store.places;
      points.setPlaces(before, store.places);
      points.moved = before === store.places || matchMedia("(prefers-reduced-motion: reduce)").matches ? 1 : 0;
      this.grid = new Grid(store.places);
      if (!seen.places) this.fit();
      seen.places = store.places;
      seen.centres = null;
      this.askRegions();
    }
    const theme = this.colours.ground;
    if (seen.palette !== theme) {
      points.setPalette(paletteBytes(store.state.colours, this.colours.soft));
      seen.palette = theme;
    }
    const key = [store.given, store.predicted, store.sure, store.selection, store.current, store.focusClass, store.state.classes, store.colourBy, colouring()];
    if (!seen.looks || key.some((one, i) => one !== seen.looks[i])) {
      const { looks, special } = looksOf();
      points.setLooks(looks, special);
      if (!seen.looks || key[0] !== seen.looks[0] || key[1] !== seen.looks[1]) seen.centres = null;
      seen.looks = key;
    }
  }

  animate(now) {
    if (this.points.moved < 1) {
      this.began ??= now;
      const part = Math.min(1, (now - this.began) / 700);
      this.points.moved = part * part * (3 - 2 * part);
      if (part === 1) this.began = undefined;
    }
    if (!this.goal) return;
    const part = Math.min(1, (now - (this.goal.began ??= now)) / 350), ease = part * part * (3 - 2 * part);
    const { from, to } = this.goal;
    this.camera = { x: from.x + (to.x - from.x) * ease, y: from.y + (to.y - from.y) * ease, scale: from.scale * (to.scale / from.scale) ** ease };
    if (part === 1) this.goal = null;
  }

  pointSize() {
    const n = store.places ? store.places.length / 2 : 1;
    const base = Math.max(2, Math.min(9, 420 / Math.sqrt(n)));
    return Math.min(14, base * Math.max(1, this.camera.scale) ** 0.45);
  }

  scales() {
    const least = Math.min(this.width, this.height);
    return [(this.camera.scale * least) / this.width, (this.camera.scale * least) / this.height];
  }

  toScreen(x, y) {
    const [sx, sy] = this.scales();
    return [((x - this.camera.x) * sx + 1) * 0.5 * this.width, (1 - (y - this.camera.y) * sy) * 0.5 * this.height];
  }

  toMap(px, py) {
    const [sx, sy] = this.scales();
    return [((px / this.width) * 2 - 1) / sx + this.camera.x, (1 - (py / this.height) * 2) / sy + this.camera.y];
  }

  placeOf(node) { return this.toScreen(store.places[2 * node], store.places[2 * node + 1]); }

  drawOverlay() {
    const c = this.software ? this.points.context : this.overlay.getContext("2d"); // one canvas is composed faster than two
    c.setTransform(this.density, 0, 0, this.density, 0, 0);
    if (!this.software) c.clearRect(0, 0, this.width, this.height);
    if (!store.places || this.points.moved < 1) return;
    const { ink, soft, ground, accent } = this.colours;
    if (store.current >= 0) this.drawCurrent(c, ink, soft);
    this.drawNames(c, ink, ground);
    if (store.hovered >= 0) this.drawHovered(c, ink, ground);
    if (this.lasso) {
      c.beginPath();
      this.lasso.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y)));
      c.closePath();
      c.fillStyle = accent; c.globalAlpha = 0.12; c.fill();
      c.globalAlpha = 1; c.strokeStyle = accent; c.lineWidth = 2; c.setLineDash([6, 4]); c.stroke(); c.setLineDash([]);
    }
  }

  drawCurrent(c, ink, soft) {
    const [x, y] = this.placeOf(store.current);
    if (store.card?.node === store.current) {
      c.strokeStyle = soft;
      c.globalAlpha = store.card.edges.length > 200 ? 0.25 : 0.55;
      c.lineWidth = 1;
      c.beginPath();
      for (const other of store.card.edges) { const [ox, oy] = this.placeOf(other); c.moveTo(x, y); c.lineTo(ox, oy); }
      c.stroke();
      c.globalAlpha = 1;
    }
    const reach = this.pointSize() * 1.4 + 6;
    c.strokeStyle = ink; c.lineWidth = 2;
    c.beginPath(); c.arc(x, y, reach, 0, 7); c.stroke();
    c.beginPath();
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) { c.moveTo(x + dx * reach, y + dy * reach); c.lineTo(x + dx * (reach + 5), y + dy * (reach + 5)); }
    c.stroke();
  }

  // Names of classes in the middle of their surest nodes; then words of regions, the largest first, where there is room.
  drawNames(c, ink, ground) {
    this.seen.centres ??= this.centres();
    const byClass = store.colourBy === "class" && this.seen.centres.length > 0;
    const names = byClass ? this.seen.centres.map(({ id, x, y }) => ({ id, x, y, name: classOf(id)?.name })) : [];
    const regions = (byClass && this.camera.scale < CLOSE ? [] : this.regions ?? []).map(([x, y, , name]) => ({ x, y, name }));
    const taken = [], said = new Set();
    c.textAlign = "center"; c.textBaseline = "middle"; c.lineJoin = "round";
    for (const { id, x, y, name } of [...names, ...regions]) {
      if (!name || said.has(name) || (id === undefined && said.size >= MOST_NAMES)) continue;
      if (store.focusClass !== null && store.focusClass !== id) continue;
      const [px, py] = this.toScreen(x, y);
      c.font = id === undefined ? "italic 12px system-ui, sans-serif" : "600 13px system-ui, sans-serif";
      const text = name.length > 28 ? name.slice(0, 27) + "…" : name, half = c.measureText(text).width / 2 + 4, room = id === undefined ? 14 : 0;
      if (px < half || px > this.width - half || py < 10 || py > this.height - 10) continue;
      if (taken.some(([l, r, v]) => px - half - room < r && px + half + room > l && Math.abs(v - py) < 16 + room)) continue;
      taken.push([px - half, px + half, py]);
      said.add(name);
      this.text(c, text, px, py, ink, ground);
    }
  }

  text(c, text, x, y, ink, ground) {
    c.strokeStyle = ground; c.lineWidth = 4; c.globalAlpha = 0.85; c.strokeText(text, x, y);
    c.globalAlpha = 1; c.fillStyle = ink; c.fillText(text, x, y);
  }

  // Its name and class, and below its value in the column that gives the colours, or the first words of its text.
  drawHovered(c, ink, ground) {
    const node = store.hovered, [x, y] = this.placeOf(node);
    const id = effective(node), one = colouring();
    const what = id >= 0 ? `  ·  ${className(id)}${store.given[node] === UNLABELLED ? ` ${Math.round(store.sure[node] / 2.55)} %` : " (label)"}` : "";
    const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
    const value = one ? `${cut(one.title, 30)}: ${one.values && written(one, one.values[node]) || "–"}` : this.hint?.node === node ? this.hint.text : "";
    const lines = [cut(nodeName(node), 50) + what, ...(value && value !== nodeName(node) ? [cut(value, 80)] : [])];
    c.font = "13px system-ui, sans-serif"; c.textBaseline = "middle"; c.textAlign = "left";
    const wide = Math.min(this.width - 8, Math.max(...lines.map((line) => c.measureText(line).width)) + 16), tall = 6 + 18 * lines.length;
    const left = Math.max(4, Math.min(this.width - wide - 4, x + 12)), top = Math.max(4, y - 10 - tall);
    c.fillStyle = ink; c.beginPath(); c.roundRect(left, top, wide, tall, 5); c.fill();
    c.fillStyle = ground;
    lines.forEach((line, i) => c.fillText(line, left + 8, top + 12.5 + 18 * i, wide - 16));
  }

  // The text of the node that is pointed at, once the pointer rests.
  askHint(node) {
    clearTimeout(this.hintTimer);
    if (node < 0 || !store.state.graph.texts || this.hint?.node === node) return;
    this.hintTimer = setTimeout(async () => {
      try { this.hint = { node, text: await getJson(`/api/text/${node}`) }; } catch { return; } // a hint is not worth a message
      this.wake();
    }, REST);
  }

  async askRegions() {
    const { places, placesName } = store;
    this.regions = null;
    try {
      const found = await getJson(`/api/regions/${placesName}`);
      if (store.places === places) { this.regions = found; this.wake(); }
    } catch { /* a map without words is a map */ }
  }

  // The edges of what is in view, once the camera rests.
  askEdges() {
    const box = [...this.toMap(0, this.height), ...this.toMap(this.width, 0)];
    const key = store.edges && store.places && !this.goal ? `${store.state.start} ${store.placesName} ${box.map((one) => one.toFixed(4))}` : "";
    if (key === this.edgesFor) return;
    this.edgesFor = key;
    clearTimeout(this.edgesTimer);
    if (!key) {
      this.points.setEdges(new Uint32Array(0));
      if (store.edgesShown) update({ edgesShown: null });
      this.wake();
      return;
    }
    this.edgesTimer = setTimeout(async () => {
      try {
        const { ends, total } = await getEdges(store.placesName, box);
        if (this.edgesFor !== key) return;
        this.points.setEdges(ends);
        update({ edgesShown: { shown: ends.length / 2, total } });
        this.wake();
      } catch (error) { update({ problem: error.message, edges: false }); }
    }, REST);
  }

  // Where each class is densest, among its labels and its surest nodes.
  centres() {
    const cells = new Map(), n = store.given.length;
    for (let i = 0; i < n; i++) {
      const id = effective(i), own = store.given[i] >= 0;
      if (id < 0 || (!own && store.sure[i] < 128)) continue;
      const x = store.places[2 * i], y = store.places[2 * i + 1];
      const key = id * 4096 + Math.floor((x + 1.2) * 7) * 64 + Math.floor((y + 1.2) * 7);
      let cell = cells.get(key);
      if (!cell) cells.set(key, (cell = { id, weight: 0, x: 0, y: 0, mass: 0 }));
      const mass = own ? 1 : store.sure[i] / 255;
      cell.weight += mass; cell.mass += mass; cell.x += mass * x; cell.y += mass * y;
    }
    const best = new Map();
    for (const cell of cells.values()) if (cell.weight > (best.get(cell.id)?.weight ?? 0)) best.set(cell.id, cell);
    return [...best.values()].map(({ id, x, y, mass }) => ({ id, x: x / mass, y: y / mass }));
  }

  // ---- the camera

  goTo(to) {
    store.hovered = -1;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (calm) { this.camera = to; this.goal = null; } else this.goal = { from: { ...this.camera }, to };
    this.wake();
  }

  fit() {
    this.camera = { x: 0, y: 0, scale: 0.9 };
    this.goal = null;
    if (store.places) this.showNodes(null, false);
  }

  // All of some nodes in view; of all nodes without an argument.
  showNodes(nodes, moving = true) {
    if (!store.places) return;
    const p = store.places, xs = [], ys = [];
    const n = nodes ? nodes.length : p.length / 2, step = Math.max(1, Math.floor(n / 20000));
    for (let k = 0; k < n; k += step) { const i = nodes ? nodes[k] : k; xs.push(p[2 * i]); ys.push(p[2 * i + 1]); }
    if (!xs.length) return;
    const [x0, x1] = range(xs, nodes ? 0.02 : 0), [y0, y1] = range(ys, nodes ? 0.02 : 0), least = Math.min(this.width, this.height);
    const above = Math.min(80, this.height / 5); // room for the tools
    const scale = Math.min(60, 0.92 * Math.min((2 * this.width) / least / Math.max(0.05, x1 - x0), (2 * (this.height - above)) / least / Math.max(0.05, y1 - y0)));
    const to = { x: (x0 + x1) / 2, y: (y0 + y1) / 2 + above / least / scale, scale };
    if (moving) this.goTo(to);
    else { this.camera = to; this.wake(); }
  }

  showClass(id) {
    const nodes = [];
    for (let i = 0; i < store.given.length; i++) if (effective(i) === id) nodes.push(i);
    if (nodes.length) this.showNodes(nodes);
  }

  showNode(node) {
    if (!store.places || node < 0) return;
    const scale = Math.max(this.camera.scale, 3);
    this.goTo({ x: store.places[2 * node], y: store.places[2 * node + 1], scale });
  }

  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const [x, y] = this.toMap(px, py);
    this.camera = { ...this.camera, scale: Math.max(0.2, Math.min(400, this.camera.scale * factor)) };
    const [nx, ny] = this.toMap(px, py);
    this.camera = { ...this.camera, x: this.camera.x + x - nx, y: this.camera.y + y - ny };
    this.goal = null;
    this.wheeled = performance.now();
    this.wake();
  }

  pan(dx, dy) {
    const [sx, sy] = this.scales();
    this.camera = { ...this.camera, x: this.camera.x - (2 * dx) / this.width / sx, y: this.camera.y + (2 * dy) / this.height / sy };
    this.goal = null;
    this.wheeled = performance.now();
    this.wake();
  }

  // ---- mouse and touch

  at(e) {
    const box = this.overlay.getBoundingClientRect();
    return [e.clientX - box.left, e.clientY - box.top];
  }

  nodeAt(px, py, reach = 12) {
    if (!this.grid) return -1;
    const [x, y] = this.toMap(px, py), [ex] = this.toMap(px + reach, py);
    return this.grid.nearest(x, y, Math.abs(ex - x));
  }

  down(e) {
    if (e.button > 0) return;
    this.overlay.setPointerCapture(e.pointerId);
    this.pointers.set(e.pointerId, { at: this.at(e), from: this.at(e) });
    if (store.tool === "lasso" && this.pointers.size === 1) this.lasso = [this.at(e)];
    if (this.pointers.size > 1) this.lasso = null;
  }

  move(e) {
    const [px, py] = this.at(e), held = this.pointers.get(e.pointerId);
    if (!held) {
      const hovered = this.nodeAt(px, py);
      if (hovered !== store.hovered) { store.hovered = hovered; this.askHint(hovered); this.wake(); }
      this.overlay.style.cursor = store.tool === "lasso" ? "crosshair" : hovered >= 0 ? "pointer" : "grab";
      return;
    }
    const [ox, oy] = held.at;
    held.at = [px, py];
    if (this.lasso) { this.lasso.push([px, py]); this.wake(); return; }
    if (this.pointers.size === 2) {
      const other = [...this.pointers].find(([id]) => id !== e.pointerId)[1].at;
      const before = Math.hypot(ox - other[0], oy - other[1]), after = Math.hypot(px - other[0], py - other[1]);
      this.zoom(after / Math.max(1, before), (px + other[0]) / 2, (py + other[1]) / 2);
      this.pan((px - ox) / 2, (py - oy) / 2);
      return;
    }
    this.pan(px - ox, py - oy);
  }

  up(e) {
    const held = this.pointers.get(e.pointerId);
    this.pointers.delete(e.pointerId);
    if (!held) return;
    const [px, py] = held.at, far = Math.hypot(px - held.from[0], py - held.from[1]);
    const lasso = this.lasso;
    this.lasso = null;
    this.wake();
    if (e.type === "pointercancel") return;
    if (lasso && lasso.length > 3 && this.grid && (far > 4 || lasso.some(([x, y]) => Math.hypot(x - held.from[0], y - held.from[1]) > 12))) {
      const mode = e.altKey ? "subtract" : e.shiftKey ? "add" : store.lassoMode;
      select(this.grid.inside(lasso.map(([x, y]) => this.toMap(x, y))), mode);
    } else if (far <= 4 && !this.pointers.size) {
      const node = this.nodeAt(px, py, e.pointerType === "touch" ? 22 : 12);
      if (node >= 0) e.shiftKey ? toggle(node) : pick(node);
    }
  }

  leave() { if (store.hovered >= 0) { store.hovered = -1; this.wake(); } }

  wheel(e) {
    e.preventDefault();
    const [px, py] = this.at(e);
    this.zoom(Math.exp(-Math.max(-60, Math.min(60, e.deltaY)) * 0.004), px, py);
  }

  closer(e) {
    const [px, py] = this.at(e);
    if (store.tool === "move") this.zoom(2, px, py);
  }
}

function range(values, trim) {
  values.sort((a, b) => a - b);
  const cut = Math.floor(values.length * trim);
  return [values[cut], values[values.length - 1 - cut]];
}
