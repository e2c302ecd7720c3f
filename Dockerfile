# The book and its tests on bare Debian, with pip's packages only.
#
#   docker build -t reconstruction-risk .
#   docker run --name reproduction reconstruction-risk        # ./reproduce.sh
#   docker cp reproduction:/srv/book/_build/html .
#
# An index other than pip's own: --build-arg PIP_INDEX_URL=...; the CPU build of PyTorch, which is
# smaller, by --build-arg PIP_EXTRA_INDEX_URL=... of its index.
FROM debian:12-slim

RUN apt-get update -qq \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        ca-certificates chromium chromium-driver fonts-dejavu-core git make python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

ARG PIP_INDEX_URL=
ARG PIP_EXTRA_INDEX_URL=
RUN useradd --create-home reader && mkdir -p /srv/book && chown reader /srv/book
USER reader
WORKDIR /srv/book

# The environment first: it changes less often than the text.
COPY --chown=reader pyproject.toml constraints.txt README.md LICENSE Makefile ./
COPY --chown=reader lib ./lib
RUN test -n "$PIP_INDEX_URL" || unset PIP_INDEX_URL; \
    test -n "$PIP_EXTRA_INDEX_URL" || unset PIP_EXTRA_INDEX_URL; \
    make .venv/.installed
COPY --chown=reader . .

ENV PATH=/srv/book/.venv/bin:$PATH CI=true
CMD ["./reproduce.sh"]
