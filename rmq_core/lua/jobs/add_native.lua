-- Adds ready jobs; the server knows a producer's ids again, so that a resend adds nothing.
-- KEYS: 1 ready
-- ARGV: 1 producer  2... id and body of each job
-- Reply: 'accepted'.
-- include: clock
local stamp = '0 ' .. clock() .. ' 0 '
for i = 2, #ARGV, 2 do
  redis.call('XADD', KEYS[1], 'IDMP', ARGV[1], ARGV[i], '*', 'e', stamp .. ARGV[i + 1])
end
return 'accepted'
