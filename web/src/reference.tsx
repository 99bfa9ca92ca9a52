// The interface of the service, made of its OpenAPI document: routes by tag, what they take and give, and trying them.
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, get, isAbort } from "./api";
import { attempt, route } from "./state";
import { Busy, Button, Dialog } from "./ui";
import { t } from "./words";

interface Schema {
  $ref?: string; type?: string; format?: string; enum?: unknown[]; const?: unknown; default?: unknown; description?: string; anyOf?: Schema[]; oneOf?: Schema[]; allOf?: Schema[];
  items?: Schema; properties?: Record<string, Schema>; additionalProperties?: Schema | boolean; required?: string[]; examples?: unknown[]; example?: unknown;
  minimum?: number; maximum?: number; minLength?: number; maxLength?: number;
}
interface Media { schema?: Schema; example?: unknown; examples?: Record<string, { value: unknown }> }
interface Parameter { name: string; in: string; required?: boolean; description?: string; schema?: Schema }
interface Operation {
  operationId: string; summary?: string; description?: string; tags?: string[]; security?: unknown[]; parameters?: Parameter[];
  requestBody?: { content: Record<string, Media> }; responses: Record<string, { description: string; content?: Record<string, Media> }>;
}
interface Api { openapi: string; info: { title: string; version: string }; paths: Record<string, Record<string, Operation>>; components: { schemas: Record<string, Schema> } }
interface Row { method: string; path: string; operation: Operation }

const METHODS = ["get", "post", "put", "patch", "delete"];
const MOST_SHOWN = 200_000;
const JSON_TYPE = "application/json";
let api: Api;

const pretty = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
const keyOf = (schema: Schema) => schema.$ref?.split("/").pop() ?? "";
// Of two shapes of one name, the document's names begin with where they come from.
const nameOf = (schema: Schema) => keyOf(schema).split("__").pop() ?? "";
const resolved = (schema: Schema | undefined): Schema => (schema?.$ref ? resolved(api.components.schemas[keyOf(schema)] ?? {}) : (schema ?? {}));

/** What a schema is besides null. */
function core(schema: Schema): Schema {
  const choices = (resolved(schema).anyOf ?? []).filter((one) => one.type !== "null");
  return choices.length === 1 ? core(choices[0]!) : resolved(schema);
}

function typeOf(schema: Schema): string {
  if (schema.$ref) return nameOf(schema);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if ("const" in schema) return JSON.stringify(schema.const);
  const choices = schema.anyOf ?? schema.oneOf ?? schema.allOf;
  if (choices) return choices.map(typeOf).join(" | ");
  if (schema.type === "array") return `${typeOf(schema.items ?? {})}[]`;
  const least = schema.minimum ?? schema.minLength;
  const most = schema.maximum ?? schema.maxLength;
  const kind = schema.format ? `${schema.type} (${schema.format})` : (schema.type ?? "any");
  return least === undefined && most === undefined ? kind : `${kind} ${least ?? ""}…${most ?? ""}`;
}

/** The objects in a schema whose fields are worth showing: itself, what a list of it holds, each of its choices. */
function objectsIn(schema: Schema): Schema[] {
  const shape = resolved(schema);
  if (shape.properties) return [schema];
  if (shape.items) return objectsIn(shape.items);
  const more = typeof shape.additionalProperties === "object" ? [shape.additionalProperties] : [];
  return [...(shape.anyOf ?? shape.oneOf ?? shape.allOf ?? []), ...more].flatMap(objectsIn);
}

function exampleOf(media: Media): unknown {
  if (media.example !== undefined) return media.example;
  return Object.values(media.examples ?? {})[0]?.value ?? resolved(media.schema).examples?.[0] ?? resolved(media.schema).example;
}

