// The content of a tensor in a file: shown if it is a small image, sound or text, and always there to download.

import { html, useMemo } from "../../vendor/preact.js";
import { send } from "../api.js";
import { formatBytes } from "../format.js";
import { useLoad } from "../load.js";
import { detectMedia } from "../tensors.js";
import { LongText } from "./long_text.js";
import { MediaView, useBlobUrl } from "./media.js";

const MAX_SHOWN = 8 * 1_048_576; // bytes that are read without a click
const MAX_TEXT = 65_536; // bytes

/** @typedef {import("../types.js").TensorView} TensorView */

/** @param {{ tensor: TensorView, boxes?: import("../tensors.js").Box[] }} props a tensor in a file */
export function TensorFile({ tensor, boxes = [] }) {
  const size = tensor.size ?? 0;
  const shown = tensor.datatype === "BYTES" && tensor.shape.every((each) => each === 1) && size <= MAX_SHOWN;
  return html`${shown && html`<${FileContent} tensor=${tensor} boxes=${boxes} />`}
    <p><a href=${tensor.download_url} download=${tensor.name}>Download the file</a> <span class="faint">(${formatBytes(size)}${tensor.offset && ` from byte ${tensor.offset} on`})</span></p>`;
}

/** @param {{ tensor: TensorView, boxes: import("../tensors.js").Box[] }} props */
function FileContent({ tensor, boxes }) {
  const content = useLoad(async (signal) => {
    const headers = tensor.offset ? { Range: `bytes=${tensor.offset}-` } : undefined;
    const response = await send("GET", `/v1/files/${tensor.file}/content`, { headers, signal });
    return new Uint8Array(await response.arrayBuffer());
  }, [tensor.file]);
  if (content.error) return html`<p class="faint">The content cannot be shown: ${content.error.message}</p>`;
  if (!content.value) return html`<p class="faint">Loading …</p>`;
  return html`<${Bytes} bytes=${content.value} name=${tensor.name} boxes=${boxes} />`;
}

/** @param {{ bytes: Uint8Array, name: string, boxes?: import("../tensors.js").Box[] }} props one element of BYTES */
export function Bytes({ bytes, name, boxes = [] }) {
  const type = detectMedia(bytes);
  const blob = useMemo(() => new Blob([bytes], { type: type ?? "application/octet-stream" }), [bytes]);
  const url = useBlobUrl(blob);
  const text = useMemo(() => (type || bytes.length > MAX_TEXT ? null : decodeText(bytes)), [bytes]);
  if (type) return html`<${MediaView} blob=${blob} label=${name} boxes=${boxes} />`;
  if (text !== null) return html`<${LongText} text=${text} label=${`Text of ${name}`} />`;
  return html`<p><a href=${url} download=${`${name}.bin`}>Download</a> <span class="faint">${formatBytes(bytes.length)}</span></p>`;
}

/**
 * @param {Uint8Array} bytes
 * @returns {string | null} null if they are no UTF-8
 */
function decodeText(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}
