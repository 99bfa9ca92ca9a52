// One document: its text as it reads, its chunks, the entities in it, what is known of it.
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { call, follow, get, upload } from "./api";
import type { Schemas } from "./api-types";
import { deleteLater, Failure, retryThese, statusChip } from "./documents";
import { dress, renderDocument } from "./markdown";
import { serviceText } from "./service-words";
import { MarkedText, Place } from "./source";
import { attempt, canWrite, goTo, linkTo, tell } from "./state";
import { Busy, Button, Dialog, Empty, Field, Icon, Tabs } from "./ui";
import { authorName, named, number, t, typeName, when } from "./words";

type Tab = "text" | "chunks" | "entities" | "history";
type Detail = Schemas["DetailResponse"];
type Named = Schemas["DocumentEntity"];

const PART = 60_000;
/** Chunks read at once. */
const CHUNKS = 500;

export function DocumentPage({ main, id, start }: { main: RefObject<HTMLElement | null>; id: string; start: number | null }) {
  const [detail, setDetail] = useState<Detail | null>(null);
  const [entities, setEntities] = useState<Named[]>([]);
  const [error, setError] = useState("");
  const [tab, setTab] = useState<Tab>("text");
  const [isEditing, setEditing] = useState(false);
  const [turn, setTurn] = useState(0);
  const file = useRef<HTMLInputElement>(null);
  const path = `documents/${encodeURIComponent(id)}`;
  const more = async (known: Detail): Promise<Detail> => {
    const found = await get<Detail>(path, { chunk_offset: known.chunks.length, chunk_limit: CHUNKS });
    return { ...known, chunks: [...known.chunks, ...found.chunks] };
  };
  /** The document with its first chunks, and those up to the one that was asked for. */
  const read = async () => {
    let found = await get<Detail>(path, { chunk_limit: CHUNKS });
    while (start !== null && found.chunks.length < found.chunk_count && found.chunks.at(-1)!.start < start) found = await more(found);
    return found;
  };
  useEffect(() => {
    void read().then(setDetail, (failure: Error) => setError(failure.message));
    get<Schemas["DocumentEntitiesResponse"]>(`${path}/entities`, { limit: 500 }).then((found) => setEntities(found.entities), () => null);
  }, [turn]);
  const isWaiting = detail !== null && ["pending", "parsing", "processing"].includes(detail.status);
  useEffect(() => {
    // What is read at this moment is shown anew once that is done.
    const refresh = () => setTurn((value) => value + 1);
    return isWaiting ? follow(({ jobs }) => { if (!jobs.length) refresh(); }, refresh) : undefined;
  }, [isWaiting]);
  if (error) return <main id="main" ref={main} tabIndex={-1}><div class="view"><Empty icon="documents" title={error}><a class="button" href={linkTo("documents")}>{t("back")}</a></Empty></div></main>;
  if (!detail) return <main id="main" ref={main} tabIndex={-1}><div class="view"><Busy /></div></main>;
  const replace = (chosen: File) => attempt(async () => {
    if (/^[^/\\:]+$/.test(detail.source)) {
      const form = new FormData();
      form.append("file", chosen, detail.source);
      await upload("documents/upload", form, () => null);
    } else await call("PUT", path, { body: { text: await chosen.text() } });
    tell(`1 ${t("accepted")}`);
    goTo("documents");
  });
  const save = (data: FormData) => attempt(async () => {
    const reply = await call<Schemas["ChangeResponse"]>("PUT", path, { body: { text: data.get("text"), title: data.get("title") } });
    setEditing(false);
    tell(t(reply.status === "unchanged" ? "savedBeside" : "saved"));
    setTurn(turn + 1);
  });
  const tabs: [Tab, string][] = [["text", t("rendered")], ["chunks", `${t("chunks")} ${number(detail.chunk_count)}`], ["entities", `${t("entitiesIn")} ${number(entities.length)}`], ["history", t("history")]];
  return (
    <main id="main" ref={main} tabIndex={-1}>
      <div class="view" id="document" style={{ maxWidth: "880px" }}>
        <header>
          <a class="button bare" href={linkTo("documents")} aria-label={t("back")} title={t("back")}><span style={{ transform: "rotate(180deg)" }}><Icon name="chevron" /></span></a>
          <h1 style={{ overflowWrap: "anywhere" }}>{detail.title || detail.source}</h1>
          {statusChip(detail.status)}
          {canWrite.value && (
            <div class="row">
              {(detail.status === "failed" || detail.status === "partial") && <Button icon="retry" label={t("retry")} onClick={() => void retryThese([id], () => goTo("documents"))} />}
              <Button bare icon="edit" label={t("editText")} onClick={() => setEditing(true)} />
              <Button bare icon="import" label={t("update")} onClick={() => file.current?.click()} />
              <Button bare icon="delete" label={t("delete")} onClick={() => { goTo("documents"); deleteLater([id], () => null); }} />
              <input ref={file} type="file" class="sr" tabIndex={-1} aria-label={t("update")} onChange={(event) => { const [one] = event.currentTarget.files ?? []; if (one) void replace(one); }} />
            </div>
          )}
        </header>
        {detail.title && <p class="quiet" style={{ overflowWrap: "anywhere" }}>{detail.source}</p>}
        {detail.error && <div class="note"><Icon name="warn" /><div><Failure error={detail.error} /></div></div>}
        {detail.twin_of && <p class="note"><Icon name="documents" /><span>{t("sameAs")} <a href={linkTo("documents", detail.twin_of)}>{t("openDocument")}</a></span></p>}
        <Tabs value={tab} options={tabs} onChange={setTab} label={t("documents")} />
        {tab === "text" && <WholeText key={turn} path={path} detail={detail} entities={entities} start={start} />}
        {tab === "chunks" && <Chunks detail={detail} onMore={() => void attempt(async () => setDetail(await more(detail)))} />}
        {tab === "entities" && <Entities entities={entities} />}
        {tab === "history" && <History detail={detail} />}
        {isEditing && <Editor path={path} detail={detail} onClose={() => setEditing(false)} onSave={save} />}
      </div>
    </main>
  );
}

