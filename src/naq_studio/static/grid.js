// Nodes by place: who is near a point, who is inside a polygon.

export class Grid {
  constructor(places) {
    this.places = places;
    const n = places.length / 2;
    this.side = Math.max(1, Math.min(256, Math.ceil(Math.sqrt(n / 4))));
    this.low = [Infinity, Infinity];
    const high = [-Infinity, -Infinity];
    for (let i = 0; i < 2 * n; i++) {
      const axis = i & 1;
      if (places[i] < this.low[axis]) this.low[axis] = places[i];
      if (places[i] > high[axis]) high[axis] = places[i];
    }
    this.size = [0, 1].map((axis) => Math.max(1e-9, (high[axis] - this.low[axis]) / this.side) * 1.0001);
    const cells = new Uint32Array(n);
    this.start = new Uint32Array(this.side * this.side + 1);
    for (let i = 0; i < n; i++) {
      cells[i] = this.cell(places[2 * i], 0) + this.side * this.cell(places[2 * i + 1], 1);
      this.start[cells[i] + 1]++;
    }
    for (let c = 0; c < this.side * this.side; c++) this.start[c + 1] += this.start[c];
    const next = this.start.slice();
    this.nodes = new Uint32Array(n);
    for (let i = 0; i < n; i++) this.nodes[next[cells[i]]++] = i;
  }

  cell(value, axis) {
    return Math.max(0, Math.min(this.side - 1, Math.floor((value - this.low[axis]) / this.size[axis])));
  }

  *within(x0, y0, x1, y1) {
    for (let row = this.cell(y0, 1); row <= this.cell(y1, 1); row++)
      for (let column = this.cell(x0, 0); column <= this.cell(x1, 0); column++) {
        const c = column + this.side * row;
        for (let k = this.start[c]; k < this.start[c + 1]; k++) {
          const i = this.nodes[k], x = this.places[2 * i], y = this.places[2 * i + 1];
          if (x >= x0 && x <= x1 && y >= y0 && y <= y1) yield i;
        }
      }
  }

  // The nearest node within a distance, or -1.
  nearest(x, y, reach) {
    let best = -1, least = reach * reach;
    for (const i of this.within(x - reach, y - reach, x + reach, y + reach)) {
      const dx = this.places[2 * i] - x, dy = this.places[2 * i + 1] - y, d = dx * dx + dy * dy;
      if (d <= least) { least = d; best = i; }
    }
    return best;
  }

  // Nodes inside a polygon [[x, y], ...], by the even-odd rule.
  inside(polygon) {
    const xs = polygon.map((p) => p[0]), ys = polygon.map((p) => p[1]);
    const found = [];
    for (const i of this.within(Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)))
      if (contains(polygon, this.places[2 * i], this.places[2 * i + 1])) found.push(i);
    return found;
  }
}

export function contains(polygon, x, y) {
  let odd = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [ax, ay] = polygon[i], [bx, by] = polygon[j];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) odd = !odd;
  }
  return odd;
}
