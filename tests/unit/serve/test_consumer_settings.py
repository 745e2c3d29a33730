from __future__ import annotations

import pytest

from rmq_core import ConfigurationError
from rmq_core.protocol import DISCIPLINES
from rmq_core.serve.consumer_settings import ConsumerSettings


def test_a_setting_holds_for_every_discipline_that_has_it_and_one_of_a_queue_takes_precedence() -> None:
    settings = ConsumerSettings(["max_deliveries=3", "a:b:max_deliveries=null", "claim_idle_ms=5000"])
    assert settings.of("work", "leased").max_deliveries == 3
    assert settings.of("a:b", "leased").max_deliveries is None
    assert settings.of("work", "streams").claim_idle_ms == 5000
    assert settings.of("work", "reliable").max_deliveries == 3


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_without_settings_the_defaults_of_the_discipline_hold(discipline: str) -> None:
    assert ConsumerSettings().of("work", discipline) is not None


def test_a_stream_is_read_under_its_own_name() -> None:
    settings = ConsumerSettings()
    assert settings.of("a", "streams").stream_key != settings.of("b", "streams").stream_key


@pytest.mark.parametrize("text", ["max_deliveries", "max_delivery=3", "work:=3", "max_deliveries=0"])
def test_a_wrong_setting_is_refused_when_the_server_starts(text: str) -> None:
    with pytest.raises(ConfigurationError):
        ConsumerSettings([text])
