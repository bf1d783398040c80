# The course for students, from Debian's own Python and the README's two commands.
# Binder builds this file too: it sets the user's name and number, and starts Jupyter by itself.
FROM debian:12-slim

RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git make python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

ARG NB_USER=student
ARG NB_UID=1000
RUN useradd --create-home --uid ${NB_UID} ${NB_USER}

ENV COURSE=/home/${NB_USER}/course
COPY --chown=${NB_UID} . ${COURSE}
RUN chown ${NB_UID} ${COURSE}
USER ${NB_USER}
WORKDIR ${COURSE}

RUN PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu PIP_NO_CACHE_DIR=1 make setup

# Binder looks for `jupyter` on the path.
ENV PATH=${COURSE}/.venv/bin:${PATH}
CMD ["make", "lab"]
