// Four bytes per node: colour, shape, strength and flags, from what the store holds.
import { colouring } from "./columns.js";
import { NONE, store, UNLABELLED } from "./store.js";

const GREY = 255;

export const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) || 0);

// Blue over grey to yellow, as bright as it is sure; safe without red, green or blue cones (after cividis).
const SCALE = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"].map(rgb);

export function scaleColour(part) {
  const at = Math.min(0.9999, Math.max(0, part)) * (SCALE.length - 1), i = Math.floor(at);
  return SCALE[i].map((one, k) => Math.round(one + (SCALE[i + 1][k] - one) * (at - i)));
}

// 256 x 2: colours of classes with grey at the end, then the scale of confidence.
export function paletteBytes(colours, soft) {
  const bytes = new Uint8Array(2 * 256 * 4).fill(255);
  const put = (row, i, colour) => bytes.set(colour, 4 * (256 * row + i));
  colours.forEach((colour, i) => put(0, i, rgb(colour)));
  put(0, GREY, rgb(soft));
  for (let i = 0; i < 256; i++) put(1, i, scaleColour(i / 255));
  return bytes;
}

// Whether colours are those of the scale: confidence, or a column of numbers.
export const scaled = () => store.colourBy === "sure" || Boolean(colouring()?.ordered);

// Colour, shape and strength of a node by its value in a column.
function byColumn(one, node, looks, k) {
  const value = one.values[node], hue = one.ordered ? 0 : one.hues.get(value);
  const has = !Number.isNaN(value) && hue !== undefined;
  looks[k] = has ? hue : GREY;
  looks[k + 1] = has && !one.ordered ? store.state.shapes[hue] : 0;
  looks[k + 2] = !has ? 90 : one.ordered ? one.scale.places[node] : 255;
}

export function looksOf() {
  const { given, predicted, sure, selection, current, focusClass, state } = store;
  const n = given.length, looks = new Uint8Array(4 * n);
  const known = new Map(state.classes.map((one) => [one.id, one]));
  const most = Math.max(-1, ...known.keys());
  const colour = new Uint8Array(most + 1).fill(GREY), shape = new Uint8Array(most + 1);
  for (const [id, one] of known) { colour[id] = one.colour; shape[id] = state.shapes[one.colour]; }
  const special = [], one = colouring();
  for (let i = 0, k = 0; i < n; i++, k += 4) {
    const labelled = given[i] !== UNLABELLED, id = labelled ? given[i] : predicted[i];
    const has = id >= 0 && id <= most && colour[id] !== GREY;
    looks[k] = has ? colour[id] : GREY;
    looks[k + 1] = has ? shape[id] : 0;
    looks[k + 2] = labelled ? 255 : has ? sure[i] : 90;
    if (one) byColumn(one, i, looks, k);
    let flags = labelled && given[i] !== NONE ? 1 : 0;
    if (focusClass !== null && id !== focusClass) flags |= 4;
    looks[k + 3] = flags;
    if (flags & 1) special.push(i);
  }
  for (const i of selection) { looks[4 * i + 3] |= 2; special.push(i); }
  if (current >= 0 && current < n && !selection.has(current)) { looks[4 * current + 3] |= 2; special.push(current); }
  return { looks, special: Uint32Array.from(special) };
}

// The shape of a class as a path in a box of 12 x 12, for swatches.
export const SHAPE_PATHS = [
  "M6 1a5 5 0 1 0 0 10A5 5 0 1 0 6 1Z",
  "M1.5 1.5h9v9h-9Z",
  "M6 1 11.5 10.5H.5Z",
  "M6 .5 11.5 6 6 11.5.5 6Z",
  "M4 .8h4V4h3.2v4H8v3.2H4V8H.8V4H4Z",
];
