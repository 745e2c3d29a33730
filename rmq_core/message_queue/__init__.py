"""`RedisMessageQueue`: one message at a time in a `with` block, by gateways that can be exchanged.

A thin shell over the leased engine. `publishing`, `consuming`, `draining`, `operating` and `heartbeat` hold the
behaviour, written once as steps over a `body`; `sync` and `aio` run the steps; `gateway`, `channels` and `verbs` turn
what a gateway is asked into operations of the engine.
"""