/** Text with `words` between backticks as code. */
const Spans = ({ text }: { text: string | undefined }) => <>{(text ?? "").split("`").map((piece, place) => (place % 2 ? <code key={place}>{piece}</code> : piece))}</>;
const Prose = ({ text }: { text: string | undefined }) => <>{(text ?? "").trim().split(/\n\s*\n/).filter(Boolean).map((part, place) => <p key={place}><Spans text={part} /></p>)}</>;

/** Fills the first time it is opened, so that a shape that holds itself ends somewhere, and a long list shows at once. */
function Folded({ summary, children, ...rest }: { summary: ComponentChildren; children: () => ComponentChildren; class?: string; id?: string; isOpen?: boolean; hidden?: boolean; onOpen?: () => void }) {
  const [isOpen, setOpen] = useState(rest.isOpen ?? false);
  useEffect(() => { if (rest.isOpen) setOpen(true); }, [rest.isOpen]);
  return (
    <details class={rest.class} id={rest.id} open={isOpen} hidden={rest.hidden ?? false} onToggle={(event) => { setOpen(event.currentTarget.open); if (event.currentTarget.open) rest.onOpen?.(); }}>
      <summary>{summary}</summary>{isOpen && children()}
    </details>
  );
}

function Fields({ schema }: { schema: Schema }) {
  const shape = resolved(schema);
  const needed = new Set(shape.required ?? []);
  return (
    <div class="scroll"><Prose text={shape.description} />
      <table class="fields"><tbody>{Object.entries(shape.properties ?? {}).map(([name, inner]) => <FieldRow key={name} name={name} schema={inner} text={inner.description} isNeeded={needed.has(name)} />)}</tbody></table>
    </div>
  );
}

const Shapes = ({ schema }: { schema: Schema }) => <>{objectsIn(schema).map((inner, place) => <Folded key={place} summary={`${t("fields")} ${nameOf(inner)}`}>{() => <Fields schema={inner} />}</Folded>)}</>;

function FieldRow({ name, schema, text, isNeeded, where = "" }: { name: string; schema: Schema; text: string | undefined; isNeeded: boolean; where?: string }) {
  const standard = schema.default !== undefined && schema.default !== null ? `${t("standard")} ${JSON.stringify(schema.default)}` : "";
  const notes = [where, isNeeded && t("needed"), standard].filter(Boolean).join(", ");
  return (
    <tr><td><code>{name}</code></td><td><code>{typeOf(schema)}</code>{notes && <div class="quiet">{notes}</div>}</td><td><Prose text={text} /><Shapes schema={schema} /></td></tr>
  );
}

const Content = ({ media }: { media: Record<string, Media> | undefined }) => (
  <>
    {Object.entries(media ?? {}).map(([type, one]) => {
      const example = exampleOf(one);
      return (
        <div key={type}><code>{type}</code> <code>{one.schema ? typeOf(one.schema) : ""}</code><Shapes schema={one.schema ?? {}} />
          {example !== undefined && <Folded summary={t("example")}>{() => <pre tabIndex={0}>{pretty(example)}</pre>}</Folded>}</div>
      );
    })}
  </>
);

function Description({ row }: { row: Row }) {
  const { operation } = row;
  const body = operation.requestBody?.content;
  return (
    <>
      <Prose text={operation.description} />
      {operation.security?.length === 0 && <p class="quiet">{t("noCredentials")}</p>}
      {(operation.parameters ?? []).length > 0 && (
        <><h3>{t("parameters")}</h3><div class="scroll"><table class="fields"><tbody>
          {operation.parameters!.map((one) => <FieldRow key={one.name} name={one.name} schema={one.schema ?? {}} text={one.description} isNeeded={one.required ?? false} where={one.in} />)}
        </tbody></table></div></>
      )}
      {body && <><h3>{t("body")}</h3><Content media={body} /></>}
      <h3>{t("responses")}</h3>
      {Object.entries(operation.responses).map(([status, response]) => <Folded key={status} summary={<span>{status} <Spans text={response.description} /></span>}>{() => <Content media={response.content} />}</Folded>)}
      <h3>{t("tryIt")}</h3>
      <Trial row={row} />
    </>
  );
}

