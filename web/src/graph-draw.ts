// The drawing: a graph of columns on a WebGL canvas, arranged in a worker, coloured, searched, and written to files.
import Graph from "graphology";
import louvain from "graphology-communities-louvain";
import helpers from "graphology-layout-forceatlas2/helpers.js";
import Sigma from "sigma";
import type { CameraState } from "sigma/types";
import { EdgeLineProgram, EdgeRectangleProgram, NodeCircleProgram, NodePointProgram } from "sigma/rendering";
import type { Schemas } from "./api-types";
import type { LayoutTask } from "./graph-layout";

export type Columns = Schemas["GraphColumns"];
interface NodeData { type: string; label: string; type_: string; degree: number; created: number; community: number; x: number; y: number; size: number; color: string; [key: string]: unknown }
interface EdgeData { type: string; weight: number; size: number; [key: string]: unknown }
export type Colouring = "type" | "community";
export interface Group { name: string; colour: string; count: number }

/** Colours that can be told apart, also by most who see few, in light and in dark. */
const COLOURS = ["#d9822b", "#3f7fbf", "#4a9d6f", "#a05fb4", "#c9505a", "#2a9d9d", "#8a8f3a", "#b0764d", "#6d7ad1", "#c46a9b"];
const OTHER = "#9a948a";
const THEMES = {
  light: { edge: "#d6d0c4", strong: "#9a5b00", ink: "#23211d", ground: "#fbfaf8", dim: "#eae6de" },
  dark: { edge: "#3d3931", strong: "#f0b552", ink: "#ece9e2", ground: "#171614", dim: "#2a2823" },
};
const MOST_PICKED_EDGES = 6_000;
/** From so many on, entities are points and relations thin lines, which cost a third, and only a click says what is near. */
const LARGE = 4_000;
/** After so long without a move, the picture is drawn where it was moved to; after longer where drawing takes long. */
const REST_MS = 120;
const MOST_REST_MS = 2_000;
/** After so much of the time that arranging takes, lines are drawn, too. */
const ROUGHLY_PLACED = 0.3;
/** How far the last picture is shifted, in parts of the window, and how much it is scaled, before it is drawn anew. */
const MOST_SHIFT = 0.45;
const MOST_SCALE = 2.2;

export interface Handlers { onNode: (name: string) => void; onEdge: (source: string, target: string) => void; onGround: () => void }

/** Waits for a place on the page; `new Drawing` fails where there is no WebGL. */
export class Drawing {
  readonly graph = emptyGraph();
  private readonly sigma: Sigma<NodeData, EdgeData>;
  private readonly resizing: ResizeObserver;
  /** What was brought to the middle, and where that was, while entities are arranged. */
  private looked: { name: string; x: number; y: number } | null = null;
  private worker: Worker | null = null;
  private theme = THEMES.light;
  private chosen = "";
  private hovered = "";
  private path: string[] = [];
  private hidden = new Set<string>();
  private near = new Set<string>();
  private colouring: Colouring = "type";
  private span: readonly [number, number] = [-Infinity, Infinity];
  private hidesLone = false;
  /** Where the camera stood when the picture was drawn; null asks for a new picture. */
  private drawnAt: CameraState | null = null;
  private resting = 0;
  private arranged: Float32Array | null = null;
  private nextShown = 0;
  /** Whether the picture that is being drawn has its thin lines: those of a large graph cost most, above all long ones. */
  private drawsLines = true;
  /** Whether entities stand roughly where they will stay; before, lines go from everywhere to everywhere. */
  private isPlaced = true;
  /** How long the last picture took until it was seen. */
  private drawMs = 0;
  private map: Minimap | null = null;
  /** Where the map is drawn, once there is room for one. */
  private mapped: HTMLCanvasElement | null = null;
  /** What is to be labelled in the picture that is being drawn. */
  private labels: { label: string; x: number; y: number; size: number; isChosen: boolean }[] = [];

