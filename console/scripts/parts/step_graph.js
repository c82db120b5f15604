// The steps of a pipeline as cards, with lines from those that a step needs.

import { html } from "../../vendor/preact.js";
import { layOutSteps } from "../step_layout.js";

/** @typedef {import("../../vendor/preact.js").Child} Child */

/**
 * @param {object} props
 * @param {Record<string, string[]>} props.needs for each step, the steps that it refers to
 * @param {(name: string) => Child} props.cardOf what is on a card below the name
 * @param {(name: string) => string | undefined} [props.linkOf] where a card leads to
 */
export function StepGraph({ needs, cardOf, linkOf }) {
  const { places, lines, width, height } = layOutSteps(needs);
  return html`<div class="scroll graph" tabindex="0" role="region" aria-label="Graph of the steps">
    <div style=${{ width: `${width}px`, height: `${height}px` }}>
      <svg width=${width} height=${height} aria-hidden="true">${lines.map((line) => html`<path d=${line} />`)}</svg>
      <ol>
        ${places.map(({ name, x, y }) => {
          const link = linkOf?.(name);
          return html`<li key=${name} style=${{ left: `${x}px`, top: `${y}px` }}>
            ${link ? html`<a href=${link} title=${name}>${name}</a>` : html`<strong title=${name}>${name}</strong>`}
            ${needs[name].length > 0 && html`<span class="hidden">after ${needs[name].join(", ")}</span>`}
            ${cardOf(name)}
          </li>`;
        })}
      </ol>
    </div>
  </div>`;
}
