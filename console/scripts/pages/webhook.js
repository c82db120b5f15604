// One subscription: its health, what changes it, and its deliveries.

import { html, useState } from "../../vendor/preact.js";
import { ApiError, call } from "../api.js";
import { useLoad } from "../load.js";
import { linkTo, navigate } from "../navigation.js";
import { Ask } from "../parts/dialog.js";
import { Empty, Show, Trouble } from "../parts/notices.js";
import { FreshSecret } from "../parts/secret.js";
import { Age } from "../parts/time.js";
import { WebhookDeliveries } from "../parts/webhook_deliveries.js";
import { WebhookForm } from "../parts/webhook_form.js";
import { HealthBadge, HealthNumbers } from "../parts/webhook_health.js";
import { rememberWarnings, WebhookWarnings } from "../parts/webhook_warnings.js";
import { takeSecret } from "../secrets.js";
import { judgeWebhook } from "../webhook_health.js";

const REFRESH_MS = 10_000;
const TEST_MS = 60_000;
const LONG = 80; // characters of a URL that the heading may cut, and of a description

/** @typedef {import("../types.js").Webhook} Webhook */
/** @typedef {import("../types.js").WebhookHealth} WebhookHealth */

/** @param {{ id: string }} props */
export function WebhookPage({ id }) {
  const [secret, setSecret] = useState(() => takeSecret(id));
  const path = `/v1/webhooks/${id}`;
  const webhook = useLoad((signal) => call("GET", path, { signal }), [id], { every: REFRESH_MS });
  const health = useLoad((signal) => call("GET", `${path}/health`, { signal }), [id], { every: REFRESH_MS });
  const reload = () => {
    webhook.reload();
    health.reload();
  };
  if (webhook.value === null && webhook.error instanceof ApiError && webhook.error.status === 404) return html`<${NoWebhook} id=${id} />`;
  return html`<p><a href=${linkTo("/webhooks")}>All webhooks</a></p>
    <${Show} of=${webhook}>
    ${(/** @type {Webhook} */ value) => html`
      <h1 class="url short" title=${value.url}>${value.url}</h1>
      <${FreshSecret} text=${secret} label=${value.signing === "hmac" ? "The secret that signs its webhooks." : "The public key that verifies its webhooks."} />
      <${WebhookState} webhook=${value} health=${health.value ?? undefined} />
      <${Show} of=${health}>${(/** @type {WebhookHealth} */ numbers) => html`<${HealthNumbers} webhook=${value} health=${numbers} />`}<//>
      <${WebhookFacts} webhook=${value} reload=${reload} onSecret=${setSecret} />
      <${WebhookDeliveries} webhook=${value} onChange=${health.reload} />`}
  <//>`;
}

/** @param {{ id: string }} props */
function NoWebhook({ id }) {
  return html`<${Empty}>
    <div role="alert">
      <h1>Webhook not found</h1>
      <p><code>${id}</code> never existed, was deleted, or belongs to another tenant.</p>
    </div>
    <p><a class="button primary" href=${linkTo("/webhooks")}>Go to the webhooks</a></p>
  <//>`;
}

/** @param {{ webhook: Webhook, health: WebhookHealth | undefined }} props */
function WebhookState({ webhook, health }) {
  const since = webhook.disabled_at ?? health?.failing_since;
  return html`<p class="headline"><${HealthBadge} webhook=${webhook} health=${health} />
    <span>${judgeWebhook(webhook, health).detail}${since && html` Since <${Age} at=${since} />.`}</span></p>`;
}

