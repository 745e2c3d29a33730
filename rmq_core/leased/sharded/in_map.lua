-- As there. An outdated map has another epoch than this shard.
-- KEYS: epoch  waiters
-- ARGV: known_epoch
local moved = redis.call('GET', epoch) ~= known_epoch
local function called() return redis.call('ZSCORE', waiters, '@') and ' !' or '' end
