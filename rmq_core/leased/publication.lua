-- Returns the counts of a publication. A caller that waits for its end is woken by an entry of `finished`.
-- KEYS: ready  leases  publications  watchers
-- ARGV: name  waiter, who waits  wait_ms:number, for how long, 0 for not at all
-- Reply: {the counts as stored, '' without any, now ms, expired lease ids}.
-- include: clock
-- include: list_expired
-- include: ready
local now = clock()
claimable_at(now) -- messages that have expired are dead
if wait_ms > 0 then
  redis.call('ZREMRANGEBYSCORE', watchers, '-inf', now)
  redis.call('ZADD', watchers, now + wait_ms, waiter)
end
return {redis.call('HGET', publications, name) or '', string.format('%.0f', now), expired(leases, now)}
