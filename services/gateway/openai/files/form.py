"""Reads the form in which OpenAI's clients send a file, piece by piece. Its file may come first or last."""

import re
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus

from multipart import MultipartError, MultipartSegment, PushMultipartParser, parse_options_header

from services.gateway.files.announcements import check_encodings
from services.gateway.files.store import Description
from services.gateway.http.negotiation import refuse
from services.gateway.http.problems import FieldError, Problem, escape, invalid
from services.gateway.http.validation.suggestions import list_names, say_unknown

FORM = "multipart/form-data"
FILE, PURPOSE = "file", "purpose"
ANCHOR, SECONDS = "expires_after[anchor]", "expires_after[seconds]"
FIELDS = (FILE, PURPOSE, ANCHOR, SECONDS)
PURPOSES = ("batch", "user_data")
MAX_FIELD = 1024  # bytes of a field that is no file
MAX_NAME = 255  # characters of a file's name
HIDDEN = re.compile(r"[\x00-\x1f\x7f]")


class FileForm:
    """The form of one upload. Only its file may be large."""

    def __init__(self, headers: Mapping[str, str], longest: float) -> None:
        """`longest` is for how many seconds a file may be kept. Raises Problem (415) for another kind of body."""
        check_encodings(headers)
        kind, options = parse_options_header(headers.get("content-type", ""))
        boundary = options.get("boundary", "")
        if kind != FORM or not boundary:
            raise refuse(
                f"the body's Content-Type is '{kind[:100]}'; expected {FORM} with a boundary, as clients send it"
            )
        self._longest = longest
        # A few fields more than known, so that their names can be told.
        self._parser = PushMultipartParser(boundary, max_segment_count=2 * len(FIELDS))
        self._fields: dict[str, bytearray] = {}
        self._field = bytearray()  # the one that is read now, unless it is the file
        self._is_file = False
        self._names: list[str] = []  # of files

    async def read(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the bytes of the file. Raises Problem (400) for a broken form."""
        try:
            async for chunk in body:
                for event in self._parser.parse(chunk) if chunk else ():
                    if isinstance(event, MultipartSegment):
                        self._begin(event)
                    elif event is not None and self._is_file:
                        yield bytes(event)
                    elif event is not None:
                        self._add(event)
            self._parser.close()
        except MultipartError as error:
            text = f"the form is broken: {error}; send it as {FORM}"
            raise Problem(HTTPStatus.BAD_REQUEST, "malformed_form", text) from error

    def _begin(self, segment: MultipartSegment) -> None:
        name = segment.name or ""
        self._is_file = name == FILE
        if self._is_file:
            self._names.append(segment.filename or "")
            if len(self._names) > 1:
                raise wrong(FILE, "is given more than once; send each file alone")
        elif name in self._fields:
            raise wrong(name, "is given more than once; give it once")
        else:
            self._field = self._fields[name] = bytearray()

    def _add(self, part: bytes | bytearray) -> None:
        self._field += part
        if len(self._field) > MAX_FIELD:
            raise invalid(FieldError("", f"a field of the form other than `{FILE}` has more than {MAX_FIELD} bytes"))

    def describe(self) -> Description:
        """Return the file's name and purpose, and for how long it is kept. Raises Problem (422)."""
        texts = {name: bytes(value).decode(errors="replace") for name, value in self._fields.items()}
        errors = [FieldError(point(name), say_unknown("field", name, FIELDS)) for name in texts if name not in FIELDS]
        if not self._names:
            errors.append(FieldError(point(FILE), f"is missing; send the file as the field `{FILE}` of the form"))
        purpose = texts.get(PURPOSE)
        if purpose not in PURPOSES:
            given = "is missing" if purpose is None else f"is '{purpose[:100]}'"
            errors.append(
                FieldError(point(PURPOSE), f"{given}; expected {list_names(PURPOSES, '`')}: this API has no others")
            )
        kept = None
        if ANCHOR in texts or SECONDS in texts:
            kept = self._read_seconds(texts, errors)
        if errors:
            raise invalid(*errors)
        return Description(HIDDEN.sub("", self._names[0])[:MAX_NAME], purpose, kept)

    def _read_seconds(self, texts: Mapping[str, str], errors: list[FieldError]) -> float | None:
        """Return for how many seconds the file is kept, or add what is wrong."""
        if texts.get(ANCHOR) != "created_at":
            errors.append(FieldError(point(ANCHOR), "must be created_at"))
        seconds = texts.get(SECONDS, "")
        if seconds.isascii() and seconds.isdecimal() and 0 < int(seconds[:10]) <= self._longest:
            return float(seconds[:10])
        errors.append(FieldError(point(SECONDS), f"must be a whole number from 1 to {self._longest:g}"))
        return None


def point(name: str) -> str:
    """Return a field of a form as a JSON pointer, as errors have those of a body."""
    return f"/{escape(name)}"


def wrong(name: str, detail: str) -> Problem:
    return invalid(FieldError(point(name), detail))
