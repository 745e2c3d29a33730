-- A job failed: back through the delayed ones with one attempt more, or to the dead letters; once, whoever says so first.
-- KEYS: 1 slot  2 ready  3 delayed  4 later  5 dead  6 events  7 alarm  8 result
-- ARGV: 1 seq  2 slot ttl ms  3 group  4 '1' with XACKDEL  5 entry  6 attempts that failed  7 '1' for the dead letters
--       8 delay ms  9 worker  10 reason  11 dead letter cap  12 events cap  13 result ttl ms, 0 for no result
--       14 '1' to tell that it became active
-- Reply: 'later', 'dead', 'gone' or 'superseded'.
-- include: clock
-- include: replay
-- include: jobs_entry
-- include: jobs_alarm
-- include: jobs_later
-- include: jobs_dead
-- include: recount
local earlier = replay()
if earlier then return earlier end
local entry = redis.call('XRANGE', KEYS[2], ARGV[5], ARGV[5])[1]
local envelope = entry and envelope_of(entry[2])
redis.call('ZCARD', KEYS[3])
redis.call('HLEN', KEYS[4])
redis.call('LLEN', KEYS[5])
redis.call('XLEN', KEYS[6])
redis.call('LLEN', KEYS[7])
redis.call('XLEN', KEYS[8])
if not envelope or done(KEYS[2], ARGV[3], ARGV[4] == '1', {ARGV[5]}) == 0 then return refuse('gone') end
local now, cap = clock(), tonumber(ARGV[12])
local before = tonumber(string.match(envelope, '^(%d+) '))
local line = table.concat({'nack', now, ARGV[9], ARGV[10]}, '\t') .. '\n'
local _, failed = recount(envelope, {add = tonumber(ARGV[6]) - before, entry = line})
local id = message_id(failed)
if ARGV[14] == '1' then tell(KEYS[6], cap, 'active', {id}) end
if ARGV[7] == '1' then
  bury(KEYS[5], failed, tonumber(ARGV[11]))
  tell(KEYS[6], cap, 'failed', {id}, ARGV[10])
  tell(KEYS[6], cap, 'dead', {id}, ARGV[10])
  if ARGV[13] ~= '0' then
    redis.call('DEL', KEYS[8])
    redis.call('XADD', KEYS[8], '*', 'state', 'dead', 'value', ARGV[10])
    redis.call('PEXPIRE', KEYS[8], ARGV[13])
  end
  return remember('dead')
end
put_later(KEYS[3], KEYS[4], KEYS[7], now + tonumber(ARGV[8]), id, failed)
tell(KEYS[6], cap, 'failed', {id}, ARGV[10])
tell(KEYS[6], cap, 'retry', {id}, ARGV[8])
return remember('later')
