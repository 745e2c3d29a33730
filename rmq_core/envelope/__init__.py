"""The only Python code that knows the format of a stored message; `lua/include/envelope.lua` is its twin in Lua."""
