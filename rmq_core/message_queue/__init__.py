"""`RedisMessageQueue`: one message at a time in a `with` block, by gateways that can be exchanged.

A thin shell over the leased engine. `operations`, `consuming` and `heartbeat` hold the behaviour, written once as
coroutines over a `body`; `sync` runs them in one go, `aio` awaits them. `gateway` and `verbs` turn what a gateway is
asked into operations of the engine.
"""
