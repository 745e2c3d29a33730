-- Refuses to write where the queue has no groups any more.
-- KEYS: ready
if not redis.call('GET', ready) then return redis.error_reply('WRONGTYPE the queue has no groups') end
