// The state of everything of a tenant. Each number leads to its list.

import { html } from "../../vendor/preact.js";
import { call } from "../api.js";
import { formatCount, formatDuration } from "../format.js";
import { useLoad } from "../load.js";
import { linkTo } from "../navigation.js";
import { HourChart } from "../parts/hour_chart.js";
import { Empty, Show, Trouble } from "../parts/notices.js";
import { StatusBadge } from "../parts/status.js";
import { useNow } from "../parts/time.js";
import { findTroubles, Troubles } from "../parts/troubles.js";
import { nameState } from "./models.js";

// How often the page reads again while nothing happens. Events renew all but the models at once.
const STATS_MS = 10_000;
const MODELS_MS = 30_000;
const HOUR_MS = 60_000;
const AFTERMATH_MS = 60_000;

const MOST_DEAD_LETTERS = 100; // that are counted
const MOST_CIRCUITS = 100; // that are looked at, of the oldest webhooks

/** @typedef {import("../types.js").StatsItem} StatsItem */
/** @typedef {import("../types.js").StatsMinute} StatsMinute */
/** @typedef {import("../types.js").Model} Model */
/** @typedef {import("../types.js").Webhook} Webhook */
/** @typedef {{ webhooks: Webhook[], troubles: import("../parts/troubles.js").WebhookTrouble[], dead: import("../types.js").Page<import("../types.js").Job> }} Aftermath */

/**
 * @param {AbortSignal} signal
 * @returns {Promise<StatsItem[]>}
 */
async function readStats(signal) {
  return (await call("GET", "/v1/stats", { signal })).items;
}

/**
 * @param {AbortSignal} signal
 * @returns {Promise<Model[]>}
 */
async function readModels(signal) {
  return (await call("GET", "/v1/models", { signal })).items;
}

/**
 * @param {AbortSignal} signal
 * @returns {Promise<StatsMinute[]>}
 */
async function readHour(signal) {
  return (await call("GET", "/v1/stats/minutes", { signal })).items;
}

/**
 * @param {AbortSignal} signal
 * @returns {Promise<Aftermath>}
 */
async function readAftermath(signal) {
  const [webhooks, health, dead] = await Promise.all([
    call("GET", "/v1/webhooks", { query: { limit: 1_000 }, signal }),
    call("GET", "/v1/webhooks/health", { query: { limit: MOST_CIRCUITS }, signal }),
    call("GET", "/v1/dead-letters", { query: { limit: MOST_DEAD_LETTERS }, signal }),
  ]);
  return { webhooks: webhooks.items, troubles: findTroubles(webhooks.items, health.items), dead };
}

/** @param {import("../stream.js").ServerEvent} event */
function isTrouble(event) {
  return ["job.failed", "webhook.disabled", "delivery.exhausted"].includes(event.type);
}

export function OverviewPage() {
  const stats = useLoad(readStats, [], { every: STATS_MS, live: true });
  const models = useLoad(readModels, [], { every: MODELS_MS });
  const error = stats.error ?? models.error; // all have the same one when the gateway is away
  const reload = () => {
    stats.reload();
    models.reload();
  };
  return html`<h1>Overview</h1>
    <${Show} of=${{ ...stats, error, reload }}>${(/** @type {StatsItem[]} */ items) => html`
      <${Show} of=${{ ...models, error: null }}>${(/** @type {Model[]} */ all) => html`<${Numbers} stats=${items} models=${all} failed=${error !== null} />`}<//>`}<//>`;
}

/**
 * Show the numbers. What is below reads the rest, after these are on the screen.
 * @param {{ stats: StatsItem[], models: Model[], failed: boolean }} props `failed`: an error is already shown
 */
function Numbers({ stats, models, failed }) {
  const hour = useLoad(readHour, [], { every: HOUR_MS, live: true });
  const aftermath = useLoad(readAftermath, [], { every: AFTERMATH_MS, live: isTrouble });
  const error = failed ? null : (hour.error ?? aftermath.error);
  return html`<${Trouble} error=${error} retry=${hour.error ? hour.reload : aftermath.reload} />
    <${Charts} stats=${stats} minutes=${hour.value} />
    <${Tiles} stats=${stats} models=${models} aftermath=${aftermath.value} />
    <${Troubles} models=${models} webhooks=${aftermath.value?.troubles ?? []} />
    <${ByModel} stats=${stats} models=${models} />`;
}

/** @param {{ stats: StatsItem[], minutes: StatsMinute[] | null }} props */
function Charts({ stats, minutes }) {
  const sum = (/** @type {(item: StatsItem) => number} */ read) => stats.reduce((total, item) => total + read(item), 0);
  const scheduled = sum((item) => item.scheduled);
  const failed = sum((item) => item.last_5_minutes.failed_per_minute);
  const bars = (/** @type {"waiting" | "running" | "ended" | "failed"} */ name) =>
    minutes?.map((minute) => ({ at: minute.at, count: minute[name] })) ?? null;
  return html`<div class="tiles charts">
    <${Tile} title="Waiting" value=${formatCount(sum((item) => item.waiting))} link=${linkTo("/jobs", { status: "queued" })}
      note=${scheduled ? `jobs now, and ${formatCount(scheduled)} scheduled` : "jobs now"}><${HourChart} bars=${bars("waiting")} tone="waited" /><//>
    <${Tile} title="Running" value=${formatCount(sum((item) => item.running))} link=${linkTo("/jobs", { status: "processing" })}
      note="jobs now"><${HourChart} bars=${bars("running")} tone="ran" /><//>
    <${Tile} title="Ended a minute" value=${sum((item) => item.last_5_minutes.ended_per_minute).toFixed(1)} link=${linkTo("/jobs", { period: "1h" })}
      note="in the last 5 minutes"><${HourChart} bars=${bars("ended")} tone="done" /><//>
    <${Tile} title="Failed a minute" value=${failed.toFixed(1)} link=${linkTo("/jobs", { status: "failed", period: "1h" })} bad=${failed > 0}
      note="in the last 5 minutes"><${HourChart} bars=${bars("failed")} tone="failed" /><//>
  </div>`;
}