  constructor(place: HTMLElement, handlers: Handlers, private readonly onArranged: (isBusy: boolean) => void) {
    this.sigma = new Sigma<NodeData, EdgeData>(this.graph, place, {
      nodeProgramClasses: { circle: NodeCircleProgram, point: NodePointProgram }, edgeProgramClasses: { line: EdgeRectangleProgram, thin: thinLines(() => this.drawsLines) },
      enableEdgeEvents: true, labelDensity: 1, labelGridCellSize: 80, labelRenderedSizeThreshold: 3.5, labelFont: "system-ui, sans-serif", labelSize: 12,
      minCameraRatio: 0.02, maxCameraRatio: 12, allowInvalidContainer: true, stagePadding: 48, zIndex: true,
      nodeReducer: (name, data) => this.reduceNode(name, data),
      edgeReducer: (edge, data) => this.reduceEdge(edge, data),
      // All of a picture are known before the first is drawn, so that those of the largest entities find room.
      defaultDrawNodeLabel: (_, data) => { if (data.label) this.labels.push({ ...data, label: data.label, isChosen: data.highlighted === true }); },
      defaultDrawNodeHover: (context, data, settings) => {
        if (!data.label) return;
        const size = settings.labelSize;
        context.font = `600 ${size}px ${settings.labelFont}`;
        const width = context.measureText(data.label).width;
        context.fillStyle = this.theme.ground;
        context.strokeStyle = this.theme.strong;
        context.beginPath();
        context.roundRect(data.x + data.size + 1, data.y - size * 0.9, width + 10, size * 1.8, 5);
        context.fill();
        context.stroke();
        context.fillStyle = this.theme.ink;
        context.fillText(data.label, data.x + data.size + 6, data.y + size / 3);
        context.beginPath();
        context.arc(data.x, data.y, data.size + 2, 0, Math.PI * 2);
        context.stroke();
      },
    });
    this.resizing = new ResizeObserver(() => {
      this.sigma.resize();
      if (!this.map) this.setMap(this.mapped);
      this.sigma.scheduleRender();
    });
    this.resizing.observe(place);
    this.sigma.on("clickNode", ({ node }) => handlers.onNode(node));
    this.sigma.on("clickEdge", ({ edge }) => handlers.onEdge(this.graph.source(edge), this.graph.target(edge)));
    this.sigma.on("clickStage", () => handlers.onGround());
    const hover = (name: string) => {
      if (this.graph.order > LARGE || this.isMoving) return;
      this.hovered = name;
      this.sigma.refresh({ skipIndexation: true });
    };
    this.sigma.on("enterNode", ({ node }) => hover(node));
    this.sigma.on("leaveNode", () => hover(""));
    this.shiftWhileMoving();
  }

  /** Draws the labels of a picture that fit beside each other: the chosen entity's, then those of the largest. */
  private drawLabels() {
    const context = this.sigma.getCanvases().labels?.getContext("2d");
    const { labelSize, labelFont, labelWeight } = this.sigma.getSettings();
    const labels = this.labels.sort((one, other) => Number(other.isChosen) - Number(one.isChosen) || other.size - one.size);
    this.labels = [];
    if (!context) return;
    context.font = `${labelWeight} ${labelSize}px ${labelFont}`;
    context.lineJoin = "round";
    context.lineWidth = 3;
    context.strokeStyle = this.theme.ground;
    context.fillStyle = this.theme.ink;
    const drawn: { left: number; right: number; y: number }[] = [];
    for (const { label, x, y, size } of labels) {
      const at = { left: x + size + 3, right: x + size + 11 + context.measureText(label).width, y: y + labelSize / 3 };
      if (drawn.some((one) => at.left < one.right && one.left < at.right && Math.abs(at.y - one.y) < 2 * labelSize)) continue;
      drawn.push(at);
      context.strokeText(label, at.left, at.y);
      context.fillText(label, at.left, at.y);
    }
  }

  /** Draws a small picture of the whole, in which the part that is seen is framed and chosen. */
  setMap(canvas: HTMLCanvasElement | null) {
    // It has no size where the window is too narrow for it.
    this.mapped = canvas;
    this.map = canvas?.clientWidth ? new Minimap(canvas, this.graph, this.sigma) : null;
    this.map?.setTheme(this.theme);
    this.map?.draw();
  }

  private get isMoving() { return this.resting !== 0; }

