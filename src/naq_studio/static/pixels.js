// Points pixel by pixel in plain JavaScript, for browsers without a graphics card: there this is many times faster than WebGL in software. Same methods as Points in gl.js.

import { veilOf } from "./gl.js";

const WHILE_MOVING = 4000; // edges
const LIMIT = 3_000_000; // pixels of the picture at most; larger windows are drawn coarser

// Distance from the middle of a shape, 1 at its rim; x, y from -1 to 1, y down. As in gl.js.
const SHAPES = [
  (x, y) => Math.hypot(x, y),
  (x, y) => Math.max(Math.abs(x), Math.abs(y)) * 1.18,
  (x, y) => Math.max(Math.abs(x) * 1.8 - y, y * 1.2),
  (x, y) => (Math.abs(x) + Math.abs(y)) * 1.02,
  (x, y) => Math.min(Math.max(Math.abs(x), Math.abs(y) * 2.6), Math.max(Math.abs(x) * 2.6, Math.abs(y))) * 1.05,
];

export class PixelPoints {
  constructor(canvas) {
    Object.assign(this, { canvas, n: 0, moved: 1, ends: new Uint32Array(0), colours: new Uint32Array(0), key: "", stamps: new Map() });
    this.context = canvas.getContext("2d", { alpha: false });
  }

  // How much coarser than the window the picture is.
  static coarser(width, height) { return Math.max(1, Math.sqrt((width * height) / LIMIT)); }

  setPalette(bytes) { this.palette = bytes; this.key = ""; }

  setPlaces(before, place) { Object.assign(this, { before, place, n: place.length / 2 }); }

  setLooks(looks, special) { Object.assign(this, { looks, special, key: "" }); }

  setEdges(ends) { this.ends = ends; }

