// The card of one node, or of a selection, and the buttons that label it.
import { html, useEffect, useRef, useState } from "./preact.js";
import { getImage } from "./api.js";
import { Expect } from "./expect.js";
import { ClassTag, Key, percent, Swatch, thousands } from "./parts.js";
import { acceptOne, className, clear, effective, label, labelNew, nodeName, none, pick, selectWord, skip, store, toQueue, unlabel, UNLABELLED, NONE } from "./store.js";

export function Card({ go }) {
  const { selection, current, queueMode, state } = store;
  const many = selection.size > 1;
  return html`${state.graph.text && !state.classes.length && !state.labels && html`<section aria-label="Classes that you expect"><h2>Which classes do you expect?</h2><${Expect} /></section>`}
  <section class="card" aria-label="Node">
    <${Hint} />
    ${many ? html`<h2>${thousands(selection.size)} nodes selected</h2><${Shares} />`
      : current >= 0 ? html`<${One} go=${go} node=${current} />`
      : html`<h2 class="soft">${state.learned ? "No node chosen" : "Suggestions follow"}</h2>
        <p class="soft">${state.learned ? queueMode && !store.queue.length ? "Looking for nodes worth a label …" : "Click a node on the map, or search for one." : "You can look around, search and label meanwhile."}</p>`}
    ${many && html`<${Label} many=${true} />`}
  </section>`;
}

// One sentence: what to do now.
function Hint() {
  const { state, queueMode } = store;
  const labelled = state.classes.filter((one) => one.labels).length;
  const named = state.classes.filter((one) => one.about !== null).length > 1, { expected } = state;
  let text = "";
  if (named && !state.learned) text = html`The map takes colour once the graph is learned. Go on labelling meanwhile.`;
  else if (named && !state.labels) text = expected && html`By the names alone, <b>${percent(expected.value)}</b> are expected to be right: ${Math.round(100 * expected.low)} to ${Math.round(100 * expected.high)} % in nine of ten cases. <b>Label a few nodes</b> to know; every label makes the others better.`;
  else if (!state.labels) text = html`${state.graph.text && !state.classes.length ? "Or begin with this node: which" : "Which"} group does it belong to? <b>Type a name for the group</b> below and press Enter. Or skip it, or search for a node you know.`;
  else if (labelled < 2 && !named) text = html`Now a node of <b>another group</b>: type its name too. With two classes, the whole map takes colour.`;
  else if (!state.learned) text = html`The map takes colour once the graph is learned. Go on labelling meanwhile.`;
  else if (state.labels < 2 * labelled && !named) text = html`Every class becomes surer with a <b>second label</b>. Go on with the suggestions: press the number of a class.`;
  if (!text) return null;
  return html`<p class="hint">${text}</p>`;
}

