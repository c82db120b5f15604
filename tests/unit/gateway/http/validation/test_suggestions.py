"""Did you mean: only a path that is near is suggested."""

import pytest

from services.gateway.http.validation.suggestions import suggest_path

TEMPLATES = (
    "/",
    "/console",
    "/v1/batches",
    "/v1/batches/{batch_id}",
    "/v1/batches/{batch_id}/results",
    "/v1/files/{file_id}/content",
    "/v1/jobs",
    "/v1/jobs/{job_id}",
    "/v1/models",
    "/v2/models/{name}/infer",
)


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/job", "/v1/jobs"),
        ("/v1/Jobs", "/v1/jobs"),
        ("/jobs", "/v1/jobs"),
        ("/jobs/job_1", "/v1/jobs/job_1"),
        ("/v1/job/job_1", "/v1/jobs/job_1"),
        ("/v1/batch/batch_1/result", "/v1/batches/batch_1/results"),
        ("/v1/files/file_1/contents", "/v1/files/file_1/content"),
        ("/v1/files/" + 100 * "f" + "/contents", "/v1/files/" + 100 * "f" + "/content"),
        ("/v1/chat/completions", None),
        ("/v1/embeddings", None),
        ("/v1/jobs/job_1/nothing/else", None),
        ("/v1/job/", None),
        ("/v3/jobs", None),
        ("/" + 1000 * "x", None),
    ],
)
def test_a_path_that_is_near_is_suggested(path: str, meant: str | None) -> None:
    assert suggest_path(path, TEMPLATES) == meant
