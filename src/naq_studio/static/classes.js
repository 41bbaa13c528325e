// The list of classes: counts, zoom, rename, recolour, merge, delete.
import { html, useState } from "./preact.js";
import { Key, percent, Swatch, thousands } from "./parts.js";
import { act, effective, label, select, store, targets, update } from "./store.js";

export function Classes({ go }) {
  const { state } = store;
  const [open, setOpen] = useState(null), [find, setFind] = useState("");
  const shown = state.classes.filter((one) => one.name.toLowerCase().includes(find.toLowerCase()));
  return html`<section class="classes" aria-label="Classes">
    <h2>Classes <span class="soft">${state.classes.length || ""}</span></h2>
    ${state.classes.length > 12 && html`<input type="search" placeholder="Find a class" aria-label="Find a class" value=${find} onInput=${(e) => setFind(e.target.value)} />`}
    ${!state.classes.length && html`<p class="soft">None yet. The first one comes with the first label.</p>`}
    ${state.classes.length > 0 && html`<div class=${state.classes.length > 12 ? "list" : ""}><table><thead><tr><th>Class</th><th class="number">labels</th><th class="number">nodes</th><th class="number" title="The share of its predictions that is expected to be right">right</th><th><span class="hidden">Actions</span></th></tr></thead>
    <tbody onMouseLeave=${() => update({ focusClass: null })}>${shown.map((one) => { const place = state.classes.indexOf(one); return html`
      <tr key=${one.id} onMouseEnter=${() => update({ focusClass: one.id })} class=${open === one.id ? "open" : ""}>
        <td><button class="link" onClick=${() => go.showClass(one.id)} title=${`Zoom to ${one.name}${place < 9 ? ` (Shift+${place + 1})` : ""}`}
          onFocus=${() => update({ focusClass: one.id })} onBlur=${() => update({ focusClass: null })}>${place < 9 ? html`<${Key}>${place + 1}<//>` : ""}<${Swatch} id=${one.id} />${one.name}</button></td>
        <td class="number">${thousands(one.labels)}</td><td class="number">${thousands(one.nodes)}</td>
        <td class="number" title=${one.expected ? `${percent(one.expected.value)} of its predictions are expected to be right; ${Math.round(100 * one.expected.low)} to ${Math.round(100 * one.expected.high)} % in nine of ten cases` : ""}>${one.expected ? percent(one.expected.value) : ""}</td>
        <td><button class="small" aria-expanded=${open === one.id} aria-label=${`Change ${one.name}`} title="Rename, recolour, merge, delete" onClick=${() => setOpen(open === one.id ? null : one.id)}>⋯</button></td>
      </tr>
      ${open === one.id && html`<tr><td colspan="5"><${Change} one=${one} close=${() => setOpen(null)} /></td></tr>`}`; })}
    </tbody></table></div>`}
    ${state.graph.text && state.classes.length + state.labels > 0 && html`<div class="row"><button onClick=${() => update({ dialog: "expect" })}>Name more classes</button></div>`}
    ${(state.none > 0 || state.outside > 0) && html`<p class="soft">${thousands(state.none + state.outside)} nodes belong to none of them${state.none ? ` (${thousands(state.none)} said by you)` : ""}.</p>`}
    ${state.classes.length > 1 && html`<label class="check"><input type="checkbox" checked=${state.unknown} onChange=${(e) => may(e.target.checked)} />
      Nodes may belong to none of these</label>
      ${!state.unknown && html`<p class="soft">Tick this if there are groups that you do not name.</p>`}`}
  </section>`;
}

function may(on) {
  update({ state: { ...store.state, unknown: on } }); // shown at once
  act({ action: "unknown", value: on ? "on" : "off" }, on ? "Nodes may belong to none of the classes." : "Every node belongs to a class.");
}

function Change({ one, close }) {
  const { state } = store;
  const [name, setName] = useState(one.name), [about, setAbout] = useState(one.about ?? ""), [sure, setSure] = useState(false);
  const rename = () => { if (name.trim() && name.trim() !== one.name) act({ action: "rename", class: one.id, name: name.trim() }, `${one.name} is now ${name.trim()}.`); close(); };
  const describe = () => { if (one.about === null || about.trim() !== one.about) act({ action: "describe", class: one.id, value: about.trim() }, `What ${one.name} is about counts now.`); close(); };
  const all = () => { const nodes = []; for (let i = 0; i < store.given.length; i++) if (effective(i) === one.id) nodes.push(i); select(nodes); };
  const used = new Set(state.classes.map((other) => other.colour));
  return html`<div class="change">
    <div class="row"><input type="text" maxlength="80" value=${name} aria-label="New name" onInput=${(e) => setName(e.target.value)} onKeyDown=${(e) => { if (e.key === "Enter") rename(); if (e.key === "Escape") { e.stopPropagation(); close(); } }} />
      <button onClick=${rename}>Rename</button></div>
    ${state.graph.text && html`<div class="row"><input type="text" maxlength="300" value=${about} aria-label="What it is about" placeholder="What it is about, in a sentence" onInput=${(e) => setAbout(e.target.value)} onKeyDown=${(e) => { if (e.key === "Enter") describe(); if (e.key === "Escape") { e.stopPropagation(); close(); } }} />
      <button onClick=${describe} title="Its name and this sentence then speak for nodes with a like text">Describe</button></div>`}
    <div class="row"><select aria-label="Merge into" onChange=${(e) => { const into = Number(e.target.value); if (e.target.value !== "") { act({ action: "merge", class: one.id, into }, `${one.name} merged.`); close(); } }}>
      <option value="">Merge into …</option>${state.classes.filter((other) => other.id !== one.id).map((other) => html`<option value=${other.id}>${other.name}</option>`)}</select>
      <button onClick=${all}>Select its nodes</button>
      ${sure ? html`<button class="danger" onClick=${() => { act({ action: "delete", class: one.id }, `${one.name} deleted; Undo brings it back.`); close(); }}>Delete it and ${one.labels} labels</button>` : html`<button onClick=${() => setSure(true)}>Delete</button>`}
      ${targets().length > 0 && html`<button onClick=${() => label(one.id)}>Label chosen</button>`}</div>
    <div class="colours" role="group" aria-label="Colour">${state.colours.map((colour, i) => html`<button class=${i === one.colour ? "own" : used.has(i) ? "used" : ""} aria-label=${`Colour ${i + 1}${used.has(i) && i !== one.colour ? ", used" : ""}`} aria-pressed=${i === one.colour}
      onClick=${() => act({ action: "recolour", class: one.id, colour: i }, "Colour changed.")}><${Swatch} colour=${i} /></button>`)}</div>
  </div>`;
}