  /**
   * While the camera moves, shifts the picture that was drawn last, which costs next to nothing; draws a new one when it
   * rests or when too much of the window would stay empty. Drawing 20,000 entities without a graphics card takes longer
   * than a frame, and finding what is below the mouse waits for it.
   */
  private shiftWhileMoving() {
    const inner = this.sigma as unknown as { render: () => unknown; getNodeAtPosition: (at: unknown) => string | null; renderFrame: number | null };
    const draw = inner.render.bind(this.sigma);
    const find = inner.getNodeAtPosition.bind(this.sigma);
    const camera = this.sigma.getCamera();
    const layers = () => Object.entries(this.sigma.getCanvases()).filter(([name]) => name !== "mouse").map(([, canvas]) => canvas);
    const rest = () => Math.min(MOST_REST_MS, Math.max(REST_MS, 3 * this.drawMs));
    const drawHere = (isAtRest = true) => {
      const began = performance.now();
      clearTimeout(this.resting);
      this.resting = isAtRest ? 0 : window.setTimeout(drawHere, rest());
      if (this.arranged && isAtRest) this.takePlaces(this.arranged);
      this.drawnAt = camera.getState();
      this.drawsLines = isAtRest && this.isPlaced;
      for (const canvas of layers()) canvas.style.transform = "";
      const result = draw();
      this.drawLabels();
      if (isAtRest) this.map?.draw();
      requestAnimationFrame(() => { this.drawMs = performance.now() - began; });
      return result;
    };
    inner.getNodeAtPosition = (at) => (this.isMoving ? null : find(at));
    inner.render = () => {
      const from = this.drawnAt;
      const to = camera.getState();
      if (!from || (!this.isMoving && from.x === to.x && from.y === to.y && from.ratio === to.ratio && from.angle === to.angle)) return drawHere();
      const { width, height } = this.sigma.getDimensions();
      const middle = { x: 0.5, y: 0.5 };
      const before = this.sigma.framedGraphToViewport(middle, { cameraState: from });
      const now = this.sigma.framedGraphToViewport(middle, { cameraState: to });
      const scale = from.ratio / to.ratio;
      const [x, y] = [now.x - scale * before.x, now.y - scale * before.y];
      // The middle of the window, as the shifted picture has it.
      const [away, down] = [Math.abs(x + (scale - 1) * width / 2) / width, Math.abs(y + (scale - 1) * height / 2) / height];
      if (away > MOST_SHIFT || down > MOST_SHIFT || scale > MOST_SCALE || scale < 1 / MOST_SCALE || from.angle !== to.angle) return drawHere(false);
      if (inner.renderFrame) cancelAnimationFrame(inner.renderFrame);
      inner.renderFrame = null;
      for (const canvas of layers()) canvas.style.transform = `matrix(${scale}, 0, 0, ${scale}, ${x}, ${y})`;
      clearTimeout(this.resting);
      this.resting = window.setTimeout(drawHere, rest());
      this.map?.frame();
      return this.sigma;
    };
  }

  private takePlaces(places: Float32Array) {
    this.arranged = null;
    helpers.assignLayoutChanges(this.graph, places);
  }

  private redraw() {
    this.drawnAt = null;
    this.sigma.refresh();
  }

  /** Draws in light or dark colours. */
  setTheme(isDark: boolean) {
    this.theme = isDark ? THEMES.dark : THEMES.light;
    this.sigma.setSettings({ labelColor: { color: this.theme.ink }, defaultEdgeColor: this.theme.edge });
    this.map?.setTheme(this.theme);
    this.redraw();
  }

