"""What the routes of files use."""

from dataclasses import dataclass

from litestar.di import NamedDependency
from litestar.params import SkipValidation

from common.object_store.store import ObjectStore
from common.security.signed_urls import UrlSigner
from services.gateway.auth.authentication import Authenticator
from services.gateway.files.presigned import PresignedUploads
from services.gateway.files.store import FileStore
from services.gateway.files.uploads import Uploader


@dataclass(frozen=True)
class FileServices:
    authenticator: Authenticator
    store: FileStore
    objects: ObjectStore
    uploader: Uploader
    presigned: PresignedUploads
    signer: UrlSigner
    redirects: bool  # of downloads, to the object store


Services = NamedDependency[SkipValidation[FileServices]]
