# Two targets: `host` computes on the CPU; `ascend` needs BASE to be an image with CANN. deploy/README.md tells more.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS builder
# Versions of a compiler that is not in the image need no pin; the wheels' own dependencies have ranges.
# hadolint ignore=DL3008
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
# An environment without pip, of which the last stages take a copy. Left out is what no program runs: tests of packages,
# stubs of types, headers. The commands run once to compile the modules they import to byte code, because a container
# with a read-only root could not keep it.
RUN python3 -m venv --without-pip /opt/aclgrad \
    && pip --python /opt/aclgrad/bin/python install --no-cache-dir --no-compile /wheels/*.whl \
    && find /opt/aclgrad -depth \( -type d \( -name tests -o -name include \) -o -name '*.pyi' -o -name '*.a' \) \
        -exec rm -r {} + \
    && /opt/aclgrad/bin/aclgrad-server --version \
    && /opt/aclgrad/bin/aclgrad-server probe --help \
    && /opt/aclgrad/bin/aclgrad-server doctor --help

FROM ${BASE} AS runtime
# The device nodes of an Ascend host belong to user and group HwHiAiUser, 1000 on most, and CANN wants the user to have a
# name. /tmp is what a read-only container may have in memory.
ARG UID=1000
ARG GID=1000
RUN getent group "${GID}" || groupadd --gid "${GID}" aclgrad; \
    getent passwd "${UID}" || useradd --uid "${UID}" --gid "${GID}" --home-dir /tmp --no-create-home aclgrad
COPY --from=builder /opt/aclgrad /opt/aclgrad
ENV PATH=/opt/aclgrad/bin:${PATH} \
    HOME=/tmp
USER ${UID}:${GID}
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="aclgrad" \
      org.opencontainers.image.description="Serves CANN's aclnn backward operators over gRPC" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
EXPOSE 50051 9464
STOPSIGNAL SIGTERM
# Asks the admin listener at 127.0.0.1:9464, or where ACLGRAD_ADMIN says, whether the server is ready.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["aclgrad-server", "probe"]

# No listen address is hidden in either target: give one, for example `--listen 0.0.0.0:50051`.
FROM runtime AS ascend
# The driver's libraries come from the host, whose driver they have to be of.
ARG DRIVER=/usr/local/Ascend/driver/lib64
ENV LD_LIBRARY_PATH=${DRIVER}:${DRIVER}/common:${DRIVER}/driver${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}
# CANN keeps 200 MB of log for each process by default: here 40 MB, and traces beside it, in a folder to be mounted with
# room for them. Its trace library would begin every stop with a dump of all stacks.
ENV ASCEND_WORK_PATH=/var/ascend \
    ASCEND_PROCESS_LOG_PATH=/var/ascend/log \
    ASCEND_HOST_LOG_FILE_NUM=2 \
    ASCEND_COREDUMP_SIGNAL=none
ENTRYPOINT ["aclgrad-server", "--backend", "ascend"]

FROM runtime AS host
ENTRYPOINT ["aclgrad-server", "--backend", "host"]
