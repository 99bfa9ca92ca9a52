// How a question is asked: mode, all parameters of a query, and presets of them.
import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import type { Param } from "./history";
import { Button, Dialog, Field, Select } from "./ui";
import { named, t, type Word } from "./words";

export const MODES = ["auto", "fusion", "mix", "hybrid", "local", "global", "naive", "bypass"] as const;
export type ModeName = (typeof MODES)[number];
const CHANNELS = ["vector", "keyword", "bridge", "graph"] as const;
const KEPT = "heliograph-parameters";
const PRESETS = "heliograph-presets";

const BUILT_IN: [Word, Param][] = [
  ["presetBalanced", { mode: "auto" }],
  ["presetQuick", { mode: "naive", chunk_top_k: 6, max_total_tokens: 8000, enable_rerank: false }],
  ["presetThorough", { mode: "auto", top_k: 80, chunk_top_k: 40, max_total_tokens: 60000, channels: ["vector", "keyword", "bridge", "graph"] }],
  ["presetPrecise", { mode: "local", channels: ["keyword"], chunk_top_k: 12 }],
];

function read<T>(name: string, standard: T): T {
  try {
    return (JSON.parse(localStorage.getItem(name) ?? "null") as T | null) ?? standard;
  } catch {
    return standard;
  }
}

/** What the next question is asked with. */
export const param = signal<Param>(read(KEPT, { mode: "auto" }));
const ownPresets = signal<Record<string, Param>>(read(PRESETS, {}));

export function setParam(value: Param) {
  param.value = value;
  if (Object.keys(value).length === 1 && value.mode === "auto") localStorage.removeItem(KEPT);
  else localStorage.setItem(KEPT, JSON.stringify(value));
}

const change = (name: keyof Param, value: unknown) => {
  const { [name]: _, ...others } = param.value;
  setParam(value === undefined ? { mode: "auto", ...others } : { ...param.value, [name]: value } as Param);
};

function NumberField({ name, most }: { name: keyof Param; most: number }) {
  const value = param.value[name] as number | null | undefined;
  return (
    <Field label={t(`p_${name}` as Word)}>
      <input type="number" name={name} min={name === "history_turns" ? 0 : 1} max={most} value={value ?? ""} placeholder={t("standard")}
        onInput={(event) => change(name, event.currentTarget.value === "" ? undefined : event.currentTarget.valueAsNumber)} />
    </Field>
  );
}

function WordsField({ name }: { name: "hl_keywords" | "ll_keywords" }) {
  return (
    <Field label={t(`p_${name}`)}>
      <input name={name} value={(param.value[name] ?? []).join(", ")}
        onChange={(event) => {
          const words = event.currentTarget.value.split(/[,，、;；]/).map((word) => word.trim()).filter(Boolean);
          change(name, words.length ? words : undefined);
        }} />
    </Field>
  );
}

function Choice({ name, options }: { name: "fusion" | "chunk_picking" | "context_format"; options: string[] }) {
  return (
    <Field label={t(`p_${name}`)}>
      <Select value={param.value[name] ?? ""} onChange={(value) => change(name, value || undefined)}
        options={[["", t("standard")], ...options.map((one) => [one, named("by_", one)] as [string, string])]} />
    </Field>
  );
}

function Check({ name }: { name: "disable_user_prompt_prefix" | "only_need_context" | "only_need_prompt" }) {
  return (
    <label class="field inline">
      <input type="checkbox" name={name} checked={Boolean(param.value[name])} onChange={(event) => change(name, event.currentTarget.checked || undefined)} />
      <span>{t(`p_${name}`)}</span>
    </label>
  );
}

export const ModeSelect = ({ id, value, onChange, label }: { id: string; value: ModeName; onChange: (mode: ModeName) => void; label: string }) => (
  <select id={id} aria-label={label} title={t(`mode_${value}`)} value={value} onChange={(event) => onChange(event.currentTarget.value as ModeName)}>
    {MODES.map((name) => <option key={name} value={name} selected={name === value} title={t(`mode_${name}`)}>{name}</option>)}
  </select>
);

