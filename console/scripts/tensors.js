// What tensors hold, for showing them. Pure.

/** @typedef {{ mediaType: string, bytes: Uint8Array }} Media */

/** First bytes, in hexadecimal, of the kinds of files that a browser shows. */
const SIGNATURES = [
  ["89504e470d0a1a0a", "image/png"],
  ["ffd8ff", "image/jpeg"],
  ["47494638", "image/gif"],
  ["664c6143", "audio/flac"],
  ["4f676753", "audio/ogg"],
  ["494433", "audio/mpeg"],
  ["fffb", "audio/mpeg"],
];

/**
 * @param {Uint8Array} bytes
 * @returns {string | null} the media type, if it is an image or a sound that browsers play
 */
export function detectMedia(bytes) {
  const head = [...bytes.subarray(0, 12)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  for (const [signature, type] of SIGNATURES) if (head.startsWith(signature)) return type;
  if (head.startsWith("52494646") && head.slice(16) === "57454250") return "image/webp";
  if (head.startsWith("52494646") && head.slice(16) === "57415645") return "audio/wav";
  return null;
}

/**
 * @param {string} text
 * @returns {Uint8Array}
 */
export function decodeBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/**
 * @param {any[]} data flat, in row-major order
 * @param {number[]} shape
 * @returns {any[][]} the rows: all dimensions but the last are joined. One column for a vector
 */
export function toRows(data, shape) {
  const width = shape.length > 1 ? shape[shape.length - 1] : 1;
  if (!width) return [];
  return Array.from({ length: Math.ceil(data.length / width) }, (_, row) => data.slice(row * width, (row + 1) * width));
}

/** @typedef {{ points: [number, number][], text: string }} Box */

/**
 * Find quadrangles on an image: a tensor of the shape [n, 4, 2] (or [4, 2]) whose name begins with "box".
 * @param {import("./types.js").TensorView[]} outputs
 * @returns {Box[]} with the texts of a tensor `text` of as many elements
 */
export function findBoxes(outputs) {
  const found = outputs.filter((each) => /^box/.test(each.name) && each.data && each.shape.slice(-2).join() === "4,2");
  const texts = outputs.filter((each) => each.name === "text").flatMap((each) => each.data ?? []);
  const corners = found.flatMap((each) => /** @type {number[]} */ (each.data));
  return Array.from({ length: Math.floor(corners.length / 8) }, (_, box) => ({
    points: /** @type {[number, number][]} */ ([0, 2, 4, 6].map((at) => [corners[8 * box + at], corners[8 * box + at + 1]])),
    text: typeof texts[box] === "string" ? texts[box] : "",
  }));
}

/** @typedef {import("./types.js").TensorView & { responses?: number }} Joined `responses` of a stream, if there are several */

/**
 * Join the responses of a stream, which are outputs of the same name.
 * @param {import("./types.js").TensorView[]} outputs
 * @returns {Joined[]} one output a name and shape. Texts are one list; of numbers, the first dimension is the response.
 */
export function joinResponses(outputs) {
  /** @type {Map<string, Joined>} */
  const first = new Map();
  /** @type {Joined[]} */
  const joined = [];
  for (const output of outputs) {
    const isText = output.datatype === "BYTES";
    const key = isText ? output.name : `${output.name} ${output.datatype} ${output.shape}`;
    const whole = output.data && first.get(key);
    if (whole) {
      for (const element of output.data ?? []) whole.data?.push(element);
      whole.responses = (whole.responses ?? 1) + 1;
      whole.shape = isText ? [whole.data?.length ?? 0] : [whole.responses, ...output.shape];
    } else {
      const copy = { ...output, ...(output.data ? { data: [...output.data] } : {}) };
      if (output.data) first.set(key, copy);
      joined.push(copy);
    }
  }
  return joined;
}

/**
 * Join the pieces of a text that a model sends as it makes them.
 * @param {unknown[]} pieces
 * @returns {string | null} null if they are lines, each of several words, or no texts
 */
export function joinPieces(pieces) {
  if (!pieces.every((piece) => typeof piece === "string")) return null;
  const texts = /** @type {string[]} */ (pieces);
  if (texts.some((text) => /^\s|\s$/.test(text))) return texts.join("");
  return texts.some((text) => /\s/.test(text)) ? null : texts.join(" ");
}
