-- Adds a chunk of messages to ready or delayed, without those whose deduplication key is taken; whole or not at all.
-- KEYS: 1 slot  2 ready  3 delayed  4 waiters  5 wake  6 timer  7... deduplication keys, one per message or none
--       [last: the slot of the chunk before, when chained]
-- ARGV: 1 seq  2 slot ttl ms  3 bell channel  4 delay ms  5 max ready or 0  6 '1' to drop the oldest when full
--       7 nonce of this call  8 deduplication window ms, 0 for none  9 number of messages
--       10 server time that their publisher has written before them, 0 for none  11... the messages
--       [last: the seq of the chunk before, when chained]
-- Reply: 'accepted <dropped> [<one digit per message: 1 accepted, 0 duplicate>] [@<now ms>, of many]', 'full <now ms>',
--   'unchained' or 'superseded'.
-- include: clock
-- include: replay
-- include: stamped
-- include: ring
-- include: timer
-- include: set_delayed
local earlier = replay()
if earlier then return earlier end
local n, window, delay, max = tonumber(ARGV[9]), tonumber(ARGV[8]), tonumber(ARGV[4]), tonumber(ARGV[5])
local keys = window > 0 and n or 0
if #KEYS > 6 + keys then
  local before = redis.call('GET', KEYS[#KEYS]) or ''
  if string.sub(before, 1, #ARGV[#ARGV] + 9) ~= ARGV[#ARGV] .. ' accepted' then return 'unchained' end
end
local now = clock()
local seen = awaited(KEYS[4], KEYS[5], KEYS[6])
local fresh, verdicts, markers, met = stamped(ARGV[10], now, 11, 10 + n), nil, {}, {}
if keys > 0 then
  local given = fresh
  verdicts, fresh = {}, {}
  local taken = keys == 1 and {redis.call('GET', KEYS[7])} or redis.call('MGET', unpack(KEYS, 7, 6 + keys))
  for i = 1, n do
    local key = KEYS[6 + i]
    verdicts[i] = '0'
    if not met[key] and (not taken[i] or taken[i] == ARGV[7]) then verdicts[i] = '1' end
    if not met[key] and not taken[i] then
      markers[#markers + 1] = key
      fresh[#fresh + 1] = given[i]
    end
    met[key] = true
  end
end
if keys > 1 and #markers > 0 and redis.call('EXISTS', unpack(markers)) > 0 then -- MGET does not tell
  return redis.error_reply('WRONGTYPE a deduplication key holds another kind of value')
end
local dropped, isolated = 0, 0
if max > 0 and #fresh > 0 then
  local room = max - redis.call('LLEN', KEYS[2]) - redis.call('ZCARD', KEYS[3])
  if room < #fresh then
    isolated = redis.call('ZCOUNT', KEYS[3], '-inf', '(0') -- ready as well, see isolated.lua
    if ARGV[6] ~= '1' or #fresh - room > redis.call('LLEN', KEYS[2]) + isolated then return refuse('full ' .. now) end
    dropped = #fresh - room
  end
end
if #fresh > 0 and delay > 0 then
  local due = now + delay
  for i = 1, #fresh do set_delayed(KEYS[3], due, fresh[i]) end
  if seen and sooner(KEYS[6], due) then ring(KEYS[4], KEYS[5], ARGV[3], now, seen) end
elseif #fresh > 0 then
  redis.call('RPUSH', KEYS[2], unpack(fresh))
  if seen then ring(KEYS[4], KEYS[5], ARGV[3], now, seen) end
end
if dropped > 0 then -- the first write is one that a full server refuses
  local apart = math.min(dropped, isolated)
  if apart > 0 then redis.call('ZREMRANGEBYRANK', KEYS[3], isolated - apart, isolated - 1) end
  if dropped > apart then redis.call('LPOP', KEYS[2], dropped - apart) end
end
for i = 1, #markers do redis.call('SET', markers[i], ARGV[7], 'PX', ARGV[8]) end
local told = n > 1 and ' @' .. now or ''
return remember('accepted ' .. dropped .. (verdicts and ' ' .. table.concat(verdicts) or '') .. told)
