// The parts that all views are made of: icons, buttons, fields, dialogs, panels, messages.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { attempt, dismiss, tell, toasts } from "./state";
import { t } from "./words";

const SPRITE = new URL("icons.svg", document.baseURI).pathname;

export const Icon = ({ name }: { name: string }) => (
  <svg class="icon" aria-hidden="true"><use href={`${SPRITE}#${name}`} /></svg>
);

interface ButtonProps {
  icon?: string;
  /** What it says; beside an icon it may be for screen readers alone. */
  label: string;
  bare?: boolean;
  main?: boolean;
  danger?: boolean;
  pressed?: boolean;
  /** Of a button that opens something beside itself: whether that is open. */
  expanded?: boolean;
  disabled?: boolean;
  submit?: boolean;
  class?: string;
  onClick?: (event: MouseEvent) => void;
}

/** A button; `bare` shows its icon alone. */
export function Button({ icon, label, bare, main, danger, pressed, expanded, disabled, submit, onClick, ...rest }: ButtonProps) {
  const kinds = ["button", bare && "bare", main && "main", danger && "danger", rest.class].filter(Boolean).join(" ");
  return (
    <button type={submit ? "submit" : "button"} class={kinds} disabled={disabled ?? false} aria-pressed={pressed} aria-expanded={expanded}
      aria-label={bare ? label : undefined} title={bare ? label : undefined} onClick={onClick}>
      {icon && <Icon name={icon} />}
      {!bare && <span>{label}</span>}
    </button>
  );
}

export function Field({ label, children, class: kind }: { label: string; children: ComponentChildren; class?: string }) {
  return <label class={`field ${kind ?? ""}`}><span>{label}</span>{children}</label>;
}

interface SelectProps<T extends string> {
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (value: T) => void;
  label?: string;
  id?: string;
}

export function Select<T extends string>({ value, options, onChange, label, id }: SelectProps<T>) {
  return (
    <select id={id} value={value} aria-label={label} onChange={(event) => onChange(event.currentTarget.value as T)}>
      {options.map(([key, text]) => <option key={key} value={key} selected={key === value}>{text}</option>)}
    </select>
  );
}

interface DialogProps {
  title: string;
  children: ComponentChildren;
  onClose: () => void;
  onSubmit?: (data: FormData) => void;
  submit?: string;
  danger?: boolean;
  /** Whether it cannot be closed without an answer. */
  stays?: boolean;
}

/** A dialog over everything; the browser keeps the focus in it and gives it back. */
export function Dialog({ title, children, onClose, onSubmit, submit, danger, stays }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current!;
    if (!dialog.open) dialog.showModal();
    return () => dialog.close();
  }, []);
  const send = (event: SubmitEvent & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    onSubmit?.(new FormData(event.currentTarget));
  };
  return (
    <dialog ref={ref} aria-labelledby={id} onCancel={(event) => { event.preventDefault(); if (!stays) onClose(); }}
      onMouseDown={(event) => { if (event.target === ref.current && !stays) onClose(); }}>
      <form onSubmit={send}>
        <h2 id={id}>{title}</h2>
        {children}
        <div class="row end">
          {!stays && <Button label={onSubmit ? t("cancel") : t("close")} onClick={onClose} />}
          {onSubmit && <Button submit main={!danger} danger={danger ?? false} label={submit ?? t("save")} />}
        </div>
      </form>
    </dialog>
  );
}

/** What opens beside the contents; over them where there is no room. Escape closes it. */
export function Panel({ title, onClose, children, tools }: {
  title: ComponentChildren; onClose: () => void; children: ComponentChildren; tools?: ComponentChildren;
}) {
  const ref = useRef<HTMLElement>(null);
  const id = useId();
  useEffect(() => { ref.current?.focus({ preventScroll: true }); }, []);
  return (
    <aside class="panel" ref={ref} tabIndex={-1} aria-labelledby={id}
      onKeyDown={(event) => { if (event.key === "Escape") onClose(); }}>
      <header class="panel-head">
        <h2 id={id}>{title}</h2>
        {tools}
        <Button bare icon="close" label={t("close")} onClick={onClose} />
      </header>
      <div class="panel-body">{children}</div>
    </aside>
  );
}

export function Tabs<T extends string>({ value, options, onChange, label }: Required<SelectProps<T>> | Omit<SelectProps<T>, "id">) {
  const move = (event: KeyboardEvent, place: number) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const next = step && options[(place + step + options.length) % options.length];
    if (!next) return;
    onChange(next[0]);
    const list = (event.currentTarget as HTMLElement).parentElement;
    (list?.children[options.indexOf(next)] as HTMLElement | undefined)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label}>
      {options.map(([key, text], place) => (
        <button key={key} type="button" role="tab" aria-selected={key === value} tabIndex={key === value ? 0 : -1}
          onClick={() => onChange(key)} onKeyDown={(event) => move(event, place)}>{text}</button>
      ))}
    </div>
  );
}

export const Busy = ({ label }: { label?: string }) => (
  <p class="busy" role="status"><span class="spinner" aria-hidden="true" />{label ?? t("loading")}</p>
);

export const Empty = ({ icon, title, children }: { icon: string; title: string; children?: ComponentChildren }) => (
  <div class="empty"><Icon name={icon} /><p>{title}</p>{children}</div>
);

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite" id="notice">
      {toasts.value.map((toast) => (
        <div key={toast.id} class={toast.isQuiet ? "sr" : toast.isBad ? "toast bad" : "toast"}>
          <span>{toast.text}</span>
          {toast.action && <Button label={toast.action.label} onClick={() => { toast.action?.run(); dismiss(toast.id); }} />}
          <Button bare icon="close" label={t("dismiss")} onClick={() => dismiss(toast.id)} />
        </div>
      ))}
    </div>
  );
}

/** Copies, also where the page is not served securely and the clipboard is closed to it. */
export const copy = (text: string) => void attempt(async () => {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  tell(t("copied"), { seconds: 2 });
});

/** Hands a file over that was made in the page. */
export function save(name: string, content: BlobPart, type: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
