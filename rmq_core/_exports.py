"""The public names that `rmq_core` and `rmq_core.asyncio` have in common: values, errors, settings, policies.

The names of a single discipline are in its own module, such as `rmq_core.jobs`; `rmq_core.work` is for orchestrators.
"""

from __future__ import annotations

from rmq_core.connection.settings import RedisSettings as RedisSettings
from rmq_core.discipline.leased.config import LeasedConfig as LeasedConfig
from rmq_core.discipline.leased.operations.consumers import ConsumerRegistration as ConsumerRegistration
from rmq_core.envelope.codec import MESSAGE_FIELDS as MESSAGE_FIELDS
from rmq_core.envelope.codec import Columns as Columns
from rmq_core.envelope.codec import Failure as Failure
from rmq_core.envelope.codec import Message as Message
from rmq_core.envelope.codec import MessageField as MessageField
from rmq_core.envelope.codec import MessageRef as MessageRef
from rmq_core.envelope.codec import header_items as header_items
from rmq_core.errors import CleanupFailedError as CleanupFailedError
from rmq_core.errors import ConfigurationError as ConfigurationError
from rmq_core.errors import ConsumerTaken as ConsumerTaken
from rmq_core.errors import ExportDamaged as ExportDamaged
from rmq_core.errors import FormatMismatch as FormatMismatch
from rmq_core.errors import GatewayContractError as GatewayContractError
from rmq_core.errors import ImportConflict as ImportConflict
from rmq_core.errors import JobFailed as JobFailed
from rmq_core.errors import LeaseAlreadySettled as LeaseAlreadySettled
from rmq_core.errors import LeaseLost as LeaseLost
from rmq_core.errors import LeaseOwnedByOther as LeaseOwnedByOther
from rmq_core.errors import LeftUnsettled as LeftUnsettled
from rmq_core.errors import MalformedMessage as MalformedMessage
from rmq_core.errors import NotDurable as NotDurable
from rmq_core.errors import PayloadError as PayloadError
from rmq_core.errors import PayloadTooDeep as PayloadTooDeep
from rmq_core.errors import PayloadTooLarge as PayloadTooLarge
from rmq_core.errors import QueueBackpressureError as QueueBackpressureError
from rmq_core.errors import QueueChanged as QueueChanged
from rmq_core.errors import QueueDrainedError as QueueDrainedError
from rmq_core.errors import QueueError as QueueError
from rmq_core.errors import QueueFull as QueueFull
from rmq_core.errors import QueueNotEmpty as QueueNotEmpty
from rmq_core.errors import QueueUnavailable as QueueUnavailable
from rmq_core.errors import RedisMessageQueueError as RedisMessageQueueError
from rmq_core.errors import ScriptFailed as ScriptFailed
from rmq_core.errors import StageLost as StageLost
from rmq_core.errors import UnknownPayloadKind as UnknownPayloadKind
from rmq_core.errors import UnrecoverableError as UnrecoverableError
from rmq_core.errors import Unsupported as Unsupported
from rmq_core.errors import WrongKeyType as WrongKeyType
from rmq_core.events import EventOperation as EventOperation
from rmq_core.events import EventOutcome as EventOutcome
from rmq_core.events import Operation as Operation
from rmq_core.events import QueueEvent as QueueEvent
from rmq_core.interrupt_handler import BaseGracefulInterruptHandler as BaseGracefulInterruptHandler
from rmq_core.interrupt_handler import EventDrivenInterruptHandler as EventDrivenInterruptHandler
from rmq_core.interrupt_handler import GracefulInterruptHandler as GracefulInterruptHandler
from rmq_core.messages import IsolatedGroup as IsolatedGroup
from rmq_core.messages import Isolation as Isolation
from rmq_core.messages import Lease as Lease
from rmq_core.messages import NewMessage as NewMessage
from rmq_core.messages import Stage as Stage
from rmq_core.policy import Backoff as Backoff
from rmq_core.policy import Durability as Durability
from rmq_core.policy import Overflow as Overflow
from rmq_core.policy import exponential as exponential
from rmq_core.protocol import DISCIPLINES as DISCIPLINES
from rmq_core.protocol import AsyncWorkQueue as AsyncWorkQueue
from rmq_core.protocol import Capabilities as Capabilities
from rmq_core.protocol import WorkQueue as WorkQueue
from rmq_core.protocol import require as require
from rmq_core.reports import Backlog as Backlog
from rmq_core.reports import LeaseInfo as LeaseInfo
from rmq_core.reports import MessagePage as MessagePage
from rmq_core.reports import Outcome as Outcome
from rmq_core.reports import Published as Published
from rmq_core.reports import PublishReport as PublishReport
from rmq_core.reports import QueueStats as QueueStats
from rmq_core.reports import SettledRecord as SettledRecord
from rmq_core.reports import SettleReport as SettleReport
