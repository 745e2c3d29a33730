-- Makes the next messages of a publication ready, or delayed, without those whose deduplication key is taken.
-- KEYS: 1 slot  2 leases  3 record of the publication  4 its first stage  5 ready  6 delayed  7 waiters  8 wake
--       9 timer  10... deduplication keys of these messages, in order, of those that have one
-- ARGV: 1 seq  2 slot ttl ms  3 the publication as a member of the leases  4 the first element of the record
--       5 bell channel  6 ms after which others go on  7 nonce of this call  8 deduplication window ms
--       9 messages in the stage, '' when it is plain  10 how many to move, at most
-- Reply: 'moved <accepted> <duplicates> <messages left in the stage>', 'elsewhere' when that was done by another, or
--   'superseded'.
-- include: clock
-- include: replay
-- include: ring
-- include: timer
-- include: set_delayed
-- include: fitting
-- include: take
local earlier = replay()
if earlier then return earlier end
local first, most, plain = redis.call('LINDEX', KEYS[3], 0), tonumber(ARGV[10]), ARGV[9] == ''
if not first then redis.call('ZREM', KEYS[2], ARGV[3]) end
local held = redis.call('LLEN', KEYS[4])
if first ~= ARGV[4] or not (plain or held == tonumber(ARGV[9])) then return refuse('elsewhere') end
local now, seen = clock(), awaited(KEYS[7], KEYS[8], KEYS[9])
redis.call('LLEN', KEYS[5]) -- refuses a wrong type before anything is written
redis.call('ZCARD', KEYS[6])
redis.call('ZCARD', KEYS[2])
local keys, taken, met = #KEYS - 9, {}, {}
if keys > 0 then
  taken = redis.call('MGET', unpack(KEYS, 10))
  local holders = {}
  for i = 1, keys do if not taken[i] then holders[#holders + 1] = KEYS[9 + i] end end
  if #holders > 0 and redis.call('EXISTS', unpack(holders)) > 0 then -- MGET does not tell
    return redis.error_reply('WRONGTYPE a deduplication key holds another kind of value')
  end
end
redis.call('PERSIST', KEYS[4]) -- a write that a full server does not refuse: this was decided before, and only moves
local accepted, moved, bytes, at = 0, 0, 0, 0
local due, added = nil, false
if plain and held > 0 then
  local renamed = redis.call('RENAMENX', KEYS[4], KEYS[5]) == 1
  moved = renamed and held or take(KEYS[4], KEYS[5], most)
  accepted, added = moved, true
end
while not plain and moved < most and bytes < 8388608 do
  local got = redis.call('LPOP', KEYS[4], math.min(most - moved, fitting(KEYS[4], 0, moved, bytes)))
  if not got then break end
  local ready = {}
  for i = 1, #got do
    local entry, delay, fresh = got[i], 0, true
    bytes = bytes + #entry
    local stamp, wait, digest, body = string.match(entry, '^(%d+ %d+ %d+ )\1(%d+) (%S+) (.*)$')
    if stamp then
      entry, delay = stamp .. body, tonumber(wait)
      if digest ~= '-' then
        at = at + 1
        local key = KEYS[9 + at]
        fresh = not met[key] and not taken[at]
        met[key] = true
        if fresh then redis.call('SET', key, ARGV[7], 'PX', ARGV[8]) end
      end
    end
    if fresh then accepted = accepted + 1 end
    if fresh and delay > 0 then
      set_delayed(KEYS[6], now + delay, entry)
      due = math.min(due or now + delay, now + delay)
    elseif fresh then
      ready[#ready + 1] = entry
    end
  end
  if #ready > 0 then added = redis.call('RPUSH', KEYS[5], unpack(ready)) end
  moved = moved + #got
end
if moved == held then redis.call('LPOP', KEYS[3]) end
if redis.call('LLEN', KEYS[3]) == 0 then redis.call('ZREM', KEYS[2], ARGV[3])
else redis.call('ZADD', KEYS[2], 'XX', 'GT', now + tonumber(ARGV[6]), ARGV[3]) end
if seen and (added or due and sooner(KEYS[9], due)) then ring(KEYS[7], KEYS[8], ARGV[5], now, seen) end
return remember('moved ' .. accepted .. ' ' .. moved - accepted .. ' ' .. held - moved)
