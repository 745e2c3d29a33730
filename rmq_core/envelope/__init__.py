"""The only Python code that knows the format of a stored message; the Lua scripts use `kernel/include/envelope.lua`."""
