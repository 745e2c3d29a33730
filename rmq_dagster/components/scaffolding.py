"""Write the files of `dg scaffold defs`: a working defs.yaml and, beside it, the Python file that it names."""

from __future__ import annotations

from typing import Any, ClassVar

import dagster as dg
from pydantic import BaseModel, Field

JOB = '''"""The Spark job: it works on the messages that its run claimed, and acks them when the block ends."""

from rmq_spark import adopted_batch, session

spark = session("{queue}", **{"spark.ui.showConsoleProgress": False})  # progress bars fill the run's log
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


class SensorScaffolder(dg.Scaffolder[Any]):
    """Write the defs.yaml of a sensor."""

    parameters: ClassVar[type[BaseModel]] = SensorParameters

    @classmethod
    def get_scaffold_params(cls) -> type[BaseModel]:
        return cls.parameters

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        dg.scaffold_component(request, request.params.model_dump(exclude_none=True))


class ServerParameters(BaseModel):
    """Scaffold parameters of the queues of a server."""

    url_variable: str = Field(default="RMQ_URL", description="The environment variable that has the server's URL.")


class ServerScaffolder(SensorScaffolder):
    """Write the defs.yaml of the queues of a server."""

    parameters = ServerParameters

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        url = "{{ env." + request.params.url_variable + " }}"
        dg.scaffold_component(request, {"server": {"url": url}})


class AssetScaffolder(SensorScaffolder):
    """Write the defs.yaml of an asset with these attributes, and beside it the file that they name, with its code."""

    parameters = AssetParameters
    file: ClassVar[str]
    code: ClassVar[str]
    attributes: ClassVar[dict[str, Any]]

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        given = request.params.model_dump(exclude_none=True)
        queue, asset = given.pop("queue"), {"key": given.pop("asset")}
        (request.target_path / self.file).write_text(self.code.replace("{queue}", queue), "utf-8")
        dg.scaffold_component(request, {"queue": queue, "asset": asset, **given, **self.attributes})


class PublishScaffolder(AssetScaffolder):
    parameters, file, code = PublishParameters, "messages.py", MESSAGES
    # A run that is repeated, or a step that is retried, must not publish its messages twice.
    attributes: ClassVar = {"function": ".messages.todays", "settings": {"dedup": True}}


class ConsumeScaffolder(AssetScaffolder):
    file, code, attributes = "work.py", WORK, {"function": ".work.write"}


class SparkScaffolder(AssetScaffolder):
    file, code, attributes = "job.py", JOB, {"application": "job.py"}
