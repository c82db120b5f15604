// What happened to a job, in order. Pure.

import { formatDuration } from "./format.js";

const LONGEST_URL = 100; // characters; the delivery has the whole URL
const RUN = "pipeline"; // in place of a dispatcher: a run has jobs in several

/** @typedef {import("./types.js").Attempt} Attempt */

/**
 * @typedef {object} JobEvent
 * @property {string} type
 * @property {string} timestamp
 * @property {any} data
 */

/**
 * @typedef {object} SendAttempt
 * @property {number} number
 * @property {string} started_at
 * @property {number} duration_ms
 * @property {number | null} status_code
 * @property {import("./types.js").AttemptFailure | null} error
 * @property {string} response
 */

/**
 * @typedef {object} Delivery
 * @property {string} id
 * @property {string} event_type
 * @property {string | null} job_id
 * @property {string | null} webhook_id
 * @property {string} url
 * @property {string} status
 * @property {string} created_at
 * @property {string | null} next_attempt_at
 * @property {string | null} finished_at
 * @property {SendAttempt[]} attempts
 */

/**
 * @typedef {object} Entry
 * @property {number} at in ms since 1970
 * @property {string} title
 * @property {string} detail
 * @property {string} [delivery] its id, for an attempt to send it
 * @property {"quiet" | "busy" | "good" | "warn" | "bad"} tone
 */

/** @typedef {{ kind: "waited" | "ran", from: number, to: number }} Phase times in ms since 1970 */

/**
 * @param {JobEvent[]} events of one job, oldest first
 * @param {Delivery[]} deliveries
 * @param {Attempt[]} [attempts] that have ended. They say which dispatcher ran, and for how long
 * @returns {Entry[]} oldest first; outputs of a stream are counted in one entry an attempt
 */
export function listEntries(events, deliveries, attempts = []) {
  const ends = new Map(attempts.map((attempt) => [attempt.finished_at, attempt]));
  /** @type {Entry[]} */
  const entries = [];
  /** @type {Entry | null} */
  let outputs = null;
  let count = 0;
  const isRun = events.some(({ type }) => type.startsWith("step."));
  let starts = 0;
  for (const event of joinStepEnds(events)) {
    const at = Date.parse(event.timestamp);
    if (isRun && event.type === "job.started") {
      starts += 1;
      entries.push({ at, title: starts === 1 ? "The run began" : "The run goes on", detail: "", tone: "busy" });
      continue;
    }
    if (event.type !== "job.output") {
      entries.push({ at, ...describeEvent(event, event === events[0], ends.get(event.timestamp)) });
      outputs = null;
    } else if (outputs) {
      count += 1;
      outputs.title = `${count} outputs`;
    } else {
      count = 1;
      outputs = { at, title: "First output", detail: "", tone: "busy" };
      entries.push(outputs);
    }
  }
  for (const delivery of deliveries) {
    for (const attempt of delivery.attempts) entries.push(describeSending(delivery, attempt));
  }
  return entries.sort((one, other) => one.at - other.at);
}

/**
 * @param {JobEvent} event
 * @param {boolean} isFirst
 * @param {Attempt} [attempt] that ended with it
 * @returns {{ title: string, detail: string, tone: Entry["tone"] }}
 */