  draw({ camera, size, density, mode, ground, every, moving }) {
    const { canvas, context } = this, { width, height } = canvas;
    if (this.image?.width !== width || this.image?.height !== height) {
      this.image = new ImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    const paper = pack(ground.map((one) => Math.round(255 * one)));
    this.pixels.fill(paper);
    if (this.n && this.looks) {
      const key = `${mode} ${ground}`;
      if (this.key !== key) { this.colour(mode, ground); this.key = key; }
      this.project(camera, width, height);
      if (this.ends.length && this.moved === 1) this.drawEdges(camera, moving ? 2 * WHILE_MOVING : this.ends.length, width, height);
      this.drawAll(Math.max(1, Math.round(size)), every, width, height);
      this.drawSpecial(size, density, ground, width, height);
    }
    context.putImageData(this.image, 0, 0);
  }

  // One packed colour per point.
  colour(mode, ground) {
    const { looks, palette, n } = this, paper = ground.map((one) => 255 * one);
    if (this.colours.length !== n) this.colours = new Uint32Array(n);
    const known = new Map();
    for (let i = 0, k = 0; i < n; i++, k += 4) {
      const flags = looks[k + 3] & 5, key = looks[k] | (looks[k + 2] << 8) | (flags << 16);
      let found = known.get(key);
      if (found === undefined) {
        const row = mode === 1 && looks[k] !== 255 ? 1024 + 4 * looks[k + 2] : 4 * looks[k];
        const strength = row >= 1024 || flags & 1 ? 1 : 0.3 + (0.7 * looks[k + 2]) / 255;
        const part = flags & 4 ? 0.12 * strength : strength;
        found = pack([0, 1, 2].map((c) => Math.round(paper[c] + (palette[row + c] - paper[c]) * part)));
        known.set(key, found);
      }
      this.colours[i] = found;
    }
  }

  // Places on the screen, in pixels; x is -1 for what is out of sight.
  project([sx, sy, tx, ty], width, height) {
    if (!this.xs || this.xs.length !== this.n) { this.xs = new Int32Array(this.n); this.ys = new Int32Array(this.n); }
    const { xs, ys, before, place, moved } = this, still = 1 - moved;
    for (let i = 0; i < this.n; i++) {
      let x = place[2 * i], y = place[2 * i + 1];
      if (moved < 1) { x = x * moved + before[2 * i] * still; y = y * moved + before[2 * i + 1] * still; }
      const px = ((x * sx + tx + 1) * 0.5 * width) | 0, py = ((1 - y * sy - ty) * 0.5 * height) | 0;
      const seen = px >= 0 && py >= 0 && px < width && py < height;
      xs[i] = seen ? px : -1;
      ys[i] = py;
    }
  }

  // Lines of one pixel under the points, cut at the sides of the picture.
  drawEdges([sx, sy, tx, ty], most, width, height) {
    const { ends, place, pixels, palette } = this, own = pack(palette.slice(4 * 255, 4 * 255 + 3)), cover = Math.round(255 * veilOf(ends.length / 2));
    const across = (i) => (place[2 * i] * sx + tx + 1) * 0.5 * width, down = (i) => (1 - place[2 * i + 1] * sy - ty) * 0.5 * height;
    for (let e = 0; e < Math.min(most, ends.length); e += 2) {
      const x = across(ends[e]), y = down(ends[e]), dx = across(ends[e + 1]) - x, dy = down(ends[e + 1]) - y;
      let from = 0, to = 1; // the part inside (Liang, Barsky 1984)
      for (const [step, room] of [[-dx, x], [dx, width - 1 - x], [-dy, y], [dy, height - 1 - y]]) {
        if (step < 0) from = Math.max(from, room / step);
        else if (step > 0) to = Math.min(to, room / step);
        else if (room < 0) to = -1;
      }
      const count = Math.ceil(Math.max(Math.abs(dx), Math.abs(dy)) * (to - from));
      for (let k = 0; k <= count; k++) {
        const t = count ? from + ((to - from) * k) / count : from;
        const at = ((y + t * dy) | 0) * width + ((x + t * dx) | 0);
        pixels[at] = blended(pixels[at], own, cover);
      }
    }
  }

  drawAll(size, every, width, height) {
    const { xs, ys, colours, pixels, looks, n } = this;
    if (size <= 4) {
      const half = (size - 1) >> 1;
      for (let i = 0; i < n; i += every) {
        if (xs[i] < 0) continue;
        const left = xs[i] - half, top = ys[i] - half, right = Math.min(width, left + size), bottom = Math.min(height, top + size), own = colours[i];
        for (let y = Math.max(0, top); y < bottom; y++) for (let x = Math.max(0, left), at = y * width; x < right; x++) pixels[at + x] = own;
      }
      return;
    }
    for (let i = 0; i < n; i += every) if (xs[i] >= 0) this.stamp(looks[4 * i + 1], size, xs[i], ys[i], colours[i], width, height);
  }

  // Labels and the selection, larger and with a rim, above all others.
  drawSpecial(size, density, ground, width, height) {
    const { special, looks, colours } = this, light = 0.3 * ground[0] + 0.6 * ground[1] + 0.1 * ground[2] > 0.5;
    for (const i of special) {
      if (this.xs[i] < 0) continue;
      const flags = looks[4 * i + 3], given = flags & 1, chosen = flags & 2, own = colours[i];
      const wide = Math.round(given ? Math.max(size * 2, 9 * density) : Math.max(size * 1.3, 5 * density));
      const [r, g, b] = [own & 255, (own >> 8) & 255, (own >> 16) & 255];
      const rim = chosen ? pack(light ? [0, 0, 0] : [255, 255, 255]) : pack([r, g, b].map((one) => Math.round(light ? one * 0.45 : one + (255 - one) * 0.65)));
      this.stamp(looks[4 * i + 1], wide + 2, this.xs[i], this.ys[i], rim, width, height);
      this.stamp(looks[4 * i + 1], wide - (given ? 2 : 0), this.xs[i], this.ys[i], own, width, height);
    }
  }

  stamp(shape, size, px, py, colour, width, height) {
    const key = shape * 64 + Math.min(63, size);
    let mask = this.stamps.get(key);
    if (!mask) this.stamps.set(key, (mask = masked(SHAPES[shape] ?? SHAPES[0], Math.min(63, size))));
    const { pixels } = this;
    for (let k = 0; k < mask.length; k += 3) {
      const x = px + mask[k], y = py + mask[k + 1], cover = mask[k + 2];
      if (x < 0 || y < 0 || x >= width || y >= height) continue;
      const at = y * width + x;
      pixels[at] = cover === 255 ? colour : blended(pixels[at], colour, cover);
    }
  }
}

const pack = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

function blended(under, over, cover) {
  const rest = 255 - cover;
  const mix = (shift) => ((((under >> shift) & 255) * rest + ((over >> shift) & 255) * cover) / 255) | 0;
  return ((255 << 24) | (mix(16) << 16) | (mix(8) << 8) | mix(0)) >>> 0;
}

// (dx, dy, cover of 255) for every pixel that a shape touches.
function masked(shape, size) {
  const found = [], half = size / 2, reach = Math.ceil(half), soft = 2 / size;
  for (let dy = -reach; dy <= reach; dy++) for (let dx = -reach; dx <= reach; dx++) {
    const far = shape(dx / half, dy / half), cover = Math.max(0, Math.min(1, (1 + soft / 2 - far) / soft));
    if (cover > 0.02) found.push(dx, dy, cover > 0.98 ? 255 : Math.round(255 * cover));
  }
  return Int16Array.from(found);
}
