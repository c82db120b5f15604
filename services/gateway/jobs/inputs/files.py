"""Looks up the files that submits refer to."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from uuid import UUID

import msgspec

from common.errors import StoreNotFound
from common.jobs.new_job import JobFile
from common.locations.location import Location
from common.object_store.keys import file_key
from common.object_store.store import ObjectStore
from common.security.ssrf import AddressPolicy
from services.gateway.http.problems import LATER, FieldError, Problem, invalid
from services.gateway.jobs.inputs.locations import (
    READS,
    InputLocations,
    describe_content,
    gather_within,
    limit_seconds,
)
from services.gateway.jobs.inputs.references import KnownFile, KnownFiles
from services.gateway.jobs.inputs.store import InputStore, StoredFile
from services.gateway.jobs.parse import SubmitContext


class InputFiles:
    """The files of tenants, as inputs of jobs."""

    def __init__(
        self,
        store: InputStore,
        objects: ObjectStore,
        locations: InputLocations,
        max_tensor: int,
        policy: AddressPolicy,
    ) -> None:
        """`max_tensor` limits one tensor from a file or URL, in bytes. `policy` is that of URLs."""
        self.store = store
        self._objects = objects
        self._locations = locations
        self.max_tensor = max_tensor
        self.policy = policy

    async def add_to(self, context: SubmitContext, needed: Mapping[UUID | Location, bool]) -> SubmitContext:
        """Return the context with the files and objects that its tenant may read, and the folders it may write to.

        `needed`: each with whether it may be an .npy file.
        """
        locations = {each: npy for each, npy in needed.items() if isinstance(each, Location)}
        objects = await self._locations.describe(
            context.tenant_id, {each: npy for each, npy in locations.items() if not each.is_folder}
        )
        writable = await self._locations.find_writable(
            context.tenant_id, [each for each in locations if each.is_folder]
        )
        stored = await self.store.find_files(context.tenant_id, [each for each in needed if isinstance(each, UUID)])
        reads = asyncio.Semaphore(READS)

        async def describe(file_id: UUID, stored: StoredFile) -> KnownFile | None:
            async with reads:
                try:
                    key = file_key(context.tenant_id, file_id)
                    found = await describe_content(self._objects, key, stored.size, may_be_npy=needed[file_id])
                    return msgspec.structs.replace(found, sha256=stored.sha256)
                except StoreNotFound:  # a sweeper deleted it just now
                    return None

        described = await gather_within(
            limit_seconds(len(stored)), {each[0]: describe(*each) for each in stored.items()}
        )
        found = {file_id: file for file_id, file in described.items() if file is not None}
        return context._replace(files=KnownFiles(found, self.max_tensor, self.policy, objects, writable))


def file_gone(file: JobFile) -> Problem:
    """Return the refusal of a job whose file was deleted while it was submitted."""
    text = "file not found: it was deleted, or has expired, just now; upload it again with POST /v1/files"
    return invalid(FieldError(file.pointer, text))


def inputs_lost() -> Problem:
    """Return the refusal of jobs whose large inputs a sweeper has taken."""
    text = "storing the job's inputs took too long, and they were given up; send the request again"
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text, headers=LATER)
