// Help with all keys, and saving and exporting.
import { html, useLayoutEffect, useRef, useState } from "./preact.js";
import { get, post } from "./api.js";
import { Expect } from "./expect.js";
import { KEYS } from "./keys.js";
import { ClassTag, thousands } from "./parts.js";
import { importText, pick, spotCheck, store, update } from "./store.js";

const TITLES = { help: "How it works", export: "Save and export", expect: "Which classes do you expect?", check: "Are these right?" };
const close = () => update({ dialog: null });

export function Dialogs() {
  const { dialog } = store;
  if (!dialog) return null;
  const Content = { help: Help, export: Export, expect: Expect, check: Check }[dialog];
  return html`<${Dialog} key=${dialog} title=${TITLES[dialog]}><${Content} close=${close} /><//>`;
}

function Dialog({ title, children }) {
  const own = useRef(null);
  useLayoutEffect(() => { own.current.showModal(); }, []); // at once, or the next key would act on the page behind
  return html`<dialog ref=${own} aria-label=${title} onClose=${close} onClick=${(e) => e.target === own.current && close()}>
    <div class="row spread"><h2>${title}</h2><button onClick=${close} aria-label="Close">✕</button></div>${children}</dialog>`;
}

const Help = () => html`<ol>
    ${store.state.graph.text && html`<li>Name the classes that you expect, one per line: the map takes colour at once. Or begin with labels.</li>`}
    <li>Look at the suggested node and type the name of its group, or search for a node you know.</li>
    <li>Do the same for a second group. From then on every node has a class and a probability, and the map shows them.</li>
    <li>Go on: press the number of a class. Suggestions are nodes that stand for many others, or lie between two classes.</li>
    <li>Stop when the expected accuracy is good enough, and export.</li></ol>
  <p>Points with a rim are your labels. Paler points are less sure. Grey points have no class. Point at a class in the list to see only it.</p>
  <table class="keys"><tbody>${KEYS.map(([key, what]) => html`<tr><th><kbd>${key}</kbd></th><td>${what}</td></tr>`)}</tbody></table>`;

// Ten predictions at random, before all like them become labels.
function Check() {
  const { check, count, nodes } = store.check;
  const [right, setRight] = useState(nodes.map(() => null)), [said, setSaid] = useState(""), [problem, setProblem] = useState(""), top = useRef(null);
  const left = right.filter((one) => one === null).length;
  const answer = (i, good) => setRight(right.map((one, k) => (k === i ? good : one)));
  const accept = async () => {
    try { setSaid((await spotCheck({ check, right })).said); } catch (error) { setProblem(error.message); top.current.closest("dialog").scrollTop = 0; }
  };
  if (said) return html`<p role="status">${said}</p><div class="row"><button class="main" onClick=${close}>Done</button></div>`;
  return html`${problem && html`<p class="refusal" role="alert">${problem}</p>`}
    <p ref=${top}>${nodes.length < count ? `${nodes.length} of ${thousands(count)} predictions, drawn at random.` : "All predictions that are that sure."} Say of each whether it is right; then they become labels.</p>
    <ol class="check">${nodes.map((one, i) => html`<li><div><b>${one.name}</b> <${ClassTag} id=${one.class} />${one.text && one.text !== one.name && html`<p class="soft">${one.text}</p>`}</div>
      <span class="group" role="group" aria-label=${`${one.name}: is the class right?`}>${[[true, "Right"], [false, "Wrong"]].map(([good, name]) => html`<button disabled=${problem !== ""} aria-pressed=${right[i] === good} onClick=${() => answer(i, good)}>${name}</button>`)}</span>
      ${problem && right[i] === false && html`<button onClick=${() => { close(); pick(one.node); }}>Label it</button>`}</li>`)}</ol>
    ${!problem && html`<div class="row"><button class="main" disabled=${left > 0} onClick=${accept}>Accept ${thousands(count)}</button> <span class="soft">${left ? `${left} to look at` : ""}</span></div>`}`;
}

const EXPORTS = [
  ["predictions.csv", "Predictions", "a class and a probability for every node"],
  ["labels.csv", "Labels", "what you labelled, for naq predict"],
  ["report.html", "Report", "one page to send to others"],
  ["repeat.py", "Python code", "that makes the same predictions"],
];

function Export() {
  const [invite, setInvite] = useState(""), file = useRef(null);
  const save = async (name) => {
    try {
      const blob = await (await get(`/api/export/${name}`)).blob();
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = `${store.state.graph.name.replace(/[^\w-]+/g, "-").slice(0, 60)}-${name}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
      update({ message: `${link.download} saved.` });
    } catch (error) { update({ problem: error.message, dialog: null }); }
  };
  const ask = async () => {
    try { setInvite((await post("/api/invite", {})).address); } catch (error) { update({ problem: error.message, dialog: null }); }
  };
  return html`<p>Every action is on the disk already, in <code class="file">${store.state.file}</code>. Starting <code>naq studio</code> again goes on from there.</p>
    <ul class="exports">${EXPORTS.map(([name, title, what]) => html`<li><button onClick=${() => save(name)} data-export=${name}>${title}</button> <span>${what}</span></li>`)}</ul>
    <h3>Labels from a table</h3>
    <p class="soft">CSV with the columns node and class, or two columns, nodes and classes; lines of unknown nodes are reported, the others count.</p>
    <input ref=${file} type="file" accept=".csv,.tsv,.txt,text/csv" aria-label="Table of labels" onChange=${async (e) => { const [one] = e.target.files; if (one) importText(await one.text()); }} />
    ${store.imported && html`<p>${store.imported.changed} labels imported${store.imported.problems.length ? `, ${store.imported.problems.length} lines not used:` : "."}</p><ul class="plain">${store.imported.problems.slice(0, 20).map((one) => html`<li>${one}</li>`)}</ul>`}
    <h3>Another browser</h3>
    <p class="soft">This page is open to this browser only. <button onClick=${ask}>Another browser</button></p>
    ${invite && html`<p>Works once, on this computer: <code class="file">${invite}</code></p>`}`;
}
