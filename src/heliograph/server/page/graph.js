// The graph: find an entity, walk on from it, correct what is wrong.
import { call, get, post } from "./api.js";
import { attempt, button, el, field, notify, open } from "./dom.js";
import { makeDrawing } from "./drawing.js";
import { t } from "./words.js";

const MOST = 60, MOST_AT_FIRST = 100, MOST_SHOWN = 400, COLOURS = 7;
const pair = (item) => JSON.stringify([item.source, item.target].sort());

export function makeGraph(section) {
  let entities = new Map(), relations = new Map(), opened = new Set(), chosen = null, last = [];
  const names = el("datalist", { id: "names" });
  const search = el("input", { type: "search", list: "names", id: "search", autocomplete: "off", oninput: suggest });
  const panel = el("aside", { class: "panel", "aria-live": "polite" }, el("p", { class: "quiet" }, t("hint")));
  const legend = el("p", { class: "legend quiet" });
  const undo = button(t("undo"), () => attempt(takeBack), { disabled: true });
  const drawing = makeDrawing({
    onNode: (name) => attempt(() => walk(name)),
    onEdge: (edge) => attempt(() => showRelation(edge.source.id, edge.target.id)),
  });
  section.append(
    el("form", { class: "row", onsubmit: (event) => { event.preventDefault(); attempt(() => start(search.value)); } },
      field(t("find"), search), names, el("button", { class: "main" }, t("show")),
      button(t("popular"), () => attempt(begin)), undo,
      button("+", () => drawing.zoom(1 / 1.3), { "aria-label": t("zoomIn") }),
      button("−", () => drawing.zoom(1.3), { "aria-label": t("zoomOut") }),
      button(t("fit"), drawing.fit)),
    el("div", { class: "canvas" }, el("div", null, drawing.root, legend), panel));

  let waiting = 0;
  function suggest() {
    clearTimeout(waiting);
    waiting = setTimeout(() => attempt(async () => {
      const found = search.value.trim() ? await get("graph/label/search", { q: search.value, limit: 20 }) : [];
      names.replaceChildren(...found.map((name) => el("option", { value: name })));
    }), 150);
  }

  async function begin() {
    const found = await get("graphs", { label: "*", max_nodes: MOST_AT_FIRST });
    if (!found.nodes.length) return notify(t("empty"));
    [entities, relations, opened] = [new Map(), new Map(), new Set()];
    for (const { id, properties } of found.nodes) entities.set(id, { name: id, type: properties.entity_type, degree: 0 });
    for (const { source, target, properties } of found.edges) {
      for (const name of [source, target]) if (entities.has(name)) entities.get(name).degree += 1;
      const keywords = properties.keywords ? properties.keywords.split(",") : [];
      relations.set(pair({ source, target }), { source, target, weight: properties.weight, keywords });
    }
    notify(found.is_truncated ? t("truncated") : "");
    chosen = found.nodes[0].id;
    redraw(chosen);
    return showEntity(chosen);
  }

  async function start(text) {
    const [name] = await get("graph/label/search", { q: text, limit: 1 });
    if (name === undefined) return notify(t("empty"), true);
    [entities, relations, opened] = [new Map(), new Map(), new Set()];
    return walk(name);
  }

  async function walk(name) {
    if (!opened.has(name)) {
      const found = await get("graph/neighbours", { name, limit: MOST });
      for (const item of found.entities) if (entities.size < MOST_SHOWN || entities.has(item.name)) entities.set(item.name, item);
      for (const item of found.relations) relations.set(pair(item), item);
      opened.add(name);
      notify(found.is_truncated ? t("truncated") : "");
    }
    chosen = name;
    redraw(name);
    await showEntity(name);
  }

  function redraw(around) {
    const colours = colourTypes();
    const nodes = [...entities.values()].map((item) => ({
      id: item.name, degree: item.degree, open: opened.has(item.name), chosen: item.name === chosen, colour: colours.get(item.type),
    }));
    const edges = [...relations.values()].filter((item) => entities.has(item.source) && entities.has(item.target))
      .map((item) => ({ source: item.source, target: item.target, weight: item.weight, label: label(item) }));
    drawing.draw({ nodes, edges }, around);
    drawing.root.querySelector(`[data-name="${CSS.escape(around)}"]`)?.focus({ preventScroll: true });
  }

  // The types that are shown most often have colours of their own.
  function colourTypes() {
    const counts = new Map();
    for (const { type } of entities.values()) counts.set(type, (counts.get(type) ?? 0) + 1);
    const types = [...counts.keys()].sort((one, other) => counts.get(other) - counts.get(one));
    const named = types.filter((type) => type !== "unknown").slice(0, COLOURS);
    legend.replaceChildren(...named.map((type, n) => el("span", { class: `k${n}` }, type)),
      named.length < types.length ? el("span", { class: `k${COLOURS}` }, t("other")) : "");
    return new Map(types.map((type) => [type, named.includes(type) ? named.indexOf(type) : COLOURS]));
  }

  const label = (item) => `${item.source} – ${item.target}: ${item.keywords.join(", ")}`;

  async function showEntity(name) {
    const { entity, sources } = await get("graph/entity", { name, limit: 5 });
    const near = [...relations.values()].filter((item) => item.source === name || item.target === name)
      .sort((one, other) => other.weight - one.weight);
    panel.replaceChildren(
      el("h2", null, entity.name), el("p", { class: "quiet" }, entity.type),
      ...entity.descriptions.map((text) => el("p", null, text)),
      entity.aliases.length ? el("p", { class: "quiet" }, `${t("aliases")}: ${entity.aliases.join(", ")}`) : "",
      el("div", { class: "row" },
        button(t("edit"), () => attempt(() => edit(entity))), button(t("rename"), () => attempt(() => rename(entity))),
        button(t("merge"), () => attempt(() => merge(entity))), button(t("hide"), () => attempt(() => hide(entity)))),
      el("h3", null, t("relations")),
      el("ul", null, near.map((item) => {
        const other = item.source === name ? item.target : item.source;
        return el("li", null, button(other, () => attempt(() => walk(other)), { class: "plain" }), " ",
          button(item.keywords.join(", ") || "…", () => attempt(() => showRelation(item.source, item.target)), { class: "plain" }));
      })),
      ...mentions(sources));
  }

  async function showRelation(source, target) {
    const { relation, sources } = await get("graph/relation", { source, target, limit: 5 });
    panel.replaceChildren(
      el("h2", null, `${relation.source} – ${relation.target}`), el("p", { class: "quiet" }, relation.keywords.join(", ")),
      ...relation.descriptions.map((text) => el("p", null, text)),
      el("p", { class: "quiet" }, `${t("weight")}: ${relation.weight}`),
      el("div", { class: "row" }, button(t("edit"), () => attempt(() => editRelation(relation))),
        button(t("hide"), () => attempt(() => hideRelation(relation)))),
      ...mentions(sources));
  }

  function mentions(sources) {
    if (!sources.length) return [];
    return [el("h3", null, t("mentioned")), el("ul", null, sources.map((item) => el("li", null,
      button(item.file_path, () => open(item.file_path, [el("p", { class: "source", tabindex: 0 }, item.text)]), { class: "plain" }))))];
  }

  // After a correction the picture is read anew from the entity that is left.
  async function changed(reply, name) {
    last = reply.curation_ids;
    undo.disabled = false;
    notify(reply.message ?? t("done"));
    [entities, relations, opened] = [new Map(), new Map(), new Set()];
    if (name) return walk(name);
    panel.replaceChildren();
    drawing.draw({ nodes: [], edges: [] });
  }

  async function takeBack() {
    for (const id of [...last].reverse()) await post(`graph/curations/${encodeURIComponent(id)}/undo`);
    last = [];
    undo.disabled = true;
    [entities, relations, opened] = [new Map(), new Map(), new Set()];
    const is = chosen && (await get("graph/entity/exists", { name: chosen })).exists;
    await (is ? start(chosen) : begin());
    notify(t("undone"));
  }

  const text = (name, value) => el("input", { name, value, required: true, maxlength: 2048 });
  const area = (name, value) => {
    const made = el("textarea", { name, rows: 6, required: true });
    made.value = value;
    return made;
  };

  async function edit(entity) {
    const kind = text("entity_type", entity.type), about = area("description", entity.descriptions.join("\n"));
    const data = await open(entity.name, [field(t("type"), kind), field(t("description"), about)], { send: t("save") });
    if (!data) return;
    const body = { entity_name: entity.name, updated_data: Object.fromEntries(data) };
    await changed(await post("graph/entity/edit", body), entity.name);
  }

  async function rename(entity) {
    const data = await open(t("rename"), [field(t("newName"), text("entity_name", entity.name))], { send: t("save") });
    if (!data) return;
    const body = { entity_name: entity.name, updated_data: Object.fromEntries(data), allow_rename: true };
    const reply = await post("graph/entity/edit", body);
    await changed(reply, reply.operation_summary.final_entity);
  }

  async function merge(entity) {
    const into = el("input", { name: "into", list: "names", required: true, autocomplete: "off", maxlength: 2048 });
    const data = await open(entity.name, [field(t("mergeInto"), into)], { send: t("merge") });
    if (!data) return;
    const body = { entities_to_change: [entity.name], entity_to_change_into: data.get("into") };
    const reply = await post("graph/entities/merge", body);
    await changed(reply, reply.data.entity_name);
  }

  async function hide(entity) {
    if (!await open(t("hide"), [el("p", null, entity.name)], { send: t("hide") })) return;
    await changed(await call("DELETE", "graph/entity/delete", { body: { entity_name: entity.name } }), null);
  }

  async function editRelation(relation) {
    const data = await open(`${relation.source} – ${relation.target}`, [
      field(t("keywords"), el("input", { name: "keywords", value: relation.keywords.join(", ") })),
      field(t("description"), area("description", relation.descriptions.join("\n"))),
      field(t("weight"), el("input", { name: "weight", type: "number", min: "0.01", step: "any", value: relation.weight })),
    ], { send: t("save") });
    if (!data) return;
    const body = { source_id: relation.source, target_id: relation.target, updated_data: Object.fromEntries(data) };
    await changed(await post("graph/relation/edit", body), relation.source);
  }

  async function hideRelation(relation) {
    const ends = { source_entity: relation.source, target_entity: relation.target };
    if (!await open(t("hide"), [el("p", null, `${relation.source} – ${relation.target}`)], { send: t("hide") })) return;
    await changed(await call("DELETE", "graph/relation/delete", { body: ends }), relation.source);
  }

  return () => { if (!entities.size) attempt(begin); };
}