  /** Shows other entities, or adds to those shown; what was there stays in its place. */
  show({ nodes, edges, types }: Columns, isAdded: boolean, near?: string): Group[] {
    this.looked = null;
    this.stop();
    this.drawnAt = null;
    // Filled apart from the canvas, which looks at each entity as it is added, and then at all of them once.
    this.sigma.setGraph(emptyGraph());
    if (!isAdded) this.graph.clear();
    const isLarge = Math.max(this.graph.order, nodes.name.length) > LARGE;
    const [nodeKind, edgeKind] = isLarge ? ["point", "thin"] : ["circle", "line"];
    const origin = near && this.graph.hasNode(near) ? this.graph.getNodeAttributes(near) : null;
    const spread = origin ? 1 : Math.sqrt(nodes.name.length);
    // Beginning by type keeps like things together, and the same data gives the same picture.
    nodes.name.forEach((name, row) => {
      const degree = nodes.degree[row] ?? 0;
      if (this.graph.hasNode(name)) {
        this.graph.mergeNodeAttributes(name, { degree, type_: types[nodes.type[row] ?? 0] ?? "" });
        return;
      }
      const angle = row * 2.399963;
      const radius = spread * Math.sqrt((row + 1) / nodes.name.length);
      this.graph.addNode(name, {
        type: nodeKind, label: name, type_: types[nodes.type[row] ?? 0] ?? "", degree, created: nodes.dated_at[row] ?? 0, community: 0,
        x: (origin?.x ?? 0) + radius * Math.cos(angle), y: (origin?.y ?? 0) + radius * Math.sin(angle),
        size: sizeOf(degree, nodes.name.length), color: OTHER,
      });
    });
    edges.source.forEach((source, row) => {
      const [one, other] = [nodes.name[source]!, nodes.name[edges.target[row]!]!];
      if (one === other) return;
      const weight = edges.weight[row] ?? 1;
      this.graph.mergeEdge(one, other, { type: edgeKind, weight, size: Math.min(4, 0.6 + Math.log2(1 + weight) / 2) });
    });
    const isPicked = this.graph.size <= MOST_PICKED_EDGES;
    if (this.sigma.getSetting("enableEdgeEvents") !== isPicked) this.sigma.setSetting("enableEdgeEvents", isPicked);
    const groups = this.colour(this.colouring);
    this.isPlaced = isAdded || this.graph.order < 2;
    this.sigma.setGraph(this.graph);
    this.arrange();
    if (!isAdded) this.fit();
    return groups;
  }

  remove(name: string) { if (this.graph.hasNode(name)) this.graph.dropNode(name); }

  /** Takes away the neighbours of an entity that nothing else holds. */
  collapse(name: string) {
    if (!this.graph.hasNode(name)) return;
    for (const other of this.graph.neighbors(name)) if (this.graph.degree(other) === 1) this.graph.dropNode(other);
  }

