"""Reads a part of a file by its URL. Says how large the file is, and which SHA-256 the part has."""

import hashlib
import urllib.error
import urllib.request

import numpy as np
import triton_python_backend_utils as pb_utils

TIMEOUT = 10.0  # seconds without a byte
PIECE = 1024 * 1024
DEFAULT_LENGTH = 64 * 1024


class TritonPythonModel:
    def execute(self, requests):
        return [_answer(request) for request in requests]


def _answer(request):
    url = pb_utils.get_input_tensor_by_name(request, "audio").as_numpy()[0].decode()
    offset, length = _read_number(request, "offset", 0), _read_number(request, "length", DEFAULT_LENGTH)
    if offset < 0 or length < 1:
        error = pb_utils.TritonError("INVALID_ARG: offset must be at least 0, and length at least 1")
        return pb_utils.InferenceResponse(error=error)
    try:
        size, digest = _read_part(url, offset, length)
    except urllib.error.HTTPError as error:
        permanent = "INVALID_ARG: " if error.code == 416 else ""  # the file ends before the offset
        text = f"{permanent}the file could not be read: HTTP {error.code}"  # without the URL, which is secret
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(text))
    outputs = [
        pb_utils.Tensor("size", np.array([size], dtype=np.int64)),
        pb_utils.Tensor("sha256", np.array([digest.encode()], dtype=np.object_)),
    ]
    return pb_utils.InferenceResponse(outputs)


def _read_number(request, name, default):
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None else int(tensor.as_numpy()[0])


def _read_part(url, offset, length):
    """Return the size of the file, and the SHA-256 of up to `length` bytes from `offset`."""
    digest = hashlib.sha256()
    headers = {"Range": f"bytes={offset}-{offset + length - 1}"}
    wanted = urllib.request.Request(url, headers=headers)  # noqa: S310 -- Charonia made the URL
    with urllib.request.urlopen(wanted, timeout=TIMEOUT) as response:  # noqa: S310
        while piece := response.read(PIECE):
            digest.update(piece)
        content_range = response.headers["Content-Range"]  # such as "bytes 0-1023/4096"
    return int(content_range.rpartition("/")[2]), digest.hexdigest()
