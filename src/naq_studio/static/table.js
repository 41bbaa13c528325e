// The nodes as a table: every column can be shown, sorted and filtered by. Also for browsers without WebGL and for screen readers.
import { html, useEffect, useMemo, useState } from "./preact.js";
import { getJson, post } from "./api.js";
import { bound, column } from "./columns.js";
import { ClassTag, thousands } from "./parts.js";
import { effective, nodeName, pick, select, store, toggle, UNLABELLED, update } from "./store.js";
import { useTitles } from "./toolbar.js";

const PAGE = 100, PAUSE = 250; // ms after the last key until cells are searched

export function Table({ go }) {
  const { state, given, predicted, sure, selection, current, table, titles, names } = store;
  const options = useTitles();
  // What is shown, from the store, so that it is there again after a look at the map.
  const { shown } = table;
  const change = (patch) => update({ table: { ...store.table, page: 0, ...patch } });
  const columns = shown.map((number) => [number, column(number)]);
  const ready = columns.map(([, one]) => one); // a new one is another dependency
  const rows = useMemo(() => (given ? ordered(chosen(table, columns)) : []),
    [given, predicted, names, table.filters, table.by, table.down, table.show, table.show === "selected" ? selection : null, ...ready, shown.length]);
  function ordered(kept) {
    const { by, down } = table, turn = down ? -1 : 1, one = typeof by === "number" ? column(by) : null;
    if (by === "name") kept.sort((a, b) => turn * nodeName(a).localeCompare(nodeName(b)) || a - b);
    else if (by === "class") kept.sort((a, b) => turn * (effective(a) - effective(b)) || a - b);
    else if (by === "sure") kept.sort((a, b) => turn * (sure[a] - sure[b]) || a - b);
    else if (one) kept.sort((a, b) => { // empty ones last, whichever way
      const x = one.values[a], y = one.values[b];
      return Number.isNaN(x) - Number.isNaN(y) || (Number.isNaN(x) ? 0 : turn * (x - y)) || a - b;
    });
    return kept;
  }
  const last = Math.max(0, Math.ceil(rows.length / PAGE) - 1), at = Math.min(table.page, last);
  const page = rows.slice(at * PAGE, (at + 1) * PAGE);
  const cells = useCells(page, shown);
  if (!given) return html`<p class="empty">Opening …</p>`;
  const key = (e, node) => {
    const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[e.key];
    if (next) { e.preventDefault(); e.stopPropagation(); e.currentTarget[next]?.focus(); }
    if (e.key === " ") { e.preventDefault(); e.stopPropagation(); toggle(node); }
    if (e.key === "Enter") { e.preventDefault(); e.stopPropagation(); pick(node); }
  };
  // From the store as it is by then: an answer may come late.
  const filter = (number, patch) => change({ filters: new Map(store.table.filters).set(number, { ...store.table.filters.get(number), ...patch }) });
  const hide = (number) => {
    const filters = new Map(store.table.filters);
    filters.delete(number);
    change({ shown: shown.filter((other) => other !== number), filters, by: table.by === number ? "order" : table.by });
  };
  const sort = (by) => change(table.by !== by ? { by, down: false } : table.down ? { by: "order", down: false } : { down: true });
  const heads = { table, sort };
  return html`<div class="table">
    <div class="row"><label>Show <select value=${table.show} onChange=${(e) => change({ show: e.target.value })}><option value="all">all nodes</option><option value="labelled">labelled</option><option value="free">without a label</option><option value="selected">selected</option>
      ${state.classes.map((one) => html`<option value=${`c${one.id}`}>${one.name}</option>`)}</select></label>
      <select value="" aria-label="Show another column" onChange=${(e) => { const number = Number(e.target.value); if (e.target.value !== "" && !shown.includes(number)) change({ shown: [...shown, number], page: table.page }); e.target.value = ""; }}><option value="">Add a column …</option>${options}</select>
      <button disabled=${!rows.length} onClick=${() => { select(rows); go.showNodes(rows); }}>Select ${rows.length === 1 ? "it" : "these"}</button>
      <span class="soft">${thousands(rows.length)} nodes. Enter opens one, Space selects.</span></div>
    <div class="scroll"><table><thead><tr><th><span class="hidden">Selected</span></th><${Head} by="name" ...${heads}>Node<//><${Head} by="class" ...${heads}>Class<//><${Head} by="sure" class="number" ...${heads}>Sure<//>
        ${columns.map(([number, one]) => html`<${Head} key=${number} by=${number} class=${one?.ordered ? "number" : ""} title=${titles[number]} hide=${() => hide(number)} ...${heads}>${titles[number] || "(no name)"}<//>`)}</tr>
      <tr class="filters"><td></td><td><${Text} value=${table.filters.get("name")?.text} label="Node contains" give=${(text) => filter("name", { text })} /></td><td></td><td></td>
        ${columns.map(([number, one]) => html`<td key=${number} class=${one?.ordered ? "number" : ""}><${Filter} one=${one} title=${titles[number]} asked=${table.filters.get(number) ?? {}} give=${(patch) => filter(number, patch)} /></td>`)}</tr></thead>
      <tbody>${page.map((node, i) => html`<tr key=${node} tabindex="0" aria-selected=${selection.has(node)} class=${node === current ? "at" : ""} onKeyDown=${(e) => key(e, node)} onClick=${(e) => (e.shiftKey ? toggle(node) : pick(node))}>
        <td><input type="checkbox" tabindex="-1" checked=${selection.has(node)} aria-label=${`Select ${nodeName(node)}`} onClick=${(e) => { e.stopPropagation(); toggle(node); }} /></td>
        <td class="name">${nodeName(node)}</td><td class="class"><${ClassTag} id=${effective(node)} />${given[node] !== UNLABELLED ? html` <span class="soft">label</span>` : ""}</td><td class="number">${given[node] === UNLABELLED && predicted[node] >= 0 ? `${Math.round(sure[node] / 2.55)} %` : ""}</td>
        ${columns.map(([number, one], k) => html`<td key=${number} class=${one?.ordered ? "number" : "cell"}><div>${cells?.[i]?.[k] ?? ""}</div></td>`)}</tr>`)}</tbody></table></div>
    <div class="row"><button disabled=${at === 0} onClick=${() => change({ page: at - 1 })}>Before</button><span>${at + 1} of ${last + 1}</span><button disabled=${at === last} onClick=${() => change({ page: at + 1 })}>Next</button></div>
  </div>`;
}

// A title that sorts: up, down, as in the graph. hide: what takes the column away, if it can be.
function Head({ by, table, sort, hide, title, children, ...rest }) {
  const on = table.by === by;
  return html`<th ...${rest} aria-sort=${!on ? "none" : table.down ? "descending" : "ascending"}><button class="sort" onClick=${() => sort(by)} title="Sort: up, down, as in the graph">${children}<span aria-hidden="true">${!on ? "" : table.down ? " ▾" : " ▴"}</span></button>
    ${hide && html`<button class="sort" aria-label=${`Hide ${title}`} title="Hide this column" onClick=${hide}>✕</button>`}</th>`;
}

// The nodes that no filter leaves out.
function chosen({ filters, show }, columns) {
  const { given, selection } = store, tests = [];
  if (show === "labelled") tests.push((i) => given[i] !== UNLABELLED);
  else if (show === "free") tests.push((i) => given[i] === UNLABELLED);
  else if (show === "selected") tests.push((i) => selection.has(i));
  else if (show !== "all") { const id = Number(show.slice(1)); tests.push((i) => effective(i) === id); }
  const name = filters.get("name")?.text?.trim().toLowerCase();
  if (name) tests.push((i) => nodeName(i).toLowerCase().includes(name));
  for (const [number, one] of columns) {
    const asked = filters.get(number);
    if (!one || !asked) continue;
    const { values } = one, [low, high] = one.ordered ? [bound(one, asked.low ?? ""), bound(one, asked.high ?? "", true)] : [];
    if (low !== undefined && !Number.isNaN(low)) tests.push((i) => values[i] >= low);
    if (high !== undefined && !Number.isNaN(high)) tests.push((i) => values[i] <= high);
    if (asked.is === "") tests.push((i) => Number.isNaN(values[i]));
    else if (asked.is !== undefined) tests.push((i) => values[i] === asked.is);
    if (asked.nodes) tests.push((i) => asked.nodes.has(i));
  }
  const kept = [];
  for (let i = 0; i < given.length; i++) if (tests.every((test) => test(i))) kept.push(i);
  return kept;
}

function Filter({ one, title, asked, give }) {
  if (!one) return html`<span class="soft">…</span>`;
  if (one.ordered) {
    const wrong = ["low", "high"].find((end) => Number.isNaN(bound(one, asked[end] ?? "")));
    const what = one.kind === "date" ? "a date such as 2021-03-04, 2021-03 or 2021" : "a number";
    return html`${[["low", "from"], ["high", "to"]].map(([end, name]) => html`<input key=${end} type="text" class="bound" placeholder=${name} value=${asked[end] ?? ""} aria-label=${`${title} ${name}`} aria-invalid=${Number.isNaN(bound(one, asked[end] ?? ""))} onInput=${(e) => give({ [end]: e.target.value })} onKeyDown=${leave} />`)}
      ${wrong && html`<span class="refusal" role="alert">${asked[wrong].slice(0, 20)} is not ${what}.</span>`}`;
  }
  if (one.kind === "category") return html`<select aria-label=${`${title} is`} value=${asked.is ?? "all"} onChange=${(e) => give({ is: e.target.value === "all" ? undefined : e.target.value === "" ? "" : Number(e.target.value) })}>
    <option value="all">all</option>${one.empty > 0 && html`<option value="">(empty)</option>`}${one.common.map(([value, cell, count]) => html`<option value=${value}>${cell.slice(0, 60)} (${count})</option>`)}</select>`;
  return html`<${Search} one=${one} title=${title} asked=${asked} give=${give} />`;
}

// Cells that hold a text are looked for by the server: a cell may be long.
function Search({ one, title, asked, give }) {
  useEffect(() => {
    const text = (asked.text ?? "").trim();
    if (!text) { if (asked.nodes) give({ nodes: undefined }); return; }
    let wanted = true;
    const timer = setTimeout(async () => {
      try {
        const nodes = new Set(await getJson(`/api/holding/${one.number}?q=${encodeURIComponent(text.slice(0, 100))}`));
        if (wanted) give({ nodes });
      } catch (error) { update({ problem: error.message }); }
    }, PAUSE);
    return () => { wanted = false; clearTimeout(timer); };
  }, [one.number, asked.text]);
  return html`<${Text} value=${asked.text} label=${`${title} contains`} give=${(text) => give({ text })} />`;
}

// Escape leaves a field, so that keys act again.
const leave = (e) => { if (e.key === "Escape") { e.stopPropagation(); e.target.blur(); } };
const Text = ({ value, label, give }) => html`<input type="text" maxlength="100" placeholder="contains" aria-label=${label} value=${value ?? ""} onInput=${(e) => give(e.target.value)} onKeyDown=${leave} />`;

// The cells of a page as the table of nodes has them.
function useCells(nodes, columns) {
  const [found, setFound] = useState(null), key = `${nodes} ${columns}`;
  useEffect(() => {
    if (!nodes.length || !columns.length) return;
    let wanted = true;
    post("/api/cells", { nodes, columns }).then((cells) => wanted && setFound({ key, cells }), (error) => update({ problem: error.message }));
    return () => { wanted = false; };
  }, [key]);
  return found?.key === key ? found.cells : null;
}
