// The first minutes: an empty workspace, what may fill it, and questions to begin with while it fills.
import { useEffect, useState } from "preact/hooks";
import { follow, get, post, type Work } from "./api";
import type { Schemas } from "./api-types";
import { attempt, canWrite, goTo, linkTo, workspace } from "./state";
import { Dialog, Icon } from "./ui";
import { language, number, t } from "./words";

const SETTINGS = "HELIOGRAPH_CHAT__BASE_URL=http://127.0.0.1:11434/v1\nHELIOGRAPH_CHAT__MODEL=qwen3:8b\nHELIOGRAPH_CHAT__API_KEY=…\nheliograph serve";
/** Which sample answers which question. */
const SAMPLE_QUESTIONS: Record<"en" | "zh", [source: string, question: string][]> = {
  en: [
    ["harbour-story/chapter-1-the-launching.md", "Who named the ship Meridian?"],
    ["iot-handbook/broker-operations.md", "Who owns the Fulmar broker cluster?"],
    ["iot-handbook/lantern-gateway.md", "How long can a Lantern store messages when both uplinks fail?"],
    ["iot-handbook/roles-and-approvals.md", "Who may approve the renewal of a gateway certificate?"],
  ],
  zh: [
    ["harbour-story-zh/yunduzhen-1-dukou.md", "望江钟是哪一年铸的，敲几声代表涨水？"],
    ["iot-handbook-zh/chengdu-team.md", "成都研发中心由谁负责？"],
    ["harbour-story-zh/yunduzhen-4-zhong.md", "望江钟是在哪里找到的？"],
    ["iot-handbook-zh/on-call-and-approvals-cn.md", "何立群联系不上时，网关续期由谁代批？"],
  ],
};
const SUGGESTED = 4;

export function ConnectHelp({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={t("connectModel")} onClose={onClose}>
      <p>{t("connectHow")}</p>
      <pre tabIndex={0}>{SETTINGS}</pre>
    </Dialog>
  );
}

/** The ways to begin; below the field that takes one's own documents, only the others. */
export function FirstRun({ onFilled, isBelow }: { onFilled?: () => void; isBelow?: boolean }) {
  const [isConnecting, setConnecting] = useState(false);
  const samples = () => attempt(async () => {
    await post("documents/samples");
    onFilled?.();
    goTo("ask");
  });
  return (
    <div class={isBelow ? "first-run" : "view first-run"} style={isBelow ? {} : { paddingTop: "12vh", maxWidth: "800px" }}>
      {!isBelow && <div class="hero"><h1>{t("welcome")}</h1><p class="quiet">{t("welcomeHint")}</p></div>}
      {!canWrite.value && <p class="note"><Icon name="warn" />{t("readOnly")}</p>}
      <div class="starts">
        <button type="button" class="card start" disabled={!canWrite.value} onClick={samples}><Icon name="book" /><b>{t("trySamples")}</b><span class="quiet">{t("samplesHint")}</span></button>
        {!isBelow && <button type="button" class="card start" disabled={!canWrite.value} onClick={() => goTo("documents")}><Icon name="import" /><b>{t("uploadOwn")}</b><span class="quiet">{t("uploadHint")}</span></button>}
        <button type="button" class="card start" onClick={() => setConnecting(true)}><Icon name="plug" /><b>{t("connectModel")}</b><span class="quiet">{t("connectHint")}</span></button>
      </div>
      {isConnecting && <ConnectHelp onClose={() => setConnecting(false)} />}
    </div>
  );
}

/** How far the documents are that are being read, and questions to begin with, each as soon as it can be answered. */
export function Beginning({ onAsk }: { onAsk: (question: string) => void }) {
  const [{ documents, jobs }, setWork] = useState<Pick<Work, "documents" | "jobs">>({ documents: {}, jobs: [] });
  const [questions, setQuestions] = useState<string[]>([]);
  const count = (...names: string[]) => names.reduce((sum, name) => sum + (documents[name] ?? 0), 0);
  const ready = count("processed", "partial");
  const all = ready + count("pending", "parsing", "processing");
  useEffect(() => {
    const stop = follow(
      (work) => { setWork(work); if (!work.jobs.length) stop(); },
      () => void attempt(async () => setWork({ ...await get<Schemas["WorkspaceStats"]>(`workspaces/${encodeURIComponent(workspace.value)}`), jobs: [] })),
    );
    return stop;
  }, []);
  useEffect(() => {
    if (ready && questions.length < SUGGESTED) void attempt(async () => setQuestions(await suggestions()));
  }, [ready]);
  return (
    <>
      {jobs.length > 0 && (ready < all || ready === 0) && (
        <div class="note" id="reading">
          <span class="spinner" aria-hidden="true" />
          <div class="stack grow">
            <span role="status">{t(ready ? "askAlready" : "askSoon")}</span>
            {all > 0 && <div class="bar" role="progressbar" aria-valuenow={ready} aria-valuemax={all} aria-label={t("documents")}><i style={{ width: `${(100 * ready) / all}%` }} /></div>}
            <a class="link quiet" href={linkTo("documents")}>{all > 0 ? `${number(ready)} / ${number(all)} ${t("documentsReady")}` : t("documents")}</a>
          </div>
        </div>
      )}
      {questions.length > 0 && (
        <div class="examples" aria-label={t("examples")} role="group">
          {questions.map((text) => <button key={text} type="button" onClick={() => onAsk(text)}>{text}</button>)}
        </div>
      )}
    </>
  );
}

/** Of the samples, what those that are ready answer; of other documents, what they say most of. */
async function suggestions(): Promise<string[]> {
  const { documents } = await get<Schemas["ListResponse"]>("documents", { sort: "created_at", descending: false, limit: 50 });
  const status = new Map(documents.map((item) => [item.source, item.status]));
  const samples = SAMPLE_QUESTIONS[language.value].filter(([source]) => status.has(source));
  if (samples.length) return samples.filter(([source]) => status.get(source) === "processed").map(([, question]) => question);
  const names = await get<string[]>("graph/label/popular", { limit: SUGGESTED });
  return names.map((name) => (language.value === "zh" ? `文档中关于“${name}”说了什么？` : `What do the documents say about ${name}?`));
}
