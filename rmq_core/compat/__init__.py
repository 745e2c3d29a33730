"""`RedisMessageQueue`: one message at a time in a `with` block, by gateways that can be exchanged.

A thin shell over the leased engine. `methods`, `consuming` and `heartbeat` hold the behaviour, written once as
coroutines over a `body`; `sync` runs them in one go, `aio` awaits them. They ask a gateway: `verbs` is what the
built-in one does, `operations` are the exchanges that it runs besides the engine's own.
"""
