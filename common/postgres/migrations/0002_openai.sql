-- compatible with: 1
-- migrate: no transaction
--
-- Each statement is a transaction of its own: together they would wait for statements of the services, which wait for them.
--
-- What models say of themselves, and the requests of jobs that another protocol was translated from.

-- Of config.pbtxt: the parameters whose names begin with `charonia.`, and the `backend`. Texts by name.
ALTER TABLE served_models ADD COLUMN IF NOT EXISTS settings jsonb NOT NULL DEFAULT '{}';

-- The request that the job was translated from, as JSON: services/gateway/openai/calls/record.py. NULL: it came as a job.
-- It is erased with the payload. A gateway of the release before leaves it when it erases a job; nobody shows it after that.
--
-- The others: what a language model said at the end of a job that has succeeded; NULL: it said nothing. `finish_reason` is
-- stop, length, or what the model says. Nothing else writes them, so a dispatcher of the release before leaves them NULL.
ALTER TABLE jobs
  ADD COLUMN IF NOT EXISTS request bytea COMPRESSION lz4,
  ADD COLUMN IF NOT EXISTS prompt_tokens integer,
  ADD COLUMN IF NOT EXISTS completion_tokens integer,
  ADD COLUMN IF NOT EXISTS finish_reason text;

CREATE OR REPLACE VIEW served_now AS
SELECT s.name, s.version, s.worker, s.session, s.ready, s.decoupled, s.max_batch_size, s.instances, s.slots, s.inputs,
       s.outputs, s.queue_ms, s.compute_ms, s.limited_by, s.described_at, s.missing_since, s.updated_at, d.seen_at,
       coalesce(d.is_alive AND s.updated_at > now() - interval '30 seconds', false) AS is_alive, s.settings
FROM served_models s
LEFT JOIN dispatchers_now d ON d.worker = s.worker;

CREATE OR REPLACE VIEW models AS
SELECT DISTINCT ON (name, version) name, version, is_ready AS ready, decoupled, max_batch_size, inputs, outputs, settings
FROM (SELECT *, ready AND is_alive AS is_ready FROM served_now) served
ORDER BY name, version, is_ready DESC, described_at DESC, worker;

CREATE OR REPLACE VIEW job_facts AS
SELECT
  id, generation, tenant_id, batch_id, model, version, priority, status, attempt, max_attempts, claim, interruptions, probation, input_bytes,
  created_at, run_at, scheduled_at, started_at, finished_at, ended_xid, expires_at, erased_at, lease_until, worker, session,
  timeout, initial_delay, max_delay, fallback_model, retain, error_code, error_message, error_retryable, inference_ms,
  traceparent, metadata, octet_length(tensors) AS tensors_size, octet_length(outputs) AS outputs_size,
  callback_url IS NOT NULL AS has_callback, parent, step, step_index, run_state, octet_length(request) AS request_size,
  finish_reason
FROM jobs;

-- A batch may be canceled, and its items may be the lines of a file, which become jobs page by page.
ALTER TABLE batches
  ADD COLUMN IF NOT EXISTS canceled_at timestamptz, -- when a client canceled it; a gateway then cancels its jobs page by page
  ADD COLUMN IF NOT EXISTS expires_at timestamptz, -- lines that are no jobs by then never run; NULL: there is no such time
  ADD COLUMN IF NOT EXISTS request bytea COMPRESSION lz4, -- the call that it was translated from, as JSON; NULL: it came as a batch
  ADD COLUMN IF NOT EXISTS input_file uuid, -- its lines are the items; NULL: they came with the call
  ADD COLUMN IF NOT EXISTS read_to bigint, -- the bytes of that file whose lines are items so far; NULL: all are
  DROP CONSTRAINT IF EXISTS batches_check,
  DROP CONSTRAINT IF EXISTS batches_accepted_of_total,
  DROP CONSTRAINT IF EXISTS batches_unread_is_open,
  ADD CONSTRAINT batches_accepted_of_total
    CHECK (accepted BETWEEN CASE WHEN request IS NULL THEN 1 ELSE 0 END AND total),
  ADD CONSTRAINT batches_unread_is_open CHECK (read_to IS NULL OR finished_at IS NULL);
CREATE INDEX IF NOT EXISTS batches_at_work ON batches (tenant_id, id)
  WHERE finished_at IS NULL AND (read_to IS NOT NULL OR canceled_at IS NOT NULL);
CREATE INDEX IF NOT EXISTS batches_by_request ON batches (tenant_id, created_at, id) WHERE request IS NOT NULL;
CREATE INDEX IF NOT EXISTS batches_by_unread_file ON batches (input_file) WHERE read_to IS NOT NULL;

-- A maintenance process of the release before completes a batch without jobs that wait or run, although lines are left.
-- Drop this in the release after.
CREATE OR REPLACE FUNCTION skip_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE OR REPLACE TRIGGER batches_stay_open BEFORE UPDATE OF finished_at ON batches
  FOR EACH ROW WHEN (NEW.read_to IS NOT NULL) EXECUTE FUNCTION skip_row();

