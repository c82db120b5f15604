"""Readers for jobs whose inputs are all in their rows."""

from services.dispatcher.attempts.url_inputs import UrlInputs
from services.dispatcher.inputs.input_reader import InputReader


class NoFiles(InputReader):
    def __init__(self) -> None:
        pass


class NoUrls(UrlInputs):
    def __init__(self) -> None:
        pass
