-- Acks, nacks or releases some messages of a lease; the rest stays leased. The last one removes the lease, unless who
-- settles it only works for its holder.
-- KEYS: 1 slot  2 leases  3 lease  4 settled  5 ready  6 delayed  7 dead  8 failed  9 waiters  10 wake  11 timer
--       12 done  13 completed
-- ARGV: 1 seq  2 slot ttl ms  3 lease id  4 token  5 verb: ack, nack or release  6 delay ms  7 reason
--       8 max deliveries or 0  9 dead letter cap  10 failed log cap  11 completed log cap  12 done ttl ms, 0 for none
--       13 bell channel  14 '1' for who holds the lease, '0' for who joined  15... indexes of the messages, highest first
-- Reply: 'some <letters>', or 'all <letters>' when that settled the last message of the lease, 'lost' or 'superseded'.
--   One letter per index: s settled, d dead-lettered, a settled before, m missing.
-- include: clock
-- include: replay
-- include: head
-- include: ring
-- include: timer
-- include: mark
-- include: recount
-- include: set_delayed
-- include: fitting
-- include: give_back
-- include: untouched
-- include: finish
local earlier = replay()
if earlier then return earlier end
local head = held_by(KEYS[3], ARGV[4])
if not head then return 'lost' end
local keys = {id = ARGV[3], leases = KEYS[2], lease = KEYS[3], settled = KEYS[4], ready = KEYS[5], delayed = KEYS[6],
              dead = KEYS[7], failed = KEYS[8], done = KEYS[12], completed = KEYS[13]}
check_types(keys)
redis.call('LLEN', keys.completed)
redis.call('STRLEN', keys.done)
local now, seen, verb = clock(), awaited(KEYS[9], KEYS[10], KEYS[11]), ARGV[5]
local delay, cap = tonumber(ARGV[6]), tonumber(ARGV[11])
local verdict, letters, back, acked, size = 'some ', {}, 0, {}, redis.call('LLEN', keys.lease) - 1
local how = verb == 'release' and untouched(head, keys.lease)
if verb == 'nack' then -- by name: each is to blame alone, for this delivery and not for what happened to all before
  how = {add = head.takeovers + 1, together = 1, shared = size > 1 and head.takeovers or 0,
         group = 2 * string.match(head.token, '^%d+'), entry = table.concat({'nack', now, head.owner, ARGV[7]}, '\t'),
         due = delay > 0 and now + delay or nil, max_deliveries = tonumber(ARGV[8]), max_dead = tonumber(ARGV[9]),
         failed_log = tonumber(ARGV[10])}
end
redis.call('PERSIST', keys.lease)
for i = 15, #ARGV do
  local index = tonumber(ARGV[i])
  if index < 0 or index >= size then
    letters[#letters + 1] = 'm'
  elseif redis.call('SETBIT', keys.settled, index, 1) == 1 then
    letters[#letters + 1] = 'a'
  elseif verb == 'ack' then
    letters[#letters + 1] = 's'
    if cap > 0 then acked[#acked + 1] = redis.call('LINDEX', keys.lease, index + 1) end
  else
    local placed = place({redis.call('LINDEX', keys.lease, index + 1)}, keys, how)
    letters[#letters + 1] = placed == 1 and 's' or 'd'
    back = back + placed
    head.returned = head.returned + 1
  end
end
if #acked > 0 then
  redis.call('LPUSH', keys.completed, unpack(acked))
  redis.call('LTRIM', keys.completed, 0, cap - 1)
end
if verb ~= 'ack' or head.state ~= 'p' then
  head.state = 'p'
  redis.call('LSET', keys.lease, 0, head_text(head))
end
if ARGV[14] == '1' and redis.call('BITCOUNT', keys.settled) >= size then
  -- No record when a message was given back: a retry under this id is to get what came back.
  finish(keys, head, now, head.returned == 0 and tonumber(ARGV[12]) or 0, 0)
  verdict = 'all '
end
if seen and back > 0 and (not how.due or sooner(KEYS[11], how.due)) then ring(KEYS[9], KEYS[10], ARGV[13], now, seen) end
return remember(verdict .. table.concat(letters))
