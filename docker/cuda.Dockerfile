# SPDX-License-Identifier: Apache-2.0
# cuda.Dockerfile: an image with fsdpgen and what builds and runs trainers on GPUs. From the root of a
# checkout:
#
#   docker build -f docker/cuda.Dockerfile -t fsdpgen:cuda .
#   docker run --rm -it --gpus all -v "$PWD/run:/work" --user "$(id -u):$(id -g)" fsdpgen:cuda
FROM ubuntu:24.04 AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
        cmake gcc libc6-dev libjansson-dev liblua5.4-dev libpcre2-dev libutf8proc-dev \
        libxxhash-dev libyaml-dev libzstd-dev make pkg-config && \
    rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY CMakeLists.txt LICENSE LICENSE-MIT-0 README.md ./
COPY docs docs
COPY gen gen
COPY models models
COPY runtime runtime
COPY templates templates
COPY tests/cudasim tests/cudasim
COPY tests/ops tests/ops
RUN cmake -S . -B build -DFSDPGEN_TESTS=OFF -DFSDPGEN_RUNTIME=OFF && \
    cmake --build build -j "$(nproc)" && \
    cmake --install build --prefix /usr/local

# Trainers are built here too: the image has nvcc, cuBLAS and NCCL.
FROM nvidia/cuda:13.0.0-devel-ubuntu24.04
RUN apt-get update && apt-get install -y --no-install-recommends \
        g++ gcc libc6-dev libjansson4 liblua5.4-0 libpcre2-8-0 libutf8proc3 libxxhash0 \
        libyaml-0-2 libzstd1 make && \
    rm -rf /var/lib/apt/lists/* && \
    useradd --create-home fsdpgen
COPY --from=build /usr/local /usr/local
USER fsdpgen
WORKDIR /work
CMD ["bash"]
