// The graph: find an entity, walk on from it, see why things are related, correct what is wrong.
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { call, get, post } from "./api";
import type { Schemas } from "./api-types";
import { FirstRun } from "./first-run";
import { type Colouring, type Columns, Drawing, type Group } from "./graph-draw";
import { EntityPanel, RelationPanel } from "./graph-detail";
import { attempt, goTo, isDark, route, tell, workspace } from "./state";
import { Busy, Button, Empty, Icon, Panel, save, Select } from "./ui";
import { authorName, named, number, t, typeName, when } from "./words";

type Beside = { kind: "entity"; name: string } | { kind: "relation"; source: string; target: string } | { kind: "list" } | { kind: "corrections" } | null;
const LIMITS = ["500", "2000", "5000", "20000"] as const;
/** From so many entities on, a small map helps. */
const MAPPED = 60;
const DEPTHS = ["1", "2", "3", "4"] as const;

export function GraphView({ main }: { main: RefObject<HTMLElement | null> }) {
  const place = useRef<HTMLDivElement>(null);
  const drawing = useRef<Drawing | null>(null);
  const [beside, setBeside] = useState<Beside>(null);
  const [groups, setGroups] = useState<Group[]>([]);
  const [hidden, setHidden] = useState<Set<string>>(new Set());
  const [colouring, setColouring] = useState<Colouring>("type");
  const [limit, setLimit] = useState<(typeof LIMITS)[number]>("2000");
  const [depth, setDepth] = useState<(typeof DEPTHS)[number]>("1");
  const [shown, setShown] = useState({ nodes: 0, edges: 0, isTruncated: false });
  const [state, setState] = useState<"loading" | "drawn" | "empty" | "list">("loading");
  /** Whether there are documents, of which nothing is drawn yet. */
  const [isBare, setBare] = useState(false);
  const [isArranging, setArranging] = useState(false);
  const [pathStart, setPathStart] = useState("");
  const [names, setNames] = useState<{ name: string; degree: number }[]>([]);
  const [turn, setTurn] = useState(0);
  const [menu, setMenu] = useState<"" | "export" | "display">("");
  const [times, setTimes] = useState<number[]>([]);
  const [span, setSpan] = useState<[number, number] | null>(null);
  const [hidesLone, setHidesLone] = useState(false);
  const map = useRef<HTMLCanvasElement>(null);
  const start = useRef(pathStart);
  start.current = pathStart;
  const wanted = route.value.rest[0];

  const count = (columns?: Columns) => {
    const graph = drawing.current?.graph;
    if (graph) {
      setShown({ nodes: graph.order, edges: graph.size, isTruncated: columns?.is_truncated ?? shown.isTruncated });
      setNames(graph.mapNodes((name, data) => ({ name, degree: data.degree })).sort((one, other) => other.degree - one.degree).slice(0, 200));
      setTimes(drawing.current!.times());
      return;
    }
    if (!columns) return;
    setShown({ nodes: columns.nodes.name.length, edges: columns.edges.source.length, isTruncated: columns.is_truncated });
    setNames(columns.nodes.name.map((name, row) => ({ name, degree: columns.nodes.degree[row] ?? 0 })).slice(0, 200));
  };
  const recolour = (by: Colouring) => {
    setColouring(by);
    setHidden(new Set());
    drawing.current?.hide(new Set());
    setGroups(drawing.current?.colour(by) ?? []);
  };
  const draw = (columns: Columns, isAdded = false, near?: string) => {
    setGroups(drawing.current?.show(columns, isAdded, near) ?? []);
    if (!isAdded && span) narrow(null);
    count(columns);
    setState(columns.nodes.name.length || isAdded ? (drawing.current ? "drawn" : "list") : "empty");
  };
  const readAll = (most: string = limit) => attempt(async () => {
    setState("loading");
    const [columns, stats] = await Promise.all([
      get<Columns>("api/v1/graph", { limit: most }), get<Schemas["WorkspaceStats"]>(`workspaces/${encodeURIComponent(workspace.value)}`),
    ]);
    setBare(Object.keys(stats.documents).length > 0);
    draw(columns);
    drawing.current?.choose("");
  });
  const choose = (name: string) => {
    if (start.current && start.current !== name) return void findPath(start.current, name);
    setBeside({ kind: "entity", name });
    drawing.current?.choose(name);
  };
  const around = (name: string, far: string = depth) => attempt(async () => {
    draw(await get<Columns>("api/v1/graph", { name, depth: far, limit }));
    choose(name);
  });
  const expand = (name: string) => attempt(async () => {
    const columns = await get<Columns>("api/v1/graph", { name, depth, limit: 500 });
    draw(columns, true, name);
    drawing.current?.choose(name);
  });
  const collapse = (name: string) => { drawing.current?.collapse(name); count(); drawing.current?.choose(name); };
  const find = (name: string) => attempt(async () => {
    if (drawing.current?.graph.hasNode(name)) {
      choose(name);
      drawing.current.look(name);
    } else await around(name);
  });
  const findPath = (source: string, target: string) => attempt(async () => {
    setPathStart("");
    const { paths } = await get<Schemas["PathResponse"]>("graph/paths", { source, target, max_hops: 6, limit: 1 });
    const [path] = paths;
    if (!path) return tell(t("noPath"));
    const items = path.entities.map((entity) => entity.name);
    const missing = items.filter((name) => !drawing.current?.graph.hasNode(name));
    if (missing.length) draw(await get<Columns>("api/v1/graph", { name: items, depth: 1, limit: 500 }), true, source);
    drawing.current?.choose("", items);
    setBeside({ kind: "relation", source: items[0]!, target: items[1]! });
    return tell(items.join(" → "), { seconds: 10 });
  });

  useEffect(() => {
    try {
      drawing.current = new Drawing(place.current!, {
        onNode: choose,
        onEdge: (source, target) => setBeside({ kind: "relation", source, target }),
        onGround: () => { drawing.current?.choose(""); setBeside(null); },
      }, setArranging);
      drawing.current.setTheme(isDark.value);
    } catch {
      // Without WebGL the entities are listed.
      drawing.current = null;
    }
    void readAll().then(() => { if (wanted) void find(wanted); });
    return () => { drawing.current?.end(); drawing.current = null; };
  }, []);
  useEffect(() => { if (wanted && state !== "loading") void find(wanted); }, [wanted]);
  const isMapped = state === "drawn" && shown.nodes > MAPPED;
  useEffect(() => drawing.current?.setMap(isMapped ? map.current : null), [isMapped]);
  const dark = isDark.value;
  useEffect(() => drawing.current?.setTheme(dark), [dark]);

  const changed = (done: { curation_ids: string[] }, name?: string) => {
    const place = workspace.value;
    setTurn((value) => value + 1);
    tell(t("done"), { seconds: 10, action: { label: t("undo"), run: () => void attempt(async () => {
      for (const id of [...done.curation_ids].reverse()) await post(`graph/curations/${encodeURIComponent(id)}/undo`, undefined, { place });
      tell(t("undone"));
      await readAll();
      setTurn((value) => value + 1);
    }) } });
    if (name === undefined) setBeside(null);
    void readAll().then(() => (name === undefined ? undefined : find(name)));
  };
  const exportAs = (kind: "png" | "svg" | "graphml") => attempt(async () => {
    setMenu("");
    const drawn = drawing.current;
    if (!drawn) return;
    if (kind === "png") { const blob = await drawn.png(); if (blob) save("graph.png", blob, "image/png"); }
    if (kind === "svg") save("graph.svg", drawn.svg(), "image/svg+xml");
    if (kind === "graphml") save("graph.graphml", drawn.graphml(), "application/xml");
  });
  const toggle = (name: string) => {
    const next = new Set(hidden);
    if (!next.delete(name)) next.add(name);
    setHidden(next);
    drawing.current?.hide(next);
  };
  const narrow = (wanted: [number, number] | null, hides = hidesLone) => {
    const isAll = !wanted || (wanted[0] === 0 && wanted[1] === times.length - 1);
    setSpan(isAll ? null : wanted);
    setHidesLone(hides);
    drawing.current?.narrow(isAll ? [-Infinity, Infinity] : [times[wanted[0]]!, times[wanted[1]]!], hides);
  };
  const steer = (event: KeyboardEvent) => {
    const drawn = drawing.current;
    if (event.target !== event.currentTarget || event.ctrlKey || event.metaKey || event.altKey) return;
    const steps: Record<string, () => void> = {
      ArrowLeft: () => drawn?.pan(-0.25, 0), ArrowRight: () => drawn?.pan(0.25, 0), ArrowUp: () => drawn?.pan(0, -0.25), ArrowDown: () => drawn?.pan(0, 0.25),
      "+": () => drawn?.zoom(1 / 1.5), "-": () => drawn?.zoom(1.5), 0: () => drawn?.fit(),
    };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    step();
  };
  const [from, to] = span ?? [0, Math.max(0, times.length - 1)];
  const isNarrowed = span !== null || hidesLone;

  return (
    <>
      <main id="main" ref={main} tabIndex={-1}>
        <h1 class="sr">{t("graph")}</h1>
        <div class="graph" id="graph">
          <div class="bar-top" onFocusOut={(event) => { if (menu && event.relatedTarget && !event.currentTarget.contains(event.relatedTarget as Node)) setMenu(""); }}
            onKeyDown={(event) => { if (event.key === "Escape") setMenu(""); }}>
            <Finder onChoose={(name) => void find(name)} />
            <span class="menu">
              <Button icon="sliders" label={t("display")} pressed={menu === "display" || isNarrowed} expanded={menu === "display"} onClick={() => setMenu(menu === "display" ? "" : "display")} />
              {menu === "display" && (
                <div class="items sheet" role="group" aria-label={t("display")}>
                  <label class="field beside"><span>{t("colourBy")}</span><Select label={t("colourBy")} value={colouring} options={[["type", t("byType")], ["community", t("byCommunity")]]} onChange={recolour} /></label>
                  <label class="field beside"><span>{t("depth")}</span><Select label={t("depth")} value={depth} options={DEPTHS.map((one) => [one, one])}
                    onChange={(value) => { setDepth(value); if (beside?.kind === "entity") void around(beside.name, value); }} /></label>
                  <label class="field beside"><span>{t("limit")}</span><Select label={t("limit")} value={limit} options={LIMITS.map((one) => [one, number(Number(one))])} onChange={(value) => { setLimit(value); void readAll(value); }} /></label>
                  <label class="field inline"><input type="checkbox" checked={hidesLone} onChange={(event) => narrow(span, event.currentTarget.checked)} /><span>{t("hideLone")}</span></label>
                  {times.length > 1 && (
                    <fieldset>
                      <legend>{t("firstSeen")}</legend>
                      <label class="field"><span>{t("from")} {when(1000 * times[from]!)}</span><input type="range" id="from" min={0} max={times.length - 1} value={from} onInput={(event) => { const value = event.currentTarget.valueAsNumber; narrow([value, Math.max(value, to)]); }} /></label>
                      <label class="field"><span>{t("until")} {when(1000 * times[to]!)}</span><input type="range" id="until" min={0} max={times.length - 1} value={to} onInput={(event) => { const value = event.currentTarget.valueAsNumber; narrow([Math.min(from, value), value]); }} /></label>
                    </fieldset>
                  )}
                  {isNarrowed && <Button class="small" icon="undo" label={t("reset")} onClick={() => narrow(null, false)} />}
                </div>
              )}
            </span>
            <Button bare icon="graph" label={t("popular")} onClick={() => { goTo("graph"); setBeside(null); void readAll(); }} />
            <Button bare icon="menu" label={t("list")} pressed={beside?.kind === "list"} onClick={() => setBeside(beside?.kind === "list" ? null : { kind: "list" })} />
            <Button bare icon="history" label={t("corrections")} pressed={beside?.kind === "corrections"} onClick={() => setBeside(beside?.kind === "corrections" ? null : { kind: "corrections" })} />
            <span class="menu">
              <Button bare icon="export" label={t("exportPicture")} expanded={menu === "export"} onClick={() => setMenu(menu === "export" ? "" : "export")} />
              {menu === "export" && <span class="items">{(["png", "svg", "graphml"] as const).map((kind) => <button key={kind} type="button" onClick={() => void exportAs(kind)}>{kind === "graphml" ? "GraphML" : kind.toUpperCase()}</button>)}</span>}
            </span>
            <span class="quiet" role="status" id="shown">{number(shown.nodes)} {t("nodes")}, {number(shown.edges)} {t("edges")}{shown.isTruncated && ` · ${t("truncated")}`}</span>
          </div>
          <div class="canvas" role="group" aria-label={t("steer")} tabIndex={state === "drawn" ? 0 : -1} onKeyDown={steer}>
            <div class="sigma" ref={place} role="img" aria-label={t("picture")} data-drawn={state === "drawn"} data-nodes={shown.nodes} data-arranging={isArranging} />
            {state === "loading" && <div style={{ position: "absolute", inset: "16px auto auto 16px" }}><Busy /></div>}
            {state === "empty" && <div style={{ position: "relative", height: "100%", overflowY: "auto" }}>{isBare ? <Empty icon="graph" title={t("emptyGraph")} /> : <FirstRun />}</div>}
            {state === "list" && <div class="view" style={{ position: "relative" }}><EntityList names={names} onChoose={choose} /></div>}
            {pathStart && <p class="note" style={{ position: "absolute", top: "12px", left: "12px" }}><Icon name="path" /><span>{t("pathFrom")}: <b>{pathStart}</b> – {t("hint")}</span><Button class="small" label={t("cancel")} onClick={() => setPathStart("")} /></p>}
            {state === "drawn" && groups.length > 0 && (
              <div class="legend" role="group" aria-label={t("colourBy")}>
                {groups.slice(0, 10).map((group) => (
                  <button key={group.name} type="button" aria-pressed={hidden.has(group.name)} onClick={() => toggle(group.name)}>
                    <i style={{ background: group.colour }} />{colouring === "type" ? typeName(group.name) : `${t("community")} ${group.name}`} {number(group.count)}
                  </button>
                ))}
                {groups.length > 10 && <span>{number(groups.length - 10)} {t("other")}</span>}
              </div>
            )}
            {state === "drawn" && shown.nodes > MAPPED && <canvas class="minimap" ref={map} aria-hidden="true" />}
            {state === "drawn" && (
              <div class="zoom">
                <Button bare icon="plus" label={t("zoomIn")} onClick={() => drawing.current?.zoom(1 / 1.5)} />
                <Button bare icon="minus" label={t("zoomOut")} onClick={() => drawing.current?.zoom(1.5)} />
                <Button bare icon="fit" label={t("fit")} onClick={() => drawing.current?.fit()} />
                <Button bare icon={isArranging ? "pause" : "play"} label={isArranging ? t("layoutOff") : t("layoutOn")} onClick={() => (isArranging ? drawing.current?.stop() : drawing.current?.arrange())} />
              </div>
            )}
          </div>
        </div>
      </main>
      {beside?.kind === "entity" && (
        <EntityPanel key={`${beside.name}/${turn}`} name={beside.name} onClose={() => { setBeside(null); drawing.current?.choose(""); }} onChoose={(name) => void find(name)}
          onRelation={(source, target) => setBeside({ kind: "relation", source, target })} onExpand={expand} onCollapse={collapse} onAround={(name) => void around(name)}
          onPath={setPathStart} onChanged={changed} />
      )}
      {beside?.kind === "relation" && (
        <RelationPanel key={`${beside.source}/${beside.target}/${turn}`} source={beside.source} target={beside.target} onClose={() => setBeside(null)} onChoose={(name) => void find(name)} onChanged={changed} />
      )}
      {beside?.kind === "list" && <Panel title={t("list")} onClose={() => setBeside(null)}><EntityList names={names} onChoose={choose} /></Panel>}
      {beside?.kind === "corrections" && <Corrections onClose={() => setBeside(null)} onUndone={() => void readAll()} />}
    </>
  );
}

