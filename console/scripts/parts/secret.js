// A secret that is shown once.

import { html } from "../../vendor/preact.js";
import { CodeBlock } from "./copy.js";

/** @param {{ text: string | undefined, label: string }} props */
export function FreshSecret({ text, label }) {
  if (!text) return null;
  return html`<div class="panel fresh" role="status">
    <p><strong>${label}</strong> Copy it now: it is not shown again.</p>
    <${CodeBlock} text=${text} label=${label} />
  </div>`;
}
