// How an answer was found: keywords, channels, what was kept or dropped and why, tokens, timings, the prompt.
import { useState } from "preact/hooks";
import type { Schemas } from "./api-types";
import type { Reply } from "./history";
import { linkTo } from "./state";
import { Button, copy, Empty, Icon, Panel, Tabs } from "./ui";
import { duration, named, number, t, type Word } from "./words";

type Explanation = Schemas["Explanation"];
type Chunk = Schemas["ExplainedChunk"];
type Tab = "summary" | "passages" | "graph" | "tokens" | "prompt";

const PARTS = ["prompt", "question", "frame", "entities", "relations", "chunks"] as const;
const CHANNELS: Record<string, Word> = { C: "channel_chunks", E: "channel_entities", R: "channel_relations" };

export function Inspector({ reply, onClose }: { reply: Reply; onClose: () => void }) {
  const [tab, setTab] = useState<Tab>("summary");
  const found = reply.details?.explanation;
  const tabs: [Tab, string][] = [["summary", t("i_summary")], ["passages", t("i_passages")], ["graph", t("graph")], ["tokens", t("i_tokens")], ["prompt", t("i_prompt")]];
  return (
    <Panel title={t("inspect")} onClose={onClose}>
      {!found ? <Empty icon="inspect" title={t("nothingFound")} /> : (
        <>
          <Tabs value={tab} options={tabs} onChange={setTab} label={t("inspect")} />
          {tab === "summary" && <Summary reply={reply} found={found} />}
          {tab === "passages" && <Passages found={found} />}
          {tab === "graph" && <Items found={found} />}
          {tab === "tokens" && <Tokens found={found} />}
          {tab === "prompt" && <Prompt text={found.prompt} />}
        </>
      )}
    </Panel>
  );
}

const Words = ({ words }: { words: string[] }) =>
  words.length ? <span class="row">{words.map((word) => <span key={word} class="chip">{word}</span>)}</span> : <span class="quiet">{t("none")}</span>;

function Summary({ reply, found }: { reply: Reply; found: Explanation }) {
  const { understanding, keywords, counts } = found;
  const kept = (name: string, all: string, left: string) => (
    <><dt>{name}</dt><dd>{number(counts[left] ?? 0)} {t("of")} {number(counts[all] ?? 0)} {t("keptN")}</dd></>
  );
  const seconds = { ...found.timings, ...(reply.seconds === null ? {} : { answer: Math.max(0, reply.seconds - (found.timings.total ?? 0)), whole: reply.seconds }) };
  const longest = Math.max(...Object.values(seconds), 0.001);
  return (
    <>
      <dl class="kv">
        <dt>{t("mode")}</dt><dd>{found.mode}</dd>
        {found.respelt && <><dt>{t("i_respelt")}</dt><dd>{found.respelt}</dd></>}
        {understanding && <><dt>{t("i_kind")}</dt><dd>{named("kind_", understanding.kind)}</dd></>}
        {understanding && understanding.parts.length > 0 && <><dt>{t("i_parts")}</dt><dd>{understanding.parts.map((part) => <p key={part}>{part}</p>)}</dd></>}
        {understanding && understanding.sides.length > 0 && <><dt>{t("i_sides")}</dt><dd><Words words={understanding.sides} /></dd></>}
        <dt>{t("i_low")}</dt><dd><Words words={keywords.low_level} /></dd>
        {keywords.high_level.length > 0 && <><dt>{t("i_high")}</dt><dd><Words words={keywords.high_level} /></dd></>}
        {kept(t("i_entities"), "total_entities_found", "entities_after_truncation")}
        {kept(t("i_relations"), "total_relations_found", "relations_after_truncation")}
        {kept(t("i_passages"), "merged_chunks_count", "final_chunks_count")}
        {reply.details && <><dt>{t("i_tokens")}</dt><dd>{number(reply.details.usage.input_tokens ?? 0)} {t("read")}, {number(reply.details.usage.output_tokens ?? 0)} {t("written")}</dd></>}
      </dl>
      <section>
        <h3 class="section-title">{t("i_timings")}</h3>
        <div class="meter">
          {Object.entries(seconds).map(([stage, value]) => (
            <Meter key={stage} name={stage === "whole" ? t("i_total") : named("stage_", stage)} share={value / longest} text={duration(value)} />
          ))}
        </div>
      </section>
    </>
  );
}

const Meter = ({ name, share, text }: { name: string; share: number; text: string }) => (
  <><span>{name}</span><span class="bar"><i style={{ width: `${Math.round(100 * Math.min(1, share))}%` }} /></span><span>{text}</span></>
);

/** The channels that found something, with the rank and score of each passage there. */
function ranksOf(chunks: Chunk[]): Map<string, Map<string, { rank: number; text: string }>> {
  const channels = new Map<string, Map<string, { rank: number; text: string }>>();
  const at = (name: string) => channels.get(name) ?? channels.set(name, new Map()).get(name)!;
  if (chunks.some((chunk) => Object.keys(chunk.scores).length)) {
    const names = new Set(chunks.flatMap((chunk) => Object.keys(chunk.scores)));
    for (const name of names) {
      const ranked = chunks.filter((chunk) => chunk.scores[name]).sort((one, other) => other.scores[name]! - one.scores[name]!);
      ranked.forEach((chunk, place) => at(`channel_${name}`).set(chunk.chunk_id, { rank: place + 1, text: chunk.scores[name]!.toFixed(3) }));
    }
    return channels;
  }
  for (const chunk of chunks) {
    for (const mark of chunk.marks) {
      const [, letter, listed, rank] = /^([CER])(\d+)\/(\d+)$/.exec(mark) ?? [];
      const word = letter && CHANNELS[letter];
      if (word) at(word).set(chunk.chunk_id, { rank: Number(rank), text: letter === "C" ? "" : `×${listed}` });
    }
  }
  return channels;
}