const EntityList = ({ names, onChoose }: { names: { name: string; degree: number }[]; onChoose: (name: string) => void }) => (
  names.length === 0 ? <Empty icon="graph" title={t("emptyGraph")} /> : (
    <ul class="plain entities">
      {names.map(({ name, degree }) => <li key={name} class="row"><button type="button" class="link grow" onClick={() => onChoose(name)}>{name}</button><span class="quiet">{number(degree)} {t("degree")}</span></li>)}
    </ul>
  )
);

/** A field that proposes entities while one types. */
function Finder({ onChoose }: { onChoose: (name: string) => void }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState<string[]>([]);
  const [at, setAt] = useState(-1);
  useEffect(() => {
    if (!text.trim()) { setFound([]); return undefined; }
    const timer = window.setTimeout(() => void attempt(async () => setFound(await get<string[]>("graph/label/search", { q: text, limit: 12 }))), 150);
    return () => clearTimeout(timer);
  }, [text]);
  const choose = (name: string) => { setText(""); setFound([]); setAt(-1); onChoose(name); };
  return (
    <div class="finder" onFocusOut={(event) => { if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setFound([]); }}>
      <input id="search" type="search" role="combobox" list={undefined} aria-expanded={found.length > 0} aria-controls="found" aria-autocomplete="list" aria-activedescendant={at >= 0 ? `found-${at}` : undefined}
        aria-label={t("find")} placeholder={t("find")} autocomplete="off" value={text} onInput={(event) => { setText(event.currentTarget.value); setAt(-1); }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown" || event.key === "ArrowUp") {
            event.preventDefault();
            setAt((place) => (found.length ? (place + (event.key === "ArrowDown" ? 1 : -1) + found.length) % found.length : -1));
          } else if (event.key === "Enter" && !event.isComposing && text.trim()) choose(found[Math.max(0, at)] ?? text.trim());
          else if (event.key === "Escape") setFound([]);
        }} />
      {found.length > 0 && (
        <ul id="found" role="listbox" aria-label={t("find")}>
          {found.map((name, place) => <li key={name} id={`found-${place}`} role="option" aria-selected={place === at} tabIndex={-1} onMouseDown={(event) => { event.preventDefault(); choose(name); }}>{name}</li>)}
        </ul>
      )}
    </div>
  );
}

function Corrections({ onClose, onUndone }: { onClose: () => void; onUndone: () => void }) {
  const [list, setList] = useState<Schemas["CurationItem"][] | null>(null);
  const read = () => attempt(async () => setList((await get<Schemas["CurationListResponse"]>("graph/curations", { limit: 200 })).curations));
  useEffect(() => { void read(); }, []);
  const undo = (id: string) => attempt(async () => { await call("POST", `graph/curations/${encodeURIComponent(id)}/undo`); tell(t("undone")); await read(); onUndone(); });
  return (
    <Panel title={t("corrections")} onClose={onClose}>
      {list === null ? <Busy /> : list.length === 0 ? <Empty icon="history" title={t("noHistory")} /> : (
        <ul class="plain">
          {list.map((item) => (
            <li key={item.id} class="row">
              <span class="grow"><b>{named("c_", item.kind)}</b> {item.names.join(" → ")}<br /><span class="quiet">{when(item.created_at)} {t("by")} {authorName(item.author)}</span></span>
              {item.undone_at ? <span class="chip">{t("taken")}</span> : <Button class="small" icon="undo" label={t("undo")} onClick={() => void undo(item.id)} />}
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