  /** Groups by colour, the largest first. */
  colour(by: Colouring): Group[] {
    this.colouring = by;
    if (by === "community" && this.graph.size) louvain.assign(this.graph, { nodeCommunityAttribute: "community", rng: seeded() });
    const counts = new Map<string, number>();
    const of = (data: NodeData) => (by === "type" ? data.type_ : String(data.community + 1));
    this.graph.forEachNode((_, data) => counts.set(of(data), (counts.get(of(data)) ?? 0) + 1));
    // What has no type stays grey, so that no colour is spent on it.
    const isKnown = (name: string) => by !== "type" || !/^(unknown|other|)$/i.test(name);
    let place = 0;
    const groups = [...counts].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1))
      .map(([name, count]): Group => ({ name, count, colour: isKnown(name) ? COLOURS[place++] ?? OTHER : OTHER }));
    const colours = new Map(groups.map((group) => [group.name, group.colour]));
    this.graph.updateEachNodeAttributes((_, data) => {
      data.color = colours.get(of(data)) ?? OTHER;
      return data;
    });
    return groups;
  }

  hide(groups: Set<string>) { this.hidden = groups; this.redraw(); }

  /** The first dates of the entities' documents (Unix seconds), in order, each once. */
  times(): number[] {
    const found = new Set<number>();
    this.graph.forEachNode((_, data) => found.add(data.created));
    return [...found].sort((one, other) => one - other);
  }

  /** Shows what is dated within a span of time, and entities without relations or not. */
  narrow(span: readonly [number, number], hidesLone: boolean) {
    this.span = span;
    this.hidesLone = hidesLone;
    this.redraw();
  }

  choose(name: string, path: string[] = []) {
    if (!name && !path.length && !this.chosen && !this.path.length) return;
    this.chosen = name;
    this.path = path;
    this.near = new Set(name && this.graph.hasNode(name) ? this.graph.neighbors(name) : []);
    this.redraw();
  }

  /** Brings an entity to the middle. */
  look(name: string) {
    const at = this.sigma.getNodeDisplayData(name);
    const camera = this.sigma.getCamera();
    if (!at) return;
    this.looked = this.isArranging ? { name, x: at.x, y: at.y } : null;
    void camera.animate({ x: at.x, y: at.y, ratio: Math.min(camera.ratio, 0.4) }, { duration: 300 });
  }

  zoom(factor: number) {
    const camera = this.sigma.getCamera();
    void camera.animate({ ratio: camera.ratio * factor }, { duration: 150 });
  }

  /** Moves the window over the graph, in parts of it. */
  pan(right: number, down: number) {
    const { width, height } = this.sigma.getDimensions();
    const { x, y } = this.sigma.viewportToFramedGraph({ x: (0.5 + right) * width, y: (0.5 + down) * height });
    void this.sigma.getCamera().animate({ x, y }, { duration: 150 });
  }

  fit() {
    const camera = this.sigma.getCamera();
    const { x, y, ratio, angle } = camera.getState();
    // Each step of a way to where it is already would draw everything anew.
    if (x !== 0.5 || y !== 0.5 || ratio !== 1 || angle !== 0) void camera.animatedReset({ duration: 200 });
  }

  /** Arranges anew for a while that grows with the graph; runs in a worker. */
  arrange() {
    this.worker?.terminate();
    if (this.graph.order < 2) return;
    const { nodes, edges } = helpers.graphToByteArrays(this.graph, (_, data) => (data as EdgeData).weight);
    const order = this.graph.order;
    const task: LayoutTask = {
      nodes, edges, seconds: Math.min(20, 1.5 + order / 1500), shownMs: order > LARGE ? 500 : 90,
      settings: {
        // Strong gravity keeps what is not connected near the rest.
        linLogMode: false, outboundAttractionDistribution: false, adjustSizes: order < 300, edgeWeightInfluence: 0.3, scalingRatio: 10,
        strongGravityMode: true, gravity: 0.05, slowDown: 1 + Math.log(order), barnesHutOptimize: order > 800, barnesHutTheta: 0.8,
      },
    };
    const worker = new Worker(new URL("./graph-layout.ts", import.meta.url), { type: "module" });
    this.worker = worker;
    this.onArranged(true);
    worker.onmessage = (event: MessageEvent<{ nodes: Float32Array; share: number; isLast: boolean }>) => {
      if (this.worker !== worker) return;
      const { nodes: places, share, isLast } = event.data;
      this.isPlaced ||= share > ROUGHLY_PLACED;
      const began = performance.now();
      this.arranged = places;
      // Not while somebody moves the picture, and most of the time stays free for whoever uses the page.
      if (isLast || (!this.isMoving && began > this.nextShown)) {
        if (!this.isMoving) this.takePlaces(places);
        this.sigma.once("afterRender", () => requestAnimationFrame(() => { this.nextShown = performance.now() + 4 * (performance.now() - began); }));
      }
      if (isLast) this.stop();
    };
    worker.postMessage(task, [nodes.buffer, edges.buffer]);
  }

  stop() {
    this.worker?.terminate();
    this.worker = null;
    if (this.arranged && !this.isMoving) this.takePlaces(this.arranged);
    else if (!this.isPlaced) {
      this.isPlaced = true;
      this.sigma.scheduleRender();
    }
    const { looked } = this;
    this.looked = null;
    const { x, y } = this.sigma.getCamera().getState();
    // What was brought to the middle has moved on, and nobody has looked elsewhere meanwhile.
    if (looked && Math.hypot(x - looked.x, y - looked.y) < 0.001) this.sigma.once("afterRender", () => this.look(looked.name));
    this.onArranged(false);
  }

  get isArranging() { return this.worker !== null; }

  end() {
    this.arranged = null;
    this.stop();
    clearTimeout(this.resting);
    this.resizing.disconnect();
    this.sigma.kill();
  }

  private reduceNode(name: string, data: NodeData): Partial<NodeData> & { hidden?: boolean; highlighted?: boolean; forceLabel?: boolean; zIndex?: number } {
    const group = this.colouring === "type" ? data.type_ : String(data.community + 1);
    if (this.hidden.has(group) || data.created < this.span[0] || data.created > this.span[1] || (this.hidesLone && data.degree === 0)) return { ...data, hidden: true };
    if (this.path.length) return this.path.includes(name) ? { ...data, forceLabel: true, zIndex: 2 } : { ...data, color: this.theme.dim, label: "", zIndex: 0 };
    if (name === this.chosen) return { ...data, highlighted: true, forceLabel: true, zIndex: 2, size: data.size + 2 };
    const focus = this.hovered || this.chosen;
    if (!focus) return data;
    const isNear = focus === this.chosen && !this.hovered ? this.near.has(name) : name === focus || this.graph.areNeighbors(name, focus);
    return isNear ? { ...data, zIndex: 1, forceLabel: this.near.size < 40 } : { ...data, color: this.hovered ? data.color : this.theme.dim, label: "", zIndex: 0 };
  }

  private reduceEdge(edge: string, data: EdgeData): Partial<EdgeData> & { color?: string; hidden?: boolean; zIndex?: number } {
    const focus = this.hovered || this.chosen;
    if (!focus && !this.path.length) return data;
    const [source, target] = this.graph.extremities(edge);
    if (this.path.length) {
      const isOn = this.path.some((name, place) => place > 0 && ((name === source && this.path[place - 1] === target) || (name === target && this.path[place - 1] === source)));
      return isOn ? { ...data, color: this.theme.strong, size: data.size + 2, zIndex: 1 } : { ...data, color: this.theme.dim };
    }
    return source === focus || target === focus ? { ...data, color: this.theme.strong, zIndex: 1 } : { ...data, color: this.hovered ? this.theme.edge : this.theme.dim };
  }

  // What is seen, as plain shapes, for the files below.
  private shapes() {
    const { width, height } = this.sigma.getDimensions();
    const seen = new Map<string, { x: number; y: number; size: number; color: string; label: string }>();
    this.graph.forEachNode((name, data) => {
      const reduced = this.reduceNode(name, data);
      if (reduced.hidden) return;
      const at = this.sigma.graphToViewport({ x: data.x, y: data.y });
      seen.set(name, { ...at, size: this.sigma.scaleSize(data.size), color: String(reduced.color ?? data.color), label: data.label });
    });
    const lines = this.graph.mapEdges((edge, data, source, target) => ({ from: seen.get(source), to: seen.get(target), color: this.theme.edge, ...this.reduceEdge(edge, data) }));
    const labels = [...seen.values()].sort((one, other) => other.size - one.size).slice(0, 80);
    return { width, height, nodes: [...seen.values()], lines, labels };
  }

  /** The picture as SVG. */
  svg(): string {
    const { width, height, nodes, lines, labels } = this.shapes();
    const text = (value: string) => value.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
    const n = (value: number) => value.toFixed(1);
    return [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12">`,
      `<rect width="100%" height="100%" fill="${this.theme.ground}"/>`,
      ...lines.map((line) => (line.from && line.to ? `<line x1="${n(line.from.x)}" y1="${n(line.from.y)}" x2="${n(line.to.x)}" y2="${n(line.to.y)}" stroke="${line.color}" stroke-width="${n(Number(line.size ?? 1))}"/>` : "")),
      ...nodes.map((node) => `<circle cx="${n(node.x)}" cy="${n(node.y)}" r="${n(node.size)}" fill="${node.color}"><title>${text(node.label)}</title></circle>`),
      ...labels.map((node) => `<text x="${n(node.x + node.size + 3)}" y="${n(node.y + 4)}" fill="${this.theme.ink}">${text(node.label)}</text>`),
      "</svg>",
    ].join("\n");
  }

  /** The picture as PNG, twice as fine as it is seen. */
  png(): Promise<Blob | null> {
    const { width, height, nodes, lines, labels } = this.shapes();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * width, 2 * height];
    const context = canvas.getContext("2d")!;
    context.scale(2, 2);
    context.fillStyle = this.theme.ground;
    context.fillRect(0, 0, width, height);
    for (const line of lines) {
      if (!line.from || !line.to) continue;
      context.strokeStyle = String(line.color);
      context.lineWidth = Number(line.size ?? 1);
      context.beginPath();
      context.moveTo(line.from.x, line.from.y);
      context.lineTo(line.to.x, line.to.y);
      context.stroke();
    }
    for (const node of nodes) {
      context.fillStyle = node.color;
      context.beginPath();
      context.arc(node.x, node.y, node.size, 0, 2 * Math.PI);
      context.fill();
    }
    context.fillStyle = this.theme.ink;
    context.font = "12px system-ui, sans-serif";
    for (const node of labels) context.fillText(node.label, node.x + node.size + 3, node.y + 4);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  }

  /** What is shown as GraphML, which Gephi, yEd and others read. */
  graphml(): string {
    const text = (value: unknown) => String(value).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
    return [
      '<?xml version="1.0" encoding="UTF-8"?>', '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
      '<key id="type" for="node" attr.name="type" attr.type="string"/>', '<key id="degree" for="node" attr.name="degree" attr.type="int"/>',
      '<key id="weight" for="edge" attr.name="weight" attr.type="double"/>', '<graph edgedefault="undirected">',
      ...this.graph.mapNodes((name, data) => `<node id="${text(name)}"><data key="type">${text(data.type_)}</data><data key="degree">${data.degree}</data></node>`),
      ...this.graph.mapEdges((_, data, source, target) => `<edge source="${text(source)}" target="${text(target)}"><data key="weight">${data.weight}</data></edge>`),
      "</graph>", "</graphml>", "",
    ].join("\n");
  }
}