function Passages({ found }: { found: Explanation }) {
  const channels = ranksOf(found.chunks);
  const [channel, setChannel] = useState("");
  const known = new Map(found.chunks.map((chunk) => [chunk.chunk_id, chunk]));
  const ranks = channels.get(channel);
  const shown = ranks ? found.chunks.filter((chunk) => ranks.has(chunk.chunk_id)).sort((one, other) => ranks.get(one.chunk_id)!.rank - ranks.get(other.chunk_id)!.rank) : found.chunks;
  const isReranked = found.chunks.some((chunk) => chunk.rerank_score !== null);
  return (
    <>
      <div class="row" role="group" aria-label={t("i_channels")}>
        <Button class="small" label={`${t("all")} ${found.chunks.length}`} pressed={!ranks} onClick={() => setChannel("")} />
        {[...channels].map(([name, hits]) => (
          <Button key={name} class="small" label={`${named("", name)} ${hits.size}`} pressed={channel === name} onClick={() => setChannel(name)} />
        ))}
      </div>
      <div class="scroll">
        <table class="hits">
          <thead><tr><th class="num">{t("i_rank")}</th><th>{t("i_passages")}</th>{isReranked && <th class="num">{t("stage_rerank")}</th>}<th>{t("i_outcome")}</th></tr></thead>
          <tbody>
            {shown.map((chunk) => (
              <tr key={chunk.chunk_id} class={chunk.outcome === "kept" ? "" : "dropped"}>
                <td class="num">{ranks ? ranks.get(chunk.chunk_id)!.rank : chunk.place || "–"}</td>
                <td>
                  <a href={linkTo("documents", chunk.document_id, String(chunk.start))}>{chunk.source}</a>
                  {chunk.headings.length > 0 && <span class="quiet"> › {chunk.headings.at(-1)}</span>}
                  <p>{chunk.opening.replace(/[#*`|>_]+/g, " ").trim().slice(0, 110)}…</p>
                  <p class="ranks">{[...channels].filter(([, hits]) => hits.has(chunk.chunk_id)).map(([name, hits]) => (
                    <span key={name} class="chip">{named("", name)} #{hits.get(chunk.chunk_id)!.rank} {hits.get(chunk.chunk_id)!.text}</span>
                  ))}</p>
                  {chunk.path.length > 0 && <Bridge chunk={chunk} known={known} />}
                </td>
                {isReranked && <td class="num">{chunk.rerank_score?.toFixed(3) ?? ""}</td>}
                <td><span class={chunk.outcome === "kept" ? "chip good" : "chip"}>{t(`o_${chunk.outcome}`)}</span></td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** The way over which a passage was reached, drawn small. */
function Bridge({ chunk, known }: { chunk: Chunk; known: Map<string, Chunk> }) {
  const name = (id: string) => known.get(id)?.headings.at(-1) ?? known.get(id)?.source ?? id.slice(0, 14);
  return (
    <div class="bridge" role="img" aria-label={`${t("i_bridges")}: ${[...chunk.path, chunk.chunk_id].map(name).join(" → ")}`}>
      {chunk.path.map((id) => <><span key={id}>{name(id)}</span><Icon name="chevron" /></>)}
      <span>{name(chunk.chunk_id)}</span>
    </div>
  );
}

function Items({ found }: { found: Explanation }) {
  const list = (title: string, items: Schemas["ExplainedItem"][]) => (
    <section>
      <h3 class="section-title">{title}</h3>
      {items.length === 0 && <p class="quiet">{t("none")}</p>}
      <table class="hits"><tbody>
        {items.map((item, place) => (
          <tr key={place} class={item.is_kept ? "" : "dropped"}>
            <td class="num">{place + 1}</td><td>{item.name}</td>
            <td><span class={item.is_kept ? "chip good" : "chip"}>{item.is_kept ? t("o_kept") : t("o_budget")}</span></td>
          </tr>
        ))}
      </tbody></table>
    </section>
  );
  return <>{list(t("i_entities"), found.entities)}{list(t("i_relations"), found.relations)}</>;
}

function Tokens({ found }: { found: Explanation }) {
  const total = found.tokens.total || 1;
  const spent = PARTS.reduce((sum, part) => sum + (found.tokens[part] ?? 0), 0);
  return (
    <div class="meter">
      {PARTS.map((part) => <Meter key={part} name={t(`tk_${part}`)} share={(found.tokens[part] ?? 0) / total} text={number(found.tokens[part] ?? 0)} />)}
      <Meter name={t("tk_free")} share={Math.max(0, total - spent) / total} text={number(Math.max(0, total - spent))} />
      <Meter name={t("i_total")} share={1} text={number(total)} />
    </div>
  );
}

function Prompt({ text }: { text: string }) {
  if (!text) return <p class="quiet">{t("noPrompt")}</p>;
  return (
    <>
      <div><Button class="small" icon="copy" label={t("copy")} onClick={() => copy(text)} /></div>
      <pre class="prompt" tabIndex={0} style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>{text}</pre>
    </>
  );
}
