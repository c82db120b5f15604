// Files of the user as inputs of a job.

import { call } from "./api.js";
import { formatBytes } from "./format.js";
import { wrapElement } from "./inputs.js";

const MAX_INLINE = 4 * 1024 * 1024; // bytes; a larger file is uploaded first

/**
 * @param {import("./types.js").Tensor} tensor
 * @param {File} file
 * @param {AbortSignal} signal
 * @returns {Promise<unknown>} the input as the API takes it
 * @throws {Error} for a file that is larger than the input takes, before it is sent
 */
export async function sendFile(tensor, file, signal) {
  if (tensor.max_bytes !== null && file.size > tensor.max_bytes) {
    throw new Error(`${tensor.name}: the file has ${formatBytes(file.size)}; this input takes ${formatBytes(tensor.max_bytes)} at most`);
  }
  if (!tensor.reference && file.size <= MAX_INLINE) return wrapElement(tensor, { base64: await encodeBase64(file) });
  const headers = { "Content-Type": file.type || "application/octet-stream" };
  const { id } = await call("POST", "/v1/files", { body: file, headers, signal, deadline: Infinity });
  return { file: id };
}

/**
 * @param {Blob} blob
 * @returns {Promise<string>}
 */
export function encodeBase64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).slice(String(reader.result).indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}
