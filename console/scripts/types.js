// The shapes of the API, as far as the console reads them. The pages in docs/reference/api describe them.

/** @typedef {{ pointer: string, detail: string }} FieldError a JSON pointer into the body, and what is wrong there */
/** @typedef {"queued" | "processing" | "canceling" | "succeeded" | "failed" | "canceled" | "expired"} Status */
/** @typedef {{ code: string, message: string, retryable: boolean }} Failure */
/** @typedef {{ code: string, message: string }} AttemptFailure */
/** @typedef {{ code: string, detail: string, job?: string }} WaitingFor `job`: with `same_job`, whose result it takes */
/** @typedef {{ queue_ms: number | null, inference_ms: number | null, total_ms: number | null }} Metrics */

/**
 * An input or an output of a job.
 * @typedef {object} TensorView
 * @property {string} name
 * @property {string} datatype
 * @property {number[]} shape
 * @property {any[]} [data]
 * @property {string} [file]
 * @property {string} [download_url] of the file
 * @property {number} [size]
 * @property {string} [location] of an output
 * @property {string} [url] of an input, as it was submitted
 * @property {number} [offset]
 */

/** @typedef {{ inputs: TensorView[] | null, inputs_omitted?: string }} JobInputs */

/**
 * @typedef {object} Attempt
 * @property {number} attempt
 * @property {number} count
 * @property {"succeeded" | "failed" | "canceled" | "returned"} status
 * @property {string} model
 * @property {string} worker
 * @property {string} started_at
 * @property {string} finished_at
 * @property {number} duration_ms
 * @property {AttemptFailure | null} error
 */

/**
 * @typedef {object} Job
 * @property {string} id
 * @property {Status} status
 * @property {string} model
 * @property {string | null} version
 * @property {"high" | "normal" | "low"} priority
 * @property {number} attempt
 * @property {number} max_attempts
 * @property {string} created_at
 * @property {string} run_at
 * @property {string | null} started_at
 * @property {string | null} finished_at
 * @property {string | null} expires_at
 * @property {TensorView[] | null} outputs
 * @property {Failure | null} error
 * @property {number | null} queue_position
 * @property {WaitingFor | null} waiting_for
 * @property {"none" | "pending" | "succeeded" | "failed" | null} webhook_status null in lists
 * @property {Record<string, unknown>} metadata
 * @property {string} trace_id
 * @property {Metrics} metrics
 * @property {{ self: string, cancel: string, events: string, deliveries: string, trace: string | null }} urls
 * @property {"in_lists" | "too_large" | "erased"} [outputs_omitted]
 * @property {string} [outputs_url]
 * @property {"pipeline"} [kind] of a run
 * @property {Record<string, RunStep>} [steps] of a run, but not in lists
 * @property {string} [parent] the run to which it belongs
 * @property {string} [step] of that run
 * @property {string} [reused_from] the job that made the outputs, if this one took them
 */

/** @typedef {{ status: string, total: number | null, done: number, job: string | null }} RunStep */
/** @typedef {{ model: string, inputs: Record<string, string>, for_each?: string | null } & Record<string, unknown>} PipelineStep */
/** @typedef {{ inputs: Record<string, object>, steps: Record<string, PipelineStep>, outputs: Record<string, string> }} PipelineDefinition */
/** @typedef {{ name: string, version: string, created_at: string, definition: PipelineDefinition }} Pipeline */

/** @typedef {{ name: string, datatype: string, shape: number[], optional: boolean, reference: boolean, max_bytes: number | null }} Tensor */

/**
 * A model or a pipeline.
 * @typedef {object} Model
 * @property {"model" | "pipeline"} kind
 * @property {string} name
 * @property {boolean} ready
 * @property {string | null} reason
 * @property {boolean} streaming
 * @property {number | null} max_batch_size null of a pipeline, as are its queue, slots and running
 * @property {{ version: string, ready: boolean, reason: string | null }[]} versions
 * @property {Tensor[]} inputs
 * @property {Tensor[]} outputs
 * @property {Record<"high" | "normal" | "low", number> | null} queue
 * @property {number | null} slots
 * @property {number | null} running
 * @property {boolean} paused
 * @property {Residency | null} [residency] null: all models of its Triton stay loaded
 * @property {number | null} [reuse_seconds] how old results are that its jobs take by default; 0: it refuses that
 */

