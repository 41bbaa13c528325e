// Columns of the nodes: each is read once, by its number; how its values are written, filtered and coloured.
import { getJson, getValues } from "./api.js";
import { store, update } from "./store.js";

const FEW = 8; // different numbers that are coloured evenly, each with a tick
const DAY = 86400000;

// A column once it is there; it is asked for the first time.
export function column(number) {
  const { columns } = store;
  if (!columns.has(number)) { columns.set(number, null); read(number, columns); }
  return columns.get(number);
}

async function read(number, columns) {
  try {
    const [facts, values] = await Promise.all([getJson(`/api/column/${number}`), getValues(number)]);
    const found = { ...facts, number, title: store.titles[number], values, ordered: facts.kind === "number" || facts.kind === "date" };
    found.cells = new Map(facts.common.map(([value, cell]) => [value, cell]));
    if (found.ordered) found.scale = scaleOf(values);
    else found.hues = new Map(facts.common.slice(0, store.state.colours.length).map(([value], i) => [value, i]));
    columns.set(number, found);
    update({});
  } catch (error) { update({ problem: error.message, colourBy: store.colourBy === number ? "class" : store.colourBy }); }
}

// The column that the map is coloured by, or null.
export const colouring = () => (typeof store.colourBy === "number" ? column(store.colourBy) : null);

// Where each value is on the scale of colours, of 255; and which values are where.
export function scaleOf(values) {
  const sorted = Float64Array.from(values.filter(Number.isFinite)).sort(), n = sorted.length;
  if (!n) return { places: new Uint8Array(values.length), ticks: [], how: "" };
  const at = (part) => sorted[Math.round(part * (n - 1))];
  const distinct = [sorted[0]];
  for (let i = 1; i < n && distinct.length <= FEW; i++) if (sorted[i] > sorted[i - 1]) distinct.push(sorted[i]);
  const low = at(0.02), high = at(0.98), middle = (at(0.5) - low) / (high - low);
  let place, ticks, how = "";
  if (distinct.length <= FEW) {
    const part = new Map(distinct.map((value, i) => [value, i / Math.max(1, distinct.length - 1)]));
    place = (value) => part.get(value);
    ticks = distinct;
  } else if (middle > 0.1 && middle < 0.9) {
    place = (value) => (value - low) / (high - low);
    ticks = [low, (low + high) / 2, high];
    how = sorted[0] < low || sorted[n - 1] > high ? "and beyond" : "";
  } else { // a few large numbers would leave one colour for all others
    place = (value) => (below(sorted, value, false) + below(sorted, value, true)) / (2 * n);
    ticks = [0, 0.25, 0.5, 0.75, 1].map(at);
    how = "by rank";
  }
  const places = Uint8Array.from(values, (value) => (Number.isNaN(value) ? 0 : Math.max(0, Math.min(255, Math.round(255 * place(value))))));
  return { places, ticks, how };
}

function below(sorted, value, same) {
  let from = 0, to = sorted.length;
  while (from < to) { const middle = (from + to) >> 1; if (sorted[middle] < value || (same && sorted[middle] === value)) from = middle + 1; else to = middle; }
  return from;
}

// A value of a column as people read it; "" where it is not known here.
export function written(one, value) {
  if (Number.isNaN(value)) return "";
  if (one.kind === "date") return new Date(Math.round(value * DAY)).toISOString().slice(0, Number.isInteger(value) ? 10 : 16).replace("T", " ");
  if (one.kind === "number") return Math.abs(value) < 10000 ? String(Number(value.toPrecision(5))) : Number(value.toPrecision(6)).toLocaleString("en");
  return one.cells.get(value) ?? "";
}

// The same in little room.
export const brief = (one, value) => (one.kind === "date" ? written(one, Math.round(value)) : Math.abs(value) < 10000 ? written(one, value) : value.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 3 }));

// What someone typed as a bound of a column: a number, undefined if nothing, NaN if it is none. A date may be a year, or a year and a month.
export function bound(one, text, end) {
  const clean = text.trim();
  if (!clean) return undefined;
  if (one.kind === "number") return Number(/^[+-]?\d+,\d+$/.test(clean) ? clean.replace(",", ".") : clean);
  const parts = /^(\d{4})(?:-(\d\d?))?(?:-(\d\d?))?$/.exec(clean);
  if (!parts) return NaN;
  const [year, month, day] = parts.slice(1).map((part) => part && Number(part));
  if (month > 12 || day > 31) return NaN;
  const last = !end ? [month ?? 1, day ?? 1] : day ? [month, day + 1] : month ? [month + 1, 1] : [13, 1];
  return Date.UTC(year, last[0] - 1, last[1]) / DAY - (end ? 1e-9 : 0);
}