function describeEvent({ type, data }, isFirst, attempt) {
  const problem = data.error ? `${data.error.code}: ${data.error.message}` : "";
  const detail = [problem, attempt && describeAttempt(attempt)].filter(Boolean).join(" · ");
  switch (type) {
    case "job.queued":
      if (attempt?.status === "returned") return { title: "The attempt does not count; the job waits again", detail, tone: "warn" };
      if (problem) return { title: "The attempt failed; the job waits again", detail, tone: "warn" };
      return { title: isFirst ? "Submitted" : "Retried: waits again", detail, tone: "quiet" };
    case "job.started":
      return { title: `Attempt ${data.attempt} began`, detail: data.model ?? "", tone: "busy" };
    case "step.started":
      return { title: `Step ${data.step} began`, detail: data.total === 1 ? "" : `${data.total} jobs`, tone: "busy" };
    case "step.succeeded":
      return { title: data.done < data.total ? `Step ${data.step}: ${data.done} of ${data.total} jobs succeeded` : `Step ${data.step} succeeded`, detail: "", tone: "good" };
    case "step.canceled":
      return { title: `Step ${data.step} was canceled`, detail: "", tone: "quiet" };
    case "step.failed":
      return { title: `Step ${data.step} failed`, detail: "", tone: "bad" };
    case "job.canceling":
      return { title: "Cancel was asked for", detail: "", tone: "quiet" };
    case "job.succeeded":
      return { title: "Succeeded", detail, tone: "good" };
    case "job.failed":
      return { title: "Failed", detail, tone: "bad" };
    case "job.canceled":
      return { title: "Canceled", detail, tone: "quiet" };
    case "job.expired":
      return { title: "Expired before it could start", detail, tone: "warn" };
    default:
      return { title: type, detail, tone: "quiet" };
  }
}

/**
 * @param {JobEvent[]} events
 * @returns {JobEvent[]} of the jobs of a step that succeeded, only the latest one, with how many these are of how many
 */
function joinStepEnds(events) {
  const isEnd = (/** @type {JobEvent} */ event) => event.type === "step.succeeded";
  const ends = events.filter(isEnd);
  const last = new Map(ends.map((event) => [event.data.step, event]));
  const totals = new Map(events.filter((event) => event.type === "step.started").map(({ data }) => [data.step, data.total]));
  return events
    .filter((event) => !isEnd(event) || last.get(event.data.step) === event)
    .map((event) => {
      if (!isEnd(event)) return event;
      const { step } = event.data;
      return { ...event, data: { ...event.data, done: ends.filter((each) => each.data.step === step).length, total: totals.get(step) } };
    });
}

/** @param {Attempt} attempt */
function describeAttempt({ worker, duration_ms, count }) {
  if (worker === RUN) return `took ${formatDuration(duration_ms)}`;
  const times = count > 1 ? `, ${count} times in a row` : "";
  return `ran ${formatDuration(duration_ms)} on ${worker}${times}`;
}

/**
 * @param {Delivery} delivery
 * @param {SendAttempt} attempt
 * @returns {Entry}
 */
function describeSending(delivery, attempt) {
  const good = attempt.error === null;
  const answer = attempt.status_code === null ? `gave no answer (${attempt.error?.code})` : `answered ${attempt.status_code}`;
  return {
    at: Date.parse(attempt.started_at),
    title: good ? `Webhook ${delivery.event_type} delivered` : `Webhook ${delivery.event_type} failed, attempt ${attempt.number}`,
    detail: `${shorten(delivery.url)} ${answer} after ${attempt.duration_ms} ms`,
    delivery: delivery.id,
    tone: good ? "good" : "warn",
  };
}

/** @param {string} url */
function shorten(url) {
  return url.length > LONGEST_URL ? `${url.slice(0, LONGEST_URL)}…` : url;
}

/**
 * @param {JobEvent[]} events of one job, oldest first
 * @param {number} now in ms since 1970, the end of a phase that lasts
 * @returns {Phase[]} when the job waited, and when it ran
 */
export function listPhases(events, now) {
  /** @type {Phase[]} */
  const phases = [];
  for (const event of events) {
    const kind = event.type === "job.queued" ? "waited" : event.type === "job.started" ? "ran" : null;
    if (!kind && !/^job\.(succeeded|failed|canceled|expired)$/.test(event.type)) continue;
    const at = Date.parse(event.timestamp);
    const last = phases[phases.length - 1];
    if (last && last.to === Infinity) last.to = Math.max(at, last.from);
    if (kind) phases.push({ kind, from: at, to: Infinity });
  }
  return phases.map((phase) => (phase.to === Infinity ? { ...phase, to: Math.max(now, phase.from) } : phase));
}
