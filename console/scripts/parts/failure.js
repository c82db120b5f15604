// Why a job failed, and what to do about it.

import { html } from "../../vendor/preact.js";
import { adviseOn } from "../advice.js";
import { linkTo } from "../navigation.js";

/** @param {{ job: import("../types.js").Job }} props a job that failed, or whose latest attempt did */
export function Failure({ job }) {
  if (!job.error) return null;
  const { code, message } = job.error;
  return html`<div class="trouble" role="alert">
    <p><code>${code}</code>: ${message}</p>
    ${adviseOn(code) && html`<p>${adviseOn(code)} ${code === "invalid_input" && html`<a href=${linkTo(`/models/${encodeURIComponent(job.model)}`)}>See the signature</a>`}</p>`}
  </div>`;
}
