// The subscriptions of a tenant with their health, and a form for a new one.

import { html, useState } from "../../vendor/preact.js";
import { call } from "../api.js";
import { formatCount, formatDuration, formatShare } from "../format.js";
import { useLoad } from "../load.js";
import { linkTo, navigate, useLocation } from "../navigation.js";
import { List } from "../parts/list.js";
import { Empty, Show, Trouble } from "../parts/notices.js";
import { Pager } from "../parts/pager.js";
import { Age } from "../parts/time.js";
import { WebhookForm } from "../parts/webhook_form.js";
import { HealthBadge } from "../parts/webhook_health.js";
import { rememberWarnings } from "../parts/webhook_warnings.js";
import { rememberSecret } from "../secrets.js";
import { judgeWebhook } from "../webhook_health.js";

const PAGE_SIZE = 100; // one call reads them, and one their health
const REFRESH_MS = 30_000;

/** @typedef {import("../types.js").Webhook} Webhook */
/** @typedef {import("../types.js").WebhookHealth} WebhookHealth */
/** @typedef {{ webhook: Webhook, health: WebhookHealth | undefined }} Row */

/** @type {import("../parts/list.js").Column[]} */
const WEBHOOK_COLUMNS = [
  { title: "URL", cell: (/** @type {Row} */ { webhook }) => html`<span class="url short" title=${webhook.url}>${webhook.url}</span>` },
  { title: "State", cell: (/** @type {Row} */ row) => html`<${HealthBadge} ...${row} />` },
  { title: "Success 24 h", number: true, cell: (/** @type {Row} */ { health }) => (health ? formatShare(health.last_24_hours.success_rate) : "…") },
  { title: "p95 24 h", number: true, wide: true, cell: (/** @type {Row} */ { health }) => (health ? formatDuration(health.last_24_hours.duration_ms.p95) : "…") },
  { title: "Pending", number: true, wide: true, cell: (/** @type {Row} */ { health }) => (health ? html`<${Pending} health=${health} />` : "…") },
  { title: "Failed 24 h", number: true, wide: true, cell: (/** @type {Row} */ { health }) => (health ? html`<${Failed} health=${health} />` : "…") },
  { title: "Events", wide: true, cell: (/** @type {Row} */ { webhook }) => html`<span class="reason">${describeEvents(webhook)}</span>` },
];

export function WebhooksPage() {
  const { query } = useLocation();
  const cursor = query.get("cursor");
  const [open, setOpen] = useState(false);
  const page = useLoad((signal) => call("GET", "/v1/webhooks", { query: { limit: PAGE_SIZE, cursor }, signal }), [cursor], { every: REFRESH_MS });
  const health = useLoad((signal) => call("GET", "/v1/webhooks/health", { query: { limit: PAGE_SIZE, cursor }, signal }), [cursor], { every: REFRESH_MS });
  const create = html`<button type="button" class="primary" onClick=${() => setOpen(true)}>New subscription</button>`;
  async function save(/** @type {Record<string, unknown>} */ body) {
    const made = /** @type {Webhook} */ (await call("POST", "/v1/webhooks", { body }));
    rememberWarnings(made);
    rememberSecret(made.id, made.secret ?? made.public_key ?? "");
    navigate(linkTo(`/webhooks/${made.id}`));
  }
  return html`<h1>Webhooks</h1>
    <${Show} of=${page}>
      ${(/** @type {import("../types.js").Page<Webhook>} */ value) =>
        value.items.length || cursor
          ? html`<p>${create}</p><${Trouble} error=${health.error} retry=${health.reload} />
              <${Subscriptions} webhooks=${value.items} healths=${health.value?.items ?? []} onlyTrouble=${query.get("state") === "trouble"} cursor=${cursor} />
              <${Pager} path="/webhooks" filter=${{ state: query.get("state") }} cursor=${cursor} next=${value.next_cursor} first="First" />`
          : html`<${Empty}><p>There are no subscriptions yet. Charonia sends events to the URL of each.</p><p>${create}</p><//>`}
    <//>
    ${open && html`<${WebhookForm} title="New subscription" button="Create" save=${save} onClose=${() => setOpen(false)} />`}`;
}

/** @param {{ webhooks: Webhook[], healths: WebhookHealth[], onlyTrouble: boolean, cursor: string | null }} props */
function Subscriptions({ webhooks, healths, onlyTrouble, cursor }) {
  const byId = new Map(healths.map((each) => [each.webhook_id, each]));
  const rows = webhooks.map((webhook) => ({ webhook, health: byId.get(webhook.id) }));
  const inTrouble = rows.filter(({ webhook, health }) => judgeWebhook(webhook, health).trouble);
  const chip = (/** @type {string} */ text, /** @type {number} */ count, /** @type {string} */ state, /** @type {boolean} */ chosen) =>
    html`<a class="chip" data-filter aria-current=${chosen ? "true" : undefined} href=${linkTo("/webhooks", { state, cursor })}>${text} <strong>${formatCount(count)}</strong></a>`;
  return html`<p class="chips" role="group" aria-label="Filter">${chip("All on this page", rows.length, "", !onlyTrouble)} ${chip("In trouble", inTrouble.length, "trouble", onlyTrouble)}</p>
    ${onlyTrouble && !inTrouble.length
      ? html`<${Empty}><p>No subscription on this page is in trouble.</p><//>`
      : html`<${List} label="Subscriptions" columns=${WEBHOOK_COLUMNS} rows=${onlyTrouble ? inTrouble : rows} idOf=${(/** @type {Row} */ row) => row.webhook.id}
          linkOf=${(/** @type {Row} */ row) => linkTo(`/webhooks/${row.webhook.id}`)} />`}`;
}

/**
 * @param {Webhook} webhook
 * @returns {string}
 */
function describeEvents({ description, events, models }) {
  return `${description ? `${description}: ` : ""}${events.join(", ")}${models ? ` of ${models.join(", ")}` : ""}`;
}

/** @param {{ health: WebhookHealth }} props */
function Pending({ health }) {
  if (!health.pending) return html`<span class="faint">0</span>`;
  return html`<a href=${linkTo(`/webhooks/${health.webhook_id}`, { status: "pending" })}>${formatCount(health.pending)}${health.counted_since && "+"}</a>
    ${health.oldest_due_at && html` <small class="faint">due <${Age} at=${health.oldest_due_at} /></small>`}`;
}

/** @param {{ health: WebhookHealth }} props */
function Failed({ health }) {
  const { failed } = health.last_24_hours;
  if (!failed) return html`<span class="faint">0</span>`;
  return html`<a class="bad" href=${linkTo(`/webhooks/${health.webhook_id}`, { status: "exhausted" })}>${formatCount(failed)}</a>`;
}
