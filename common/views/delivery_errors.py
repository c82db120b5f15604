"""Why an attempt of a delivery failed, in a sentence. The notifier stores only the code."""

from common.views.job_parts import AttemptFailure

MESSAGES = {
    "timeout": "the receiver did not answer in time",
    "dns_failed": "the name of the receiver cannot be resolved",
    "address_refused": "the address of the receiver is not public",
    "invalid_url": "the URL or a header cannot be used",
    "connect_timeout": "the receiver did not accept the connection in time",
    "connect_refused": "the receiver refused the connection",
    "connect_failed": "the network reports that the receiver cannot be reached",
    "connection_reset": "the receiver closed the connection before it answered",
    "tls_expired": "the certificate of the receiver has expired",
    "tls_hostname": "the certificate of the receiver is for another name",
    "tls_untrusted": "the certificate of the receiver is not signed by a known authority",
    "tls_protocol": "the TLS handshake with the receiver failed",
    "bad_response": "the response is not valid HTTP, or its headers are too large",
    "response_too_large": "the response is too large",
    "proxy_failed": "the egress proxy failed",
    "secret_unreadable": "no configured key decrypts the secret",
    "local_fault": "the machine of the notifier ran out of a resource",
}


def explain_attempt(code: str, status_code: int | None) -> AttemptFailure:
    """Return an error with its message. A newer notifier may have written a code that is unknown here."""
    if code == "http_status":
        return AttemptFailure(code, f"the receiver answered {status_code}")
    return AttemptFailure(code, MESSAGES.get(code, code.replace("_", " ")))
