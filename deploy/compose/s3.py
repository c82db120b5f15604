"""Runs SeaweedFS as the S3 server of the compose stack, and makes its bucket. `--check` says whether that is done.

S3 asks for the credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. The parts behind it ask for none, so they
listen on loopback only. It needs only the standard library.
"""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

BUCKET = os.environ.get("S3_BUCKET", "charonia")
READY = Path("/tmp/ready")  # noqa: S108 - a tmpfs of the container
HEALTH = "http://127.0.0.1:8333/healthz"
WITHIN = 60.0  # seconds
SERVER = (
    "weed",
    "-logtostderr=true",
    "server",
    "-dir=/data",
    "-ip=127.0.0.1",
    "-ip.bind=127.0.0.1",
    "-master.telemetry=false",
    "-master.volumeSizeLimitMB=1024",
    "-volume.max=0",
    "-volume.preStopSeconds=1",
    "-filer",
    "-s3",
    "-s3.port=8333",
    "-s3.ip.bind=0.0.0.0",
    "-s3.iam=false",
    "-s3.autoCreateBucket=false",
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
    "-s3.readerCacheSizeMB=64",
)
SHELL = ("weed", "shell", "-master=127.0.0.1:9333", "-filer=127.0.0.1:8888")


def is_up() -> bool:
    try:
        with urllib.request.urlopen(HEALTH, timeout=3) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def make_bucket() -> bool:
    """Make the bucket if it is missing. Return whether it is there."""
    text = f"s3.bucket.create -name {BUCKET}\ns3.bucket.list\n"
    try:
        done = subprocess.run(SHELL, input=text, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return False
    return any(line.split()[:1] == [BUCKET] for line in done.stdout.splitlines())


def main() -> int:
    READY.unlink(missing_ok=True)
    server = subprocess.Popen(SERVER)
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    deadline = time.monotonic() + WITHIN
    while server.poll() is None and not READY.exists():
        if is_up() and make_bucket():
            READY.touch()
        elif time.monotonic() > deadline:
            sys.stderr.write(f"error: the bucket {BUCKET} was not made within {WITHIN:g} s\n")
            server.terminate()
            break
        else:
            time.sleep(0.2)
    return server.wait()


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if READY.exists() and is_up() else 1)
    sys.exit(main())