/**
 * Whether Triton holds a model. The last three are null if nobody waits for it.
 * @typedef {object} Residency
 * @property {"absent" | "loading" | "resident" | "draining"} state
 * @property {number | null} memory in bytes
 * @property {number | null} load_seconds
 * @property {number | null} place in the order of loads, from 1
 * @property {string | null} expected_at
 * @property {string | null} why
 */

/** @typedef {{ used: number, budget: number }} Memory bytes of all Tritons for models */

/**
 * @template T
 * @typedef {{ items: T[], next_cursor: string | null }} Page
 */

export const STATUSES = ["queued", "processing", "canceling", "succeeded", "failed", "canceled", "expired"];

/**
 * @typedef {object} Webhook
 * @property {string} id
 * @property {string} url
 * @property {string[]} events
 * @property {string[] | null} models
 * @property {string | null} description
 * @property {Record<string, string> | null} headers `***` by name
 * @property {"hmac" | "ed25519"} signing
 * @property {"charonia" | "openai"} format
 * @property {number | null} rate_limit
 * @property {boolean} ordered
 * @property {"enabled" | "disabled"} status
 * @property {string | null} disabled_at
 * @property {string | null} disabled_reason
 * @property {string} created_at
 * @property {string} [secret]
 * @property {string} [public_key]
 * @property {string} [old_secret_until]
 * @property {FieldError[]} [warnings]
 */

/** @typedef {{ p50: number | null, p95: number | null }} Percentiles */

/**
 * @typedef {object} DeliveryWindow
 * @property {number} succeeded
 * @property {number} failed
 * @property {number} failed_attempts
 * @property {number | null} success_rate of attempts, from 0 to 1
 * @property {Percentiles} duration_ms
 */

/**
 * @typedef {object} WebhookHealth
 * @property {string} webhook_id
 * @property {"closed" | "open"} circuit
 * @property {string | null} failing_since
 * @property {number} pending
 * @property {string | null} oldest_due_at
 * @property {string | null} counted_since
 * @property {DeliveryWindow} last_60_minutes
 * @property {DeliveryWindow} last_24_hours
 */

/**
 * @typedef {object} Recovery
 * @property {string} id
 * @property {string} since
 * @property {string} until
 * @property {"processing" | "completed"} status
 * @property {number} recovered
 */

/**
 * @typedef {object} StatsWindow
 * @property {Percentiles} queue_ms
 * @property {Percentiles} inference_ms
 * @property {number} ended
 * @property {number} failed
 * @property {number} hits that took the result of another job at their submit
 * @property {number} joins that waited for it
 * @property {number} ended_per_minute
 * @property {number} failed_per_minute
 */

/**
 * @typedef {object} StatsItem
 * @property {string} model
 * @property {string} priority
 * @property {number} waiting without scheduled ones
 * @property {number} scheduled
 * @property {number} running
 * @property {string | null} oldest_waiting_at
 * @property {StatsWindow} last_5_minutes
 * @property {StatsWindow} last_60_minutes
 */

/** @typedef {{ at: string, ended: number, failed: number, waiting: number, running: number }} StatsMinute */

/**
 * @typedef {object} ApiKey
 * @property {string} id
 * @property {string} name
 * @property {string[]} scopes
 * @property {string[] | null} models
 * @property {number | null} rate_limit
 * @property {string} created_at
 * @property {string | null} expires_at
 * @property {string | null} last_used_at
 * @property {string} [key]
 */

/** @typedef {{ id: string, size: number, sha256: string, content_type: string, created_at: string, expires_at: string }} StoredFile */

/** @typedef {{ id: string, endpoints: string[] }} SpeakingModel a model that speaks OpenAI's API */
/** @typedef {{ role: "system" | "user" | "assistant", content: string }} ChatMessage */

/**
 * A batch of OpenAI's API.
 * @typedef {object} FileBatch
 * @property {string} id
 * @property {string} endpoint
 * @property {string} status
 * @property {{ data: { message: string, line: number | null }[] } | null} errors
 * @property {string} input_file_id
 * @property {string | null} output_file_id
 * @property {string | null} error_file_id
 * @property {number} created_at in Unix seconds
 * @property {{ total: number, completed: number, failed: number }} request_counts
 */

/**
 * @template T
 * @typedef {{ data: T[], last_id: string | null, has_more: boolean }} OpenAIPage
 */
