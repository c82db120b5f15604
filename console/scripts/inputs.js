// Fields for the inputs of a model, and the values that people put there. Pure.

import { readJson, writeJson } from "./exact_json.js";

/** @typedef {"text" | "number" | "boolean" | "file" | "json"} FieldKind */
/** @typedef {{ kind: FieldKind, text: string, file: File | null }} FieldValue */

const MEDIA_NAME = /image|img|photo|picture|audio|sound|speech|video|file|document|pdf/i;

/** @param {import("./types.js").Tensor} tensor */
function hasOneElement(tensor) {
  return tensor.shape.every((size) => size === 1 || size === -1);
}

/**
 * @param {import("./types.js").Tensor} tensor
 * @returns {FieldKind[]} how a value can be given, the likeliest first
 */
export function listKinds(tensor) {
  if (tensor.reference) return ["file"];
  if (!hasOneElement(tensor)) return tensor.datatype === "BYTES" ? ["json", "file"] : ["json"];
  if (tensor.datatype === "BOOL") return ["boolean", "json"];
  if (tensor.datatype !== "BYTES") return ["number", "json"];
  return MEDIA_NAME.test(tensor.name) ? ["file", "text", "json"] : ["text", "file", "json"];
}

/**
 * @param {import("./types.js").Tensor} tensor
 * @returns {string} an example of its value as JSON
 */
export function makeExample(tensor) {
  const element = tensor.datatype === "BYTES" ? (listKinds(tensor)[0] === "file" ? '{"base64": "…"}' : '"text"') : tensor.datatype === "BOOL" ? "true" : "1";
  return tensor.shape.reduceRight((inner, size) => `[${Array(size > 1 && size <= 4 ? size : 1).fill(inner).join(", ")}]`, element);
}

/**
 * @param {import("./types.js").Tensor} tensor
 * @param {unknown} element
 * @returns {unknown} the element in as many lists as the tensor has dimensions
 */
export function wrapElement(tensor, element) {
  return tensor.shape.reduce((/** @type {unknown} */ inner) => [inner], element);
}

/**
 * Read what is not a file.
 * @param {import("./types.js").Tensor} tensor
 * @param {FieldValue} value
 * @returns {unknown} the input as the API takes it; undefined if it is left out
 * @throws {Error} with a text for people
 */
export function readValue(tensor, value) {
  const text = value.text;
  if (value.kind === "text") return text === "" && tensor.optional ? undefined : wrapElement(tensor, text);
  if (text.trim() === "" && tensor.optional) return undefined;
  if (value.kind === "boolean") return wrapElement(tensor, text === "true");
  if (value.kind === "number") return wrapElement(tensor, readNumber(tensor, text.trim()));
  try {
    return readJson(text);
  } catch (error) {
    throw new Error(`${tensor.name}: expected JSON such as ${makeExample(tensor)} (${/** @type {Error} */ (error).message})`);
  }
}

/**
 * @param {import("./types.js").Tensor} tensor
 * @param {string} text
 * @returns {number | bigint | string} a text for what JSON has no number for
 */
function readNumber(tensor, text) {
  const number = Number(text);
  if (tensor.datatype.includes("INT")) {
    if (!/^[+-]?\d+$/.test(text)) throw new Error(`${tensor.name}: expected a whole number`);
    return Number.isSafeInteger(number) ? number : BigInt(text);
  }
  if (/^([+-]?infinity|nan)$/i.test(text)) return /nan/i.test(text) ? "NaN" : text.startsWith("-") ? "-Infinity" : "Infinity";
  if (text === "" || !Number.isFinite(number)) throw new Error(`${tensor.name}: expected a number`);
  return number;
}

/** @typedef {Record<string, { value?: unknown, file?: string }>} Shown inputs by name; files by the name of the file */

/**
 * @param {string} model
 * @param {Shown} inputs
 * @param {string} origin of the gateway
 * @returns {{ name: string, text: string }[]} the same run in each language
 */
export function writeSnippets(model, inputs, origin) {
  const named = Object.entries(inputs);
  const files = named.flatMap(([name, { file }]) => (file ? [{ name, file }] : []));
  const cli = named.map(([name, { value, file }]) => (file ? `${name}=@${quote(file)}` : `${name}:=${quote(writeJson(value))}`));
  const python = named.map(([name, { value, file }]) => `${JSON.stringify(name)}: ${file ? `Path(${JSON.stringify(file)})` : toPython(value)}`);
  const body = Object.fromEntries(named.map(([name, { value, file }]) => [name, file ? `@${name}@` : value]));
  let json = writeJson({ model, inputs: body }).replaceAll("'", "'\\''");
  for (const { name, file } of files) json = json.replace(`"@${name}@"`, () => `[{"base64": "'"$(base64 -w0 ${quote(file)})"'"}]`);
  const curl = `curl -s ${origin}/v1/jobs \\\n  -H "Authorization: Bearer $CHARONIA_KEY" \\\n  -H 'Content-Type: application/json' \\\n`;
  return [
    { name: "CLI", text: `charonia run ${model} ${cli.join(" ")}`.trim() },
    {
      name: "Python",
      text: `${files.length ? "from pathlib import Path\n\n" : ""}from charonia import Charonia\n\nclient = Charonia()\nprint(client.run(${JSON.stringify(model)}, {${python.join(", ")}}))`,
    },
    { name: "curl", text: files.length ? `printf %s '${json}' | \\\n${curl}  -d @-` : `${curl}  -d '${json}'` },
  ];
}

/** @param {string} text */
function quote(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** @param {unknown} value as JSON has it */
function toPython(value) {
  return writeJson(value)
    .split(/("(?:[^"\\]|\\.)*")/)
    .map((part, index) => (index % 2 ? part : part.replace(/\btrue\b/g, "True").replace(/\bfalse\b/g, "False").replace(/\bnull\b/g, "None")))
    .join("");
}
