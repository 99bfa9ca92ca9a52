// Documents: take them in, see how far they are, and look after them.
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { addressOf, call, follow, get, headersFor, post, upload } from "./api";
import type { Schemas } from "./api-types";
import { DocumentPage } from "./document";
import { FirstRun } from "./first-run";
import { reasonAndAdvice, serviceText } from "./service-words";
import { attempt, canWrite, goTo, isAdmin, linkTo, route, tell, workspace } from "./state";
import { Busy, Button, Dialog, Empty, Field, Icon, Select } from "./ui";
import { bytes, duration, named, number, t, when, type Word } from "./words";

export type Document = Schemas["DocumentResponse"];
type Status = Document["status"];
type Job = Schemas["JobResponse"];
type Sort = "created_at" | "updated_at" | "source" | "id";

const STATUSES: Status[] = ["processed", "partial", "processing", "parsing", "pending", "failed"];
/** Those that people have most; the others follow. */
const USUAL_KINDS = [".pdf", ".docx", ".pptx", ".xlsx", ".md", ".html", ".txt", ".epub", ".csv", ".eml", ".json"];
const PAGE = 50;
const UNDO_SECONDS = 8;
const LIST_MS = 800;

export const statusChip = (status: Status) => {
  const kind = status === "processed" ? "good" : status === "failed" ? "bad" : "wait";
  return <span class={`chip ${kind}`}>{t(`s_${status}`)}</span>;
};

/** Why something failed, and what to do about it. */
export function Failure({ error, children }: { error: string; children?: ComponentChildren }) {
  const [reason, todo] = reasonAndAdvice(error);
  return <><div class="error">{reason}</div><div class="advice">{todo} {children}</div></>;
}

// Where files of folders come from, so that two of one name do not take each other's place.
const paths = new WeakMap<File, string>();

