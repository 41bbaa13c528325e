"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const all = (what, where = document) => [...where.querySelectorAll(what)];
  const make = (name, values = {}, ...children) => {
    const element = Object.assign(document.createElement(name), values);
    element.append(...children);
    return element;
  };

  // Light and dark: the reader's setting until the button is pressed; kept in the page alone.
  const theme = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const nameTheme = () => {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.title = `Show the page ${isDark() ? "light" : "dark"}`;
  };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  dark.addEventListener("change", nameTheme);
  nameTheme();

  const copyText = async (box) => {
    try {
      await navigator.clipboard.writeText(box.textContent);
      return true;
    } catch {
      getSelection().selectAllChildren(box); // no clipboard here: the reader copies the selection
      return false;
    }
  };
  for (const button of all("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      button.textContent = (await copyText(button.parentNode.querySelector("code"))) ? "Copied" : "Selected";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
  }

  // Sorting: a click on a column's heading; the third click gives the first order back.
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const number = Number(cell.textContent.replaceAll(",", ""));
    return cell.textContent.trim() && !Number.isNaN(number) ? number : cell.textContent;
  };
  const compare = (a, b) => {
    if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b);
    return typeof a === "number" ? -1 : 1;
  };
  const sortable = (table) => {
    const body = table.tBodies[0];
    const first = [...body.rows];
    const heads = all("tr.columns > th", table);
    const given = heads.map((head) => head.getAttribute("aria-sort"));
    heads.forEach((head, column) => {
      const button = make("button", { type: "button", title: "Sort by this column" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const numbers = head.classList.contains("num");
        const orders = numbers ? ["descending", "ascending", null] : ["ascending", "descending", null];
        const now = orders[(orders.indexOf(head.getAttribute("aria-sort")) + 1) % 3];
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        let rows = first;
        if (now) {
          rows = [...first];
          head.setAttribute("aria-sort", now);
          const sign = now === "ascending" ? 1 : -1;
          const lacking = (v) => numbers && typeof v !== "number";
          rows.sort((r, s) => {
            const [a, b] = [valueOf(r, column), valueOf(s, column)];
            if (lacking(a) !== lacking(b)) return lacking(a) ? 1 : -1;
            return sign * compare(a, b);
          });
        } else {
          heads.forEach((other, i) => given[i] && other.setAttribute("aria-sort", given[i]));
        }
        body.append(...rows);
      });
    });
  };
  all("table.numbers").forEach((table) => table.tBodies[0].rows.length > 1 && sortable(table));

  // How numbers were made: unpacked from one block when somebody looks.
  let unpacked = null;
  const cells = () => (unpacked ??= unpack());
  const unpack = async () => {
    const bytes = Uint8Array.from(atob(document.getElementById("cells").textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  };
  const time = (seconds) => (seconds < 90 ? `${seconds.toFixed(1)} s` : `${(seconds / 60).toFixed(1)} min`);
  const dialog = make("dialog");
  document.body.append(dialog);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  const describe = (cell) => {
    const versions = Object.entries(cell.versions).map((pair) => pair.join(" ")).join(", ");
    const facts = { seed: cell.seed ?? "none", data: cell.data, code: cell.code, versions, machine: cell.machine,
      time: time(cell.seconds), finished: cell.finished, key: cell.key };
    const list = make("dl");
    for (const [name, value] of Object.entries(facts)) if (value !== "") list.append(make("dt", {}, name), make("dd", {}, String(value)));
    return make("article", {}, make("h3", {}, cell.title), list, make("pre", {}, JSON.stringify(cell.config, null, 2)));
  };
  const show = async (places) => {
    const known = await cells();
    const close = make("button", { type: "button", className: "close" }, "Close");
    close.addEventListener("click", () => dialog.close());
    dialog.replaceChildren(close, ...places.map((place) => describe(known[place])));
    dialog.showModal();
    dialog.scrollTop = 0;
  };
  const placesOf = (words) => words.split(" ").map(Number);
  const pressable = (element, places) => {
    element.tabIndex = 0;
    element.addEventListener("click", () => show(places));
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      show(places);
    });
  };
  for (const cell of all("td[data-k]")) {
    pressable(cell, placesOf(cell.dataset.k));
    cell.title = `${cell.title ? cell.title + "; " : ""}click for how it was made`;
  }
  const row = (cell, place) => {
    const texts = [cell.title, cell.seed ?? "", time(cell.seconds), cell.finished.replace("T", " ").slice(0, 16), cell.code, cell.key.slice(0, 12)];
    const element = make("tr", {}, ...texts.map((words, i) => make("td", { className: i === 1 || i === 2 ? "num" : "label" }, String(words))));
    element.cells[2].dataset.v = cell.seconds;
    element.dataset.words = `${cell.title} ${JSON.stringify(cell.config)} ${cell.data} ${cell.code} ${cell.key} ${cell.machine}`.toLowerCase();
    pressable(element, [place]);
    return element;
  };
  const fill = async (details) => {
    const known = await cells();
    const rows = placesOf(details.dataset.cells).map((place) => row(known[place], place));
    const heads = ["cell", "seed", "time", "finished (UTC)", "code", "key"];
    const head = make("tr", { className: "columns" }, ...heads.map((name, i) => make("th", { className: i === 1 || i === 2 ? "num" : "label" }, name)));
    const table = make("table", { className: "numbers" }, make("thead", {}, head), make("tbody", {}, ...rows));
    const search = make("input", { type: "search", placeholder: "Search method, option, hash …" });
    search.setAttribute("aria-label", "Search the cells");
    const shown = make("span", { className: "shown" });
    const filter = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      rows.forEach((r) => (r.hidden = !words.every((word) => r.dataset.words.includes(word))));
      shown.textContent = `${rows.filter((r) => !r.hidden).length} of ${rows.length}; a click shows the exact configuration`;
    };
    search.addEventListener("input", filter);
    filter();
    sortable(table);
    details.append(search, shown, make("div", { className: "scroll" }, table));
  };
  for (const details of all("details.made")) {
    details.addEventListener("toggle", () => fill(details), { once: true });
  }

  // The contents: where the reader is; on a phone the list closes after a choice.
  const links = new Map(all("nav.contents a").map((link) => [link.hash.slice(1), link]));
  const phone = document.querySelector(".phone-contents");
  phone.addEventListener("click", (event) => event.target.closest("a") && (phone.open = false));
  if ("IntersectionObserver" in window) {
    const seen = new Set();
    const watch = new IntersectionObserver((entries) => {
      entries.forEach((entry) => seen[entry.isIntersecting ? "add" : "delete"](entry.target.id));
      const here = [...links.keys()].find((id) => seen.has(id));
      links.forEach((link, id) => link.classList.toggle("here", id === here));
    }, { rootMargin: "-10% 0px -60% 0px" });
    links.forEach((_, id) => document.getElementById(id) && watch.observe(document.getElementById(id)));
  }
})();
