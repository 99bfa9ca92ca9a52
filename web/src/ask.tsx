// Questions: a conversation, the answer as it is written, and beside it what each of its numbers stands for.
import { batch, signal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { get, isAbort, stream } from "./api";
import type { Schemas } from "./api-types";
import { Beginning, FirstRun } from "./first-run";
import { bodyOf, type Details, dropTalk, keepTalk, newId, type Param, readTalk, readTalks, type Reply, type Talk, talkAsMarkdown, type TalkHead, talks, type Turn } from "./history";
import { Inspector } from "./inspector";
import { dress, renderAnswer } from "./markdown";
import { type ModeName, ModeSelect, param, Parameters, setParam } from "./parameters";
import { failureText, serviceText } from "./service-words";
import { type Opened, SourcePanel } from "./source";
import { attempt, goTo, linkTo, route, tell, workspace } from "./state";
import { Button, copy, Dialog, Field, Icon, save } from "./ui";
import { duration, language, named, number, t } from "./words";

// Turns of the conversation that a question is read with, and how much of each.
const MOST_TURNS = 3;
const MOST_CHARACTERS = 8000;
/** Conversations listed at first, and further ones for each step. */
const LISTED = 50;
const OFFLINE_TOLD = "heliograph-offline-told";

/** The conversation that is open; it is changed in place, and `tick` says so. */
const talk = signal<Talk>(emptyTalk());
const tick = signal(0);
const running = signal<AbortController | null>(null);
const draft = signal("");
const filterText = signal("");
const second = signal<ModeName | null>(null);

function emptyTalk(): Talk {
  return { id: newId(), workspace: workspace.value, title: "", changed: Date.now(), turns: [] };
}

const fileName = (title: string) => title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60) || "conversation";

/** A conversation of the list with its turns; the one that is open may know more than what is kept. */
const whole = async (head: TalkHead) => (head.id === talk.value.id ? talk.value : await readTalk(head.id));

async function download(head: TalkHead) {
  const one = await whole(head);
  if (one) save(`${fileName(one.title)}.md`, talkAsMarkdown(one), "text/markdown");
}

async function discard(head: TalkHead) {
  const one = await whole(head);
  if (!one) return;
  void dropTalk(one.id);
  if (one.id === talk.value.id) { talk.value = emptyTalk(); goTo("ask"); }
  tell(t("talkDeleted"), { seconds: 8, action: { label: t("undo"), run: () => void keepTalk(one) } });
}

export function TalkList({ isOpen }: { isOpen: boolean }) {
  const [menu, setMenu] = useState("");
  const [count, setCount] = useState(LISTED);
  const [renamed, setRenamed] = useState<TalkHead | null>(null);
  const own = talks.value.filter((one) => one.workspace === workspace.value);
  return (
    <div class={isOpen ? "talks open" : "talks"}>
      <Button class="small" icon="plus" label={t("newTalk")} onClick={() => { talk.value = emptyTalk(); goTo("ask"); }} />
      {own.length > 0 && (
        <div class="row" style={{ justifyContent: "space-between" }}>
          <h2 id="talks-title">{t("conversations")}</h2>
          <Button bare class="small" icon="export" label={t("exportAll")} onClick={() => void attempt(async () => save("conversations.json", JSON.stringify(await Promise.all(own.map(whole)), null, 2), "application/json"))} />
        </div>
      )}
      <ul aria-labelledby="talks-title">
        {own.slice(0, count).map((one) => (
          <li key={one.id} class={one.id === talk.value.id ? "talk now" : "talk"}>
            <a href={linkTo("ask", one.id)} title={one.title}>{one.title}</a>
            <span class="menu" onFocusOut={(event) => { if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setMenu(""); }}
              onKeyDown={(event) => { if (event.key === "Escape") setMenu(""); }}>
              <Button bare class="small" icon="more" label={`${t("more")}: ${one.title}`} pressed={menu === one.id} onClick={() => setMenu(menu === one.id ? "" : one.id)} />
              {menu === one.id && (
                <span class="items">
                  <button type="button" onClick={() => { setMenu(""); setRenamed(one); }}><Icon name="edit" />{t("rename")}</button>
                  <button type="button" onClick={() => { setMenu(""); void download(one); }}><Icon name="export" />{t("exportTalk")}</button>
                  <button type="button" onClick={() => { setMenu(""); void discard(one); }}><Icon name="delete" />{t("delete")}</button>
                </span>
              )}
            </span>
          </li>
        ))}
        {own.length > count && <li><button type="button" class="link quiet" onClick={() => setCount(count + LISTED)}>{t("showMore")}</button></li>}
      </ul>
      {renamed && (
        <Dialog title={t("rename")} onClose={() => setRenamed(null)} onSubmit={(data) => {
          void whole(renamed).then((one) => {
            if (!one) return;
            one.title = String(data.get("name")).trim() || one.title;
            void keepTalk(one);
          });
          setRenamed(null);
        }}>
          <Field label={t("talkName")}><input name="name" defaultValue={renamed.title} required maxLength={200} autofocus /></Field>
        </Dialog>
      )}
    </div>
  );
}

