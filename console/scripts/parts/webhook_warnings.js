// What the API found doubtful in the latest change of a subscription, such as a model that is unknown.

import { html } from "../../vendor/preact.js";

/** @type {Map<string, string[]>} by subscription */
const latestWarnings = new Map();

/** @param {import("../types.js").Webhook} webhook as the API answered the change */
export function rememberWarnings({ id, warnings }) {
  latestWarnings.set(id, (warnings ?? []).map((each) => each.detail));
}

/** @param {{ id: string }} props of the subscription */
export function WebhookWarnings({ id }) {
  const warnings = latestWarnings.get(id) ?? [];
  return html`${warnings.map((text) => html`<p class="warning" role="status">${text}</p>`)}`;
}
