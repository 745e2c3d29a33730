# Three images: `rmq` (the default: the core and the command line), `airflow` and `dagster` for compose.yaml.
#
#     docker build --tag rmq .
#     docker run --rm --env RMQ_URL=redis://queues:6379/0 rmq stats
#
# All versions are those of constraints.txt, which the tests run with.
ARG PYTHON=3.13.14-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /source
COPY constraints.txt ./
# pip checks hashes of requirements only, uv those of constraints too.
RUN sed -n '/^uv==/,/[^\\]$/p' constraints.txt > uv.txt && pip install --no-cache-dir --requirement uv.txt
ENV UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1 UV_PYTHON_DOWNLOADS=never
COPY . .
RUN uv build --wheel --build-constraints constraints.txt --out-dir /wheel

FROM build AS rmq-installed
RUN uv venv /opt/rmq \
    && uv pip install --python /opt/rmq --constraints constraints.txt "$(echo /wheel/*.whl)[cli,serve]"

FROM build AS airflow-installed
RUN uv venv /opt/rmq \
    && uv pip install --python /opt/rmq --constraints constraints.txt "$(echo /wheel/*.whl)[airflow,cli]"

FROM build AS dagster-installed
RUN uv venv /opt/rmq \
    && uv pip install --python /opt/rmq --constraints constraints.txt "$(echo /wheel/*.whl)[dagster,cli]" dagster-webserver

# What all three have in common: a user without rights, and a home that belongs to it, for volumes.
FROM python:${PYTHON} AS runtime
RUN useradd --uid 10001 --create-home --home-dir /home/rmq rmq
ENV PATH=/opt/rmq/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
WORKDIR /home/rmq

FROM runtime AS airflow
COPY --from=airflow-installed /opt/rmq /opt/rmq
RUN mkdir -p airflow/dags
ENV AIRFLOW_HOME=/home/rmq/airflow AIRFLOW__CORE__LOAD_EXAMPLES=False
EXPOSE 8080
CMD ["airflow", "standalone"]

FROM runtime AS dagster
COPY --from=dagster-installed /opt/rmq /opt/rmq
RUN mkdir dagster
ENV DAGSTER_HOME=/home/rmq/dagster
EXPOSE 3000
CMD ["dagster", "dev", "--host", "0.0.0.0", "--python-file", "definitions.py"]

FROM runtime AS rmq
COPY --from=rmq-installed /opt/rmq /opt/rmq
ENTRYPOINT ["rmq"]
CMD ["--help"]
