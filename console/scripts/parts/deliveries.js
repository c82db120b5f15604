// Deliveries: each with what was sent and every answer. Those that are selected can be sent again.

import { html, useState } from "../../vendor/preact.js";
import { call } from "../api.js";
import { readJson, writeJson } from "../exact_json.js";
import { formatBytes, formatDuration, formatNoun } from "../format.js";
import { useLoad } from "../load.js";
import { linkTo } from "../navigation.js";
import { CodeBlock } from "./copy.js";
import { Ask } from "./dialog.js";
import { Show } from "./notices.js";
import { StatusBadge } from "./status.js";
import { Age } from "./time.js";

const SHOWN_CHARACTERS = 20_000; // of a body

/** @typedef {import("../timeline.js").Delivery} Delivery */
/** @typedef {import("../timeline.js").SendAttempt} SendAttempt */
/** @typedef {{ sent: number, failures: string[] }} Resent */

/** @param {{ items: Delivery[], named?: boolean, reload: () => void, onResent: (result: Resent) => void }} props one page; whether each says where it goes */
export function Deliveries({ items, named = false, reload, onResent }) {
  const [chosen, setChosen] = useState(/** @type {Set<string>} */ (new Set()));
  const present = items.map((item) => item.id).filter((id) => chosen.has(id));
  const all = present.length === items.length;
  const toggle = (/** @type {string} */ id) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    setChosen(next);
  };
  async function resend() {
    onResent(await redeliverAll(present));
    setChosen(new Set());
    reload();
  }
  return html`<div class="selection" role="group" aria-label="Send again">
      <label class="line"><input type="checkbox" checked=${all} onChange=${() => setChosen(new Set(all ? [] : items.map((item) => item.id)))} /> Select all ${items.length}</label>
      <${Ask} label=${present.length ? `Send ${present.length} again` : "Send selected again"} disabled=${!present.length}
        question=${`Send ${formatNoun(present.length, "delivery", "deliveries")} again, each under the same id?`} act=${resend} />
    </div>
    <ul class="deliveries">${items.map((delivery) => html`<${DeliveryItem} key=${delivery.id} delivery=${delivery} named=${named} selected=${chosen.has(delivery.id)} toggle=${() => toggle(delivery.id)} reload=${reload} />`)}</ul>`;
}

/** @param {{ result: Resent | null }} props It stays when those that were sent leave the list. */
export function ResentNote({ result }) {
  if (!result) return null;
  const { sent, failures } = result;
  return html`<p role="status">${formatNoun(sent, "delivery is", "deliveries are")} being sent again.</p>
    ${failures.length > 0 && html`<div class="trouble" role="alert"><p>${formatNoun(failures.length, "delivery was", "deliveries were")} not sent: ${failures[0]}</p></div>`}`;
}

/**
 * @param {string[]} ids
 * @returns {Promise<Resent>} one after the other, oldest first; a failure ends none of the others
 */
async function redeliverAll(ids) {
  /** @type {Resent} */
  const result = { sent: 0, failures: [] };
  for (const id of [...ids].reverse()) {
    try {
      await call("POST", `/v1/deliveries/${id}/redeliver`);
      result.sent += 1;
    } catch (error) {
      result.failures.push(/** @type {Error} */ (error).message);
    }
  }
  return result;
}

/** @param {{ delivery: Delivery, named: boolean, selected: boolean, toggle: () => void, reload: () => void }} props */
function DeliveryItem({ delivery, named, selected, toggle, reload }) {
  const [open, setOpen] = useState(false);
  const last = delivery.attempts[delivery.attempts.length - 1];
  return html`<li id=${delivery.id} class=${selected ? "selected" : undefined}>
    <input type="checkbox" aria-label=${`Select ${delivery.id}`} checked=${selected} onChange=${toggle} />
    <details onToggle=${(/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.target).open)}>
      <summary data-row>
        <${StatusBadge} of=${delivery.status} /> <strong>${delivery.event_type}</strong> <${Age} at=${delivery.created_at} />
        <span class="faint">${formatNoun(delivery.attempts.length, "attempt")}${last?.error && html`, last <code>${last.status_code ?? last.error.code}</code>`}</span>
        ${delivery.next_attempt_at && html`<span class="faint">${Date.parse(delivery.next_attempt_at) > Date.now() ? "next" : "due"} <${Age} at=${delivery.next_attempt_at} /></span>`}
        ${named && html`<span class="url short faint" title=${delivery.url}>${delivery.url}</span>`}
      </summary>
      ${open && html`<${DeliveryDetails} listed=${delivery} reload=${reload} />`}
    </details>
  </li>`;
}

/** @param {{ listed: Delivery, reload: () => void }} props as the list has it: each response is cut */
function DeliveryDetails({ listed, reload }) {
  const path = `/v1/deliveries/${listed.id}`;
  const full = useLoad((signal) => call("GET", path, { signal }), [listed.id, listed.status, listed.attempts.length]);
  const redeliver = async () => {
    await call("POST", `${path}/redeliver`);
    reload();
  };
  const shown = /** @type {Delivery} */ (full.value ?? listed);
  return html`<dl class="facts">
      <div><dt>Delivery</dt><dd><code>${listed.id}</code></dd></div>
      <div><dt>Sent to</dt><dd class="url">${listed.url}</dd></div>
      ${listed.job_id && html`<div><dt>Job</dt><dd><a href=${linkTo(`/jobs/${listed.job_id}`)}><code>${listed.job_id}</code></a></dd></div>`}
    </dl>
    <h3>Request</h3>
    <${SentBody} path=${path} id=${listed.id} />
    <h3>${shown.attempts.length ? "Responses" : "No attempt yet"}</h3>
    <ol class="attempts" aria-label=${`Attempts of ${listed.id}`}>${shown.attempts.map((attempt) => html`<${AttemptItem} key=${attempt.number} attempt=${attempt} />`)}</ol>
    <div class="actions"><${Ask} label="Send again" question="Send this delivery again, under the same id?" act=${redeliver} /></div>`;
}

/** @param {{ path: string, id: string }} props of the delivery */
function SentBody({ path, id }) {
  const sent = useLoad((signal) => call("GET", `${path}/body`, { signal }), [id]);
  return html`<${Show} of=${sent}>
    ${(/** @type {{ body: string }} */ { body }) => html`<p class="faint">POST with <code>webhook-id: ${id}</code>, a timestamp and a signature of each attempt, and this body:</p>
      <${CodeBlock} text=${indent(body)} label="Body of the request" />`}
  <//>`;
}

/**
 * @param {string} body
 * @returns {string} easier to read, and cut if it is long
 */
function indent(body) {
  if (body.length > SHOWN_CHARACTERS) return `${body.slice(0, SHOWN_CHARACTERS)}\n… ${formatBytes(body.length - SHOWN_CHARACTERS)} more`;
  try {
    return writeJson(readJson(body), 2);
  } catch {
    return body;
  }
}

/** @param {{ attempt: SendAttempt }} props */
function AttemptItem({ attempt }) {
  return html`<li class="attempt">
    <p><strong>Attempt ${attempt.number}</strong> <${Age} at=${attempt.started_at} />
      <span class="badge ${attempt.error ? "bad" : "good"}">${attempt.status_code ?? "no answer"}</span>
      ${attempt.error && html`<code title=${attempt.error.message}>${attempt.error.code}</code>`} <span class="faint">after ${formatDuration(attempt.duration_ms)}</span></p>
    ${attempt.response ? html`<${CodeBlock} text=${attempt.response} label=${`Response to attempt ${attempt.number}`} />` : html`<p class="faint">The response has no body.</p>`}
  </li>`;
}
