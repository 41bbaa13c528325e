// The nodes as a table: for browsers without WebGL, for screen readers, and for sorting.
import { html, useMemo, useState } from "./preact.js";
import { ClassTag, thousands } from "./parts.js";
import { effective, nodeName, pick, store, toggle, UNLABELLED } from "./store.js";

const PAGE = 100;

export function Table({ go }) {
  const { state, given, predicted, sure, selection, current } = store;
  const [filter, setFilter] = useState("all"), [order, setOrder] = useState("name"), [page, setPage] = useState(0);
  const rows = useMemo(() => {
    if (!given) return [];
    const kept = [];
    for (let i = 0; i < given.length; i++) {
      const own = given[i] !== UNLABELLED;
      if (filter === "all" || (filter === "labelled" && own) || (filter === "free" && !own) || (filter === "selected" && selection.has(i)) || (filter[0] === "c" && effective(i) === Number(filter.slice(1)))) kept.push(i);
    }
    if (order === "sure") kept.sort((a, b) => sure[b] - sure[a] || a - b);
    if (order === "doubt") kept.sort((a, b) => sure[a] - sure[b] || a - b);
    return kept;
  }, [given, predicted, filter, order, filter === "selected" ? selection : null]);
  const last = Math.max(0, Math.ceil(rows.length / PAGE) - 1), at = Math.min(page, last);
  if (!given) return html`<p class="empty">Opening …</p>`;
  const key = (e, node) => {
    const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[e.key];
    if (next) { e.preventDefault(); e.stopPropagation(); e.currentTarget[next]?.focus(); }
    if (e.key === " ") { e.preventDefault(); e.stopPropagation(); toggle(node); }
    if (e.key === "Enter") { e.preventDefault(); e.stopPropagation(); pick(node); }
  };
  return html`<div class="table">
    <div class="row"><label>Show <select value=${filter} onChange=${(e) => { setFilter(e.target.value); setPage(0); }}><option value="all">all nodes</option><option value="labelled">labelled</option><option value="free">without a label</option><option value="selected">selected</option>
      ${state.classes.map((one) => html`<option value=${`c${one.id}`}>${one.name}</option>`)}</select></label>
      <label>ordered by <select value=${order} onChange=${(e) => { setOrder(e.target.value); setPage(0); }}><option value="name">their order in the graph</option><option value="doubt">least sure first</option><option value="sure">surest first</option></select></label>
      <span class="soft">${thousands(rows.length)} nodes. Enter opens one, Space selects.</span></div>
    <div class="scroll"><table><thead><tr><th><span class="hidden">Selected</span></th><th>Node</th><th>Class</th><th class="number">Sure</th></tr></thead>
      <tbody>${rows.slice(at * PAGE, (at + 1) * PAGE).map((node) => html`<tr key=${node} tabindex="0" aria-selected=${selection.has(node)} class=${node === current ? "at" : ""} onKeyDown=${(e) => key(e, node)} onClick=${(e) => (e.shiftKey ? toggle(node) : pick(node))}>
        <td><input type="checkbox" tabindex="-1" checked=${selection.has(node)} aria-label=${`Select ${nodeName(node)}`} onClick=${(e) => { e.stopPropagation(); toggle(node); }} /></td>
        <td class="name">${nodeName(node)}</td><td><${ClassTag} id=${effective(node)} />${given[node] !== UNLABELLED ? html` <span class="soft">label</span>` : ""}</td><td class="number">${given[node] === UNLABELLED && predicted[node] >= 0 ? `${Math.round(sure[node] / 2.55)} %` : ""}</td></tr>`)}</tbody></table></div>
    <div class="row"><button disabled=${at === 0} onClick=${() => setPage(at - 1)}>Before</button><span>${at + 1} of ${last + 1}</span><button disabled=${at === last} onClick=${() => setPage(at + 1)}>Next</button></div>
  </div>`;
}
