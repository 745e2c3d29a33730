-- Begins a publication, or lets one of its publishers end. It has not ended while one of them is at work, unless nothing
-- arrives for ten minutes. Of others, which ended more than `keep_ms` ago, some are forgotten.
-- KEYS: slot  publications  watchers  finished  waiters
-- ARGV: seq  slot_ttl_ms  name  change:number, 1 for a publisher that begins, -1 for one that ends  keep_ms:number
--       channel, of notifications
-- Reply: 'done' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: publications
local c, now = counts_of(name, true), clock()
if change > 0 then
  if c.until_ms <= now then c.publishers = 0 end
  c.until_ms = now + SILENT_MS
  local some = redis.call('EXISTS', publications) == 1 and redis.call('HRANDFIELD', publications, 2) or {}
  for i = 1, #some do
    local other = counts_of(some[i])
    if other and other.ended_ms > 0 and other.ended_ms < now - keep_ms and some[i] ~= name then
      redis.call('HDEL', publications, some[i])
      counts[some[i]] = false
    end
  end
end
c.publishers = math.max(0, c.publishers + change)
keep_counts()
return remember('done')
