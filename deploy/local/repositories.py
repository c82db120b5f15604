"""Checks the folder of the user's own models, before Triton reads it."""

from pathlib import Path

from deploy.local.errors import InvalidSetting

CONFIGURATION = "config.pbtxt"


def check_models(demo: Path, own: Path | None) -> None:
    """Raise InvalidSetting, which says what to do, unless Triton can serve both folders side by side."""
    if own is None:
        return
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


def list_names(repository: Path) -> set[str]:
    return {entry.name for entry in repository.iterdir() if entry.is_dir()} if repository.is_dir() else set()
