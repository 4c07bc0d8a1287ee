# Builds the wheels in one stage and installs them, without a compiler, in another.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS builder
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ make \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY LICENSE ./
COPY proto ./proto
COPY client ./client
COPY native ./native
COPY server ./server
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels ./client ./native ./server

FROM ${BASE} AS host
COPY --from=builder /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -rf /wheels \
    && useradd --system --uid 1000 --no-create-home aclgrad
USER 1000
EXPOSE 50051
STOPSIGNAL SIGTERM
# No listen address is hidden here: give one, for example `--listen 0.0.0.0:50051`.
ENTRYPOINT ["aclgrad-server"]
CMD ["--backend", "host"]
