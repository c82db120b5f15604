// What to do about each error of a job. docs/reference/errors.md has all codes. Pure.

const OPERATOR = "Ask your operator.";
const AGAIN = "This passes by itself: the attempt does not count, and the job waits.";

/** @type {Record<string, string>} */
const ADVICE = {
  expired: "Retry the job, or submit it with a longer expires_in.",
  inference_failed: "The model reported this. Check the inputs, then the log of the model.",
  inference_refused: "The model does not allow this request. Check its signature and the parameters.",
  input_location_failed: "Check that the bucket answers, and that the dispatchers have credentials for it.",
  input_location_refused: `Charonia may not read this location. ${OPERATOR}`,
  input_missing: "Upload the file again, and submit a new job.",
  input_timeout: "Submit the job with a longer timeout, or check the object store.",
  input_unreadable: AGAIN,
  input_url_encoded: "Use a URL that sends the content uncompressed.",
  input_url_failed: "Check that the URL sends the content, or upload a file in its place.",
  input_url_refused: "Use a public https URL, or upload a file in its place.",
  input_url_timeout: "Use a faster server, or upload a file in its place.",
  input_url_too_large: "Send less, or ask your operator for a higher limit.",
  input_url_waiting: AGAIN,
  input_url_wrong_size: "Correct the shape of the input, or the content of the URL.",
  invalid_input: "Check the inputs against the model's signature, and submit a new job.",
  invalid_output: "The model breaks its own signature. Correct the model, then retry the job.",
  model_crashed: "Check the log of the model, and restart Triton if it stays away.",
  model_not_found: "Put the model into Triton's repository, or retry the job on another model.",
  model_unavailable: "Load the model in Triton, then retry the job.",
  newer_format: "The dispatchers are being upgraded. The attempt does not count, and the job waits for a new one.",
  output_location_failed: "Check that the bucket answers, and that the dispatchers have credentials for it.",
  output_location_refused: `Charonia may not write to this location. ${OPERATOR}`,
  step_failed: "Look at the failed step of the run, then retry the run: it keeps what has succeeded.",
  store_unavailable: AGAIN,
  timeout: "Submit the job with a longer timeout, or check how busy the model is.",
  too_large: "Send or return less, or ask your operator for a higher limit.",
  triton_queue_full: "Triton has too many requests of this model. Lower the concurrency, or raise its queue.",
  triton_queue_timeout: "Triton has too many requests of this model. Lower the concurrency.",
  triton_unavailable: "Start Triton, or check its log. Then retry the job.",
  unsupported: "Triton cannot run this call of the model. Check how the model is configured.",
  worker_lost: "A dispatcher died or froze during the attempt. Check its log.",
  worker_stopped: "The dispatcher was stopped. The attempt does not count.",
};

/**
 * @param {string} code of an error of a job
 * @returns {string} a sentence, or nothing for an unknown code
 */
export function adviseOn(code) {
  return ADVICE[code] ?? "";
}