/** The whole graph, small: drawn when the picture is, its frame with every move. A press moves the window there. */
class Minimap {
  private readonly context: CanvasRenderingContext2D;
  private readonly picture = document.createElement("canvas");
  private theme = THEMES.light;
  private box = { x: 0, y: 0, scale: 1 };

  constructor(private readonly canvas: HTMLCanvasElement, private readonly graph: Graph<NodeData, EdgeData>, private readonly sigma: Sigma<NodeData, EdgeData>) {
    const fine = window.devicePixelRatio;
    const { clientWidth, clientHeight } = canvas;
    [canvas.width, canvas.height] = [clientWidth * fine, clientHeight * fine];
    [this.picture.width, this.picture.height] = [canvas.width, canvas.height];
    this.context = canvas.getContext("2d")!;
    const go = (event: PointerEvent) => {
      const at = canvas.getBoundingClientRect();
      const point = { x: ((event.clientX - at.x) * fine) / this.box.scale + this.box.x, y: this.box.y - ((event.clientY - at.y) * fine) / this.box.scale };
      this.sigma.getCamera().setState(this.sigma.viewportToFramedGraph(this.sigma.graphToViewport(point)));
    };
    canvas.onpointerdown = (event) => { canvas.setPointerCapture(event.pointerId); go(event); };
    canvas.onpointermove = (event) => { if (event.buttons) go(event); };
  }

