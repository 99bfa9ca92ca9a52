// The source of a citation beside the answer: rendered, scrolled to the quote, with its headings and page.
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, get } from "./api";
import type { Schemas } from "./api-types";
import type { Citation, Reply } from "./history";
import { dress, markQuote, renderDocument, showQuote, utf16 } from "./markdown";
import { linkTo } from "./state";
import { Busy, Button, Icon, Panel } from "./ui";
import { t } from "./words";

/** Characters shown around a quote, and further ones for each step. */
const AROUND = 6_000;

export interface Opened { reply: Reply; id: string; at: number }

/** What a number of an answer stands for: the quotes it rests on, those of the place that was chosen first. */
export function citationsOf({ reply, id, at }: Opened): Citation[] {
  const cited = (reply.details?.citations ?? []).filter((item) => String(item.reference_id) === id);
  const isNear = (item: Citation) => at >= item.answer_start && at <= item.answer_end + 12;
  return [...cited.filter(isNear), ...cited.filter((item) => !isNear(item))];
}

export function SourcePanel({ opened, onClose }: { opened: Opened; onClose: () => void }) {
  const citations = citationsOf(opened);
  const [chosen, setChosen] = useState(0);
  useEffect(() => setChosen(0), [opened]);
  const reference = opened.reply.references.find((item) => String(item.reference_id) === opened.id);
  const citation = citations[chosen];
  const name = reference?.file_path ?? "";
  return (
    <Panel title={<><span class="cite">{opened.id}</span> {name}</>} onClose={onClose}
      tools={citation && <a class="button bare" href={linkTo("documents", citation.document_id)} aria-label={t("openDocument")} title={t("openDocument")}><Icon name="documents" /></a>}>
      {citations.length > 1 && (
        <ol class="quotes" aria-label={t("passageOf")}>
          {citations.map((item, place) => (
            <li key={place}>
              <button type="button" aria-pressed={place === chosen} onClick={() => setChosen(place)}>
                <Place citation={item} /><Quote text={item.quote} />
              </button>
            </li>
          ))}
        </ol>
      )}
      {citation && citations.length === 1 && <Place citation={citation} />}
      {citation && citation.page !== null && /\.pdf$/i.test(name) && <PagePicture key={`${citation.document_id}/${citation.page}`} id={citation.document_id} page={citation.page} />}
      {citation ? <Excerpt key={`${citation.document_id}/${citation.start}`} citation={citation} /> : <Passages texts={reference?.content ?? []} />}
      {reference?.other_file_paths && <p class="quiet">{t("alsoIn")} {reference.other_file_paths.join(", ")}</p>}
    </Panel>
  );
}

/** A quote in short: its lines without their marks, those of a list as items (of spans, as a button holds no list). */
const Quote = ({ text }: { text: string }) => (
  <span class="quote">
    {text.split("\n").map((line, place) => {
      const [, item, rest = ""] = /^\s*(?:([-+*])\s+)?(.*)$/.exec(line)!;
      const plain = rest.replace(/[#*`|>]+/g, " ").trim();
      return plain && <span key={place} class={item && "item"}>{plain}</span>;
    })}
  </span>
);

/** A page of a PDF as it is printed, drawn by the service when somebody asks for it. */
export function PagePicture({ id, page }: { id: string; page: number }) {
  const [state, setState] = useState<"closed" | "loading" | "drawn" | "missing">("closed");
  const canvas = useRef<HTMLCanvasElement>(null);
  const show = async () => {
    setState("loading");
    const width = Math.min(2000, Math.round(900 * Math.max(1, window.devicePixelRatio)));
    try {
      const response = await ask("GET", `documents/${encodeURIComponent(id)}/pages/${page}`, { query: { width } });
      if (!response.ok) { setState("missing"); return; }
      const picture = await createImageBitmap(await response.blob());
      [canvas.current!.width, canvas.current!.height] = [picture.width, picture.height];
      canvas.current!.getContext("2d")!.drawImage(picture, 0, 0);
      setState("drawn");
    } catch {
      setState("missing");
    }
  };
  return (
    <div class="stack page-picture">
      {state !== "missing" && <div><Button class="small" icon="documents" label={`${t(state === "drawn" ? "hidePage" : "showPage")} ${page}`} pressed={state === "drawn"} disabled={state === "loading"} onClick={() => { if (state === "drawn") setState("closed"); else void show(); }} /></div>}
      {state === "loading" && <Busy />}
      {state === "missing" && <p class="quiet">{t("noOriginal")}</p>}
      <canvas ref={canvas} role="img" aria-label={`${t("page")} ${page}`} hidden={state !== "drawn"} />
    </div>
  );
}

export const Place = ({ citation }: { citation: Pick<Citation, "headings" | "page"> }) => (
  <span class="place">
    {citation.page !== null && <b>{t("page")} {citation.page}</b>}
    {citation.headings.map((heading, place) => <span key={place}>{place > 0 || citation.page !== null ? " › " : ""}{heading}</span>)}
  </span>
);

function Excerpt({ citation }: { citation: Citation }) {
  const [bounds, setBounds] = useState({ from: Math.max(0, citation.start - AROUND), to: citation.end + AROUND });
  const [part, setPart] = useState<Schemas["TextResponse"] | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    const query = { offset: bounds.from, limit: bounds.to - bounds.from };
    get<Schemas["TextResponse"]>(`documents/${encodeURIComponent(citation.document_id)}/text`, query)
      .then(setPart, (failure: Error) => setError(failure.message));
  }, [bounds]);
  if (error) return <><p class="quiet">{error}</p><Passages texts={[citation.quote]} /></>;
  if (!part) return <Busy />;
  const end = part.offset + Array.from(part.text).length;
  return (
    <div class="stack">
      {part.offset > 0 && <div><Button class="small" label={t("showMore")} onClick={() => setBounds({ ...bounds, from: Math.max(0, bounds.from - 4 * AROUND) })} /></div>}
      <MarkedText text={part.text} start={citation.start - part.offset} end={citation.end - part.offset} />
      {end < part.total_characters && <div><Button class="small" label={t("showMore")} onClick={() => setBounds({ ...bounds, to: bounds.to + 4 * AROUND })} /></div>}
    </div>
  );
}

/** A part of a document, rendered, with one passage marked (places in code points) and scrolled to. */
export function MarkedText({ text, start, end }: { text: string; start: number; end: number }) {
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const root = ref.current!;
    root.innerHTML = renderDocument(markQuote(text, utf16(text, start), utf16(text, end)));
    const mark = showQuote(root);
    void dress(root);
    mark?.scrollIntoView({ block: "center" });
  }, [text, start, end]);
  return <div class="document-text prose source" ref={ref} tabIndex={0} />;
}

const Passages = ({ texts }: { texts: string[] }) => (
  <div class="stack">
    {texts.map((text, place) => <div key={place} class="document-text prose source" dangerouslySetInnerHTML={{ __html: renderDocument(text) }} />)}
  </div>
);
