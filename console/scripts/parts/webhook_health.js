// The health of a subscription, as a word and in numbers.

import { html } from "../../vendor/preact.js";
import { formatCount, formatDuration, formatShare } from "../format.js";
import { linkTo } from "../navigation.js";
import { FAILING_SHARE, judgeWebhook } from "../webhook_health.js";
import { Age } from "./time.js";

/** @typedef {import("../types.js").Webhook} Webhook */
/** @typedef {import("../types.js").WebhookHealth} WebhookHealth */

/** @param {{ webhook: Webhook, health: WebhookHealth | undefined }} props */
export function HealthBadge({ webhook, health }) {
  const verdict = judgeWebhook(webhook, health);
  return html`<span class="badge ${verdict.tone}" title=${verdict.detail || undefined}>${verdict.word}</span>`;
}

/** @param {{ webhook: Webhook, health: WebhookHealth }} props */
export function HealthNumbers({ webhook, health }) {
  const path = `/webhooks/${webhook.id}`;
  return html`<div class="tiles">
      <a class="tile" href=${linkTo(path, { status: "pending" })}><span>Pending</span><strong>${formatCount(health.pending)}</strong>
        <small>${health.oldest_due_at ? html`the oldest became due <${Age} at=${health.oldest_due_at} />` : "nothing is due"}</small></a>
      <${HealthTile} title="Last hour" window=${health.last_60_minutes} link=${linkTo(path)} />
      <${HealthTile} title="Last 24 hours" window=${health.last_24_hours} link=${linkTo(path)} />
      <a class=${health.last_24_hours.failed ? "tile bad" : "tile"} href=${linkTo(path, { status: "exhausted" })}><span>Failed for good</span>
        <strong>${formatCount(health.last_24_hours.failed)}</strong><small>in 24 hours; ${formatCount(health.last_60_minutes.failed)} in the last hour</small></a>
    </div>
    ${health.counted_since && html`<p class="hint">The numbers are of the newest deliveries, made since <${Age} at=${health.counted_since} />.</p>`}`;
}

/** @param {{ title: string, window: import("../types.js").DeliveryWindow, link: string }} props */
function HealthTile({ title, window, link }) {
  const { success_rate: rate, duration_ms: durations } = window;
  const bad = rate !== null && rate < FAILING_SHARE;
  return html`<a class=${bad ? "tile bad" : "tile"} href=${link}><span>${title}</span><strong>${formatShare(rate)}</strong>
    <small>${rate === null ? "nothing was sent" : `of attempts succeeded${durations.p50 === null ? "" : `; p50 ${formatDuration(durations.p50)}, p95 ${formatDuration(durations.p95)}`}`}</small></a>`;
}
