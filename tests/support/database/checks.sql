-- What holds for each row of the tables that every job writes. For tests only: PostgreSQL reads the text of all CHECKs of a
-- table again for each statement that writes it, which was a quarter of the CPU time of a job's statements.
ALTER TABLE jobs
  ADD CHECK (priority IN ('high', 'normal', 'low')),
  ADD CHECK (status IN ('queued', 'processing', 'canceling', 'succeeded', 'failed', 'canceled', 'expired')),
  ADD CHECK (attempt BETWEEN 0 AND max_attempts),
  ADD CHECK (max_attempts >= 1),
  ADD CHECK (probation > 0),
  ADD CHECK (input_bytes >= 0),
  ADD CHECK (timeout > 0),
  ADD CHECK (initial_delay BETWEEN 0 AND max_delay),
  ADD CHECK (retain > 0),
  ADD CHECK (octet_length(output_location) <= 1024),
  ADD CHECK (output_file_bytes >= 0),
  ADD CONSTRAINT jobs_lease_while_running CHECK ((status IN ('processing', 'canceling')) = (lease_until IS NOT NULL)),
  ADD CONSTRAINT jobs_lease_has_worker CHECK (lease_until IS NULL OR worker IS NOT NULL),
  ADD CONSTRAINT jobs_no_worker_while_queued CHECK (worker IS NULL OR status <> 'queued'),
  ADD CONSTRAINT jobs_session_with_lease CHECK (session IS NULL OR lease_until IS NOT NULL),
  ADD CONSTRAINT jobs_finished_when_terminal
    CHECK ((status IN ('succeeded', 'failed', 'canceled', 'expired')) = (finished_at IS NOT NULL)),
  ADD CONSTRAINT jobs_counted_after_end CHECK (ended_xid IS NULL OR finished_at IS NOT NULL),
  ADD CONSTRAINT jobs_scheduled_while_queued CHECK (
    scheduled_at IS NULL OR status = 'queued' OR generation = -1 AND status = 'processing' -- of a run left to the sweep
  ),
  ADD CONSTRAINT jobs_error_when_failed CHECK (status <> 'failed' OR error_code IS NOT NULL),
  ADD CONSTRAINT jobs_erased_after_end CHECK (erased_at IS NULL OR finished_at IS NOT NULL),
  ADD CONSTRAINT jobs_outputs_after_end CHECK (outputs IS NULL OR finished_at IS NOT NULL),
  ADD CONSTRAINT jobs_inputs_are_small CHECK (
    octet_length(tensors) <= 2097152 AND octet_length(parameters) <= 65536 AND octet_length(metadata) <= 16384
  ),
  ADD CONSTRAINT jobs_callback_is_whole CHECK ((callback_url IS NULL) = (callback_events IS NULL));

ALTER TABLE job_steps
  ADD CHECK (number >= 0),
  ADD CHECK (type IN ('job.output', 'job.canceling', 'job.queued', 'step.started', 'step.succeeded', 'step.failed',
                      'step.canceled', 'step.expired')),
  ADD CONSTRAINT job_steps_outputs_of_output CHECK ((outputs IS NULL) = (type IN ('job.canceling', 'job.queued')));

ALTER TABLE deliveries
  ADD CHECK (status IN ('pending', 'succeeded', 'exhausted', 'canceled')),
  ADD CONSTRAINT deliveries_id_is_derived CHECK (id = derive_id(event_id, endpoint_id)),
  ADD CONSTRAINT deliveries_due_while_pending CHECK (status = 'pending' OR next_at IS NULL),
  ADD CONSTRAINT deliveries_finished_unless_pending CHECK ((status = 'pending') = (finished_at IS NULL)),
  ADD CONSTRAINT deliveries_leased_while_due CHECK (lease_until IS NULL OR next_at IS NOT NULL),
  ADD CONSTRAINT deliveries_webhook_is_endpoint CHECK (webhook_id IS NULL OR webhook_id = endpoint_id),
  ADD CONSTRAINT deliveries_attempt_of_finished CHECK (started_at IS NULL OR finished_at IS NOT NULL),
  ADD CONSTRAINT deliveries_attempt_is_whole CHECK (num_nulls(started_at, duration_ms, response) IN (0, 3));
