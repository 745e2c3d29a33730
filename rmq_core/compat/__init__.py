"""`RedisMessageQueue`: one message at a time in a `with` block, through a gateway that can be replaced.

A thin layer over the leased engine. `queue_methods`, `consuming` and `heartbeat` hold the behaviour, written once as
coroutines over a `body`, the state of a queue; `sync` runs each in one step, `aio` awaits them. They call a gateway:
`gateway_methods` implements the built-in one, and `operations` holds the exchanges that it runs besides the engine's.
"""
