"""How a message is written and read: the only place that knows, for Python; `lua/include/envelope.lua` is its twin."""