/** @param {{ stats: StatsItem[], models: Model[], aftermath: Aftermath | null }} props */
function Tiles({ stats, models, aftermath }) {
  const oldest = stats.filter((item) => item.oldest_waiting_at).sort((one, other) => Date.parse(`${one.oldest_waiting_at}`) - Date.parse(`${other.oldest_waiting_at}`))[0];
  const away = models.filter((model) => nameState(model) !== "ready");
  const troubles = aftermath?.troubles.length ?? 0;
  const dead = aftermath?.dead;
  return html`<div class="tiles">
    <${Tile} title="Oldest waiting job" value=${html`<${Since} at=${oldest?.oldest_waiting_at} />`} link=${linkTo("/jobs", { status: "queued", model: oldest?.model })}
      note=${oldest ? `for ${oldest.model}` : "nothing waits"} />
    <${Tile} title="Models ready" value=${`${models.length - away.length} of ${models.length}`} link=${linkTo("/models")} bad=${away.length > 0}
      note=${away.length ? `${formatCount(away.length)} not ready` : ""} />
    <${Tile} title="Webhooks in trouble" value=${aftermath ? `${troubles} of ${aftermath.webhooks.length}` : "…"} link=${linkTo("/webhooks", { state: troubles ? "trouble" : "" })} bad=${troubles > 0}
      note=${troubles ? "their deliveries fail" : ""} />
    <${Tile} title="Dead letters" value=${dead ? `${formatCount(dead.items.length)}${dead.next_cursor ? "+" : ""}` : "…"} link=${linkTo("/dead-letters")}
      bad=${Boolean(dead?.items.length)} note=${dead?.items.length ? "jobs that failed for good" : ""} />
    <${Saved} stats=${stats} />
  </div>`;
}

/**
 * Show how many inferences were saved, if there were any.
 * @param {{ stats: StatsItem[] }} props
 */
function Saved({ stats }) {
  const hits = stats.reduce((total, item) => total + item.last_60_minutes.hits, 0);
  const joins = stats.reduce((total, item) => total + item.last_60_minutes.joins, 0);
  if (!hits && !joins) return null;
  return html`<${Tile} title="Inferences saved" value=${formatCount(hits + joins)} link=${linkTo("/jobs", { status: "succeeded", period: "1h" })}
    note=${`in the last hour (hits: ${formatCount(hits)}, joins: ${formatCount(joins)})`} />`;
}

/**
 * @param {object} props
 * @param {string} props.title
 * @param {import("../../vendor/preact.js").Child} props.value
 * @param {string} props.link
 * @param {string} [props.note]
 * @param {boolean} [props.bad]
 * @param {import("../../vendor/preact.js").Child} [props.children] a chart
 */
function Tile({ title, value, link, note = "", bad = false, children }) {
  return html`<a class=${bad ? "tile bad" : "tile"} href=${link}><span>${title}</span><strong>${value}</strong><small>${note}</small>${children}</a>`;
}

/** @param {{ at: string | null | undefined }} props */
function Since({ at }) {
  const now = useNow();
  return html`${at ? formatDuration(Math.max(0, now - Date.parse(at))) : "–"}`;
}

/** @param {{ stats: StatsItem[], models: Model[] }} props */
function ByModel({ stats, models }) {
  if (!stats.length) return html`<${Empty}><p>No job waits or runs, and none ended in the last hour.</p><p><a class="button primary" href=${linkTo("/run")}>Run a model</a></p><//>`;
  const stateOf = (/** @type {string} */ name) => models.find((model) => model.name === name);
  return html`<section>
    <h2>By model, in the last hour</h2>
    <div class="scroll" tabindex="0" role="region" aria-label="By model">
      <table class="list">
        <thead><tr><th scope="col">Model</th><th scope="col" class="wide">Priority</th><th scope="col">State</th>
          <th scope="col" class="number">Waiting</th><th scope="col" class="number">Running</th><th scope="col" class="number">Ended</th>
          <th scope="col" class="number wide">Failed</th><th scope="col" class="number wide">Waited p95</th><th scope="col" class="number wide">Ran p95</th></tr></thead>
        <tbody>
          ${stats.map((item) => {
            const model = stateOf(item.model);
            const hour = item.last_60_minutes;
            return html`<tr key=${`${item.model} ${item.priority}`}>
              <td><a href=${linkTo(`/models/${encodeURIComponent(item.model)}`)} data-row>${item.model}</a></td>
              <td class="wide">${item.priority}</td>
              <td><${StatusBadge} of=${model ? nameState(model) : "away"} /></td>
              <td class="number">${formatCount(item.waiting)}</td>
              <td class="number">${formatCount(item.running)}</td>
              <td class="number">${formatCount(hour.ended)}</td>
              <td class="number wide">${formatCount(hour.failed)}</td>
              <td class="number wide">${formatDuration(hour.queue_ms.p95)}</td>
              <td class="number wide">${formatDuration(hour.inference_ms.p95)}</td>
            </tr>`;
          })}
        </tbody>
      </table>
    </div>
  </section>`;
}
