"""Why a text is not JSON: the place, what was expected there, and the likely cause. Pure."""

import json
import re

PLACE = re.compile(r"^JSON is malformed: (.*) \(byte (\d+)\)$")
NUMBER = "numbers have digits on both sides of the point, and no leading 0 or +"
TRAILING = "the JSON has ended before; remove the rest"
HALF_PAIR = "\\u here is half of a surrogate pair; send both halves of the character, or leave it out"
# The first half of a pair without the second. The decoder takes the end of the text for the second.
FIRST_HALF = re.compile(rb"(?<!\\)(?:\\\\)*(?P<half>\\u[dD][89abAB][0-9a-fA-F]{2})(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})")
REASONS = {
    "expected ':'": "a name needs a colon behind it",
    "expected ',' or ']'": "expected ',' or ']'",
    "expected ',' or '}'": "expected ',' or '}'",
    "expected '\"'": "expected a name in double quotes",
    "object keys must be strings": "a name needs double quotes",
    "trailing comma in object": "remove the comma before '}'",
    "trailing comma in array": "remove the comma before ']'",
    "invalid escape character in string": "a backslash in a string is written \\\\",
    "invalid utf-16 surrogate pair": HALF_PAIR,
    "unexpected end of escaped utf-16 surrogate pair": HALF_PAIR,
    "invalid character in unicode escape": "\\u needs four hexadecimal digits",
    "invalid number": NUMBER,
    "trailing characters": TRAILING,
}
UNEXPECTED = "this character does not belong here"
LITERALS = {"true": "true", "false": "false", "none": "null", "undefined": "null", "nil": "null"}
LETTERS = re.compile(rb"^[A-Za-z]*")
LETTERS_BEFORE = re.compile(rb"[A-Za-z]*$")
FORM = re.compile(rb"\s*[A-Za-z_][\w.\[\]-]*=")
FILE_NAME = re.compile(rb"\s*(@[^\n]*|[\w./~-]+\.[A-Za-z]\w*)\s*")
NEAR = 20  # bytes that are shown
EMPTY_BODY = "the body is empty; send JSON"


def explain_syntax(body: bytes, error: Exception, what: str = "the body") -> str:
    """Return a sentence about a body that a decoder refused with this error. It calls the body `what`."""
    if not body.strip():
        return EMPTY_BODY
    if isinstance(error, RecursionError):
        return f"{what} is not JSON that can be read: it is nested too deeply"
    try:
        body.decode()
    except UnicodeDecodeError as found:
        return f"{what} is not JSON: byte {found.start} is not UTF-8; encode the text as UTF-8, and files as base64"
    if FORM.match(body):
        return f"{what} is a form, not JSON; send JSON, with names in double quotes"
    return f"{what} is not JSON: {explain_place(body, error)}"


def explain_place(body: bytes, error: Exception) -> str:
    reason, at = locate_error(body, error)
    if at is None:
        return "it ends too early; a quote, a bracket or a brace is not closed"
    known = REASONS.get(reason, UNEXPECTED)
    cause = known if known is HALF_PAIR else find_cause(body, at) or known
    lines = body[:at].split(b"\n")
    near = body[at : at + NEAR].partition(b"\n")[0].decode(errors="ignore")
    return f"line {len(lines)}, column {len(lines[-1].decode(errors='replace')) + 1}, at `{near}`: {cause}"


def locate_error(body: bytes, error: Exception) -> tuple[str, int | None]:
    """Return the decoder's reason, and the byte where it stopped; None at the end."""
    if isinstance(error, json.JSONDecodeError):
        at = len(error.doc[: error.pos].encode())
        return "", at if at < len(body.rstrip()) else None
    found = PLACE.match(str(error))
    if found is None:
        half = FIRST_HALF.search(body)
        return ("invalid utf-16 surrogate pair", half.start("half")) if half else ("", None)
    reason, at = found.group(1), int(found.group(2))
    return reason, min(at - (reason == "trailing characters"), len(body) - 1)  # it counts that character too


def find_cause(body: bytes, at: int) -> str | None:
    """Return the likely cause of a mistake at this byte."""
    if FILE_NAME.fullmatch(body):
        return "it looks like the name of a file; send its content, with curl as `--data-binary @FILE`"
    found = body[at : at + 1]
    if found == b"'":
        return "strings need double quotes, not single ones"
    if found in (b"/", b"#"):
        return "JSON has no comments; remove this one"
    if found < b" ":
        return "a string holds a line break or a tab; write it as \\n or \\t"
    if found in b".+":
        return NUMBER
    if found in b"}]" and body[:at].rstrip().endswith(b","):
        return f"remove the comma before '{found.decode()}'"
    start = at - len(LETTERS_BEFORE.findall(body[max(0, at - NEAR) : at])[0])
    word = LETTERS.findall(body[start : start + NEAR])[0].decode()
    if word.lower() in ("nan", "infinity"):
        return f'write {word} in quotes: "{word}"'
    meant = LITERALS.get(word.lower())
    return f"write {meant}, in lower case" if meant and word != meant else None
