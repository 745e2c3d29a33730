-- Acks, nacks or releases some messages of a lease; the rest stays leased. Settling the last one removes the lease,
-- unless the caller only joined the lease and does not hold it.
-- KEYS: slot  leases  lease  settled  ready  delayed  dead  failed  waiters  wake  timer
--       done  completed
-- ARGV: seq  slot_ttl_ms  lease_id  token  verb, ack, nack or release; move: to the dead letters, as an operator
--         wants  delays, of nack_delays.lua  reason, of a move behind the operator and a tab
--       max_deliveries:number, or 0  max_dead:number, cap of the dead letters  failed_cap:number, of the failed log
--       completed_cap:number, of the completed log  done_ttl_ms:number, 0 for none  breaker, of breaker.lua
--       channel, of notifications  holds, '1' if the caller holds the lease, '0' if it joined  indexes..., of the messages, highest first
-- Reply: 'some <letters>', or 'all <letters>' when that settled the last message of the lease, 'lost' or 'superseded'.
--   One letter per index: s settled, d dead-lettered, a settled before, m missing. Then what reported() adds.
-- include: clock
-- include: replay
local earlier = replay()
if earlier then return earlier end
-- include: head
-- include: notify
-- include: timer
-- include: give_back
-- include: alone
-- include: untouched
-- include: finish
local head = held_by(lease, token)
if not head then return 'lost' end
local keys = {id = lease_id, leases = leases, lease = lease, settled = settled, ready = ready, delayed = delayed,
              dead = dead, failed = failed, done = done, completed = completed}
check_types(keys)
redis.call('LLEN', completed)
redis.call('STRLEN', done)
local now, seen = clock(), awaited(waiters, wake, timer)
local verdict, letters, back, acked, size = 'some ', {}, 0, {}, redis.call('LLEN', lease) - 1
local acked_now = {}
local how = verb == 'release' and untouched(head, lease)
if verb == 'nack' or verb == 'move' then
  how = alone_of(head, size)
  how.entry = table.concat(verb == 'nack' and {'nack', now, head.owner, reason} or {'moved', now, reason}, '\t')
  how.waits, how.now = waits_of(delays), now
  how.max_deliveries, how.max_dead, how.failed_cap = max_deliveries, max_dead, failed_cap
end
redis.call('PERSIST', lease)
for i = 1, #indexes do
  local index = tonumber(indexes[i])
  if index < 0 or index >= size then
    letters[#letters + 1] = 'm'
  elseif redis.call('SETBIT', settled, index, 1) == 1 then
    letters[#letters + 1] = 'a'
  elseif verb == 'ack' then
    letters[#letters + 1] = 's'
    acked_now[#acked_now + 1] = index
    if completed_cap > 0 then acked[#acked + 1] = redis.call('LINDEX', lease, index + 1) end
  else
    local placed = place({redis.call('LINDEX', lease, index + 1)}, keys, how, {index})
    letters[#letters + 1] = placed == 1 and 's' or 'd'
    back = back + placed
    head.returned = head.returned + 1
  end
end
if acked_alone and #acked_now > 0 then acked_alone(lease, acked_now) end
if #acked > 0 then
  redis.call('LPUSH', completed, unpack(acked))
  redis.call('LTRIM', completed, 0, completed_cap - 1)
end
if verb ~= 'ack' or (head.state ~= 'p' and head.state ~= 'q') then
  if head.state ~= 'q' then head.state = 'p' end
  redis.call('LSET', lease, 0, head_text(head))
end
if holds == '1' and redis.call('BITCOUNT', settled) >= size then
  -- No record if a message was nacked or released: a retry under this id has to be able to claim it.
  finish(keys, head, now, head.returned == 0 and done_ttl_ms or 0, 0)
  verdict = 'all '
end
if seen and back > 0 and sooner(timer, how.soonest) then notify(waiters, wake, channel, now, seen, how.soonest > 0) end
return remember(reported(verdict .. table.concat(letters)))
