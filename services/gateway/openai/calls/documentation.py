"""OpenAPI of OpenAI's calls: their errors."""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType

from litestar.openapi.datastructures import ResponseSpec

from services.gateway.http.problems import DESCRIPTIONS
from services.gateway.openai.problems import OpenAIError

OWN = {
    HTTPStatus.BAD_REQUEST: "The body is not JSON, a field is invalid, or the model cannot do what it asks for",
    HTTPStatus.NOT_FOUND: "There is no such model, or it does not speak OpenAI's API",
    HTTPStatus.REQUEST_TIMEOUT: "The body did not arrive in time, or the client left before the job ended",
    HTTPStatus.CONFLICT: "The job was canceled or has expired, or the first request with this key is under way",
    HTTPStatus.GONE: "The job was deleted or erased before its outputs were read",
    HTTPStatus.UNPROCESSABLE_ENTITY: "The `Idempotency-Key` belongs to another request, or is invalid",
    HTTPStatus.INTERNAL_SERVER_ERROR: "The model failed, or Charonia",
    HTTPStatus.GATEWAY_TIMEOUT: "The job did not end in time; with an `Idempotency-Key` it continues",
}
ANY_CALL = (
    HTTPStatus.BAD_REQUEST,  # an unknown query parameter
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
NAMED = (*ANY_CALL, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
SUBMIT = (
    *NAMED,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.GONE,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.GATEWAY_TIMEOUT,
)


def document(
    *statuses: HTTPStatus, meanings: Mapping[HTTPStatus, str] = MappingProxyType({})
) -> dict[int, ResponseSpec]:
    """Describe a call's errors for its OpenAPI. `meanings` are those that are the call's own."""
    descriptions = {**DESCRIPTIONS, **OWN, **meanings}
    return {
        int(status): ResponseSpec(OpenAIError, description=descriptions[status], generate_examples=False)
        for status in statuses
    }
