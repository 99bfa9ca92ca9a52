// What is known of one entity or one relation, who said it, and the ways to correct it.
import { useEffect, useState } from "preact/hooks";
import { call, get, post } from "./api";
import type { Schemas } from "./api-types";
import { renderDocument } from "./markdown";
import { attempt, canWrite, linkTo } from "./state";
import { Busy, Button, Dialog, Field, Panel, Tabs } from "./ui";
import { authorName, named, number, t, typeName, when } from "./words";

type Done = { curation_ids: string[] };
type OnChanged = (done: Done, name?: string) => void;
type Form = "" | "edit" | "rename" | "merge" | "split" | "hide";
type Tab = "about" | "sources" | "history";

const SOURCES = 20;

interface EntityProps {
  name: string; onClose: () => void; onChoose: (name: string) => void; onRelation: (source: string, target: string) => void;
  onExpand: (name: string) => void; onCollapse: (name: string) => void; onAround: (name: string) => void; onPath: (name: string) => void; onChanged: OnChanged;
}

export function EntityPanel({ name, onClose, onChoose, onRelation, onExpand, onCollapse, onAround, onPath, onChanged }: EntityProps) {
  const [detail, setDetail] = useState<Schemas["EntityDetail"] | null>(null);
  const [around, setAround] = useState<Schemas["NeighbourResponse"] | null>(null);
  const [error, setError] = useState("");
  const [tab, setTab] = useState<Tab>("about");
  const [form, setForm] = useState<Form>("");
  useEffect(() => {
    setDetail(null);
    get<Schemas["EntityDetail"]>("graph/entity", { name, limit: SOURCES }).then(setDetail, (failure: Error) => setError(failure.message));
    get<Schemas["NeighbourResponse"]>("graph/neighbours", { name, depth: 1, limit: 200 }).then(setAround, () => null);
  }, [name]);
  const entity = detail?.entity;
  return (
    <Panel title={entity?.name ?? name} onClose={onClose}>
      {error && <p class="note">{error}</p>}
      {!entity ? !error && <Busy /> : (
        <>
          <div class="row"><span class="chip soft">{typeName(entity.type)}</span><span class="quiet">{number(entity.degree)} {t("degree")} · {number(entity.chunk_count)} {t("chunksOf")}</span></div>
          <div class="row">
            <Button class="small" icon="plus" label={t("expand")} onClick={() => onExpand(entity.name)} />
            <Button class="small" icon="minus" label={t("collapse")} onClick={() => onCollapse(entity.name)} />
            <Button class="small" icon="fit" label={t("neighbourhood")} onClick={() => onAround(entity.name)} />
            <Button class="small" icon="path" label={t("pathFrom")} onClick={() => onPath(entity.name)} />
          </div>
          {canWrite.value && (
            <div class="row">
              <Button class="small" icon="edit" label={t("edit")} onClick={() => setForm("edit")} />
              <Button class="small" label={t("rename")} onClick={() => setForm("rename")} />
              <Button class="small" icon="merge" label={t("merge")} onClick={() => setForm("merge")} />
              <Button class="small" icon="split" label={t("split")} onClick={() => setForm("split")} />
              <Button class="small" danger icon="hide" label={t("hide")} onClick={() => setForm("hide")} />
            </div>
          )}
          <Tabs value={tab} onChange={setTab} label={entity.name} options={[["about", t("description")], ["sources", `${t("mentionedIn")} ${number(detail.source_count)}`], ["history", t("history")]]} />
          {tab === "about" && (
            <>
              {entity.aliases.length > 0 && <p><span class="quiet">{t("aliases")}:</span> {entity.aliases.join(", ")}</p>}
              <ul class="plain descriptions">{entity.descriptions.map((text) => <li key={text}>{text}</li>)}</ul>
              <section>
                <h3 class="section-title">{t("relations")}</h3>
                {!around ? <Busy /> : (
                  <ul class="plain relations">
                    {around.relations.filter((one) => one.source === entity.name || one.target === entity.name).slice(0, 100).map((one) => {
                      const other = one.source === entity.name ? one.target : one.source;
                      return (
                        <li key={one.id}>
                          <button type="button" class="link" onClick={() => onChoose(other)}>{other}</button>{" "}
                          <button type="button" class="link quiet" title={`${t("whyRelated")}: ${other}`} onClick={() => onRelation(one.source, one.target)}>{one.keywords.join(", ") || t("whyRelated")}</button>
                        </li>
                      );
                    })}
                  </ul>
                )}
              </section>
            </>
          )}
          {tab === "sources" && <Sources sources={detail.sources} count={detail.source_count} />}
          {tab === "history" && <History name={entity.name} />}
          {form && <EntityForm form={form} entity={entity} sources={detail.sources} onClose={() => setForm("")} onChanged={onChanged} />}
        </>
      )}
    </Panel>
  );
}

