-- Tells whether the publisher knows an older map of the shards than this one does.
-- KEYS: epoch
-- ARGV: known_epoch
local moved = redis.call('GET', epoch) ~= known_epoch