interface Line {
  references?: Schemas["ReferenceItem"][]; response?: string; details?: Details; error?: string; type?: string; progress?: string; response_time?: number;
}

function history(before: Turn[]): Schemas["HistoryMessage"][] {
  return before
    .filter((turn) => turn.replies[0]?.details?.kind === "generated")
    .slice(-MOST_TURNS)
    .flatMap((turn) => [["user", turn.question], ["assistant", bodyOf(turn.replies[0]!)]] as const)
    .map(([role, content]) => ({ role, content: content.slice(0, MOST_CHARACTERS) }));
}

async function fill(reply: Reply, question: string, before: Turn[], signal: AbortSignal) {
  const body = {
    ...reply.param, query: question, include_references: true, include_chunk_content: true, include_progress: true, explain: true,
    conversation_history: reply.param.history_turns ? before.flatMap((turn) => history([turn])) : history(before),
  };
  let isDrawn = true;
  const redraw = () => {
    // At most once a frame, since the whole answer is rendered anew.
    if (!isDrawn) return;
    isDrawn = false;
    requestAnimationFrame(() => { isDrawn = true; tick.value += 1; });
  };
  try {
    await stream<Line>("query/stream", body, (line) => {
      if (line.error) throw new Error(failureText(line.type ?? "", line.error));
      if (line.references) reply.references = line.references;
      if (line.details) reply.details = line.details;
      if (line.response_time !== undefined) reply.seconds = line.response_time;
      if (line.progress) reply.stage = line.progress;
      if (line.response) reply.text += line.response;
      redraw();
    }, signal);
    reply.state = reply.details ? "done" : "failed";
    if (!reply.details) reply.error = t("cut");
  } catch (error) {
    reply.state = isAbort(error) ? "stopped" : "failed";
    if (!isAbort(error)) reply.error = error instanceof Error ? error.message : String(error);
  }
}

/** Asks, as the last turn of the conversation; what came after `place` is dropped, as it followed from another question. */
async function ask(question: string, asked: Param[], place = talk.value.turns.length) {
  const now = talk.value;
  const turns = now.turns.slice(0, place);
  const replies = asked.map((one): Reply => ({
    param: one, text: "", references: [], details: null, seconds: null, error: "", state: "running", stage: "waiting",
  }));
  const turn: Turn = { id: newId(), question, at: Date.now(), replies };
  const control = new AbortController();
  batch(() => {
    now.turns = [...turns, turn];
    now.title ||= question.replace(/\s+/g, " ").slice(0, 80);
    running.value = control;
    tick.value += 1;
  });
  if (route.value.rest[0] !== now.id) goTo("ask", now.id);
  await Promise.all(replies.map((reply) => fill(reply, question, turns, control.signal)));
  now.changed = Date.now();
  // The next question waits for no disk.
  batch(() => {
    running.value = null;
    tick.value += 1;
  });
  await keepTalk(now);
  const failed = replies.find((reply) => reply.state === "failed");
  if (failed) tell(failed.error, { isBad: true });
  else tell(replies.some((reply) => reply.state === "stopped") ? t("stopped") : t("answered"), { seconds: 4, isQuiet: true });
}