function EntityForm({ form, entity, sources, onClose, onChanged }: {
  form: Exclude<Form, "">; entity: Schemas["EntityDetail"]["entity"]; sources: Schemas["SourceChunk"][]; onClose: () => void; onChanged: OnChanged;
}) {
  const { name } = entity;
  const documents = [...new Map(sources.map((source) => [source.document_id, source.file_path]))];
  const run = (data: FormData) => attempt(async () => {
    const text = (field: string) => String(data.get(field) ?? "").trim();
    if (form === "edit") {
      const updated_data = { description: text("description"), entity_type: text("type") };
      onChanged(await post<Done>("graph/entity/edit", { entity_name: name, updated_data }), name);
    } else if (form === "rename") {
      onChanged(await post<Done>("graph/entity/edit", { entity_name: name, updated_data: { entity_name: text("name") }, allow_rename: true }), text("name"));
    } else if (form === "merge") {
      onChanged(await post<Done>("graph/entities/merge", { entities_to_change: [name], entity_to_change_into: text("name") }), text("name"));
    } else if (form === "split") {
      const done = await post<Schemas["CurationItem"]>("graph/entity/split", { entity_name: name, new_name: text("name"), document_ids: data.getAll("documents") });
      onChanged({ curation_ids: [done.id] }, text("name"));
    } else onChanged(await call<Done>("DELETE", "graph/entity/delete", { body: { entity_name: name } }));
    onClose();
  });
  const title = `${t(form)}: ${name}`;
  return (
    <Dialog title={title} onClose={onClose} onSubmit={run} submit={form === "edit" ? t("save") : t(form)} danger={form === "hide"}>
      {form === "edit" && (
        <>
          <Field label={t("type")}><input name="type" defaultValue={entity.type} maxLength={200} /></Field>
          <Field label={t("description")}><textarea name="description" rows={6} required autofocus>{entity.descriptions.join("\n")}</textarea></Field>
        </>
      )}
      {form === "rename" && <Field label={t("newName")}><input name="name" defaultValue={name} required autofocus maxLength={2048} /></Field>}
      {form === "merge" && <Field label={t("mergeInto")}><input name="name" required autofocus maxLength={2048} list="names" autocomplete="off" onInput={(event) => void propose(event.currentTarget)} /></Field>}
      {form === "split" && (
        <>
          <Field label={t("splitName")}><input name="name" required autofocus maxLength={2048} /></Field>
          <fieldset class="stack"><legend>{t("splitWhich")}</legend>
            {documents.map(([id, source]) => <label key={id} class="field inline"><input type="checkbox" name="documents" value={id} /><span>{source}</span></label>)}
          </fieldset>
        </>
      )}
      <datalist id="names" />
    </Dialog>
  );
}

async function propose(input: HTMLInputElement) {
  const found = await get<string[]>("graph/label/search", { q: input.value, limit: 12 }).catch(() => []);
  input.list?.replaceChildren(...found.map((name) => new Option(name, name)));
}

const Sources = ({ sources, count }: { sources: Schemas["SourceChunk"][]; count: number }) => (
  <ul class="plain sources">
    {sources.map((source) => (
      <li key={source.chunk_id} class="statement">
        <a href={linkTo("documents", source.document_id, String(source.start))}>{source.file_path}</a>
        <span class="place">{source.page !== null && <b>{t("page")} {source.page}</b>}{source.headings.join(" › ")}</span>
        <div class="source prose" dangerouslySetInnerHTML={{ __html: renderDocument(source.text.slice(0, 900)) }} />
      </li>
    ))}
    {count > sources.length && <li class="quiet">{t("truncated")}</li>}
  </ul>
);

