// JSON whose whole numbers stay as they are written, however large. Pure.
// JavaScript's own numbers are exact to 2^53 only, and ids and tensors have 64 bits.

const LARGE_NUMBER = /(?:^|[[:,\s])-?\d{16,}(?=[\],}\s]|$)/; // a text may have one too
const WHOLE = /^-?\d+$/;

/**
 * @param {string} text
 * @returns {any} whole numbers beyond 2^53 are BigInt
 */
export function readJson(text) {
  return LARGE_NUMBER.test(text) ? JSON.parse(text, /** @type {any} */ (keepLarge)) : JSON.parse(text);
}

/**
 * @param {string} _name
 * @param {unknown} value
 * @param {{ source?: string }} [context] how the value is written
 */
function keepLarge(_name, value, context) {
  const source = context?.source ?? "";
  return typeof value === "number" && !Number.isSafeInteger(value) && WHOLE.test(source) ? BigInt(source) : value;
}

/**
 * @param {unknown} value as of `readJson`
 * @param {number} [indent]
 * @returns {string}
 */
export function writeJson(value, indent) {
  const { rawJSON } = /** @type {any} */ (JSON);
  return JSON.stringify(value, (_name, each) => (typeof each === "bigint" ? rawJSON(String(each)) : each), indent);
}
