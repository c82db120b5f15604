// What can be done with a job in each status. Pure.

/** @typedef {import("./types.js").Status} Status */

/** @type {Status[]} */
const ENDED = ["succeeded", "failed", "canceled", "expired"];

/** @param {Status} status */
export function hasEnded(status) {
  return ENDED.includes(status);
}

/**
 * Whether a cancel changes something. A job that is canceling already ends by itself.
 * @param {Status} status
 */
export function canCancel(status) {
  return status === "queued" || status === "processing";
}

/** @param {Status} status */
export function canRetry(status) {
  return hasEnded(status) && status !== "succeeded";
}