function namesOf(files: File[]): string[] {
  const counts = new Map<string, number>();
  for (const file of files) counts.set(file.name, (counts.get(file.name) ?? 0) + 1);
  return files.map((file) => {
    const path = paths.get(file) ?? file.webkitRelativePath;
    return counts.get(file.name) === 1 || !path ? file.name : path.replace(/^\//, "").replaceAll("/", "_");
  });
}

/** Whether a file is taken from the folder that it lies in, as `heliograph index` takes them: of a known kind, not hidden, not empty. */
function isTaken(file: File, path: string, kinds: string[]): boolean {
  const below = path.replace(/^\//, "").split("/").slice(1);
  return !below.length || (file.size > 0 && !below.some((part) => part.startsWith(".")) && kinds.some((kind) => file.name.toLowerCase().endsWith(kind)));
}

/** Files of what was dropped, and those that are taken from folders. */
async function droppedFiles(transfer: DataTransfer, kinds: string[]): Promise<File[]> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter((entry) => entry !== null && entry !== undefined);
  if (!entries.length) return [...transfer.files];
  const found: File[] = [];
  const walk = async (entry: FileSystemEntry): Promise<void> => {
    if (entry.isFile) {
      const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
      paths.set(file, entry.fullPath);
      if (isTaken(file, entry.fullPath, kinds)) found.push(file);
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      const part = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
      if (!part.length) return;
      for (const inner of part) await walk(inner);
    }
  };
  for (const entry of entries) await walk(entry);
  return found;
}

interface Upload { name: string; size: number; share: number; state: "going" | "accepted" | "unchanged" | "refused"; error: string }

function useUploads(onDone: () => void) {
  const [uploads, setUploads] = useState<Upload[]>([]);
  const send = async (files: File[]) => {
    const names = namesOf(files);
    const rows = files.map((file, place): Upload => ({ name: names[place]!, size: file.size, share: 0, state: "going", error: "" }));
    setUploads(rows);
    const redraw = () => setUploads([...rows]);
    let next = 0;
    const work = async () => {
      for (let place = next++; place < files.length; place = next++) {
        const row = rows[place]!;
        const form = new FormData();
        form.append("file", files[place]!, row.name);
        try {
          const reply = await upload<Schemas["InsertResponse"]>("documents/upload", form, (share) => { row.share = share; redraw(); });
          row.state = reply.status === "duplicated" ? "unchanged" : "accepted";
        } catch (error) {
          row.state = "refused";
          row.error = (error as Error).message;
        }
        row.share = 1;
        redraw();
        onDone();
      }
    };
    await Promise.all([work(), work()]);
    const count = (state: Upload["state"]) => rows.filter((row) => row.state === state).length;
    tell([`${count("accepted")} ${t("accepted")}`, count("unchanged") && `${count("unchanged")} ${t("unchanged")}`, count("refused") && `${count("refused")} ${t("refused")}`].filter(Boolean).join(", "), { isBad: count("refused") > 0 });
    if (!count("refused")) setUploads([]);
  };
  return { uploads, send, clear: () => setUploads([]) };
}

function AddPanel({ onChange, slim }: { onChange: () => void; slim?: boolean }) {
  const [isOver, setOver] = useState(false);
  const [dialog, setDialog] = useState<"" | "paste" | "url">("");
  const [kinds, setKinds] = useState<string[]>([]);
  const files = useRef<HTMLInputElement>(null);
  const folder = useRef<HTMLInputElement>(null);
  const { uploads, send, clear } = useUploads(onChange);
  useEffect(() => {
    folder.current?.setAttribute("webkitdirectory", "");
    void attempt(async () => {
      const found = (await get<Schemas["SupportedTypesResponse"]>("documents/supported_file_types")).supported_extensions;
      setKinds([...USUAL_KINDS.filter((kind) => found.includes(kind)), ...found.filter((kind) => !USUAL_KINDS.includes(kind))]);
    });
  }, []);
  const chosen = (input: HTMLInputElement) => {
    const list = [...(input.files ?? [])].filter((file) => isTaken(file, file.webkitRelativePath, kinds));
    input.value = "";
    if (list.length) void attempt(() => send(list));
  };
  const paste = (data: FormData) => attempt(async () => {
    const reply = await post<Schemas["InsertResponse"]>("documents/text", { text: data.get("text"), file_source: data.get("name") || null });
    setDialog("");
    tell(reply.status === "duplicated" ? `1 ${t("unchanged")}` : `1 ${t("accepted")}`);
    onChange();
  });
  const fetchUrl = (data: FormData) => attempt(async () => {
    await post("documents/url", { url: data.get("url") });
    setDialog("");
    tell(`1 ${t("accepted")}`);
    onChange();
  });
  return (
    <section aria-label={t("addDocuments")}>
      <div class={["drop", isOver && "over", slim && "slim"].filter(Boolean).join(" ")} onDragOver={(event) => { event.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          if (event.dataTransfer) void attempt(async () => send(await droppedFiles(event.dataTransfer!, kinds)));
        }}>
        <p>{t("drop")}</p>
        <div class="row">
          <Button main icon="import" label={t("choose")} onClick={() => files.current?.click()} />
          <Button icon="folder" label={t("chooseFolder")} onClick={() => folder.current?.click()} />
          <Button icon="paste" label={t("pasteText")} onClick={() => setDialog("paste")} />
          <Button icon="link" label={t("addUrl")} onClick={() => setDialog("url")} />
        </div>
        {kinds.length > 0 && <p class="quiet kinds" title={kinds.join(" ")}>{t("kinds")} {kinds.slice(0, USUAL_KINDS.length).map((kind) => kind.slice(1).toUpperCase()).join(", ")}{kinds.length > USUAL_KINDS.length && " …"}</p>}
        <input ref={files} id="files" type="file" multiple class="sr" tabIndex={-1} aria-label={t("choose")} onChange={(event) => chosen(event.currentTarget)} />
        <input ref={folder} type="file" multiple class="sr" tabIndex={-1} aria-label={t("chooseFolder")} onChange={(event) => chosen(event.currentTarget)} />
      </div>
      {uploads.length > 0 && (
        <div class="card jobs" style={{ marginTop: "12px" }}>
          <div class="row"><b class="grow">{t("uploading")}</b><Button bare class="small" icon="close" label={t("close")} onClick={clear} /></div>
          {uploads.slice(0, 50).map((item, place) => (
            <div class="job" key={place}>
              <div class="row"><span class="grow">{item.name}</span><span class="quiet">{bytes(item.size)}</span>{item.state !== "going" && <span class={item.state === "refused" ? "chip bad" : "chip good"}>{t(item.state)}</span>}</div>
              {item.state === "going" && <div class="bar"><i style={{ width: `${100 * item.share}%` }} /></div>}
              {item.error && <Failure error={item.error} />}
            </div>
          ))}
        </div>
      )}
      {dialog === "paste" && (
        <Dialog title={t("pasteText")} submit={t("add")} onClose={() => setDialog("")} onSubmit={paste}>
          <Field label={t("textName")}><input id="text-name" name="name" maxLength={4096} autocomplete="off" /></Field>
          <Field label={t("text")}><textarea id="text" name="text" rows={10} required /></Field>
          <p class="quiet">{t("replaces")}</p>
        </Dialog>
      )}
      {dialog === "url" && (
        <Dialog title={t("addUrl")} submit={t("add")} onClose={() => setDialog("")} onSubmit={fetchUrl}>
          <Field label={t("address")}><input id="url" name="url" type="url" required placeholder="https://" /></Field>
        </Dialog>
      )}
    </section>
  );
}

/** How much of a job is done; of a single document, its chunks count too, and storing them is the rest. */
const shareDone = ({ done, total, counts }: Job) =>
  (total === 1 && done === 0 && counts.chunks_begun ? (0.7 * (counts.chunks ?? 0)) / counts.chunks_begun : done / total);

/** What a job is doing: the chunks it has read, what it found in them, and how long the rest will take. */
function Stage({ job: { counts, total, done } }: { job: Job }) {
  const { chunks = 0, chunks_begun = 0, entities = 0, relations = 0, failed = 0, seconds_left } = counts;
  if (!("chunks" in counts) || done === total) return null;
  const isReading = chunks < chunks_begun;
  const found = [
    chunks_begun === 0 ? t("loadingModels") : isReading ? `${t("readingChunks")} ${number(chunks)} / ${number(chunks_begun)}` : t("storing"),
    entities > 0 && `+${number(entities)} ${t("nodes")}`, relations > 0 && `+${number(relations)} ${t("edges")}`,
    failed > 0 && `${number(failed)} ${t("s_failed")}`, isReading && seconds_left !== undefined && `${t("left")} ${duration(Math.max(1, seconds_left))}`,
  ];
  return <p class="quiet stage">{found.filter(Boolean).join(" · ")}</p>;
}

function Work({ jobs, ready, onChange }: { jobs: Job[]; /** Documents that can be asked already. */ ready: number; onChange: () => void }) {
  if (!jobs.length) return null;
  const ordered = [...jobs].sort((one, other) => Number(other.state === "running") - Number(one.state === "running"));
  const cancel = () => attempt(async () => { await post("documents/cancel_pipeline"); onChange(); });
  return (
    <section class="card jobs" aria-label={t("underWay")} id="work">
      <div class="row"><h2 class="grow" style={{ margin: 0 }}>{t("underWay")}</h2>{ready > 0 && <a class="button small" href={linkTo("ask")}>{t("askReady")} ({number(ready)})</a>}{canWrite.value && <Button class="small" icon="stop" label={t("cancelWork")} onClick={cancel} />}</div>
      {ordered.map((job) => (
        <div class="job" key={job.id}>
          <div class="row">
            {job.state === "running" && <span class="spinner" aria-hidden="true" />}
            <span class="grow">{named("job_", job.kind)} {job.sources.length === 1 && <span class="quiet">{job.sources[0]}</span>}</span>
            <span class="quiet">{job.total > 0 ? `${number(job.done)} / ${number(job.total)}` : t(`j_${job.state}`)}</span>
          </div>
          {job.state === "running" && <Stage job={job} />}
          {job.total > 0 && <div class="bar" role="progressbar" aria-valuenow={job.done} aria-valuemax={job.total} aria-label={named("job_", job.kind)}><i style={{ width: `${100 * shareDone(job)}%` }} /></div>}
          {job.error && <p class="quiet">{serviceText(job.error)}</p>}
        </div>
      ))}
    </section>
  );
}

/** What is done to all documents at once, and the log of it. */
function Upkeep({ count, onChange }: { count: number; onChange: () => void }) {
  const [isOpen, setOpen] = useState(false);
  const [dialog, setDialog] = useState<"" | "log" | "clear">("");
  const choose = (action: () => unknown) => () => { setOpen(false); action(); };
  const ask = (method: "POST" | "DELETE", path: string, told: Word) => attempt(async () => {
    const reply = await call<{ status: string; message?: string }>(method, path);
    if (reply.status === "busy" || reply.status === "fail") throw new Error(serviceText(reply.message ?? ""));
    setDialog("");
    tell(t(told));
    onChange();
  });
  return (
    <span class="menu" onFocusOut={(event) => { if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOpen(false); }}
      onKeyDown={(event) => { if (event.key === "Escape") setOpen(false); }}>
      <Button bare icon="more" label={t("more")} expanded={isOpen} onClick={() => setOpen(!isOpen)} />
      {isOpen && (
        <span class="items">
          {canWrite.value && <button type="button" onClick={choose(() => ask("POST", "documents/scan", "scanning"))}><Icon name="folder" />{t("scanFolder")}</button>}
          <button type="button" onClick={choose(() => setDialog("log"))}><Icon name="history" />{t("log")}</button>
          {isAdmin.value && <button type="button" onClick={choose(() => ask("POST", "documents/clear_cache", "cacheDropped"))}><Icon name="undo" />{t("dropCache")}</button>}
          {isAdmin.value && count > 0 && <button type="button" onClick={choose(() => setDialog("clear"))}><Icon name="delete" />{t("deleteAll")}</button>}
        </span>
      )}
      {dialog === "log" && <Log onClose={() => setDialog("")} />}
      {dialog === "clear" && (
        <Dialog title={t("deleteAll")} submit={t("deleteAll")} danger onClose={() => setDialog("")} onSubmit={() => void ask("DELETE", "documents", "deletingAll")}>
          <p>{t("deleteAllHint")}</p>
          <Field label={`${t("typeToDelete")} ${workspace.value}`}><input name="name" required autofocus autocomplete="off" pattern={workspace.value.replace(/[^\w]/g, "\\$&")} /></Field>
        </Dialog>
      )}
    </span>
  );
}

function Log({ onClose }: { onClose: () => void }) {
  const [lines, setLines] = useState<string[] | null>(null);
  useEffect(() => { void attempt(async () => setLines((await get<Schemas["PipelineResponse"]>("documents/pipeline_status")).history_messages ?? [])); }, []);
  return (
    <Dialog title={t("log")} onClose={onClose}>
      {lines === null ? <Busy /> : lines.length === 0 ? <p class="quiet">{t("noJobs")}</p> : <pre class="log" id="log" tabIndex={0}>{[...lines].reverse().join("\n")}</pre>}
    </Dialog>
  );
}

// Deletions that may still be taken back, and where; sent when their time is up, or when the page is left.
const leaving = new Map<number, { ids: string[]; place: string }>();
const bodyOf = (ids: string[]) => ({ doc_ids: ids, delete_file: true });

addEventListener("pagehide", () => {
  for (const { ids, place } of leaving.values()) {
    const headers = { ...headersFor(place), "Content-Type": "application/json" };
    void fetch(addressOf("documents/delete_document"), { method: "DELETE", headers, body: JSON.stringify(bodyOf(ids)), keepalive: true });
  }
  leaving.clear();
});

export function deleteLater(ids: string[], onChange: () => void) {
  const place = workspace.value;
  const timer = window.setTimeout(() => {
    leaving.delete(timer);
    void attempt(async () => {
      await call("DELETE", "documents/delete_document", { body: bodyOf(ids), place });
      onChange();
    });
  }, 1000 * UNDO_SECONDS);
  leaving.set(timer, { ids, place });
  onChange();
  tell(`${number(ids.length)} ${t("willDelete")}`, { seconds: UNDO_SECONDS, action: { label: t("undo"), run: () => { clearTimeout(timer); leaving.delete(timer); onChange(); } } });
}

/** Tries failed documents once more. */
export const retryThese = (ids: string[], onChange: () => void) => attempt(async () => {
  await post("documents/reprocess_failed", { doc_ids: ids });
  tell(t("tryingAgain"));
  onChange();
});

export const isLeaving = (id: string) => [...leaving.values()].some(({ ids, place }) => place === workspace.value && ids.includes(id));

export function DocumentsView({ main }: { main: RefObject<HTMLElement | null> }) {
  const [id, start] = route.value.rest;
  return id ? <DocumentPage key={id} main={main} id={id} start={start === undefined ? null : Number(start)} /> : <DocumentList main={main} />;
}

function DocumentList({ main }: { main: RefObject<HTMLElement | null> }) {
  const [page, setPage] = useState<Schemas["ListResponse"] | null>(null);
  const [counts, setCounts] = useState<Record<string, number>>({});
  const [jobs, setJobs] = useState<Job[]>([]);
  const [status, setStatus] = useState<Status | "">("");
  const [prefix, setPrefix] = useState("");
  const [sort, setSort] = useState<{ by: Sort; down: boolean }>({ by: "updated_at", down: true });
  const [offset, setOffset] = useState(0);
  const [selected, setSelected] = useState<Set<string>>(new Set());
  const [showsAdd, setAdd] = useState(false);
  const [turn, setTurn] = useState(0);
  /** The last job that had ended when the list was first read, so that the end of a later one is told; null before. */
  const latest = useRef<string | null>(null);
  const refresh = () => setTurn((value) => value + 1);
  useEffect(() => {
    let isGone = false;
    const read = async () => {
      const [list, stats, work] = await Promise.all([
        get<Schemas["ListResponse"]>("documents", { status: status || null, source_prefix: prefix || null, sort: sort.by, descending: sort.down, offset, limit: PAGE }),
        get<Schemas["WorkspaceStats"]>(`workspaces/${encodeURIComponent(workspace.value)}`),
        get<Schemas["JobListResponse"]>("documents/jobs", { limit: 30 }),
      ]);
      if (isGone) return;
      setPage(list);
      setCounts(stats.documents);
      latest.current ??= work.jobs.find((job) => !job.is_unfinished)?.id ?? "";
      setJobs(work.jobs.filter((job) => job.is_unfinished));
    };
    void attempt(read);
    return () => { isGone = true; };
  }, [status, prefix, sort, offset, turn]);
  useEffect(() => {
    // What is under way is told as it goes; the list is read again at most so often.
    let timer = 0;
    const stop = follow((work) => {
      // Whoever waited for documents to be read is led on to asking.
      const { jobs: open, latest: ended } = work;
      if (latest.current !== null && ended && ended.id !== latest.current && !open.length) {
        latest.current = ended.id;
        if (ended.counts.processed) tell(t("readyToAsk"), { seconds: 15, action: { label: t("ask"), run: () => goTo("ask") } });
      }
      setJobs(work.jobs);
      timer ||= window.setTimeout(() => { timer = 0; refresh(); }, LIST_MS);
    }, refresh);
    return () => { stop(); clearTimeout(timer); };
  }, []);
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  if (!page) return <main id="main" ref={main} tabIndex={-1}><div class="view"><Busy /></div></main>;
  if (!all && !jobs.length && !showsAdd) {
    return (
      <main id="main" ref={main} tabIndex={-1}>
        <div class="view" style={{ maxWidth: "800px" }}>
          <header><h1>{t("welcome")}</h1></header>
          {canWrite.value && <AddPanel onChange={() => { setAdd(true); refresh(); }} />}
          <FirstRun isBelow />
        </div>
      </main>
    );
  }
  const shown = page.documents.filter((item) => !isLeaving(item.id));
  const allChosen = shown.length > 0 && shown.every((item) => selected.has(item.id));
  const choose = (ids: string[], isOn: boolean) => {
    const next = new Set(selected);
    for (const one of ids) if (isOn) next.add(one); else next.delete(one);
    setSelected(next);
  };
  const retry = () => attempt(async () => { await post("documents/reprocess_failed"); refresh(); });
  const canRetry = (item: Document) => canWrite.value && (item.status === "failed" || item.status === "partial");
  const retriable = shown.filter((item) => selected.has(item.id) && canRetry(item)).map((item) => item.id);
  const sorted = (by: Sort, word: Word) => (
    <th aria-sort={sort.by === by ? (sort.down ? "descending" : "ascending") : "none"}>
      <button type="button" onClick={() => setSort({ by, down: sort.by === by ? !sort.down : by !== "source" })}>{t(word)}{sort.by === by ? (sort.down ? " ↓" : " ↑") : ""}</button>
    </th>
  );
  return (
    <main id="main" ref={main} tabIndex={-1}>
      <div class="view" id="documents">
        <header><h1>{t("documents")}</h1>
          {Boolean(counts.failed || counts.partial) && canWrite.value && <Button icon="retry" label={t("retryFailed")} onClick={retry} />}
          <Upkeep count={all} onChange={refresh} />
        </header>
        {canWrite.value ? <AddPanel slim onChange={refresh} /> : <p class="note"><Icon name="warn" />{t("readOnly")}</p>}
        <Work jobs={jobs} ready={counts.processed ?? 0} onChange={refresh} />
        <div class="row">
          <div class="grow by-name"><input id="prefix" type="search" aria-label={t("filterByName")} placeholder={t("filterByName")} value={prefix}
            onInput={(event) => { setPrefix(event.currentTarget.value); setOffset(0); }} /></div>
          <Select id="status" label={t("status")} value={status} onChange={(value) => { setStatus(value); setOffset(0); }}
            options={[["", `${t("all")} ${number(all)}`], ...STATUSES.filter((name) => counts[name] || name === status).map((name) => [name, `${t(`s_${name}`)} ${number(counts[name] ?? 0)}`] as [Status, string])]} />
          <span class="narrow-only"><Select label={t("sortBy")} value={sort.by} onChange={(by) => setSort({ by, down: by !== "source" })}
            options={[["updated_at", t("changed")], ["created_at", t("added")], ["source", t("name")]]} /></span>
        </div>
        {selected.size > 0 && (
          <div class="selection" role="region" aria-label={t("selected")}>
            <span class="grow">{number(selected.size)} {t("selected")}</span>
            {retriable.length > 0 && <Button icon="retry" label={t("retry")} onClick={() => void retryThese(retriable, refresh)} />}
            {canWrite.value && <Button danger icon="delete" label={t("delete")} onClick={() => { deleteLater([...selected], refresh); setSelected(new Set()); }} />}
            <Button label={t("cancel")} onClick={() => setSelected(new Set())} />
          </div>
        )}
        <div id="list" class="card" style={{ padding: "0 8px" }}>
          {shown.length === 0 ? <Empty icon="documents" title={all ? t("noMatch") : t("noDocuments")} /> : (
            <table class="table cards">
              <thead><tr>
                <th><input type="checkbox" aria-label={t("selectAll")} checked={allChosen} onChange={(event) => choose(shown.map((item) => item.id), event.currentTarget.checked)} /></th>
                {sorted("source", "name")}<th>{t("status")}</th><th class="num">{t("chunks")}</th><th class="num">{t("size")}</th>{sorted("updated_at", "changed")}<th />
              </tr></thead>
              <tbody>
                {shown.map((item) => (
                  <tr key={item.id}>
                    <td><input type="checkbox" aria-label={`${t("selectOne")} ${item.source}`} checked={selected.has(item.id)} onChange={(event) => choose([item.id], event.currentTarget.checked)} /></td>
                    <td class="name">
                      <a class="link" href={linkTo("documents", item.id)}>{item.source}</a>
                      {item.title && !item.source.includes(item.title) && <div class="quiet">{item.title}</div>}
                      {item.error && (
                        <Failure error={item.error}>
                          {canRetry(item) && <button type="button" class="link" aria-label={`${t("retry")}: ${item.source}`} onClick={() => void retryThese([item.id], refresh)}>{t("retry")}</button>}
                        </Failure>
                      )}
                    </td>
                    <td>{statusChip(item.status)}</td>
                    <td class="num narrow-hide">{number(item.chunk_count)}</td>
                    <td class="num narrow-hide">{number(item.length)}</td>
                    <td class="quiet extra">{when(item.updated_at)}</td>
                    <td class="num narrow-hide">{canWrite.value && <Button bare class="small" icon="delete" label={`${t("delete")} ${item.source}`} onClick={() => deleteLater([item.id], refresh)} />}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </div>
        {page.total > PAGE && (
          <div class="row">
            <Button label={t("previous")} disabled={offset === 0} onClick={() => setOffset(Math.max(0, offset - PAGE))} />
            <span class="quiet">{number(offset + 1)}–{number(Math.min(page.total, offset + PAGE))} / {number(page.total)}</span>
            <Button label={t("next")} disabled={offset + PAGE >= page.total} onClick={() => setOffset(offset + PAGE)} />
          </div>
        )}
      </div>
    </main>
  );
}
