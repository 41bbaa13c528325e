// Requests to the server that sent this page; nothing else is ever asked.

export class Refused extends Error {}

async function answer(response) {
  if (response.ok) return response;
  let why = `The studio answered ${response.status}.`;
  try { why = (await response.json()).error || why; } catch { /* no JSON */ }
  if (response.status === 403) why = "This page is locked: open the address that naq studio printed last.";
  throw new Refused(why);
}

// Kept by enter.js; pages of another port cannot read it.
const key = () => localStorage.getItem("naq-studio") ?? "";

export const get = async (path) => answer(await fetch(path, { headers: { "X-Naq-Key": key() } }));
export const getJson = async (path) => (await get(path)).json();

export async function post(path, body) {
  const bytes = new TextEncoder().encode(JSON.stringify(body));
  // keepalive: what was done just before a reload still arrives (browsers allow it for small bodies)
  const sent = fetch(path, { method: "POST", headers: { "Content-Type": "application/json", "X-Naq-Key": key() }, body: bytes, keepalive: bytes.length < 30000 });
  return (await answer(await sent)).json();
}

export async function getLayout(name) {
  return new Float32Array(await (await get(`/api/layout/${name}`)).arrayBuffer());
}

export async function getValues(column) {
  return new Float64Array(await (await get(`/api/values/${column}`)).arrayBuffer());
}

// Edges with an end in a box of the map, at most some tens of thousands: their ends, and how many there are.
export async function getEdges(layout, box) {
  const answer = await get(`/api/edges/${layout}?box=${box.map((one) => one.toFixed(4))}`);
  return { ends: new Uint32Array(await answer.arrayBuffer()), total: Number(answer.headers.get("x-total")) };
}

// A picture as a data address: the page's policy allows no other.
export async function getImage(node) {
  const picture = await (await get(`/api/image/${node}`)).blob();
  return new Promise((done) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.readAsDataURL(picture);
  });
}

// Per node: the given class, the predicted class, its probability of 255.
export async function getArrays(n) {
  const bytes = await (await get("/api/arrays")).arrayBuffer();
  return {
    given: new Int16Array(bytes, 0, n),
    predicted: new Int16Array(bytes, 2 * n, n),
    sure: new Uint8Array(bytes, 4 * n, n),
  };
}

// Calls back after every change, and when the connection is lost or back. A tab that nobody sees does not listen: browsers allow six connections to a server.
export function listen(changed, lost) {
  let source = null;
  const open = () => {
    if (document.hidden || (source && source.readyState !== EventSource.CLOSED)) return;
    source = new EventSource(`/api/events?key=${key()}`);
    source.onmessage = () => { lost(false); changed(); };
    source.onerror = () => {
      lost(true);
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 1500);
    };
  };
  open();
  addEventListener("pagehide", () => source?.close());
  addEventListener("pageshow", open);
  document.addEventListener("visibilitychange", () => { if (document.hidden) source?.close(); else open(); });
}
