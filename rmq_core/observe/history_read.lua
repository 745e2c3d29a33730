-- Reads the newest minutes or hours of the history of a queue; changes nothing.
-- KEYS: history
-- ARGV: unit, 'm' for minutes or 'h' for hours  unit_ms:number  ring:number, how many of them are kept  most:number
-- Reply: {the number of the current minute or hour since 1970, what is kept for each, oldest first}.
-- include: clock
local current, places = math.floor(clock() / unit_ms), {}
for i = 1, most do places[i] = unit .. (current - most + i) % ring end
return {current, redis.call('HMGET', history, unpack(places))}
