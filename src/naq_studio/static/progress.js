// How far things are: learning the graph, labels, what accuracy to expect, bulk accept.
import { html, useState } from "./preact.js";
import { ClassTag, percent, thousands } from "./parts.js";
import { className, keep, label, nodeName, pick, spotCheck, store, UNLABELLED, update } from "./store.js";

export function Progress({ go }) {
  const { state } = store;
  return html`<section class="progress" aria-label="Progress">
    <h2>Progress</h2>
    ${state.phase !== "ready" && html`<div class=${`phase ${state.phase}`} role="status">
      <span>${state.phase_text}${state.phase === "failed" ? "" : ` … ${Math.round(state.phase_seconds)} s`}</span>
      ${state.phase !== "failed" && html`<div class="bar" aria-hidden="true"><i></i></div>`}
      ${state.failure && html`<p>${state.failure} Labels can be given and are kept.</p>`}</div>`}
    ${state.phase === "ready" && state.failure && html`<p class="phase failed" role="alert">${state.failure} Labels are kept; the next one tries again.</p>`}
    <p><b>${thousands(state.labels)}</b> labels of ${thousands(state.graph.nodes)} nodes${state.skipped ? `, ${state.skipped} skipped` : ""}.</p>
    ${state.expected ? html`<p class="expected"><b>${percent(state.expected.value)}</b> expected accuracy${" "}<span class="soft">(${Math.round(100 * state.expected.low)} to ${Math.round(100 * state.expected.high)} % in nine of ten cases${state.unknown ? "" : "; if every node belongs to one of the classes"})</span></p>`
      : html`<p class="soft">${state.learned && state.labels ? "Label nodes of two classes to see what accuracy to expect." : "What accuracy to expect is shown here once two classes have labels."}</p>`}
    ${state.answer && state.notes.length > 0 && html`<ul class="notes">${state.notes.map((one) => html`<li>${one}</li>`)}</ul>`}
    ${state.curve.length > 1 && html`<${Curve} points=${state.curve} />`}
    ${state.weights.length > 0 && html`<${Weights} weights=${state.weights} />`}
    ${state.doubtful.length > 0 && html`<${Doubtful} doubtful=${state.doubtful} go=${go} />`}
    ${state.answer && html`<${Accept} />`}
    ${state.choice && html`<details><summary>How it was made</summary><p class="soft">${state.choice}</p></details>`}
    ${state.problems.length > 0 && html`<details><summary>${state.problems.length} lines of the labels file were not used</summary><ul class="plain">${state.problems.map((one) => html`<li>${one}</li>`)}</ul></details>`}
    <p class="soft file">Every action is saved in ${state.file}</p>
  </section>`;
}

const LISTED = 4;

// How much each view of the graph counts in the answer.
function Weights({ weights }) {
  const [all, setAll] = useState(false), hidden = weights.length - LISTED;
  return html`<div><h3>What counts in the answer</h3><ul class="plain weights">${weights.slice(0, all ? weights.length : LISTED).map(([view, share]) => html`
    <li><span>${view}</span><span class="number">${percent(share)}</span><i style=${{ width: `${100 * share}%` }}></i></li>`)}</ul>
    ${hidden > 0 && html`<button class="link" onClick=${() => setAll(!all)}>${all ? "Show fewer" : `${hidden} more`}</button>`}</div>`;
}

// Labels that all else contradicts: look at the node, keep the label or change it.
function Doubtful({ doubtful, go }) {
  return html`<details class="doubtful"><summary>Labels to look at again (${doubtful.length})</summary>
    <p class="soft">Without its own label, each of these would have another class.</p>
    <ul class="plain">${doubtful.map((one) => html`<li key=${one.node}>
      <div><button class="link" onClick=${() => { pick(one.node); go.showNode(one.node); }}>${nodeName(one.node)}</button>
        <p><${ClassTag} id=${one.given} sure=${one.probabilities[0]} /> <span class="soft">or</span> <${ClassTag} id=${one.instead} sure=${one.probabilities[1]} /></p></div>
      <div class="row"><button onClick=${() => keep(one.node)}>Keep</button><button onClick=${() => label(one.instead, [one.node])} title=${`Label as ${className(one.instead)}`}>Change</button></div></li>`)}</ul></details>`;
}

// Expected accuracy against labels given, with its interval.
function Curve({ points }) {
  const wide = 300, tall = 96, left = 34, bottom = 18;
  const most = Math.max(...points.map((p) => p[0])), least = Math.min(...points.map((p) => p[0]), most - 1);
  const x = (labels) => left + ((wide - left - 8) * (labels - least)) / Math.max(1, most - least), y = (part) => 6 + (tall - bottom - 6) * (1 - part);
  const ordered = [...points].sort((a, b) => a[0] - b[0]);
  const line = ordered.map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(" ");
  const band = [...ordered.map((p) => [p[0], p[3]]), ...ordered.map((p) => [p[0], p[2]]).reverse()].map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ");
  const last = ordered[ordered.length - 1];
  return html`<svg class="curve" viewBox=${`0 0 ${wide} ${tall}`} role="img" aria-label=${`Expected accuracy against labels given: ${percent(ordered[0][1])} at ${ordered[0][0]} labels, ${percent(last[1])} at ${last[0]}`}>
    ${[0, 0.5, 1].map((part) => html`<line x1=${left} x2=${wide - 8} y1=${y(part)} y2=${y(part)} class="grid" /><text x=${left - 5} y=${y(part) + 3.5} text-anchor="end">${100 * part}%</text>`)}
    <polygon points=${band} class="band" /><polyline points=${line} class="line" /><circle cx=${x(last[0])} cy=${y(last[1])} r="3" class="dot" />
    <text x=${left} y=${tall - 4}>${least}</text><text x=${wide - 8} y=${tall - 4} text-anchor="end">${most} labels</text>
  </svg>`;
}

function Accept() {
  const [above, setAbove] = useState(95);
  const { given, predicted, sure } = store;
  const draw = async () => {
    try { update({ check: await spotCheck({ above: above / 100 }), dialog: "check" }); } catch (error) { update({ problem: error.message }); }
  };
  let count = 0;
  for (let i = 0; i < given.length; i++) if (given[i] === UNLABELLED && predicted[i] >= 0 && sure[i] >= 2.55 * above) count++;
  return html`<details class="accept"><summary>Accept sure predictions as labels</summary>
    <label>At least <output>${above} %</output> sure <input type="range" min="50" max="99" value=${above} onInput=${(e) => setAbove(Number(e.target.value))} /></label>
    <button disabled=${!count} onClick=${draw}>Look at ${count > 10 ? `ten of about ${thousands(count)}` : `all ${count}`}</button>
    <p class="soft">They count as your labels afterwards, so ten of them, drawn at random, are looked at first. Undo takes all of them back.</p></details>`;
}
