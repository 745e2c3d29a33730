"""The messages that the recipes in this folder read: orders, one JSON object a message."""

from __future__ import annotations

from pyspark.sql import DataFrame


def orders(messages: DataFrame) -> DataFrame:
    """Return one row for each message: its id, which every sink uses as key, and the fields of the order."""
    text = "cast(payload as string)"
    return messages.selectExpr(
        "message_id",
        f"cast(get_json_object({text}, '$.number') as int) as number",
        f"cast(get_json_object({text}, '$.amount') as double) as amount",
    )