function readFilter(): Param["filter"] | undefined {
  const text = filterText.value.trim();
  if (!text) return undefined;
  try {
    return JSON.parse(text) as Param["filter"];
  } catch {
    throw new Error(t("badFilter"));
  }
}

function Composer({ isNew }: { isNew: boolean }) {
  const [isOpen, setOpen] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => { if (matchMedia("(min-width: 901px)").matches) area.current?.focus(); }, [talk.value.id]);
  const submit = () => attempt(async () => {
    const question = draft.value.trim();
    if (!question || running.value) return;
    const filter = readFilter();
    const first: Param = { ...param.value, ...(filter ? { filter } : {}) };
    draft.value = "";
    await ask(question, second.value ? [first, { ...first, mode: second.value }] : [first]);
  });
  return (
    <form class="composer" aria-label={t("ask")} onSubmit={(event) => { event.preventDefault(); void submit(); }}>
      <textarea id="question" ref={area} rows={isNew ? 2 : 1} maxLength={65536} required aria-label={t("question")} placeholder={t("placeholder")} value={draft.value}
        onInput={(event) => { draft.value = event.currentTarget.value; }}
        onKeyDown={(event) => {
          // Enter that chooses a Chinese word sends nothing.
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          void submit();
        }} />
      <div class="row">
        <span class="quiet mode-word" aria-hidden="true">{t("mode")}</span>
        <ModeSelect id="mode" label={t("mode")} value={param.value.mode ?? "auto"} onChange={(mode) => setParam({ ...param.value, mode })} />
        {second.value && <ModeSelect id="second-mode" label={t("otherMode")} value={second.value} onChange={(mode) => { second.value = mode; }} />}
        <Button bare icon="compare" label={t("compare")} pressed={second.value !== null} onClick={() => { second.value = second.value ? null : "naive"; }} />
        <Button bare icon="sliders" label={t("parameters")} pressed={isOpen} onClick={() => setOpen(!isOpen)} />
        {running.value
          ? <Button class="send main" bare icon="stop" label={t("stop")} onClick={() => running.value?.abort()} />
          : <Button class="send main" bare submit icon="send" label={t("send")} disabled={!draft.value.trim()} />}
      </div>
      {isOpen && <Parameters filter={filterText.value} onFilter={(text) => { filterText.value = text; }} />}
    </form>
  );
}

function Answer({ reply, opened, onCite }: { reply: Reply; opened: Opened | null; onCite: (id: string, at: number) => void }) {
  void tick.value;
  const ref = useRef<HTMLDivElement>(null);
  const body = bodyOf(reply);
  const isQuoted = reply.details?.kind === "extractive" && reply.details.citations.length > 0;
  const isPlain = reply.details?.kind === "context" || reply.details?.kind === "prompt";
  useLayoutEffect(() => {
    const root = ref.current;
    if (!root || isPlain) return;
    root.innerHTML = renderAnswer(body, new Set(reply.references.map((item) => String(item.reference_id))));
    for (const button of root.querySelectorAll<HTMLElement>(".cite")) button.setAttribute("aria-label", `${t("source")} ${button.dataset.ref}`);
    if (reply.state !== "running") void dress(root);
  }, [body, reply.references, reply.state, isPlain]);
  useLayoutEffect(() => {
    for (const button of ref.current?.querySelectorAll<HTMLElement>(".cite") ?? []) {
      button.classList.toggle("now", opened?.reply === reply && button.dataset.ref === opened.id && Number(button.dataset.at) === opened.at);
    }
  });
  if (isPlain) return <pre class="answer" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>{body}</pre>;
  return (
    <div class={isQuoted ? "answer prose quoted" : "answer prose"} ref={ref} aria-busy={reply.state === "running"} aria-label={t("answer")} role="region"
      onClick={(event) => {
        const button = (event.target as Element).closest<HTMLElement>(".cite");
        if (button) onCite(button.dataset.ref ?? "", Number(button.dataset.at));
      }} />
  );
}