-- What OpenAI's clients say about a file.
ALTER TABLE files ADD COLUMN IF NOT EXISTS name text, ADD COLUMN IF NOT EXISTS purpose text;

INSERT INTO leader_leases (role) VALUES ('batches') ON CONFLICT DO NOTHING;
GRANT SELECT, UPDATE (holder, expires_at, is_fit) ON leader_leases TO charonia_gateway;
GRANT UPDATE (canceled_at, request, read_to, accepted) ON batches TO charonia_gateway;

-- Tokens --------------------------------------------------------------------------------------------------------------

-- A dispatcher of the release before counts no tokens of the ends that it counts.
ALTER TABLE usage
  ADD COLUMN IF NOT EXISTS prompt_tokens bigint NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS completion_tokens bigint NOT NULL DEFAULT 0;

-- A job that has failed has no tokens, so a retry has none to count: see count_before_retry.
CREATE OR REPLACE VIEW ended_usage AS
SELECT
  id, ended_xid, tenant_id, timezone('UTC', finished_at)::date AS day, model,
  (status = 'succeeded')::integer AS succeeded, (status = 'failed')::integer AS failed,
  (status = 'canceled')::integer AS canceled, (status = 'expired')::integer AS expired,
  coalesce(inference_ms, 0) / 1000 AS inference_seconds, input_bytes AS bytes_in,
  coalesce(octet_length(outputs), 0) + output_file_bytes AS bytes_out,
  coalesce(prompt_tokens, 0) AS prompt_tokens, coalesce(completion_tokens, 0) AS completion_tokens
FROM jobs
WHERE generation > 0;


-- Webhooks in OpenAI's words ------------------------------------------------------------------------------------------

-- `openai`: the subscription gets only events that OpenAI has, under OpenAI's names and in its form. The database translates
-- them, so that every service sends them, also one of the release before.
ALTER TABLE webhooks ADD COLUMN IF NOT EXISTS format text NOT NULL DEFAULT 'charonia' CHECK (format IN ('charonia', 'openai'));

-- Return an id as clients see it: common/ids.py.
CREATE OR REPLACE FUNCTION public_id(prefix text, id uuid) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT prefix || '_' || string_agg(
    substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + substring(bits FROM 1 + 5 * place FOR 5)::bit(5)::integer, 1), '' ORDER BY place
  )
  FROM (SELECT B'00' || ('x' || translate(id::text, '-', ''))::bit(128)) AS number(bits), generate_series(0, 25) AS place
$$;

-- Return the UUID of an id as clients see it.
CREATE OR REPLACE FUNCTION private_id(shown text) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT string_agg(to_hex(substring(bits FROM 3 + 4 * place FOR 4)::bit(4)::integer), '' ORDER BY place)::uuid
  FROM (
    SELECT string_agg(((strpos('0123456789abcdefghjkmnpqrstvwxyz', letter) - 1)::bit(5))::text, '' ORDER BY place)::varbit
    FROM regexp_split_to_table(split_part(shown, '_', 2), '') WITH ORDINALITY AS letters(letter, place)
  ) AS number(bits), generate_series(0, 31) AS place
$$;

-- Return the public id of the batch that an event is about, from the beginning of its body: common/views/batch.py.
CREATE OR REPLACE FUNCTION batch_of(body bytea) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT substring(encode(substring(body FROM 1 FOR 200), 'escape') FROM '"data":{"id":"(batch_[0-9a-z]{26})"')
$$;

-- Return OpenAI's name for an event, or NULL: OpenAI has none. Only responses and batches that came to OpenAI's API have
-- events. The job of a response remembers a request that begins so: services/gateway/openai/calls/record.py. One that is not
-- stored begins otherwise, and has no event, because nobody can get it by its id. Lines of a batch have no events. The state
-- of a response is as services/gateway/openai/responses/rendering.py has it, and that of a batch as batches/view.py beside it.
CREATE OR REPLACE FUNCTION openai_event_type(type text, job uuid, body bytea) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF type = 'batch.completed' THEN
    RETURN (
      SELECT CASE
        WHEN position('"errors":[{'::bytea IN b.request) > 0 THEN 'batch.failed'
        WHEN b.canceled_at IS NOT NULL THEN 'batch.cancelled'
        WHEN position('"has_expired":true'::bytea IN b.request) > 0
          OR EXISTS (SELECT FROM jobs j WHERE j.batch_id = b.id AND j.status = 'expired') THEN 'batch.expired'
        ELSE 'batch.completed'
      END
      FROM batches b
      WHERE b.id = private_id(batch_of(body)) AND b.request IS NOT NULL
    );
  END IF;
  RETURN (
    SELECT CASE type
      WHEN 'job.succeeded' THEN
        CASE WHEN j.finish_reason IN ('length', 'content_filter') THEN 'response.incomplete' ELSE 'response.completed' END
      WHEN 'job.canceled' THEN 'response.cancelled'
      ELSE 'response.failed'
    END
    FROM jobs j
    WHERE j.id = job AND j.generation > 0 AND j.batch_id IS NULL
      AND type IN ('job.succeeded', 'job.failed', 'job.canceled', 'job.expired')
      AND substring(j.request FROM 1 FOR 35) = '{"endpoint":"/v1/responses","body":'::bytea
  );
