// Puts the page together: its words, who asks, which workspace, which section.
import { get, session } from "./api.js";
import { makeAsk } from "./ask.js";
import { makeDocuments } from "./documents.js";
import { el, notify } from "./dom.js";
import { makeGraph } from "./graph.js";
import { watchLogin } from "./login.js";
import { language, t } from "./words.js";

const views = new Map(), byId = (id) => document.getElementById(id);
const select = byId("workspace");

document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
for (const node of document.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
for (const node of document.querySelectorAll("[data-label]")) node.setAttribute("aria-label", t(node.dataset.label));

function build() {
  for (const [name, make] of [["ask", makeAsk], ["documents", makeDocuments], ["graph", makeGraph]]) {
    byId(name).replaceChildren();
    views.set(name, make(byId(name)));
  }
  show();
}

function show() {
  const wanted = location.hash.slice(1), name = views.has(wanted) ? wanted : "ask";
  for (const view of views.keys()) byId(view).hidden = view !== name;
  for (const item of document.querySelectorAll("[data-view]")) {
    if (item.dataset.view === name) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
  document.title = `${t(name)} – Heliograph`;
  views.get(name)?.();
}

async function fillWorkspaces() {
  const found = await get("workspaces", {}, { place: false });
  const names = found.workspaces.map((item) => item.name);
  if (!names.includes(session.workspace)) session.workspace = names.includes(found.default) ? found.default : names[0];
  select.replaceChildren(...names.map((name) => el("option", { value: name, selected: name === session.workspace }, name)));
}

async function enter() {
  await fillWorkspaces();
  notify("");
  build();
}

addEventListener("hashchange", () => { notify(""); show(); });
for (const item of document.querySelectorAll("[data-view]")) {
  item.addEventListener("click", () => { location.hash = item.dataset.view; });
}
select.addEventListener("change", () => { session.workspace = select.value; build(); });
watchLogin(enter, byId("leave"));