function ReplyView({ reply, place, shows, opened, onCite, onInspect, onAgain }: {
  reply: Reply; place: number; shows: boolean; opened: Opened | null; onCite: (opened: Opened) => void; onInspect: () => void; onAgain: () => void;
}) {
  // A reply is changed in place while it comes.
  void tick.value;
  const { details } = reply;
  const isRunning = reply.state === "running";
  const [told, setTold] = useState(Boolean(localStorage.getItem(OFFLINE_TOLD)));
  const isOffline = details?.kind === "extractive";
  const warnings = (details?.warnings ?? []).filter((text) => !text.includes("no chat model is configured"));
  return (
    <div class="reply">
      {(shows || details?.from_cache) && (
        <div class="head">
          {shows && <span class="chip soft">{reply.param.mode}</span>}
          {details?.from_cache && <span class="chip">{t("kept")}</span>}
        </div>
      )}
      {isRunning && !reply.text && <p class="stages" role="status"><span class="spinner" aria-hidden="true" />{named("", reply.stage)} …</p>}
      {reply.text && <Answer reply={reply} opened={opened} onCite={(id, at) => onCite({ reply, id, at })} />}
      {reply.state === "stopped" && <p class="quiet">{t("stopped")}</p>}
      {reply.error && <p class="note" role="alert"><Icon name="warn" /><span>{reply.error}</span></p>}
      {warnings.length > 0 && (
        <details class="quiet warnings"><summary>{t("notes")} {number(warnings.length)}</summary><ul>{warnings.map((text) => <li key={text}>{serviceText(text)}</li>)}</ul></details>
      )}
      {reply.references.length > 0 && !isRunning && <References reply={reply} onCite={onCite} />}
      {!isRunning && (
        <div class="tools">
          <Button bare class="small" icon="copy" label={t("copy")} onClick={() => copy(bodyOf(reply))} />
          <Button bare class="small" icon="retry" label={t("askAgain")} onClick={onAgain} />
          <Button class="small ghost" icon="inspect" label={t("inspect")} disabled={!details} onClick={onInspect} />
          <span class="quiet">
            {[reply.param.mode, reply.seconds !== null && duration(reply.seconds), details && details.usage.output_tokens ? `${number((details.usage.input_tokens ?? 0) + details.usage.output_tokens)} ${t("tokens")}` : ""].filter(Boolean).join(" · ")}
          </span>
        </div>
      )}
      {isOffline && !told && place === 0 && (
        <div class="note offline">
          <Icon name="plug" />
          <div class="stack"><span>{t("offlineOnce")}</span>
            <div class="row"><Button class="small" label={t("understood")} onClick={() => { localStorage.setItem(OFFLINE_TOLD, "1"); setTold(true); }} />
              <a class="button small" href={linkTo("overview")}>{t("howToConnect")}</a></div></div>
        </div>
      )}
    </div>
  );
}

/** The name of a file without its folders, which a hint gives in full. */
const lastPart = (path: string) => path.replace(/[/\\]+$/, "").split(/[/\\]/).at(-1) || path;

/** The documents that the answer cites; what was read beside them on request. */
function References({ reply, onCite }: { reply: Reply; onCite: (opened: Opened) => void }) {
  const [showsAll, setAll] = useState(false);
  const cited = new Set((reply.details?.citations ?? []).map((item) => String(item.reference_id)));
  const first = reply.references.filter((item, place) => (cited.size ? cited.has(String(item.reference_id)) : place < 4));
  const shown = showsAll ? reply.references : first;
  return (
    <ol class="refs" aria-label={t("references")}>
      {shown.map((item) => (
        <li key={item.reference_id}>
          <button type="button" onClick={() => onCite({ reply, id: String(item.reference_id), at: -1 })} title={item.file_path}>
            <b>{item.reference_id}</b><span>{lastPart(item.file_path)}</span>
          </button>
        </li>
      ))}
      {shown.length < reply.references.length && (
        <li><button type="button" class="rest" onClick={() => setAll(true)}>{number(reply.references.length - shown.length)} {t("alsoRead")}</button></li>
      )}
    </ol>
  );
}

type Beside = { kind: "source"; opened: Opened } | { kind: "inspect"; reply: Reply } | null;

