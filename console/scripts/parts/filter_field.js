// A text field of a filter. What somebody types into it stays while the page reads again.

import { html, useEffect, useState } from "../../vendor/preact.js";

/** @param {{ name: string, value: string, [attribute: string]: unknown }} props */
export function FilterField({ name, value, ...others }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const read = (/** @type {Event} */ event) => setText(/** @type {HTMLInputElement} */ (event.target).value);
  return html`<input name=${name} type="search" value=${text} placeholder="Any" spellcheck=${false} onInput=${read} ...${others} />`;
}
