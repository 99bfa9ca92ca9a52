// The interface of the service, made of its OpenAPI document: routes by tag, what they take and give, and trying them.
import { ask, get, session } from "./api.js";
import { attempt, button, el, notify, open } from "./dom.js";
import { watchLogin } from "./login.js";
import { language, t } from "./words.js";

const METHODS = ["get", "post", "put", "patch", "delete"], MOST_SHOWN = 200000, JSON_TYPE = "application/json";
const byId = (id) => document.getElementById(id), place = byId("place"), find = byId("find"), routes = byId("routes");
let api = null;

document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
for (const node of document.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
for (const node of document.querySelectorAll("[data-label]")) node.setAttribute("aria-label", t(node.dataset.label));

const pretty = (value) => typeof value === "string" ? value : JSON.stringify(value, null, 2);
const keyOf = (schema) => schema.$ref?.split("/").pop();
// Of two shapes of one name, the document's names begin with where they come from.
const nameOf = (schema) => keyOf(schema)?.split("__").pop();
const resolved = (schema) => schema?.$ref ? resolved(api.components.schemas[keyOf(schema)] ?? {}) : schema ?? {};
// What a schema is besides null.
const core = (schema) => {
  const choices = (resolved(schema).anyOf ?? []).filter((one) => one.type !== "null");
  return choices.length === 1 ? core(choices[0]) : resolved(schema);
};

// Fills the first time it is opened, so that a shape that holds itself ends somewhere, and a long list shows at once.
function folded(summary, make, properties) {
  const node = el("details", properties, el("summary", null, summary));
  node.addEventListener("toggle", () => {
    if (node.open && node.children.length === 1) node.append(...[make()].flat().filter(Boolean));
  });
  return node;
}

// Text with `words` between backticks as code; prose has paragraphs as well.
const spans = (text) => (text ?? "").split("`").map((piece, place) => place % 2 ? el("code", null, piece) : piece);
const prose = (text) => (text ?? "").trim().split(/\n\s*\n/).filter(Boolean)
  .map((part) => el("p", null, spans(part)));

function typeOf(schema) {
  if (schema.$ref) return nameOf(schema);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if ("const" in schema) return JSON.stringify(schema.const);
  const choices = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (choices) return choices.map(typeOf).join(" | ");
  if (schema.type === "array") return `${typeOf(schema.items ?? {})}[]`;
  const kind = schema.format ? `${schema.type} (${schema.format})` : schema.type ?? "any";
  return kind + limits(schema);
}

function limits(schema) {
  const least = schema.minimum ?? schema.minLength, most = schema.maximum ?? schema.maxLength;
  if (least === undefined && most === undefined) return "";
  return ` ${least ?? ""}…${most ?? ""}`;
}

// The objects in a schema whose fields are worth showing: itself, what a list of it holds, each of its choices.
function objectsIn(schema) {
  const shape = resolved(schema);
  if (shape.properties) return [schema];
  if (shape.items) return objectsIn(shape.items);
  const more = typeof shape.additionalProperties === "object" ? [shape.additionalProperties] : [];
  return [...(shape.anyOf ?? shape.oneOf ?? shape.allOf ?? []), ...more].flatMap(objectsIn);
}

function fieldsOf(schema) {
  const shape = resolved(schema), needed = new Set(shape.required ?? []);
  return el("div", { class: "scroll" }, prose(shape.description),
    el("table", { class: "fields" }, Object.entries(shape.properties ?? {}).map(([name, inner]) =>
      row(name, inner, inner.description, needed.has(name)))));
}

function row(name, schema, text, isNeeded, where = "") {
  const notes = [where, isNeeded && t("needed"), schema.default !== undefined && schema.default !== null
    && `${t("standard")} ${JSON.stringify(schema.default)}`].filter(Boolean).join(", ");
  return el("tr", null,
    el("td", null, el("code", null, name)),
    el("td", null, el("code", null, typeOf(schema)), notes && el("div", { class: "quiet" }, notes)),
    el("td", null, prose(text), objectsIn(schema).map((inner) =>
      folded(`${t("fields")} ${nameOf(inner) ?? ""}`, () => fieldsOf(inner)))));
}

function exampleOf(media) {
  if (media.example !== undefined) return media.example;
  const named = Object.values(media.examples ?? {})[0];
  return named?.value ?? resolved(media.schema).examples?.[0] ?? resolved(media.schema).example;
}

function content(media) {
  return Object.entries(media ?? {}).map(([type, one]) => {
    const example = exampleOf(one);
    return el("div", null, el("code", null, type), " ", el("code", null, one.schema ? typeOf(one.schema) : ""),
      objectsIn(one.schema ?? {}).map((inner) => folded(`${t("fields")} ${nameOf(inner) ?? ""}`, () => fieldsOf(inner))),
      example !== undefined && folded(t("example"), () => el("pre", null, pretty(example))));
  });
}

function describe(method, path, operation) {
  const parameters = operation.parameters ?? [], body = operation.requestBody?.content;
  const isFree = operation.security?.length === 0;
  return [
    ...prose(operation.description), isFree && el("p", { class: "quiet" }, t("noCredentials")),
    parameters.length > 0 && el("h3", null, t("parameters")),
    parameters.length > 0 && el("div", { class: "scroll" }, el("table", { class: "fields" },
      parameters.map((one) => row(one.name, one.schema ?? {}, one.description, one.required, one.in)))),
    body && el("h3", null, t("body")), ...(body ? content(body) : []),
    el("h3", null, t("responses")),
    ...Object.entries(operation.responses).map(([status, response]) =>
      folded(el("span", null, `${status} `, spans(response.description)), () => content(response.content))),
    el("h3", null, t("tryIt")), trial(method, path, operation),
  ];
}

function control(name, schema, isNeeded) {
  const kind = core(schema), choices = kind.type === "boolean" ? ["true", "false"] : kind.enum;
  const known = { name, required: isNeeded, autocomplete: "off" };
  if (kind.format === "binary") return el("input", { ...known, type: "file" });
  if (choices) return el("select", known, ["", ...choices].map((one) => el("option", { value: one }, one)));
  if (kind.type === "array") return el("textarea", { ...known, rows: 2, placeholder: t("onePerLine") });
  return el("input", { ...known, type: name === "password" ? "password" : "text", placeholder: kind.default ?? "" });
}

const labelled = (name, node) => el("label", null, el("span", null, el("code", null, name)), node);
const listed = (node) => node.tagName === "TEXTAREA" ? node.value.split("\n").filter((line) => line.trim()) : node.value;

// A form for one operation, and below it what the service answered.
function trial(method, path, operation) {
  const given = (operation.parameters ?? []).map((one) => ({ ...one, node: control(one.name, one.schema ?? {}, one.required) }));
  const [type, media] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const isJson = type === JSON_TYPE, shape = resolved(media?.schema), needed = new Set(shape.required ?? []);
  const parts = media && !isJson ? Object.entries(shape.properties ?? {})
    .map(([name, schema]) => ({ name, node: control(name, schema, needed.has(name)) })) : [];
  const text = isJson && el("textarea", { name: "body", rows: 8, spellcheck: "false", "aria-label": t("body") });
  if (text) text.value = pretty(exampleOf(media) ?? {});
  const stop = button(t("stop"), () => running?.abort(), { hidden: true }), result = el("div", { class: "result", "aria-live": "polite" });
  const submit = el("button", { class: "main" }, t("send"));
  let running = null;

  function request() {
    const query = {};
    let target = path.slice(1);
    for (const { name, in: where, node } of given) {
      const value = listed(node);
      if (where === "path") target = target.replace(`{${name}}`, encodeURIComponent(value));
      else if (where === "query" && value.length > 0) query[name] = value;
    }
    if (isJson) return { target, query, body: text.value.trim() ? parse(text.value) : undefined };
    if (!media) return { target, query };
    const form = type === "multipart/form-data" ? new FormData() : new URLSearchParams();
    for (const { name, node } of parts) {
      if (node.files) for (const file of node.files) form.append(name, file, file.name);
      else if (node.value) form.append(name, node.value);
    }
    return { target, query, form };
  }

  async function run() {
    const { target, ...options } = request();
    if (method === "delete" && !await open(t("delete"), [el("p", null, t("sureSend"))], { send: t("send") })) return;
    running = new AbortController();
    submit.disabled = true;
    stop.hidden = false;
    notify(t("sending"));
    try {
      const started = performance.now();
      const response = await ask(method.toUpperCase(), target, { ...options, signal: running.signal });
      await show(response, result, () => Math.round(performance.now() - started));
      notify("");
    } catch (error) {
      if (error.name !== "AbortError") throw error;
      notify(t("stopped"));
    } finally {
      submit.disabled = false;
      stop.hidden = true;
    }
  }

  return el("form", { class: "try", onsubmit: (event) => { event.preventDefault(); attempt(run); } },
    [...given, ...parts].map(({ name, node }) => labelled(name, node)), text || null,
    el("div", { class: "row" }, submit, stop), result);
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(t("badBody"));
  }
}