function Control({ name, schema, isNeeded }: { name: string; schema: Schema; isNeeded: boolean }) {
  const kind = core(schema);
  const choices = kind.type === "boolean" ? ["true", "false"] : kind.enum?.map(String);
  const known = { name, required: isNeeded, autocomplete: "off" as const };
  const control = () => {
    if (kind.format === "binary") return <input {...known} type="file" />;
    if (choices) return <select {...known}>{["", ...choices].map((one) => <option key={one} value={one}>{one}</option>)}</select>;
    if (kind.type === "array") return <textarea {...known} rows={2} placeholder={t("onePerLine")} />;
    if (name === "password") return <input {...known} type="password" />;
    return <input {...known} type="text" placeholder={String(kind.default ?? "")} />;
  };
  return <label><span><code>{name}</code></span>{control()}</label>;
}

interface Shown { head: string; isOk: boolean; notes: string; text: string; isCut: boolean }

/** A form for one operation, and below it what the service answered. */
function Trial({ row: { method, path, operation } }: { row: Row }) {
  const [shown, setShown] = useState<Shown | null>(null);
  const [running, setRunning] = useState<AbortController | null>(null);
  const [asks, setAsks] = useState<(() => void) | null>(null);
  const given = operation.parameters ?? [];
  const [type, media] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
  const isJson = type === JSON_TYPE;
  const shape = resolved(media?.schema);
  const parts = media && !isJson ? Object.entries(shape.properties ?? {}) : [];

  const request = (data: FormData) => {
    const query: Record<string, string | string[]> = {};
    let target = path.slice(1);
    for (const { name, in: where, schema } of given) {
      const value = String(data.get(name) ?? "");
      if (where === "path") target = target.replace(`{${name}}`, encodeURIComponent(value));
      else if (where === "query" && value.trim()) query[name] = core(schema ?? {}).type === "array" ? value.split("\n").filter((line) => line.trim()) : value;
    }
    if (isJson) return { target, query, body: String(data.get("body") ?? "").trim() ? parse(String(data.get("body"))) : undefined };
    if (!media) return { target, query };
    const form = type === "multipart/form-data" ? new FormData() : new URLSearchParams();
    for (const [name] of parts) {
      for (const value of data.getAll(name)) {
        if (value instanceof File) { if (value.name && form instanceof FormData) form.append(name, value, value.name); } else if (value) form.append(name, value);
      }
    }
    return { target, query, form };
  };
  const run = (data: FormData) => attempt(async () => {
    const { target, ...options } = request(data);
    const control = new AbortController();
    setRunning(control);
    try {
      const started = performance.now();
      const response = await ask(method.toUpperCase(), target, { ...options, signal: control.signal });
      await show(response, () => Math.round(performance.now() - started), setShown);
    } catch (error) {
      if (!isAbort(error)) throw error;
    } finally {
      setRunning(null);
    }
  });
  return (
    <form class="try" onSubmit={(event) => {
      event.preventDefault();
      const data = new FormData(event.currentTarget as HTMLFormElement);
      if (method === "delete") setAsks(() => () => void run(data));
      else void run(data);
    }}>
      {given.map((one) => <Control key={one.name} name={one.name} schema={one.schema ?? {}} isNeeded={one.required ?? false} />)}
      {parts.map(([name, schema]) => <Control key={name} name={name} schema={schema} isNeeded={(shape.required ?? []).includes(name)} />)}
      {isJson && <textarea name="body" rows={8} spellcheck={false} class="mono" aria-label={t("body")}>{pretty(exampleOf(media!) ?? {})}</textarea>}
      <div class="row"><Button main submit label={t("send")} disabled={running !== null} />{running && <Button label={t("stop")} onClick={() => running.abort()} />}</div>
      <div class="result" aria-live="polite">
        {shown && <><p><b class={shown.isOk ? "status" : "status bad"}>{shown.head}</b><span class="quiet"> {shown.notes}</span></p><pre tabIndex={0}>{shown.text}</pre>{shown.isCut && <p class="quiet">{t("shortened")}</p>}</>}
      </div>
      {asks && <Dialog title={t("delete")} submit={t("send")} danger onClose={() => setAsks(null)} onSubmit={() => { asks(); setAsks(null); }}><p>{t("sureSend")}</p></Dialog>}
    </form>
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(t("badBody"));
  }
}

