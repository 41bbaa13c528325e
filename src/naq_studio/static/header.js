// The bar above: search, undo and redo, help, appearance, saving.
import { html, useEffect, useRef, useState } from "./preact.js";
import { getJson } from "./api.js";
import { Swatch, thousands } from "./parts.js";
import { effective, nodeName, pick, redo, selectWord, setTheme, store, undo, update } from "./store.js";

const THEMES = { auto: "light", light: "dark", dark: "auto" };

export function Header({ go }) {
  const { state, theme } = store;
  return html`<header>
    <h1><img src="/static/icon.svg" alt="" width="22" height="22" /> <span class="wide">naq studio</span> <b title=${state.graph.name}>${state.graph.name}</b></h1>
    <${Search} go=${go} />
    <nav aria-label="Actions">
      <button onClick=${undo} disabled=${!state.undo} title="Undo (Ctrl+Z)" aria-label=${`Undo, ${state.undo} steps`}>↶<span class="wide"> Undo</span></button>
      <button onClick=${redo} disabled=${!state.redo} title="Redo (Ctrl+Y)" aria-label=${`Redo, ${state.redo} steps`}>↷<span class="wide"> Redo</span></button>
      <button onClick=${() => update({ dialog: "export" })} title="Save and export (w)" aria-label="Save and export">⤓<span class="wide"> Export</span></button>
      <button onClick=${() => setTheme(THEMES[theme])} title=${`Appearance: ${theme}`} aria-label=${`Appearance: ${theme}`}>${{ auto: "◐", light: "☀", dark: "☾" }[theme]}</button>
      <button onClick=${() => update({ dialog: "help" })} title="Keys and help (?)" aria-label="Keys and help">?</button>
    </nav>
  </header>`;
}

const entriesOf = (found) => [...found.nodes.map((node) => ({ node })), ...found.words.map((word) => ({ word }))];

function Search({ go }) {
  const [text, setText] = useState(""), [found, setFound] = useState(null), [at, setAt] = useState(0);
  const latest = useRef(0), input = useRef(null), hasty = useRef(null); // hasty: Enter came before the answer
  useEffect(() => {
    const wanted = ++latest.current;
    if (!text.trim()) { setFound(null); return; }
    const timer = setTimeout(async () => {
      try {
        const answer = await getJson(`/api/search?q=${encodeURIComponent(text.slice(0, 100))}`);
        if (wanted !== latest.current) return;
        setFound({ ...answer, text });
        setAt(0);
        if (hasty.current) choose(entriesOf(answer)[0], hasty.current);
      } catch (error) { hasty.current = null; update({ problem: error.message }); }
    }, 60);
    return () => clearTimeout(timer);
  }, [text]);
  const entries = found ? entriesOf(found) : [];
  const close = () => { hasty.current = null; setText(""); setFound(null); input.current.blur(); };
  const choose = async (entry, mode = "replace") => {
    hasty.current = null;
    if (!entry) return;
    if (entry.node !== undefined) { pick(entry.node); go.showNode(entry.node); } else {
      go.showNodes(await selectWord(entry.word.id, mode));
    }
    close();
  };
  const key = (e) => {
    if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); setAt((at + (e.key === "ArrowDown" ? 1 : entries.length - 1)) % Math.max(1, entries.length)); }
    else if (e.key === "Enter") { e.preventDefault(); const mode = e.shiftKey ? "add" : "replace"; if (found?.text === text) choose(entries[at], mode); else hasty.current = mode; }
    else if (e.key === "Escape") { e.stopPropagation(); close(); }
  };
  const option = (entry, i) => html`<li id=${`hit-${i}`} role="option" aria-selected=${i === at} class=${i === at ? "at" : ""}
      onMouseDown=${(e) => { e.preventDefault(); choose(entry); }}>
    ${entry.node !== undefined
      ? html`<${Swatch} id=${store.given ? effective(entry.node) : -3} /><span>${nodeName(entry.node)}</span>`
      : html`<span class="word">${entry.word.word}</span><span class="soft">word of ${thousands(entry.word.nodes)} nodes: select all</span>`}
  </li>`;
  return html`<div class="search" role="search">
    <input ref=${input} id="search" type="search" placeholder=${store.state.graph.words ? "Search a name or a word ( / )" : "Search a name ( / )"} aria-label="Search nodes by name or word"
      role="combobox" aria-expanded=${entries.length > 0} aria-controls="hits" aria-activedescendant=${entries.length ? `hit-${at}` : undefined} autocomplete="off" spellcheck=${false} maxlength="100"
      value=${text} onInput=${(e) => setText(e.target.value)} onKeyDown=${key} onBlur=${() => setFound(null)} />
    ${found && html`<ul id="hits" role="listbox" aria-label="Found">
      ${entries.map(option)}
      ${!entries.length && html`<li class="soft">Nothing is named so.</li>`}
      ${found.total > found.nodes.length && html`<li class="soft">${thousands(found.total)} names in all; type on.</li>`}
    </ul>`}
  </div>`;
}
