# Two targets: `host` computes on the CPU; `ascend` needs BASE to be an image with CANN. See deploy/README.md.
# The base is named by its tag, which gets fixes of Debian and Python; for the same bytes each time, give a digest:
# make image BASE=python:3.11-slim-bookworm@sha256:...
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS builder
# Debian and Ubuntu have apt, openEuler has dnf. Compiler and build tools are not in the final image, so their versions need
# no pin. DL3040 overlooks the `dnf clean all` of an else.
# hadolint ignore=DL3008,DL3040,DL3041
RUN if command -v apt-get; then \
        apt-get update && apt-get install --yes --no-install-recommends g++ make && rm -rf /var/lib/apt/lists/*; \
    else \
        dnf install --assumeyes gcc-c++ make && dnf clean all; \
    fi
WORKDIR /src
# What changes more often comes later: an edit of Python builds neither the C++ nor installs libraries again.
# An environment without pip, which the last stages copy.
COPY deploy/requirements.lock ./
RUN python3 -m venv --without-pip /opt/aclgrad \
    && pip --python /opt/aclgrad/bin/python install --no-cache-dir --no-compile --no-deps --only-binary :all: \
        --require-hashes --requirement requirements.lock
COPY LICENSE ./
COPY native ./native
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels ./native
COPY proto ./proto
COPY client ./client
COPY server ./server
# The environment has no files that no program runs: tests of packages, type stubs, headers. The commands run once so that
# their modules are compiled to byte code: a container with a read-only root cannot store it.
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels ./client ./server \
    && pip --python /opt/aclgrad/bin/python install --no-cache-dir --no-compile --no-deps /wheels/*.whl \
    && find /opt/aclgrad -depth \( -type d \( -name tests -o -name include \) -o -name '*.pyi' -o -name '*.a' \) \
        -exec rm -r {} + \
    && /opt/aclgrad/bin/aclgrad-server --version \
    && /opt/aclgrad/bin/aclgrad-server probe --help \
    && /opt/aclgrad/bin/aclgrad-server doctor --help

FROM ${BASE} AS runtime
# The device nodes of an Ascend host belong to user and group HwHiAiUser, which is 1000 on most, and CANN needs the user to
# have a name. The home is /tmp, which a read-only container can have in memory. Not every base has useradd.
ARG UID=1000
ARG GID=1000
RUN getent group "${GID}" || echo "aclgrad:x:${GID}:" >> /etc/group; \
    getent passwd "${UID}" || echo "aclgrad:x:${UID}:${GID}:aclgrad:/tmp:/sbin/nologin" >> /etc/passwd
COPY --from=builder /opt/aclgrad /opt/aclgrad
ENV PATH=/opt/aclgrad/bin:${PATH} \
    HOME=/tmp
# CANN's compiler writes to the working directory, which is the root by default.
WORKDIR /tmp
USER ${UID}:${GID}
# `make image` gives these; it adds base.digest if BASE has one.
ARG BASE
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED
ARG SOURCE
ARG URL=${SOURCE}
ARG DOCUMENTATION=${URL}
LABEL org.opencontainers.image.title="aclgrad" \
      org.opencontainers.image.description="Serves CANN's aclnn backward operators over gRPC" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.authors="The aclgrad developers" \
      org.opencontainers.image.vendor="The aclgrad developers" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.url="${URL}" \
      org.opencontainers.image.documentation="${DOCUMENTATION}" \
      org.opencontainers.image.base.name="${BASE}"
EXPOSE 50051 9464
STOPSIGNAL SIGTERM
# Asks the admin listener, at ACLGRAD_ADMIN or 127.0.0.1:9464, whether the server is ready.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD ["aclgrad-server", "probe"]

# Neither target sets a listen address or --insecure: pass them explicitly, as `--listen 0.0.0.0:50051 --insecure`.
FROM runtime AS ascend
# The driver's libraries are mounted from the host, because they must match the host's driver.
ARG DRIVER=/usr/local/Ascend/driver/lib64
ENV LD_LIBRARY_PATH=${DRIVER}:${DRIVER}/common:${DRIVER}/driver${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}
# CANN keeps 200 MB of log for each process by default; here it keeps 40 MB. Mount a folder with room for log and traces
# at /var/ascend. The last setting stops CANN's trace library from dumping all stacks whenever the server stops.
ENV ASCEND_WORK_PATH=/var/ascend \
    ASCEND_PROCESS_LOG_PATH=/var/ascend/log \
    ASCEND_HOST_LOG_FILE_NUM=2 \
    ASCEND_COREDUMP_SIGNAL=none
ENTRYPOINT ["aclgrad-server", "--backend", "ascend"]

FROM runtime AS host
ENTRYPOINT ["aclgrad-server", "--backend", "host"]
