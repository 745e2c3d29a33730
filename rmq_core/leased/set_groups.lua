-- Sets how the messages of a queue wait in groups. Messages that a plain queue holds become a commit, whose messages any client
-- moves to their groups. Where fewer leases than before may hold a group, claims wait until the present leases have ended.
-- A change lets groups that rest be looked at again, and wakes a waiting claim.
-- KEYS: slot  ready  format  leases  staged, record of the commit  stage, its messages  held_before  resting
--       waiters  wake
-- ARGV: seq  slot_ttl_ms  channel, of notifications  new_policy, the value of `ready`, see grouped/ready.lua
--       format_text, the value of `format`  commit, its member of `leases`  stage_id  peace_ms:number, how long
--         until other clients move the messages
-- Reply: 'changed <messages to move>' or 'superseded'.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: notify
local before, count = redis.call('TYPE', ready).ok == 'string' and redis.call('GET', ready), 0
if not before then count = redis.call('LLEN', ready) end
local limit, old = tonumber(string.match(new_policy, '^%d+')), tonumber(string.match(before or '0', '^%d+'))
local seen = before and before ~= new_policy and awaited(waiters, wake)
local held = redis.call('ZRANGE', leases, 0, -1)
redis.call('SET', format, format_text) -- a full server refuses this first write
if count > 0 then
  redis.call('RENAME', ready, stage)
  redis.call('RPUSH', staged, count .. ' 2 ' .. stage_id)
  redis.call('ZADD', leases, clock() + peace_ms, commit)
end
redis.call('SET', ready, new_policy)
if before and before ~= new_policy and redis.call('EXISTS', resting) == 1 then
  redis.call('ZUNIONSTORE', resting, 1, resting, 'WEIGHTS', 0)
end
if limit > 0 and (old == 0 or limit < old) then
  for i = 1, #held do
    if string.sub(held[i], 1, 2) ~= '~+' then redis.call('SADD', held_before, held[i]) end
  end
end
if seen then notify(waiters, wake, channel, clock(), seen) end
return remember('changed ' .. count)
