"""The HTTP API: jobs, events, batches, webhooks, models and the Open Inference Protocol."""
