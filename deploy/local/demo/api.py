"""Makes the three API calls of the demo."""

from typing import Any

import httpx

from deploy.local.demo.errors import DemoFailed

CALL_SECONDS = 10.0


class Api:
    def __init__(self, url: str, key: str) -> None:
        self._client = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=CALL_SECONDS, trust_env=False
        )

    def submit(self, job: dict[str, Any]) -> dict[str, Any]:
        """Return the accepted job."""
        return self._call("POST", "/v1/jobs", 202, job)

    def find(self, job_id: str) -> dict[str, Any]:
        return self._call("GET", f"/v1/jobs/{job_id}", 200)

    def read_secret(self) -> str:
        """Return the secret that signs the webhooks of jobs."""
        secret: str = self._call("GET", "/v1/webhook-secret", 200)["secret"]
        return secret

    def close(self) -> None:
        self._client.close()

    def _call(self, method: str, path: str, wanted: int, body: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            answer = self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise DemoFailed(f"{method} {path}: {type(error).__name__}: {error}") from error
        if answer.status_code != wanted:
            raise DemoFailed(
                f"{method} {path} was answered with {answer.status_code}; {wanted} was expected: {answer.text[:2000]}"
            )
        found: dict[str, Any] = answer.json()
        return found
