"""What a later release does to the database, while services of this one run."""

import msgspec

# A migration that allows more states and priorities of a job.
ALLOW_MORE = "ALTER TABLE jobs DROP CONSTRAINT jobs_status_check, DROP CONSTRAINT jobs_priority_check"
SET_STATUS = "UPDATE jobs SET status = 'paused' WHERE id = $1"
SET_PRIORITY = "UPDATE jobs SET priority = 'urgent' WHERE id = $1"
# Packed inputs: one with a new datatype, and two whose contents are of a new kind.
NEWER_INPUTS = tuple(
    msgspec.msgpack.encode([["x", datatype, [1], data]])
    for datatype, data in (("FP8", b"\0"), ("FP32", ["stream", "s1"]), ("FP32", {"parts": []}))
)
