// Search as you type, keys, and the live health page. Every page works without this.
"use strict";

const $ = (selector) => document.querySelector(selector);
document.documentElement.classList.add("js");

// ---- search as you type: the newest answer wins
const field = $("#q");
let [pending, settling] = [null, 0];

async function search(url) {
  pending?.abort();
  clearTimeout(settling);
  const own = (pending = new AbortController());
  const part = new URL(url);
  part.searchParams.set("part", "hits");
  try {
    const answer = await fetch(part, { signal: own.signal, headers: { Accept: "text/html" } });
    if (answer.status === 401) return location.assign(url);
    const html = await answer.text();
    if (own !== pending) return;
    const shown = answer.ok ? html : new DOMParser().parseFromString(html, "text/html").querySelector("main").innerHTML;
    $("#hits").innerHTML = shown; // the server has escaped every text, and no script in it would run
    $("#found").textContent = $("#hits .count, #hits .error, #hits h1")?.textContent.trim() ?? "";
    settling = setTimeout(() => { // the browser keeps addresses in files, which would delay the hits
      history.replaceState(null, "", url);
      document.title = `${field.value.trim().slice(0, 60) || "Search"} · memsync`;
    }, 100);
  } catch (error) {
    if (error.name !== "AbortError") $("#found").textContent = "The server does not answer.";
  }
}

function typed() {
  const url = new URL(location.pathname, location.href);
  for (const [name, value] of new FormData(field.form)) if (value.trim()) url.searchParams.set(name, value.trim());
  return url.href;
}

if (field) {
  if (field.autofocus) field.focus(); // the browser does it only when it first paints: what is typed until then would be lost
  field.addEventListener("input", () => search(typed()));
  const [commit, slider] = [$("#at"), $("#slider")];
  commit?.addEventListener("change", () => (slider.value = -commit.selectedIndex, search(typed())));
  slider?.addEventListener("input", () => {
    commit.selectedIndex = -slider.value;
    slider.setAttribute("aria-valuetext", commit.selectedOptions[0].text);
  });
  slider?.addEventListener("change", () => search(typed()));
  $("#hits").addEventListener("click", (event) => {
    const chip = event.target.closest("a.chip");
    if (!chip || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    field.value = new URL(chip.href).searchParams.get("q") ?? "";
    search(chip.href);
    field.focus();
  });
}

// ---- what waits takes seconds to count: only for somebody who looks at the first page, and not more than once in a while
async function count(link) {
  const name = link.dataset.count;
  const [then, known] = JSON.parse(sessionStorage.getItem(name) ?? "[0]");
  let number = Date.now() - then < 600_000 ? known : null;
  if (number === null && !field.value) {
    const url = new URL(link.href);
    url.pathname += ".json";
    const answer = await fetch(url);
    if (!answer.ok) return;
    number = (await answer.json())[name].length;
    sessionStorage.setItem(name, JSON.stringify([Date.now(), number]));
  }
  if (number !== null) link.textContent = `${link.textContent.replace(/: .*/, "")}: ${number}`;
}
if (field) setTimeout(async () => { for (const link of document.querySelectorAll("[data-count]")) await count(link); }, 1500);

// ---- keys; single letters can be switched off (WCAG 2.1.4)
const letters = () => localStorage.getItem("keys") !== "off";

function move(step) {
  const items = [...document.querySelectorAll("main a.item")];
  if (!items.length) return;
  const at = items.indexOf(document.activeElement);
  const next = items[Math.min(Math.max(at + step, 0), items.length - 1)];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

const keys = {
  "/": () => (field ? (field.focus(), field.select()) : location.assign("/")),
  "?": () => $("#keys").showModal(),
  j: () => move(1),
  k: () => move(-1),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.matches("input:not([type=checkbox]), select, textarea")) {
    if (event.key === "Escape") (event.preventDefault(), event.target.blur()); // or the browser empties the field
    if (event.target === field && event.key === "ArrowDown") (event.preventDefault(), move(1));
    return;
  }
  if ($("dialog[open]") || !keys[event.key] || !letters()) return;
  event.preventDefault();
  keys[event.key]();
});

for (const box of document.querySelectorAll("[data-setting=keys]")) {
  box.checked = letters();
  box.addEventListener("change", () => localStorage.setItem("keys", box.checked ? "on" : "off"));
}

// ---- health as it changes; the browser connects again by itself after a restart
if ($("#live")) {
  new EventSource("/events").onmessage = ({ data }) => {
    for (const [name, value] of Object.entries(JSON.parse(data))) {
      const place = $(`[data-live=${name}]`);
      if (!place) continue;
      if (Array.isArray(value)) {
        place.replaceChildren(...value.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
      } else {
        place.textContent = name === "scanned_at" && value ? new Date(value).toLocaleString("sv") : value;
      }
    }
  };
}
