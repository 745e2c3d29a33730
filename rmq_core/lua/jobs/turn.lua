-- A worker's turn: keeps results, finishes jobs, tells events and reads new jobs. Sent twice, it finishes nothing twice;
-- jobs whose delivery got lost are delivered again when their lease is over.
-- KEYS: 1 ready  2 events  3... where results go
-- ARGV: 1 group  2 consumer  3 how many jobs to read, 0 for none  4 '1' with XREADGROUP CLAIM and XACKDEL  5 lease ms
--       6 events cap  7 result ttl ms  8 ids of the jobs that became active  9 ids of the completed ones
--       10 how many entries to finish  11... these entries, then the results
-- Reply: the entries read: {id, fields[, idle ms, deliveries before]}.
-- include: jobs_entry
local n, native, cap = tonumber(ARGV[10]), ARGV[4] == '1', tonumber(ARGV[6])
redis.call('PERSIST', KEYS[1]) -- a full server denies no first write of this kind, and so drains
for i = 3, #KEYS do
  redis.call('DEL', KEYS[i])
  redis.call('XADD', KEYS[i], '*', 'state', 'completed', 'value', ARGV[8 + n + i])
  redis.call('PEXPIRE', KEYS[i], ARGV[7])
end
for first = 11, 10 + n, 1000 do
  done(KEYS[1], ARGV[1], native, {unpack(ARGV, first, math.min(first + 999, 10 + n))})
end
if ARGV[8] ~= '' then tell(KEYS[2], cap, 'active', {ARGV[8]}) end
if ARGV[9] ~= '' then tell(KEYS[2], cap, 'completed', {ARGV[9]}) end
if ARGV[3] == '0' then return {} end
local reply
if native then
  reply = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[3], 'CLAIM', ARGV[5], 'STREAMS', KEYS[1], '>')
else
  reply = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[3], 'STREAMS', KEYS[1], '>')
end
return reply and reply[1][2] or {}
