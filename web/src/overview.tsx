// How the knowledge base and its service are: counts, queue, costs, times, alerts, models and stores, settings.
import type { RefObject } from "preact";
import { useEffect, useState } from "preact/hooks";
import { follow, get } from "./api";
import type { Schemas } from "./api-types";
import { ConnectHelp } from "./first-run";
import { serviceText } from "./service-words";
import { attempt, me, workspace } from "./state";
import { Busy, Button } from "./ui";
import { bytes, duration, named, number, t, type Word } from "./words";

interface Seen {
  stats: Schemas["WorkspaceStats"]; health: Schemas["Health"]; figures: Schemas["Figures"]; jobs: Schemas["JobListResponse"];
}

const EVERY_MS = 5000;
const SHOWN_SETTINGS = ["workspace", "kv_storage", "graph_storage", "vector_storage", "max_async", "max_parallel_insert", "summary_language", "enable_llm_cache", "enable_rerank", "cosine_threshold", "related_chunk_number"] as const;

const shown = (value: string | number | boolean | null | undefined) =>
  (typeof value === "boolean" ? t(value ? "yes" : "no") : value === "" || value == null ? t("standard") : String(value));

export function OverviewView({ main }: { main: RefObject<HTMLElement | null> }) {
  const [seen, setSeen] = useState<Seen | null>(null);
  const [isConnecting, setConnecting] = useState(false);
  useEffect(() => {
    let timer = 0;
    let isGone = false;
    // Counts and jobs as they change, what else there is now and then.
    const stop = follow(({ documents, jobs }) => setSeen((now) => now && { ...now, stats: { ...now.stats, documents: Object.fromEntries(Object.entries(documents).filter(([, count]) => count)) }, jobs: { ...now.jobs, jobs } }), () => null);
    const read = async () => {
      const [stats, health, figures, jobs] = await Promise.all([
        get<Schemas["WorkspaceStats"]>(`workspaces/${encodeURIComponent(workspace.value)}`), get<Schemas["Health"]>("health"),
        get<Schemas["Figures"]>("api/v1/figures", undefined, { place: false }), get<Schemas["JobListResponse"]>("documents/jobs", { limit: 20 }),
      ]);
      if (isGone) return;
      setSeen({ stats, health, figures, jobs });
      timer = window.setTimeout(() => { if (!document.hidden) void attempt(read); }, EVERY_MS);
    };
    const wake = () => { if (!document.hidden) { clearTimeout(timer); void attempt(read); } };
    document.addEventListener("visibilitychange", wake);
    void attempt(read);
    return () => { isGone = true; stop(); clearTimeout(timer); document.removeEventListener("visibilitychange", wake); };
  }, []);
  if (!seen) return <main id="main" ref={main} tabIndex={-1}><div class="view"><Busy /></div></main>;
  const { stats, health, figures, jobs } = seen;
  const { configuration, queues } = health;
  const documents = Object.values(stats.documents).reduce((sum, count) => sum + count, 0);
  const open = jobs.jobs.filter((job) => job.is_unfinished);
  const tile = (count: string, label: string) => <div class="card tile" key={label}><b>{count}</b><span>{label}</span></div>;
  const oldest = health.alerts?.find((alert) => alert.name === "index_freshness")?.seconds;
  /** How the calls to a kind of model went; nothing where none is counted. */
  const calls = (kind: string) => {
    const rows = figures.models.filter((row) => row.model === kind);
    const [made, failed] = [rows.reduce((sum, row) => sum + row.calls, 0), rows.reduce((sum, row) => sum + row.failures, 0)];
    return made > 0 && <span class={failed === 0 ? "chip good" : failed === made ? "chip bad" : "chip wait"}>{failed ? `${number(failed)} / ${number(made)} ${t("failures")}` : t("healthy")}</span>;
  };
  const model = (label: string, name: string | null | undefined, host: string | null | undefined, kind = "") => (
    <><dt>{label}</dt><dd>{name ? <><b>{name}</b> {host && <span class="quiet">{host}</span>} {calls(kind)}</> : <span class="quiet">{t("notConfigured")}</span>}</dd></>
  );
  return (
    <main id="main" ref={main} tabIndex={-1}>
      <div class="view" id="overview">
        <header><h1>{t("overview")}</h1>
          {health.condition && <span class={health.condition === "ok" ? "chip good" : "chip bad"}>{health.condition === "ok" ? t("healthy") : t("alerts")}</span>}
          <span class="quiet">{t("version")} {health.core_version}</span>
        </header>
        <div class="tiles">
          {tile(number(documents), t("documents"))}{tile(number(stats.chunks), t("chunks"))}{tile(number(stats.entities), t("entities"))}{tile(number(stats.relations), t("relations"))}
          {tile(stats.bytes_on_disk ? bytes(stats.bytes_on_disk) : "–", t("disk"))}{tile(number(stats.cached_replies), t("cachedReplies"))}
        </div>
        <div class="columns">
          <section class="card">
            <h2>{t("documents")}</h2>
            {documents === 0 ? <p class="quiet">{t("noDocuments")}</p> : (
              <div class="meter">
                {Object.entries(stats.documents).map(([status, count]) => (
                  <><span>{named("s_", status)}</span><span class="bar"><i style={{ width: `${(100 * count) / documents}%` }} /></span><span>{number(count)}</span></>
                ))}
              </div>
            )}
          </section>
          <section class="card">
            <h2>{t("queue")}</h2>
            <dl class="kv">
              {health.alerts && <><dt>{t("freshness")}</dt><dd>{oldest ? duration(oldest) : <span class="quiet">{t("nothingWaits")}</span>}</dd></>}
              {queues && <><dt>{t("questionsNow")}</dt><dd>{number(queues.queries_running)}</dd><dt>{t("questionsWaiting")}</dt><dd>{number(queues.queries_waiting)}</dd></>}
              <dt>{t("jobs")}</dt>
              <dd>{open.length === 0 ? <span class="quiet">{t("noJobs")}</span> : open.map((job) => <div key={job.id}>{named("job_", job.kind)} {job.total > 0 && `${job.done} / ${job.total}`} <span class="quiet">{serviceText(job.error)}</span></div>)}</dd>
            </dl>
          </section>
          <section class="card">
            <h2>{t("latency")}</h2>
            {figures.latencies.length === 0 ? <p class="quiet">{me.value?.workspaces ? t("adminOnly") : t("noQuestions")}</p> : (
              <div class="scroll"><table class="table" id="latencies">
                <thead><tr><th>{t("mode")}</th><th class="num">{t("count")}</th><th class="num">p50</th><th class="num">p95</th><th class="num">p99</th></tr></thead>
                <tbody>{figures.latencies.map((row) => (
                  <tr key={row.mode}><td>{row.mode}</td><td class="num">{number(row.count)}</td><td class="num">{duration(row.p50)}</td><td class="num">{duration(row.p95)}</td><td class="num">{duration(row.p99)}</td></tr>
                ))}</tbody>
              </table></div>
            )}
          </section>
          <section class="card">
            <h2>{t("spend")}</h2>
            {figures.models.length === 0 ? <p class="quiet">{me.value?.workspaces ? t("adminOnly") : t("none")}</p> : (
              <div class="scroll"><table class="table" id="spend">
                <thead><tr><th>{t("purpose")}</th><th class="num">{t("calls")}</th><th class="num">{t("failures")}</th><th class="num">{t("read")}</th><th class="num">{t("written")}</th></tr></thead>
                <tbody>{figures.models.map((row) => (
                  <tr key={`${row.model}/${row.purpose}`}><td>{row.model === "chat" ? t("chatModel") : t("embeddingModel")} <span class="quiet">{named("for_", row.purpose)}</span></td><td class="num">{number(row.calls)}</td>
                    <td class="num">{number(row.failures)}</td><td class="num">{number(row.input_tokens)}</td><td class="num">{number(row.output_tokens)}</td></tr>
                ))}</tbody>
              </table></div>
            )}
          </section>
          {health.alerts && (
            <section class="card">
              <h2>{t("alerts")}</h2>
              <dl class="kv">
                {health.alerts.map((alert) => (
                  <><dt>{t(`a_${alert.name}` as Word)} {duration(alert.threshold_seconds)}</dt>
                    <dd><span class={alert.state === "ok" ? "chip good" : alert.state === "firing" ? "chip bad" : "chip"}>{t(`a_${alert.state}` as Word)}</span> {alert.seconds != null && <span class="quiet">{duration(alert.seconds)}</span>}</dd></>
                ))}
              </dl>
            </section>
          )}
          <section class="card">
            <h2>{t("models")}</h2>
            <dl class="kv">
              {model(t("chatModel"), configuration?.llm_model, configuration?.llm_binding_host, "chat")}
              {model(t("embeddingModel"), configuration?.embedding_model, configuration?.embedding_binding_host, "embedding")}
              {model(t("reranker"), configuration?.rerank_model ?? configuration?.rerank_binding, configuration?.rerank_binding_host)}
            </dl>
            {!configuration?.llm_model && <p style={{ marginTop: "12px" }}><Button class="small" icon="plug" label={t("howToConnect")} onClick={() => setConnecting(true)} /></p>}
          </section>
          <section class="card">
            <h2>{t("stores")}</h2>
            <dl class="kv">
              <dt>{configuration?.kv_storage || "sqlite"}</dt><dd><span class="chip good">{t("healthy")}</span></dd>
              {(health.engines ?? []).map((engine) => (
                <><dt>{engine.name}</dt><dd>{engine.trouble ? <span class="chip bad">{engine.trouble}</span> : <span class="chip good">{t("healthy")}</span>} <span class="quiet">{number(engine.lag)} {t("lag")}</span></dd></>
              ))}
            </dl>
          </section>
          {configuration && (
            <section class="card">
              <h2>{t("settings")}</h2>
              <dl class="kv">{SHOWN_SETTINGS.map((name) => <><dt title={name}>{t(`set_${name}`)}</dt><dd>{shown(configuration[name])}</dd></>)}</dl>
            </section>
          )}
        </div>
        <p class="quiet">{t("uptime")}</p>
        {isConnecting && <ConnectHelp onClose={() => setConnecting(false)} />}
      </div>
    </main>
  );
}