// Shows a response while it comes, and JSON by lines once it is there.
async function show(response, result, milliseconds) {
  const head = el("p", null, el("b", { class: response.ok ? "status" : "status bad" }, `${response.status} ${response.statusText}`));
  const type = response.headers.get("Content-Type") ?? "", shown = el("pre", null), id = response.headers.get("X-Request-ID");
  result.replaceChildren(head, shown);
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader?.read() ?? { done: true };
    if (done) break;
    if (text.length < MOST_SHOWN) shown.append(value);
    text += value;
  }
  if (/[/+]json\b/.test(type)) shown.textContent = beautiful(text).slice(0, MOST_SHOWN);
  head.append(el("span", { class: "quiet" }, ` ${milliseconds()} ms · ${type} · X-Request-ID ${id}`));
  if (text.length > MOST_SHOWN) result.append(el("p", { class: "quiet" }, t("shortened")));
}

function beautiful(text) {
  try {
    return pretty(JSON.parse(text));
  } catch {
    return text;
  }
}

function list() {
  const tags = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const method of METHODS.filter((one) => methods[one])) {
      const operation = methods[method], tag = operation.tags?.[0] ?? "";
      const summary = [el("b", { class: method === "delete" && "danger" }, method.toUpperCase()), el("code", null, path),
        el("span", { class: "quiet" }, operation.summary ?? "")];
      const node = folded(el("span", null, summary), () => describe(method, path, operation),
        { class: "route", id: operation.operationId, "data-words": `${method} ${path} ${operation.summary}`.toLowerCase() });
      node.addEventListener("toggle", () => { if (node.open) history.replaceState(null, "", `#${node.id}`); });
      tags.set(tag, [...(tags.get(tag) ?? []), node]);
    }
  }
  routes.replaceChildren(...[...tags].map(([tag, nodes]) => el("section", { "aria-label": tag }, el("h2", null, tag), ...nodes)));
}

function sift() {
  const words = find.value.toLowerCase().split(/\s+/);
  for (const node of routes.querySelectorAll(".route")) node.hidden = !words.every((word) => node.dataset.words.includes(word));
  for (const section of routes.children) section.hidden = !section.querySelector(".route:not([hidden])");
}

function openNamed() {
  const node = byId(decodeURIComponent(location.hash.slice(1)));
  if (!node?.matches(".route")) return;
  node.open = true;
  node.scrollIntoView();
}

watchLogin(async () => {
  api = await get("openapi.json", {}, { place: false });
  byId("title").textContent = `${api.info.title} ${api.info.version} · OpenAPI ${api.openapi}`;
  place.value = session.workspace ?? "";
  notify("");
  list();
  sift();
  openNamed();
}, byId("leave"));
place.addEventListener("change", () => { session.workspace = place.value.trim(); });
find.addEventListener("input", sift);
addEventListener("hashchange", openNamed);
