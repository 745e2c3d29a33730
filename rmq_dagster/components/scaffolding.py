"""Write the files of `dg scaffold defs`: a working defs.yaml and, beside it, the Python file that it names."""

from __future__ import annotations

from typing import Any

import dagster as dg
from pydantic import BaseModel, Field

JOB = '''"""The Spark job: it works on the messages that its run claimed, and acks them when the block ends."""

from rmq_spark import adopted_batch, session

spark = session("{queue}", **{{"spark.ui.showConsoleProgress": False}})  # progress bars fill the run's log
with adopted_batch(spark) as batch:
    batch.df.selectExpr("message_id", "string(payload)").show(truncate=False)
spark.stop()
'''
WORK = '''"""The work on a message. It is acked when the function returns; if it raises, the message is tried again."""

from rmq_core import Message


def write(message: Message) -> None:
    print(message.id, message.payload)
'''
MESSAGES = '''"""The messages to publish. Payloads are strings, bytes, dicts or lists."""


def todays() -> list[dict[str, str]]:
    return [{"name": "first"}, {"name": "second"}]
'''


class SensorParameters(BaseModel):
    """Scaffold parameters of a sensor."""

    queue: str = Field(description="Name of the queue.")
    target: str = Field(description="The asset that a run works on.")
    batch: int = Field(default=1, description="How many messages a run claims.")
    partitions: str | None = Field(default=None, description="Name of dynamic partitions with a queue each.")


class AssetParameters(BaseModel):
    """Scaffold parameters of an asset that consumes."""

    queue: str = Field(description="Name of the queue.")
    asset: str = Field(description="Key of the asset.")
    partitions: str | None = Field(default=None, description="Name of dynamic partitions with a queue each.")


class PublishParameters(AssetParameters):
    """Scaffold parameters of an asset that publishes."""

    partition_by: str | None = Field(default=None, description="The field of a message that names its partition.")


class SensorScaffolder(dg.Scaffolder[SensorParameters]):
    """Write the defs.yaml of a sensor."""

    @classmethod
    def get_scaffold_params(cls) -> type[SensorParameters]:
        return SensorParameters

    def scaffold(self, request: dg.ScaffoldRequest[SensorParameters]) -> None:
        dg.scaffold_component(request, request.params.model_dump(exclude_none=True))


class PublishScaffolder(dg.Scaffolder[PublishParameters]):
    """Write the defs.yaml of a publisher, and messages.py with the function that it calls."""

    @classmethod
    def get_scaffold_params(cls) -> type[PublishParameters]:
        return PublishParameters

    def scaffold(self, request: dg.ScaffoldRequest[PublishParameters]) -> None:
        # A run that is repeated, or a step that is retried, must not publish its messages twice.
        attributes = {"function": ".messages.todays", "settings": {"dedup": True}}
        _write(request, "messages.py", MESSAGES, attributes)


class ConsumeScaffolder(dg.Scaffolder[AssetParameters]):
    """Write the defs.yaml of a consumer, and work.py with the function that it calls."""

    @classmethod
    def get_scaffold_params(cls) -> type[AssetParameters]:
        return AssetParameters

    def scaffold(self, request: dg.ScaffoldRequest[AssetParameters]) -> None:
        _write(request, "work.py", WORK, {"function": ".work.write"})


class SparkScaffolder(dg.Scaffolder[AssetParameters]):
    """Write the defs.yaml of a Spark job, and job.py with the job."""

    @classmethod
    def get_scaffold_params(cls) -> type[AssetParameters]:
        return AssetParameters

    def scaffold(self, request: dg.ScaffoldRequest[AssetParameters]) -> None:
        _write(request, "job.py", JOB.format(queue=request.params.queue), {"application": "job.py"})


def _write(request: dg.ScaffoldRequest[Any], file: str, code: str, attributes: dict[str, Any]) -> None:
    (request.target_path / file).write_text(code, "utf-8")
    given = request.params.model_dump(exclude_none=True)
    asset = {"key": given.pop("asset")}
    dg.scaffold_component(request, {"queue": given.pop("queue"), "asset": asset, **given, **attributes})
