// Questions: the answer as it is written, and what each of its numbers stands for.
import { stream } from "./api.js";
import { attempt, button, el, field, marked, notify, open } from "./dom.js";
import { render } from "./markdown.js";
import { t } from "./words.js";

const MODES = ["auto", "fusion", "mix", "hybrid", "local", "global", "naive", "bypass"];
// Turns of the conversation that a question is read with, and how much of each.
const MOST_TURNS = 3, MOST_CHARACTERS = 8000;

export function makeAsk(section) {
  const question = el("textarea", { rows: 3, required: true, maxlength: 65536, id: "question" });
  const mode = el("select", { id: "mode" }, MODES.map((name) => el("option", { value: name }, name)));
  const filter = el("textarea", { rows: 2, spellcheck: "false", id: "filter" });
  const submit = el("button", { class: "main" }, t("ask"));
  const stop = button(t("stop"), () => running?.abort(), { hidden: true });
  const result = el("div", { id: "result" });
  const anew = button(t("newTalk"), () => { [turns, anew.hidden] = [[], true]; result.replaceChildren(); }, { hidden: true });
  let running = null, turns = [];

  question.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  const form = el("form", { onsubmit: (event) => { event.preventDefault(); attempt(ask); } },
    field(t("question"), question),
    el("details", null, el("summary", null, t("more")),
      el("label", null, el("span", { class: "quiet" }, t("filterHelp"), " ", el("code", null, '{"team": "red"}')), filter)),
    el("div", { class: "row" }, field(t("mode"), mode), submit, stop, anew));
  section.append(form, result);

  async function ask() {
    const body = { query: question.value, mode: mode.value, include_chunk_content: true };
    if (filter.value.trim()) body.filter = parse(filter.value);
    if (turns.length) body.conversation_history = turns.slice(-MOST_TURNS).flat();
    running = new AbortController();
    submit.disabled = true;
    stop.hidden = false;
    const text = el("div", { class: "answer", "aria-live": "polite", "aria-busy": "true" });
    const beside = el("div");
    result.prepend(el("article", { class: "panel", "aria-label": t("answer") }, el("h2", null, body.query), text, beside));
    const answer = { text: "", references: [], details: null, frame: null };
    notify(t("thinking"));
    try {
      await stream("query/stream", body, (line) => take(line, answer, text), running.signal);
      notify(answer.details ? t("done") : t("cut"), !answer.details);
    } catch (error) {
      if (error.name !== "AbortError") throw error;
      notify(t("stopped"));
    } finally {
      running = null;
      submit.disabled = false;
      stop.hidden = true;
      text.removeAttribute("aria-busy");
      finish(answer, text, beside);
      anew.hidden = false;
      if (answer.details?.kind === "generated") turns.push([["user", body.query], ["assistant", answer.text]]
        .map(([role, content]) => ({ role, content: content.slice(0, MOST_CHARACTERS) })));
    }
  }

  function take(line, answer, text) {
    if (line.error) throw new Error(line.error);
    if (line.references) answer.references = line.references;
    if (line.details) answer.details = line.details;
    if (!line.response) return;
    answer.text += line.response;
    // At most once a frame, since it is all rendered anew.
    answer.frame ??= requestAnimationFrame(() => {
      answer.frame = null;
      text.replaceChildren(...withMarks(answer));
    });
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(t("badFilter"));
  }
}

function finish(answer, text, beside) {
  cancelAnimationFrame(answer.frame);
  text.replaceChildren(...withMarks(answer));
  for (const warning of answer.details?.warnings ?? []) beside.append(el("p", { class: "bad" }, warning));
  if (!answer.references.length) return;
  beside.append(el("h3", null, t("references")), el("ol", null, answer.references.map((reference) =>
    el("li", { value: reference.reference_id }, button(reference.file_path, () => show(answer, reference.reference_id, -1),
      { class: "plain" })))));
}

// The answer with a button in place of every [1] that stands for a reference; its own list of them is left out, as they
// are listed below it.
function withMarks(answer) {
  const end = answer.references.length ? answer.text.lastIndexOf("\n### References") : -1;
  const text = end < 0 ? answer.text : answer.text.slice(0, end).trimEnd();
  const known = new Set(answer.references.map((reference) => String(reference.reference_id)));
  return render(text, (id, at) => known.has(id) ? button(id, () => show(answer, id, at),
    { class: "cite", "aria-label": `${t("source")} ${id}` }) : null);
}

// Opens what a mark at a place in the answer stands for: the quotes it rests on, each in its chunk.
function show(answer, id, place) {
  const reference = answer.references.find((item) => String(item.reference_id) === id);
  const cited = (answer.details?.citations ?? []).filter((item) => String(item.reference_id) === id);
  const near = cited.filter((item) => place >= item.answer_start && place <= item.answer_end + 12);
  const chunks = reference.content ?? [];
  const shown = (near.length ? near : cited).map((item) => passage(item, chunks));
  const content = shown.length ? shown : chunks.map((chunk) => el("p", { class: "source" }, chunk));
  return open(`[${id}] ${reference.file_path}`, content);
}

function passage(citation, chunks) {
  const place = [...(citation.headings ?? []), citation.page && `${t("page")} ${citation.page}`,
    `${citation.start}–${citation.end}`].filter(Boolean).join(" › ");
  const chunk = chunks.find((text) => text.includes(citation.quote)) ?? citation.quote;
  const text = el("p", { class: "source", tabindex: 0 }, marked(chunk, citation.quote));
  requestAnimationFrame(() => text.querySelector("mark")?.scrollIntoView({ block: "nearest" }));
  return el("div", null, el("p", { class: "quiet" }, place), text);
}
