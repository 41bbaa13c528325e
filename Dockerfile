# docker build -t naq .
# docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" naq predict edges.csv --labels few.csv --out predictions.csv
FROM python:3.12-slim

# Extras of naq to install, divided by commas.
ARG NAQ_EXTRAS=io
# Builds of torch for the CPU only; an empty value takes those with CUDA, several gigabytes.
ARG PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu

WORKDIR /source
COPY pyproject.toml constraints.txt MANIFEST.in README.md LICENSE ./
COPY src src
COPY tools/container.sh tools/container.sh
RUN sh tools/container.sh install

# Any user may run it, so nothing is kept in a home folder.
ENV HOME=/tmp NAQ_CACHE=/tmp/naq
USER 1000
RUN sh tools/container.sh check

WORKDIR /work
ENTRYPOINT ["naq"]
CMD ["--help"]
