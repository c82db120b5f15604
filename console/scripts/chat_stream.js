// Answers of language models, as they write them. Leaving the stream cancels the job.

import { send } from "./api.js";
import { readJson } from "./exact_json.js";
import { readBlocks } from "./stream.js";

const PATH = "/openai/v1/chat/completions";
const END = "[DONE]";

/** @typedef {{ text: string, reason: string | null, usage: { prompt_tokens: number, completion_tokens: number } | null }} AnswerPart */

/**
 * Ask a model.
 * @param {object} request
 * @param {string} request.model
 * @param {import("./types.js").ChatMessage[]} request.messages
 * @param {number | null} request.maxTokens of the answer
 * @param {AbortSignal} signal cancels the answer
 * @returns {Promise<{ job: string, parts: AsyncGenerator<AnswerPart> }>} the id of the job, and the answer
 */
export async function askModel({ model, messages, maxTokens }, signal) {
  const limit = maxTokens === null ? {} : { max_completion_tokens: maxTokens };
  const body = { model, messages, ...limit, stream: true, stream_options: { include_usage: true } };
  const response = await send("POST", PATH, { body, headers: { Accept: "text/event-stream" }, signal });
  return { job: response.headers.get("X-Charonia-Job") ?? "", parts: readParts(response) };
}

/**
 * @param {Response} response
 * @returns {AsyncGenerator<AnswerPart>}
 */
async function* readParts(response) {
  for await (const block of readBlocks(response)) {
    const part = parsePart(block);
    if (part === END) return;
    if (part) yield part;
  }
  throw new Error("The connection broke before the end of the answer. Ask again.");
}

/**
 * @param {string} block the lines of an event
 * @returns {AnswerPart | typeof END | null} null for a comment
 */
export function parsePart(block) {
  const data = block
    .split("\n")
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice("data:".length).trim())
    .join("");
  if (!data || data === END) return data ? END : null;
  const chunk = readJson(data);
  if (chunk.error) throw new Error(chunk.error.message);
  const [choice] = chunk.choices;
  return { text: choice?.delta.content ?? "", reason: choice?.finish_reason ?? null, usage: chunk.usage ?? null };
}
