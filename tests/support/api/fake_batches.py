"""A gateway of batches without a network, whose jobs double their number. For tests of `map`."""

import base64
import json
import struct
from http import HTTPStatus

import httpx
import msgspec
from charonia import Charonia
from charonia.model_schemas import (
    ModelInfo,
    TensorInfo,
)
from charonia.schemas import BatchAccepted, BatchLine, Output

from tests.support.api.client_jobs import BEGINNING, make_succeeded

X = TensorInfo("x", "FP64", [1])
MODEL = ModelInfo(
    name="double", ready=True, streaming=False, max_batch_size=0, versions=[], inputs=[X], outputs=[], queue={}
)


class FakeBatches(httpx.MockTransport):
    """Ends each job at once, but not those of the numbers in `held`. `largest` is the most jobs of a batch.

    `batches` has the numbers of each batch in their order, and `keys` the Idempotency-Keys.
    """

    def __init__(self, largest: int = 1000) -> None:
        super().__init__(self._answer)
        self.batches: list[list[float]] = []
        self.keys: list[str] = []
        self._bodies: list[bytes] = []
        self.held: set[float] = set()
        self.largest = largest
        self.killed_at: int | None = None  # batch, before the answer to which the client is interrupted

    def make_client(self) -> Charonia:
        return Charonia("http://gateway", "k", http=httpx.Client(transport=self))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.startswith("/v1/models/"):
            return httpx.Response(200, content=msgspec.json.encode(MODEL))
        if request.method == "POST":
            return self._submit(request)
        number = int(path.split("/")[3])
        if path.endswith("/results"):
            first = int(request.url.params["from"])
            lines = [self._make_line(index, value) for index, value in enumerate(self.batches[number])]
            return httpx.Response(200, content=b"".join(msgspec.json.encode(each) + b"\n" for each in lines[first:]))
        return httpx.Response(200, content=msgspec.json.encode(self._view(number)))

    def _submit(self, request: httpx.Request) -> httpx.Response:
        defaults, *items = map(json.loads, request.read().splitlines())
        if "priority" in defaults["defaults"]:
            return refuse(HTTPStatus.UNPROCESSABLE_ENTITY, "/defaults/priority")
        if len(items) > self.largest:
            return refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "")
        key = request.headers["Idempotency-Key"]
        if key in self.keys and self._bodies[self.keys.index(key)] != request.content:
            return refuse(HTTPStatus.UNPROCESSABLE_ENTITY, "Idempotency-Key")
        if key not in self.keys:
            self.keys.append(key)
            self._bodies.append(request.content)
            self.batches.append([read_number(each) for each in items])
        if len(self.batches) == self.killed_at:
            raise KeyboardInterrupt
        return httpx.Response(202, content=msgspec.json.encode(self._view(self.keys.index(key))))

    def _view(self, number: int) -> BatchAccepted:
        values = self.batches[number]
        queued = len(self.held & set(values))
        return BatchAccepted(
            id=str(number),
            status="processing" if queued else "completed",
            total=len(values),
            accepted=len(values),
            counts={"queued": queued, "succeeded": len(values) - queued},
            created_at=BEGINNING,
            finished_at=None,
            errors=[],
        )

    def _make_line(self, index: int, value: float) -> BatchLine:
        job = make_succeeded([Output("y", "FP64", [1], [2 * value]), Output("t", "BYTES", [1], [f"<{value:g}>"])])
        if value in self.held:
            job = msgspec.structs.replace(job, status="queued", finished_at=None, outputs=None)
        return BatchLine(index=index, custom_id=None, job=job, error=None)


def read_number(item: dict[str, list[dict[str, dict[str, str]]]]) -> float:
    """Return the number of an item, which the client sends in base64."""
    (number,) = struct.unpack("<d", base64.b64decode(item["inputs"][0]["data"]["base64"]))
    return float(number)


def refuse(status: HTTPStatus, pointer: str) -> httpx.Response:
    errors = [{"pointer": pointer, "detail": "is wrong"}]
    return httpx.Response(status, json={"type": "urn:charonia:problem:refused", "detail": "refused", "errors": errors})
