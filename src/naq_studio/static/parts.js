// Small pieces that several panels use.
import { html } from "./preact.js";
import { SHAPE_PATHS } from "./looks.js";
import { classOf, className, store, UNLABELLED } from "./store.js";

export function Swatch({ id, colour }) {
  const own = colour ?? classOf(id)?.colour;
  if (own === undefined) return html`<svg class="swatch" viewBox="0 0 12 12" aria-hidden="true"><path d=${SHAPE_PATHS[0]} class="grey" /></svg>`;
  return html`<svg class="swatch" viewBox="0 0 12 12" aria-hidden="true"><path d=${SHAPE_PATHS[store.state.shapes[own]]} fill=${store.state.colours[own]} /></svg>`;
}

export const percent = (part) => `${Math.round(100 * part)}\u00a0%`;
export const thousands = (number) => number.toLocaleString("en");
export const Key = ({ children }) => html`<kbd aria-hidden="true">${children}</kbd>`;

export function ClassTag({ id, sure }) {
  if (id === UNLABELLED) return null;
  return html`<span class="tag"><${Swatch} id=${id} />${className(id)}${sure === undefined ? "" : html` <span class="soft">${percent(sure)}</span>`}</span>`;
}
