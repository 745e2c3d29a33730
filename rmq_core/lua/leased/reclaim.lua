-- Takes the messages of an expired lease, or of one whose deliveries are used up, back; its holder is fenced off.
-- KEYS: 1 slot  2 leases  3 lease  4 settled  5 ready  6 delayed  7 dead  8 failed  9 waiters  10 wake  11 fence
-- ARGV: 1 seq  2 slot ttl ms  3 lease id  4 token of an earlier chunk, or ''  5 nonce  6 max deliveries or 0
--       7 dead letter cap  8 failed log cap  9 bell channel  10 '1' when used up deliveries are reason enough
-- Reply: 'returned <count> <messages left in the lease> <token> [<dead ids>]', 'live' (not expired, or gone) or
--   'superseded'.
-- include: clock
-- include: replay
-- include: head
-- include: ring
-- include: mark
-- include: used_up
-- include: recount
-- include: set_delayed
-- include: fitting
-- include: give_back
-- include: failure
-- include: untouched
local earlier = replay()
if earlier then return earlier end
local keys = {id = ARGV[3], leases = KEYS[2], lease = KEYS[3], settled = KEYS[4], ready = KEYS[5], delayed = KEYS[6],
              dead = KEYS[7], failed = KEYS[8]}
local head, now = head_of(KEYS[3]), clock()
if not head then
  redis.call('ZREM', KEYS[2], ARGV[3])
  return refuse('live')
end
local max = tonumber(ARGV[6])
if ARGV[4] == '' then
  local deadline = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[3]) or '-inf')
  local first = redis.call('LINDEX', KEYS[3], 1)
  local spent = ARGV[10] == '1' and used_up(first, head.takeovers, redis.call('LLEN', KEYS[3]) - 1, max)
  if deadline > now and not spent then return refuse('live') end
elseif head.token ~= ARGV[4] then
  return refuse('live')
end
check_types(keys)
local seen = awaited(KEYS[9], KEYS[10])
redis.call('PERSIST', KEYS[2])
local releasing = head.state == 'l' or head.state == 'r'
if ARGV[4] == '' then head.token = redis.call('INCRBY', KEYS[11], 2) .. '.' .. ARGV[5] end
local how = releasing and untouched(head, KEYS[3]) or failure_of(head, KEYS[3], KEYS[4])
if not releasing then how.entry = table.concat({'expired', now, head.owner, ''}, '\t') end
how.max_deliveries, how.max_dead, how.failed_log = max, tonumber(ARGV[7]), tonumber(ARGV[8])
if ARGV[4] == '' then
  head.state = releasing and 'r' or 'x'
  redis.call('LSET', KEYS[3], 0, head_text(head))
end
-- A quarter of what release moves: each envelope is written anew.
local back, dead, left = give_back(keys, 1000, how)
if seen and back > 0 then ring(KEYS[9], KEYS[10], ARGV[9], now, seen) end
return remember(table.concat({'returned', back + #dead, left, head.token, unpack(dead)}, ' '))
