// What a part of a page says while it has nothing else to show.

import { html } from "../../vendor/preact.js";
import { ApiError, isTransient } from "../api.js";

/** @param {{ children?: import("../../vendor/preact.js").Child }} props */
export function Empty({ children }) {
  return html`<div class="empty">${children}</div>`;
}

export function Loading() {
  return html`<p class="loading" role="status">Loading …</p>`;
}

/** @param {{ error: Error | null, retry?: () => void }} props `retry` is offered unless the API would refuse it again */
export function Trouble({ error, retry }) {
  if (!error) return null;
  const errors = error instanceof ApiError ? error.errors : [];
  const mayPass = !(error instanceof ApiError) || isTransient(error);
  return html`<div class="trouble" role="alert">
    <p>${error.message}</p>
    ${errors.length > 1 && html`<ul>${errors.map((each) => html`<li><code>${each.pointer}</code>: ${each.detail}</li>`)}</ul>`}
    ${retry && mayPass && html`<button type="button" onClick=${retry}>Try again</button>`}
  </div>`;
}

/**
 * Show the first value of a read, or why there is none yet.
 * @param {{ of: import("../load.js").Loaded<any>, children: (value: any) => import("../../vendor/preact.js").Child }} props
 */
export function Show({ of, children }) {
  if (of.value === null) return of.error ? html`<${Trouble} error=${of.error} retry=${of.reload} />` : html`<${Loading} />`;
  return html`${of.error && html`<${Trouble} error=${of.error} retry=${of.reload} />`}${children(of.value)}`;
}
