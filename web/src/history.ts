// Conversations, kept by the browser and nowhere else: one record each in IndexedDB.
import { signal } from "@preact/signals";
import type { Schemas } from "./api-types";

export type Param = Partial<Omit<Schemas["QueryRequest"], "query" | "conversation_history">>;

/** What one sentence of an answer rests on. */
export interface Citation {
  reference_id: string; file_path: string; document_id: string; chunk_id: string; start: number; end: number;
  quote: string; page: number | null; headings: string[]; answer_start: number; answer_end: number;
}

export type Details = Omit<Schemas["QueryResponse"], "citations" | "response" | "references" | "response_time"> & {
  citations: Citation[];
};

export interface Reply {
  param: Param;
  text: string;
  references: Schemas["ReferenceItem"][];
  details: Details | null;
  seconds: number | null;
  error: string;
  /** `running` until the last line came; a reply that was left so broke off. */
  state: "running" | "done" | "stopped" | "failed";
  stage: string;
}

export interface Turn { id: string; question: string; at: number; replies: Reply[] }

export interface Talk { id: string; workspace: string; title: string; changed: number; turns: Turn[] }

const STORE = "conversations";
let opened: Promise<IDBDatabase> | null = null;

function database(): Promise<IDBDatabase> {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("heliograph", 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("IndexedDB cannot be opened"));
  });
  return opened;
}

async function run<T>(mode: IDBTransactionMode, make: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const store = (await database()).transaction(STORE, mode).objectStore(STORE);
  return new Promise((resolve, reject) => {
    const request = make(store);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("IndexedDB failed"));
  });
}

/** What is listed of a conversation; the rest is read when it is opened, so that many cost no memory. */
export type TalkHead = Omit<Talk, "turns">;

/** All conversations, the latest first. */
export const talks = signal<TalkHead[]>([]);
/** Those that the browser refused to keep, as a private window may; they last as long as the page. */
const unkept = new Map<string, Talk>();

const headOf = ({ id, workspace, title, changed }: TalkHead): TalkHead => ({ id, workspace, title, changed });
const sorted = (heads: TalkHead[]) => heads.sort((one, other) => other.changed - one.changed);

export async function readTalks() {
  const heads: TalkHead[] = [...unkept.values()].map(headOf);
  const before = talks.value;
  try {
    const store = (await database()).transaction(STORE).objectStore(STORE);
    await new Promise<void>((resolve, reject) => {
      const request = store.openCursor();
      request.onerror = () => reject(request.error ?? new Error("IndexedDB failed"));
      request.onsuccess = () => {
        const cursor = request.result;
        if (!cursor) { resolve(); return; }
        heads.push(headOf(cursor.value as Talk));
        cursor.continue();
      };
    });
  } catch {
    // There are none but those of this page.
  }
  // A question may have been answered meanwhile, whose conversation was not there yet to be read.
  const kept = talks.value.filter((one) => !before.includes(one));
  talks.value = sorted([...kept, ...heads.filter(({ id }) => !kept.some((one) => one.id === id))]);
}

export const readTalk = async (id: string): Promise<Talk | null> =>
  unkept.get(id) ?? (await run("readonly", (store) => store.get(id) as IDBRequest<Talk | undefined>).catch(() => undefined)) ?? null;

export async function keepTalk(talk: Talk) {
  talks.value = sorted([headOf(talk), ...talks.value.filter((one) => one.id !== talk.id)]);
  await run("readwrite", (store) => store.put(talk)).then(() => unkept.delete(talk.id), () => unkept.set(talk.id, talk));
}

export async function dropTalk(id: string) {
  talks.value = talks.value.filter((one) => one.id !== id);
  unkept.delete(id);
  await run("readwrite", (store) => store.delete(id)).catch(() => null);
}

export const newId = () => crypto.getRandomValues(new Uint32Array(2)).join("-");

/** A conversation as Markdown, with the sources of every answer. */
export function talkAsMarkdown(talk: Talk): string {
  const lines = [`# ${talk.title}`, ""];
  for (const turn of talk.turns) {
    lines.push(`## ${turn.question}`, "");
    for (const reply of turn.replies) {
      if (turn.replies.length > 1) lines.push(`*${reply.param.mode}*`, "");
      lines.push(reply.error || bodyOf(reply), "");
      for (const item of reply.references) lines.push(`- [${item.reference_id}] ${item.file_path}`);
      lines.push("");
    }
  }
  return lines.join("\n");
}

/** The answer without the list of references at its end, which the page shows itself. */
export function bodyOf(reply: Reply): string {
  const end = reply.references.length ? reply.text.lastIndexOf("\n### References") : -1;
  return end < 0 ? reply.text : reply.text.slice(0, end).trimEnd();
}
