// Tensors as people read them: text as text, numbers as a table, images as images.

import { html, useMemo } from "../../vendor/preact.js";
import { formatNoun } from "../format.js";
import { decodeBase64, findBoxes, joinPieces, joinResponses, toRows } from "../tensors.js";
import { LongText } from "./long_text.js";
import { MediaView } from "./media.js";
import { Bytes, TensorFile } from "./tensor_file.js";

const MAX_ROWS = 50;
const MAX_COLUMNS = 16;

/** @typedef {import("../types.js").TensorView} TensorView */
/** @typedef {import("../tensors.js").Joined} Joined */
/** @typedef {import("../tensors.js").Box} Box */

/** @param {{ outputs: TensorView[], image?: Blob | null }} props all outputs of a job, and the image they describe */
export function Outputs({ outputs, image = null }) {
  return html`${image && html`<${MediaView} blob=${image} label="the input image" boxes=${findBoxes(outputs)} />`}
    <${Tensors} kind="output" tensors=${joinResponses(outputs)} />`;
}

/** @param {{ kind: "input" | "output", tensors: Joined[], boxes?: Box[] }} props `boxes` to draw over each image */
export function Tensors({ kind, tensors, boxes = [] }) {
  return html`${tensors.map((tensor, index) => html`<section key=${index} class="tensor">
    <h3><span class="name" title=${tensor.name}>${tensor.name}</span> <small>${tensor.datatype} [${tensor.shape.join(", ")}]</small></h3>
    <${TensorData} tensor=${tensor} label=${`${kind} ${index + 1}, ${tensor.name}`} boxes=${boxes} />
  </section>`)}`;
}

/** @param {{ tensor: Joined, label: string, boxes: Box[] }} props */
function TensorData({ tensor, label, boxes }) {
  if (tensor.location) return html`<p>In your bucket: <code class="url">${tensor.location}</code></p>`;
  if (tensor.url) return html`<p>Read at each attempt from <code class="url">${tensor.url}</code></p>`;
  if (!tensor.data) return html`<${TensorFile} tensor=${tensor} boxes=${boxes} />`;
  if (!tensor.data.length) return html`<p class="faint">no elements</p>`;
  if (tensor.datatype === "BYTES") return html`<${BytesData} tensor=${tensor} boxes=${boxes} />`;
  return html`<${NumberTable} tensor=${tensor} label=${label} />`;
}

/** @param {{ tensor: Joined, boxes: Box[] }} props */
function BytesData({ tensor: { data = [], name, responses }, boxes }) {
  const text = responses ? joinPieces(data) : null;
  if (text !== null) return html`<p class="text">${text}</p>`;
  const shown = cut(data, responses);
  return html`<ul class="elements">
      ${shown.map((element) => html`<li>${typeof element === "string" ? html`<${LongText} text=${element} label=${`Text of ${name}`} />` : html`<${Encoded} text=${element.base64} name=${name} boxes=${boxes} />`}</li>`)}
    </ul>
    <${Rest} shown=${shown.length} of=${data.length} noun=${responses ? "earlier element" : "element"} />`;
}

/**
 * @template T
 * @param {T[]} elements
 * @param {number} [responses] of a stream, whose newest are worth seeing
 * @returns {T[]} not too many of them
 */
function cut(elements, responses) {
  return responses ? elements.slice(-MAX_ROWS) : elements.slice(0, MAX_ROWS);
}

/** @param {{ text: string, name: string, boxes: Box[] }} props bytes in base64 */
function Encoded({ text, name, boxes }) {
  const bytes = useMemo(() => decodeBase64(text), [text]);
  return html`<${Bytes} bytes=${bytes} name=${name} boxes=${boxes} />`;
}

/** @param {{ tensor: Joined, label: string }} props */
function NumberTable({ tensor, label }) {
  const rows = toRows(/** @type {any[]} */ (tensor.data), tensor.shape);
  const shown = cut(rows, tensor.responses);
  const begin = tensor.responses ? rows.length - shown.length : 0;
  const columns = Math.max(...shown.map((row) => row.length));
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`values of ${label}`}>
      <table class="values">
        <tbody>
          ${shown.map((row, index) => html`<tr>
            <th scope="row">${begin + index}</th>
            ${row.slice(0, MAX_COLUMNS).map((value) => html`<td class="number">${String(value)}</td>`)}
            ${columns > MAX_COLUMNS && html`<td class="faint">… ${formatNoun(columns - MAX_COLUMNS, "more column")}</td>`}
          </tr>`)}
        </tbody>
      </table>
    </div>
    <${Rest} shown=${shown.length} of=${rows.length} noun=${tensor.responses ? "earlier row" : "row"} />`;
}

/** @param {{ shown: number, of: number, noun: string }} props */
function Rest({ shown, of, noun }) {
  return shown < of ? html`<p class="faint">${formatNoun(of - shown, noun)} more. The API has all of them.</p>` : null;
}