function Editor({ path, detail, onClose, onSave }: { path: string; detail: Detail; onClose: () => void; onSave: (data: FormData) => void }) {
  const [text, setText] = useState<string | null>(null);
  useEffect(() => { get<Schemas["TextResponse"]>(`${path}/text`).then((part) => setText(part.text), () => setText("")); }, []);
  if (text === null) return null;
  return (
    <Dialog title={t("editText")} onClose={onClose} onSubmit={onSave}>
      <Field label={t("name")}><input name="title" defaultValue={detail.title} maxLength={1000} /></Field>
      <Field label={t("text")}><textarea name="text" rows={16} required class="mono">{text}</textarea></Field>
    </Dialog>
  );
}

function WholeText({ path, detail, entities, start }: { path: string; detail: Detail; entities: Named[]; start: number | null }) {
  const chunk = start === null ? undefined : detail.chunks.find((item) => item.start === start);
  const from = chunk ? Math.max(0, chunk.start - PART / 2) : 0;
  const [length, setLength] = useState(PART);
  const [part, setPart] = useState<Schemas["TextResponse"] | null>(null);
  const [error, setError] = useState("");
  const [isOn, setOn] = useState(true);
  useEffect(() => {
    get<Schemas["TextResponse"]>(`${path}/text`, { offset: from, limit: length }).then(setPart, (failure: Error) => setError(failure.message));
  }, [length, from]);
  if (error) return <Empty icon="documents" title={t("noText")} />;
  if (!part) return <Busy />;
  return (
    <div class="stack">
      <label class="field inline"><input type="checkbox" checked={isOn} onChange={(event) => setOn(event.currentTarget.checked)} /><span>{t("highlight")}</span></label>
      {chunk
        ? <MarkedText text={part.text} start={chunk.start - part.offset} end={chunk.end - part.offset} />
        : <HighlightedText text={part.text} entities={isOn ? entities : []} />}
      {part.offset + length < part.total_characters && <div><Button label={t("showMore")} onClick={() => setLength(length + PART)} /></div>}
    </div>
  );
}

const escapePattern = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** A text in which every name of an entity leads to it in the graph. */
function HighlightedText({ text, entities }: { text: string; entities: Named[] }) {
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const root = ref.current!;
    root.innerHTML = renderDocument(text);
    void dress(root);
    const names = new Map(entities.flatMap((entity) => entity.written.filter((name) => name.length > 1).map((name) => [name.toLowerCase(), entity] as const)));
    if (!names.size) return;
    const words = [...names.keys()].sort((one, other) => other.length - one.length).slice(0, 800).map((name) => (/^[\w]/.test(name) && /[\w]$/.test(name) ? `\\b${escapePattern(name)}\\b` : escapePattern(name)));
    const pattern = new RegExp(words.join("|"), "gi");
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const nodes: Text[] = [];
    while (walker.nextNode()) if (!walker.currentNode.parentElement?.closest("pre, a, .math")) nodes.push(walker.currentNode as Text);
    for (const node of nodes) {
      const found = [...node.data.matchAll(pattern)];
      if (!found.length) continue;
      const made: Node[] = [];
      let at = 0;
      for (const match of found) {
        const entity = names.get(match[0].toLowerCase());
        if (!entity) continue;
        const link = document.createElement("a");
        link.className = "entity";
        link.href = linkTo("graph", entity.name);
        link.title = typeName(entity.type);
        link.textContent = match[0];
        made.push(document.createTextNode(node.data.slice(at, match.index)), link);
        at = match.index + match[0].length;
      }
      node.replaceWith(...made, document.createTextNode(node.data.slice(at)));
    }
  }, [text, entities]);
  return <div class="document-text prose source" ref={ref} />;
}