/** Shows a response while it comes, and JSON by lines once it is there. */
async function show(response: Response, milliseconds: () => number, told: (shown: Shown) => void) {
  const type = response.headers.get("Content-Type") ?? "";
  const base = { head: `${response.status} ${response.statusText}`, isOk: response.ok, isCut: false };
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = (await reader?.read()) ?? { value: undefined, done: true };
    if (done) break;
    text += value;
    told({ ...base, notes: "", text: text.slice(0, MOST_SHOWN) });
  }
  let final = text;
  try {
    if (/[/+]json\b/.test(type)) final = pretty(JSON.parse(text));
  } catch { /* as it came */ }
  told({ ...base, notes: `${milliseconds()} ms · ${type} · X-Request-ID ${response.headers.get("X-Request-ID")}`, text: final.slice(0, MOST_SHOWN), isCut: text.length > MOST_SHOWN });
}

export function ApiView({ main }: { main: RefObject<HTMLElement | null> }) {
  const [found, setFound] = useState<Api | null>(null);
  const [text, setText] = useState("");
  const wanted = route.value.rest[0];
  const root = useRef<HTMLDivElement>(null);
  useEffect(() => { void attempt(async () => { api = await get<Api>("openapi.json", undefined, { place: false }); setFound(api); }); }, []);
  useEffect(() => { if (found && wanted) document.getElementById(wanted)?.scrollIntoView(); }, [found, wanted]);
  if (!found) return <main id="main" ref={main} tabIndex={-1}><div class="view"><Busy /></div></main>;
  const tags = new Map<string, Row[]>();
  for (const [path, methods] of Object.entries(found.paths)) {
    for (const method of METHODS) {
      const operation = methods[method];
      if (!operation) continue;
      const tag = operation.tags?.[0] ?? "";
      tags.set(tag, [...(tags.get(tag) ?? []), { method, path, operation }]);
    }
  }
  const words = text.toLowerCase().split(/\s+/);
  const isShown = ({ method, path, operation }: Row) => words.every((word) => `${method} ${path} ${operation.summary}`.toLowerCase().includes(word));
  return (
    <main id="main" ref={main} tabIndex={-1}>
      <div class="view reference" ref={root}>
        <header><h1>{t("apiTitle")}</h1><span class="quiet" id="title">{found.info.title} {found.info.version} · OpenAPI {found.openapi}</span></header>
        <input id="find" type="search" aria-label={t("filterRoutes")} placeholder={t("filterRoutes")} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        {[...tags].map(([tag, rows]) => (
          <section key={tag} aria-label={tag} hidden={!rows.some(isShown)}>
            <h2>{tag}</h2>
            {rows.map((row) => (
              <Folded key={row.operation.operationId} class="route" id={row.operation.operationId} hidden={!isShown(row)} isOpen={row.operation.operationId === wanted}
                summary={<span><b class={row.method === "delete" ? "danger" : ""}>{row.method.toUpperCase()}</b><code>{row.path}</code><span class="quiet">{row.operation.summary}</span></span>}
                onOpen={() => history.replaceState(null, "", `#/api/${row.operation.operationId}`)}>
                {() => <Description row={row} />}
              </Folded>
            ))}
          </section>
        ))}
      </div>
    </main>
  );
}
