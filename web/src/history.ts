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

/** All conversations, the latest first; those of a browser that keeps nothing last as long as the page. */
export const talks = signal<Talk[]>([]);

export async function readTalks() {
  try {
    const found = await run("readonly", (store) => store.getAll() as IDBRequest<Talk[]>);
    talks.value = found.sort((one, other) => other.changed - one.changed);
  } catch {
    talks.value = [];
  }
}

export async function keepTalk(talk: Talk) {
  talks.value = [talk, ...talks.value.filter((one) => one.id !== talk.id)].sort((one, other) => other.changed - one.changed);
  // A private window may refuse; the conversation goes on all the same.
  await run("readwrite", (store) => store.put(talk)).catch(() => null);
}

export async function dropTalk(id: string) {
  talks.value = talks.value.filter((one) => one.id !== id);
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