function One({ go, node }) {
  const { queueMode, given, state } = store;
  const card = store.card?.node === node ? store.card : null;
  const walk = (other) => { pick(other); go.showNode(other); };
  const full = card?.name || nodeName(node);
  return html`<div class="kind">${queueMode ? `Suggested next (${store.queue.length} waiting)` : "Node"}
      ${!queueMode && html`<button class="link" onClick=${toQueue}>Back to suggestions <${Key}>q<//></button>`}
      <button class="link" onClick=${() => go.showNode(node)} title="Show it on the map (g)">Show <${Key}>g<//></button></div>
    <h2 class="name">${full.length > 300 ? full.slice(0, 300) + "…" : full}</h2>
    ${card?.id && card.id !== card.name && html`<p class="soft id">${card.id}</p>`}
    ${card?.image && html`<${Picture} key=${node} node=${node} name=${full} />`}
    ${card?.text.length > 0 && html`<p class="text">${card.text.map(([piece, told]) => (told ? html`<mark title="Speaks for the class">${piece}</mark>` : piece))}</p>`}
    ${given?.[node] !== undefined && given[node] !== UNLABELLED && html`<p>Your label: <${ClassTag} id=${given[node]} /></p>`}
    ${card?.prediction ? html`<${Prediction} go=${walk} card=${card} />` : state.answer && html`<p class="prediction soft">Prediction: …</p>`}
    <${Label} many=${false} />
    ${card?.words.length > 0 && html`<p class="chips" aria-label="Words">${card.words.map((one) => html`<${Word} one=${one} go=${go} />`)}</p>`}
    ${card?.features.length > 0 && html`<details open><summary>Features that stand out</summary><ul class="plain">${card.features.slice(0, 6).map((one) => html`<li>${one.name}${one.value !== "" ? `: ${one.value}` : ""} <span class="soft" title="Standard deviations from the mean of all nodes">${one.apart > 0 ? "+" : "−"}${Math.abs(one.apart)} sd</span></li>`)}</ul></details>`}
    ${card?.columns.length > 0 && html`<details><summary>As the table of nodes has it</summary><dl>${card.columns.map(([name, cell]) => html`<dt>${name}</dt><dd>${cell || html`<span class="soft">empty</span>`}</dd>`)}</dl></details>`}
    ${card && html`<details><summary>Joined to ${thousands(card.degree)}, and most similar</summary><div class="near">
      <div><h3>By edge</h3>${card.listed.length ? html`<ul class="plain">${card.listed.map((other) => html`<${Near} node=${other} go=${walk} />`)}</ul>` : html`<p class="soft">No edges.</p>`}
        ${card.degree > card.listed.length && html`<p class="soft">and ${thousands(card.degree - card.listed.length)} more</p>`}</div>
      <div><h3>By similarity</h3>${card.similar.length ? html`<ul class="plain">${card.similar.map(([other, near]) => html`<${Near} node=${other} near=${near} go=${walk} />`)}</ul>` : html`<p class="soft">${state.learned ? "None." : "Once the graph is learned."}</p>`}</div></div></details>`}`;
}

// The picture that a column of the table names.
function Picture({ node, name }) {
  const [found, setFound] = useState({ address: "", problem: "" });
  useEffect(() => {
    let wanted = true;
    getImage(node).then((address) => wanted && setFound({ address, problem: "" }), (error) => wanted && setFound({ address: "", problem: error.message }));
    return () => { wanted = false; };
  }, [node]);
  if (found.problem) return html`<p class="soft">${found.problem}</p>`;
  return html`<div class="picture">${found.address && html`<img src=${found.address} alt=${`Picture of ${name}`} />`}</div>`;
}

const Near = ({ node, near, go }) => html`<li><button class="link" onClick=${() => go(node)}><${Swatch} id=${store.given ? effective(node) : -3} />${nodeName(node)}</button>${near === undefined ? "" : html` <span class="soft">${near.toFixed(2)}</span>`}</li>`;

function Word({ one, go }) {
  const all = async () => go.showNodes(await selectWord(one.id));
  return html`<button class=${`chip ${one.for > 0.15 ? "for" : ""}`} title=${`${one.for > 0.15 ? "Speaks for the class. " : ""}Select all nodes with “${one.word}”`} onClick=${all}>${one.word}</button>`;
}

function Prediction({ card, go }) {
  const said = card.prediction;
  return html`<p class="prediction">${said.outside ? html`Seems to belong to <b>none</b>; nearest is ` : "Prediction: "}<${ClassTag} id=${said.class} sure=${said.probability} />
    <span class="soft">, else ${className(said.runner_up)} ${percent(said.runner_up_probability)}</span>
    ${said.speaker !== null && html`<br /><span class="soft">Its nearest label:</span> <button class="link" onClick=${() => go(said.speaker)}>${nodeName(said.speaker)}</button> <span class="soft">(similarity ${said.speaker_similarity.toFixed(2)})</span>`}</p>`;
}

// The classes of a selection.
function Shares() {
  const counts = new Map();
  for (const node of store.selection) { const id = effective(node); counts.set(id, (counts.get(id) || 0) + 1); }
  const rows = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 6);
  return html`<ul class="plain shares">${rows.map(([id, count]) => html`<li>${id === UNLABELLED ? html`<span class="soft">no class yet</span>` : html`<${ClassTag} id=${id} />`} <span class="soft">${thousands(count)}</span></li>`)}</ul>
    <p class="soft">${[...store.selection].slice(0, 5).map(nodeName).join(", ")}${store.selection.size > 5 ? " …" : ""}</p>`;
}

function Label({ many }) {
  const { state, current, given, predicted, queueMode } = store;
  const labelled = many ? [...store.selection].some((node) => given[node] !== UNLABELLED) : given?.[current] !== undefined && given[current] !== UNLABELLED;
  const likely = !many && !labelled && predicted && predicted[current] >= 0 ? predicted[current] : null;
  return html`<div class="label">
    <${NameBox} />
    ${state.classes.length > 0 && html`<div class="classes-row" role="group" aria-label="Label as">${state.classes.slice(0, 9).map((one, i) => html`
      <button class=${`pick ${likely === one.id ? "likely" : ""}`} aria-pressed=${!many && given?.[current] === one.id} onClick=${() => label(one.id)}><${Key}>${i + 1}<//><${Swatch} id=${one.id} />${one.name}</button>`)}</div>`}
    <div class="row">
      ${likely !== null && html`<button onClick=${acceptOne} title=${`Label as ${className(likely)}`}>Accept <${Key}>Enter<//></button>`}
      ${state.classes.length > 0 && html`<button onClick=${none} title="It belongs to none of the classes" aria-pressed=${!many && given?.[current] === NONE}>None of them <${Key}>x<//></button>`}
      ${queueMode && html`<button onClick=${skip}>Skip <${Key}>s<//></button>`}
      ${labelled && html`<button onClick=${unlabel}>Remove label <${Key}>u<//></button>`}
      ${!queueMode && html`<button onClick=${clear}>Done <${Key}>Esc<//></button>`}
    </div>
  </div>`;
}

// Type to find a class, or to make one.
function NameBox() {
  const { state } = store;
  const [text, setText] = useState(""), [at, setAt] = useState(-1);
  const input = useRef(null);
  const plain = text.trim().toLowerCase();
  const hits = plain ? state.classes.filter((one) => one.name.toLowerCase().includes(plain)).slice(0, 6) : [];
  const exact = state.classes.some((one) => one.name.toLowerCase() === plain);
  const send = () => {
    if (!plain) return;
    if (at >= 0 && hits[at]) label(hits[at].id);
    else if (exact) label(state.classes.find((one) => one.name.toLowerCase() === plain).id);
    else labelNew(text.trim());
    setText(""); setAt(-1); input.current.blur();
  };
  const key = (e) => {
    if (e.key === "Enter") { e.preventDefault(); send(); }
    else if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); setAt(Math.max(-1, Math.min(hits.length - 1, at + (e.key === "ArrowDown" ? 1 : -1)))); }
    else if (e.key === "Escape") { e.stopPropagation(); setText(""); input.current.blur(); }
  };
  return html`<div class="namebox">
    <input ref=${input} id="class-name" type="text" maxlength="80" autocomplete="off" spellcheck=${false} value=${text} onInput=${(e) => { setText(e.target.value); setAt(-1); }} onKeyDown=${key}
      placeholder=${state.classes.length ? "New class, or find one ( n )" : "Name of its group ( n )"} aria-label="Label as: name of a new class, or of one that is there"
      role="combobox" aria-expanded=${hits.length > 0} aria-controls="class-hits" aria-activedescendant=${at >= 0 ? `class-hit-${at}` : undefined} />
    <button class="main" onClick=${send} disabled=${!plain}>${exact || at >= 0 || !plain ? "Label" : "Make class"}</button>
    ${hits.length > 0 && html`<ul id="class-hits" role="listbox" aria-label="Classes">${hits.map((one, i) => html`<li id=${`class-hit-${i}`} role="option" aria-selected=${i === at} class=${i === at ? "at" : ""}
      onMouseDown=${(e) => { e.preventDefault(); label(one.id); setText(""); }}><${Swatch} id=${one.id} />${one.name}</li>`)}</ul>`}
  </div>`;
}
