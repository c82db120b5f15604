// A text of any length, which takes a limited part of the page.

import { html } from "../../vendor/preact.js";

const LONG = 1_500; // characters; more may be higher than the part

/** @param {{ text: string, label: string, code?: boolean }} props `label` says what it is, if people have to scroll */
export function LongText({ text, label, code = false }) {
  const kind = code ? "text code-text" : "text";
  if (text.length <= LONG) return html`<div class=${kind}>${text}</div>`;
  return html`<div class="${kind} tall" tabindex="0" role="region" aria-label=${label}>${text}</div>`;
}
