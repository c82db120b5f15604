// What does not work now: models that are not ready, and webhooks whose deliveries fail.

import { html } from "../../vendor/preact.js";
import { formatNoun } from "../format.js";
import { linkTo } from "../navigation.js";
import { nameState } from "../pages/models.js";
import { judgeWebhook } from "../webhook_health.js";
import { StatusBadge } from "./status.js";
import { Age } from "./time.js";
import { HealthBadge } from "./webhook_health.js";

const MOST_WEBHOOKS = 5; // that are listed

/** @type {Record<string, string>} */
const WHY = {
  paused: "an operator paused it",
  away: "no dispatcher can run it now",
};

/** @typedef {import("../types.js").Model} Model */
/** @typedef {import("../types.js").Webhook} Webhook */
/** @typedef {import("../types.js").WebhookHealth} WebhookHealth */

/** @typedef {{ webhook: Webhook, health: WebhookHealth | undefined }} WebhookTrouble */

/**
 * Return the webhooks in trouble, as the page of all webhooks finds them. Pure.
 * @param {Webhook[]} webhooks
 * @param {WebhookHealth[]} healths
 * @returns {WebhookTrouble[]}
 */
export function findTroubles(webhooks, healths) {
  const byId = new Map(healths.map((each) => [each.webhook_id, each]));
  return webhooks.map((webhook) => ({ webhook, health: byId.get(webhook.id) })).filter((each) => judgeWebhook(each.webhook, each.health).trouble);
}

/** @param {{ models: Model[], webhooks: WebhookTrouble[] }} props */
export function Troubles({ models, webhooks }) {
  const away = models.filter((model) => nameState(model) !== "ready");
  if (!away.length && !webhooks.length) return null;
  return html`<section class="panel troubles" aria-label="In trouble">
    <h2>In trouble</h2>
    <ul>
      ${away.map((model) => html`<li key=${model.name}><${StatusBadge} of=${nameState(model)} />
        <a href=${linkTo(`/models/${encodeURIComponent(model.name)}`)}>${model.name}</a> <small>${model.reason ?? WHY[nameState(model)]}</small></li>`)}
      ${webhooks.slice(0, MOST_WEBHOOKS).map((each) => html`<${WebhookItem} key=${each.webhook.id} ...${each} />`)}
      ${webhooks.length > MOST_WEBHOOKS && html`<li><a href=${linkTo("/webhooks", { state: "trouble" })}>${formatNoun(webhooks.length - MOST_WEBHOOKS, "more webhook")}</a></li>`}
    </ul>
  </section>`;
}

/** @param {WebhookTrouble} props */
function WebhookItem({ webhook, health }) {
  const since = webhook.disabled_at ?? health?.failing_since;
  return html`<li><${HealthBadge} webhook=${webhook} health=${health} />
    <a class="url short" href=${linkTo(`/webhooks/${webhook.id}`)}>${webhook.url}</a>
    <small>${judgeWebhook(webhook, health).detail}${since && html` Since <${Age} at=${since} />.`}</small></li>`;
}
