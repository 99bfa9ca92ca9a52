// An empty workspace: sample documents, one's own, or a model to connect.
import { useState } from "preact/hooks";
import { post } from "./api";
import { attempt, canWrite, goTo, isAwaiting, tell } from "./state";
import { Dialog, Icon } from "./ui";
import { t } from "./words";

const SETTINGS = "HELIOGRAPH_CHAT__BASE_URL=http://127.0.0.1:11434/v1\nHELIOGRAPH_CHAT__MODEL=qwen3:8b\nHELIOGRAPH_CHAT__API_KEY=…\nheliograph serve";

export function ConnectHelp({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={t("connectModel")} onClose={onClose}>
      <p>{t("connectHow")}</p>
      <pre tabIndex={0}>{SETTINGS}</pre>
    </Dialog>
  );
}

export function FirstRun({ onFilled }: { onFilled: () => void }) {
  const [isConnecting, setConnecting] = useState(false);
  const samples = () => attempt(async () => {
    await post("documents/samples");
    isAwaiting.value = true;
    tell(t("samplesReady"));
    onFilled();
    goTo("documents");
  });
  return (
    <div class="view first-run" style={{ paddingTop: "12vh", maxWidth: "800px" }}>
      <div class="hero"><h1>{t("welcome")}</h1><p class="quiet">{t("welcomeHint")}</p></div>
      {!canWrite.value && <p class="note"><Icon name="warn" />{t("readOnly")}</p>}
      <div class="starts">
        <button type="button" class="card start" disabled={!canWrite.value} onClick={samples}><Icon name="book" /><b>{t("trySamples")}</b><span class="quiet">{t("samplesHint")}</span></button>
        <button type="button" class="card start" disabled={!canWrite.value} onClick={() => goTo("documents")}><Icon name="import" /><b>{t("uploadOwn")}</b><span class="quiet">{t("uploadHint")}</span></button>
        <button type="button" class="card start" onClick={() => setConnecting(true)}><Icon name="plug" /><b>{t("connectModel")}</b><span class="quiet">{t("connectHint")}</span></button>
      </div>
      {isConnecting && <ConnectHelp onClose={() => setConnecting(false)} />}
    </div>
  );
}