const Chunks = ({ detail, onMore }: { detail: Detail; onMore: () => void }) => (
  <ol class="plain">
    {detail.chunks.map((chunk) => (
      <li key={chunk.id} class="card">
        <div class="row"><b>{number(chunk.position + 1)}</b><Place citation={chunk} /><span class="quiet" style={{ marginLeft: "auto" }}>{number(chunk.token_count)} {t("tokens")}</span></div>
        <div class="document-text prose" dangerouslySetInnerHTML={{ __html: renderDocument(chunk.text) }} />
      </li>
    ))}
    {detail.chunks.length < detail.chunk_count && <li><Button label={t("showMore")} onClick={onMore} /></li>}
  </ol>
);

const Entities = ({ entities }: { entities: Named[] }) => (
  entities.length === 0 ? <Empty icon="graph" title={t("none")} /> : (
    <table class="table">
      <thead><tr><th>{t("name")}</th><th>{t("type")}</th><th class="num">{t("mentions")}</th></tr></thead>
      <tbody>
        {entities.map((entity) => (
          <tr key={entity.name}>
            <td><a class="link" href={linkTo("graph", entity.name)}>{entity.name}</a></td>
            <td><span class="chip">{typeName(entity.type)}</span></td><td class="num">{number(entity.count)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
);

function History({ detail }: { detail: Detail }) {
  const [jobs, setJobs] = useState<Schemas["JobResponse"][]>([]);
  useEffect(() => {
    void attempt(async () => {
      const found = await get<Schemas["JobListResponse"]>("documents/jobs", { limit: 200 });
      setJobs(found.jobs.filter((job) => job.track_id === detail.track_id || job.sources.includes(detail.source)));
    });
  }, []);
  return (
    <div class="stack">
      <dl class="kv">
        <dt>{t("h_added")}</dt><dd>{when(detail.created_at)}</dd>
        <dt>{t("h_changed")}</dt><dd>{when(detail.updated_at)}</dd>
        <dt>{t("size")}</dt><dd>{number(detail.length)} {t("characters")}</dd>
        <dt>{t("h_batch")}</dt><dd class="mono">{detail.track_id}</dd>
      </dl>
      {detail.versions.length > 0 && (
        <section class="stack">
          <h3>{t("versions")}</h3>
          <p class="quiet">{t("versionsHint")}</p>
          <table class="table" id="versions">
            <thead><tr><th>{t("version")}</th><th>{t("h_added")}</th><th>{t("by")}</th><th class="num">{t("size")}</th></tr></thead>
            <tbody>
              {detail.versions.map((version, place, all) => {
                const before = all[place + 1];
                const grown = before ? version.length - before.length : 0;
                return (
                  <tr key={version.track_id + version.content_hash}>
                    <td>{number(all.length - place)}</td><td>{when(version.created_at)}</td><td>{authorName(version.author)}</td>
                    <td class="num">{number(version.length)} {before && <span class="quiet">{grown < 0 ? "−" : "+"}{number(Math.abs(grown))}</span>}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </section>
      )}
      {jobs.length > 0 && <h3>{t("jobs")}</h3>}
      <ol class="plain">
        {jobs.map((job) => (
          <li key={job.id} class="row">
            <b>{named("job_", job.kind)}</b><span class="chip">{t(`j_${job.state}`)}</span>
            <span class="quiet">{when(job.created_at)} {t("by")} {authorName(job.author)} {serviceText(job.error)}</span>
          </li>
        ))}
      </ol>
      {Object.keys(detail.metadata).length > 0 && <><h3>{t("metadata")}</h3><pre tabIndex={0}>{JSON.stringify(detail.metadata, null, 2)}</pre></>}
    </div>
  );
}