/** @param {{ webhook: Webhook, reload: () => void, onSecret: (secret: string | undefined) => void }} props */
function WebhookFacts({ webhook, reload, onSecret }) {
  return html`<section class="panel" aria-label="Subscription">
    <${WebhookWarnings} id=${webhook.id} />
    <dl class="facts">
      ${webhook.description && html`<div class=${webhook.description.length > LONG ? "long" : undefined}><dt>Description</dt><dd>${webhook.description}</dd></div>`}
      <div><dt>Events</dt><dd>${webhook.events.join(", ")}</dd></div>
      <div><dt>Models</dt><dd>${webhook.models?.join(", ") ?? "all"}</dd></div>
      ${webhook.headers && html`<div><dt>Headers sent along</dt><dd>${Object.keys(webhook.headers).join(", ")}</dd></div>`}
      <div><dt>Signed with</dt><dd>${webhook.signing}</dd></div>
      ${webhook.format === "openai" && html`<div><dt>In the words of</dt><dd>OpenAI's API</dd></div>`}
      ${webhook.public_key && html`<div><dt>Public key</dt><dd><code>${webhook.public_key}</code></dd></div>`}
      <div><dt>Rate limit</dt><dd>${webhook.rate_limit ? `${webhook.rate_limit} a second` : "none"}</dd></div>
      <div><dt>In order</dt><dd>${webhook.ordered ? "yes" : "no"}</dd></div>
      <div><dt>Made</dt><dd><${Age} at=${webhook.created_at} /></dd></div>
      ${webhook.url.length > LONG && html`<div class="long"><dt>URL</dt><dd class="url">${webhook.url}</dd></div>`}
      <div><dt>Id</dt><dd><code>${webhook.id}</code></dd></div>
    </dl>
    <${WebhookActions} webhook=${webhook} reload=${reload} onSecret=${onSecret} />
  </section>`;
}

/** @param {{ webhook: Webhook, reload: () => void, onSecret: (secret: string | undefined) => void }} props */
function WebhookActions({ webhook, reload, onSecret }) {
  const [changing, setChanging] = useState(false);
  const path = `/v1/webhooks/${webhook.id}`;
  const act = (/** @type {string} */ name) => async () => {
    await call("POST", `${path}/${name}`);
    reload();
  };
  async function rotate() {
    const changed = /** @type {Webhook} */ (await call("POST", `${path}/rotate`));
    onSecret(changed.secret ?? changed.public_key);
    reload();
  }
  async function save(/** @type {Record<string, unknown>} */ body) {
    rememberWarnings(await call("PATCH", path, { body }));
    reload();
  }
  async function remove() {
    await call("DELETE", path);
    navigate(linkTo("/webhooks"), true);
  }
  return html`<div class="actions">
      <${TestButton} path=${path} onDone=${reload} />
      <button type="button" onClick=${() => setChanging(true)}>Change</button>
      ${webhook.status === "disabled"
        ? html`<${Ask} label="Enable" question="Send events to this URL again? Events of the meantime are lost. Recover sends what was canceled." act=${act("enable")} />`
        : html`<${Ask} label="Disable" question="Send nothing more to this URL? What is pending is canceled. Recover can send it later." act=${act("disable")} />`}
      <${Ask} label="Rotate secret" question="Replace the secret? The old one signs for another day." act=${rotate} />
      <${Ask} label="Delete" danger question="Delete this subscription and its deliveries? This cannot be undone." act=${remove} />
    </div>
    ${changing && html`<${WebhookForm} title="Change the subscription" button="Save" webhook=${webhook} save=${save} onClose=${() => setChanging(false)} />`}`;
}

/** @param {{ path: string, onDone: () => void }} props of the subscription */
function TestButton({ path, onDone }) {
  const [state, setState] = useState(/** @type {{ busy: boolean, text: string, error: Error | null }} */ ({ busy: false, text: "", error: null }));
  async function test() {
    if (state.busy) return;
    setState({ busy: true, text: "", error: null });
    try {
      const result = await call("POST", `${path}/test`, { deadline: TEST_MS });
      const text = `${result.error?.code ?? "delivered"}: ${result.status_code ?? "no answer"} after ${result.duration_ms} ms`;
      setState({ busy: false, text: result.error ? "" : text, error: result.error ? new Error(text) : null });
    } catch (error) {
      setState({ busy: false, text: "", error: /** @type {Error} */ (error) });
    }
    onDone();
  }
  return html`<button type="button" class="primary" aria-disabled=${state.busy} onClick=${test}>${state.busy ? "Testing …" : "Send a test"}</button>
    ${state.text && html`<span role="status">${state.text}</span>`}<${Trouble} error=${state.error} />`;
}
