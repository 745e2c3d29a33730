-- Commits stages, all or none; any client can then make their messages ready.
-- KEYS: slot  leases  staged, record of the commit  sink, the number of its last batch  ready  delayed  stages...
-- ARGV: seq  slot_ttl_ms  commit, its member of `leases`  batch, number of this batch, '' without a sink
--       remembered_ms, how long to keep `sink`  peace_ms:number, how long until other clients make the messages ready
--       max_ready:number, or 0  elements..., for each stage '<messages> <1 when plain> <id>'
-- Reply: 'committed', 'before' (that batch or one of these stages was published), 'gone <id of a stage that is not
--   whole>', 'full <now ms>' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: ready
local last = redis.call('GET', sink)
if batch ~= '' and last and tonumber(last) >= tonumber(batch) then return refuse('before') end
local now, total = clock(), 0
for i = 1, #stages do
  local count, _, id = string.match(elements[i], '^(%d+) (%d) (.*)$')
  local held, ttl = redis.call('LLEN', stages[i]), redis.call('PTTL', stages[i])
  if ttl == -1 then return refuse('before') end
  if held ~= tonumber(count) then return refuse('gone ' .. id) end
  total = total + held
end
if max_ready > 0 and size_of() + redis.call('ZCARD', delayed) + total > max_ready then
  return refuse('full ' .. now)
end
redis.call('ZCARD', leases)
if total > 0 then
  for i = 1, #stages do redis.call('RPUSH', staged, elements[i]) end
  for i = 1, #stages do redis.call('PERSIST', stages[i]) end
  redis.call('ZADD', leases, now + peace_ms, commit)
end
if batch ~= '' then redis.call('SET', sink, batch, 'PX', remembered_ms) end
return remember('committed')
