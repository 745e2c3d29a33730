-- Refuses to write where the queue has no groups any more.
-- KEYS: ready
local policy = redis.call('GET', ready)
if not policy then return redis.error_reply('WRONGTYPE the queue has no groups') end
