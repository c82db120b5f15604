// What the health of a subscription comes to, in words. Pure.

export const FAILING_SHARE = 0.9; // of attempts that succeed; below, a subscription is in trouble

/** @typedef {import("./types.js").Webhook} Webhook */
/** @typedef {import("./types.js").WebhookHealth} WebhookHealth */
/** @typedef {{ word: string, tone: "good" | "warn" | "bad" | "quiet", detail: string, trouble: boolean }} Verdict */

/** @type {Record<string, string>} */
const REASONS = {
  gone: "The receiver answered 410: it wants no more.",
  failing: "Every attempt failed for days.",
  manual: "Somebody disabled it.",
};

/**
 * @param {Webhook} webhook
 * @param {WebhookHealth | undefined} health undefined while it is not known
 * @returns {Verdict}
 */
export function judgeWebhook(webhook, health) {
  if (webhook.status === "disabled") {
    const manual = webhook.disabled_reason === "manual";
    return { word: "disabled", tone: manual ? "quiet" : "bad", detail: REASONS[webhook.disabled_reason ?? ""] ?? "", trouble: !manual };
  }
  if (!health) return { word: "enabled", tone: "quiet", detail: "", trouble: false };
  if (health.circuit === "open")
    return { word: "circuit open", tone: "bad", detail: "It failed too often in a row. Charonia tries one delivery now and then.", trouble: true };
  const { success_rate: rate } = health.last_60_minutes;
  const mostly = rate !== null && rate >= FAILING_SHARE;
  if (health.failing_since) return { word: "failing", tone: mostly ? "warn" : "bad", detail: "The latest attempt failed. Charonia tries again on schedule.", trouble: true };
  if (rate !== null && !mostly) return { word: "unsteady", tone: "warn", detail: "Many attempts of the last hour failed.", trouble: true };
  if (health.last_24_hours.success_rate === null) return { word: "no traffic", tone: "quiet", detail: "Nothing was sent in the last 24 hours.", trouble: false };
  return { word: "healthy", tone: "good", detail: "The latest attempt succeeded.", trouble: false };
}
