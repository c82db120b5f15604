"""Checks the folders of models, before Triton reads them."""

from collections.abc import Iterable
from pathlib import Path

from deploy.local.errors import InvalidSetting

CONFIGURATION = "config.pbtxt"


def check_models(demo: Path, own: Path | None) -> None:
    """Raise InvalidSetting, which says what to do, unless Triton can serve both folders side by side."""
    try:
        check_links(demo)
        if own is not None:
            check_links(own)
            check_own(demo, own)
    except PermissionError as error:
        raise InvalidSetting(f"{error.filename} cannot be read: change its permissions") from error


def check_links(repository: Path) -> None:
    """Raise InvalidSetting for a link that leads nowhere: Triton then reads nothing of the repository."""
    for entry in repository.iterdir() if repository.is_dir() else ():
        if entry.is_symlink() and not entry.exists():
            raise InvalidSetting(f"{entry} is a link that leads nowhere; Triton reads no folder with one: remove it")


def check_own(demo: Path, own: Path) -> None:
    if not own.is_dir():
        raise InvalidSetting(f"MODELS is {str(own)!r}, but there is no such folder")
    if (own / CONFIGURATION).exists():
        raise InvalidSetting(f"MODELS is {str(own)!r}, which is a model: set it to the folder of all your models")
    both = sorted(list_names(own) & list_names(demo))
    if both:
        raise InvalidSetting(
            f"{own} and {demo} both have a model {both[0]!r}: rename yours, or serve yours alone with "
            f"MODEL_REPOSITORY={own} instead of MODELS"
        )


def check_language_models(repository: Path, others: Iterable[Path | None]) -> None:
    """Raise InvalidSetting, which says what to do, unless Triton can serve this folder beside the others."""
    if not repository.is_dir():  # in an installation from a bundle
        raise InvalidSetting(f"LANGUAGE_MODELS is 1, but there is no {repository}: only a clone has these models")
    for other in filter(None, others):
        if both := sorted(list_names(repository) & list_names(other)):
            raise InvalidSetting(
                f"LANGUAGE_MODELS is 1, but {other} has a model {both[0]!r}, too: rename it, or leave the variable out"
            )


def list_names(repository: Path) -> set[str]:
    return {entry.name for entry in repository.iterdir() if entry.is_dir()} if repository.is_dir() else set()


def find_links(repository: Path) -> list[Path]:
    """Return what the links of a repository lead to."""
    entries = repository.iterdir() if repository.is_dir() else ()
    return [entry.resolve() for entry in entries if entry.is_symlink()]
