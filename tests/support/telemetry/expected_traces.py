"""The traces that jobs are expected to have, as rendered by trace_tree.py, and the attributes of their spans."""

SUCCEEDED = """
SERVER POST /v1/jobs
  CLIENT INSERT jobs
  PRODUCER send charonia.jobs
    INTERNAL queued jobs.echo
    CONSUMER process jobs.echo = succeeded
      CLIENT infer echo
      CLIENT UPDATE jobs
      PRODUCER send charonia.events
        CONSUMER process notifier.events
          CLIENT POST webhook
"""
FAILED_TWICE = """
SERVER POST /v1/jobs
  CLIENT INSERT jobs
  PRODUCER send charonia.jobs
    INTERNAL queued jobs.faulty
    CONSUMER process jobs.faulty = retried ! inference_failed
      CLIENT infer faulty ! inference_failed
      CLIENT UPDATE jobs
  PRODUCER send charonia.jobs
    INTERNAL queued jobs.faulty
    CONSUMER process jobs.faulty = succeeded
      CLIENT infer faulty
      CLIENT UPDATE jobs
      PRODUCER send charonia.events
        CONSUMER process notifier.events
          CLIENT POST webhook ! 500
          CLIENT POST webhook ! 503
          CLIENT POST webhook
"""
RUN = """
SERVER POST /v1/jobs
  CLIENT INSERT jobs
  PRODUCER send charonia.jobs
    INTERNAL queued jobs.echo
    CONSUMER process jobs.echo = succeeded
      CLIENT infer echo
      CLIENT UPDATE jobs
  PRODUCER send charonia.jobs
    INTERNAL queued jobs.echo
    CONSUMER process jobs.echo = succeeded
      CLIENT infer echo
      CLIENT UPDATE jobs
  PRODUCER send charonia.events
    CONSUMER process notifier.events
      CLIENT POST webhook
"""
CANCELED = """
SERVER POST /v1/jobs
  CLIENT INSERT jobs
  PRODUCER send charonia.jobs
    INTERNAL queued jobs.work
    CONSUMER process jobs.work = canceled (canceling)
      CLIENT infer work
      CLIENT UPDATE jobs
      PRODUCER send charonia.events
        CONSUMER process notifier.events
  PRODUCER send charonia.control
"""
CANCELED_EARLY = """
SERVER POST /v1/jobs
  CLIENT INSERT jobs
  INTERNAL queued jobs.echo = canceled
    PRODUCER send charonia.events
      CONSUMER process notifier.events
"""
BATCH_JOB = """
INTERNAL submit jobs.{model}
  PRODUCER send charonia.jobs
    INTERNAL queued jobs.{model}
    CONSUMER process jobs.{model} = succeeded
      CLIENT infer {model}
      CLIENT UPDATE jobs
      PRODUCER send charonia.events
        CONSUMER process notifier.events
"""
BATCH = """
SERVER POST /v1/batches
  PRODUCER send charonia.events
    CONSUMER process notifier.events
"""
# The attributes that the conventions require, and our own that identify the job.
REQUIRED = {
    "POST /v1/jobs": {
        "http.request.method",
        "http.route",
        "http.response.status_code",
        "url.path",
        "url.scheme",
        "server.address",
        "server.port",
        "client.address",
        "network.protocol.version",
    },
    "INSERT jobs": {"db.system.name", "db.operation.name", "db.collection.name", "db.query.summary"},
    "send charonia.jobs": {
        "messaging.system",
        "messaging.operation.name",
        "messaging.operation.type",
        "messaging.destination.name",
        "messaging.message.id",
        "messaging.rabbitmq.destination.routing_key",
    },
    "queued jobs.echo": {"charonia.job_id", "charonia.tenant_id", "charonia.model", "charonia.priority"},
    "process jobs.echo": {
        "messaging.system",
        "messaging.operation.name",
        "messaging.operation.type",
        "messaging.destination.name",
        "charonia.job_id",
        "charonia.tenant_id",
        "charonia.model",
        "charonia.attempt",
        "charonia.outcome",
    },
    "infer echo": {"rpc.system.name", "rpc.method", "charonia.model", "charonia.job_id"},
    "process notifier.events": {"messaging.system", "messaging.operation.name", "messaging.destination.name"},
    "POST webhook": {
        "http.request.method",
        "http.response.status_code",
        "server.address",
        "server.port",
        "url.full",
        "charonia.delivery_id",
        "charonia.job_id",
    },
}
# Triton's own spans, with their parents. It omits up to a tenth of all requests, so one of several jobs must show them.
TRITON = {"InferRequest": "infer echo", "echo": "InferRequest", "compute": "echo"}
