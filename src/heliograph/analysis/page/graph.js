"use strict";
// Draws the graph in #data. All text is set as text; nothing is fetched.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const COLOURS = ["#4263eb", "#0ca678", "#f08c00", "#ae3ec9", "#1098ad", "#e03131", "#74b816", "#868e96", "#d6336c", "#5c7cfa"];
  const data = JSON.parse(document.getElementById("data").textContent);
  const svg = document.getElementById("graph");
  const detail = document.getElementById("detail");
  const types = [...new Set(data.entities.map((entity) => entity.type))].sort();
  const colour = (type) => COLOURS[types.indexOf(type) % COLOURS.length];
  const nodes = data.entities.map((entity, place) => {
    // A spiral, the best in the middle: the same file always looks the same.
    const angle = place * 2.399963, distance = 34 * Math.sqrt(place);
    return { ...entity, x: distance * Math.cos(angle), y: distance * Math.sin(angle), links: 0 };
  });
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const edges = data.relations
    .map((relation) => ({ ...relation, one: byId.get(relation.source_id), other: byId.get(relation.target_id) }))
    .filter((edge) => edge.one && edge.other);
  for (const edge of edges) { edge.one.links += 1; edge.other.links += 1; }

  function make(name, attributes, text) {
    const made = name.startsWith("svg:") ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Fruchterman and Reingold, 1991: nodes push those near them, edges pull, ever less far a step; all are drawn to the
  // middle, so that parts without a relation between them stay in sight of each other.
  function layOut() {
    const count = nodes.length, steps = count > 400 ? 80 : 300, ideal = 70;
    for (let step = 0; step < steps; step += 1) {
      const reach = 60 * (1 - step / steps) + 0.5;
      for (const node of nodes) { node.dx = -node.x; node.dy = -node.y; }
      for (let i = 0; i < count; i += 1) {
        for (let j = i + 1; j < count; j += 1) push(nodes[i], nodes[j], ideal);
      }
      for (const edge of edges) pull(edge.one, edge.other, ideal);
      for (const node of nodes) {
        const length = Math.hypot(node.dx, node.dy) || 1, most = Math.min(length, reach);
        node.x += node.dx / length * most; node.y += node.dy / length * most;
      }
    }
  }
  function push(one, other, ideal) {
    const x = one.x - other.x, y = one.y - other.y, square = Math.max(x * x + y * y, 0.01);
    if (square > 25 * ideal * ideal) return;
    const force = ideal * ideal / square;
    one.dx += x * force; one.dy += y * force; other.dx -= x * force; other.dy -= y * force;
  }
  function pull(one, other, ideal) {
    const x = one.x - other.x, y = one.y - other.y, force = Math.hypot(x, y) / ideal;
    one.dx -= x * force; one.dy -= y * force; other.dx += x * force; other.dy += y * force;
  }

  const world = svg.appendChild(make("svg:g"));
  function draw() {
    for (const edge of edges) {
      edge.line = world.appendChild(make("svg:line", { "stroke-width": Math.min(6, 1 + Math.log2(1 + Math.max(0, edge.weight))) }));
      edge.line.appendChild(make("svg:title", {}, `${edge.source} — ${edge.target}`));
      edge.line.addEventListener("click", () => showRelation(edge));
    }
    for (const node of nodes) {
      const radius = 5 + Math.min(12, 2 * Math.sqrt(node.links));
      node.dot = world.appendChild(make("svg:circle", { r: radius, fill: colour(node.type) }));
      node.dot.appendChild(make("svg:title", {}, node.name));
      if (node.is_start) node.dot.classList.add("start");
      node.label = world.appendChild(make("svg:text", { "text-anchor": "middle" }, node.name.length > 28 ? `${node.name.slice(0, 27)}…` : node.name));
      node.radius = radius;
      node.dot.addEventListener("pointerdown", (event) => dragNode(event, node));
    }
    place();
  }
  function place() {
    for (const edge of edges) {
      edge.line.setAttribute("x1", edge.one.x); edge.line.setAttribute("y1", edge.one.y);
      edge.line.setAttribute("x2", edge.other.x); edge.line.setAttribute("y2", edge.other.y);
    }
    for (const node of nodes) {
      node.dot.setAttribute("cx", node.x); node.dot.setAttribute("cy", node.y);
      node.label.setAttribute("x", node.x); node.label.setAttribute("y", node.y - node.radius - 4);
    }
  }

  let box = { x: -300, y: -200, width: 600, height: 400 };
  function look() { svg.setAttribute("viewBox", `${box.x} ${box.y} ${box.width} ${box.height}`); }
  function fit() {
    if (!nodes.length) return look();
    const xs = nodes.map((node) => node.x), ys = nodes.map((node) => node.y), edge = 60;
    const left = Math.min(...xs) - edge, top = Math.min(...ys) - edge;
    box = { x: left, y: top, width: Math.max(...xs) - left + edge, height: Math.max(...ys) - top + edge };
    look();
  }
  function toWorld(event) {
    const matrix = svg.getScreenCTM();
    return matrix ? new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse()) : { x: 0, y: 0 };
  }
  function follow(event, move, end) {
    const stop = () => { removeEventListener("pointermove", move); removeEventListener("pointerup", stop); removeEventListener("pointercancel", stop); if (end) end(); };
    addEventListener("pointermove", move); addEventListener("pointerup", stop); addEventListener("pointercancel", stop);
    event.preventDefault();
  }
  function dragNode(event, node) {
    event.stopPropagation();
    showEntity(node);
    follow(event, (moved) => { const point = toWorld(moved); node.x = point.x; node.y = point.y; place(); });
  }
  svg.addEventListener("pointerdown", (event) => {
    if (event.target !== svg) return;
    const from = toWorld(event);
    follow(event, (moved) => { const now = toWorld(moved); box.x += from.x - now.x; box.y += from.y - now.y; look(); });
  });
  svg.addEventListener("wheel", (event) => {
    const point = toWorld(event), factor = Math.exp(Math.sign(event.deltaY) * 0.15);
    box = { x: point.x - (point.x - box.x) * factor, y: point.y - (point.y - box.y) * factor, width: box.width * factor, height: box.height * factor };
    look(); event.preventDefault();
  }, { passive: false });

  function mark(chosen) {
    for (const shape of svg.querySelectorAll(".chosen")) shape.classList.remove("chosen");
    chosen.classList.add("chosen");
  }
  function show(...parts) { detail.replaceChildren(...parts); detail.scrollTop = 0; }
  function list(title, items) {
    if (!items.length) return [];
    const made = make("ul");
    for (const item of items) { const row = make("li"); row.append(item); made.append(row); }
    return [make("h3", {}, title), made];
  }
  function link(text, act) { const made = make("button", { type: "button" }, text); made.addEventListener("click", act); return made; }
  function paragraphs(text) { return text.split("<SEP>").filter((part) => part.trim()).map((part) => make("p", {}, part)); }

  function showEntity(node) {
    mark(node.dot);
    const near = edges.filter((edge) => edge.one === node || edge.other === node);
    show(make("h2", {}, node.name), make("p", {}, node.type), ...paragraphs(node.description),
      ...list("Also called", node.aliases), ...list("Documents", node.sources),
      ...list("Relations", near.map((edge) => link(edge.one === node ? edge.target : edge.source, () => showRelation(edge)))));
  }
  function showRelation(edge) {
    mark(edge.line);
    const ends = make("h2");
    ends.append(link(edge.source, () => showEntity(edge.one)), " — ", link(edge.target, () => showEntity(edge.other)));
    show(ends, ...paragraphs(edge.description), ...list("Keywords", edge.keywords), ...list("Documents", edge.sources));
  }
  function showChunks() {
    const hint = make("p", {}, nodes.length ? "Choose an entity or a relation; drag to move, turn the wheel to zoom." : "There is no entity to draw.");
    const chunks = data.chunks.map((chunk) => {
      const row = make("div");
      row.append(make("strong", {}, `[${chunk.reference_id}] ${[chunk.source, ...chunk.headings].join(" › ")}`), make("p", {}, chunk.text));
      return row;
    });
    show(hint, ...list("Passages", chunks));
  }
  function find(text) {
    const wanted = text.trim().toLowerCase();
    const is = (node) => !wanted || [node.name, ...node.aliases].some((name) => name.toLowerCase().includes(wanted));
    for (const node of nodes) {
      node.dot.classList.toggle("dim", !is(node)); node.label.classList.toggle("dim", !is(node));
    }
    for (const edge of edges) edge.line.classList.toggle("dim", !(is(edge.one) && is(edge.other)));
    return nodes.find((node) => wanted && is(node));
  }

  document.getElementById("summary").textContent = data.summary;
  const legend = document.getElementById("legend");
  for (const type of types) {
    const row = make("li"), drop = make("svg:svg", { viewBox: "0 0 10 10" });
    drop.append(make("svg:circle", { cx: 5, cy: 5, r: 5, fill: colour(type) }));
    row.append(drop, type);
    legend.append(row);
  }
  const search = document.getElementById("find");
  search.addEventListener("input", () => find(search.value));
  search.addEventListener("change", () => { const found = find(search.value); if (found) showEntity(found); });
  document.getElementById("fit").addEventListener("click", fit);
  layOut(); draw(); fit(); showChunks();
})();
