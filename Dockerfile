# Both commands of the README in a container:
#   docker build -t triton-kernel-lab .
#   docker run --rm $SANDBOX triton-kernel-lab
#   docker run --rm $SANDBOX triton-kernel-lab make test
# SANDBOX="--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined" lets
# bubblewrap create user namespaces and mount /proc. Without it your own work is graded with a warning, and a batch does not
# start. With an NVIDIA GPU and its container toolkit add --gpus all.
FROM python:3.12-slim-bookworm

# Triton compiles a small C file for the driver when a GPU is there; browser tests use Chromium.
RUN apt-get update \
 && apt-get install -y --no-install-recommends make git gcc libc6-dev chromium \
 && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 student
WORKDIR /home/student/lab
COPY --chown=student:student . .
USER student

# An index with CPU builds of torch makes the image much smaller: --build-arg PIP_OPTIONS="--extra-index-url URL"
ARG PIP_OPTIONS=""
# TARGET=.venv/.server-installed makes the image of docs/server.md.
ARG TARGET=install
RUN make $TARGET PIP_OPTIONS="$PIP_OPTIONS"

CMD ["make", "grade", "SUBMISSION=solutions"]
