// Names of classes before the first label: what the nodes' texts say of each.
import { html, useEffect, useRef, useState } from "./preact.js";
import { expect, store } from "./store.js";

const PAUSE = 600; // ms after the last key until names are read: this tells early what cannot be read, and loads the model

export function Expect({ close }) {
  const { brings } = store.state.graph;
  const [text, setText] = useState(""), [problem, setProblem] = useState(""), [busy, setBusy] = useState(false);
  const latest = useRef(0);
  const ask = async (dry) => {
    const own = ++latest.current;
    if (!dry) setBusy(true);
    try {
      await expect(text, dry);
      if (own !== latest.current) return;
      setProblem("");
      if (!dry) { setText(""); close?.(); }
    } catch (error) { if (own === latest.current) setProblem(error.message); }
    if (!dry) setBusy(false);
  };
  useEffect(() => {
    if (text.trim().split("\n").length < 2) { latest.current++; setProblem(""); return; }
    const timer = setTimeout(() => ask(true), PAUSE);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<div class="expect">
    <textarea rows="7" value=${text} disabled=${busy} spellcheck=${false} aria-label="Names of classes, one per line" placeholder=${"One name per line, and if you like what it is about:\neditors\nshells: command line interpreters"}
      onInput=${(e) => setText(e.target.value)} onKeyDown=${(e) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && text.trim()) ask(false); }}></textarea>
    ${problem && html`<p class="refusal" role="alert">${problem}</p>`}
    <div class="row"><button class="main" disabled=${busy || !text.trim()} onClick=${() => ask(false)}>${busy ? "Reading the names …" : "Colour the map"}</button>
      ${brings.length > 0 && html`<button disabled=${busy} onClick=${() => setText(brings.join("\n"))}>Use the ${brings.length} names of the file</button>`}</div>
    <p class="soft">The texts of all nodes are compared with the names, so that every node has a class before the first label.${brings.length > 0 ? html` Other names than those of the file need <code>naq[text]</code>.` : ""}</p>
  </div>`;
}