/** Who said what of an entity or a relation: the sentences of documents, and what people did. */
function History({ name, other }: { name: string; other?: string }) {
  const [found, setFound] = useState<Schemas["HistoryResponse"] | null>(null);
  useEffect(() => { void attempt(async () => setFound(await get<Schemas["HistoryResponse"]>("graph/history", { name, other: other ?? null, limit: 100 }))); }, [name, other]);
  if (!found) return <Busy />;
  return (
    <>
      {found.curations.length > 0 && (
        <ul class="plain">
          {found.curations.map((item) => <li key={item.id}><b>{named("c_", item.kind)}</b> {item.names.join(" → ")} <span class="quiet">{when(item.created_at)} {t("by")} {authorName(item.author)} {item.undone_at && t("taken")}</span></li>)}
        </ul>
      )}
      <ul class="plain statements">
        {found.statements.map((item, place) => (
          <li key={place} class="statement">
            <p>{item.description || item.names.join(" – ")}</p>
            <span class="quiet">{item.keywords.join(", ")}</span>
            <a class="quiet" href={linkTo("documents", item.document_id)}>{item.file_path}</a>
          </li>
        ))}
      </ul>
    </>
  );
}

export function RelationPanel({ source, target, onClose, onChoose, onChanged }: { source: string; target: string; onClose: () => void; onChoose: (name: string) => void; onChanged: OnChanged }) {
  const [detail, setDetail] = useState<Schemas["RelationDetail"] | null>(null);
  const [error, setError] = useState("");
  const [form, setForm] = useState<"" | "edit" | "hide">("");
  useEffect(() => {
    get<Schemas["RelationDetail"]>("graph/relation", { source, target, limit: SOURCES }).then(setDetail, (failure: Error) => setError(failure.message));
  }, [source, target]);
  const relation = detail?.relation;
  const run = (data: FormData) => attempt(async () => {
    if (form === "hide") onChanged(await call<Done>("DELETE", "graph/relation/delete", { body: { source_entity: source, target_entity: target } }));
    else {
      const updated_data = { description: data.get("description"), keywords: data.get("keywords"), weight: Number(data.get("weight")) };
      onChanged(await post<Done>("graph/relation/edit", { source_id: source, target_id: target, updated_data }), source);
    }
    setForm("");
  });
  return (
    <Panel title={`${source} – ${target}`} onClose={onClose}>
      {error && <p class="note">{error}</p>}
      {!relation ? !error && <Busy /> : (
        <>
          <div class="row">
            <button type="button" class="link" onClick={() => onChoose(relation.source)}>{relation.source}</button> – <button type="button" class="link" onClick={() => onChoose(relation.target)}>{relation.target}</button>
          </div>
          <div class="row">{relation.keywords.map((word) => <span key={word} class="chip soft">{word}</span>)}<span class="quiet">{t("weight")} {number(relation.weight)}</span></div>
          {canWrite.value && <div class="row"><Button class="small" icon="edit" label={t("edit")} onClick={() => setForm("edit")} /><Button class="small" danger icon="hide" label={t("hide")} onClick={() => setForm("hide")} /></div>}
          <section><h3 class="section-title">{t("whyRelated")}</h3><History name={source} other={target} /></section>
          <section><h3 class="section-title">{t("mentionedIn")}</h3><Sources sources={detail.sources} count={detail.source_count} /></section>
          {form && (
            <Dialog title={`${t(form)}: ${source} – ${target}`} onClose={() => setForm("")} onSubmit={run} submit={form === "hide" ? t("hide") : t("save")} danger={form === "hide"}>
              {form === "edit" && (
                <>
                  <Field label={t("description")}><textarea name="description" rows={5} required autofocus>{relation.descriptions.join("\n")}</textarea></Field>
                  <Field label={t("keywords")}><input name="keywords" defaultValue={relation.keywords.join(", ")} /></Field>
                  <Field label={t("weight")}><input name="weight" type="number" step="any" min={0} defaultValue={relation.weight} /></Field>
                </>
              )}
            </Dialog>
          )}
        </>
      )}
    </Panel>
  );
}
