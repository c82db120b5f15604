"""Makes the URLs that models get which take a reference to a file, and read it themselves."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from msgspec.structs import replace

from common import ids
from common.job_states import Failure
from common.object_store.keys import file_key
from common.object_store.store import MAX_LIFETIME, ObjectStore
from common.security.signed_urls import UrlSigner
from common.tensors import FileContent, Signature, Tensor
from services.dispatcher.triton.errors import InferenceError

SPARE = timedelta(minutes=5)  # after the attempt's timeout, because clocks differ
NO_URL = (
    "the model takes a reference to a file, but its dispatcher has no URL to give: the object store is a folder, and "
    "neither CHARONIA_GATEWAY_URL nor CHARONIA_PUBLIC_URL is set there; ask your operator"
)


class FileUrls:
    """Signs URLs of files, of the object store itself in the cloud, or else of a gateway."""

    def __init__(self, objects: ObjectStore, signer: UrlSigner, gateway: str) -> None:
        """`gateway` is the URL of a gateway, as Triton reaches it. It may be empty."""
        self._objects = objects
        self._signer = signer
        self._gateway = gateway.rstrip("/")

    async def sign(self, tenant_id: UUID, file_id: UUID, timeout: float) -> str:
        """Return a URL that lasts for an attempt of `timeout` seconds.

        Raises InferenceError if there is none, and StoreUnavailable.
        """
        lifetime = min(timedelta(seconds=timeout) + SPARE, MAX_LIFETIME)
        url = await self._objects.presign("GET", file_key(tenant_id, file_id), lifetime)
        if url is not None:
            return url
        if not self._gateway:
            raise InferenceError(Failure("unsupported", NO_URL, False))
        query = self._signer.sign(file_id, datetime.now(UTC), lifetime)
        return f"{self._gateway}/v1/files/{ids.encode(ids.Kind.FILE, file_id)}/content?{query}"


def fit_references(inputs: Sequence[Tensor], declared: Sequence[Signature]) -> list[Tensor]:
    """Return the inputs with those by reference that the model now takes so. Pure.

    The model may have changed since the submit. Raises InferenceError where it now needs something else.
    """
    references = {signature.name for signature in declared if signature.reference}
    return [fit_reference(tensor, wanted=tensor.name in references) for tensor in inputs]


def fit_reference(tensor: Tensor, *, wanted: bool) -> Tensor:
    if wanted:
        if not isinstance(tensor.data, FileContent) or tensor.data.inline:
            raise changed(tensor.name, "a reference to a file")
        return replace(tensor, data=replace(tensor.data, by_reference=True))
    if isinstance(tensor.data, FileContent) and tensor.data.by_reference:
        raise changed(tensor.name, "data")
    return tensor


def changed(name: str, wanted: str) -> InferenceError:
    text = f"input '{name}': the model has changed since the submit and takes {wanted} now; submit a new job"
    return InferenceError(Failure("invalid_input", text, False))