/** All parameters, below the question; the text of the filter is checked when the question is sent. */
export function Parameters({ filter, onFilter }: { filter: string; onFilter: (text: string) => void }) {
  const [isNaming, setNaming] = useState(false);
  const value = param.value;
  const channels = value.channels ?? [];
  const same = (preset: Param) => JSON.stringify(preset) === JSON.stringify(value);
  return (
    <div class="settings" id="parameters">
      <div class="row">
        <span class="quiet">{t("preset")}</span>
        {BUILT_IN.map(([name, preset]) => <Button key={name} class="small" label={t(name)} pressed={same(preset)} onClick={() => setParam(preset)} />)}
        {Object.entries(ownPresets.value).map(([name, preset]) => <Button key={name} class="small" label={name} pressed={same(preset)} onClick={() => setParam(preset)} />)}
        <Button class="small" icon="plus" label={t("savePreset")} onClick={() => setNaming(true)} />
        <Button class="small" icon="undo" label={t("reset")} onClick={() => { setParam({ mode: "auto" }); onFilter(""); }} />
      </div>
      <p class="quiet">{value.mode}: {t(`mode_${value.mode ?? "auto"}`)}</p>
      <div class="grid">
        <NumberField name="top_k" most={1000} />
        <NumberField name="chunk_top_k" most={1000} />
        <NumberField name="max_total_tokens" most={1_000_000} />
        <NumberField name="max_entity_tokens" most={1_000_000} />
        <NumberField name="max_relation_tokens" most={1_000_000} />
        <NumberField name="history_turns" most={128} />
        <Field label={t("p_response_type")}>
          <input name="response_type" maxLength={256} placeholder="Multiple Paragraphs" value={value.response_type ?? ""}
            onInput={(event) => change("response_type", event.currentTarget.value || undefined)} />
        </Field>
        <WordsField name="ll_keywords" />
        <WordsField name="hl_keywords" />
        <Field label={t("p_enable_rerank")}>
          <Select value={value.enable_rerank == null ? "" : String(value.enable_rerank)} onChange={(text) => change("enable_rerank", text ? text === "true" : undefined)}
            options={[["", t("standard")], ["true", t("yes")], ["false", t("no")]]} />
        </Field>
        <Choice name="fusion" options={["score", "rank"]} />
        <Choice name="chunk_picking" options={["vector", "weight", "shared_relations"]} />
        <Choice name="context_format" options={["json", "csv"]} />
        <fieldset class="wide row" style={{ border: 0, padding: 0, margin: 0 }}>
          <legend class="quiet">{t("p_channels")}</legend>
          {CHANNELS.map((name) => (
            <label key={name} class="field inline">
              <input type="checkbox" checked={channels.includes(name)} onChange={(event) => {
                const chosen = CHANNELS.filter((one) => (one === name ? event.currentTarget.checked : channels.includes(one)));
                change("channels", chosen.length ? chosen : undefined);
              }} />
              <span>{t(`channel_${name}`)}</span>
            </label>
          ))}
        </fieldset>
        <Field class="wide" label={t("p_user_prompt")}>
          <textarea name="user_prompt" rows={2} value={value.user_prompt ?? ""} onInput={(event) => change("user_prompt", event.currentTarget.value || undefined)} />
        </Field>
        <Field class="wide" label={`${t("p_filter")}  {"team": "red"}`}>
          <textarea id="filter" rows={1} spellcheck={false} class="mono" value={filter} onInput={(event) => onFilter(event.currentTarget.value)} />
        </Field>
        <div class="wide row"><Check name="disable_user_prompt_prefix" /><Check name="only_need_context" /><Check name="only_need_prompt" /></div>
      </div>
      {isNaming && (
        <Dialog title={t("savePreset")} onClose={() => setNaming(false)} onSubmit={(data) => {
          ownPresets.value = { ...ownPresets.value, [String(data.get("name"))]: value };
          localStorage.setItem(PRESETS, JSON.stringify(ownPresets.value));
          setNaming(false);
        }}>
          <Field label={t("presetName")}><input name="name" required maxLength={60} /></Field>
        </Dialog>
      )}
    </div>
  );
}
