// What was said in a conversation, each answer with its job.

import { html } from "../../vendor/preact.js";
import { formatCount } from "../format.js";
import { linkTo } from "../navigation.js";
import { Trouble } from "./notices.js";

/**
 * @typedef {object} Turn
 * @property {"user" | "assistant"} role
 * @property {string} text
 * @property {boolean} [busy] whether the model still writes
 * @property {string} [job]
 * @property {string} [reason] why the answer ended, or "stopped"
 * @property {{ prompt_tokens: number, completion_tokens: number }} [usage]
 * @property {Error} [error]
 */

/** @type {Record<string, string>} */
const ENDS = { stopped: "stopped; the job is canceled", length: "cut at the limit of tokens" };

/**
 * @param {Turn | undefined} turn
 * @returns {string} what there is to say of its end
 */
export function describeEnd(turn) {
  if (!turn || turn.busy || turn.role === "user") return "";
  return turn.error ? "The answer failed." : `The answer has ended${turn.reason && ENDS[turn.reason] ? `: ${ENDS[turn.reason]}` : ""}.`;
}

/** @param {{ turns: Turn[] }} props */
export function Turns({ turns }) {
  return html`<ol class="turns" aria-label="Conversation">
    ${turns.map((turn) => html`<li class=${turn.role}>
      <strong>${turn.role === "user" ? "You" : "Model"}</strong>
      <div class="text">${turn.text}${turn.busy && html`<span class="cursor" aria-hidden="true">▍</span>`}</div>
      ${turn.error && html`<${Trouble} error=${turn.error} />`}
      ${turn.role === "assistant" && html`<${Facts} turn=${turn} />`}
    </li>`)}
  </ol>`;
}

/** @param {{ turn: Turn }} props */
function Facts({ turn }) {
  const { job, usage, reason } = turn;
  return html`<small class="faint">
    ${job && html`<a href=${linkTo(`/jobs/${job}`)}>Open the job</a>`}
    ${usage && html`<span>${formatCount(usage.prompt_tokens)} + ${formatCount(usage.completion_tokens)} tokens</span>`}
    ${reason && ENDS[reason] && html`<span>${ENDS[reason]}</span>`}
  </small>`;
}