END
$$;

-- Return the body of an event in OpenAI's form. A test is about its subscription.
CREATE OR REPLACE FUNCTION openai_event(event uuid, type text, at timestamptz, job uuid, webhook uuid, body bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT convert_to(format(
    '{"object":"event","id":"%s","type":"%s","created_at":%s,"data":{"id":"%s"}}',
    public_id('evt', event), type, floor(extract(epoch FROM at)),
    CASE
      WHEN job IS NOT NULL THEN public_id('resp', job)
      WHEN type = 'webhook.test' THEN public_id('whk', webhook)
      ELSE batch_of(body)
    END
  ), 'UTF8')
$$;

-- As in 0001_schema.sql, but for the type of what a subscription in OpenAI's words gets.
CREATE OR REPLACE FUNCTION add_deliveries() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
  IF EXISTS (
    SELECT FROM new_events n
    WHERE callback_url IS NOT NULL AND NOT EXISTS (
      SELECT FROM endpoints e WHERE e.tenant_id = n.tenant_id AND e.origin = url_origin(n.callback_url) FOR KEY SHARE
    )
  ) THEN
    INSERT INTO endpoints (id, tenant_id, origin)
    SELECT derive_id(event_id, tenant_id), tenant_id, origin
    FROM (
      SELECT DISTINCT ON (2, 3) id AS event_id, tenant_id, url_origin(callback_url) AS origin
      FROM new_events
      WHERE callback_url IS NOT NULL
      ORDER BY 2, 3
    ) callback
    WHERE NOT EXISTS (
      SELECT FROM endpoints e WHERE e.tenant_id = callback.tenant_id AND e.origin = callback.origin FOR KEY SHARE
    )
    ON CONFLICT (tenant_id, origin) DO NOTHING;
  END IF;

  INSERT INTO live_deliveries (id, event_id, event_generation, event_type, tenant_id, job_id, endpoint_id, webhook_id, url,
                               traceparent)
  SELECT derive_id(e.id, r.endpoint_id), e.id, e.generation, r.type, e.tenant_id, e.job_id, r.endpoint_id, r.webhook_id,
         r.url, e.traceparent
  FROM new_events e
  CROSS JOIN LATERAL (
    SELECT w.id AS endpoint_id, w.id AS webhook_id, w.url, named.type
    FROM webhooks w
    CROSS JOIN LATERAL (
      SELECT CASE w.format WHEN 'openai' THEN openai_event_type(e.type, e.job_id, e.body) ELSE e.type END
      OFFSET 0 -- so that event_patterns is planned with the statement: it would not be with a function as its argument
    ) AS named(type)
    WHERE w.tenant_id = e.tenant_id
      AND w.disabled_at IS NULL
      AND named.type IS NOT NULL
      AND w.events && event_patterns(named.type)
      AND (w.models IS NULL OR e.model IS NULL OR e.model = ANY(w.models))
    UNION ALL
    SELECT known.id, NULL, e.callback_url, e.type
    FROM endpoints known
    WHERE known.tenant_id = e.tenant_id AND known.origin = url_origin(e.callback_url)
  ) r
  JOIN endpoints ON endpoints.id = r.endpoint_id AND endpoints.webhook_id IS NOT DISTINCT FROM r.webhook_id
  WHERE e.type <> 'webhook.test'
  ORDER BY r.endpoint_id
  FOR KEY SHARE OF endpoints;
  RETURN NULL;
END
$$;

-- As in 0001_schema.sql, but for the body of what a subscription in OpenAI's words gets.
CREATE OR REPLACE VIEW delivery_requests AS
SELECT
  d.id, d.tenant_id, d.job_id, d.webhook_id, d.endpoint_id, d.event_type, d.tries,
  coalesce(w.url, d.url) AS url, -- a subscription's may have changed since
  w.headers,
  CASE w.format WHEN 'openai' THEN openai_event(e.id, d.event_type, e.created_at, d.job_id, w.id, e.body) ELSE e.body END AS body,
  now() AS claimed_at,
  extract(epoch FROM now() - d.schedule_started_at)::double precision AS age,
  extract(epoch FROM now() - e.created_at)::double precision AS event_age,
  ARRAY[coalesce(w.secret, t.webhook_secret)] || ARRAY(
    SELECT old.secret
    FROM old_secrets old
    WHERE old.tenant_id = d.tenant_id AND old.webhook_id IS NOT DISTINCT FROM d.webhook_id AND old.until > now()
    ORDER BY old.id DESC
  ) AS secrets
FROM live_deliveries d
JOIN events e ON e.id = d.event_id
JOIN tenants t ON t.id = d.tenant_id
LEFT JOIN webhooks w ON w.id = d.webhook_id;

GRANT SELECT (format) ON webhooks TO charonia_dispatcher;
