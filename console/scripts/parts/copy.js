// A text that can be copied.

import { html, useState } from "../../vendor/preact.js";

const SHOWN_MS = 1_500;

/** @param {{ text: string, label?: string }} props */
export function CopyButton({ text, label = "Copy" }) {
  const [done, setDone] = useState(false);
  async function copy() {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), SHOWN_MS);
  }
  return html`<button type="button" class="small" onClick=${copy}>${done ? "Copied" : label}</button>`;
}

/** @param {{ text: string, label: string }} props a block of code, and what it is */
export function CodeBlock({ text, label }) {
  return html`<div class="code">
    <${CopyButton} text=${text} />
    <pre tabindex="0" aria-label=${label}><code>${text}</code></pre>
  </div>`;
}
