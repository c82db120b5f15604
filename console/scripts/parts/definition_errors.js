// The faults of a definition, each with its place in the text.

import { html } from "../../vendor/preact.js";
import { ApiError } from "../api.js";
import { findPlace } from "../json_places.js";
import { Trouble } from "./notices.js";

/** @param {{ error: Error | null, text: string, select: (place: import("../json_places.js").TextPlace) => void }} props */
export function DefinitionErrors({ error, text, select }) {
  const errors = error instanceof ApiError ? error.errors.filter((each) => each.pointer.startsWith("/")) : [];
  if (!errors.length) return html`<${Trouble} error=${error} />`;
  return html`<div class="trouble" role="alert">
    <ul class="faults">
      ${errors.map((each) => {
        const place = findPlace(text, each.pointer);
        return html`<li><button type="button" class="small" onClick=${() => select(place)}>line ${place.line}</button> <code>${each.pointer}</code>: ${each.detail}</li>`;
      })}
    </ul>
  </div>`;
}
