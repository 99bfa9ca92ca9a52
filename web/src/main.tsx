// Puts the page together: who asks, which workspace, which section.
import "./style.css";
import { render } from "preact";
import { lazy, Suspense } from "preact/compat";
import { useEffect, useRef, useState } from "preact/hooks";
import { AskView, TalkList } from "./ask";
import { call, get, post, session } from "./api";
import type { Schemas } from "./api-types";
import { DocumentsView } from "./documents";
import { Login } from "./login";
import { OverviewView } from "./overview";
import { attempt, canWrite, enterWorkspace, isAdmin, isDark, linkTo, me, readWorkspaces, route, switchTheme, type View, workspace, workspaces } from "./state";
import { Busy, Button, Dialog, Field, Icon, Toasts } from "./ui";
import { language, switchLanguage, t } from "./words";

// What few open at first is read when it is opened.
const GraphView = lazy(() => import("./graph").then((module) => module.GraphView));
const ApiView = lazy(() => import("./reference").then((module) => module.ApiView));

const SECTIONS: View[] = ["ask", "documents", "graph", "overview", "api"];
const ADD = "\u0000new";

function WorkspaceSelect() {
  const [isAdding, setAdding] = useState(false);
  const add = (data: FormData) => attempt(async () => {
    const name = String(data.get("name"));
    await post("workspaces", { name }, { place: false });
    await readWorkspaces();
    setAdding(false);
    enterWorkspace(name);
  });
  return (
    <div class="place-select">
      <select id="workspace" aria-label={t("workspace")} value={workspace.value}
        onChange={(event) => {
          const name = event.currentTarget.value;
          if (name !== ADD) return enterWorkspace(name);
          event.currentTarget.value = workspace.value;
          setAdding(true);
        }}>
        {workspaces.value.map(({ name }) => <option key={name} value={name} selected={name === workspace.value}>{name}</option>)}
        {isAdmin.value && me.value?.workspaces === null && <option value={ADD}>{t("newWorkspace")}</option>}
      </select>
      {isAdding && (
        <Dialog title={t("newWorkspace")} onClose={() => setAdding(false)} onSubmit={add}>
          <Field label={t("workspaceName")}><input name="name" required pattern="[\w][\w.\-]{0,63}" /></Field>
        </Dialog>
      )}
    </div>
  );
}

function Side({ onLeave }: { onLeave: () => void }) {
  const [showsTalks, setTalks] = useState(false);
  const now = route.value.view;
  useEffect(() => setTalks(false), [route.value]);
  return (
    <div class="side">
      <div class="brand"><img src="./icon.svg" alt="" /><span>Heliograph</span></div>
      <WorkspaceSelect />
      <nav class="nav" aria-label={t("sections")}>
        {SECTIONS.map((view) => (
          <a key={view} href={linkTo(view)} aria-current={view === now ? "page" : undefined} class={view === "api" ? "wide-only" : ""}>
            <Icon name={view} />{t(view)}
          </a>
        ))}
      </nav>
      {now === "ask" && <TalkList isOpen={showsTalks} />}
      <div class="foot">
        {now === "ask" && <span class="narrow-only"><Button bare icon="history" label={t("conversations")} pressed={showsTalks} onClick={() => setTalks(!showsTalks)} /></span>}
        <Button bare icon={isDark.value ? "sun" : "moon"} label={isDark.value ? t("light") : t("dark")} onClick={switchTheme} />
        <Button bare icon="globe" label={t("language")} onClick={switchLanguage} />
        {session.isKnown && <Button bare icon="leave" label={t("leave")} onClick={onLeave} />}
      </div>
    </div>
  );
}

function Shell({ onLeave }: { onLeave: () => void }) {
  const { view } = route.value;
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  // What is read aloud begins with the new section.
  useEffect(() => {
    if (!isFirst.current) main.current?.focus({ preventScroll: true });
    isFirst.current = false;
  }, [view]);
  const place = workspace.value;
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>{t("skip")}</a>
      <Side onLeave={onLeave} />
      <div class="work" key={place}>
        <Suspense fallback={<main><Busy /></main>}>
          {view === "ask" && <AskView main={main} />}
          {view === "documents" && <DocumentsView main={main} />}
          {view === "graph" && <GraphView main={main} />}
          {view === "overview" && <OverviewView main={main} />}
          {view === "api" && <ApiView main={main} />}
        </Suspense>
      </div>
    </div>
  );
}

function App() {
  const [state, setState] = useState<"loading" | "login" | "in">("loading");
  const enter = async () => {
    try {
      me.value = await get<Schemas["VerifyReply"]>("auth/verify", undefined, { place: false });
      await readWorkspaces();
      setState("in");
    } catch (error) {
      // 403 tells that a key is missing or wrong.
      const status = (error as { status?: number }).status;
      if (status !== 401 && status !== 403) throw error;
      session.forget();
      me.value = null;
      setState("login");
    }
  };
  useEffect(() => {
    void attempt(enter);
    const ask = () => { session.forget(); me.value = null; setState("login"); };
    addEventListener("login-needed", ask);
    return () => removeEventListener("login-needed", ask);
  }, []);
  const leave = () => attempt(async () => {
    if (session.token) await call("POST", "logout", { place: false }).catch(() => null);
    session.forget();
    location.reload();
  });
  // All words change with the language.
  void language.value;
  void canWrite.value;
  return (
    <>
      {state === "loading" && <main><Busy /></main>}
      {state === "login" && <Login onEnter={enter} />}
      {state === "in" && <Shell onLeave={leave} />}
      <Toasts />
    </>
  );
}

render(<App />, document.getElementById("app")!);
