// Puts the page together: its words, who asks, which workspace, which section.
import { call, get, session } from "./api.js";
import { makeAsk } from "./ask.js";
import { makeDocuments } from "./documents.js";
import { attempt, el, field, notify, open } from "./dom.js";
import { makeGraph } from "./graph.js";
import { language, t } from "./words.js";

const views = new Map(), byId = (id) => document.getElementById(id);
const select = byId("workspace"), leave = byId("leave");
let asking = null;

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
  try {
    await get("auth/verify", {}, { place: false });
  } catch (error) {
    // 403 tells that a key is missing or wrong.
    if (error.status === 403) askForLogin();
    throw error;
  }
  leave.hidden = !(session.token || session.key);
  await fillWorkspaces();
  notify("");
  build();
}

async function logIn() {
  const { auth_configured: hasAccounts } = await get("auth-status", {}, { place: false });
  const user = el("input", { name: "username", autocomplete: "username", required: true });
  const password = el("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const key = el("input", { name: "key", type: "password", autocomplete: "off", required: true });
  const fields = hasAccounts ? [field(t("user"), user), field(t("password"), password)]
    : [el("p", { class: "quiet" }, t("keyNeeded")), field(t("key"), key)];
  const data = await open(t("login"), fields, { send: t("login"), stays: true });
  if (!data) return;
  if (hasAccounts) {
    const form = new URLSearchParams({ username: data.get("username"), password: data.get("password"), grant_type: "password" });
    session.token = (await call("POST", "login", { form, place: false })).access_token;
  } else session.key = data.get("key");
  await enter();
}

// One dialog, however many requests were refused at once; asked again until somebody gets in.
function askForLogin() {
  session.token = session.key = null;
  asking ??= attempt(logIn).finally(() => {
    asking = null;
    if (!(session.token || session.key)) askForLogin();
  });
}

addEventListener("login-needed", askForLogin);
addEventListener("hashchange", show);
for (const item of document.querySelectorAll("[data-view]")) {
  item.addEventListener("click", () => { location.hash = item.dataset.view; });
}
select.addEventListener("change", () => { session.workspace = select.value; build(); });
leave.addEventListener("click", () => attempt(async () => {
  if (session.token) await call("POST", "logout", { place: false }).catch(() => null);
  session.token = session.key = null;
  location.reload();
}));
attempt(enter);
