"""A real S3 server: moto's, behind a proxy that refuses wrong signatures and expired URLs, which moto accepts."""

HEALTH = "/moto-api/"  # answered without a signature
