// The picture of a graph: SVG that can be dragged, zoomed, and walked through with the keyboard.
import { svg } from "./dom.js";
import { place, step } from "./layout.js";
import { t } from "./words.js";

const STEPS = 220, MOST_LABELS = 50;

export function makeDrawing({ onNode, onEdge }) {
  const lines = svg("g"), dots = svg("g");
  const root = svg("svg", { role: "group", "aria-label": t("picture") }, lines, dots);
  const view = { x: -400, y: -300, width: 800, height: 600 };
  let nodes = [], edges = [], frame = 0, dragged = null, moved = false;

  function draw(graph, around) {
    const known = new Map(nodes.map((node) => [node.id, node]));
    nodes = graph.nodes.map((item) => Object.assign(known.get(item.id) ?? {}, item));
    const byId = new Map(nodes.map((node) => [node.id, node]));
    edges = graph.edges.map((edge) => ({ ...edge, source: byId.get(edge.source), target: byId.get(edge.target) }));
    place(nodes, byId.get(around));
    const labelled = nodes.map((node) => node.degree).sort((one, other) => other - one)[MOST_LABELS] ?? -1;
    for (const node of nodes) node.minor = node.degree <= labelled;
    lines.replaceChildren(...edges.flatMap(drawEdge));
    dots.replaceChildren(...nodes.map(drawNode));
    settle();
  }

  function drawEdge(edge) {
    const width = 1 + Math.min(4, Math.log2(1 + edge.weight));
    edge.lines = [svg("line", { "stroke-width": width.toFixed(1) }),
      svg("line", { class: "hit", onclick: () => onEdge(edge) }, svg("title", null, edge.label))];
    return edge.lines;
  }

  function drawNode(node) {
    const radius = 6 + Math.min(12, 2 * Math.sqrt(node.degree));
    const label = node.id.length > 28 ? `${node.id.slice(0, 27)}…` : node.id;
    const choose = () => { if (!moved) onNode(node.id); };
    node.group = svg("g", {
      class: `node k${node.colour}${node.open ? " open" : ""}${node.chosen ? " chosen" : ""}${node.minor ? " minor" : ""}`, tabindex: 0, role: "button",
      "aria-label": node.id, "aria-pressed": Boolean(node.chosen), "data-name": node.id, onclick: choose,
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        onNode(node.id);
      },
      onpointerdown: (event) => { dragged = node; moved = false; event.stopPropagation(); },
    }, svg("circle", { r: radius.toFixed(1) }), svg("text", { x: (radius + 3).toFixed(1), y: 4 }, label),
    svg("title", null, node.id));
    return node.group;
  }

  function settle() {
    cancelAnimationFrame(frame);
    let at = 0;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const tick = () => {
      for (let n = 0; n < (still ? STEPS : 6) && at < STEPS; n++, at++) step(nodes, edges, 30 * (1 - at / STEPS) + 0.5);
      put();
      if (at < STEPS) frame = requestAnimationFrame(tick);
      else fit();
    };
    tick();
  }

  function put() {
    for (const node of nodes) node.group.setAttribute("transform", `translate(${node.x.toFixed(1)} ${node.y.toFixed(1)})`);
    for (const { source, target, lines: pair } of edges) {
      for (const line of pair) {
        line.setAttribute("x1", source.x.toFixed(1)); line.setAttribute("y1", source.y.toFixed(1));
        line.setAttribute("x2", target.x.toFixed(1)); line.setAttribute("y2", target.y.toFixed(1));
      }
    }
  }

  function look() {
    root.setAttribute("viewBox", [view.x, view.y, view.width, view.height].map((n) => n.toFixed(1)).join(" "));
  }

  function fit() {
    if (!nodes.length) return;
    const xs = nodes.map((node) => node.x), ys = nodes.map((node) => node.y);
    view.x = Math.min(...xs) - 60;
    view.y = Math.min(...ys) - 50;
    view.width = Math.max(560, Math.max(...xs) - view.x + 160);
    view.height = Math.max(400, Math.max(...ys) - view.y + 50);
    look();
  }

  function zoom(factor) {
    view.x += view.width * (1 - factor) / 2;
    view.y += view.height * (1 - factor) / 2;
    view.width *= factor;
    view.height *= factor;
    look();
  }

  const scale = () => Math.max(view.width / root.clientWidth, view.height / root.clientHeight);
  root.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15); }, { passive: false });
  root.addEventListener("pointerdown", () => { dragged = view; moved = false; });
  root.addEventListener("pointermove", (event) => {
    if (!dragged || !event.buttons) return;
    if (Math.abs(event.movementX) + Math.abs(event.movementY) > 1) moved = true;
    const by = scale(), sign = dragged === view ? -1 : 1;
    dragged.x += sign * event.movementX * by;
    dragged.y += sign * event.movementY * by;
    if (dragged === view) look(); else put();
  });
  root.addEventListener("pointerup", () => { dragged = null; });
  look();
  return { root, draw, zoom, fit };
}
