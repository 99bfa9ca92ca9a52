// Documents: bring them in, see what becomes of them, take them out.
import { call, get, post } from "./api.js";
import { attempt, button, el, field, notify, open } from "./dom.js";
import { language, t } from "./words.js";

const PAGE = 20, WAIT = 2000;
const UNFINISHED = new Set(["pending", "parsing", "analyzing", "processing", "preprocessed"]);

export function makeDocuments(section) {
  let page = 1, timer = 0;
  const chooser = el("input", { type: "file", multiple: true, id: "files", onchange: () => attempt(() => upload(chooser.files)) });
  const zone = el("div", { class: "drop" }, el("p", null, t("drop")), field(t("choose"), chooser));
  const status = el("select", { onchange: () => { page = 1; attempt(load); } },
    ["", "processed", "pending", "processing", "failed"].map((name) => el("option", { value: name }, name || t("all"))));
  const list = el("div", { class: "scroll", id: "list" });
  for (const name of ["dragenter", "dragover"]) zone.addEventListener(name, (event) => {
    event.preventDefault();
    zone.classList.add("over");
  });
  for (const name of ["dragleave", "drop"]) zone.addEventListener(name, () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    attempt(() => upload(event.dataTransfer.files));
  });
  section.append(zone, pasting(), fetching(), el("div", { class: "row" },
    field(t("status"), status),
    button(t("refresh"), () => attempt(load)),
    button(t("retry"), () => attempt(async () => {
      const reply = await post("documents/reprocess_failed");
      notify(reply.message);
      await load();
    }))), list);

  function pasting() {
    const name = el("input", { id: "text-name", maxlength: 1000, spellcheck: "false", autocomplete: "off" });
    const text = el("textarea", { id: "text", rows: 8, required: true });
    return intake(t("paste"), [name, text], () => {
      const body = { text: text.value };
      if (name.value.trim()) body.file_source = name.value.trim();
      return post("documents/text", body);
    }, field(t("textName"), name), el("p", { class: "quiet" }, t("replaces")), field(t("text"), text));
  }

  function fetching() {
    const address = el("input", { id: "url", type: "url", required: true, maxlength: 4096 });
    return intake(t("fetch"), [address], () => post("documents/url", { url: address.value.trim() }), field(t("address"), address));
  }

  // A form that sends something in, is emptied when that was accepted, and keeps what was refused.
  function intake(title, controls, send, ...content) {
    const submit = el("button", { class: "main" }, t("add"));
    const add = async () => {
      submit.disabled = true;
      try {
        const reply = await send();
        for (const control of controls) control.value = "";
        page = 1;
        await load();
        notify(reply.message);
      } finally {
        submit.disabled = false;
      }
    };
    const form = el("form", { class: "intake", onsubmit: (event) => { event.preventDefault(); attempt(add); } },
      ...content, el("div", { class: "row" }, submit));
    return el("details", { class: "panel" }, el("summary", null, title), form);
  }

  async function upload(files) {
    const failed = [];
    let count = 0;
    for (const file of files) {
      notify(`${t("uploading")} ${file.name}`);
      const form = new FormData();
      form.append("file", file, file.name);
      try {
        await call("POST", "documents/upload", { form });
        count += 1;
      } catch (error) {
        failed.push(`${file.name}: ${error.message}`);
      }
    }
    chooser.value = "";
    notify(failed.length ? failed.join("; ") : `${t("uploaded")}: ${count}`, failed.length > 0);
    page = 1;
    await load();
  }

  async function load() {
    clearTimeout(timer);
    const body = { page, page_size: PAGE, sort_field: "updated_at", sort_direction: "desc" };
    if (status.value) body.status_filter = status.value;
    // Asked for first: what ends in between is then in the list.
    const { busy } = await get("documents/pipeline_status");
    const found = await post("documents/paginated", body);
    list.replaceChildren(...table(found));
    // As long as something is under way and somebody looks.
    clearTimeout(timer);
    const moving = busy || found.documents.some((item) => UNFINISHED.has(item.status));
    if (moving && !section.hidden) timer = setTimeout(() => attempt(load), WAIT);
  }

  function table(found) {
    if (!found.documents.length) return [el("p", { class: "quiet" }, t("noDocuments"))];
    const { total_pages: pages } = found.pagination;
    const turn = (step) => () => { page += step; attempt(load); };
    return [
      el("table", null,
        el("thead", null, el("tr", null, [t("name"), t("status"), t("chunks"), t("changed"), ""].map((name) =>
          el("th", { scope: "col" }, name)))),
        el("tbody", null, found.documents.map(row))),
      pages > 1 && el("div", { class: "row" },
        button(t("previous"), turn(-1), { disabled: page <= 1 }), `${page} / ${pages}`,
        button(t("next"), turn(1), { disabled: page >= pages })),
    ].filter(Boolean);
  }

  function row(item) {
    const error = item.error_msg && el("div", { class: "bad" }, item.error_msg);
    return el("tr", null,
      el("td", { class: "name" }, button(item.file_path, () => attempt(() => read(item)), { class: "plain" }), el("div", { class: "quiet" }, item.content_summary ?? "")),
      el("td", null, item.status, error),
      el("td", null, String(item.chunks_count ?? "")),
      el("td", null, new Date(item.updated_at).toLocaleString(language)),
      el("td", { class: "act" }, button(t("delete"), () => attempt(() => remove(item)),
        { "aria-label": `${t("delete")} ${item.file_path}` })));
  }

  async function read(item) {
    const found = await get(`documents/${encodeURIComponent(item.id)}`);
    const about = Object.entries(found.metadata).map(([name, value]) =>
      `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`);
    await open(found.title || found.source, [el("p", { class: "quiet" }, about.join(" · ")),
      ...found.chunks.map((chunk) => el("p", { class: "source", tabindex: 0 }, chunk.text)),
      found.chunks.length < found.chunk_count && el("p", { class: "quiet" }, t("truncated"))].filter(Boolean));
  }

  async function remove(item) {
    if (!await open(t("sure"), [el("p", null, item.file_path)], { send: t("delete") })) return;
    const reply = await call("DELETE", "documents/delete_document", { body: { doc_ids: [item.id], delete_file: true } });
    notify(reply.message);
    await load();
  }

  return () => attempt(load);
}