  setTheme(theme: typeof THEMES.light) { this.theme = theme; }

  draw() {
    const { width, height } = this.picture;
    const { x: [left, right], y: [bottom, top] } = this.sigma.getBBox();
    const scale = 0.88 * Math.min(width / (right - left || 1), height / (top - bottom || 1));
    this.box = { scale, x: (left + right) / 2 - width / 2 / scale, y: (top + bottom) / 2 + height / 2 / scale };
    const context = this.picture.getContext("2d")!;
    context.clearRect(0, 0, width, height);
    const dot = Math.max(1, (this.graph.order < 2000 ? 2 : 1) * window.devicePixelRatio);
    this.graph.forEachNode((name, data) => {
      if (this.sigma.getNodeDisplayData(name)?.hidden) return;
      context.fillStyle = data.color;
      context.fillRect((data.x - this.box.x) * scale, (this.box.y - data.y) * scale, dot, dot);
    });
    this.frame();
  }

  frame() {
    const { context, canvas, box } = this;
    const { width, height } = this.sigma.getDimensions();
    const [one, other] = [this.sigma.viewportToGraph({ x: 0, y: 0 }, { cameraState: this.sigma.getCamera().getState() }), this.sigma.viewportToGraph({ x: width, y: height }, { cameraState: this.sigma.getCamera().getState() })];
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(this.picture, 0, 0);
    context.strokeStyle = this.theme.strong;
    context.lineWidth = 1.5 * window.devicePixelRatio;
    context.strokeRect((one.x - box.x) * box.scale, (box.y - one.y) * box.scale, (other.x - one.x) * box.scale, (one.y - other.y) * box.scale);
  }
}

/** Thin lines for relations, which a picture may do without. */
const thinLines = (areDrawn: () => boolean) => class extends EdgeLineProgram<NodeData, EdgeData> {
  override render(...given: Parameters<EdgeLineProgram["render"]>) { if (areDrawn()) super.render(...given); }
};

const emptyGraph = () => new Graph<NodeData, EdgeData>({ type: "undirected", multi: false, allowSelfLoops: false });

/** Large enough to be hit in a small graph, and small enough to be told apart in a large one. */
function sizeOf(degree: number, count: number) {
  const scale = count < 150 ? 1 : count < 600 ? 0.7 : count < 3000 ? 0.5 : 0.3;
  return scale * Math.min(22, 3 + 2 * Math.sqrt(degree));
}

/** Numbers that look random and are the same every time, so that communities keep their colours. */
function seeded() {
  let state = 1;
  return () => {
    state = (state * 16807) % 2147483647;
    return state / 2147483647;
  };
}
