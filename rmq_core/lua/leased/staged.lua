-- Tells the deduplication keys of the next messages of a stage; changes nothing.
-- KEYS: 1 stage
-- ARGV: 1 of how many messages, at most
-- Reply: {messages in the stage, for each of the next ones the digest of its key, or '-'}.
local found, digests = redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1), {}
for i = 1, #found do
  digests[#digests + 1] = string.match(string.sub(found[i], 1, 80), '^%d+ %d+ %d+ \1%d+ (%S+) ') or '-'
end
return {redis.call('LLEN', KEYS[1]), digests}