function TurnView({ turn, place, beside, onBeside }: { turn: Turn; place: number; beside: Beside; onBeside: (beside: Beside) => void }) {
  const [isEditing, setEditing] = useState(false);
  const opened = beside?.kind === "source" ? beside.opened : null;
  const again = (question: string) => void ask(question, turn.replies.map((reply) => reply.param), place);
  return (
    <article class="turn" aria-label={turn.question}>
      <h2>{turn.question} {!running.value && <Button bare class="small" icon="edit" label={t("editAsk")} onClick={() => setEditing(true)} />}</h2>
      <div class={turn.replies.length > 1 ? "pair" : ""}>
        {turn.replies.map((reply, index) => (
          <ReplyView key={index} reply={reply} place={index} shows={turn.replies.length > 1} opened={opened} onCite={(one) => onBeside({ kind: "source", opened: one })}
            onInspect={() => onBeside({ kind: "inspect", reply })} onAgain={() => again(turn.question)} />
        ))}
      </div>
      {isEditing && (
        <Dialog title={t("editAsk")} submit={t("ask")} onClose={() => setEditing(false)} onSubmit={(data) => { setEditing(false); again(String(data.get("question")).trim()); }}>
          <Field label={t("question")}><textarea name="question" rows={4} required autofocus>{turn.question}</textarea></Field>
        </Dialog>
      )}
    </article>
  );
}

export function AskView({ main }: { main: RefObject<HTMLElement | null> }) {
  const [beside, setBeside] = useState<Beside>(null);
  const [isEmpty, setEmpty] = useState<boolean | null>(null);
  const wanted = route.value.rest[0];
  const last = useRef<HTMLDivElement>(null);
  useEffect(() => {
    void readTalks();
    if (talk.value.workspace !== workspace.value) talk.value = emptyTalk();
    void attempt(async () => {
      const [stats, { jobs }] = await Promise.all([
        get<Schemas["WorkspaceStats"]>(`workspaces/${encodeURIComponent(workspace.value)}`), get<Schemas["JobListResponse"]>("documents/jobs", { limit: 1 }),
      ]);
      setEmpty(Object.keys(stats.documents).length === 0 && !jobs.some((job) => job.is_unfinished));
    });
  }, []);
  useEffect(() => {
    if (running.value || wanted === talk.value.id) return;
    setBeside(null);
    if (!wanted) {
      if (talk.value.turns.length) talk.value = emptyTalk();
      return;
    }
    void readTalk(wanted).then((found) => { if (found && route.value.rest[0] === wanted && !running.value) talk.value = found; });
  }, [wanted]);
  void tick.value;
  const { turns } = talk.value;
  useEffect(() => { if (running.value) last.current?.scrollIntoView({ block: "start" }); }, [turns.length]);
  const isNew = turns.length === 0;
  if (isNew && isEmpty) return <main id="main" ref={main} tabIndex={-1}><FirstRun onFilled={() => setEmpty(false)} /></main>;
  const isTwo = turns.some((turn) => turn.replies.length > 1);
  return (
    <>
      <main id="main" ref={main} tabIndex={-1}>
        <div class={["ask", isNew && "new", isTwo && "two"].filter(Boolean).join(" ")} id="ask">
          {isNew ? <header class="hero"><h1>{t("askTitle")}</h1><p class="quiet">{t("askHint")}</p></header> : <h1 class="sr">{talk.value.title}</h1>}
          {!isNew && (
            <div class="turns" id="result">
              {turns.map((turn, place) => (
                <div key={turn.id} ref={place === turns.length - 1 ? last : null}><TurnView turn={turn} place={place} beside={beside} onBeside={setBeside} /></div>
              ))}
            </div>
          )}
          <div class={isNew ? "" : "dock"}><Composer isNew={isNew} /></div>
          {isNew && isEmpty === false && <Beginning key={language.value} onAsk={(text) => void ask(text, [param.value])} />}
        </div>
      </main>
      {beside?.kind === "source" && <SourcePanel opened={beside.opened} onClose={() => setBeside(null)} />}
      {beside?.kind === "inspect" && <Inspector reply={beside.reply} onClose={() => setBeside(null)} />}
    </>
  );
}
